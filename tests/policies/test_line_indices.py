"""`line-indices`: looks, measures, weighs, and says so; UNSURE where it must."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from policy_lab import HA, HB, star, task, vetted

from specvet.agent import run_agent
from specvet.policies import policy
from specvet.records.schema import Answer, Question, SpectrumRef, StopReason
from specvet.spectra import Join, Redshift, Spectrum
from specvet.tasks import load_task, template_text
from specvet.tools import ZoomTool


def test_yes_with_the_measurement_its_window_and_a_reason() -> None:
    record = vetted(task(evidence=[HA, HB]), star(ha=-30.0, hb=-15.0))
    v = record.verdict
    assert (v.answer, record.stop) == (Answer.YES, StopReason.ANSWERED)
    assert v.p_yes == v.confidence == 0.99
    assert v.reason.startswith("Hα emitter: Hα in emission (Hα 6563 EW -29.8 ± 0.1 Å); Hβ in")
    first = v.evidence[0]
    assert (first.window, first.log_odds) == ("ha", pytest.approx(4.0, abs=0.01))
    assert first.measurement.value == pytest.approx(-30.0, abs=1.0)
    assert {m.index for m in record.measurements} == {"ha", "hb"}
    assert [t.action.arguments for t in record.turns[:2]] == [
        {"wavelength_range": [6400.0, 6700.0], "label": "Hα"},
        {"wavelength_range": [4700.0, 5050.0], "label": "Hβ"},
    ]


def test_no_names_the_likelier_class_and_why() -> None:
    rivals = [
        {"name": "quiet star", "evidence": [{**HA, "side": "above", "when": "Hα is no emission"}]},
        {"name": "impossible", "evidence": [{**HA, "at": -500.0}]},
    ]
    v = vetted(task(evidence=[HA], rivals=rivals), star(ha=3.0)).verdict
    assert (v.answer, v.likelier_class) == (Answer.NO, "quiet star")
    assert v.p_yes == pytest.approx(1 / (1 + np.exp(4.0)), abs=0.005)
    assert v.confidence == pytest.approx(1 - v.p_yes)
    assert v.reason.startswith("no Hα emitter: no Hα emission (")
    assert ". Likelier: quiet star (Hα is no emission (" in v.reason
    nobody = vetted(task(evidence=[HA], rivals=rivals[1:]), star(ha=3.0)).verdict
    assert (nobody.answer, nobody.likelier_class) == (Answer.NO, None)


def test_a_task_without_evidence_is_unsure_and_says_so() -> None:
    v = vetted(task(), star(ha=-30.0)).verdict
    assert (v.answer, v.p_yes) == (Answer.UNSURE, 0.5)
    assert "lists no evidence" in v.reason


@pytest.mark.parametrize(
    ("prior", "answer"), [(-3.0, Answer.NO), (-0.3, Answer.UNSURE), (0.3, Answer.UNSURE), (3.0, Answer.YES)]
)
def test_between_yes_and_no_lies_unsure(prior: float, answer: Answer) -> None:
    nothing = {**HA, "yes": 0.001, "no": 0.0}
    v = vetted(task(evidence=[nothing], prior=prior, undecided=0.6), star(ha=-30.0)).verdict
    assert v.answer is answer
    assert v.reason
    if answer is Answer.UNSURE:
        assert "the evidence does not decide" in v.reason
        assert (
            vetted(task(evidence=[nothing], prior=prior, undecided=0.55), star(ha=-30.0)).verdict.answer is not answer
        )


def test_what_nobody_can_decide_is_unsure_whatever_the_log_odds() -> None:
    rule = {"given": [{"index": "hb", "side": "above", "at": -1.0, "soft": 0.2}], "says": "only a parallax decides"}
    for ha in (-30.0, 3.0):
        v = vetted(task(evidence=[HA], undecidable=[rule]), star(ha=ha)).verdict
        assert v.answer is Answer.UNSURE
        assert (v.p_yes, v.confidence) == (0.5, 0.5)  # the spectrum does not say
        assert v.reason.startswith("only a parallax decides (")
    assert vetted(task(evidence=[HA], undecidable=[rule]), star(ha=-30.0, hb=-20.0)).verdict.answer is Answer.YES
    unseen = star(ha=-30.0, low=6000.0)  # Hβ was not measured: the rule does not hold
    assert vetted(task(evidence=[HA], undecidable=[rule]), unseen).verdict.answer is Answer.YES


def test_too_little_measured_is_unsure_and_names_what_is_missing() -> None:
    blind = star(ha=3.0, high=6000.0)
    v = vetted(task(evidence=[HA, HB], prior=-2.0), blind).verdict  # a fifth by weight is not two fifths
    assert v.answer is Answer.UNSURE
    assert "only 20 % of the evidence could be measured (not Hα 6563 EW)" in v.reason
    two_fifths = vetted(task(evidence=[{**HA, "no": -1.0, "yes": 1.5}, HB], prior=-2.0), blind).verdict
    assert two_fifths.answer is Answer.NO


def test_a_yes_may_rest_on_less_than_a_no() -> None:
    strong = {**HB, "yes": 4.0}
    heavy = {**HA, "yes": 12.0, "no": -1.0}
    seen = star(hb=-30.0, high=6000.0)
    assert vetted(task(evidence=[heavy, strong]), seen).verdict.answer is Answer.YES


def test_no_yes_rests_without_what_is_essential() -> None:
    strong = {**HB, "yes": 4.0, "no": -4.0}
    essential = {**HA, "yes": 1.0, "no": -1.0, "essential": True}
    blind = star(hb=-30.0, high=6000.0)
    v = vetted(task(evidence=[strong, essential]), blind).verdict
    assert v.answer is Answer.UNSURE
    assert "Hα 6563 EW could not be measured, and no YES rests without" in v.reason
    assert vetted(task(evidence=[strong, {**essential, "essential": False}]), blind).verdict.answer is Answer.YES
    assert vetted(task(evidence=[strong, essential]), star(hb=3.0, high=6000.0)).verdict.answer is Answer.NO


def test_windows_without_data_are_not_asked_for_and_the_same_window_never_twice() -> None:
    record = vetted(task(evidence=[HA, HB]), star(ha=-30.0, low=6000.0))
    assert [t.action.arguments["label"] for t in record.turns if t.action.arguments] == ["Hα"]
    same_name = [
        {"key": "a", "name": "look", "range": [6400, 6700], "why": "w"},
        {"key": "b", "name": "look", "range": [4700, 5050], "why": "w"},
    ]
    record = vetted(task(evidence=[HA, HB], windows=same_name), star(ha=-30.0, hb=-30.0))
    assert record.tool_calls == 2
    assert {e.measurement.index: e.window for e in record.verdict.evidence} == {"ha": "a", "hb": "b"}


def test_seven_windows_fit_into_eight_turns() -> None:
    windows = [{"key": f"w{i}", "name": f"w{i}", "range": [6300 + i, 6720 + i], "why": "w"} for i in range(7)]
    record = vetted(task(evidence=[HA], windows=windows), star(ha=-30.0))
    assert (record.tool_calls, record.stop, record.verdict.answer) == (7, StopReason.ANSWERED, Answer.YES)


def test_an_index_that_no_window_holds_is_measured_in_the_whole_spectrum() -> None:
    windows = [{"key": "w", "name": "w", "range": [6540, 6590], "why": "too narrow for a continuum"}]
    v = vetted(task(evidence=[HA], windows=windows), star(ha=-30.0)).verdict
    assert v.answer is Answer.YES
    assert v.evidence[0].window == ""


def test_a_join_makes_evidence_weigh_less() -> None:
    s = star(ha=-30.0, joins=(Join(6500.0, 6650.0, "b/r"),))
    item = vetted(task(evidence=[HA]), s).verdict.evidence[0]
    assert item.log_odds == pytest.approx(4.0 * item.measurement.quality, abs=0.01)
    assert item.measurement.quality < 0.5


def test_tellurics_stay_where_the_air_is_when_a_star_moves() -> None:
    """K I 7699 lies beside the A band for a star at rest; at cz = 900 km/s the band reaches 7661 Å in its frame."""
    evidence = [{"index": "ki7699", "side": "above", "at": 1.0, "soft": 0.5, "yes": 1.0, "no": -1.0}]
    windows = [{"key": "k", "name": "K I", "range": [7600, 7800], "why": "w"}]
    t = task(evidence=evidence, windows=windows)
    quality = []
    for z in (0.0, 0.003, -0.003):
        s = star(high=8500.0, redshift=Redshift(z, source="header Z"))
        quality.append(vetted(t, s).measurements[0].quality)
    assert quality[1] == 1.0
    assert quality[2] < quality[0] < quality[1]


def test_names_class_header_and_container_do_not_matter() -> None:
    t = task(evidence=[HA, HB])
    for s in (star(ha=-30.0), star(ha=3.0), star(ha=-6.0)):
        plain = vetted(t, s)
        disguised = s.replace(
            file="/data/cv/U_Gem.dat", id="U Gem", ids={"name": "U Gem"}, survey="SDSS", release="DR7", layout="text",
            reduction="v5", pipeline_class="STAR", pipeline_subclass="CV", mjd=51000.0, ra=1.0, dec=2.0, row=7,
            warnings=("x",), flux_unit="erg", calibration="absolute", resolution=1800.0,
            mask=np.ones(s.n_pix, dtype=np.int64), n_exposures=3,
        )  # fmt: skip
        other = vetted(t, disguised)
        assert other.verdict == plain.verdict
        assert other.measurements == plain.measurements
    measured = {"wavelength", "flux", "ivar", "medium", "joins", "frame", "redshift"}
    kept = {f.name for f in dataclasses.fields(Spectrum) if getattr(disguised, f.name) is getattr(s, f.name)}
    assert {f.name for f in dataclasses.fields(Spectrum)} - kept >= {f.name for f in dataclasses.fields(s)} - measured


def test_the_scale_of_the_flux_does_not_matter() -> None:
    s = star(ha=-6.0)
    assert s.ivar is not None
    faint = s.replace(flux=s.flux * 1e-17, ivar=s.ivar * 1e34)
    a, b = vetted(task(evidence=[HA]), s).verdict, vetted(task(evidence=[HA]), faint).verdict
    assert (a.answer, a.reason) == (b.answer, b.reason)
    assert a.p_yes == pytest.approx(b.p_yes, rel=1e-9)


@pytest.mark.parametrize("ruin", ["no errors", "all bad", "negative", "noise", "nan", "constant"])
def test_ruined_spectra_are_answered_without_a_guess(ruin: str) -> None:
    s = star(ha=-30.0)
    rng = np.random.default_rng(0)
    changes: dict[str, Any] = {
        "no errors": {"ivar": None},
        "all bad": {"ivar": np.zeros(s.n_pix)},
        "negative": {"flux": -s.flux},
        "noise": {"flux": rng.normal(0, 1, s.n_pix), "ivar": np.ones(s.n_pix)},
        "nan": {"flux": np.where(s.wavelength > 4010, np.nan, s.flux)},
        "constant": {"flux": np.ones(s.n_pix)},
    }[ruin]
    v = vetted(task(evidence=[HA, HB]), s.replace(**changes)).verdict
    assert v.answer is {"no errors": Answer.YES, "constant": Answer.NO_DATA}.get(ruin, Answer.UNSURE)


def giant(lithium: float, calcium: float = 0.2, ha: float = 1.0) -> Spectrum:
    w = np.arange(6300.0, 6900.0, 0.7)
    rng = np.random.default_rng(1)
    flux = 1 + rng.normal(0, 0.004, w.size)
    for centre, ew in ((6707.8, lithium), (6717.7, calcium), (6562.8, ha)):
        flux -= ew / (1.3 * np.sqrt(2 * np.pi)) * np.exp(-0.5 * ((w - centre) / 1.3) ** 2)
    return Spectrum(w, flux, np.full(w.size, 250.0**2), medium="air")


def test_a_users_own_task_with_its_own_indices_works_end_to_end(tmp_path: Path) -> None:
    file = tmp_path / "lithium.yaml"
    file.write_text(template_text(), encoding="utf-8")
    t = load_task(file)
    rich = vetted(t, giant(0.5))
    assert rich.verdict.answer is Answer.YES
    assert rich.verdict.reason.startswith(
        "lithium-rich giant: Li I 6708 is plainly visible (Li I 6708 EW 0.505 ± 0.010 Å)"
    )
    values = {m.index: m.value for m in rich.measurements}
    assert values["li6708_ew"] == pytest.approx(0.5, abs=0.05)
    assert values["li_minus_ca"] == pytest.approx(values["li6708_ew"] - values["ca6718_ew"])
    assert vetted(t, giant(0.0)).verdict.answer is Answer.NO
    young = vetted(t, giant(0.0, ha=-5.0)).verdict
    assert (young.answer, young.likelier_class) == (Answer.NO, "young active star")
    blended = vetted(t, giant(0.6, calcium=0.7)).verdict
    assert blended.answer is Answer.UNSURE
    assert "a higher resolution is needed" in blended.reason


def test_what_is_measured_once_is_the_same_for_every_task_and_never_another_spectrums() -> None:
    """One policy vets a list: its memory of the last spectrum must not leak into the next, nor between tasks."""
    line_indices = policy("line-indices")
    own = {"x": {"kind": "formula", "formula": "2 * ha"}}
    other = {"x": {"kind": "formula", "formula": "3 * ha"}}
    item = {"index": "x", "side": "below", "at": -5.0, "soft": 1.0, "yes": 1.0, "no": -1.0}
    tasks = [task(evidence=[HA, item], indices=own), task(evidence=[HA, item], indices=other)]
    spectra = [star(ha=-30.0), star(ha=-10.0), star(ha=-30.0, redshift=Redshift(0.001, source="header Z"))]
    for s in (*spectra, *spectra):
        tool = ZoomTool(s)
        found = []
        for t in tasks:
            question = Question(id="q", task=t.key, spectrum=SpectrumRef(path="x"))
            record = run_agent(question, t, tool, line_indices)
            alone = vetted(t, s)
            assert (record.verdict, record.measurements) == (alone.verdict, alone.measurements)
            found.append({m.index: m.value for m in record.measurements})
        assert found[0]["ha"] == found[1]["ha"]
        assert (found[0]["x"], found[1]["x"]) == (2 * found[0]["ha"], 3 * found[0]["ha"])


def test_a_line_that_only_the_instrument_makes_broad_does_not_count_as_broad() -> None:
    w = np.arange(3900.0, 7200.0, 4.0)
    rng = np.random.default_rng(2)
    flux = (w / 6000) ** -1.0
    for centre, ew in ((6562.8, 40.0), (4861.35, 12.0), (4340.5, 5.0)):
        sigma = centre / 450 / 2.3548  # R 450 makes 670 km/s of any line
        flux = flux * (1 + ew / (sigma * np.sqrt(2 * np.pi)) * np.exp(-0.5 * ((w - centre) / sigma) ** 2))
    s = Spectrum(w, flux + rng.normal(0, 0.02, w.size), np.full(w.size, 2500.0), medium="air")
    odds, notes = {}, {}
    for resolution in (None, 450.0):
        items = vetted(load_task("cv"), s.replace(resolution=resolution)).verdict.evidence
        broad = [i for i in items if i.measurement.index == "ha_intrinsic"]
        odds[resolution] = sum(i.log_odds for i in broad)
        notes[resolution] = "".join(i.measurement.note for i in broad)
    assert odds[None] > 1.0 > odds[450.0]
    assert "the resolution is not known" in notes[None]


@pytest.mark.parametrize("velocity", [-200.0, 300.0, 1000.0])
def test_a_nebula_with_lines_500_km_s_wide_is_no_cataclysmic_variable(velocity: float) -> None:
    w = 10 ** np.arange(np.log10(3750.0), np.log10(9100.0), 1e-4)
    flux = np.ones_like(w)
    lines = ((4340.5, 3.0), (4861.35, 8.0), (4958.9, 6.0), (5006.84, 18.0), (6548.05, 4.0), (6562.8, 30.0),
             (6583.45, 12.0), (6716.44, 6.0), (6730.82, 5.0))  # fmt: skip
    for rest, ew in lines:
        centre = rest * (1 + velocity / 299_792.458)
        sigma = centre * 500 / 299_792.458 / 2.3548
        flux += ew / (sigma * np.sqrt(2 * np.pi)) * np.exp(-0.5 * ((w - centre) / sigma) ** 2)
    for snr in (5, 10, 20):
        for seed in range(5):
            noise = np.random.default_rng(seed).normal(0, 1 / snr, w.size)
            s = Spectrum(w, flux + noise, np.full(w.size, float(snr) ** 2), medium="air")
            assert vetted(load_task("cv"), s).verdict.answer is not Answer.YES


def test_no_evidence_item_states_what_the_measurement_does_not_show() -> None:
    """The words of `when` stand only where the value lies on that side of its threshold."""
    seen = 0
    for key in ("cv", "cc", "ss", "gm", "wd"):
        t = load_task(key)
        says = {e.when: e for e in t.evidence if e.when}
        for ha in (-60.0, -15.0, -7.0, -3.0, 0.5, 5.0, 12.0):
            for item in vetted(t, star(ha=ha)).verdict.evidence:
                e = says.get(item.says)
                if e is not None and item.measurement.value is not None:
                    assert (item.measurement.value > e.at) == (e.side == "above"), (item.says, item.measurement.value)
                    seen += 1
    assert seen >= 5


def test_pure_noise_is_never_a_find() -> None:
    rng = np.random.default_rng(7)
    w = 10 ** np.arange(np.log10(3750.0), np.log10(9100.0), 1e-4)
    for snr in (1.6, 2.0, 3.0, 6.0):
        for _ in range(5):
            noise = Spectrum(w, 1 + rng.normal(0, 1 / snr, w.size), np.full(w.size, snr**2), medium="vacuum")
            for key in ("cv", "cc", "ss", "gm", "wd"):
                assert vetted(load_task(key), noise).verdict.answer is not Answer.YES
