"""`show`, `plot`, `tasks` and the program itself: what a user sees of a file, a task, and an error."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from cli_lab import SCRIPT, Specvet, write_star

from specvet.cli.failure import CommandError
from specvet.cli.plot import join_windows, parse_window

KEYS = ["file", "row", "survey", "layout", "n_pix", "wave_min", "wave_max", "medium", "z", "id", "warnings"]


def no_traceback(stderr: str) -> bool:
    return "Traceback" not in stderr and all(line.startswith("specvet: ") for line in stderr.splitlines())


def test_show_as_json_prints_one_object_a_line_with_the_promised_keys_first(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    done = specvet("show", "star.txt", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    shown = json.loads(line)
    assert list(shown)[:11] == KEYS
    wanted = {"file": "star.txt", "row": 0, "layout": "text", "n_pix": 2700, "wave_min": 3800.0, "wave_max": 9198.0}
    assert {k: shown[k] for k in wanted} == wanted
    assert shown["z"] is None
    assert isinstance(shown["id"], str)


def test_show_names_a_refused_file_with_the_reason_and_shows_the_others(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    (tmp_path / "empty.fits").write_bytes(b"")
    (tmp_path / "bad.fits.gz").write_bytes(b"\x1f\x8bgarbage")
    done = specvet("show", "empty.fits", "star.txt", "bad.fits.gz", "missing.fits", "--json")
    assert done.returncode == 1
    assert [json.loads(line)["file"] for line in done.stdout.splitlines()] == ["star.txt"]
    assert no_traceback(done.stderr)
    files = [line.split(": ")[1] for line in done.stderr.splitlines()]
    assert files == ["empty.fits", "bad.fits.gz", "missing.fits"]


def test_show_measures_the_lines_that_are_asked_for(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    done = specvet("show", "star.txt", "--line", "Ha", "--line", "6000")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()[-2:]] == ["  Hα 6563", "  6000 Å"]
    shown = json.loads(specvet("show", "star.txt", "--line", "Hα", "--json").stdout)
    assert set(shown["lines"]["Hα 6563"]) == {
        *("ew", "peak", "centre", "velocity", "fwhm", "fwhm_km_s", "intrinsic", "intrinsic_km_s"),
    }
    assert shown["lines"]["Hα 6563"]["ew"]["unit"] == "Å"
    unknown = specvet("show", "star.txt", "--line", "Hx")
    assert unknown.returncode == 2
    assert "no line is named 'Hx'" in unknown.stderr


def test_show_does_not_look_into_lists(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    (tmp_path / "list.csv").write_text("path\nstar.txt\n")
    done = specvet("show", "list.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("specvet: list.csv: ")


def test_show_of_every_shared_file_is_json_or_a_reason(specvet: Specvet, shared: Path) -> None:
    done = specvet("show", shared, "--json")
    files = {json.loads(line)["file"] for line in done.stdout.splitlines()}
    told = [line for line in done.stderr.splitlines() if "passed over" not in line]
    refused = {line.split(": ")[1] for line in told}
    everything = {str(p) for p in shared.rglob("*") if p.is_file() and not p.name.startswith(".")}
    beside = {name for name in everything if "/redrock-" in name} - files - refused
    assert f"redrock files passed over, {len(beside)}:" in done.stderr
    assert all(Path(name.replace("/redrock-", "/coadd-")).is_file() for name in beside)  # read with their coadds
    assert files | refused | beside == everything
    assert not files & refused
    assert no_traceback(done.stderr)
    assert done.returncode == 1


def test_show_for_people_says_what_matters(specvet: Specvet, shared: Path) -> None:
    done = specvet("show", shared / "lamost/dr9/spec-55859-F5902_sp01-001.fits.gz")
    assert "3700-9097 Å, vacuum" in done.stdout
    assert "cz = -42 km/s" in done.stdout
    assert "LAMOST blue/red" in done.stdout


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "ascii:strict", "COLUMNS": "30"},
        {"NO_COLOR": "1", "TERM": "dumb"},
    ],
)
def test_text_is_printed_whatever_the_locale(specvet: Specvet, tmp_path: Path, env: dict[str, str]) -> None:
    write_star(tmp_path / "star.txt")
    for arguments in (("tasks",), ("tasks", "cv"), ("show", "star.txt"), ("show", "star.txt", "--json")):
        done = specvet(*arguments, env=env)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert done.stdout


def test_letters_that_the_terminal_lacks_are_spelt_out(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    assert "3800-9198 A," in specvet("show", "star.txt", env={"PYTHONIOENCODING": "ascii"}).stdout


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


def test_plot_draws_the_spectrum_and_its_windows(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    done = specvet("plot", "star.txt")
    assert (done.returncode, done.stderr) == (0, "")
    width, height = png_size(tmp_path / "star.png")
    assert done.stdout.startswith(f"star.png: full, 2700 points, {width} x {height} pixels, observed frame (")
    done = specvet("plot", "star.txt", "--window", "6400", "6700", "--window", "4800-5000", "--out", "z.png")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        "z-6400-6700.png: 6400-6700 Å",
        "z-4800-5000.png: 4800-5000 Å",
    ]
    assert png_size(tmp_path / "z-6400-6700.png") == (632, 392)


def test_plot_says_why_it_cannot_draw(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    for arguments, code, said in (
        (("star.txt", "--window", "1-2"), 1, "outside the available data range [3800.0, 9198.0]"),
        (("star.txt", "--window", "red"), 2, "--window red: give two wavelengths in Å, such as 6400-6700"),
        (("star.txt", "--window", "6700-6400"), 2, "the first wavelength must be above 0 and below the second"),
        (("star.txt", "--row", "3"), 2, "there is no row 3; it holds 1 spectra"),
        (("star.txt", "--frame", "best"), 2, "--frame best: choose careful, published or observed"),
        (("star.txt", "--z", "-3"), 2, "a redshift must be a finite number above -1"),
        (("star.txt", "--out", "no/star.png"), 4, "No such file or directory"),
        (("missing.txt",), 1, "missing.txt: "),
    ):
        done = specvet("plot", *arguments)
        assert done.returncode == code, arguments
        assert said in done.stderr
        assert no_traceback(done.stderr)
        assert done.stdout == ""


@pytest.mark.parametrize("text", ["6400-6700", "6400,6700", "6400:6700", "6400 6700", "6400.0 - 6.7e3", "6400–6700"])
def test_a_window_is_read_as_people_write_it(text: str) -> None:
    assert parse_window(text) == (6400.0, 6700.0)


def test_two_numbers_after_window_are_one_window() -> None:
    assert join_windows(["plot", "f", "--window", "1", "2", "3", "--z", "4", "5"]) == [
        *("plot", "f", "--window", "1-2", "3", "--z", "4", "5"),
    ]
    with pytest.raises(CommandError):
        parse_window("6400")


def test_tasks_are_listed_printed_and_dumped(specvet: Specvet, tmp_path: Path) -> None:
    listed = specvet("tasks").stdout
    for key in ("cv", "cc", "ss", "gm", "wd"):
        assert f"\n{key} " in listed
    one = specvet("tasks", "carbon star").stdout
    for heading in ("Question", "Counts", "Does not count", "Borderline", "Windows", "Guidance", "Sources"):
        assert f"\n{heading}\n" in one
    assert one.startswith("cc: carbon star\n")
    dumped = [json.loads(line) for line in specvet("tasks", "--json").stdout.splitlines()]
    assert [task["key"] for task in dumped] == ["cv", "cc", "ss", "gm", "wd"]
    (tmp_path / "mine.yaml").write_text(specvet("tasks", "--template").stdout)
    assert specvet("tasks", "mine.yaml").returncode == 0
    unknown = specvet("tasks", "quark")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no task `quark`" in unknown.stderr


def test_the_program_says_its_version_and_helps(specvet: Specvet) -> None:
    assert specvet("--version").stdout.startswith("specvet 0.")
    assert specvet().stdout == specvet("--help").stdout == specvet("-h").stdout
    vet_help = specvet("vet", "--help").stdout
    for line in ("0    spectra were vetted", "3    with --strict: a file could not be read", "130  interrupted"):
        assert line in vet_help


def test_a_wrong_command_is_two_lines_and_exit_code_2(specvet: Specvet) -> None:
    for arguments in (("vot",), ("vet",), ("vet", "x"), ("plot", "x", "--row", "a"), ("show", "--nonsense", "x")):
        done = specvet(*arguments)
        assert done.returncode == 2
        assert no_traceback(done.stderr)
        assert len(done.stderr.splitlines()) == 2


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    command = f"'{SCRIPT}' show {' '.join(['star.txt'] * 200)} --json | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_a_fault_is_two_lines_and_a_traceback_only_with_debug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import specvet.spectra
    from specvet.cli.main import main

    def broken(path: str) -> None:
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(specvet.spectra, "read", broken)
    assert main(["show", __file__]) == 1
    quiet = capsys.readouterr().err
    assert quiet.splitlines() == [
        "specvet: a fault in specvet: ZeroDivisionError: deep inside",
        "specvet: the same command with --debug says where; please report it",
    ]
    assert main(["show", __file__, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_help_of_every_command_shows_no_mark_that_only_formats_it(specvet: Specvet) -> None:
    from specvet.cli.main import app

    commands = [c.callback.__name__ for c in app.registered_commands if c.callback]
    assert {"show", "vet", "rollout", "transcript", "doctor"} <= set(commands)
    for command in commands:
        told = specvet(command, "--help")
        assert told.returncode == 0
        assert "\\b" not in told.stdout
        assert "\b" not in told.stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = ["numpy", "astropy", "matplotlib", "pyarrow", "scipy", "rich", "yaml", "PIL"]
    code = f"""
import sys
from specvet.cli.main import main
main(["--help"])
assert "pydantic" not in sys.modules
main(["vet", "--help"])  # typer itself takes pydantic for the options of a command
print([m for m in {heavy} if m in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
