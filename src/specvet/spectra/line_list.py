"""Spectral lines by name, in air and vacuum, with where they matter.

Wavelengths are those of the NIST Atomic Spectra Database in air (blends of fine structure as one mean); vacuum
follows with Morton 2000, the IAU standard, so that both media agree everywhere in specvet. NIST's own air wavelengths
rest on Peck & Reeder 1972 and differ by less than 0.001 Å.
"""

from __future__ import annotations

import functools
import unicodedata
from dataclasses import dataclass
from typing import Literal

from specvet.spectra.index_kinds import Range
from specvet.spectra.lines import air_to_vacuum, in_medium
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, Medium

Seen = Literal["emission", "absorption", "either"]
"""How stars of the tasks usually show a line."""

SOURCE = "NIST Atomic Spectra Database (air); vacuum by Morton 2000, ApJS 130, 403"


@dataclass(frozen=True, slots=True)
class SpectralLine:
    """One line, or a blend that low resolution shows as one."""

    name: str
    """`Hα 6563`, `[O III] 5007`."""
    species: str
    """`H I`, `[O III]`."""
    air: float
    """Å in standard air."""
    seen: Seen
    tasks: tuple[str, ...] = ()
    """Keys of the tasks that it speaks for or against."""
    index: str = ""
    """Key of the built-in equivalent width whose windows suit it; empty where there is none."""
    source: str = SOURCE

    @property
    def vacuum(self) -> float:
        """Å in vacuum."""
        return air_to_vacuum(self.air)

    def wavelength(self, medium: Medium, z: float = 0.0) -> float:
        """Å in `medium` at redshift `z`; half-way between air and vacuum where the medium is unknown."""
        return in_medium(self.air, "air", medium) * (1.0 + z)


def _series(
    species: str, seen: Seen, tasks: str, *rows: tuple[str, float] | tuple[str, float, str]
) -> list[SpectralLine]:
    return [SpectralLine(r[0], species, r[1], seen, tuple(tasks.split()), *r[2:]) for r in rows]


LINES: tuple[SpectralLine, ...] = tuple(
    sorted(
        [
            *_series(
                "H I", "either", "cv wd",
                ("Hα 6563", 6562.80, "ha"), ("Hβ 4861", 4861.333, "hb"), ("Hγ 4340", 4340.472, "hg"),
                ("Hδ 4102", 4101.734, "hd"), ("Hε 3970", 3970.075), ("H8 3889", 3889.064), ("H9 3835", 3835.397),
                ("H10 3798", 3797.909), ("H11 3771", 3770.633), ("H12 3750", 3750.151), ("H13 3734", 3734.369),
                ("H14 3722", 3721.946),
            ),
            *_series(
                "H I", "emission", "cv",
                ("Paε 9546", 9545.97), ("Pa9 9229", 9229.01), ("Pa10 9015", 9014.91), ("Pa11 8863", 8862.78),
                ("Pa12 8750", 8750.47), ("Pa13 8665", 8665.02), ("Pa14 8598", 8598.39), ("Pa15 8545", 8545.38),
                ("Pa16 8502", 8502.48), ("Pa17 8467", 8467.25),
            ),
            *_series(
                "He I", "either", "cv wd",
                ("He I 3889", 3888.648), ("He I 4026", 4026.191, "hei4026"), ("He I 4121", 4120.82),
                ("He I 4144", 4143.761), ("He I 4388", 4387.929), ("He I 4471", 4471.479, "hei4471"),
                ("He I 4713", 4713.146), ("He I 4922", 4921.931, "hei4922"), ("He I 5016", 5015.678),
                ("He I 5048", 5047.738), ("He I 5876", 5875.621, "hei5876"), ("He I 6678", 6678.151, "hei6678"),
                ("He I 7065", 7065.190, "hei7065"), ("He I 7281", 7281.349),
            ),
            *_series(
                "He II", "either", "cv wd",
                ("He II 4200", 4199.83), ("He II 4542", 4541.59), ("He II 4686", 4685.70, "heii4686"),
                ("He II 5411", 5411.52, "heii5411"),
            ),
            *_series("N III", "emission", "cv", ("N III 4634", 4634.14), ("N III 4641", 4640.64)),
            *_series("C III", "emission", "cv", ("C III 4647", 4647.42), ("C III 4650", 4650.25)),
            SpectralLine("Bowen blend 4645", "C III + N III", 4645.0, "emission", ("cv",), "bowen"),
            *_series("C II", "either", "cv wd", ("C II 4267", 4267.26)),
            *_series(
                "Ca II", "absorption", "wd gm cc ss",
                ("Ca II K 3934", 3933.663, "cak"), ("Ca II H 3968", 3968.468, "cah3968"),
            ),
            *_series(
                "Ca II", "either", "cv gm",
                ("Ca II 8498", 8498.023, "cat8498"), ("Ca II 8542", 8542.091, "cat8542"),
                ("Ca II 8662", 8662.141, "cat8662"),
            ),
            *_series("Ca I", "absorption", "gm cc wd", ("Ca I 4227", 4226.728, "cai4227")),
            *_series("Ca I", "absorption", "gm", ("Ca I 6122", 6122.217), ("Ca I 6162", 6162.173)),
            *_series(
                "Mg I", "absorption", "wd gm",
                ("Mg b 5167", 5167.322), ("Mg b 5173", 5172.684), ("Mg b 5184", 5183.604),
            ),
            *_series("Mg II", "absorption", "wd", ("Mg II 4481", 4481.2)),
            *_series("Na I", "absorption", "wd cc", ("Na D2 5890", 5889.951), ("Na D1 5896", 5895.924)),
            *_series("Na I", "absorption", "gm", ("Na I 8183", 8183.255), ("Na I 8195", 8194.82)),
            *_series("K I", "absorption", "gm", ("K I 7665", 7664.899), ("K I 7699", 7698.965, "ki7699")),
            *_series("Li I", "absorption", "", ("Li I 6708", 6707.80, "li6708")),
            *_series("Rb I", "absorption", "", ("Rb I 7800", 7800.27), ("Rb I 7948", 7947.60)),
            *_series("Cs I", "absorption", "", ("Cs I 8521", 8521.13)),
            *_series("Sr II", "absorption", "cc ss", ("Sr II 4078", 4077.709), ("Sr II 4216", 4215.519)),
            *_series(
                "Ba II", "absorption", "cc ss",
                ("Ba II 4554", 4554.029), ("Ba II 6142", 6141.713), ("Ba II 6497", 6496.897),
            ),
            *_series(
                "Fe II", "emission", "cv", ("Fe II 4924", 4923.92), ("Fe II 5018", 5018.44), ("Fe II 5169", 5169.03)
            ),
            *_series("O I", "either", "cv", ("O I 7774", 7773.8), ("O I 8446", 8446.36)),
            *_series("[O II]", "emission", "cv", ("[O II] 3726", 3726.03), ("[O II] 3729", 3728.82)),
            *_series("[Ne III]", "emission", "cv", ("[Ne III] 3869", 3868.76)),
            *_series(
                "[O III]", "emission", "cv",
                ("[O III] 4363", 4363.209), ("[O III] 4959", 4958.911), ("[O III] 5007", 5006.843, "oiii5007"),
            ),
            *_series(
                "[N II]", "emission", "cv", ("[N II] 5755", 5754.59), ("[N II] 6548", 6548.05), ("[N II] 6583", 6583.45)
            ),
            *_series("[O I]", "emission", "cv", ("[O I] 6300", 6300.304), ("[O I] 6364", 6363.776)),
            *_series("[S II]", "emission", "cv", ("[S II] 6716", 6716.44), ("[S II] 6731", 6730.82)),
        ],
        key=lambda line: line.air,
    )
)  # fmt: skip
"""Every line, by increasing wavelength."""

NEAR = 3.0
"""Å; a wavelength names the line that lies so near."""

_GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon"}
_ALIASES = {
    "ha": "halpha", "hb": "hbeta", "hg": "hgamma", "hd": "hdelta",
    "cak": "caiik", "cah": "caiih", "nad1": "nad15896", "nad2": "nad25890", "bowen": "bowenblend", "li": "lii",
}  # fmt: skip


def lines_between(
    low: float,
    high: float,
    medium: Medium = "air",
    z: float = 0.0,
    task: str | None = None,
    seen: Seen | None = None,
) -> list[tuple[SpectralLine, float]]:
    """Lines that lie within `low`-`high` Å in `medium` at redshift `z`, each with its wavelength there, in order.

    `task` keeps those that matter to it, `seen` those that show so (lines that show either way are always kept).
    """
    placed = ((line, line.wavelength(medium, z)) for line in LINES)
    return [
        (line, at)
        for line, at in placed
        if low <= at <= high
        and (task is None or task in line.tasks)
        and (seen is None or line.seen in (seen, "either"))
    ]


_GROUPS = {
    "cat": ("Ca II 8498", "Ca II 8542", "Ca II 8662"),
    "cairtriplet": ("Ca II 8498", "Ca II 8542", "Ca II 8662"),
    "caiihk": ("Ca II K 3934", "Ca II H 3968"),
    "nad": ("Na D2 5890", "Na D1 5896"),
    "mgb": ("Mg b 5167", "Mg b 5173", "Mg b 5184"),
    "balmer": ("Hα 6563", "Hβ 4861", "Hγ 4340", "Hδ 4102"),
}


def lines_of(group: str) -> list[SpectralLine]:
    """The lines of a group: `CaT` (the triplet of Ca II), `Ca II HK`, `Na D`, `Mg b`, `Balmer`; or those of a species
    (`He I`, `[S II]`), by increasing wavelength.

    Raises ValueError for a name that is neither.
    """
    asked = _plain(group)
    names = _GROUPS.get(asked, ())
    found = [line for line in LINES if line.name in names]
    # Species by the exact spelling first: `[O I]` is not `O I`.
    found = found or [line for line in LINES if line.species.casefold() == group.strip().casefold()]
    found = found or [line for line in LINES if asked and _plain(line.species) == asked]
    if not found:
        raise ValueError(f"{group!r} is no group of lines; give CaT, Ca II HK, Na D, Mg b, Balmer or a species (He I)")
    return found


def spectral_line(what: str | float, medium: Medium = "air") -> SpectralLine:
    """The line of that name (`Hα`, `halpha`, `He II 4686`, `[O III] 5007`) or the one near that wavelength in Å.

    Raises ValueError, which says what is near, where no line or more than one fits.
    """
    if not isinstance(what, str):
        found = min(LINES, key=lambda line: abs(line.wavelength(medium) - what))
        at = found.wavelength(medium)
        if not abs(at - what) <= NEAR:
            raise ValueError(f"no line of the list lies within {NEAR:g} Å of {what:g} Å; the nearest is {found.name}")
        return found
    asked = _plain(what)
    asked = _ALIASES.get(asked, asked)
    names = _names()
    if asked in names:
        return names[asked]
    fits = [line for line in LINES if _plain(line.species) == asked]
    fits = fits or [line for line in LINES if asked and _plain(line.name).startswith(asked)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise ValueError(f"{what!r} may be {', '.join(line.name for line in fits[:6])}; say which")
    import difflib

    near = [names[n].name for n in difflib.get_close_matches(asked, names, n=3, cutoff=0.5)]
    hint = (
        f"did you mean {' or '.join(dict.fromkeys(near))}?"
        if near
        else "give a name such as `He II 4686` or a wavelength in Å"
    )
    raise ValueError(f"no line is named {what!r}; {hint}")


@functools.cache
def _names() -> dict[str, SpectralLine]:
    """Lines by every plain spelling: with and without the wavelength where that is enough."""
    out = {_plain(line.name): line for line in LINES}
    short: dict[str, list[SpectralLine]] = {}
    for line in LINES:
        short.setdefault(_plain(line.name.rsplit(" ", 1)[0]), []).append(line)
    return out | {name: lines[0] for name, lines in short.items() if len(lines) == 1 and name not in out}


def _plain(text: str) -> str:
    for greek, word in _GREEK.items():
        text = text.replace(greek, word)
    text = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in text if c.isalnum())


def range_around(line: SpectralLine, medium: Medium, low_km_s: float, high_km_s: float, z: float = 0.0) -> Range:
    """From `low_km_s` to `high_km_s` around the line, Å in `medium`."""
    at = line.wavelength(medium, z)
    return at * (1.0 + low_km_s / SPEED_OF_LIGHT_KM_S), at * (1.0 + high_km_s / SPEED_OF_LIGHT_KM_S)
