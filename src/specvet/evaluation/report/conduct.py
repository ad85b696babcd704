"""How policies went about it: answers, ends, calls, turns, tokens, time; and paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specvet.evaluation.plots.shown import Entry, Shown
from specvet.evaluation.report import words
from specvet.evaluation.report.tables import Table, keys_of, under

ANSWERS = ("YES", "NO", "UNSURE", "NO_DATA", "FAILED", "ERROR")


def conduct(shown: Shown) -> Iterator[Table]:
    """Answers, ends, calls and what they took; means over seeds where there are several."""
    yield _counted(shown, "What was answered", "answers", ANSWERS)
    yield _counted(shown, "How trajectories ended", "stops", keys_of(shown, under("stops")))
    malformed = keys_of(shown, under("malformed"))
    if malformed:
        yield _counted(shown, "Malformed turns, by kind", "malformed", malformed)
    yield _calls(shown)
    yield _taken(shown)


def _counted(shown: Shown, caption: str, part: str, names: Sequence[str]) -> Table:
    def row(entry: Entry) -> tuple[str, ...]:
        digits = 0 if len(entry.seeds) == 1 else 1
        counts = (entry.count(lambda m, name=name: m[part].get(name, 0)) for name in names)  # type: ignore[misc]
        return entry.label, *(words.spread(count, digits) for count in counts)

    return Table(caption, ("policy", *names), tuple(row(e) for e in shown.entries))


def _calls(shown: Shown) -> Table:
    def row(entry: Entry) -> tuple[str, ...]:
        digits = 0 if len(entry.seeds) == 1 else 1
        made = [words.spread(entry.count(under("calls", k)), digits) for k in ("made", "executed", "succeeded")]
        return (
            entry.label,
            *made,
            words.spread(entry.share(under("calls", "success_share"))),
            words.spread(entry.count(under("calls", "mean")), 2),
            words.spread(entry.share(under("calls", "without_share"))),
            *(words.spread(entry.count(under("turns", k)), 2 if k == "mean" else 0) for k in ("mean", "median", "max")),
        )

    head = ("policy", "calls made", "executed", "answered with a view", "of those made, %", "calls a question",
            "questions without a call, %", "turns: mean", "median", "most")  # fmt: skip
    return Table("Calls and turns", head, tuple(row(e) for e in shown.entries))


def _taken(shown: Shown) -> Table:
    def row(entry: Entry) -> tuple[str, ...]:
        tokens = [entry.count(under("tokens", k)) for k in ("prompt", "sampled", "sampled_mean", "ledger_mean")]
        times = [entry.count(under("seconds", k)).value for k in ("mean", "median", "p95")]
        wall = entry.count(lambda m: m["seconds_per_spectrum"]).value
        return entry.label, *(words.spread(t, 0) for t in tokens), *map(words.seconds, [*times, wall])

    head = ("policy", "prompt tokens", "sampled tokens", "sampled a question", "ledger a question",
            "s a trajectory: mean", "median", "95th percentile", "wall-clock s a spectrum")  # fmt: skip
    return Table(
        "Tokens and time",
        head,
        tuple(row(e) for e in shown.entries),
        ("A trajectory's seconds include waiting for its turn; several run at a time. A policy that measures has no "
         "tokens.",),
    )  # fmt: skip


def comparisons(summary: Mapping[str, Any], labels: Mapping[str, str], name: str) -> Table | None:
    """Paired differences on a set, seed by seed, then over seeds. `labels`: slug → label."""
    rows = []
    for told in summary["comparisons"]:
        if told["set"] != name:
            continue
        pair = (labels.get(told["of"], told["of"]), labels.get(told["over"], told["over"]))
        for one in told["seeds"]:
            rows.append((*pair, *_compared(one)))
        if len(told["seeds"]) > 1:
            rows.append((*pair, "mean", *_over_seeds(told["over_seeds"])))
    if not rows:
        return None
    head = ("policy", "over", "seed", "accuracy, points", "macro F1, points", "strict format, points", "gained",
            "lost", "McNemar p")  # fmt: skip
    return Table(
        "Paired differences on the same questions",
        head,
        tuple(rows),
        (
            "Gained: only the policy was right; lost: only the other was. In brackets: 95 % intervals, both drawn "
            "together by object. McNemar's test is exact and two-sided, for one seed: questions asked again with "
            "another seed are not independent, so no p is given over seeds (±: sample standard deviation).",
        ),
        named=2,
    )


def _compared(one: Mapping[str, Any]) -> tuple[str, ...]:
    seed = one.get("seed")
    return (
        "any" if seed is None else str(seed),
        *(words.interval(one[key]["difference"], sign=True) for key in ("accuracy", "macro_f1", "format")),
        f"{one['only_a']:,}",
        f"{one['only_b']:,}",
        words.p_value(one["mcnemar_p"]),
    )


def _over_seeds(over: Mapping[str, Any]) -> tuple[str, ...]:
    def told(part: Mapping[str, Any] | None) -> str:
        if part is None or part["mean"] is None:
            return words.NONE
        mean = words.signed(f"{100 * part['mean']:+.1f}")
        return mean if part["std"] is None else f"{mean} ± {100 * part['std']:.1f}"

    return *(told(over.get(key)) for key in ("accuracy", "macro_f1", "format")), "", "", ""
