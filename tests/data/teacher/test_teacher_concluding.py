"""What an answer concludes: no more than its reasons carry, and no likelier class that something speaks against."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from teacher_lab import a_star

from specvet.data.simvi import making
from specvet.data.simvi.plan import spare
from specvet.data.teacher import Taught, Teacher
from specvet.data.teacher.concluding import _failing_ways, _Reason, _settle
from specvet.data.teacher.findings import finding
from specvet.data.teacher.plans import Plan
from specvet.data.teacher.sight import Sight
from specvet.data.teacher.telling import Teller
from specvet.data.teacher.words import Speaker, a
from specvet.tasks import builtin_rivals, load_task
from specvet.tools import ZoomTool

SETTINGS = making.Settings(0, "compact", None)


@functools.cache
def teacher(task: str) -> Teacher:
    return Teacher(load_task(task), style="compact")


def answers(task: str, kind: str, n: int) -> list[str]:
    """Those of accepted drafts about simulated objects of a kind, none of them of the class."""
    found = []
    for row in spare(task, "NO", 0, n, kind):
        seen = making.see(row, SETTINGS)
        rng = np.random.default_rng([1, *row.key])
        one = teacher(task).teach(making._question(seen), seen.spectrum, rng)
        if isinstance(one, Taught):
            found.append(one.answer)
    assert len(found) > 0.6 * n
    return found


@pytest.mark.parametrize(
    ("task", "kind", "n", "fine"),
    [
        ("ss", "gm.mira", 16, {"M giant", "M dwarf"}),
        ("ss", "m_dwarf.quiet", 14, {"M dwarf", "K star"}),
        ("gm", "m_dwarf.quiet", 14, {"M dwarf", "K star"}),
        ("gm", "k_giant", 14, {"K star"}),
        ("cc", "k_giant", 14, {"K star"}),
    ],
)
def test_a_likelier_class_is_one_that_nothing_speaks_against(task: str, kind: str, n: int, fine: set[str]) -> None:
    others = [a(name) for name in builtin_rivals() if name not in fine]
    for answer in answers(task, kind, n):
        last = answer.split(". ", 1)[-1]  # the first sentence denies the class itself
        task_name = a(load_task(task).name)
        named = [name for name in others if name in last.replace(task_name, "") or name.capitalize() in last]
        assert not [name for name in named if name != task_name], answer


def test_one_way_that_fails_rules_no_class_out() -> None:
    view = ZoomTool(a_star(snr=40.0)).opening().data
    assert view is not None
    sight = Sight.of(Plan.of(load_task("wd")), view)
    reasons = _failing_ways(Teller(sight, Speaker(np.random.default_rng(0))), frozenset(sight.plan.parts))
    assert len(reasons) >= 3
    assert not any(_settle([reason]) for reason in reasons)
    assert _settle([_Reason("Mg b", "Mg b (EW 5 Å)", 2.5), reasons[0]])


def test_strength_and_significance_have_words_of_their_own() -> None:
    view = ZoomTool(a_star(snr=40.0)).opening().data
    assert view is not None
    sight = Sight.of(Plan.of(load_task("wd")), view)
    q, m = sight.plan.quantities["hb"], sight.measured["hb"]
    faint = re.compile(r"weak|faint|shallow|hint|little", re.IGNORECASE)
    unsure = re.compile(
        r"seems|probably|uncertain|[Ll]ikely|large error|as far as|hint|may be|[Pp]erhaps|not very sure"
    )
    for value, error, is_faint, is_unsure in (
        (16.0, 4.0, False, True), (16.0, 0.5, False, False), (1.2, 0.1, True, False), (1.2, 0.3, True, True),
    ):  # fmt: skip
        speaker = Speaker(np.random.default_rng(0))
        for _ in range(20):
            said = finding(sight, q, m.model_copy(update={"value": value, "error": error}), speaker)
            assert bool(faint.search(said)) is is_faint, said
            assert bool(unsure.search(said)) is is_unsure, said
