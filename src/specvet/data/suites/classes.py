"""The classes that `cross-task` asks about: none has a built-in task, so no policy of ours learns from any.

Who is a member and who is taken for one, by kinds of the simulator; the questions themselves stand in `tasks/*.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from specvet.tasks import Task
from specvet.tasks.load import task_from_bytes


@dataclass(frozen=True, slots=True)
class UnseenClass:
    """One class, by kinds."""

    task: str
    """Key of its task."""
    members: Mapping[str, float]
    """Kind → share among the positives."""
    confusers: Mapping[str, float]
    """Kind → share among the hard negatives."""
    unclear: tuple[str, ...] = ()
    """Kinds that are never asked about, since they hold a member's light beside another's."""
    unclear_subtypes: tuple[str, ...] = ()
    """Sub-types that an expert might call either; such an object is made anew."""
    redshift: bool = True
    """Whether the spectra say the pipeline's redshift; not where it would be the answer."""


_ALL = (
    UnseenClass(
        "md",
        {"m_dwarf.quiet": 6.0, "m_dwarf.active": 4.0},
        {
            "gm.giant": 8.0, "k_dwarf": 4.0, "k_giant": 2.0, "wd_ms": 3.0, "t_tauri": 2.0, "ss.MS": 2.0, "ss.S": 0.5,
            "gm.mira": 1.0, "symbiotic": 0.7, "cc.dwarf": 1.0, "cc.N": 0.5, "cv.quiescence": 1.0,
        },
        unclear=("blend",),
        unclear_subtypes=("M0",),
    ),
    UnseenClass(
        "be",
        {"be_star": 1.0},
        {
            "b_star": 5.0, "herbig": 4.0, "nebular_sky": 4.0, "h_ii": 3.0, "a_star": 2.0, "cv.outburst": 2.0,
            "cv.quiescence": 1.5, "planetary_nebula": 1.5, "wd_ms": 1.5, "cv.nova_like": 1.0, "sdb": 1.0, "bhb": 1.0,
            "o_star": 1.0, "qso": 1.0, "t_tauri": 1.0, "galaxy.emission": 1.0, "m_dwarf.active": 0.7,
        },
    ),
    UnseenClass(
        "sd",
        {"sdb": 6.0, "sdo": 4.0},
        {
            "wd.DA": 5.0, "b_star": 5.0, "bhb": 4.0, "a_star": 3.0, "o_star": 3.0, "cv.outburst": 2.0, "wd.DB": 1.5,
            "wd.DO": 1.5, "cv.nova_like": 1.5, "be_star": 1.0, "wd_ms": 1.0, "qso": 0.5, "bl_lac": 0.5, "wd.DC": 0.5,
            "f_star": 0.5, "cv.helium": 0.3,
        },
        unclear=("blend",),
    ),
    UnseenClass(
        "qso",
        {"qso": 1.0},
        {
            "galaxy.emission": 4.0, "galaxy.quiet": 2.0, "cv.quiescence": 2.0, "wd_ms": 2.0, "bl_lac": 1.5,
            "cv.magnetic": 1.5, "wd.DQ": 1.5, "wd.DC": 1.5, "m_dwarf.active": 1.5, "cv.double_peaked": 1.0,
            "m_dwarf.quiet": 1.0, "wd.DAH": 1.0, "wd.DZ": 1.0, "be_star": 1.0, "t_tauri": 1.0, "h_ii": 1.0,
            "symbiotic": 1.0, "a_star": 1.0, "planetary_nebula": 0.7, "f_star": 0.7, "cc.dwarf": 0.5, "cc.R": 0.5,
            "cv.helium": 0.5, "ss.S": 0.3,
        },
        unclear_subtypes=("Seyfert 1",),
        redshift=False,
    ),
    UnseenClass(
        "tts",
        {"t_tauri": 1.0},
        {
            "m_dwarf.active": 6.0, "k_dwarf": 2.0, "herbig": 2.0, "nebular_sky": 2.0, "wd_ms": 2.0, "gm.giant": 1.5,
            "m_dwarf.quiet": 1.5, "cv.quiescence": 1.5, "gm.mira": 1.0, "symbiotic": 1.0, "k_giant": 1.0,
            "be_star": 1.0, "h_ii": 1.0, "cv.magnetic": 0.7, "galaxy.emission": 0.7,
        },
    ),
)  # fmt: skip

CLASSES: Mapping[str, UnseenClass] = {one.task: one for one in _ALL}
"""By the key of the task, in the order in which they are asked."""


def task_text(key: str) -> bytes:
    """The YAML of one of these tasks, as it lies beside the questions."""
    return resources.files("specvet.data.suites").joinpath("tasks", f"{key}.yaml").read_bytes()


@cache
def task_of(key: str) -> Task:
    """One of these tasks."""
    return task_from_bytes(task_text(key), f"suites/tasks/{key}.yaml")
