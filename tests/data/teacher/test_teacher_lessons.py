"""Demonstrations: how they go, what they follow from, and what is refused."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from teacher_lab import GRID, a_star, cv, question, star, taught, teach, texts

from specvet.chat import Image
from specvet.data.demonstrations import read_demonstrations, write_demonstrations
from specvet.data.simvi.making import Settings, draft
from specvet.data.simvi.plan import spare
from specvet.data.teacher import Refused, Taught, Teacher, teaching
from specvet.data.teacher.expecting import expected_of
from specvet.data.teacher.plans import Plan
from specvet.data.teacher.sight import Sight
from specvet.spectra import Spectrum, read
from specvet.tasks import TaskError, builtin_tasks, load_task, strict_answer
from specvet.tasks.load import task_from_bytes
from specvet.tools import ZoomTool
from specvet.views import View

SHARED = Path(__file__).parents[4] / "shared" / "spectra"


def test_equal_generators_give_equal_texts_and_others_give_others() -> None:
    first, again, other = (texts(taught("cv", "YES", cv(), seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_the_label_decides_only_whether_a_draft_is_accepted() -> None:
    assert isinstance(teach("cv", "YES", cv()), Taught)
    refused = teach("cv", "NO", cv())
    assert isinstance(refused, Refused)
    assert re.fullmatch(r"evidence says YES \(log-odds \+\d+\.\d\), label NO", refused.reason)
    assert isinstance(teach("cv", "NO", a_star()), Taught)
    assert "evidence says NO" in teach("cv", "YES", a_star()).reason  # type: ignore[union-attr]


def test_a_conversation_has_the_published_shape() -> None:
    one = next(t for seed in range(9) if (t := taught("cv", "YES", cv(), seed)).n_calls >= 2)
    messages = one.conversation.messages
    assert [m.role for m in messages] == ["system", "user", *["assistant", "tool"] * one.n_calls, "assistant"]
    assert all(isinstance(part, Image) for part in (messages[1].content[0], messages[3].content[0]))
    assert "Does this candidate show the spectral characteristics" in messages[1].text
    assert all(m.reasoning for m in messages if m.role == "assistant")
    for call, observation in zip(messages[2:-1:2], messages[3::2], strict=True):
        low, high = call.calls[0].arguments["wavelength_range"]
        assert f"({low}, {high})" in observation.text
        assert call.text == ""
    assert strict_answer([f"<think>{messages[-1].reasoning}</think>\n{messages[-1].text}"]) == "YES"
    assert [tool["function"]["name"] for tool in one.conversation.tools] == [one.tool.name]


def test_no_figure_is_drawn_before_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(self: View) -> bytes:
        raise AssertionError("drawn")

    monkeypatch.setattr(View, "png", property(drawn))
    one = taught("cv", "YES", cv())
    assert len(one.spoken(lambda observation: None).messages) == 3 + 2 * one.n_calls
    with pytest.raises(AssertionError, match="drawn"):
        _ = one.conversation


def test_a_demonstration_is_written_with_its_pictures_and_read_back(tmp_path: Path) -> None:
    one = taught("cv", "YES", cv())
    demonstration = one.demonstration(tmp_path, "cv/1")
    write_demonstrations(str(tmp_path / "sft.jsonl"), [demonstration])
    (back,) = read_demonstrations(str(tmp_path / "sft.jsonl"))
    assert (back.id, back.name, back.object_id) == ("cv/1", "a.fits", "a.fits")
    assert back.messages == demonstration.messages
    assert len(set(back.pictures)) == one.n_images
    assert all(Path(path).parent == tmp_path / "images" for path in back.pictures)
    assert [m.reasoning for m in back.spoken(lambda path: Image.of(Path(path).read_bytes())) if m.reasoning] == [
        turn.thought for turn in one.turns
    ]


def test_calls_are_few_and_vary_in_number() -> None:
    counts = Counter(
        taught(task, answer, spectrum, seed).n_calls
        for task, answer, spectrum in (("cv", "YES", cv()), ("cv", "NO", a_star()), ("cc", "NO", a_star()))
        for seed in range(12)
    )
    assert set(counts) <= set(range(8))
    assert len(counts) >= 5
    assert 2.0 <= sum(n * k for n, k in counts.items()) / 36 <= 5.5


@pytest.mark.parametrize(("max_turns", "most"), [(1, 0), (3, 2)])
def test_there_are_fewer_calls_than_turns(max_turns: int, most: int) -> None:
    teacher = Teacher(load_task("cv"), max_turns=max_turns)
    for seed in range(4):
        one = teacher.teach(question("cv", "YES"), cv(), np.random.default_rng(seed))
        assert isinstance(one, Taught)
        assert one.n_calls <= most
        assert f"You have {max_turns} turn" in one.spoken(lambda _: None).messages[1].text


def test_what_is_said_of_a_line_was_seen_in_a_window_called_before() -> None:
    for seed in range(6):
        one = taught("cv", "YES", cv(), seed)
        calls = [turn.arguments["wavelength_range"] for turn in one.turns if turn.arguments]
        for fact in one.facts:
            if fact.of == "ha" and calls:
                assert any(low <= 6442 and high >= 6662 for low, high in calls[: fact.turn])


def test_a_useless_look_and_a_refused_call_are_owned_up_to(monkeypatch: pytest.MonkeyPatch) -> None:
    habits = replace(teaching.HABITS["full"], at_once=0.0)
    monkeypatch.setitem(teaching.HABITS, "full", replace(habits, useless=1.0))
    useless = [taught("cv", "YES", cv(), seed) for seed in range(5)]
    admitted = r"wasted|detour|did not help|does not help|adds nothing|bears on|No use|Not useful|Too |too "
    assert sum(any(re.search(admitted, t.thought) for t in one.turns) for one in useless) >= 3
    monkeypatch.setitem(teaching.HABITS, "full", replace(habits, useless=0.0, refused=1.0))
    refused = 0
    for one in (taught("cv", "YES", cv(), seed) for seed in range(8)):
        wrong = [i for i, t in enumerate(one.turns) if t.observation is not None and not t.observation.ok]
        refused += len(wrong)
        for i in wrong:
            first, after = one.turns[i].observation, one.turns[i + 1].observation
            assert first is not None
            assert first.text.startswith("Error: The specified wavelength range")
            assert after is not None
            assert after.ok
    assert 2 <= refused <= 8


@pytest.mark.parametrize(
    "spectrum",
    [cv(ivar=False), cv(z=0.0009), cv(snr=9.0), cv(joins=()), *(cv().replace(medium=m) for m in ("air", "unknown"))],
    ids=["no ivar", "redshift", "noisy", "no joins", "air", "unknown medium"],
)
def test_spectra_of_any_kind_can_be_taught(spectrum: Spectrum) -> None:
    found = [teach("cv", "YES", spectrum, seed) for seed in range(4)]
    assert sum(isinstance(one, Taught) for one in found) >= 3, found


def test_what_cannot_be_judged_is_refused() -> None:
    noisy = teach("cv", "YES", cv(snr=0.8))
    assert "nothing to judge by: median S/N" in noisy.reason  # type: ignore[union-attr]
    red = cv()
    cut = red.wavelength > 8000.0
    assert red.ivar is not None
    red = red.replace(wavelength=red.wavelength[cut], flux=red.flux[cut], ivar=red.ivar[cut], joins=())
    assert "good pixels cover none of 3 ranges, the task needs at least 1" in teach("cv", "YES", red).reason  # type: ignore[union-attr]
    featureless = teach("wd", "YES", star({}, snr=60.0))
    assert featureless.reason.startswith("no spectrum decides it: a continuum without features")  # type: ignore[union-attr]


def test_a_question_without_an_answer_or_of_another_task_is_an_error() -> None:
    teacher = Teacher(load_task("cv"))
    for wrong in (question("cv", "YES").model_copy(update={"answer": None}), question("wd", "YES")):
        with pytest.raises(ValueError, match="needs its task and an answer"):
            teacher.teach(wrong, cv(), np.random.default_rng(0))
    with pytest.raises(ValueError, match="needs a turn"):
        Teacher(load_task("cv"), max_turns=0)


OWN = """
key: emitter
name: Hα emitter
question: Does it show emission?
include: [Hα in emission]
exclude: [other stars]
guidance: Look at Hα and Hβ.
windows:
  - key: red
    name: Hα
    range: [6300, 6900]
    features: [{name: Hα, wavelength: 6562.8, kind: emission}, {name: He I 6678, wavelength: 6678.2, kind: emission}]
    why: The strongest line.
  - key: blue
    name: Hβ region
    range: [4700, 5050]
    features: [{name: Hβ, wavelength: 4861.3, kind: emission}, {name: Xx 4800, wavelength: 4790, kind: either}]
    why: The second line.
sources: [a test]
"""


def test_a_task_of_windows_alone_is_taught_from_its_features() -> None:
    task = task_from_bytes(OWN.encode(), "own.yaml")
    teacher = Teacher(task)
    for answer, spectrum in (("YES", cv()), ("NO", a_star())):
        one = teacher.teach(question("emitter", answer), spectrum, np.random.default_rng(1))
        assert isinstance(one, Taught), one
        assert "Hα emitter" in " ".join(texts(one))
        assert any(fact.of in ("ha", "hb") for fact in one.facts)


def test_a_task_that_names_what_is_not_there_is_an_error_before_any_spectrum() -> None:
    task = load_task("cv")
    wrong = task.model_copy(update={"evidence": (task.evidence[0].model_copy(update={"index": "hx"}),)})
    with pytest.raises(TaskError, match="hx"):
        Teacher(wrong)


def test_texts_do_not_repeat_and_are_concise() -> None:
    many = [taught("cv", "YES", cv(seed=seed), seed) for seed in range(40)]
    assert len({tuple(texts(one)) for one in many}) == 40
    sentences = Counter(s for one in many for t in texts(one) for s in re.split(r"(?<=[.?]) (?=[^a-z])", t))
    assert sum(n for n in sentences.values() if n > 1) / sentences.total() < 0.45
    assert 120 <= np.median([one.words for one in many]) <= 450


def test_words_are_spelt_and_stopped_as_sentences_are() -> None:
    for seed in range(6):
        for task, answer, spectrum in (("cv", "YES", cv()), ("wd", "NO", cv()), ("gm", "NO", a_star())):
            one = teach(task, answer, spectrum, seed)
            if isinstance(one, Taught):
                for text in texts(one):
                    assert not re.search(r"[{}\[\]|]\s*[a-z_]+[}|]|\.\.|  | [.,;:?]|\ba [aeiou]|None|nan", text), text
                    assert re.match(r"[^a-z]", text)


def test_a_rival_is_named_only_where_what_was_seen_fits_it() -> None:
    named = Counter(
        name
        for seed in range(12)
        for name in re.findall(
            r"an? (A or B star|M dwarf|M giant|carbon star)", taught("cv", "NO", a_star(), seed).answer
        )
    )
    assert set(named) <= {"A or B star"}


@pytest.mark.shared
def test_real_spectra_are_taught_where_their_evidence_agrees_with_their_label() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real spectra are not there: {SHARED}")
    with open(SHARED / "labels.csv", encoding="utf-8") as file:
        all_rows = list(csv.DictReader(file))
    rows = [r for r in all_rows if r["path"].startswith("lamost/dr8")][:10]
    rows += [r for r in all_rows if r["path"].startswith("sdss/cv_ascii/spec-05")][:8]
    rows += [r for r in all_rows if r["gm"] == "YES"][:4]
    outcome: Counter[tuple[str, bool]] = Counter()
    for i, row in enumerate(rows):
        spectrum = read(str(SHARED / row["path"]))[0]
        for key in builtin_tasks():
            if row[key] in ("YES", "NO"):
                found = teach(key, row[key], spectrum, i)
                outcome[row[key], isinstance(found, Taught)] += 1
                assert isinstance(found, Taught) or not found.reason.startswith("text"), found.reason
    assert outcome["NO", True] > 0.85 * (outcome["NO", True] + outcome["NO", False])
    assert outcome["YES", True] > 0.6 * (outcome["YES", True] + outcome["YES", False])


def test_the_grid_is_that_of_lamost() -> None:
    assert GRID.size == pytest.approx(3909, abs=5)


def test_words_that_need_conditions_are_not_said_without_them() -> None:
    """A flat continuum has no Hα, but no broad Hβ either: nothing there is "filled in although Hβ is broad"."""
    for seed in range(12):
        one = teach("wd", "NO", star({"He I 5876": -0.3, "Hα": -0.12}, snr=40.0), seed)
        if isinstance(one, Taught):
            assert "although Hβ is broad" not in " ".join(texts(one))


# Reasons --------------------------------------------------------------------------------------------------------------


def test_what_evidence_expects_of_a_class_and_what_it_takes_against_it() -> None:
    expected = {key: expected_of(Plan.of(task)) for key, task in builtin_tasks().items()}
    assert {"ha"} <= expected["cv"].leading
    assert "hb" in expected["cv"].counting - expected["cv"].leading
    assert {"hg", "hb", "hd"} <= expected["wd"].leading
    assert "cak" in expected["wd"].counting - expected["wd"].leading
    assert "mgb" in expected["wd"].against
    assert {"nai8190", "cah2", "zro_6474"} <= expected["gm"].against
    assert "tio_5448" in expected["gm"].required
    assert not {"ha", "mgb"} & expected["gm"].counting
    assert "mgb" not in expected["ss"].counting
    assert "c2_5165" in expected["ss"].against


def test_of_several_kinds_of_a_class_the_one_that_showed_itself_is_expected() -> None:
    """A DA has no Swan bands: once its Balmer lines are seen nobody says that C2 should agree."""
    plan = Plan.of(load_task("wd"))
    broad = star({"Hα": -0.5, "Hβ": -0.6, "Hγ": -0.6, "Hδ": -0.6}, fwhm_km_s=4500.0, snr=60.0)
    opening = ZoomTool(broad).opening()
    assert opening.data is not None
    sight = Sight.of(plan, opening.data)
    belief = sight.believed(plan.parts)
    assert belief.log_odds > 2.0
    now = expected_of(plan).now(plan, belief, sight.only(plan.parts))
    assert {"hb", "hg"} <= now
    assert not {"c2_5165", "c2_4737", "cak", "heii4686", "hei5876"} & now
    for seed in range(12):
        one = teach("wd", "YES", broad, seed)
        assert isinstance(one, Taught), one
        for turn in one.turns:
            assert not re.search(r"C2 [^.?]*should (?:agree|fit|tell)|Would C2", turn.thought), turn.thought


def test_a_strong_line_is_not_called_nothing() -> None:
    nothing = re.compile(r"no wiser|hardly wiser|changes little|moves me little|where I was|settles nothing|no help")
    pending = 0
    broad = star({"Hα": -0.5, "Hβ": -0.6, "Hγ": -0.6, "Hδ": -0.6}, fwhm_km_s=4500.0, snr=60.0)
    for seed in range(12):
        one = teach("wd", "YES", broad, seed)
        assert isinstance(one, Taught), one
        for turn in one.turns:
            if re.search(r"H[βγδ][^.]*(?:EW|width of) (?:[1-9]\d)", turn.thought):
                assert not nothing.search(turn.thought), turn.thought
                pending += "strong" in turn.thought.casefold()
    assert pending >= 3


def test_a_no_names_the_kind_of_the_class_that_its_lines_belong_to() -> None:
    """An A star is no DA first of all; that it has no Swan bands either is beside the point."""
    narrow = star({"Hα": -0.3, "Hβ": -0.3, "Hγ": -0.3, "Hδ": -0.3}, fwhm_km_s=600.0, snr=50.0)
    answers = [found.answer for seed in range(8) if isinstance(found := teach("wd", "NO", narrow, seed), Taught)]
    assert answers
    assert all("Balmer lines" in answer for answer in answers), answers


def test_a_rival_that_the_rest_of_the_spectrum_belies_is_not_named() -> None:
    """SIMULATED carbon stars: a band head near 4686 Å alone makes no hot subdwarf of a red star."""
    rows = spare("gm", "NO", 33, 12, kind="cc.N")
    written = [d.written for row in rows if (d := draft(row, Settings(33, "compact", None))).written]
    assert len(written) >= 8
    assert not [w.answer for w in written if "hot subdwarf" in w.messages[-1].text]
