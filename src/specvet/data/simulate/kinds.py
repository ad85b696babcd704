"""The kinds of objects that are simulated: who makes them, what each task's answer is, and for whom they pass.

Answers follow the tasks' own YAML (`tasks/stars/*.yaml`), their borderline rules included. A kind's `weight` is its
share in a list that a survey's colour cuts might give; `confuses` says how often it stands among the negatives of a
task's benchmark, most of which are hard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Protocol, cast

import numpy as np

from specvet.data.simulate.source import Source

TASKS = ("cc", "cv", "gm", "ss", "wd")


class Maker(Protocol):
    """Makes one object of a kind; every draw comes from `rng`."""

    def __call__(self, rng: np.random.Generator) -> Source: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    key: str
    name: str
    maker: str
    """`module:function` in this package."""
    weight: float
    yes: tuple[str, ...] = ()
    """Tasks whose answer is YES; of the others it is NO."""
    positive: float = 0.0
    """Share among the positives of its tasks; 0 keeps it out of benchmarks as a positive."""
    confuses: Mapping[str, float] = field(default_factory=dict)
    """Task → share among its hard negatives."""

    def answer(self, task: str) -> str:
        """YES or NO."""
        return "YES" if task in self.yes else "NO"


def make(kind: str, rng: np.random.Generator) -> Source:
    """One object of a kind, from parametric physics alone. Raises KeyError for a kind that there is not."""
    module, _, function = KINDS[kind].maker.partition(":")
    maker = cast(Maker, getattr(import_module(f"specvet.data.simulate.{module}"), function))
    return maker(rng)


_ALL = (
    # --- the five classes
    Kind("cv.quiescence", "CV in quiescence", "cvs:quiescence", 0.6, ("cv",), 5.0, {"wd": 0.5}),
    Kind("cv.double_peaked", "CV with double-peaked lines", "cvs:double_peaked", 0.3, ("cv",), 2.5),
    Kind("cv.outburst", "CV in outburst", "cvs:outburst", 0.3, ("cv",), 2.5, {"wd": 1.5}),
    Kind("cv.nova_like", "nova-like", "cvs:nova_like", 0.2, ("cv",), 1.5, {"wd": 0.5}),
    Kind("cv.magnetic", "magnetic CV", "cvs:magnetic", 0.2, ("cv",), 1.5),
    Kind("cv.helium", "AM CVn star", "cvs:helium", 0.02, ("cv",), 0.2, {"wd": 0.2}),
    Kind("cc.N", "carbon star, N type", "carbon:n_type", 0.4, ("cc",), 3.0, {"ss": 1.0, "gm": 1.0}),
    Kind("cc.R", "carbon star, R type", "carbon:r_type", 0.3, ("cc",), 2.0, {"ss": 0.5, "gm": 0.5}),
    Kind("cc.J", "carbon star, J type", "carbon:j_type", 0.1, ("cc",), 1.0, {"ss": 0.3}),
    Kind("cc.CH", "CH giant with C2 bands", "carbon:ch_type", 0.5, ("cc",), 3.0, {"ss": 0.3, "gm": 0.3}),
    Kind("cc.dwarf", "dwarf carbon star", "carbon:dwarf", 0.1, ("cc",), 1.0, {"wd": 0.2}),
    Kind("ss.S", "S star", "giants:s_star", 0.2, ("ss",), 4.0, {"gm": 1.5, "cc": 1.5}),
    Kind("ss.MS", "MS star", "giants:ms_star", 0.3, ("ss",), 4.0, {"gm": 2.0, "cc": 0.3}),
    Kind("ss.SC", "SC star", "giants:sc_star", 0.05, ("ss",), 1.0, {"cc": 1.5, "gm": 0.3}),
    Kind("gm.giant", "M giant", "giants:m_giant", 4.0, ("gm",), 10.0, {"ss": 6.0, "cc": 1.5}),
    Kind("gm.mira", "M giant with emission (Mira)", "giants:mira", 0.3, ("gm",), 0.7, {"ss": 1.0, "cv": 0.5}),
    Kind("wd.DA", "DA white dwarf", "white_dwarfs:da", 2.0, ("wd",), 6.0, {"cv": 1.5}),
    Kind("wd.DB", "DB white dwarf", "white_dwarfs:db", 0.4, ("wd",), 1.5, {"cv": 0.3}),
    Kind("wd.DC", "DC white dwarf", "white_dwarfs:dc", 0.2, ("wd",), 0.7, {"cv": 0.2}),
    Kind("wd.DO", "DO white dwarf", "white_dwarfs:do", 0.1, ("wd",), 0.5, {"cv": 0.2}),
    Kind("wd.DQ", "DQ white dwarf", "white_dwarfs:dq", 0.1, ("wd",), 0.6, {"cc": 1.5}),
    Kind("wd.DZ", "DZ white dwarf", "white_dwarfs:dz", 0.1, ("wd",), 0.6),
    Kind("wd.DAH", "magnetic white dwarf", "white_dwarfs:dah", 0.1, ("wd",), 0.5, {"cv": 0.3}),
    # --- cool confusers
    Kind("m_dwarf.quiet", "M dwarf", "dwarfs:m_quiet", 12.0, confuses={"gm": 8.0, "ss": 3.0, "cv": 0.7, "cc": 1.0}),
    Kind("m_dwarf.active", "active M dwarf", "dwarfs:m_active", 5.0, confuses={"cv": 6.0, "gm": 3.0, "ss": 0.7}),
    Kind("k_giant", "K giant", "dwarfs:k_giant", 8.0, confuses={"gm": 3.0, "ss": 2.0, "cc": 3.0}),
    Kind("k_dwarf", "K dwarf", "dwarfs:k_dwarf", 6.0, confuses={"gm": 2.0, "cc": 1.5, "ss": 0.7}),
    Kind("g_star", "G star", "dwarfs:g_star", 10.0, confuses={"cc": 1.5, "wd": 1.0, "cv": 0.5}),
    Kind("f_star", "F star", "dwarfs:f_star", 8.0, confuses={"wd": 1.5, "cv": 0.5, "cc": 0.3}),
    Kind("barium", "barium star", "carbon:barium", 0.3, confuses={"cc": 3.0, "ss": 1.0}),
    Kind("cemp", "CH subgiant or CEMP star, G band only", "carbon:cemp", 0.3, confuses={"cc": 3.0}),
    # --- hot confusers
    Kind("a_star", "A star", "hot:a_star", 6.0, confuses={"wd": 6.0, "cv": 2.0}),
    Kind("bhb", "blue horizontal-branch star", "hot:bhb", 2.0, confuses={"wd": 5.0, "cv": 0.7}),
    Kind("b_star", "B star", "hot:b_star", 1.5, confuses={"wd": 3.0, "cv": 0.5}),
    Kind("o_star", "O star", "hot:o_star", 0.2, confuses={"wd": 1.5, "cv": 0.3}),
    Kind("sdb", "hot subdwarf B", "hot:sdb", 1.0, confuses={"wd": 5.0, "cv": 0.7}),
    Kind("sdo", "hot subdwarf O", "hot:sdo", 0.4, confuses={"wd": 3.0, "cv": 0.7}),
    Kind("be_star", "Be star", "hot:be_star", 0.6, confuses={"cv": 3.0, "wd": 0.5}),
    Kind("herbig", "Herbig Ae/Be star", "hot:herbig", 0.2, confuses={"cv": 1.5}),
    # --- emission and composites
    Kind("t_tauri", "T Tauri star", "composites:t_tauri", 0.4, confuses={"cv": 2.0, "gm": 1.0}),
    Kind("symbiotic", "symbiotic star", "composites:symbiotic", 0.1, ("gm",), 0.3, {"cv": 1.5, "ss": 0.3}),
    Kind("wd_ms", "WD + M dwarf binary", "composites:wd_ms", 0.6, ("wd",), 1.0, {"cv": 4.0, "gm": 1.0}),
    Kind("planetary_nebula", "planetary nebula", "composites:planetary_nebula", 0.1, confuses={"cv": 1.0}),
    Kind("h_ii", "H II region", "composites:h_ii", 0.3, confuses={"cv": 1.5}),
    Kind("nebular_sky", "star with nebular residuals of the sky", "composites:nebular_sky", 1.0, confuses={"cv": 2.0}),
    Kind(
        "blend",
        "two stars in one fibre",
        "composites:blend",
        0.5,
        confuses={"gm": 1.0, "wd": 1.0, "cv": 0.5, "cc": 0.3},
    ),
    Kind(
        "cross_talk",
        "light of a neighbouring fibre",
        "composites:cross_talk",
        0.3,
        confuses={"cv": 0.7, "cc": 0.3, "wd": 0.3},
    ),
    # --- far away
    Kind("qso", "quasar", "extragalactic:qso", 3.0, confuses={"cv": 3.0, "wd": 1.5, "cc": 0.5}),
    Kind("bl_lac", "BL Lac object", "extragalactic:bl_lac", 0.1, confuses={"wd": 1.0, "cv": 0.5}),
    Kind(
        "galaxy.quiet",
        "galaxy without emission",
        "extragalactic:quiet",
        3.0,
        confuses={"cc": 1.0, "wd": 0.3, "gm": 0.5},
    ),
    Kind("galaxy.emission", "galaxy with emission", "extragalactic:emission", 3.0, confuses={"cv": 3.0, "wd": 0.5}),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.key: kind for kind in _ALL})
