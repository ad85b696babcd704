"""Rewards: the published one line by line, the default without its quirks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from golden_turns_lab import golden_turns

from specvet.tasks import Task
from specvet.tasks.rewards import Reward, Variant, Weights, chapter_reading, paper_reading, reward

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "reward" / "spec_o3_published.jsonl"
PUBLISHED = [c for c in golden_turns() if "published" in c]
GOOD = ["<think>look</think><answer>\\boxed{YES} ok</answer>"]
HEDGED = ["<think>look</think><answer>\\boxed{YES} or \\boxed{NO}</answer>"]


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda c: c["case"])
def test_the_paper_variant_reads_each_published_case_as_the_public_code_does(case: dict[str, Any]) -> None:
    predicted, format_ok = case["published"]
    assert paper_reading("".join(case["turns"])) == (predicted, format_ok)
    for truth in ("YES", "NO"):
        score = (predicted == truth) - (0.0 if format_ok else 0.2)
        assert reward(case["turns"], truth, "paper") == Reward(score, predicted == truth, format_ok, predicted)


@pytest.mark.shared
@pytest.mark.skipif(not GOLDEN.exists(), reason="the golden files are not beside this checkout")
def test_the_paper_variant_reproduces_every_golden_line_and_the_table_has_them_all() -> None:
    texts = {c["case"]: "".join(c["turns"]) for c in PUBLISHED}
    lines = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 70
    for line in lines:
        given = reward([line["text"]], line["ground_truth"], "paper")
        assert (given.score, given.predicted, given.format_ok) == (line["score"], line["predicted"], line["format_ok"])
        assert texts[line["case"]] == line["text"]
    assert texts.keys() == {line["case"] for line in lines}


@pytest.mark.parametrize(
    ("text", "predicted", "format_ok"),
    [
        ("NO and then yes", "YES", False),  # any yes goes before any no
        ("<answer>no</answer><answer>none, yes</answer>", "YES", False),  # the last block
        ("<answer>maybe</answer> \\boxed{ no } yes", "NO", False),  # a box anywhere goes before words
        ("<think></think><answer>\\boxed{}</answer>\n x \n\n", "x", False),  # an empty box; the last line
        ("<think>a</think><answer>\\boxed{NO}</answer>\\boxed{YES}", "NO", True),  # boxes outside do not count
        ("<think>a</think><think>b</think><answer>\\boxed{no}</answer>", "NO", True),
        ("\\boxed{YES", "YES", False),  # the word, not the box
        ("\n \t", "", False),
    ],
)
def test_other_quirks_of_the_published_reward(text: str, predicted: str, format_ok: bool) -> None:
    assert paper_reading(text) == (predicted, format_ok)


def test_the_variants_differ_where_the_paper_has_quirks() -> None:
    assert reward(HEDGED, "YES", "paper").score == 1.0
    assert reward(HEDGED, "YES", "default").score == -0.2


def test_a_tasks_reward_names_a_variant() -> None:
    assert get_args(Task.model_fields["reward"].annotation) == get_args(Variant)


def test_weights_are_free_and_parts_add_up() -> None:
    weights = Weights(correct=2.0, bad_format=-0.5)
    assert reward(GOOD, "YES", weights=weights).score == 2.0
    assert reward(GOOD, "NO", weights=weights).score == 0.0
    assert reward(GOOD, "YES", weights=weights, format_ok=False).score == 1.5
    assert reward(HEDGED, "YES", weights=weights).score == -0.5


def test_what_the_parser_said_of_the_ids_goes_before_the_text() -> None:
    assert reward(GOOD, "YES", format_ok=False).score == 0.8
    assert reward(["<think>look</think>YES"], "YES", format_ok=True).score == 1.0
    assert reward(GOOD, "YES", "paper", format_ok=False).score == 1.0


def test_calls_of_another_dialect_are_bad_format() -> None:
    call = '<think>look</think><tool_call>{"name": "x", "arguments": {}}</tool_call>'
    assert reward([call, *GOOD], "YES").score == 1.0
    assert reward([call, *GOOD], "YES", calls="json").score == 1.0
    assert reward([call, *GOOD], "YES", calls="xml").score == 0.8


def test_no_turns_are_worth_a_bad_format() -> None:
    assert reward([], "NO") == Reward(-0.2, False, False, "")
    assert reward([], "NO", "paper") == Reward(-0.2, False, False, "")


def test_a_truth_or_variant_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'UNSURE'"):
        reward(GOOD, "UNSURE")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'published'"):
        reward(GOOD, "YES", "published")  # type: ignore[arg-type]


CALL = "<think>a</think>\n<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("turns", "predicted", "format_ok"),
    [
        ([CALL, "<think>b</think>\n\n<answer>\\boxed{YES} Hα is broad.</answer>"], "YES", True),
        (["<think>b</think><answer>\\boxed{NO}</answer>"], "NO", True),
        (["<think>b</think><answer> \\boxed{NO} or \\boxed{YES}</answer>"], "NO", True),  # the first box counts
        (["<think>b</think><answer>\\boxed{NO}</answer>\n</answer>"], "NO", True),  # and the last end
        (["<think>b</think><answer>It is \\boxed{NO}</answer>"], "", False),  # the box must come first
        (["<think>b</think>YES it is, or is it"], "YES", False),  # whatever follows the word
        (["<think>b</think>\\boxed{NO"], "NO", False),
        (["<think>b</think>NOTHING"], "", False),
        (["<think>b</think>yes"], "", False),  # capitals only
        (["<think>YES</think>"], "", False),
        (["YES"], "", False),  # it never stopped thinking
        (["<think>a</think>b</think><answer>\\boxed{YES}</answer>"], "", False),  # the first end of a thought counts
        (["<think>a</think>words", "<think>b</think><answer>\\boxed{YES}</answer>"], "YES", False),
        ([CALL], "", False),
        ([], "", False),
    ],
)
def test_the_chapter_variant_reads_as_the_public_reproduction_does(
    turns: list[str], predicted: str, format_ok: bool
) -> None:
    assert chapter_reading(turns, "xml") == (predicted, format_ok)
    for truth in ("YES", "NO"):
        given = reward(turns, truth, "chapter", calls="xml", format_ok=not format_ok)  # the ids' verdict is not asked
        assert given == Reward((predicted == truth) - 0.2 * (not format_ok), predicted == truth, format_ok, predicted)
