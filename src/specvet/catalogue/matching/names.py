"""What the columns of a catalogue mean, by the names that people give them.

Names count without regard to case, except that `Gmag`, Gaia's, is taken before `gmag`, which is also a Sloan magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specvet.data.errors import InputError

NAMES: Mapping[str, tuple[str, ...]] = {
    "ra": ("ra", "ra_icrs", "radeg", "ra_deg", "target_ra", "gaia_ra", "raj2000", "_raj2000", "_ra", "ra_j2000"),
    "dec": (
        "dec", "de_icrs", "dec_icrs", "dedeg", "decdeg", "dec_deg", "target_dec", "gaia_dec", "dej2000", "_dej2000",
        "decj2000", "_de", "dec_j2000",
    ),
    "source_id": (
        "source_id", "sourceid", "gaia_source_id", "gaia_dr3_source_id", "dr3_source_id", "gaia_dr3", "gaiadr3",
        "gaiaedr3", "gaia_id", "gaia", "source",
    ),
    "pmra": ("pmra", "pm_ra", "pmra_cosdec", "gaia_pmra"),
    "pmdec": ("pmdec", "pmde", "pm_dec", "pm_de", "gaia_pmdec"),
    "ref_epoch": ("ref_epoch", "epoch", "gaia_ref_epoch"),
    "parallax": ("parallax", "plx", "gaia_parallax"),
    "parallax_error": ("parallax_error", "e_plx", "plx_error", "e_parallax", "parallax_err", "gaia_parallax_error"),
    "ruwe": ("ruwe", "gaia_ruwe"),
    "g": ("phot_g_mean_mag", "Gmag", "g_mag_gaia", "gaia_g", "phot_g", "gmag"),
    "bp_rp": ("bp_rp", "bp-rp", "bprp", "bp_minus_rp", "gaia_bp_rp"),
    "bp": ("phot_bp_mean_mag", "bpmag"),
    "rp": ("phot_rp_mean_mag", "rpmag"),
    "name": ("main_id", "name", "object", "designation", "id", "objid", "oid", "source_id", "source"),
    "type": ("otype", "main_type", "type", "class", "vartype", "var_type", "spectral_type", "sptype", "sp_type"),
}  # fmt: skip
"""Meaning → names, the better known first."""

UNITS = {
    "ra": "deg", "dec": "deg", "pmra": "mas / yr", "pmdec": "mas / yr", "ref_epoch": "yr", "parallax": "mas",
    "parallax_error": "mas", "g": "mag", "bp_rp": "mag", "bp": "mag", "rp": "mag",
}  # fmt: skip
"""What a number is turned into where the table states another unit."""

EQUINOX_2000 = ("raj2000", "_raj2000", "ra_j2000")
"""Positions that catalogue services have carried to 2000.0."""


def meanings(path: str, columns: Sequence[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Meaning → column of a table, for those that are there.

    `given` goes before the usual names: meaning → column. A number given for `ref_epoch` stands for all rows and is
    returned as it is. Raises `InputError` naming what was looked for and what is there.
    """
    here = {column.lower(): column for column in reversed(columns)}
    found: dict[str, str] = {}
    for meaning, wanted in (given or {}).items():
        if meaning not in NAMES:
            raise InputError(f"--columns {meaning}={wanted}: {meaning} is no meaning; choose from {', '.join(NAMES)}")
        column = wanted if wanted in columns else here.get(wanted.lower())
        if column is None and not (meaning == "ref_epoch" and _is_year(wanted)):
            raise InputError(f"{path}: no column {wanted!r} for {meaning}; columns: {_some(columns)}")
        found[meaning] = wanted if column is None else column
    for meaning, names in NAMES.items():
        if meaning in found:
            continue
        column = next((name for name in names if name in columns), None)
        column = column or next((here[name.lower()] for name in names if name.lower() in here), None)
        if column is not None and not (column == "gmag" and "rmag" in here):
            found[meaning] = column
    if ("ra" in found) != ("dec" in found) or not ("ra" in found or "source_id" in found):
        missing = [m for m in ("ra", "dec") if m not in found]
        raise InputError(
            f"{path}: no column of {' and '.join(missing)}: looked for "
            + "; ".join(", ".join(NAMES[m]) for m in missing)
            + f". Columns: {_some(columns)}. Name them: --columns "
            + ",".join(f"{m}=COLUMN" for m in missing)
        )
    return found


def parsed_columns(text: str) -> dict[str, str]:
    """`ra=RA_NEW,dec=DEC_NEW` as meaning → column. Raises `InputError`."""
    given: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        meaning, equals, column = (p.strip() for p in part.partition("="))
        if not (equals and meaning and column):
            raise InputError(f"--columns {part}: write MEANING=COLUMN, as in ra=RA_ICRS; meanings: {', '.join(NAMES)}")
        given[meaning] = column
    return given


def _is_year(text: str) -> bool:
    try:
        return 1800.0 <= float(text) <= 2200.0
    except ValueError:
        return False


def _some(columns: Sequence[str]) -> str:
    return ", ".join(columns[:30]) + (", …" if len(columns) > 30 else "") if columns else "none"
