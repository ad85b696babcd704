"""Which kinds a real spectrum can seed, from what its manifest, or the name of its row, says that it is."""

from __future__ import annotations

import re
from collections.abc import Callable

Measure = Callable[[str], float | None]
"""A line index of the spectrum by its key (or `ha_narrow`), or None where it cannot be measured."""

_NAMED = {
    "S-type star": ("ss.S",),
    "MS star (intermediate M/S)": ("ss.MS",),
    "K giant": ("k_giant",),
    "M giant": ("gm.giant",),
    "M supergiant": ("gm.giant",),
    "M supergiant/bright giant": ("gm.giant",),
    "O star": ("o_star",),
    "B star": ("b_star",),
    "A star": ("a_star",),
    "F star": ("f_star",),
    "G star": ("g_star",),
    "G-type (metal-poor dwarf)": ("g_star",),
    "Be star": ("be_star",),
    "CH subgiant (carbon-enhanced)": ("cemp",),
    "carbon star (N type, AGB)": ("cc.N",),
    "QSO template": ("qso",),
    "galaxy template": ("galaxy.emission",),
}
"""Class label of a manifest → kinds."""

_ROWS = {
    # Faint carbon stars far from the plane: giants of type CH and R, and dwarfs.
    "Carbon": ("cc.CH", "cc.R", "cc.dwarf"),
    "Carbon_lines": ("cc.CH", "cc.dwarf"),
    "CarbonWD": ("wd.DQ",),
    "CalciumWD": ("wd.DZ",),
    "WD": ("wd.DA",),
    "WDcooler": ("wd.DA",),
    "WDhotter": ("wd.DA",),
    "WDmagnetic": ("wd.DAH",),
}
"""Name of a row of the SDSS and BOSS template sets → kinds."""

ACTIVE = -0.75
"""Å of Hα (emission negative), from which on an M dwarf counts as active; West et al. 2011, AJ 141, 97."""

WHITE_DWARFS = ("DAH", "DA", "DB", "DC", "DO", "DQ", "DZ")


def kinds_of(class_label: str, subclass: str, measure: Measure) -> tuple[str, ...]:
    """The kinds that a spectrum of this class can seed; none where the label does not decide, or no kind is like it."""
    label = class_label.partition(":")[0].strip()
    if label in _NAMED:
        return _NAMED[label]
    if label.startswith(("WD", "white dwarf")):
        text = subclass or (found[1] if (found := re.search(r"\((D\w+)\)", class_label)) else "")
        if text.startswith("Teff"):  # a model: its label names the type
            text = "DA"
        return next(((f"wd.{kind}",) for kind in WHITE_DWARFS if re.fullmatch(rf"{kind}[\d.]*( .*)?", text)), ())
    if label == "hot subdwarf":
        return {"sdO": ("sdo",), "sdB": ("sdb",)}.get(subclass[:3], ())
    if label == "CV":
        return _cataclysmic(measure)
    if label == "K star":
        return ("k_dwarf",) if subclass.endswith("V") else ("k_dwarf", "k_giant")
    if label == "M dwarf":
        return _m_dwarf(measure)
    if label.startswith("M star"):
        excess = measure("cah_excess")
        return _m_dwarf(measure) if excess is not None and excess < -0.02 else ()
    if label.startswith("CH star"):
        c2 = measure("c2_5165")
        return ("cc.CH",) if c2 is not None and c2 < 0.93 else ("cemp",)
    return ()


def kinds_of_row(name: str, measure: Measure) -> tuple[str, ...]:
    """The same for a row of a template set, from its name: `Carbon`, `M3III (44478)`, `K5`."""
    text = name.partition(" ")[0]
    if text in _ROWS:
        return _ROWS[text]
    found = re.fullmatch(r"(?:sd:?)?([OBAFGKM])(\d(?:\.\d)?)?(?:/[OBAFGKM]?\d)?:?([IVab/-]*)([a-z:+.]*)", text)
    if not found:
        return ()
    letter, luminosity, peculiar = found[1], re.sub(r"[ab/-]", "", found[3]), found[4]
    if luminosity == "I":  # a supergiant is no confuser here
        return ()
    if letter == "M":
        if luminosity in ("III", "II"):
            return ("gm.mira",) if "e" in peculiar else ("gm.giant",)
        # The means of SDSS, which name no star, are of dwarfs.
        return _m_dwarf(measure) if luminosity == "V" or " (" not in name else ()
    if letter == "B" and "e" in peculiar:
        return ("be_star",)
    if letter == "K":
        return ("k_giant",) if luminosity in ("III", "II") else ("k_dwarf",) if luminosity == "V" else _k(measure)
    if letter == "O" and not found[2]:  # faint O stars of SDSS are subdwarfs
        return ()
    return ({"O": "o_star", "B": "b_star", "A": "a_star", "F": "f_star", "G": "g_star"}[letter],)


def _k(measure: Measure) -> tuple[str, ...]:
    return ("k_dwarf", "k_giant") if measure("mgb") is not None else ()


def _m_dwarf(measure: Measure) -> tuple[str, ...]:
    ha = measure("ha_narrow")
    return ("m_dwarf.active",) if ha is not None and ha < ACTIVE else ("m_dwarf.quiet",)


def _cataclysmic(measure: Measure) -> tuple[str, ...]:
    """Its state, from equivalent widths (Å, emission negative): catalogues do not say in which one was caught."""
    ha, hb, helium = (measure(key) for key in ("ha", "hb", "heii4686"))
    if ha is None or hb is None:
        return ()
    if ha > -10.0:
        return ("cv.outburst",) if hb > 2.0 else ("cv.nova_like",)
    if helium is not None and helium < -10.0 and helium < 0.4 * hb:
        return ("cv.magnetic",)
    return ("cv.quiescence", "cv.double_peaked") if ha < -25.0 else ("cv.quiescence", "cv.nova_like")
