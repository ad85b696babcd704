"""The second reading: every number of a text is held against the spectrum, and a wrong one is found."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from teacher_lab import a_star, cv, star, taught

from specvet.data.teacher import Fact, Taught
from specvet.data.teacher.checking import Checker, Words
from specvet.data.teacher.figures import figure, number
from specvet.data.teacher.plans import Plan
from specvet.data.teacher.taught import Turn
from specvet.data.teacher.words import Speaker
from specvet.records.schema import Measurement
from specvet.spectra import Spectrum
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import pixels_of
from specvet.tasks import load_task
from specvet.tools import ZoomTool

WORDS = {key: Words.of(Plan.of(load_task(key))) for key in ("cv", "wd", "gm", "cc")}


def drafts() -> Iterator[Taught]:
    for seed in range(2):
        yield taught("cv", "YES", cv(seed=seed), seed)
        yield taught("cv", "YES", cv(seed=seed, ivar=False), seed + 20)
        yield taught("wd", "NO", cv(seed=seed), seed + 5)
        yield taught("gm", "NO", a_star(seed=seed), seed + 10)
        yield taught("cc", "NO", a_star(seed=seed, snr=12.0), seed + 15)


def checked(one: Taught, turns: list[Turn], answer: str) -> list[Fact] | str:
    return Checker(WORDS[one.task.key], one.opening, turns, answer).checked()


def changed(one: Taught, fact: Fact, text: str) -> list[Fact] | str:
    """The verdict on the draft with one number written otherwise."""
    turns, answer = list(one.turns), one.answer
    low, high = fact.span
    if fact.in_answer:
        assert answer[low:high] == fact.text
        answer = answer[:low] + text + answer[high:]
    else:
        thought = turns[fact.turn].thought
        assert thought[low:high] == fact.text
        turns[fact.turn] = dataclasses.replace(turns[fact.turn], thought=thought[:low] + text + thought[high:])
    return checked(one, turns, answer)


def wrong_numbers(fact: Fact) -> Iterator[str]:
    """The nearest writable numbers on both sides that are off by more than the tolerance."""
    decimals = len(fact.text.partition(".")[2])
    scale = 100.0 if fact.role == "slope" else 1.0
    middle = scale * abs(fact.measured) if fact.role == "slope" else fact.measured
    if fact.value < 0 and not fact.text.startswith("−") and fact.role != "slope":
        middle = -middle  # written without its sign, as "32 Å of emission"
    for sign in (1.0, -1.0):
        text = number(middle + sign * (1.2 * scale * fact.tolerance + 10.0**-decimals), decimals)
        positive = fact.role not in ("width", "value", "speed")
        if not (positive and (text.startswith("−") or float(text) == 0.0)):
            yield text


def test_the_facts_are_the_numbers_of_the_text() -> None:
    for one in drafts():
        for fact in one.facts:
            text = one.answer if fact.in_answer else one.turns[fact.turn].thought
            assert text[slice(*fact.span)] == fact.text
            assert abs(fact.value - fact.measured) <= fact.tolerance


def test_every_number_that_is_off_by_more_than_its_tolerance_is_found() -> None:
    tried: Counter[str] = Counter()
    for one in drafts():
        for fact in one.facts:
            for text in wrong_numbers(fact):
                tried[fact.role] += 1
                assert isinstance(changed(one, fact, text), str), (fact, text)
    assert tried.total() > 250
    assert set(tried) >= {"width", "fwhm", "ratio", "error", "snr", "range", "place", "colour"}


def test_a_wrong_number_in_a_name_is_found() -> None:
    tried = 0
    for one in drafts():
        for i, turn in enumerate(one.turns):
            facts = [range(*f.span) for f in one.facts if f.turn == i and not f.in_answer]
            for found in re.finditer(r"\d{4}", turn.thought):
                if any(found.start() in span for span in facts):
                    continue
                other = turn.thought[: found.start()] + str(int(found[0]) + 1) + turn.thought[found.end() :]
                turns = [*one.turns[:i], dataclasses.replace(turn, thought=other), *one.turns[i + 1 :]]
                assert isinstance(checked(one, turns, one.answer), str), other
                tried += 1
    assert tried > 20


def said(sentence: str, *, calls: int = 1, last: bool = True) -> list[Fact] | str:
    """The verdict on one sentence, said of a CV after Hα and Hβ were looked at."""
    tool = ZoomTool(cv(snr=40.0))
    turns = []
    for window in ([6300, 6900], [4600, 5120])[:calls]:
        arguments = {"wavelength_range": window}
        turns.append(Turn(f"Zoom into {window[0]}-{window[1]} Å.", arguments, tool(arguments)))
    if last:
        turns.append(Turn(sentence, None, None))
    answer = r"<answer>\boxed{YES} A cataclysmic variable.</answer>"
    return Checker(WORDS["cv"], tool.opening(), turns, answer).checked()


def test_true_sentences_stand() -> None:
    for sentence in (
        "Hα stands in emission, EW −54 ± 2 Å.",
        "Hα stands in emission with an equivalent width of 54 ± 2 Å.",
        "He I 6678 is in emission, EW −7.7 ± 0.7 Å.",
        "In 6300 to 6900 Å nothing else shows.",
        "S/N here is about 33.",
    ):
        assert isinstance(said(sentence), list), said(sentence)


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("Hα stands in emission, EW −66 ± 2 Å.", "−66 of ha: -5"),
        ("Hα stands in absorption, EW 56 ± 2 Å.", "56 of ha"),
        ("Hα stands in emission, EW −54.0 ± 0.1 Å.", "0.1 of ha"),
        ("Hα stands in emission, EW −54 ± 30 Å.", "30 of ha"),
        ("It stands in emission, EW −54 ± 2 Å.", "−54 ± 2 Å is of nothing"),
        ("Hα has an FWHM of 3000 ± 100 km/s.", "3000 of ha_width"),
        ("Hβ stands in emission, EW −31 ± 1 Å.", "no window has shown it"),
        ("He I 6679 is in emission, EW −10 ± 1 Å.", "without a meaning|is of nothing"),
        ("Look at 6300-6800 Å.", "was not called"),
        ("An emission line stands up near 6700 Å.", "6700 of peak"),
        ("S/N here is about 50.", "50 of window"),
        ("There are 3 lines.", "is of nothing|without a meaning"),
        ("The flux near 4510 Å is about 2.0 times that near 6700 Å.", "no places where slopes are told"),
        ("The flux near 4500 Å is about 9.0 times that near 6700 Å.", "9.0 of spectrum"),
        ("There are no good pixels between 7000 and 7100 Å.", "was not called"),
        ("Hα EW −56 ± 2 km/s.", "no number of Hα|of ha_"),
    ],
)
def test_false_sentences_are_refused_with_the_reason(sentence: str, reason: str) -> None:
    found = said(sentence)
    assert isinstance(found, str), sentence
    assert re.search(reason, found), found


def test_the_range_that_a_turn_announces_must_be_the_one_it_calls() -> None:
    tool = ZoomTool(cv())
    for announced, fine in (("6300-6900 Å", True), ("6300-6800 Å", False)):
        arguments = {"wavelength_range": [6300, 6900]}
        turns = [Turn(f"Zoom into {announced}.", arguments, tool(arguments)), Turn("Enough.", None, None)]
        found = Checker(WORDS["cv"], tool.opening(), turns, "<answer>A cataclysmic variable.</answer>").checked()
        assert isinstance(found, list) is fine, found


def test_the_second_measurement_is_not_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A teacher whose measurements are wrong by a tenth is found out by the pixels."""
    from specvet.data.teacher import sight
    from specvet.spectra.indices import Meter

    class Biased(Meter):
        def measure(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            found = super().measure(*args, **kwargs)
            return {
                k: m.model_copy(update={"value": 1.1 * m.value}) if m.value is not None and m.unit == "Å" else m
                for k, m in found.items()
            }

    monkeypatch.setattr(sight, "Meter", Biased)
    from teacher_lab import teach

    reasons = [getattr(teach("cv", "YES", cv(snr=60.0), seed), "reason", "") for seed in range(4)]
    assert sum(reason.startswith("text: ") for reason in reasons) >= 3, reasons
    assert np.all([" was measured again" in r for r in reasons if r.startswith("text")])


# Features and labels --------------------------------------------------------------------------------------------------


def announced(task: str, sentence: str, window: tuple[int, int], label: str | None = None) -> list[Fact] | str:
    """The verdict on a call that is announced in one sentence; `{range}` stands for its window."""
    tool = ZoomTool(a_star(snr=40.0))
    arguments = {"wavelength_range": [*window]} | ({"label": label} if label else {})
    said = sentence.replace("{range}", f"{window[0]}-{window[1]} Å")
    turns = [Turn(said, arguments, tool(arguments)), Turn("Enough.", None, None)]
    answer = r"<answer>\boxed{NO} It is not that.</answer>"
    return Checker(WORDS[task], tool.opening(), turns, answer).checked()


@pytest.mark.parametrize(
    ("task", "sentence", "named", "other"),
    [
        ("cc", "The first test for a carbon star is {f}: I zoom into {range}.", "C2 Swan (0,0)", "C2 Swan (1,1)"),
        ("gm", "An M giant would show itself first in {f}, so look at {range}.", "TiO5 7130", "Hα"),
        ("wd", "I start at {f}, which matters most for a white dwarf: {range}.", "Hγ", "Ca II K"),
        ("wd", "If it is a white dwarf, {f} should agree: next {range}.", "C2 Swan (0,0)", "Mg I b"),
        ("cv", "Would {f} bear this out? Next {range}.", "Hβ", "Na I 8183"),
        ("gm", "To make sure I turn to {f}, {range}.", "Ca II 8542", "Na I 8183"),
    ],
)
def test_only_what_the_evidence_counts_is_announced_as_expected(
    task: str, sentence: str, named: str, other: str
) -> None:
    assert isinstance(announced(task, sentence.replace("{f}", named), (4900, 5300)), list)
    refused = announced(task, sentence.replace("{f}", other), (4900, 5300))
    assert isinstance(refused, str)
    assert refused.startswith(f"{other} is not what the evidence expects, in ")


def test_every_sentence_that_announces_what_is_expected_is_known_to_the_checker() -> None:
    """A new sentence in phrases.yaml that the checker does not recognise would be one that nothing holds to account."""
    speaker = Speaker(np.random.default_rng(0))
    for key, names in (("leads", ("Hγ", "Ca II K")), ("expected", ("Hγ", "Mg I b"))):
        for _ in range(60):
            said = [speaker.say(f"plan.{key}", a_task="a white dwarf", features=n, range="{range}") for n in names[1:]]
            assert isinstance(announced("wd", said[0], (4000, 4500)), str), said[0]


@pytest.mark.parametrize(
    ("task", "label", "window", "fine"),
    [
        ("wd", "Hγ to H9", (3790, 4510), True),
        ("wd", "Hγ to H9", (3870, 4050), False),
        ("wd", "Ca II K", (3870, 4050), True),
        ("wd", "Ca II K and Hγ", (3870, 4050), False),
        ("cv", "Hα and He I 6678", (6300, 6900), True),
        ("cv", "Hα and He I 6678", (6300, 6600), False),
        ("cv", "my own words", (6300, 6600), True),
    ],
)
def test_a_label_names_only_what_lies_in_the_range(task: str, label: str, window: tuple[int, int], fine: bool) -> None:
    found = announced(task, "Now {range}.", window, label)
    assert isinstance(found, list) is fine, found
    assert fine or "lies outside" in str(found)


def test_labels_of_drafts_moved_to_another_window_are_found() -> None:
    tried = 0
    for one in drafts():
        for i, turn in enumerate(one.turns):
            if turn.arguments is None or "label" not in turn.arguments:
                continue
            inside = turn.arguments["wavelength_range"]
            strange = "C2 Swan (0,0)" if one.task.key == "cc" else "Hα" if one.task.key in ("cv", "gm", "wd") else ""
            at = {"C2 Swan (0,0)": 5165.2, "Hα": 6562.8}[strange]
            if inside[0] < at < inside[1]:
                continue
            moved = dataclasses.replace(turn, arguments={**turn.arguments, "label": strange})
            assert "lies outside" in str(checked(one, [*one.turns[:i], moved, *one.turns[i + 1 :]], one.answer))
            tried += 1
    assert tried >= 5


# Widths ---------------------------------------------------------------------------------------------------------------


def told_of_ha(sentence: str, spectrum: Spectrum) -> list[Fact] | str:
    """The verdict on a sentence about Hα, said of a spectrum after its window was looked at."""
    tool = ZoomTool(spectrum)
    arguments = {"wavelength_range": [6300, 6900]}
    turns = [Turn("Zoom into 6300-6900 Å.", arguments, tool(arguments)), Turn(sentence, None, None)]
    return Checker(WORDS["cv"], tool.opening(), turns, r"<answer>\boxed{NO} It is not that.</answer>").checked()


def measured_of_ha(spectrum: Spectrum) -> Measurement:
    view = ZoomTool(spectrum).opening().data
    assert view is not None
    return Meter(pixels_of(view.spectrum, view.frame.z)).measure(("ha_intrinsic",), WORDS["cv"].plan.indices)[
        "ha_intrinsic"
    ]


def test_the_instrument_is_said_to_be_taken_out_only_where_it_was() -> None:
    known = cv(snr=60.0)
    width = figure(measured_of_ha(known).value or 0.0, measured_of_ha(known).error, "km/s").text()
    freed, observed = f"Hα is broad: FWHM {width} without the instrument.", f"Hα is broad: FWHM {width} as observed."
    assert isinstance(told_of_ha(freed, known), list)
    unknown = known.replace(resolution=None)
    assert "the instrument's width is in it" in measured_of_ha(unknown).note
    assert "is no number of" in str(told_of_ha(freed, unknown))
    assert isinstance(told_of_ha(observed, unknown), list)


def test_drafts_about_spectra_of_unknown_resolution_take_no_instrument_out() -> None:
    tried = 0
    for seed in range(6):
        one = taught("cv", "YES", cv(seed=seed).replace(resolution=None), seed)
        said = [*(turn.thought for turn in one.turns), one.answer]
        assert not any("instrument" in text for text in said), said
        if "as observed" in one.answer:
            tried += 1
            wrong = one.answer.replace("as observed", "without the instrument")
            assert isinstance(checked(one, list(one.turns), wrong), str)
    assert tried >= 2


def test_a_limit_and_a_value_are_told_apart() -> None:
    narrow = star({"Hα": 3.0}, fwhm_km_s=60.0, snr=60.0)
    m = measured_of_ha(narrow)
    assert "an upper limit" in m.note
    shown = figure(m.value or 0.0, m.error, "km/s")
    most = f"Hα is narrow: FWHM {shown.limit('at most')} without the instrument."
    assert isinstance(told_of_ha(most, narrow), list), told_of_ha(most, narrow)
    for wrong in (shown.text(), shown.text(with_error=False), shown.limit("at least"), f"at most {shown.text()}"):
        found = told_of_ha(f"Hα is narrow: FWHM {wrong} without the instrument.", narrow)
        assert "a limit (at most)" in str(found), (wrong, found)
    broad = cv(snr=60.0)
    of_broad = figure(measured_of_ha(broad).value or 0.0, measured_of_ha(broad).error, "km/s")
    for which in ("at most", "at least"):
        found = told_of_ha(f"Hα is broad: FWHM {of_broad.limit(which)} without the instrument.", broad)
        assert "is no limit" in str(found), found
