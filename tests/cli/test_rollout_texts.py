"""What `specvet rollout` says on the way and at its end."""

from __future__ import annotations

import pytest

from specvet.cli.rollout_progress import rollout_line, shown_rollouts, stops_text
from specvet.cli.rollout_summary import Kept, prefill_ratio, print_rollouts, zero_call_share
from specvet.vetting.watch import RolloutProgress, RolloutSummary

PROGRESS = RolloutProgress(
    recorded=120,
    skipped=88,
    total=600,
    running=64,
    turns=840,
    calls=610,
    sampled=91_200,
    stops={"max_turns": 2, "answered": 118},
    errors=1,
    seconds=60.0,
)

SUMMARY = RolloutSummary(
    answers={"cv": {"YES": 3, "FAILED": 1}},
    stops={"answered": 3, "max_turns": 1},
    malformed={"bad_call": 2},
    recorded=4,
    errors=0,
    skipped=2,
    duplicates=0,
    turns=14,
    calls={"made": 10, "executed": 9, "succeeded": 8, "repeated": 1, "unknown_tool": 1, "extra_arguments": 0},
    without_calls=1,
    asked=4,
    tokens={"prompt": 40_000, "cached": 0, "sampled": 1_500, "images": 900, "total": 9_000, "looping": 1},
    rewarded=4,
    reward=0.7,
    interrupted=False,
    seconds=3.0,
)

USAGE = {
    "prompt_tokens": 50_000.0,
    "prefilled_tokens": 11_000.0,
    "unique_tokens": 10_500.0,
    "sampled_tokens": 1_600.0,
    "requests": 20.0,
    "cost": 1.5,
    "probes.prefilled_tokens": 1_000.0,
    "probes.unique_tokens": 500.0,
    "probes.sampled_tokens": 100.0,
}

KEPT = Kept(
    counts={"cv": {"YES": 5, "FAILED": 1}, "*": {"ERROR": 2}},
    stops={"answered": 5},
    sums={
        "trajectories": 6,
        "turns": 18,
        "calls.made": 12,
        "calls.succeeded": 9,
        "calls.repeated": 2,
        "tokens.sampled": 1_900,
        "tokens.images": 950,
        "malformed.no_answer": 1,
        "malformed.bad_call": 3,
    },
    usage=USAGE,
    unreadable=(("b.fits", "no such file"),),
)


def test_a_line_tells_what_is_done_under_way_and_left() -> None:
    assert rollout_line(PROGRESS) == (
        "120 of 512 trajectories done, 64 under way, 840 turns, 1,520 tokens a second, 610 calls, "
        "118 answered, 2 max turns, 1 unreadable, about 3 min left"
    )

    assert rollout_line(PROGRESS, at_least=True).startswith("120 of at least 512 trajectories done, ")


def test_nobody_is_told_when_quiet_and_a_log_gets_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (True, False):
        with shown_rollouts(quiet) as shown:
            shown(PROGRESS)
    assert capsys.readouterr().err == ""  # a line comes every 30 s only


def test_stops_come_commonest_first() -> None:
    assert stops_text({"max_turns": 2, "answered": 1_180}) == "1,180 answered, 2 max turns"


def test_the_prefill_ratio_leaves_probes_out_and_is_unknown_where_nobody_counts() -> None:
    assert prefill_ratio(USAGE) == 1.0
    assert prefill_ratio({"prompt_tokens": 5.0}) is None
    assert zero_call_share(SUMMARY) == 0.25


def test_the_table_tells_answers_ends_calls_tokens_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    print_rollouts("runs/x", SUMMARY, KEPT)
    said = capsys.readouterr().out
    for words in (
        "Ended: 5 answered.",
        "2 could not be read (ERROR); --retry-errors tries them again:",
        "  b.fits: no such file",
        "  … and 1 more",
        "This session: 4 trajectories in 3 s, 2 were there from before.",
        "14 turns; 10 calls, 8 answered with a view, 1 repeated, 1 of unknown tools; 25% of trajectories made none.",
        "Malformed turns: 2 bad call.",
        "1,500 tokens sampled (500 a second), 900 of pictures, 9,000 in all ledgers; 1 turns looped.",
        "Mean reward 0.700 of 4.",
        "50,000 tokens in prompts, 10,000 prefilled (1.000 of the least possible), 1,500 sampled, 20 requests "
        "+ 100 tokens in probes, 1.50 US dollars.",
        "The whole run: 6 trajectories, 18 turns; 12 calls, 9 answered with a view, 2 repeated; "
        "1,900 tokens sampled, 950 of pictures.",
        "Malformed turns of the whole run: 3 bad call, 1 no answer.",
        "specvet transcript runs/x",
    ):
        assert words in said
