"""The figures of a campaign: what is drawn is what was measured, it fits its page, and it reads without colour."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgba

from specvet.evaluation.measures import measure
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.plots.make import DRAWING
from specvet.evaluation.plots.page import FORMATS, figure_bytes, look, style
from specvet.evaluation.plots.shown import KINDS, Entry, Shown, Spread, in_words
from specvet.evaluation.sets import SetRecord
from specvet.tasks import builtin_tasks

TASKS = {key: task for key, task in builtin_tasks().items() if key in ("cv", "wd")}
SETS: dict[str, Any] = {
    "slug": "some",
    "origin": {"path": "questions.jsonl"},
    "questions": 40,
    "tasks": {},
    "file_sha256": "",
    "questions_sha256": "",
    "facts_sha256": "",
}


def outcomes(seed: int, skill: float, confident: bool, looks: bool) -> Iterator[Outcome]:
    """Forty questions about twenty objects: SIMULATED answers that are right as often as `skill` says."""
    luck = np.random.default_rng(seed)
    for i in range(40):
        task, kind = ("cv", "wd")[i % 2], ("member", "M dwarf", "quasar", "A star")[i // 2 % 4]
        truth = "YES" if kind == "member" else "NO"
        right = luck.random() < skill
        said = None if luck.random() < 0.1 else truth if right else {"YES": "NO", "NO": "YES"}[truth]
        sure = float(0.5 + 0.5 * luck.random())
        yield Outcome(
            id=f"q{i}",
            task=task,
            truth=truth,  # type: ignore[arg-type]
            said=said,  # type: ignore[arg-type]
            verdict=said or "FAILED",
            p_yes=(sure if said == "YES" else 1 - sure) if confident and said else None,
            object_id=f"o{i // 2}",
            format_ok=said is not None,
            stop="answered" if said else "malformed",
            kind=kind,
            windows=((6400.0, 6700.0),) if looks and i % 4 < 2 else (),
        )


@cache
def numbers(seed: int, skill: float, confident: bool, looks: bool) -> Mapping[str, Any]:
    told = measure(list(outcomes(seed, skill, confident, looks)), replicates=20)
    return told | {"rule": "strict/1", "seed": seed}


def entry(place: int, label: str, seeds: Sequence[int | None], **how: Any) -> Entry:
    told = {"skill": 0.8, "confident": True, "looks": True} | how
    found = tuple(numbers(100 * place + (seed or 0), **told) for seed in seeds)
    return Entry(f"policy-{place}", label, look(place), tuple(seeds), found)


def shown(*entries: Entry, about: Mapping[str, Any] | None = None, sources: Sequence[str] = ()) -> Shown:
    record = SetRecord(**SETS, about=dict(about or {}))
    return Shown("trial", record, entries, TASKS, frozenset(sources))


def two() -> Shown:
    return shown(
        entry(0, "Indices", [None], looks=False), entry(1, "Agent", [42, 43, 44], skill=0.6), about={"simulated": True}
    )


def drawn(found: Shown, kind: str, beside: bool = False) -> Any:
    with mpl.rc_context(style()):
        return DRAWING[kind](found, beside)


def panel(figure: Any, title: str) -> Any:
    (axes,) = [axes for axes in figure.axes if axes.get_title(loc="left") == title]
    return axes


def bars(axes: Any, height: float) -> list[float]:
    """Where the bars of that height end, from the top."""
    found = [p for p in axes.patches if p.get_height() == pytest.approx(height)]
    return [p.get_x() + p.get_width() for p in sorted(found, key=lambda p: p.get_y())]


def words(figure: Any) -> str:
    return "\n".join(t.get_text() for t in figure.texts)


def notes(axes: Any) -> list[str]:
    return [t.get_text() for t in axes.texts]


def beyond(figure: Any) -> set[Any]:
    """Labels of ticks outside the limits of their axis, which exist and are never drawn."""
    found = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        found |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    return found


def test_one_run_has_its_interval_and_several_have_mean_and_sample_deviation() -> None:
    single = entry(0, "one", [42]).share(lambda m: m["headline"]["accuracy"])
    told = numbers(42, 0.8, True, True)["headline"]["accuracy"]
    assert (single.value, single.low, single.high) == pytest.approx(
        tuple(100 * told[k] for k in ("value", "low", "high"))
    )
    assert not single.over_seeds
    several = entry(1, "three", [42, 43, 44]).share(lambda m: m["headline"]["accuracy"])
    each = [100 * numbers(100 + seed, 0.8, True, True)["headline"]["accuracy"]["value"] for seed in (42, 43, 44)]
    assert several.each == pytest.approx(each)
    assert several.value == pytest.approx(statistics.fmean(each))
    assert several.high is not None
    assert several.high - statistics.fmean(each) == pytest.approx(statistics.stdev(each))
    assert several.over_seeds


def test_what_could_not_be_measured_is_a_dash_and_no_zero() -> None:
    none = entry(0, "one", [42, 43]).share(lambda m: None)
    assert none == Spread(None)
    assert in_words(none) == "–"
    assert in_words(Spread(71.68)) == "71.7"
    assert in_words(Spread(71.68, 66.04, 76.81)) == "71.7 (66.0–76.8)"
    assert in_words(Spread(71.68, 71.28, 72.08, over_seeds=True)) == "71.7 ± 0.4"
    assert in_words(Spread(70.0), 2) == "70.00"


def test_the_four_panels_have_the_numbers_of_the_headline() -> None:
    found = two()
    figure = drawn(found, "comparison")
    for title, key in (("Accuracy", "accuracy"), ("Macro F1", "macro_f1"), ("Format", "format")):
        axes = panel(figure, f"{title} (n = 40)")
        spreads = [e.share(lambda m, key=key: m["headline"][key]) for e in found.entries]
        assert bars(axes, 0.58) == pytest.approx([s.value for s in spreads])
        assert [t for t in notes(axes) if t[0].isdigit()] == [in_words(s) for s in spreads]
        assert axes.get_xlim() == (0, 100)
    text = words(figure)
    assert (
        "Set some: SIMULATED spectra, 40 questions about 20 objects; answers read by strict/1; seeds 42, 43, 44" in text
    )
    assert "95 % interval of a single run" in text
    assert "sample standard deviation over seeds" in text
    assert "Published" not in text


def test_right_wrong_and_unanswered_add_up_to_all_questions() -> None:
    found = shown(entry(0, "Indices", [None]))
    axes = panel(drawn(found, "comparison"), "Correct (n = 40)")
    told = found.entries[0].numbers[0]
    unanswered = told["answers"]["FAILED"]
    assert unanswered > 0
    right = told["headline"]["correct"]["k"]
    assert sorted(bars(axes, 0.58)) == pytest.approx(sorted([right, 40 - unanswered, 40]))
    assert str(right) in notes(axes)


def test_published_results_stand_in_blocks_of_their_own_that_say_whose_they_are() -> None:
    figure = drawn(two(), "comparison", beside=True)
    text = words(figure)
    assert (
        "Published by others (chapter 9.4 of agentic-rl-lab): 256 dev questions of SpecVI-Bench, other questions"
        in text
    )
    assert "Published by others (the Spec-o3 paper): 6,754 test questions of SpecVI-Bench, other questions" in text
    assert "Ours are of simulated spectra, theirs of LAMOST's." in text
    axes = panel(figure, "Macro F1 (n = 256)")
    assert bars(axes, 0.58) == pytest.approx([53.99, 63.05, 71.68, 70.93, 75.94])
    assert [t for t in notes(axes) if t[0].isdigit()] == ["53.99", "63.05", "71.68", "70.93", "75.94"]
    assert len({p.get_hatch() for p in axes.patches}) == 1
    assert not {p.get_hatch() for p in axes.patches} & {look(i).hatch for i in range(14)}
    assert notes(panel(figure, "Accuracy (n = 6,754)")).count("–") == 2
    assert notes(panel(figure, "Correct (n = 6,754)")).count("not printed") == 2


def test_a_set_that_may_be_the_published_one_is_not_called_other_questions() -> None:
    from specvet.evaluation.published import published

    chapter = published()[0]
    told = dict(numbers(0, 0.8, True, True))
    told["tasks"] = {key: told["tasks"]["cv"] | {"n": n} for key, n in chapter.questions_of.items()}
    one = Entry("a", "A", look(0), (None,), (told,))
    assert shown(one).caveat(chapter).endswith("as many of each task as here.")
    assert shown(one, about={"simulated": True}).caveat(chapter).endswith("other questions than ours.")
    assert shown(one, sources=["simulated"]).caveat(chapter).endswith("other questions than ours.")


def test_every_task_has_its_f1_with_precision_and_recall() -> None:
    found = two()
    figure = drawn(found, "tasks", beside=True)
    for key in ("cv", "wd"):
        axes = panel(figure, f"{key} (n = 20)")
        assert bars(axes, 0.5) == pytest.approx(
            [e.share(lambda m, k=key: m["tasks"][k]["f1"]).value for e in found.entries]
        )
        letters = {t.get_text(): t.get_position()[0] for t in axes.texts if t.get_text() in ("P", "R", "PR", "RP")}
        assert letters
    assert bars(panel(figure, "cv (n = 50)"), 0.58) == pytest.approx([61.11, 71.79])
    assert "70.00" in notes(panel(figure, "wd (n = 49)"))
    assert "cataclysmic variable: 5 YES; F1, %" in notes(panel(figure, "cv (n = 20)"))


def test_letters_that_would_hide_each_other_stand_together() -> None:
    from specvet.evaluation.plots.bars import _lettered

    assert _lettered(80.0, 60.0) == [("R", 60.0), ("P", 80.0)]
    assert _lettered(50.0, 50.0) == [("PR", 50.0)]
    assert _lettered(54.0, 50.0) == [("RP", 52.0)]
    assert _lettered(None, 50.0) == [("R", 50.0)]
    assert _lettered(None, None) == []


def test_confusers_are_shaded_by_how_many_went_wrong_members_last() -> None:
    found = two()
    axes = panel(drawn(found, "confusers"), "cv (n = 20)")
    labels = [label.get_text() for label in axes.get_yticklabels()]
    kinds = found.entries[0].numbers[0]["confusers"]["cv"]
    assert sorted(labels) == sorted(f"{kind} ({told['n']})" for kind, told in kinds.items())
    assert labels[-1].startswith("member")
    for y, label in enumerate(labels):
        kind = label.rpartition(" (")[0]
        for x, one in enumerate(found.entries):
            value = one.share(lambda m, kind=kind: m["confusers"]["cv"][kind]["wrong"]).value
            (cell,) = [p for p in axes.patches if (p.get_x(), p.get_y()) == (x - 0.5, y - 0.5)]
            assert value is not None
            assert cell.get_facecolor() == pytest.approx(to_rgba(str(round(1 - 0.72 * value / 100, 3))))
            assert f"{value:.0f}" in [t.get_text() for t in axes.texts if t.get_position()[0] == x]


def test_of_many_kinds_those_with_most_errors_are_drawn_and_the_panel_says_so() -> None:
    told = dict(numbers(0, 0.8, True, True))
    kinds = {
        f"kind {i:02d}": {"n": 10, "truth": "NO", "said_yes": i, "wrong": {"value": i / 20, "low": None, "high": None}}
        for i in range(18)
    }
    told["confusers"] = {"cv": kinds}
    axes = panel(drawn(shown(Entry("a", "A", look(0), (None,), (told,))), "confusers"), "cv (n = 20)")
    assert [t.get_text() for t in axes.get_yticklabels()] == [f"kind {i:02d} (10)" for i in range(17, 3, -1)]
    assert "wrong, %; 14 of 18 kinds" in notes(axes)


def test_reliability_has_the_bins_and_leaves_out_who_gives_no_probability() -> None:
    found = shown(entry(0, "Sure", [None]), entry(1, "Mute", [42], confident=False))
    figure = drawn(found, "reliability")
    (axes,) = figure.axes
    bins = found.entries[0].numbers[0]["reliability"]
    (line,) = [x for x in axes.lines if x.get_gid() == "policy-0"]
    assert line.get_xdata() == pytest.approx([100 * b["confidence"] for b in bins])
    assert line.get_ydata() == pytest.approx([100 * b["accuracy"] for b in bins])
    assert "Without probabilities: Mute." in words(figure).replace("\n", " ")


def test_the_risk_curve_is_the_mean_over_seeds_and_others_have_a_lone_marker() -> None:
    found = shown(entry(1, "Agent", [42, 43]), entry(2, "Mute", [42], confident=False))
    (axes,) = drawn(found, "risk").axes
    (curve,) = [x for x in axes.lines if x.get_gid() == "policy-1"]
    risks = [m["risk_coverage"]["risk"] for m in found.entries[0].numbers]
    assert curve.get_ydata() == pytest.approx(100 * np.mean(risks, axis=0))
    (lone,) = [x for x in axes.lines if x.get_gid() == "policy-2"]
    selective = found.entries[1].numbers[0]["decisions"]["selective"]
    assert lone.get_xdata() == pytest.approx([100 * selective["coverage"]["value"]])
    assert lone.get_ydata() == pytest.approx([100 - 100 * selective["accuracy"]["value"]])


def test_looks_are_drawn_in_their_bins_above_the_key_windows_of_the_task() -> None:
    found = two()
    figure = drawn(found, "windows")
    axes = panel(figure, "cv, cataclysmic variable (n = 20 trajectories)")
    (steps,) = [p for p in axes.patches if p.get_gid() == "policy-1/cv"]
    told = found.entries[1].numbers[0]["windows"]["cv"]
    values, edges, _ = steps.get_data()
    assert edges[0] == told["low"] == 6400
    assert edges[-1] == told["high"] == 6700
    assert values == pytest.approx(100 * np.array(told["share"]))
    assert values.max() == pytest.approx(50)
    strip = figure.axes[figure.axes.index(axes) + 1]
    boxes = {p.get_gid(): (p.get_x(), p.get_x() + p.get_width()) for p in strip.patches}
    assert boxes == {w.key: pytest.approx(tuple(w.range)) for w in TASKS["cv"].windows}
    assert "Did not look: Indices." in words(figure)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("reliability", "no policy gives a probability"),
        ("risk", "no policy gives a probability"),
        ("windows", "no policy looked closer"),
        ("confusers", "facts with a column kind"),
    ],
)
def test_what_was_not_measured_is_not_drawn_but_explained(kind: str, why: str) -> None:
    told = dict(numbers(0, 0.8, False, False)) | {"confusers": {}}
    assert why in drawn(shown(Entry("a", "A", look(0), (None,), (told,))), kind)


@pytest.mark.parametrize("policies", [1, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_all_words_lie_on_the_page_however_many_and_long_the_names(kind: str, policies: int) -> None:
    label = "A model of $9B$ with a name that is far too long for any table, number"
    found = shown(*(entry(i, f"{label} {i}", [42, 43] if i % 2 else [None]) for i in range(policies)))
    figure = drawn(replace(found, campaign="a-name-of-" + "60-letters" * 5), kind, beside=True)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    every = [text for text in figure.findobj(mpl.text.Text) if text.get_text() and text not in beyond(figure)]
    assert len(every) > 10
    for text in every:
        box = text.get_window_extent()
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, f"{text.get_text()!r} lies outside the page"


def test_policies_differ_in_more_than_colour() -> None:
    looks = [look(i) for i in range(14)]
    assert len({(x.marker, x.filled) for x in looks}) == 14
    assert len({x.hatch for x in looks[:7]}) == 7
    assert len({str(x.line) for x in looks[:5]}) == 5


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_numbers_give_the_same_file(form: str) -> None:
    first, second = (figure_bytes(drawn(shown(entry(0, "A", [None])), "risk"), form) for _ in range(2))
    assert first == second
    assert first.startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[form])
