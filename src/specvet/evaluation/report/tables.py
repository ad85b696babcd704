"""How right the answers of a set are, as tables: a policy a row, a set a page's part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from specvet.evaluation.plots.shown import Entry, Numbers, Shown
from specvet.evaluation.report import words


@dataclass(frozen=True, slots=True)
class Table:
    """Text in rows; the first column names the row."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    """Below it."""
    named: int = 1
    """Columns from the left that hold words; the others hold numbers."""
    folded: bool = field(default=False)


def headline(shown: Shown) -> Table:
    """Macro F1, accuracy, format, correct answers, calls, seconds and cost of each policy."""

    def row(entry: Entry) -> tuple[str, ...]:
        correct = entry.count(lambda m: m["headline"]["correct"]["k"])
        return (
            entry.label,
            words.seeds(entry.seeds),
            *(words.spread(entry.share(under("headline", key)), 2) for key in ("macro_f1", "accuracy", "format")),
            f"{words.spread(correct, 0 if len(entry.seeds) == 1 else 1)} of {_n(entry):,}",
            words.spread(entry.count(under("calls", "mean")), 2),
            words.seconds(entry.count(lambda m: m["seconds_per_spectrum"]).value),
            _cost(entry),
            words.spread(entry.count(lambda m: m["machinery"]), 0),
        )

    several = any(len(entry.seeds) > 1 for entry in shown.entries)
    return Table(
        "Headline",
        ("policy", "seed", "macro F1, %", "accuracy, %", "strict format, %", "correct", "calls a question",
         "s a spectrum", "US$ a 1,000 spectra", "ended by machinery"),
        tuple(row(entry) for entry in shown.entries),
        (
            "Macro F1 is the mean over tasks of the F1 of YES. No answer counts as wrong, in every denominator. In "
            "brackets: 95 % intervals, objects drawn with replacement"
            + ("; ±: sample standard deviation over seeds." if several else "."),
            "Seconds are wall-clock time of the cell over its questions, several at a time. “Ended by machinery”: a "
            "server or a file, not the policy, ended it; it counts as wrong all the same.",
            *_learnt(shown),
        ),
    )  # fmt: skip


def _learnt(shown: Shown) -> Iterator[str]:
    """Who was asked about spectra that it was trained on."""
    for entry in shown.entries:
        if n := max(m.get("seen_in_training") or 0 for m in entry.numbers):
            yield (
                f"{n:,} of the {_n(entry):,} questions are about spectra that {entry.label} was trained on or stopped "
                "by: its numbers are no held-out numbers."
            )


def by_task(shown: Shown) -> Iterator[Table]:
    """F1 side by side, then the counts behind it."""
    keys = list(shown.questions_of)
    yield Table(
        "F1 of YES by task, %",
        ("policy", *(f"{task_name(shown, key)} ({shown.questions_of[key]:,})" for key in keys)),
        tuple((e.label, *(words.spread(e.share(under("tasks", key, "f1"))) for key in keys)) for e in shown.entries),
    )
    rates = ("precision", "recall", "f1", "accuracy", "false_positive_rate")
    counts = ("tp", "fp", "fn", "tn", "unanswered_yes", "unanswered_no")
    rows = []
    for entry in shown.entries:
        for key in keys:
            rows.append(
                (
                    entry.label,
                    task_name(shown, key),
                    *(words.spread(entry.count(under("tasks", key, "counts", count)), 0) for count in counts),
                    *(words.spread(entry.share(under("tasks", key, rate))) for rate in rates),
                )
            )
    yield Table(
        "By task: counts and rates",
        ("policy", "task", "found (TP)", "false alarms (FP)", "missed (FN)", "rightly NO (TN)", "members unanswered",
         "others unanswered", "precision, %", "recall, %", "F1, %", "accuracy, %", "false-positive rate, %"),
        tuple(rows),
        ("Rates of counts have exact (Clopper-Pearson) intervals.",),
        named=2,
        folded=True,
    )  # fmt: skip


def groups(shown: Shown) -> Iterator[Table]:
    """Accuracy and macro F1 within surveys, layouts, splits and bins of S/N; the metadata-only classifier beside."""
    titles = {"survey": "Within surveys", "layout": "Within file layouts", "split": "Within splits",
              "snr": "By signal to noise (median, a pixel)"}  # fmt: skip
    scores = ("macro_f1", "accuracy")
    for kind, title in titles.items():
        names = keys_of(shown, under("groups", kind))
        if not names or (len(names) == 1 and kind != "survey"):
            continue
        rows = []
        for name in names:
            beside = _metadata(shown).get(f"within_{kind}", {}).get(name)
            if beside is not None:
                told = map(words.interval, (beside.get(score) for score in scores))
                rows.append((name, "metadata only", f"{beside['n']:,}", words.NONE, *told))
            for entry in shown.entries:
                first = next((g for m in entry.numbers if (g := m["groups"].get(kind, {}).get(name))), None)
                if first is not None:
                    spreads = (entry.share(under("groups", kind, name, score)) for score in scores)
                    counted = (f"{first['n']:,}", f"{first['objects']:,}")
                    rows.append((name, entry.label, *counted, *map(words.spread, spreads)))
        head = (kind if kind != "snr" else "S/N", "policy", "questions", "objects", "macro F1, %", "accuracy, %")
        yield Table(title, head, tuple(rows), named=2, folded=len(rows) > 40)


def _metadata(shown: Shown) -> Mapping[str, Any]:
    """What the classifier of metadata alone got; the same beside every policy."""
    return next((m["metadata_only"] for e in shown.entries for m in e.numbers if m["metadata_only"]), {})


def confusers(shown: Shown) -> Table | None:
    """Wrong answers by what the object is."""
    keys = keys_of(shown, under("confusers"))
    rows = []
    for key in keys:
        kinds = keys_of(shown, under("confusers", key))
        for kind in kinds:
            told = [m["confusers"].get(key, {}).get(kind) for entry in shown.entries for m in entry.numbers]
            first = next(one for one in told if one is not None)
            shares = [words.spread(e.share(under("confusers", key, kind, "wrong"))) for e in shown.entries]
            rows.append((task_name(shown, key), kind or "not told", str(first["truth"]), f"{first['n']:,}", *shares))
    if not rows:
        return None
    head = ("task", "what it is", "truth", "questions", *(f"{e.label}: wrong, %" for e in shown.entries))
    return Table("Confusers: wrong answers by what the object is", head, tuple(rows), named=3, folded=len(rows) > 30)


def metadata_only(shown: Shown) -> Table | None:
    """What a classifier gets that never looks at the flux, with the policies below it."""
    found = _metadata(shown)
    if found.get("accuracy") is None:
        return None
    scores = ("accuracy", "macro_f1", "auroc")
    rows = [("metadata only", *(words.interval(found.get(score)) for score in scores))]
    for entry in shown.entries:
        told = [entry.share(under("headline", score)) for score in scores[:2]]
        told.append(entry.share(under("ranking", "all", "auroc")))
        rows.append((entry.label, *map(words.spread, told)))
    return Table(
        "Beside a classifier that sees only metadata",
        ("", "accuracy, %", "macro F1, %", "AUROC, %"),
        tuple(rows),
        (
            "It knows the survey, the layout, the range of wavelengths, the number of pixels, S/N and redshift, and "
            "never the flux. A policy that is no better may have learnt which files the members come in. Method: "
            f"{found['method']} (scikit-learn {found['sklearn']}). Its AUROC is the mean of the tasks', that of "
            "policies over all questions.",
        ),
    )


def decisions(shown: Shown) -> Table:
    """Forced, selective and abstention-costed scores."""
    costs = keys_of(shown, under("decisions", "abstention_cost"))
    rows = []
    for entry in shown.entries:
        forced = [entry.share(under("decisions", "forced", score)) for score in ("accuracy", "macro_f1")]
        chosen = [entry.share(under("decisions", "selective", score)) for score in ("coverage", "accuracy", "macro_f1")]
        paid = [entry.count(under("decisions", "abstention_cost", cost)) for cost in costs]
        rows.append((entry.label, *map(words.spread, forced + chosen), *(words.spread(x, 3) for x in paid)))
    return Table(
        "Decisions: forced, selective, and what abstaining costs",
        ("policy", "forced: accuracy, %", "forced: macro F1, %", "answers, % of questions", "accuracy of answers, %",
         "macro F1 of answers, %", *(f"cost at c = {cost}" for cost in costs)),
        tuple(rows),
        ("Forced: where there is no answer but a probability, the likelier one counts. Cost: the mean over questions "
         "of 1 for an error and c for a question without answer; less is better.",),
    )  # fmt: skip


def ranking(shown: Shown) -> Table | None:
    """AUROC, AUPRC, Brier, ECE and AURC of those that give a probability."""
    scores = ("auroc", "auprc", "brier", "ece", "aurc")
    rows = []
    for entry in shown.entries:
        if any(m["ranking"].get("all") for m in entry.numbers):
            told = [entry.count(under("ranking", "all", score)) for score in scores]
            without = entry.count(lambda m: m["ranking"].get("without_p_yes"))
            rows.append((entry.label, *(words.spread(x, 3) for x in told), words.spread(without, 0)))
    if not rows:
        return None
    return Table(
        "Probabilities: ranking and calibration",
        ("policy", "AUROC", "AUPRC", "Brier", "ECE", "AURC", "without a probability"),
        tuple(rows),
        ("AUROC and AUPRC: the more the better; Brier score, expected calibration error and area under the "
         "risk-coverage curve: the less the better. Questions without a probability are left out of the first four; "
         "risk-coverage has them last.",),
    )  # fmt: skip


def transfer(shown: Shown) -> Iterator[Table]:
    """Classes and surveys beyond those that were trained on."""
    rows = []
    for entry in shown.entries:
        if entry.having("seen_unseen"):
            for part in ("seen", "unseen"):
                keys = next(iter(entry.having("seen_unseen")))["seen_unseen"][part]["tasks"]
                score = entry.share(under("seen_unseen", part, "macro_f1"))
                rows.append((entry.label, part, ", ".join(keys) or words.NONE, words.spread(score)))
    if rows:
        yield Table("Classes that were and were not trained on", ("policy", "classes", "tasks", "macro F1, %"),
                    tuple(rows), named=3)  # fmt: skip
    across = tuple(row for entry in shown.entries for row in _across(entry))
    if across:
        yield Table(
            "Across surveys, on the same objects",
            ("policy", "survey", "questions", "macro F1, %", "accuracy, %", "macro F1 less the reference's, points",
             "accuracy less the reference's, points"),
            across,
            ("Differences are over the objects and tasks that were asked in both surveys. Where there are several "
             "seeds, they are of the first.",),
            named=2,
        )  # fmt: skip


def _across(entry: Entry) -> Iterator[tuple[str, ...]]:
    for m in entry.having("cross_survey")[:1]:
        told = m["cross_survey"]
        for name, group in told["surveys"].items():
            paired = told["paired"].get(name)
            score = [words.interval(group[key]) for key in ("macro_f1", "accuracy")]
            less = ["reference" if name == told["reference"] else words.NONE] * 2
            if paired is not None:
                less = [words.interval(paired[key], sign=True) for key in ("macro_f1", "accuracy")]
            yield entry.label, name, f"{group['n']:,}", *score, *less


def under(*path: str) -> Callable[[Numbers], Any]:
    """Takes what lies below the keys of `path`; None where one is missing."""

    def get(numbers: Numbers) -> Any:
        found: Any = numbers
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    return get


def keys_of(shown: Shown, get: Callable[[Numbers], Mapping[str, Any] | None]) -> list[str]:
    """The keys that any cell has there, in the order in which they come."""
    return list(dict.fromkeys(key for entry in shown.entries for m in entry.numbers for key in get(m) or {}))


def _n(entry: Entry) -> int:
    return int(entry.numbers[0]["questions"])


def _cost(entry: Entry) -> str:
    cost = entry.count(lambda m: m["cost_usd_per_spectrum"])
    return words.NONE if cost.value is None else f"{1_000 * cost.value:,.2f}"


def task_name(shown: Shown, key: str) -> str:
    """`cataclysmic variable` of `cv`."""
    task = shown.tasks.get(key)
    return task.name if task else key


def tables_of(shown: Shown) -> list[Table]:
    """All tables about what was right behind the headline, but those that need words of their own."""
    found = [*by_task(shown), *groups(shown), confusers(shown), metadata_only(shown)]
    found += [decisions(shown), ranking(shown), *transfer(shown)]
    return [table for table in found if table is not None]
