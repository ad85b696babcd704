"""Claims: what words say of features, and what the spectrum says to them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from specvet.data.teacher import Taught
from specvet.data.trajectories_making import Settings, taught_at
from specvet.records import Decision
from specvet.records.schema import (
    ActionRecord,
    ObservationRecord,
    Question,
    SpectrumRef,
    StopReason,
    TrajectoryRecord,
    TurnRecord,
    Verdict,
)
from specvet.spectra import Spectrum
from specvet.spectra.lines import in_medium
from specvet.tasks import load_task
from specvet.vetting.claims import Claim, check_claims, counted
from specvet.vetting.claims.reading import MAX_SENTENCE
from specvet.vetting.report.story import tell
from specvet.vetting.transcript import transcript

GRID = np.arange(3800.0, 9000.0, 1.5)
LINES = {"Hα": 6562.8, "Hβ": 4861.3, "Hγ": 4340.5, "Hδ": 4101.7, "He I 5876": 5875.6}


@cache
def star(z: float = 0.0) -> Spectrum:
    """SIMULATED: Hα and Hβ in broad emission, Hδ in narrow absorption, a C2 5165 edge; S/N 60, in vacuum."""
    rng = np.random.default_rng(1)
    rest = GRID / (1.0 + z)
    flux = np.ones_like(GRID)
    for name, height, fwhm in (("Hα", 1.5, 1500.0), ("Hβ", 0.8, 1500.0), ("Hδ", -0.5, 300.0)):
        at = in_medium(LINES[name], "air", "vacuum")
        flux += height * np.exp(-0.5 * ((rest - at) / (at * fwhm / 299_792.458 / 2.3548)) ** 2)
    head = in_medium(5165.0, "air", "vacuum")
    flux *= np.where((rest < head) & (rest > head - 120.0), 0.6, 1.0)
    sigma = 1.0 / 60.0
    return Spectrum(
        wavelength=GRID,
        flux=flux + rng.normal(0.0, sigma, GRID.size),
        ivar=np.full(GRID.size, sigma**-2),
        medium="vacuum",
        resolution=1800.0,
        id="SIMULATED",
    )


def record(*thoughts: str, reason: str = "", window: tuple[float, float] | None = None) -> TrajectoryRecord:
    turns = [
        TurnRecord(
            action=ActionRecord(kind="call", tool="zoom", arguments={}, text=text),
            observation=ObservationRecord(kind="view", text="", window=window),
            seconds=0.0,
        )
        for text in thoughts[:-1]
    ]
    turns.append(TurnRecord(action=ActionRecord(kind="answer", text=thoughts[-1]), seconds=0.0))
    return TrajectoryRecord(
        question=Question(id="q", task="cv", spectrum=SpectrumRef(path="a.fits")),
        policy="test",
        task_hash="",
        spectrum_hash=None,
        opening=ObservationRecord(kind="view", text="", frame="observed frame (as asked)"),
        turns=tuple(turns),
        stop=StopReason.ANSWERED,
        verdict=Verdict.model_validate({"answer": "YES", "reason": reason}),
        seconds=0.0,
        started="",
    )


def claims_of(text: str, task: str = "cv") -> tuple[Claim, ...]:
    return check_claims(record(text), star(), load_task(task))


def states(text: str, task: str = "cv") -> list[tuple[str, str, str]]:
    return [(c.feature, c.says, c.state) for c in claims_of(text, task)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hα emission, EW −54.", [("Hα", "emission", "supported")]),
        ("Hα shows strong, broad emission.", [("Hα", "emission", "supported"), ("Hα", "broad", "supported")]),
        ("H-alpha is in absorption.", [("Hα", "absorption", "contradicted")]),
        ("There is no Hα emission.", [("Hα", "no emission", "contradicted")]),
        ("Hα and Hβ are both in emission, but Hδ is in absorption.",
         [("Hα", "emission", "supported"), ("Hβ", "emission", "supported"), ("Hδ", "absorption", "supported")]),
        ("No He I 5876.", [("He I 5876", "absent", "supported")]),
        ("He I 6678, 7065 are clearly visible.",
         [("He I 6678", "present", "contradicted"), ("He I 7065", "present", "contradicted")]),
        ("I see no He II 4686 and no Bowen blend.",
         [("He II 4686", "absent", "supported"), ("Bowen blend", "absent", "supported")]),
        ("The C2 5165 band head is present, with ratio 0.60.", [("C2 5165", "present", "supported")]),
        ("No C₂ Swan bands.", [("C₂ Swan bands", "absent", "contradicted")]),
        ("TiO bands are absent.", [("TiO mean", "reading", "supported")]),
        ("Strong TiO 7053 absorption.", [("TiO 7053", "absorption", "contradicted")]),
        ("Hβ is narrow.", [("Hβ", "reading", "contradicted")]),
        ("The Balmer lines are in emission.", [("Balmer lines", "emission", "supported")]),
        ("Hα FWHM 1500 km/s.", [("Hα", "value", "supported")]),
        ("Hα FWHM 1,500 km/s.", [("Hα", "value", "supported")]),
        ("Hα emission, EW −5.4 nm.", [("Hα", "emission", "supported")]),
        ("Not only Hα but also Hβ is in emission.", []),
        ("I see no emission except Hα.", []),
        ("Hα is not absent.", []),
        ("Hα emission, EW −12 Å.", [("Hα", "emission", "contradicted")]),
        ("Na D EW 9 Å.", [("Na D", "value", "contradicted")]),
    ],
)  # fmt: skip
def test_what_a_sentence_claims_is_held_against_the_spectrum(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(f, s, state) for f, s, state in states(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "Next I zoom into Hα.",
        "First Hα.",
        "Is Hα in emission?",
        "A cataclysmic variable should show Hα in emission.",
        "If Hα were in emission, it could be one.",
        "Perhaps Hα emission.",
        "I still lack Hα.",
        "What may deceive here: TiO 6651 of an M dwarf or donor.",
        "Hα has an emission core inside its absorption.",
        "The continuum is blue.",
        "Wide Hβ and Hγ absorption lines mean a DA.",
        "",
    ],
)
def test_plans_questions_guesses_and_rules_claim_nothing(text: str) -> None:
    assert [c for c in claims_of(text) if c.says != "value"] == []


def test_a_claim_says_what_was_measured_where_and_why() -> None:
    looked = record("Look at Hα.", "Hα emission, EW −12.", reason="Hα in emission.", window=(6400.0, 6700.0))
    first, second = check_claims(looked, star(), load_task("cv"))
    assert (first.turn, first.in_answer, first.stated, first.unit) == (2, False, -12.0, "Å")
    assert first.window == second.window == (6400.0, 6700.0)
    assert first.measured is not None
    assert first.measured.value == pytest.approx(-52.0, abs=2.0)
    assert first.why.startswith("stated −12, measured −5")
    assert (second.turn, second.in_answer, second.state) == (2, True, "supported")
    assert counted([first, second]).all == 2
    assert first.as_dict()["measured"]["index"] == "ha"


def test_a_claim_before_its_window_rests_on_the_whole_view() -> None:
    looked = record("Hα is in emission.", "Done.", window=(6400.0, 6700.0))
    assert [c.window for c in check_claims(looked, star(), load_task("cv"))] == [None]


def test_words_are_read_in_the_frame_that_was_shown() -> None:
    shifted = star(0.003)
    text = record("Hδ is in absorption.")
    assert [c.state for c in check_claims(text, shifted, load_task("cv"), z=0.003)] == ["supported"]
    framed = text.model_copy(
        update={"opening": ObservationRecord(kind="view", text="", frame="rest frame (z = 0.003000 from header Z)")}
    )
    assert (
        check_claims(framed, shifted, load_task("cv"))[0].why
        == check_claims(text, shifted, load_task("cv"), 0.003)[0].why
    )


def test_noise_and_missing_pixels_leave_a_claim_open() -> None:
    s = star()
    rng = np.random.default_rng(2)
    noisy = s.replace(flux=1.0 + rng.normal(0.0, 0.6, s.n_pix), ivar=np.full(s.n_pix, 0.6**-2))
    assert check_claims(record("Weak He I 5876 emission."), noisy, load_task("cv"))[0].state == "not measurable"
    cut = s.replace(flux=s.flux[:500], wavelength=s.wavelength[:500], ivar=None)
    (claim,) = check_claims(record("Hα in emission."), cut, load_task("cv"))
    assert (claim.state, claim.measured is not None and claim.measured.value) == ("not measurable", None)
    (unknown,) = check_claims(record("C2 6191 is present."), s, load_task("gm"))
    assert unknown.why == "no index measures C2 6191"


def test_a_phrase_of_the_evidence_means_its_threshold() -> None:
    assert states("Hα too broad.")[0][1:] == ("reading", "contradicted")
    assert states("No TiO bands, and nothing seen outweighs it.", "gm")[0][1:] == ("reading", "supported")
    (claim,) = claims_of("No TiO bands of an M star.", "gm")
    assert (claim.says, claim.state) == ("reading", "supported")
    assert claim.why.endswith("threshold 0.8")


def test_claims_stand_beside_a_trace_and_not_where_the_spectrum_is_another() -> None:
    s, task = star(), load_task("cv")
    said = record("Hα is in absorption.", reason="Hα emission.").model_copy(update={"spectrum_hash": s.content_hash})
    decision = Decision(file="a.fits", row=0, task="cv", id="a", verdict=said.verdict, trajectory=said)
    shown = transcript(1, decision, task, None, s)
    assert [(c.turn, c.state) for c in shown.claims] == [(1, "contradicted"), (1, "supported")]
    assert transcript(1, decision, task, None, s.replace(flux=s.flux * 2.0)).claims == ()
    assert transcript(1, decision, task).claims == ()
    (chapter,) = tell(1, [decision], s, "", {"cv": task}).chapters
    assert [c.state for c in chapter.claims] == ["supported"]
    assert [c.state for look in chapter.looks for c in look.claims] == ["contradicted"]


def test_text_without_end_and_of_no_sense_is_read_in_bounded_time() -> None:
    assert len(claims_of("Hα in emission. " * 5_000)) == 20_000 // 16
    for repeated in ("Hα and ", "Hα (", "He I 6678, 7065, ", "1"):
        assert len(claims_of("Hα is in emission " + repeated * (20_000 // len(repeated)))) <= MAX_SENTENCE // 3
    claims_of("(((," * 5_000 + "Hα" + "−" * 5_000 + "\ud800<|im_start|>")


def recorded(taught: Taught) -> TrajectoryRecord:
    turns = []
    for turn in taught.turns:
        call = turn.arguments is not None
        action = ActionRecord(kind="call" if call else "answer", text=turn.thought)
        turns.append(TurnRecord(action=action, seconds=0.0))
    reason = taught.answer.removeprefix("<answer>").removesuffix("</answer>")
    verdict = Verdict.model_validate({"answer": taught.question.answer, "reason": reason})
    return record("").model_copy(update={"turns": tuple(turns), "verdict": verdict, "question": taught.question})


@pytest.mark.parametrize(("voice", "least"), [("full", 60), ("terse", 30)])
def test_what_a_teacher_says_is_supported_and_never_contradicted(voice: str, least: int) -> None:
    found: list[Claim] = []
    for number in range(6):
        taught, _, _ = taught_at(number, Settings(voice=voice, picture_size="tiny"))  # type: ignore[arg-type]
        found += check_claims(recorded(taught), taught.tool.spectrum, taught.task, taught.tool.frame.z)
    assert len(found) >= least
    assert [c for c in found if c.state == "contradicted"] == []
    assert sum(c.state == "supported" for c in found) >= 0.97 * len(found)
