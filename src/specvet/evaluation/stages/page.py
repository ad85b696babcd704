"""The tables of stages in Markdown, in the form of the published ones: percent, each number with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specvet.evaluation.report.readme import plain
from specvet.evaluation.report.words import NONE, interval, number, signed
from specvet.evaluation.stages.plan import StagesPlan

HEADLINES = {"macro_f1": "macro F1", "accuracy": "accuracy", "format": "format"}
NOTE = (
    "Percent; in brackets 95 % intervals over objects, ± is the sample standard deviation over seeds. Macro F1 is the "
    "mean over classes of the F1 of YES; no answer is wrong. Calls are of the zoom tool, a question. Each number "
    "follows from `answers/`: `specvet eval stages FOLDER` makes them all again."
)
PAIRED = (
    "Paired: both models answered the same questions, and each resample draws the same objects for both. The mean's "
    "interval is over questions, for these seeds."
)

Numbers = Mapping[str, Any]


def page(plan: StagesPlan, told: Numbers, figures: Sequence[tuple[str, str]]) -> str:
    """The page `README.md`; `figures` are (file, what it shows)."""
    parts = [f"# {plain(plan.name)}: what each stage brought", plain(plan.about), NOTE]
    if told["missing"]:
        parts.append(f"Not there yet: {', '.join(told['missing'])}.")
    for name, numbers in told["sets"].items():
        parts += _set(plan, name, numbers)
    parts += ["## Curves"] if figures else []
    parts += [f"![{words}]({file})" for file, words in figures]
    if told["minutes"]:
        parts += ["## What it took", _minutes(told["minutes"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _set(plan: StagesPlan, name: str, numbers: Numbers) -> list[str]:
    low = numbers["low_snr"]
    about = (
        f"{numbers['questions']:,} questions about {numbers['objects']:,} objects, {numbers['members']:,} of them YES; "
        f"{low['questions']:,} at S/N below {low['below']:g}."
    )
    parts = [f"## {name}", about, _means(numbers), "By seed:", _seeds(numbers), "F1 by class:", _classes(numbers)]
    if numbers["differences"]:
        parts += [f"What a stage gains, in points. {PAIRED}", _differences(numbers)]
    shown = {row: names for row, names in plan.stages.items() if not plan.conduct or row in plan.conduct}
    there = [model for names in shown.values() for model in names if model in numbers["models"]]
    if there:
        parts += ["Mean calls by class, truth, S/N and answer:", _calls(numbers, there)]
    return parts


def _means(numbers: Numbers) -> str:
    rows = []
    for row, of in numbers["stages"].items():
        cells = [_mean(of[name], 100) for name in HEADLINES]
        low = _mean(of["low_snr_macro_f1"], 100)
        rows.append([plain(row), _seeds_of(of), *cells, _mean(of["correct"], 1), _mean(of["calls"], 1, 2), low])
    head = ["stage", "seeds", *HEADLINES.values(), "correct", "calls", "macro F1, low S/N"]
    return table(head, rows, 2)


def _seeds(numbers: Numbers) -> str:
    rows = []
    for of in numbers["models"].values():
        correct = f"{of['correct']['k']:,} of {of['correct']['n']:,}"
        cells = [interval(of[name]) for name in HEADLINES]
        seed = "all" if of["seed"] is None else str(of["seed"])
        rows.append([plain(of["stage"]), seed, *cells, correct, count(of["calls"]), interval(of["low_snr_macro_f1"])])
    head = ["stage", "seed", *HEADLINES.values(), "correct", "calls", "macro F1, low S/N"]
    return table(head, rows, 2)


def _classes(numbers: Numbers) -> str:
    classes = list(next(iter(numbers["stages"].values()))["tasks"])
    rows = [[plain(row), *(_mean(of["tasks"][c], 100) for c in classes)] for row, of in numbers["stages"].items()]
    return table(["stage", *classes], rows, 1)


def _differences(numbers: Numbers) -> str:
    rows = []
    for pair in numbers["differences"]:
        named = f"{plain(pair['of'])} − {plain(pair['over'])}"
        for one in pair["seeds"]:
            rows.append([named, str(one["seed"]), *_gains(one), f"{one['mcnemar_p']:.2g}"])
        if len(pair["seeds"]) > 1:
            rows.append([named, "mean", *_gains(pair["mean"]), ""])
    return table(["difference", "seed", "macro F1", "accuracy", "macro F1, low S/N", "calls", "McNemar p"], rows, 2)


def _gains(one: Numbers) -> list[str]:
    shares = [interval(one[name], sign=True) for name in ("macro_f1", "accuracy", "low_snr_macro_f1")]
    return [*shares, count(one["calls"], sign=True)]


def _calls(numbers: Numbers, models: Sequence[str]) -> str:
    rows = []
    groups = {by: list(of) for by, of in numbers["models"][models[0]]["calls_by"].items()}
    for by, names in groups.items():
        for name in names:
            found = [numbers["models"][model]["calls_by"][by].get(name) for model in models]
            n = next((str(one["n"]) for one in found if one), "") if by != "answer" else ""
            rows.append([by, name, n, *(NONE if one is None else count(one["calls"]) for one in found)])
    return table(["by", "", "questions", *map(plain, models)], rows, 2)


def _minutes(minutes: Mapping[str, float]) -> str:
    rows = [[name, f"{taken:.1f}"] for name, taken in minutes.items()]
    return table(["stage", "minutes, beside others"], rows, 1)


def count(found: Numbers, sign: bool = False) -> str:
    """`1.72 (1.68–1.75)`, of an interval in its own unit."""
    value, low, high = (found.get(key) for key in ("value", "low", "high"))
    form = f"{'+' if sign else ''}.2f"
    if value is None:
        return NONE
    if low is None or high is None:
        return signed(f"{value:{form}}")
    between = " to " if sign else "–"
    return f"{signed(f'{value:{form}}')} ({signed(f'{low:{form}}')}{between}{signed(f'{high:{form}}')})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """A table of Markdown whose first `words` columns hold words, and the others numbers."""
    marks = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, marks, *rows))


def _mean(of: Numbers, scale: float, digits: int = 1) -> str:
    """`71.7 ± 0.6` over seeds; of one seed the number alone."""
    if of["mean"] is None:
        return NONE
    told = number(scale * of["mean"], digits)
    return told if of["std"] is None else f"{told} ± {number(scale * of['std'], digits)}"


def _seeds_of(of: Numbers) -> str:
    return "all" if of["seeds"] == [None] else ", ".join(str(seed) for seed in of["seeds"])
