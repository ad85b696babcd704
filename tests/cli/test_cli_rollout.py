"""`specvet rollout` as it is typed: spectra and question files, the tiny torch model, what ends it and what it says."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_lab import SCRIPT, Specvet, write_star

from specvet.cli.main import main
from specvet.records import RunFolder
from specvet.spectra import read
from specvet.views import full_view

torch = pytest.importorskip("torch")

TINY = ["--policy", "torch", "--style", "compact", "--max-tokens", "24", "--max-turns", "2", "--dtype", "float32"]
"""The tiny random model: it says nothing of sense, in few tokens."""

TINY_REFERENCE = ["--policy", "torch", "--max-tokens", "8", "--dtype", "float32"]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for each other on a busy machine take longer than a tiny model itself."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)


@pytest.fixture
def stars(tmp_path: Path) -> list[str]:
    return [str(write_star(tmp_path / f"star{i}.txt", peak)) for i, peak in enumerate((5.0, 0.5))]


def questions(tmp_path: Path, stars: list[str], **more: Any) -> str:
    path = tmp_path / "questions.jsonl"
    lines = [
        {"id": f"q{i}", "task": "cv", "spectrum": {"path": Path(s).name}, "answer": "YES", **more}
        for i, s in enumerate(stars)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def here(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, dict[str, Any]]:
    """A command run in this process, where torch is loaded already: its exit code, and its JSON."""
    code = main(command)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_tiny_model_rolls_out_a_question_file_and_the_same_command_makes_nothing_again(
    specvet: Specvet, tmp_path: Path, stars: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["rollout", questions(tmp_path, stars), *TINY, "--group", "2", "--seed", "3", "--json", "--out"]
    done = specvet(*command, str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["this_session"]["recorded"] == 4
    assert sum(told["stops"].values()) == 4
    assert told["prefill_ratio"] <= 1.05
    used = told["usage"]
    assert used["sampled_tokens"] - used["probes.sampled_tokens"] == told["this_session"]["tokens"]["sampled"] > 0
    with RunFolder.read(tmp_path / "run") as run:
        decisions = list(run.decisions(with_trajectories=True))
        receipt = run.receipt()
        assert all((run.images.path(s["image"]["sha256"])).exists() for d in decisions for s in pictures(d.trajectory))
    assert [(d.id, d.sample) for d in sorted(decisions, key=lambda d: (d.id, d.sample))] == [
        ("q0", 0), ("q0", 1), ("q1", 0), ("q1", 1)
    ]  # fmt: skip
    assert receipt.kind == "rollout"
    assert receipt.settings["sampling.seed"] == 3
    assert receipt.settings["format"]
    assert len(str(receipt.settings["vocabulary"])) == 64
    probed = {p["name"]: p["ok"] for p in receipt.probes}
    assert probed["swap_image"] is True
    assert probed["later_image"] is True
    assert receipt.tokens_out == told["sums"]["tokens.sampled"] == told["this_session"]["tokens"]["sampled"]
    assert receipt.settings["title"] == "plain"
    code, told = here(capsys, *command, str(tmp_path / "run"))
    assert (code, told["this_session"]["recorded"], told["this_session"]["skipped"]) == (0, 0, 4)
    assert told["sums"]["trajectories"] == 4
    assert told["usage"]["requests"] == used["requests"]  # nothing was missing, so nothing was probed
    code, told = here(capsys, *command, str(tmp_path / "other"), "--no-probes", "--concurrency", "1")
    assert (code, told["this_session"]["recorded"]) == (0, 4)
    with RunFolder.read(tmp_path / "other") as run:
        same = {(d.id, d.sample): sampled(d.trajectory) for d in run.decisions(with_trajectories=True)}
    assert same == {(d.id, d.sample): sampled(d.trajectory) for d in decisions}


def pictures(trajectory: Any) -> list[dict[str, Any]]:
    return [s for s in trajectory.ledger["segments"] if "image" in s]


def sampled(trajectory: Any) -> list[list[int]]:
    return [s["sampled"] for s in trajectory.ledger["segments"] if "sampled" in s]


def test_what_is_typed_wrong_is_told_with_what_to_do(
    tmp_path: Path, stars: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = questions(tmp_path, stars)
    for arguments, says in (
        ([stars[0], *TINY], "--task is missing: say what to ask"),
        ([str(tmp_path / "gone.jsonl"), *TINY], "gone.jsonl: no such file"),
        ([str(tmp_path / "gone.parquet"), *TINY], "gone.parquet: no such file"),
        ([asked, stars[0], *TINY], "is a question file; give it alone"),
        ([asked, *TINY, "--root", str(tmp_path)], "a question file has none of them"),
        ([asked, *TINY, "--task", "wd"], "holds no question about wd"),
        ([stars[0], "--task", "cv", "--policy", "torhc"], "did you mean 'torch'?"),
        ([stars[0], "--task", "cv", "--policy", "openai"], "needs a server: --base-url"),
        ([stars[0], "--task", "cv", *TINY, "--model", str(tmp_path / "gone")], "gone"),
        ([stars[0], "--task", "cv", *TINY, "--temperature", "inf"], "--temperature inf: give a finite number"),
        ([stars[0], "--task", "cv", *TINY, "--top-p", "0"], "--top-p 0: give a number above 0"),
        ([stars[0], "--task", "cv", "--style", "reference", "--size", "small"], "only compact-1 has a size"),
        ([questions(tmp_path, stars, task="mine"), *TINY], "asks about the task 'mine', which is not built in"),
    ):
        code = main(["rollout", *arguments, "--out", str(tmp_path / "run")])
        said = capsys.readouterr().err
        assert (code, says in said, "Traceback" in said) == (2, True, False), (arguments, said)
    assert not (tmp_path / "run").exists()


def test_line_indices_can_be_rolled_out_and_needs_no_model(specvet: Specvet, tmp_path: Path, stars: list[str]) -> None:
    done = specvet(
        "rollout", *stars, str(tmp_path / "gone.fits"), "--task", "cv", "--policy", "line-indices", "--group", "2",
        "--no-images", "--out", str(tmp_path / "run"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "4 answered" in done.stdout
    assert "1 could not be read (ERROR)" in done.stdout
    assert "This session: 4 trajectories" in done.stdout
    assert "specvet transcript" in done.stdout
    with RunFolder.read(tmp_path / "run") as run:
        assert "torch" not in json.dumps(run.receipt().settings)
    page = specvet("report", str(tmp_path / "run"))
    assert page.returncode == 2
    assert "holds 2 trajectories of each question" in page.stderr
    sheet = specvet("export", str(tmp_path / "run"), "--out", "-")
    header, *rows = sheet.stdout.splitlines()
    assert header.endswith(",sample,reward")
    assert [row.rsplit(",", 2)[1:] for row in rows] == [["0", ""], ["1", ""], ["0", ""], ["1", ""], ["0", ""]]


def test_what_could_not_be_read_is_named_and_tried_again_on_request(
    tmp_path: Path, stars: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    late = tmp_path / "late.txt"
    command = ["rollout", stars[0], str(late), "--task", "cv", "--policy", "line-indices", "--no-images", "--out"]
    command.append(str(tmp_path / "run"))
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "1 could not be read (ERROR); --retry-errors tries them again:" in said
    assert f"{late}: no such file" in said
    write_star(late, 5.0)
    assert main(command) == 0
    assert "1 could not be read" in capsys.readouterr().out
    assert main([*command, "--retry-errors"]) == 0
    said = capsys.readouterr().out
    assert "could not be read" not in said
    assert "2 answered" in said


def test_a_model_is_shown_no_file_name_unless_asked_for(
    tmp_path: Path, stars: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {}
    for title, more in (("plain", []), ("file", ["--title", "file"])):
        for command in ("rollout", "vet"):
            out = str(tmp_path / f"{command}-{title}")
            wanted = [
                stars[0],
                "--task",
                "cv",
                *TINY_REFERENCE,
                *(["--max-turns", "1"] if command == "rollout" else []),
            ]
            code, _ = here(capsys, command, *wanted, *more, "--no-probes", "--json", "--out", out)
            assert code in (0, 1)
            with RunFolder.read(out) as run:
                assert run.receipt().settings["title"] == title
                (decision,) = run.decisions(with_trajectories=True)
            assert decision.trajectory is not None
            assert decision.trajectory.opening is not None
            shown[command, title] = decision.trajectory.opening.view_hash
    (spectrum,) = read(stars[0])
    for title, words in (("plain", "Spectrum"), ("file", "Spectrum: star0.txt")):
        expected = full_view(spectrum, title=words).content_hash
        assert {shown[command, title] for command in ("rollout", "vet")} == {expected}
    assert main(["rollout", stars[0], "--task", "cv", *TINY, "--title", "name"]) == 2
    assert "--title name: choose plain or file" in capsys.readouterr().err


def test_nothing_that_can_be_read_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"id": "q", "task": "cv", "spectrum": {"path": "gone.fits"}}))
    assert main(["rollout", str(path), "--policy", "line-indices", "--out", str(tmp_path / "run")]) == 1
    assert "1 could not be read" in capsys.readouterr().out


def test_a_run_of_another_kind_or_made_otherwise_is_refused(
    tmp_path: Path, stars: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, asked = str(tmp_path / "run"), [stars[0], "--task", "cv", "--quiet"]
    assert main(["vet", *asked, "--policy", "line-indices", "--out", out]) == 0
    measured = ["rollout", *asked, "--policy", "line-indices", "--no-images", "--out"]
    assert main([*measured, out]) == 4
    assert "this is a run of kind 'vet', not 'rollout'" in capsys.readouterr().err
    assert main([*measured, str(tmp_path / "other")]) == 0
    assert main([*measured, str(tmp_path / "other"), "--max-turns", "4"]) == 2
    assert "budget.max_turns = 8, but now budget.max_turns = 4" in capsys.readouterr().err


def test_ctrl_c_finishes_what_is_under_way_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [str(write_star(tmp_path / f"many{i:02d}.txt", 1 + i / 10)) for i in range(12)]
    command = ["rollout", *many, "--task", "cv", *TINY, "--concurrency", "1", "--no-probes", "--out"]
    out = tmp_path / "run"
    with subprocess.Popen(
        [SCRIPT, *command, out], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        while not decided(out) and process.poll() is None:
            time.sleep(0.05)  # waits for another process; nothing tells otherwise
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "finishing the trajectories under way" in errors
    assert "To go on: specvet rollout" in errors
    kept = decided(out)
    assert 1 <= kept < 12
    code, told = here(capsys, *command, str(out), "--json")
    assert (code, told["this_session"]["recorded"]) == (0, 12 - kept)
    assert decided(out) == 12


def decided(out: Path) -> int:
    if not (out / "config.yaml").exists():
        return 0
    with RunFolder.read(out) as run:
        return sum(n for answers in run.count().values() for n in answers.values())


def test_vet_takes_a_model_too_and_says_what_it_was(
    tmp_path: Path, stars: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    tiny = ["--policy", "torch", "--dtype", "float32", "--style", "compact", "--no-probes", "--max-tokens", "24"]
    code, told = here(capsys, "vet", stars[0], "--task", "cv", *tiny, "--images", "--json", "--out", str(out))
    assert code in (0, 1)  # whether the tiny model answers is its own affair
    assert told["this_session"]["decided"] == 1
    with RunFolder.read(out) as run:
        (decision,) = run.decisions(with_trajectories=True)
        receipt = run.receipt()
        settings = receipt.settings
    assert decision.trajectory is not None
    assert decision.trajectory.tokens is not None
    assert receipt.tokens_out == receipt.usage["sampled_tokens"] == decision.trajectory.tokens.sampled > 0
    assert receipt.tokens_in == receipt.usage["prompt_tokens"] == decision.trajectory.tokens.prompt
    assert decision.trajectory.ledger is not None
    assert decision.trajectory.opening is not None
    assert decision.trajectory.opening.image is not None
    assert (settings["policy"], settings["sampling.temperature"], settings["budget.turn_tokens"]) == ("torch", 0.0, 24)
    assert main(["report", str(out)]) == 0
    assert main(["export", str(out), "--out", str(tmp_path / "t.csv")]) == 0


@pytest.mark.parametrize("command", ["vet", "rollout"])
def test_a_runs_rows_and_citation_name_the_model_by_its_folder_and_the_hash_of_its_files(
    tmp_path: Path, stars: list[str], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    from specvet.policies.identity import model_identity
    from specvet.policies.torch.tiny import save_tiny

    save_tiny(tmp_path / "MODEL", "qwen2_5_vl", 0)
    told = model_identity("torch", str(tmp_path / "MODEL"))
    run, table = str(tmp_path / "run"), tmp_path / "t.csv"
    asked = ["--task", "cv", "--policy", "torch", "--model", str(tmp_path / "MODEL"), "--max-tokens", "8", "--quiet"]
    assert main([command, stars[0], *asked, "--device", "cpu", "--no-probes", "--out", run]) in (0, 1)
    assert main(["export", run, "--out", str(table)]) == 0
    with table.open(encoding="utf-8", newline="") as f:
        [row] = csv.DictReader(f)
    assert (row["model"], row["model_hash"]) == ("MODEL", told["sha256"][:12])
    capsys.readouterr()
    assert main(["cite", run]) == 0
    said = capsys.readouterr().out
    assert f"the vision-language model MODEL (SHA-256 of its weights {told['sha256'][:12]}…)" in said
    assert f"howpublished = {{Weights, SHA-256 {told['sha256']}}}" in said
    assert str(tmp_path) not in said
