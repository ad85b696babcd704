"""Several servers of one model: `rollout` and `eval run` spread requests over all, and survive one that is gone."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import campaign_lab as lab
import pytest
from made import write_questions
from openai_lab import LoopbackServer

from specvet.cli.main import main
from specvet.evaluation.plan import read_campaign


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with questions in it."""
    write_questions(tmp_path / "input")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gone() -> str:
    """An address at which nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{s.getsockname()[1]}/v1"


ROLLOUT = ["rollout", "input/questions.jsonl", "--task", "cv", "--limit", "8", "--policy", "openai", "--model", "tiny"]
ROLLOUT += ["--style", "compact", "--no-probes", "--no-images", "--quiet", "--concurrency", "4"]


def rolled_out(out: str, *urls: str) -> dict[tuple[str, int], str]:
    """Answers by question and sample."""
    from specvet.records import RunFolder

    code = main([*ROLLOUT, "--out", out, *(part for url in urls for part in ("--base-url", url))])
    assert code == 0
    with RunFolder.read(out) as run:
        assert run.config["base_url"] == list(urls)
        return {(d.file, d.row): str(d.verdict.answer) for d in run.decisions()}


def test_a_rollout_is_spread_over_its_servers_and_says_what_one_alone_says(place: Path) -> None:
    with LoopbackServer(lab.replies) as a, LoopbackServer(lab.replies) as b:
        spread = rolled_out("SPREAD", a.url, b.url)
        counts = [len(server.posts) for server in (a, b)]
        assert min(counts) >= 1
        alone = rolled_out("ALONE", a.url)
        assert len(a.posts) - counts[0] == sum(counts)
        survived = rolled_out("SURVIVED", gone(), b.url)
    assert spread == alone == survived
    assert len(spread) == 8


def test_eval_run_is_spread_over_its_servers_and_its_cell_is_that_of_one_server(place: Path) -> None:
    command = ["input/questions.jsonl", "--task", "cv", "--limit", 8, "--policy", "openai", "--model", "tiny"]
    command += ["--name", "t", "--style", "compact", "--concurrency", 4]
    with LoopbackServer(lab.replies) as a, LoopbackServer(lab.replies) as b:
        assert lab.run(*command, "--base-url", a.url, "--base-url", b.url, "--out", "E") == 0
        assert min(len(server.posts) for server in (a, b)) >= 1
        (cell,) = (place / "E" / "cells").iterdir()
        assert json.loads((place / "E" / "policies" / "t.json").read_text())["base_url"] == [a.url, b.url]
        assert read_campaign(place / "E" / "campaign.yaml").policies["t"].base_url == (a.url, b.url)
        before = len(a.posts) + len(b.posts)
        assert lab.run(*command, "--base-url", a.url, "--out", "E") == 0  # it may move: the cell is there
        assert len(a.posts) + len(b.posts) == before
        assert lab.run(*command, "--base-url", a.url, "--out", "ALONE") == 0
    (alone,) = (place / "ALONE" / "cells").iterdir()
    assert alone.name == cell.name
    assert lab.rows(alone) == lab.rows(cell)


def test_a_campaign_file_names_several_servers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(lab.replies) as a, LoopbackServer(lab.replies) as b:
        lab.write_campaign(place, {"good": f'policy: openai, model: good, base_url: ["{a.url}", "{b.url}"]'})
        assert lab.run("c.yaml", "--out", "E") == 0
        assert min(len(server.posts) for server in (a, b)) >= 1
    for told, says in (
        ('policy: openai, model: m, base_url: ["http://a/v1", "http://me:key@b/v1"]', "names a user or a password"),
        ('policy: trio, model: m, base_url: ["http://a/v1", "http://b/v1"]', "only an openai policy is spread"),
    ):
        lab.write_campaign(place, {"bad": told})
        assert lab.run("c.yaml", "--out", "F") == 2
        assert says in capsys.readouterr().err


def test_only_an_openai_policy_takes_several_addresses(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = ["--base-url", "http://a/v1", "--base-url", "http://b/v1"]
    asked = ["--policy", "trio", "--model", "m", *two, "--out", "R"]
    assert main(["rollout", "input/questions.jsonl", *asked]) == 2
    assert "only the policy openai is spread over several servers" in capsys.readouterr().err
    assert main(["eval", "run", "input/questions.jsonl", *asked]) == 2
    assert "only an openai policy is spread over several servers" in capsys.readouterr().err
