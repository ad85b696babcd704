"""The built-in rivals: read, sound, and in the words of evidence."""

from __future__ import annotations

from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.tasks import builtin_rivals, builtin_tasks


def test_rivals_are_read_by_name_and_the_caller_gets_a_copy() -> None:
    rivals = builtin_rivals()
    assert {"M dwarf", "M giant", "carbon star", "white dwarf", "cataclysmic variable"} <= rivals.keys()
    assert all(name == rival.name for name, rival in rivals.items())
    rivals.clear()
    assert builtin_rivals()


def test_rivals_rest_on_built_in_indices_only() -> None:
    for rival in builtin_rivals().values():
        for e in rival.evidence:
            assert {e.index, *(c.index for c in e.given)} <= BUILTIN_INDICES.keys(), rival.name


def test_every_rival_can_win_and_can_lose() -> None:
    for rival in builtin_rivals().values():
        groups: dict[str, float] = {}
        worst = rival.prior
        for i, e in enumerate(rival.evidence):
            key = e.group or str(i)
            groups[key] = max(groups.get(key, -99.0), e.yes, e.no)
            worst += min(e.yes, e.no)
        assert rival.prior + sum(groups.values()) > 0, rival.name
        assert worst < 0, rival.name


def test_the_tasks_name_rivals_that_are_there_and_not_themselves() -> None:
    for task in builtin_tasks().values():
        names = [r if isinstance(r, str) else r.name for r in task.rivals]
        assert set(names) <= builtin_rivals().keys()
        assert task.name not in names
        assert len(set(names)) == len(names)
