"""Notebooks: what runs, spectra and verdicts show themselves as, and the tutorial from its first cell to its last."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import specvet
from specvet.cli.main import main
from specvet.records import Decision, RunError, RunFolder
from specvet.records.schema import Answer, EvidenceItem, Measurement, Verdict
from specvet.spectra import SpectrumReadError
from specvet.vetting.notebook import ShownRun, show

EXAMPLES = Path(__file__).parents[2] / "examples"
TUTORIAL = EXAMPLES / "tutorial.ipynb"
CV = EXAMPLES / "spectra" / "spec-SIMULATED-9000007-58342-0713.fits"
DESI = EXAMPLES / "spectra" / "coadd-SIMULATED-0-9000000.fits"
PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SIMULATED examples, vetted."""
    out = tmp_path_factory.mktemp("notebook") / "RUN"
    listed = str(EXAMPLES / "list.csv")
    assert main(["vet", listed, "--task", "cv,wd", "--policy", "line-indices", "--out", str(out), "--quiet"]) == 0
    return out


class Page(HTMLParser):
    """What is in a piece of HTML: its tags, sources of pictures, and the cells of its tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.rows: list[list[str]] = []
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attributes if name in ("src", "href")]
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def page(shown: Any) -> Page:
    found = Page(shown._repr_html_())
    assert set(found.tags) <= {
        "div", "p", "b", "em", "small", "img", "table", "thead", "tbody", "tr", "th", "td"
    }  # fmt: skip
    assert all(source.startswith("data:image/png;base64,") for source in found.sources)
    return found


# --- spectra


def test_a_spectrum_shows_its_figure_its_facts_and_that_it_is_simulated() -> None:
    (spectrum,) = specvet.read(CV)
    shown = specvet.show(spectrum, windows=[(4800, 4930), (6450, 6680)])
    found = page(shown)
    assert len(found.sources) == 3
    assert "SIMULATED" in found.words
    assert "4,607 pixels" in found.words.replace("pixels: 4,607", "4,607 pixels")
    assert "redshift: 2.933491 (SPALL Z)" in found.words
    assert shown._repr_png_().startswith(PNG)
    assert repr(shown) == repr(spectrum)


def test_a_row_of_a_file_is_shown_by_its_path() -> None:
    found = page(show(DESI, row=2))
    assert "row 2 (of 4)" in found.words
    with pytest.raises(LookupError, match="there is no row 4; it holds rows 0 to 3"):
        show(DESI, row=4)


def test_a_spectrum_without_points_says_so_instead_of_a_figure() -> None:
    (spectrum,) = specvet.read(CV)
    empty = spectrum.replace(wavelength=spectrum.wavelength[:0], flux=spectrum.flux[:0], ivar=None, mask=None)
    shown = show(empty)
    assert shown._repr_png_() is None
    assert "too few points to draw" in page(shown).words
    assert "too few points to draw" in page(show(spectrum, windows=[(100, 200)])).words


def test_what_is_nothing_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="int is no run, spectrum, decision or verdict"):
        show(3)
    with pytest.raises(RunError, match="not a specvet run"):
        show(tmp_path)
    with pytest.raises(SpectrumReadError):
        show(tmp_path / "missing.fits")


# --- runs and verdicts


def test_a_run_shows_its_counts_and_its_finds_first(run: Path) -> None:
    shown = show(run)
    found = page(shown)
    with RunFolder.read(run) as folder:
        counts = folder.count()
    head, cv, wd = found.rows[:3]
    assert head == ["task", "YES", "UNSURE", "NO_DATA", "NO"]
    assert cv == ["cv", "3", "0", str(counts["cv"]["NO_DATA"]), str(counts["cv"]["NO"])]
    assert wd[:3] == ["wd", "2", "1"]
    answers = [row[2] for row in found.rows[4:]]
    assert answers == ["YES"] * 5 + ["UNSURE"] + ["NO_DATA"] * 2 + ["NO"] * 2
    assert "the first 10 of 28 rows, finds first" in found.words
    assert repr(shown).startswith("<vet run ")


def test_a_run_s_table_is_what_export_writes(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    assert main(["export", str(run), "--out", str(out), "--task", "wd", "--answer", "YES,UNSURE"]) == 0
    with open(out, newline="", encoding="utf-8") as file:
        wanted = list(csv.DictReader(file))
    table = ShownRun(run).table(tasks=["wd"], answers=["YES", "UNSURE"])
    assert table.colnames == list(wanted[0])
    for name in ("id", "answer", "reason"):
        assert [str(v) for v in table[name]] == [row[name] for row in wanted]
    assert table["likelier_class"].mask.all()
    assert len(ShownRun(run).table(answers=["ERROR"])) == 0


def test_a_triaged_run_shows_its_bands(run: Path) -> None:
    assert main(["triage", str(run), "--quiet"]) == 0
    found = page(show(run))
    assert found.rows[3] == ["id", "task", "answer", "confidence", "triage", "likelier", "reason"]
    assert found.rows[4][4].startswith("look")


def test_a_decision_shows_the_windows_that_were_looked_at_and_the_evidence(run: Path) -> None:
    shown = show(run).decision("9000007-58342-0713", "cv")  # type: ignore[attr-defined]
    found = page(shown)
    assert shown.windows[0] == (6300.0, 6900.0)
    assert len(found.sources) == 1 + min(6, len(shown.windows))
    assert found.rows[0] == ["evidence", "log-odds of YES", "note"]
    assert any("Hα in emission" in row[0] for row in found.rows)
    assert "cataclysmic variable" in found.words
    assert "not applied" in found.words
    assert shown._repr_png_().startswith(PNG)
    assert page(show(shown)).rows == found.rows
    with pytest.raises(LookupError, match="decided nothing about 'nobody' for the task cv"):
        show(run).decision("nobody", "cv")  # type: ignore[attr-defined]


def test_a_decision_whose_file_is_gone_is_shown_without_a_picture(run: Path) -> None:
    with RunFolder.read(run) as folder:
        decision = next(folder.decisions())
    shown = show(decision.model_copy(update={"file": "/nowhere/gone.fits"}))
    assert shown._repr_png_() is None  # type: ignore[attr-defined]
    found = page(shown)
    assert "is not there any more" in found.words
    assert not found.sources


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\ud800b", "&lt;b&gt;"]
)
def test_texts_of_files_and_models_are_never_markup(text: str) -> None:
    measured = Measurement(index="ha", name=text, value=1.0, note=text)
    evidence = EvidenceItem(says=text, measurement=measured, log_odds=1.0)
    verdict = Verdict(answer=Answer.NO, reason=text, likelier_class=text, evidence=(evidence,))
    shown = text.encode("utf-8", "replace").decode()
    assert shown in page(show(verdict)).words
    decision = Decision(file=text, row=0, task=text, id=text, verdict=verdict, warnings=(text,), frame=text)
    found = page(show(decision))
    assert shown in found.words
    assert not found.sources


def test_long_reasons_are_cut() -> None:
    found = page(show(Verdict(answer=Answer.NO, reason="long " * 500)))
    assert len(found.words) < 400
    assert "…" in found.words


# --- IPython


def test_bare_objects_show_themselves_in_ipython(run: Path) -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell()
    (spectrum,) = specvet.read(CV)
    with RunFolder.read(run) as folder:
        decision = next(folder.decisions(answers=["YES"]))
        things = (spectrum, folder, decision, decision.verdict)
        before = [shell.display_formatter.format(thing)[0] for thing in things]
        specvet.load_ipython_extension(shell)
        after = [shell.display_formatter.format(thing)[0] for thing in things]
    assert [set(data) for data in before] == [{"text/plain"}] * 4
    assert [set(data) for data in after] == [{"text/plain", "text/html"}] * 4
    assert after[0]["text/html"] == show(spectrum)._repr_html_()


def test_importing_specvet_outside_a_notebook_loads_nothing_more() -> None:
    code = (
        "import sys, specvet; print(sorted(m for m in sys.modules if m.startswith(('specvet.', 'numpy', 'IPython'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- the tutorial


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tutorial, run in a kernel of this environment; nothing is written beside it."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    home = tmp_path_factory.mktemp("tutorial")
    own = {"IPYTHONDIR": str(home / "ipython"), "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "TMPDIR": str(home),
           "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}  # fmt: skip
    book = nbformat.read(TUTORIAL, as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    )
    before = sorted(path.name for path in EXAMPLES.rglob("*"))
    client.execute(env=os.environ | own)
    assert sorted(path.name for path in EXAMPLES.rglob("*")) == before
    return book


def printed(book: Any) -> str:
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs)


def test_the_tutorial_is_kept_without_outputs_and_says_that_all_is_simulated() -> None:
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(book)
    assert "SIMULATED" in book.cells[0].source
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert len(code) > 8
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert TUTORIAL.stat().st_size < 20_000


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_tutorial_runs_from_its_first_cell_to_its_last(executed: Any) -> None:
    said = printed(executed)
    for line in (
        "SDSS, 4607 pixels, S/N 23.0",
        "Hβ 4861: EW -24.5 ± 1.0 Å (emission)",
        "cv 10 NO, 1 NO_DATA, 3 YES; wd 10 NO, 1 NO_DATA, 1 UNSURE, 2 YES",
        "<cv of 9000007-58342-0713 row 0: YES>",
        "9000006-52486-0609 → a continuum without features may be a DC white dwarf or a BL Lac object",
        "{'accept': 0, 'look': 8, 'reject': 20}",
        "UNSURE from the spectrum, YES with Gaia (M_G = 13.49)",
        "6 spectra of 6 objects",
        "3 cataclysmic variables: Gaia DR3 14, Gaia DR3 8, Gaia DR3 6",
        "6 rows: cv YES, cv YES, cv YES, wd UNSURE, wd YES, wd YES",
        "14 spectra in 11 files were vetted with specvet",
    ):
        assert line in said


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_stands_bare_at_the_end_of_a_cell_is_shown_with_pictures(executed: Any) -> None:
    shown = [o.data for cell in executed.cells for o in cell.get("outputs", ()) if o.output_type == "execute_result"]
    html = [data["text/html"] for data in shown if "text/html" in data]
    assert len(html) == 4
    assert html[0].startswith('<div class="specvet">')  # a bare Spectrum, by importing specvet alone
    assert sum("data:image/png;base64," in text for text in html) == 3
    assert "image/png" in shown[-1]  # the completeness figure
