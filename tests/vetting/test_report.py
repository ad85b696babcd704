"""The report page: complete, self-contained, safe, in a stated order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from specvet.agent import run_agent, task_hash
from specvet.policies import Action, Answered, Call, Trajectory
from specvet.records import Decision, RunFolder
from specvet.records.schema import Answer, EvidenceItem, Measurement, Question, SpectrumRef, Verdict
from specvet.spectra import Redshift, Spectrum, read
from specvet.tasks import load_task, task_text
from specvet.tools import TOOL_NAME, ZoomTool
from specvet.vetting.report import About, render, write_report
from specvet.vetting.report.story import measured_value, sky_links, urgency

HOSTILE = "<script>alert(1)</script>\"'&amp;</title></svg>.txt"
VOID = {"meta", "input", "br", "link", "img", "hr", "source"}
CV, WD = load_task("cv"), load_task("wd")


class Scripted:
    """Looks at Hα, measures it, asks for nonsense, answers as told."""

    name = "scripted"
    capabilities = frozenset[str]()

    def __init__(self, answer: str = "YES", confidence: float | None = 0.9, reason: str = "Hα in emission") -> None:
        self.answer, self.confidence, self.reason = answer, confidence, reason

    def act(self, trajectory: Trajectory) -> Action:
        turn = len(trajectory.turns)
        if turn == 0:
            return Call(TOOL_NAME, {"wavelength_range": [6400, 6700], "label": "Hα"}, text="Is Hα in emission?")
        if turn == 1:
            return Call(TOOL_NAME, {"wavelength_range": [1, 2]}, text="A window without data")
        width = Measurement(index="halpha", name="Hα EW", value=-42.123, error=0.314, unit="Å", window=(6530, 6600))
        lost = Measurement(index="naI", name="Na I 8190", note="a gap covers it")
        evidence = (EvidenceItem(says="Hα strongly in emission", window="halpha", measurement=width, log_odds=-1.25),)
        verdict = Verdict(
            answer=Answer(self.answer), confidence=self.confidence, p_yes=0.42, reason=self.reason, evidence=evidence,
            likelier_class="M dwarf" if self.answer == "NO" else None,
        )  # fmt: skip
        return Answered(verdict, (width, lost))


def star(file: str, seed: int = 1, n: int = 2500, **changes: object) -> Spectrum:
    wavelength = np.linspace(4000.0, 9000.0, n)
    flux = 10 + np.random.default_rng(seed).normal(0, 0.1, n) + 30 * np.exp(-0.5 * ((wavelength - 6564.6) / 8) ** 2)
    spectrum = Spectrum(wavelength, flux, np.full(n, 100.0), medium="vacuum", file=file, id=file, ra=10.5, dec=-5.25)
    return spectrum.replace(**changes)


def decided(spectrum: Spectrum, task: str = "cv", policy: Scripted | None = None) -> Decision:
    tool = ZoomTool(spectrum)
    question = Question(id="q", task=task, spectrum=SpectrumRef(path=spectrum.file or "x", row=spectrum.row))
    trajectory = run_agent(question, load_task(task), tool, policy or Scripted())  # type: ignore[arg-type]
    return Decision(
        file=spectrum.file, row=spectrum.row, task=task, id=spectrum.id, verdict=trajectory.verdict,
        trajectory=trajectory, survey=spectrum.survey, n_pix=spectrum.n_pix, wave_min=spectrum.wave_min,
        wave_max=spectrum.wave_max, medium=spectrum.medium, snr=spectrum.snr, ra=spectrum.ra, dec=spectrum.dec,
        z=tool.frame.z or None, frame=tool.frame.text, warnings=spectrum.warnings,
        pipeline_class=spectrum.pipeline_class,
    )  # fmt: skip


def unreadable(file: str, reason: str) -> Decision:
    verdict = Verdict(answer=Answer.ERROR, reason=f"{file}: {reason}")
    return Decision(file=file, row=0, task="*", id="", verdict=verdict)


def page(folder: Path, decisions: Sequence[Decision], spectra: Sequence[Spectrum] = (), **options: object) -> str:
    known = {(s.file, s.row): s for s in spectra}
    about = About(definitions={"cv": CV, "wd": WD}, task_hash=task_hash)
    load = lambda file, row: known.get((file, row))  # noqa: E731
    out = render(folder / "page.html", decisions, load, about, **options)  # type: ignore[arg-type]
    return out.read_text(encoding="utf-8")


class Balance(HTMLParser):
    """Checks that every element is closed in order, ids are unique, and collects attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> without an element"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"inline handler {name} on {tag}"
            if name == "id":
                self.ids.append(value or "")
            if name in {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}:
                self.loads.append((tag, name, value or ""))


def parsed(html: str) -> Balance:
    checker = Balance()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    return checker


@pytest.fixture
def mixed() -> tuple[list[Decision], list[Spectrum]]:
    spectra = [star("no.fits"), star("yes.fits", 2), star("unsure.fits", 3), star("surer.fits", 4)]
    answers = [("NO", 0.99), ("YES", 0.8), ("UNSURE", 0.5), ("YES", 0.95)]
    decisions = [decided(s, "cv", Scripted(*a)) for s, a in zip(spectra, answers, strict=True)]
    decisions.insert(1, decided(spectra[0], "wd", Scripted("NO", 0.7)))
    return [*decisions, unreadable("broken.fits", "truncated after 2880 bytes")], spectra


def test_every_decision_appears_with_its_reason_and_pictures(
    tmp_path: Path, mixed: tuple[list[Decision], list[Spectrum]]
) -> None:
    html = page(tmp_path, *mixed)
    checker = parsed(html)
    assert html.count('<details id="s') == 5
    assert html.count("<article ") == 4
    text = " ".join(checker.text)
    for name in ("no.fits", "yes.fits", "unsure.fits", "surer.fits", "broken.fits", "truncated after 2880 bytes"):
        assert name in text
    assert html.count('class="plot full"') == 4
    assert html.count('class="plot zoom"') == 5
    for said in (
        "Is Hα in emission?",
        "Hα EW = −42.12 ± 0.31 Å",
        "−1.25",
        "Na I 8190: not measurable",
        "a gap covers it",
    ):
        assert said in text, said
    assert "is invalid or outside the available data range" in text
    assert "Looks more like: M dwarf" in re.sub(r"<[^>]+>", "", html)


def test_the_page_loads_nothing(tmp_path: Path, mixed: tuple[list[Decision], list[Spectrum]]) -> None:
    html = page(tmp_path, *mixed)
    for tag, name, value in parsed(html).loads:
        assert (tag, name) in {("a", "href"), ("use", "href")}
        assert value.startswith("#") or (tag == "a" and value.startswith("https://")), value
    assert "@import" not in html
    assert not re.search(r"url\(\s*['\"]?(?!#)", html)
    assert "default-src 'none'" in unescape(html)


def test_a_window_that_two_tasks_share_is_drawn_once(tmp_path: Path) -> None:
    spectrum = star("a.fits")
    html = page(tmp_path, [decided(spectrum, "cv"), decided(spectrum, "wd")], [spectrum])
    assert html.count('<path class="flux"') == 2  # the whole and the one window
    assert html.count('<use href="#s1w0"/>') == 2
    assert html.count('<g id="s1w0">') == 1


def test_hostile_names_and_headers_stay_text(tmp_path: Path) -> None:
    spectrum = star(HOSTILE, flux_unit=HOSTILE, pipeline_class=HOSTILE, warnings=(HOSTILE,), survey=HOSTILE)
    policy = Scripted("NO", 0.9, reason=HOSTILE)
    decisions = [decided(spectrum, "cv", policy), unreadable(HOSTILE + "2", HOSTILE)]
    checker = parsed(page(tmp_path, decisions, [spectrum]))
    assert checker.tags.count("script") == 1
    assert HOSTILE in "".join(checker.text)


def test_a_surrogate_in_a_file_name_does_not_stop_the_page(tmp_path: Path) -> None:
    name = b"caf\xe9.fits".decode("utf-8", "surrogateescape")
    parsed(page(tmp_path, [unreadable(name, "no such file"), decided(star("ok.fits"))], []))


def test_a_missing_file_is_said_and_its_record_stays(tmp_path: Path) -> None:
    html = page(tmp_path, [decided(star("gone.fits"))])
    assert "the file is not there any more" in html
    assert "1 of the spectra shown could not be read again" in html
    assert 'class="plot' not in html
    assert "Hα EW = −42.12 ± 0.31 Å" in html


def test_a_changed_file_is_not_drawn_as_if_it_were_the_old_one(tmp_path: Path) -> None:
    html = page(tmp_path, [decided(star("a.fits"))], [star("a.fits", seed=99)])
    assert "the file has changed since the run" in html
    assert 'class="plot' not in html


def test_a_reader_that_fails_is_quoted(tmp_path: Path) -> None:
    def load(file: str, row: int) -> Spectrum | None:
        raise OSError("disk <gone>")

    out = render(tmp_path / "page.html", [decided(star("a.fits"))], load)
    assert "disk &lt;gone&gt;" in out.read_text(encoding="utf-8")


def ids_in_order(html: str) -> list[str]:
    return re.findall(r"<h2><a href=\"#s\d+\">\d+</a> (\S+?)\s*</h2>", html)


def test_finds_come_first_the_most_certain_at_the_top(
    tmp_path: Path, mixed: tuple[list[Decision], list[Spectrum]]
) -> None:
    html = page(tmp_path, *mixed)
    assert ids_in_order(html) == ["surer.fits", "yes.fits", "unsure.fits", "no.fits"]
    assert html.count(" open>") >= 3
    assert not re.search(r'class="chapter NO" open', html)
    assert "YES first" in html


def test_equal_confidences_are_ordered_by_their_evidence() -> None:
    weak, strong = decided(star("weak.fits")), decided(star("strong.fits"))
    item = strong.verdict.evidence[0].model_copy(update={"log_odds": 7.0})
    verdict = strong.verdict.model_copy(update={"evidence": (item,)})
    assert urgency([strong.model_copy(update={"verdict": verdict})]) < urgency([weak])


def test_only_features_of_what_was_found_are_marked_on_the_whole(tmp_path: Path) -> None:
    spectrum = star("a.fits")
    found, not_found = decided(spectrum, "cv"), decided(spectrum, "wd", Scripted("NO", 0.9))

    def marked(decisions: list[Decision]) -> str:
        html = page(tmp_path, decisions, [spectrum])
        whole = html[html.index('class="plot full"') :].split("</svg>")[0]
        return whole[whole.index('class="mark"') :]

    assert marked([found, not_found]) == marked([found])
    assert marked([not_found]) != marked([found])
    assert ">Hα</text>" in marked([found])


def test_a_limit_and_filters_show_less_and_say_so(tmp_path: Path, mixed: tuple[list[Decision], list[Spectrum]]) -> None:
    told: list[str] = []
    html = page(tmp_path, *mixed, limit=2, tell=told.append)
    assert told == [
        "Only the first 2 of 4 spectra are shown, the most urgent. More: specvet report --limit N (0 for all); others: "
        "--answer and --task; every row: specvet export."
    ]
    assert told[0] in html
    told.clear()
    page(tmp_path, *mixed, limit=4, tell=told.append)
    assert told == []
    assert ids_in_order(html) == ["surer.fits", "yes.fits"]
    assert "Only the first 2 of 4 spectra" in html
    assert "broken.fits" in html
    html = page(tmp_path, *mixed, answers=["UNSURE"])
    assert ids_in_order(html) == ["unsure.fits"]
    html = page(tmp_path, *mixed, tasks=["wd"])
    assert ids_in_order(html) == ["no.fits"]
    assert "Only these tasks" in html
    with pytest.raises(ValueError, match="MAYBE"):
        page(tmp_path, *mixed, answers=["MAYBE"])
    with pytest.raises(ValueError, match="limit"):
        page(tmp_path, *mixed, limit=0)
    with pytest.raises(ValueError, match="read twice"):
        page(tmp_path, iter(mixed[0]), mixed[1])  # type: ignore[arg-type]


def test_decisions_of_a_spectrum_need_not_stand_together(
    tmp_path: Path, mixed: tuple[list[Decision], list[Spectrum]]
) -> None:
    decisions, spectra = mixed
    shuffled = [decisions[i] for i in (3, 1, 5, 4, 0, 2)]
    told: list[tuple[int, int]] = []
    html = page(tmp_path, shuffled, spectra, progress=lambda done, n: told.append((done, n)))
    assert html == page(tmp_path, decisions, spectra)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_equal_runs_give_equal_pages_and_a_failure_leaves_the_old_one(
    tmp_path: Path, mixed: tuple[list[Decision], list[Spectrum]]
) -> None:
    first = page(tmp_path, *mixed)
    assert page(tmp_path, *mixed) == first

    def interrupted(done: int, n: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        page(tmp_path, *mixed, progress=interrupted)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == first
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_simulated_spectra_are_marked(tmp_path: Path) -> None:
    spectrum = star("a.fits", warnings=("SIMULATED: not an observation",))
    html = page(tmp_path, [decided(spectrum)], [spectrum])
    assert html.count('class="simulated"') == 3
    assert 'class="simulated"' not in page(tmp_path, [decided(star("b.fits"))], [])


def test_a_line_is_marked_at_rest_in_the_frame_that_was_shown(tmp_path: Path) -> None:
    spectrum = star("a.fits", redshift=Redshift(0.001, source="header Z"), pipeline_class="STAR")
    html = page(tmp_path, [decided(spectrum)], [spectrum])
    assert "Wavelength (Å, vacuum, rest frame)" in html
    assert "rest frame (z = 0.001000 from header Z)" in html


def test_the_definition_of_another_run_is_told_apart(tmp_path: Path) -> None:
    decision = decided(star("a.fits"))
    assert "differs from the one" not in page(tmp_path, [decision])
    assert decision.trajectory
    old = decision.trajectory.model_copy(update={"task_hash": "0" * 64})
    assert "differs from the one" in page(tmp_path, [decision.model_copy(update={"trajectory": old})])


def test_nothing_to_tell_is_a_page_too(tmp_path: Path) -> None:
    parsed(page(tmp_path, []))
    html = page(tmp_path, [unreadable(f"{i}.fits", f"truncated after {i} bytes") for i in range(30)])
    parsed(html)
    assert "30 × truncated after … bytes" in html


def test_values_are_rounded_by_their_errors() -> None:
    def value(v: float | None, error: float | None, unit: str = "Å") -> str:
        return measured_value(Measurement(index="i", name="n", value=v, error=error, unit=unit))

    assert value(-12.3456, 0.4321) == "−12.35 ± 0.43 Å"
    assert value(1234.5, 56.0, "km/s") == "1234 ± 56 km/s"
    assert value(0.81234, None, "") == "0.812"
    assert value(None, None) == "not measurable"


def test_links_point_at_the_position_and_only_where_there_is_one() -> None:
    assert sky_links(None, 3.0) == []
    assert sky_links(float("nan"), 3.0) == []
    links = dict(sky_links(10.5, 5.25))
    assert "Coord=10.500000%20%2B5.250000" in links["SIMBAD"]


def test_a_run_folder_becomes_a_page_even_after_it_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    spectrum = star("a.txt")
    columns = np.column_stack([spectrum.wavelength, spectrum.flux, 1 / np.sqrt(spectrum.ivar)])  # type: ignore[call-overload]
    np.savetxt("a.txt", columns, header="wavelength flux error")
    with RunFolder.open("run", config={"policy": "scripted", "tasks": {"cv": task_hash(CV)}}) as run:
        run.record(decided(read("a.txt")[0]))
        run.record(unreadable("b.txt", "empty"))
        (run.path / "tasks" / "cv.yaml").write_text(task_text(CV), encoding="utf-8")
    out = write_report(Path("run"))
    assert out == Path("run/report.html")
    html = out.read_text(encoding="utf-8")
    parsed(html)
    assert 'class="plot zoom"' in html
    for said in ("scripted", "versions.numpy", "cataclysmic variable", "1 could not be read"):
        assert said in html, said
    monkeypatch.chdir(tmp_path)
    home.rename(tmp_path / "moved")
    again = write_report(tmp_path / "moved" / "run", tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert again == html


def test_a_long_list_of_unreadable_files_is_counted_in_full_and_listed_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specvet.vetting.report import page as module

    monkeypatch.setattr(module, "MAX_ERRORS", 2)
    html = page(tmp_path, [unreadable(f"e{i}.fits", "empty file") for i in range(3)])
    assert "3 could not be read" in html
    assert "3 × empty file" in html
    assert html.count('<tr class="error">') == 2
    assert "The first 2 of 3; all of them: specvet export RUN --answer ERROR --out errors.csv" in html
