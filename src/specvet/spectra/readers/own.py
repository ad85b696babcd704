"""What `specvet.spectra.write` has written comes back as it was (layout `specvet`): FITS, VOTable and ECSV.

Arrays and facts are taken as they stand; only where somebody has changed the table so that it is no spectrum any more
(rows in another order, a wavelength that is not finite) it is repaired as any other file, with a warning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from specvet.records.tables import unescaped
from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import Opened
from specvet.spectra.readers.building import as_bits, as_float, build
from specvet.spectra.readers.fitsfile import FitsInput, card, is_table
from specvet.spectra.readers.votables import parsed_votable
from specvet.spectra.spectrum import Calibration, Join, Medium, Redshift, Spectrum
from specvet.spectra.writing import FACTS, MARK, NUMBERED, VERSION

LAYOUT = "specvet"

_HEAD = 65_536
"""Bytes among which a table's facts begin."""

_MAX_BYTES = 200 * 1024**2

Facts = Mapping[str, Any]


def spectrum(fits: FitsInput) -> list[Spectrum] | None:
    """Our own FITS table; None for any other file."""
    mark = FACTS[MARK][0]
    if not isinstance(card(fits.primary.header, mark), int) or not is_table(fits.named.get("SPECTRUM")):
        return None
    hdu = fits.named["SPECTRUM"]
    names = {name: key for name, (key, _) in FACTS.items()}
    for name, (key, _) in NUMBERED.items():
        names |= {f"{name}_{n}": f"{key}{n}" for n in range(1, 1 + _count(hdu.header, key))}
    facts = {name: _read(card(hdu.header, key)) for name, key in names.items()}
    there = fits.table(hdu).names
    arrays: dict[str, NDArray[Any]] = {
        name: fits.pixels(hdu, name) for name in ("wavelength", "flux", "ivar", "mask") if name in there
    }
    return [_spectrum(fits.file, arrays, {k: v for k, v in facts.items() if v is not None})]


def own_text(plain: Opened) -> list[Spectrum] | None:
    """Our own ECSV or VOTable; None for any other file."""
    head = plain.head(_HEAD)
    if head.startswith(b"# %ECSV") and f"\n# - {MARK}: ".encode() in head:
        return [_from_ecsv(plain)]
    if f'<INFO name="{MARK}" '.encode() in head and b"<VOTABLE" in head:
        return [_from_votable(plain)]
    return None


def _count(header: Any, key: str) -> int:
    n = 0
    while card(header, f"{key}{n + 1}") is not None:
        n += 1
    return n


def _read(value: Any) -> Any:
    try:
        return unescaped(value) if isinstance(value, str) else value
    except UnicodeError:  # somebody has written the card anew
        return value


def _from_ecsv(plain: Opened) -> Spectrum:
    import yaml

    try:
        lines = plain.everything(_MAX_BYTES, "an ECSV spectrum").decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as e:
        raise SpectrumReadError(plain.file, f"byte {e.start} of the ECSV table is no UTF-8; export it again") from None
    n = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    try:
        said = yaml.safe_load("\n".join(line[2:] for line in lines[1:n]))
        facts = dict(said["meta"])
        columns = [(c["name"].lower(), c["datatype"]) for c in said["datatype"]]
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as e:
        problem = f"the ECSV header is no YAML as specvet writes it ({type(e).__name__}); export it again"
        raise SpectrumReadError(plain.file, problem) from None
    if len(lines) < n + 2:
        raise SpectrumReadError(plain.file, "the ECSV table has no rows; export it again")
    kinds = np.dtype([(name, "i8" if kind == "int64" else "f8") for name, kind in columns])
    try:
        table = np.loadtxt(lines[n + 1 :], kinds, delimiter=",", comments=None, ndmin=1)
    except ValueError as e:
        raise SpectrumReadError(plain.file, f"a row of the ECSV table cannot be read ({e})") from None
    return _spectrum(plain.file, {name: table[name] for name, _ in columns}, facts)


def _from_votable(plain: Opened) -> Spectrum:
    import warnings

    plain.stream.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = parsed_votable(plain.stream)
            table = tree.get_first_table()
        except Exception as e:  # the parser of XML and that of VOTables raise many kinds
            problem = f"the VOTable cannot be read ({type(e).__name__}: {e}); it is damaged, export it again"
            raise SpectrumReadError(plain.file, problem) from None
    facts = {info.name: _number_or_text(info.name, info.value) for r in tree.resources for info in r.infos}
    arrays = {f.name.lower(): np.asarray(table.array[f.ID].data) for f in table.fields}
    return _spectrum(plain.file, arrays, facts)


def _number_or_text(name: str, value: str | None) -> Any:
    value = value or ""
    return float(value) if name in _NUMBERS and re.fullmatch(r"[-+.\deE]+", value) else value


_NUMBERS = {MARK, "resolution", "mjd", "ra", "dec", "z", "z_error", "original_row"}


def _spectrum(file: str, arrays: Mapping[str, NDArray[Any]], facts: Facts) -> Spectrum:
    if facts.get(MARK, VERSION) > VERSION:
        raise SpectrumReadError(file, f"written by a newer specvet (layout {facts[MARK]:g}); update specvet")
    if missing := {"wavelength", "flux"} - arrays.keys():
        raise SpectrumReadError(file, f"has no column {' and '.join(sorted(missing)).upper()}; export it again")

    def text(name: str, default: str = "") -> str:
        return str(facts.get(name, default))

    def one_of(name: str, words: tuple[str, ...]) -> Any:
        return word if (word := text(name)) in words else "unknown"

    def number(name: str) -> float | None:
        value = None if facts.get(name) is None else float(facts[name])
        return value if value is not None and math.isfinite(value) else None

    try:
        ids = dict(value.split("=", 1) for value in _numbered(facts, "id") if "=" in value)
        fields: dict[str, Any] = {
            "medium": one_of("medium", get_args(Medium)),
            "flux_unit": text("flux_unit"),
            "calibration": one_of("calibration", get_args(Calibration)),
            "resolution": number("resolution"),
            "joins": tuple(map(_join, _numbered(facts, "join"))),
            "frame": text("frame", "unknown"),
            "mjd": number("mjd"),
            "ra": number("ra"),
            "dec": number("dec"),
            "redshift": Redshift(number("z"), number("z_error"), text("z_source"), text("z_warning")),
            "pipeline_class": text("class"),
            "pipeline_subclass": text("subclass"),
            "id": text("object"),
            "ids": ids,
            "survey": text("survey", "unknown"),
            "release": text("release"),
            "reduction": text("reduction"),
            "layout": LAYOUT,
        }
    except (TypeError, ValueError) as e:
        raise SpectrumReadError(file, f"what it says of the spectrum is damaged ({e}); export it again") from None
    wavelength, flux, ivar, mask = (arrays.get(name) for name in ("wavelength", "flux", "ivar", "mask"))
    assert wavelength is not None
    assert flux is not None
    warnings = tuple(_numbered(facts, "warning"))
    try:
        return Spectrum(
            as_float(wavelength),
            as_float(flux),
            None if ivar is None else as_float(ivar),
            None if mask is None else as_bits(mask),
            file=file,
            warnings=warnings,
            **fields,
        )
    except ValueError:
        return build(file, wavelength, flux, ivar=ivar, mask=mask, warnings=warnings, **fields)


def _numbered(facts: Facts, name: str) -> list[str]:
    out: list[str] = []
    while (value := facts.get(f"{name}_{len(out) + 1}")) is not None:
        out.append(str(value))
    return out


def _join(value: str) -> Join:
    low, high, label = (*value.split(" ", 2), "")[:3]
    if not -math.inf < float(low) <= float(high) < math.inf:
        raise ValueError(f"a join from {low} to {high}")
    return Join(float(low), float(high), label)
