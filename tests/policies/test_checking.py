"""Names that mean nothing are told before the first spectrum is read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from policy_lab import HA, task

from specvet.policies import policy
from specvet.tasks import Task, TaskError, builtin_tasks, load_task, template_text

CHECK = policy("line-indices").check
GATE = {"index": "hb", "side": "below", "at": 0.0, "soft": 1.0}
OWN = {"kind": "line", "band": [6704, 6711], "reference": [[6680, 6700], [6722, 6740]]}


def test_the_built_in_tasks_pass() -> None:
    for t in builtin_tasks().values():
        CHECK(t)


def test_the_template_passes(tmp_path: Any) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(template_text(), encoding="utf-8")
    CHECK(load_task(file))


def test_a_task_without_evidence_passes() -> None:
    CHECK(task())


def rival(**more: Any) -> dict[str, Any]:
    return {"name": "mine", "evidence": [{**HA, **more}]}


UNKNOWN = "there is no index"
CASES: list[tuple[dict[str, Any], str]] = [
    ({"evidence": [HA, HA, HA, {**HA, "index": "hA"}]}, f"evidence[3].index: {UNKNOWN} `hA`; did you mean `ha`"),
    ({"evidence": [{**HA, "index": "tio55"}]}, f"evidence[0].index: {UNKNOWN} `tio55`; did you mean `tio5`"),
    ({"evidence": [{**HA, "index": "quasar"}]}, f"evidence[0].index: {UNKNOWN} `quasar`; `specvet tasks --indices`"),
    ({"evidence": [{**HA, "given": [GATE, {**GATE, "index": "hbb"}]}]}, f"evidence[0].given[1].index: {UNKNOWN} `hbb`"),
    ({"undecidable": [{"given": [{**GATE, "index": "mgbb"}], "says": "x"}]}, "undecidable[0].given[0].index"),
    ({"indices": {"my": {"kind": "formula", "formula": "ha + hbeta"}}}, f"indices.my.formula: {UNKNOWN} `hbeta`"),
    ({"indices": {"my": {"kind": "formula", "formula": "ha ** 2"}}}, "indices.my.formula: formula 'ha ** 2'"),
    ({"indices": {"my": {"kind": "formula", "formula": "my + 1"}}}, "indices.my.formula: `my` rests on itself"),
    (
        {"indices": {"a": {"kind": "formula", "formula": "b"}, "b": {"kind": "formula", "formula": "-a"}}},
        "indices.b.formula: `b` rests on itself",
    ),
    ({"indices": {"ha": OWN}}, "indices.ha: is the name of a built-in index"),
    ({"indices": {"li": {**OWN, "reference": [[6680, 6690], [6690, 6700]]}}}, "indices.li.reference: a line needs one"),
    (
        {"rivals": ["M dwarf", "K star", "M dwraf"]},
        "rivals[2]: there is no built-in rival `M dwraf`; did you mean `M dwarf`",
    ),
    ({"rivals": ["quasar"]}, "rivals[0]: there is no built-in rival `quasar`; known are M dwarf, "),
    ({"rivals": ["M dwarf", rival(index="hhb")]}, "rivals[1].evidence[0].index: there is no index `hhb`"),
    ({"rivals": [rival(given=[{**GATE, "index": "nope"}])]}, "rivals[0].evidence[0].given[0].index"),
]


@pytest.mark.parametrize(("fields", "says"), CASES, ids=range(len(CASES)))
def test_an_error_names_the_task_the_field_the_name_and_the_nearest(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(TaskError) as caught:
        CHECK(task(**fields))
    lines = str(caught.value).splitlines()
    assert any(line.startswith(f"task `t`: {says}") for line in lines), lines


def test_all_mistakes_are_told_one_a_line() -> None:
    wrong = task(evidence=[{**HA, "index": "one"}, {**HA, "index": "two"}], rivals=["three"])
    with pytest.raises(TaskError) as caught:
        CHECK(wrong)
    assert re.findall("`(one|two|three)`", str(caught.value)) == ["one", "two", "three"]


def test_own_indices_and_formulas_on_formulas_pass() -> None:
    mine: Task = task(
        indices={
            "li": OWN,
            "a": {"kind": "formula", "formula": "b - tio5"},
            "b": {"kind": "formula", "formula": "min(li, ha)"},
        },
        evidence=[{**HA, "index": "a", "given": [{**GATE, "index": "b"}]}],
        rivals=["M dwarf", rival(index="li")],
    )
    CHECK(mine)
