"""The terse voice: telegrams that a small model can afford, checked as the full voice is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from teacher_lab import a_star, cv, question

from specvet.data.simvi.making import Settings, draft
from specvet.data.simvi.plan import spare
from specvet.data.teacher import Refused, Taught, Teacher, terse_wholes
from specvet.data.teacher.figures import brief, figure
from specvet.data.teacher.plans import Plan, worded
from specvet.data.teacher.words import phrases
from specvet.spectra import Spectrum
from specvet.tasks import builtin_tasks, load_task


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return Teacher(load_task("cv"), style="compact", voice="terse", wording="short", size="tiny")


def taught(teacher: Teacher, answer: str, spectrum: Spectrum, seed: int) -> Taught:
    found = teacher.teach(question("cv", answer), spectrum, np.random.default_rng(seed))
    assert isinstance(found, Taught), found
    return found


def test_the_terse_book_has_the_keys_of_the_full_one_and_one_sentence_each() -> None:
    full, terse = phrases(), phrases("terse")
    for group in ("opening", "plan", "look", "final", "answer"):
        assert set(terse[group]) == set(full[group])
        for key, sentences in terse[group].items():
            (sentence,) = sentences
            assert not re.search(r"\d|\[[^\]]*\|", sentence), (key, sentence)
            slots = {slot.lower() for slot in re.findall(r"{(\w+)}", sentence)}
            known = {slot.lower() for text in full[group][key] for slot in re.findall(r"{(\w+)}", text)}
            assert slots <= known | {"rival"}, (key, sentence)


def test_every_reading_of_a_built_in_task_is_at_most_five_words() -> None:
    for task in builtin_tasks().values():
        for e in task.evidence:
            for says in filter(None, (e.when, e.otherwise)):
                assert len(worded(says, "terse").split()) <= 5, says


def test_shorter_words_stand_for_something_that_a_task_says() -> None:
    said = {says.strip() for task in builtin_tasks().values() for e in task.evidence for says in (e.when, e.otherwise)}
    assert set(phrases("terse")["readings"]) <= said


def test_each_terse_name_means_one_measurement_of_a_kind() -> None:
    for task in builtin_tasks().values():
        plan = Plan.of(task, "terse")
        meant: dict[tuple[str, str, str], str] = {}
        for q in plan.quantities.values():
            assert len(q.names) == 1
            assert meant.setdefault((q.names[0].lower(), q.unit, q.kind), q.key) == q.key


@pytest.mark.parametrize(
    ("value", "error", "unit", "text"),
    [
        (-32.07, 0.8, "Å", "−32 Å"),
        (1183.0, 61.0, "km/s", "1200 km/s"),
        (0.6173, 0.004, "", "0.62"),
        (142.3, 0.5, "Å", "140 Å"),
        (0.02, 0.31, "Å", "0.0 Å"),
        (3.14, 0.02, "Å", "3.1 Å"),
        (9.96, 0.1, "Å", "10 Å"),
        (1.0499, 0.004, "", "1.0"),
    ],
)
def test_a_number_has_two_digits_at_most_and_no_error(value: float, error: float, unit: str, text: str) -> None:
    assert brief(figure(value, error, unit)).text() == text


def test_a_terse_demonstration_asks_shortly_and_calls_without_labels(teacher: Teacher) -> None:
    ones = [taught(teacher, "YES", cv(), seed) for seed in range(8)]
    one = max(ones, key=lambda one: one.n_calls)
    assert one.n_calls >= 2
    messages = one.conversation.messages
    assert one.conversation.tools == ()
    assert messages[0].text == "You vet spectra by eye."
    assert messages[1].text.endswith("characteristics of a cataclysmic variable? You have 8 turns.")
    pictures = [part for m in messages for part in m.content if not isinstance(part, str)]
    assert {(p.width, p.height) for p in pictures} == {(224, 168), (252, 196)}
    for call in (m.calls[0] for m in messages if m.calls):
        assert set(call.arguments) == {"wavelength_range"}
    for text in (*(t.thought for one in ones for t in one.turns), *(one.answer for one in ones)):
        assert "±" not in text
        assert len(text.split()) <= 30, text


def test_nothing_is_told_of_a_small_whole_view_that_its_medians_hide(teacher: Teacher) -> None:
    for seed in range(6):
        one = taught(teacher, "YES", cv(), seed)
        assert one.n_calls >= 1  # lines decide it, and they are not to be seen at once
        assert not re.search("S/N|Peak|Noisy", one.turns[0].thought), one.turns[0].thought
        assert sum("S/N" in turn.thought for turn in one.turns) == 1


def test_bands_may_decide_at_once() -> None:
    settings = Settings(5, "compact", None, "terse", "short", "tiny")
    written = [d.written for row in spare("ss", "NO", 5, 12) if (d := draft(row, settings)).written]
    at_once = [w.messages[-1].text for w in written if len(w.messages) == 3]
    assert 1 <= len(at_once) < len(written)
    assert all("ZrO" in answer or "oxide bands" in answer for answer in at_once)


def test_terse_numbers_are_measured_again_as_the_full_ones_are(teacher: Teacher) -> None:
    one = taught(teacher, "YES", cv(), 1)
    told = [fact for fact in one.facts if fact.role in ("width", "colour", "snr", "fwhm")]
    assert {fact.role for fact in told} >= {"width", "colour", "snr"}
    for fact in told:
        assert abs(fact.value - fact.measured) <= fact.tolerance


def test_a_slope_that_the_spectrum_has_not_is_refused(teacher: Teacher, monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.data.teacher import telling

    monkeypatch.setattr(telling, "two_digits", lambda value: "7.7")
    refused = teacher.teach(question("cv", "YES"), cv(), np.random.default_rng(1))
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("text: 7.7 ")


def test_plain_spectra_need_few_looks_and_noisy_ones_more(teacher: Teacher) -> None:
    def mean_calls(spectrum: Spectrum, answer: str) -> float:
        found = [teacher.teach(question("cv", answer), spectrum, np.random.default_rng(s)) for s in range(12)]
        return float(np.mean([one.n_calls for one in found if isinstance(one, Taught)]))

    plain, noisy = mean_calls(cv(snr=40.0), "YES"), mean_calls(cv(snr=6.0), "YES")
    assert plain < 2.5
    assert noisy > plain + 0.4
    assert mean_calls(a_star(snr=40.0), "NO") != plain


def test_equal_generators_give_equal_terse_texts(teacher: Teacher) -> None:
    first, again = (taught(teacher, "NO", a_star(), 5) for _ in range(2))
    assert [t.thought for t in first.turns] == [t.thought for t in again.turns]
    assert first.answer == again.answer


def test_no_terse_text_about_simulated_stars_is_refused() -> None:
    settings = Settings(3, "compact", None, "terse", "short", "tiny")
    rows = [row for task in builtin_tasks() for answer in ("YES", "NO") for row in spare(task, answer, 3, 2)]
    drafts = [draft(row, settings) for row in rows]
    assert not [d.refused for d in drafts if d.refused.startswith("text")]
    assert sum(d.written is not None for d in drafts) >= 14


def test_names_that_hold_numbers_can_be_tokens_of_their_own() -> None:
    wholes = terse_wholes()
    assert {" C2 5165", "C2 5165", " He I 6678", ", ratio 0."} <= set(wholes)
    assert not any("YES" in w or "NO" in w for w in wholes)
    assert [len(w) for w in wholes] == sorted((len(w) for w in wholes), reverse=True)
    assert len(wholes) < 200
