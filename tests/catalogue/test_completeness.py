"""Completeness: what is injected has the noise of its host and nothing else of it, and shares are counted honestly."""

from __future__ import annotations

import csv
import json
import shutil
import threading
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from specvet.agent import run_agent
from specvet.catalogue.completeness import Host, Injection, NoMembersError, injected, members_of, plan
from specvet.catalogue.completeness.drawing import SERIES, figure, figure_bytes
from specvet.catalogue.completeness.making import Asked, make_spectra, planned
from specvet.catalogue.completeness.members import kinds_drawn
from specvet.catalogue.completeness.noise import noise_of, normalised_scatter
from specvet.cli.asked_again import opened_as
from specvet.cli.main import main
from specvet.data.simulate.kinds import make
from specvet.data.simulate.observing import observe, spectrum
from specvet.policies import policy
from specvet.records import RunFolder
from specvet.records.schema import Answer, Question, SpectrumRef
from specvet.spectra import Join, Spectrum, read
from specvet.spectra.spectrum import FloatArray
from specvet.tasks import builtin_tasks
from specvet.tools import ZoomTool
from specvet.vetting.completeness import hosts_of, prefilter_of
from specvet.vetting.completeness_counts import Outcome, interval, rows_of
from specvet.vetting.prefilter import Prefilter

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = Path(__file__).parents[3] / "shared" / "spectra"


def host(kind: str, survey: str, snr: float, seed: int) -> Spectrum:
    """One that the simulator observed."""
    rng = np.random.default_rng(seed)
    return spectrum(observe(make(kind, rng), survey, rng, snr=snr))  # type: ignore[arg-type]


def plain(scatter: float = 1.0, line: float = 0.0, seed: int = 0) -> Spectrum:
    """Flat, S/N 20, with an Hα of that height over its continuum; `scatter` is true over stated error."""
    rng = np.random.default_rng(seed)
    wavelength = np.geomspace(3800.0, 9200.0, 3840)
    flux = 20.0 * (1.0 + line * np.exp(-0.5 * ((wavelength - 6564.6) / 8.0) ** 2))
    sigma = np.sqrt(flux / 20.0)
    noisy = flux + scatter * sigma * rng.standard_normal(flux.size)
    return Spectrum(wavelength, noisy, sigma**-2.0, medium="vacuum", resolution=2000.0, survey="SDSS", file="host.fits")


def answer(s: Spectrum, task: str) -> str:
    question = Question(id="q", task=task, spectrum=SpectrumRef(path="s"))
    return str(run_agent(question, builtin_tasks()[task], ZoomTool(s), policy("line-indices")).verdict.answer)


def scatter_of(s: Spectrum) -> float:
    """Of neighbouring pixels over what the stated errors say; 1 where those are right."""
    assert s.sigma is not None
    sigma: FloatArray = np.where(s.good, s.sigma, 1.0)
    return float(np.median(np.abs(normalised_scatter(s.flux, sigma, s.good)))) / 0.67449


# --- noise


@pytest.mark.parametrize("scatter", [0.5, 1.0, 1.7])
def test_drawn_noise_has_the_host_s_chi_square_whatever_the_errors_say(scatter: float) -> None:
    lent = plain(scatter)
    noise = noise_of(lent)
    rng = np.random.default_rng(1)
    assert lent.ivar is not None
    chi2 = [float(np.mean(noise.drawn(rng) ** 2 * lent.ivar)) for _ in range(5)]
    own = float(np.mean((lent.flux - 20.0) ** 2 * lent.ivar))
    assert own == pytest.approx(scatter**2, rel=0.1)
    # SDSS's neighbours correlate (0.10) and these do not: 1 / (1 - 1.6 · 0.10) of the variance is allowed for.
    assert np.mean(chi2) == pytest.approx(own / (1.0 - 1.6 * 0.10), rel=0.1)


@pytest.mark.parametrize("survey", ["lamost", "sdss", "boss", "desi"])
@pytest.mark.parametrize("snr", [4.0, 15.0])
def test_an_injection_scatters_as_its_host_does(survey: str, snr: float) -> None:
    ratios = []
    for seed in range(4):
        lent = host("wd.DA", survey, snr, seed)
        ratios.append(scatter_of(injected(lent, "wd.DC", snr, np.random.default_rng(seed))) / scatter_of(lent))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.08), ratios


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real spectra lie beside the checkout, and are not here")
def test_an_injection_scatters_as_its_real_host_does() -> None:
    ratios: dict[str, list[float]] = {}
    for file in sorted(SHARED.rglob("*.fits*"))[::9]:
        try:
            spectra = read(file)[:2]
        except (OSError, ValueError):
            continue
        for lent in spectra:
            if lent.ivar is None or lent.survey not in ("LAMOST", "SDSS", "DESI") or not 3 < (lent.snr or 0) < 40:
                continue
            made = injected(lent, "wd.DC", lent.snr or 0, np.random.default_rng(len(ratios)))
            ratios.setdefault(lent.survey, []).append(scatter_of(made) / scatter_of(lent))
    assert sum(map(len, ratios.values())) >= 5, "no real host was found"
    for survey, found in ratios.items():
        assert np.median(found) == pytest.approx(1.0, abs=0.12), (survey, found)


def test_errors_that_are_not_stated_are_taken_from_the_scatter() -> None:
    lent = plain().replace(ivar=None)
    made = injected(lent, "wd.DC", 10.0, np.random.default_rng(0))
    assert made.ivar is None
    assert made.snr == pytest.approx(10.0, rel=0.15)


def test_a_host_without_pixels_is_refused_by_name() -> None:
    bare = plain().replace(ivar=np.zeros(3840))
    with pytest.raises(ValueError, match=r"host\.fits row 0: has 0 good pixels"):
        injected(bare, "wd.DA", 5.0, np.random.default_rng(0))


# --- nothing of the host's signal


@pytest.mark.parametrize("kind", ["f_star", "wd.DC"])
@pytest.mark.parametrize("snr", [3.0, 10.0])
def test_a_strong_line_of_the_host_leaves_nothing_behind(kind: str, snr: float) -> None:
    with_line, without = plain(line=20.0), plain()
    made = [injected(lent, kind, snr, np.random.default_rng(7)) for lent in (with_line, without)]
    near = np.abs(with_line.wavelength - 6564.6) < 40.0
    assert made[0].ivar is not None
    assert made[1].ivar is not None
    # Same member and same deviates, and at the line the errors of the continuum: nearly nothing differs.
    np.testing.assert_allclose(made[0].ivar[near], made[1].ivar[near], rtol=0.35)
    difference = (made[0].flux - made[1].flux)[near] * np.sqrt(made[1].ivar[near])
    assert np.abs(np.mean(difference)) < 0.1
    assert np.std(difference) < 0.35


def test_hosts_with_emission_do_not_make_a_plain_star_a_cataclysmic_variable() -> None:
    hosts = [host("cv.quiescence", survey, 20.0, seed) for survey in ("lamost", "sdss") for seed in range(6)]
    assert [answer(lent, "cv") for lent in hosts].count("YES") >= 10, "hosts with lines are what this is about"
    made = [injected(lent, "f_star", 8.0, np.random.default_rng(i)) for i, lent in enumerate(hosts)]
    assert "YES" not in {answer(s, "cv") for s in made}


def test_hosts_with_emission_help_no_member_be_found() -> None:
    found = []
    for line in (0.0, 20.0):
        made = [injected(plain(line=line, seed=i), "cv.outburst", 4.0, np.random.default_rng(i)) for i in range(20)]
        found.append([answer(s, "cv") for s in made].count("YES"))
    assert found[1] <= found[0] + 2


# --- what stays and what does not


def test_pixels_masks_joins_and_gaps_are_the_host_s_own_and_the_rest_is_the_member_s() -> None:
    lent = host("f_star", "sdss", 20.0, 3)
    assert lent.ivar is not None
    flux, ivar = lent.flux.copy(), lent.ivar.copy()
    flux[100:110], ivar[100:110] = np.nan, 0.0
    flux[200:220], ivar[200:220] = 0.0, 0.0
    lent = lent.replace(flux=flux, ivar=ivar, file="a.fits", row=2, id="its id", ra=10.0, dec=20.0, mjd=55_000.0)
    made = injected(lent, "wd.DA", 12.0, np.random.default_rng(0), "SIMULATED-000001")
    np.testing.assert_array_equal(made.wavelength, lent.wavelength)
    np.testing.assert_array_equal(made.mask, lent.mask)
    np.testing.assert_array_equal(made.good, lent.good)
    assert (made.joins, made.medium, made.frame, made.mjd) == (lent.joins, lent.medium, lent.frame, 55_000.0)
    assert np.isnan(made.flux[100:110]).all()
    assert not made.flux[200:220].any()
    assert (made.id, made.ids, made.ra, made.dec) == ("SIMULATED-000001", {"host": "its id"}, None, None)
    assert made.warnings[:2] == (
        "SIMULATED spectrum",
        "SIMULATED wd.DA at S/N 12 in the noise of a.fits row 2",
    )
    assert made.snr == pytest.approx(12.0, rel=0.08)


def test_air_and_vacuum_hosts_show_a_line_where_their_scale_has_it() -> None:
    in_vacuum = plain()
    in_air = in_vacuum.replace(medium="air")
    at = []
    for lent in (in_vacuum, in_air):
        made = injected(lent, "cv.quiescence", 300.0, np.random.default_rng(5))
        near = np.abs(made.wavelength - 6564.0) < 40.0
        excess = np.maximum(made.flux[near] - np.median(made.flux[near]), 0.0)
        at.append(float(np.sum(excess * made.wavelength[near]) / np.sum(excess)))
    assert at[0] - at[1] == pytest.approx(1.81, abs=0.3)


def test_a_normalised_host_gets_a_normalised_member() -> None:
    made = injected(plain().replace(calibration="normalised"), "cv.outburst", 100.0, np.random.default_rng(0))
    middles = [float(np.median(part)) for part in np.array_split(made.flux, 8)]
    assert max(middles) / min(middles) < 1.5


def test_an_injection_is_recovered_as_often_as_one_that_was_observed() -> None:
    """The simulator's own telescope, and its noise lent by F stars, give the same completeness."""
    for task, kind, survey, snr in (("wd", "wd.DA", "sdss", 20.0), ("cv", "cv.quiescence", "lamost", 5.0)):
        seen = [answer(host(kind, survey, snr, seed), task) for seed in range(25)]
        lent = [host("f_star", survey, 25.0, 100 + seed) for seed in range(25)]
        made = [answer(injected(h, kind, snr, np.random.default_rng(i)), task) for i, h in enumerate(lent)]
        assert abs(seen.count("YES") - made.count("YES")) <= 6, (task, seen.count("YES"), made.count("YES"))


# --- the plan


def test_members_are_those_whose_answer_is_yes_and_unknown_classes_are_refused() -> None:
    assert set(members_of("gm")) == {"gm.giant", "gm.mira", "symbiotic"}
    assert members_of("qso") == {"qso": 1.0}
    assert sum(members_of("wd").values()) == pytest.approx(1.0)
    with pytest.raises(NoMembersError, match="task mine: no member of its class can be simulated"):
        members_of("mine")


def test_kinds_come_as_often_as_their_shares_say_to_within_one() -> None:
    drawn = kinds_drawn({"a": 0.5, "b": 0.31, "c": 0.19}, 100, np.random.default_rng(0))
    assert [drawn.count(k) for k in "abc"] == [50, 31, 19]


def test_hosts_reach_the_wanted_snr_where_enough_do_and_magnitudes_follow_from_it() -> None:
    hosts = [Host(file=f"{i:02d}.fits", row=0, snr=float(i), magnitude=15.0) for i in range(1, 41)]
    made = plan(hosts, ["cv", "wd"], [5.0, 38.0], 30)
    assert len(made) == 120
    assert [one.number for one in made] == list(range(120))
    assert all(one.host.snr >= 5.0 for one in made if one.level == 5.0)  # type: ignore[operator]
    assert {one.host.snr for one in made if one.level == 38.0} <= {float(i) for i in range(31, 41)}
    one = Injection(number=0, task="cv", kind="cv.magnetic", level=5.0, snr=5.0, host=hosts[19])
    assert one.drop == pytest.approx(2.5 * np.log10(4.0))
    assert one.magnitude == pytest.approx(16.505, abs=1e-3)
    again = plan(hosts, ["wd"], [5.0], 30)
    those = [m for m in made if m.task == "wd" and m.level == 5.0]
    assert [(m.kind, m.host) for m in again] == [(m.kind, m.host) for m in those]


def test_a_drop_in_magnitude_is_taken_from_each_host_s_own_snr() -> None:
    hosts = [Host(file="a", row=0, snr=10.0), Host(file="b", row=0, snr=40.0), Host(file="c", row=0, snr=None)]
    made = plan(hosts, ["gm"], [0.0, 2.5], 20, by="drop")
    assert {one.host.file for one in made} == {"a", "b"}
    assert all(one.snr == pytest.approx((one.host.snr or 0) * 10 ** (-0.4 * one.level)) for one in made)
    assert all(one.drop == pytest.approx(one.level) for one in made)
    with pytest.raises(ValueError, match="no spectrum of the run can lend its noise"):
        plan(hosts[2:], ["gm"], [1.0], 5, by="drop")


# --- counting


def outcomes(answers: str, level: float = 5.0, band: str = "", magnitude: float | None = None) -> list[Outcome]:
    words = {"y": Answer.YES, "n": Answer.NO, "u": Answer.UNSURE, "d": Answer.NO_DATA, "f": Answer.FAILED}
    lent = Host(file="a", row=0, snr=level, magnitude=magnitude)
    each = {"task": "cv", "kind": "cv.magnetic", "level": level, "snr": level, "host": lent}
    return [Outcome(Injection(number=i, **each), words[a], None, level, band) for i, a in enumerate(answers)]


def test_unsure_is_a_look_and_no_find() -> None:
    (whole,) = [r for r in rows_of(outcomes("yyyynnuudf")) if (r.kind, r.by) == ("all", "snr")]
    assert (whole.n, whole.yes, whole.no, whole.unsure, whole.no_data, whole.failed) == (10, 4, 2, 2, 1, 1)
    assert (whole.recovered, whole.seen) == (0.4, 0.8)
    assert (whole.kept, whole.rejected) == (None, None)


@pytest.mark.parametrize(("k", "n"), [(0, 20), (4, 10), (20, 20), (137, 200)])
def test_intervals_are_those_of_clopper_and_pearson(k: int, n: int) -> None:
    low, high = interval(k, n)
    assert low == pytest.approx(beta.ppf(0.025, k, n - k + 1) if k else 0.0)
    assert high == pytest.approx(beta.ppf(0.975, k + 1, n - k) if k < n else 1.0)


def test_bands_count_where_the_run_was_sorted_and_magnitudes_where_it_was_matched() -> None:
    found = rows_of(outcomes("yy", band="accept", magnitude=16.2) + outcomes("uu", band="look", magnitude=16.8)
                    + outcomes("n", band="reject", magnitude=17.1))  # fmt: skip
    by = {(r.by, r.low): r for r in found if r.kind == "all"}
    assert (by["snr", 5.0].accepted, by["snr", 5.0].looked, by["snr", 5.0].rejected) == (2, 2, 1)
    assert by["snr", 5.0].kept == 0.8
    assert (by["magnitude", 16.0].n, by["magnitude", 17.0].n) == (4, 1)
    assert by["magnitude", 17.0].recovered == 0.0


def test_the_figure_says_simulated_and_is_read_in_grey(tmp_path: Path) -> None:
    rows = [r.as_dict() for level, said in ((3.0, "ynnu"), (10.0, "yyyn")) for r in rows_of(outcomes(said, level))]
    drawn = figure(rows, "RUN")
    assert "SIMULATED" in drawn.get_suptitle()
    (axes,) = [a for a in drawn.axes if a.axison]
    assert [100 * r["recovered"] for r in rows if r["by"] == "snr" and r["kind"] == "all"] == [25.0, 75.0]
    assert list(axes.containers[0][0].get_ydata()) == [25.0, 75.0]
    assert list(axes.containers[1][0].get_ydata()) == [50.0, 75.0]
    assert len({(str(line), marker, filled) for _, _, _, line, marker, filled in SERIES}) == len(SERIES)
    for form, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert figure_bytes(drawn, form).startswith(begins)
        assert figure_bytes(drawn, form) == figure_bytes(figure(rows, "RUN"), form)


# --- the command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SIMULATED examples, vetted and sorted without a calibration."""
    out = tmp_path_factory.mktemp("completeness") / "RUN"
    listed = str(EXAMPLES / "list.csv")
    assert main(["vet", listed, "--task", "cv,gm", "--policy", "line-indices", "--out", str(out), "--quiet"]) == 0
    assert main(["triage", str(out), "--quiet"]) == 0
    return out


COMMAND = ["--task", "cv", "--snr", "2,20", "--each", "6", "--processes", "1", "--quiet"]


@pytest.fixture(scope="module")
def measured(run: Path) -> Path:
    assert main(["completeness", str(run), *COMMAND]) == 0
    return run / "completeness"


def test_the_command_counts_what_the_run_s_own_policy_recovered(measured: Path, run: Path) -> None:
    told = json.loads((measured / "completeness.json").read_text(encoding="utf-8"))
    assert told["note"].startswith("SIMULATED")
    assert (told["planned"], told["vetted"], told["refused"], told["notices"]) == (12, 12, [], [])
    assert told["run"]["policy"] == "line-indices"
    with RunFolder.read(measured / "run") as made, RunFolder.read(run) as own:
        said = [str(d.verdict.answer) for d in made.decisions()]
        asked = {k: v for k, v in made.settings.items() if k != "completeness"}
        assert asked == {k: v for k, v in own.settings.items() if k != "tasks.gm"}
        assert all(d.warnings[0] == "SIMULATED spectrum" for d in made.decisions())
    rows = {(r["kind"], r["by"], r["low"]): r for r in told["rows"]}
    assert rows["all", "all", None]["yes"] == said.count("YES")
    assert rows["all", "snr", 20.0]["recovered"] >= 4 / 6
    # Without a calibration a NO is rejected and all else is looked at.
    assert rows["all", "all", None]["rejected"] == said.count("NO")
    with open(measured / "injections.csv", newline="", encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    assert {row["note"] for row in listed} == {"SIMULATED"}
    assert sorted(row["answer"] for row in listed) == sorted(said)
    for row in listed:
        assert float(row["snr_measured"]) == pytest.approx(float(row["snr"]), rel=0.25)
    for form in ("csv", "png", "svg", "pdf"):
        assert (measured / f"completeness.{form}").stat().st_size > 500
    assert json.loads((measured / "run" / "receipt.json").read_text(encoding="utf-8"))["decisions"] == 12


def test_what_was_injected_is_read_by_every_command(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sorted((measured / "spectra").iterdir())[0]
    assert main(["show", str(file)]) == 0
    assert "SIMULATED" in capsys.readouterr().out
    assert main(["report", str(measured / "run")]) == 0
    page = (measured / "run" / "report.html").read_text(encoding="utf-8")
    assert "in the noise of" in page
    assert "<svg" in page


def test_an_interrupted_measurement_goes_on_and_gives_the_same(measured: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    asked = Asked(tasks=("cv",), by="snr", levels=(2.0, 20.0), each=6, seed=0)
    with RunFolder.read(run) as folder:
        planned(out, asked, lambda: hosts_of(folder, {}))
    stop = threading.Event()
    make_spectra(out, [Path()], 1, stop, lambda doing, done, total: stop.set())
    begun = len(list((out / "spectra").iterdir()))
    assert 0 < begun < 12
    assert main(["completeness", str(run), *COMMAND, "--out", str(out)]) == 0
    first, second = (json.loads((p / "completeness.json").read_text(encoding="utf-8")) for p in (measured, out))
    assert second["rows"] == first["rows"]
    before = (
        (out / "run" / "run.db").stat().st_mtime_ns,
        sorted(p.stat().st_mtime_ns for p in (out / "spectra").iterdir()),
    )
    assert main(["completeness", str(run), *COMMAND, "--out", str(out)]) == 0
    with RunFolder.read(out / "run") as folder:
        assert folder.receipt().decisions == 12
    assert before[1] == sorted(p.stat().st_mtime_ns for p in (out / "spectra").iterdir())


def test_several_processes_make_the_same_spectra(measured: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "two"
    out.mkdir()
    (out / "plan.json").write_bytes((measured / "plan.json").read_bytes())
    assert make_spectra(out, [Path()], 2, threading.Event()) == {}
    for file in sorted((measured / "spectra").iterdir()):
        assert read(file)[0].content_hash == read(out / "spectra" / file.name)[0].content_hash


def test_a_folder_of_other_settings_is_not_gone_on_with(
    measured: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completeness", str(run), *COMMAND[:-1], "--seed", "3"]) == 2
    assert "was begun with seed 0, not 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--snr", "3", "--drop", "1"], "give one"),
        (["--snr", "three"], "--snr three: give numbers such as 3,5,10"),
        (["--snr", "0"], "give numbers"),
        (["--task", "wd"], "asked cv, gm"),
        (["--calibration", "missing.json"], "was sorted without a calibration"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    arguments: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completeness", str(run), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_is_none_and_a_host_that_is_gone_are_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completeness", str(tmp_path)]) == 2
    assert "not a specvet run" in capsys.readouterr().err
    RunFolder.open(tmp_path / "ROLLOUT", kind="rollout").close()
    assert main(["completeness", str(tmp_path / "ROLLOUT")]) == 2
    assert "is no run of specvet vet" in capsys.readouterr().err
    out = tmp_path / "gone"
    (out / "spectra").mkdir(parents=True)
    made = {
        "asked": {"tasks": ["cv"], "by": "snr", "levels": [2, 20], "each": 6, "seed": 0},
        "hosts": 1,
        "injections": [
            {"number": 0, "task": "cv", "kind": "cv.magnetic", "level": 2, "snr": 2,
             "host": {"file": "gone.fits", "row": 0}}
        ],
    }  # fmt: skip
    (out / "plan.json").write_text(json.dumps(made), encoding="utf-8")
    assert main(["completeness", str(run), *COMMAND[:-1], "--out", str(out)]) == 1
    assert "gone.fits row 0: is not there any more" in capsys.readouterr().err


def test_bands_are_those_of_the_calibration_that_the_run_was_sorted_with(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    copied = tmp_path / "RUN"
    listed = str(EXAMPLES / "list.csv")
    assert (
        main(["vet", listed, "--task", "cv,gm,wd,cc,ss", "--policy", "line-indices", "--out", str(copied), "--quiet"])
        == 0
    )
    known = tmp_path / "c.json"
    truth = str(EXAMPLES / "truth.csv")
    assert main(["triage", "calibrate", str(copied), "--labels", truth, "--out", str(known), "--quiet"]) == 0
    assert main(["triage", str(copied), "--calibration", str(known), "--max-lost", "0.6", "--quiet"]) == 0
    capsys.readouterr()
    few = ["--task", "cv", "--snr", "20", "--each", "3", "--processes", "1"]
    assert main(["completeness", str(copied), *few]) == 0
    assert "the run was sorted with c.json; with --calibration c.json its bands are told" in capsys.readouterr().err
    assert main(["completeness", str(copied), *few, "--calibration", str(known), "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    row = next(r for r in told["rows"] if r["kind"] == "all" and r["by"] == "snr")
    assert row["accepted"] + row["looked"] + row["rejected"] == 3
    known.write_text(known.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert main(["completeness", str(copied), *few, "--calibration", str(known)]) == 2
    assert "is not the calibration that the run was sorted with (c.json)" in capsys.readouterr().err


def test_joins_travel_with_the_host() -> None:
    lent = plain().replace(joins=(Join(5900.0, 6300.0, "SDSS blue/red"),))
    assert injected(lent, "wd.DA", 5.0, np.random.default_rng(0)).joins == lent.joins


def test_a_run_that_was_matched_is_told_by_magnitude_too(run: Path, tmp_path: Path) -> None:
    copied = tmp_path / "RUN"
    shutil.copytree(run, copied, ignore=shutil.ignore_patterns("completeness", "run.lock"))
    gaia = tmp_path / "gaia-SIMULATED.csv"
    with open(EXAMPLES / "list.csv", newline="", encoding="utf-8") as file:
        places = list(csv.DictReader(file))
    lines = [f"{i},{p['ra']},{p['dec']},1.0,0.1,{15 + 0.2 * i:.1f},0.5" for i, p in enumerate(places)]
    gaia.write_text(
        "\n".join(["source_id,ra,dec,parallax,parallax_error,phot_g_mean_mag,bp_rp", *lines]), encoding="utf-8"
    )
    assert main(["match", str(copied), "--table", str(gaia), "--as", "gaia", "--quiet"]) == 0
    few = ["--task", "cv", "--drop", "0,2", "--each", "6", "--processes", "1", "--quiet"]
    assert main(["completeness", str(copied), *few]) == 0
    told = json.loads((copied / "completeness" / "completeness.json").read_text(encoding="utf-8"))
    assert told["with_magnitude"] == 12
    by = [r for r in told["rows"] if r["kind"] == "all" and r["by"] == "magnitude"]
    assert sum(r["n"] for r in by) == 12
    assert {r["by"] for r in told["rows"]} == {"all", "drop", "magnitude"}
    with open(copied / "completeness" / "injections.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            fainter = float(row["magnitude"]) - float(row["host_magnitude"])
            assert fainter == pytest.approx(2.5 * np.log10(float(row["host_snr"]) / float(row["snr"])), abs=2e-3)
            assert fainter == pytest.approx(float(row["drop"]), abs=2e-3)


def test_a_model_is_asked_with_the_budget_of_the_run(tmp_path: Path) -> None:
    config = {"policy": "openai", "budget": {"turn_tokens": 77}, "frame_mode": "published", "style": "compact"}
    told = {"model": "m", "base_url": ["http://127.0.0.1:9/v1"], "device": "auto", "dtype": "auto"}
    with ExitStack() as stack, RunFolder.open(tmp_path / "RUN") as folder:
        asked = opened_as(stack, "openai", told, config, 4)(folder)
        assert (asked.budget.turn_tokens, asked.frame_mode, asked.style, asked.concurrency) == (
            77,
            "published",
            "compact-1",
            4,
        )
        assert asked.policy.budget.turn_tokens == 77  # type: ignore[union-attr]


@pytest.mark.parametrize("below", [None, 0.03])
def test_what_a_prefilter_left_out_of_the_run_it_leaves_out_of_the_injections(
    below: float | None, tmp_path: Path
) -> None:
    used = Prefilter(below)
    with RunFolder.open(tmp_path / "RUN") as folder:
        assert prefilter_of(folder) is None
        folder.settle(dict(used.settings))
        found = prefilter_of(folder)
    assert found is not None
    assert found.settings == used.settings
