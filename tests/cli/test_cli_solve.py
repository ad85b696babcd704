"""`specvet solve`: one problem, from a file or standard input, and its transcript."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "policies"))
from cli_lab import Specvet
from openai_lab import Asked, LoopbackServer, Said, completion, error
from PIL import Image as Pillow

from specvet.cli.main import main

pytest.importorskip("sympy", reason="specvet[physics] brings SymPy")

STONE = {
    "problem": "A stone falls 5 m; g is 9.81 m/s^2. How fast is it?",
    "gold": {"kind": "numeric", "value": 9.905, "unit": "m/s"},
}
CALL = "By energy <tool>sympy: N(sqrt(2*9.81*5), 4)"
"""As a server gives it that leaves stop texts out."""
ANSWER = " so <answer>\\boxed{9.905\\,\\mathrm{m/s}}"


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    file = tmp_path / "stone.json"
    file.write_text(json.dumps(STONE))
    return file


def run(server: LoopbackServer, problem: object, *more: object) -> int:
    return main(["solve", str(problem), "--policy", "openai", "--base-url", server.url, *map(str, more)])


def test_the_transcript_says_who_wrote_what(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(completion(CALL), completion(ANSWER)) as server:
        assert run(server, problem) == 0
        posts = [asked.body for asked in server.posts]
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "model   By energy <tool>sympy: N(sqrt(2*9.81*5), 4)</tool>",
        "tool    <tool_result>9.905</tool_result>",
        "model    so <answer>\\boxed{9.905\\,\\mathrm{m/s}}</answer>",
        "answer: \\boxed{9.905\\,\\mathrm{m/s}} · right (within_tolerance) · 1 call, 6 tokens sampled",
    ]
    first, second = posts
    assert first["stop"] == ["</tool>", "</answer>"]
    assert "continue_final_message" not in first
    assert "At most 6 calls" in first["messages"][0]["content"]
    assert second["messages"][-1] == {
        "role": "assistant",
        "content": f"{CALL}</tool><tool_result>9.905</tool_result>",
    }
    assert (second["continue_final_message"], second["add_generation_prompt"]) == (True, False)


def test_json_gives_the_attempt_its_ledger_and_the_decision(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(completion(CALL), completion(" so \\boxed{9 m/s}")) as server:
        assert run(server, problem, "--json") == 0
    (told,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert [s["kind"] for s in told["segments"]] == ["model", "tool", "model"]
    assert told["segments"][1]["call"] == {"name": "sympy", "argument": "N(sqrt(2*9.81*5), 4)"}
    assert told["segments"][1]["result"] == {"status": "ok", "text": "9.905"}
    assert (told["stop"], told["route"]) == ("answered", "box")
    assert told["matched"]["right"] is False
    assert [s["role"] for s in told["ledger"]["segments"]] == ["system", "user", "assistant", "tool", "assistant"]


def test_results_that_the_model_makes_up_are_cut_and_end_the_attempt(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up = "It is <tool_result>9</tool_result> <answer>\\boxed{9}"
    with LoopbackServer(completion(made_up)) as server:
        assert run(server, problem) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "model   It is "
    assert "harness [Only the tool writes results." in out
    assert "<tool_result>" not in out
    assert "no answer: fabricated_result" in out
    assert "2 made up by the model" in out


def test_a_problem_comes_from_standard_input_and_needs_no_gold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"problem": "2 + 2?"})))
    with LoopbackServer(completion("<answer>4")) as server:
        assert run(server, "-", "--calls", 0) == 0
        assert "tool" not in server.posts[0].body["messages"][0]["content"]
    assert capsys.readouterr().out.splitlines()[-1] == "answer: 4 · 0 calls, 3 tokens sampled"


def test_pictures_lie_beside_the_problem_and_come_as_png(tmp_path: Path) -> None:
    Pillow.new("RGB", (40, 30), "red").save(tmp_path / "stone.jpg")
    file = tmp_path / "p.json"
    file.write_text(json.dumps(STONE | {"images": ["stone.jpg"]}))
    seen: list[Any] = []

    def answer(asked: Asked) -> Said:
        seen.append(asked.body["messages"][1]["content"])
        return completion("<answer>1")

    with LoopbackServer(answer) as server:
        assert run(server, file) == 0
    assert [part["type"] for part in seen[0]] == ["image_url", "text"]
    assert seen[0][0]["image_url"]["url"].startswith("data:image/png;base64,")


def test_what_a_model_writes_cannot_act_on_the_terminal(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(completion("\x1b[2J <answer>\x1b]0;x\x07")) as server:
        assert run(server, problem) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2J" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "no JSON"),
        ("[]", "a list"),
        ("{}", "problem"),
        (json.dumps(STONE | {"gold": {"kind": "numeric", "value": None}}), "finite number"),
        (json.dumps(STONE | {"images": ["missing.png"]}), "missing.png"),
    ],
)
def test_a_problem_that_is_none_is_a_usage_error_that_says_where(
    tmp_path: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.json"
    file.write_text(text)
    assert main(["solve", str(file)]) == 2
    assert told in capsys.readouterr().err


def test_a_policy_that_measures_and_a_file_that_is_missing_are_usage_errors(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", str(problem), "--policy", "line-indices"]) == 2
    assert main(["solve", str(problem.with_name("none.json"))]) == 2
    assert "none.json" in capsys.readouterr().err


def test_a_server_that_refuses_ends_without_a_traceback(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(completion(CALL), error(400, "continue_final_message is not known")) as server:
        assert run(server, problem) == 1
    assert "policy_error" in capsys.readouterr().out


def test_the_script_solves_with_a_tiny_random_model(specvet: Specvet, problem: Path) -> None:
    pytest.importorskip("torch")
    done = specvet("solve", problem, "--json", "--n", 2, "--max-tokens", 20, "--temperature", 1)
    assert "random weights" in done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [t["sample"] for t in told] == [0, 1]
    assert all(t["ledger"]["kind"] == "tokens" for t in told)
    assert done.returncode == (0 if any(t["answer"] for t in told) else 1)
