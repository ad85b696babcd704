"""Campaigns over real HTTP: what fails counts as wrong and blocks nobody, and what alters rows begins a new cell."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import campaign_lab as lab
import numpy as np
import pytest
from made import write_questions
from openai_lab import LoopbackServer, error

from specvet.cli.main import main as specvet
from specvet.tasks import ANSWER_FORM


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with questions in it."""
    write_questions(tmp_path / "input")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def refusing(n: Callable[[], int]) -> Callable[[Any], Any]:
    """A server that will never answer some questions: those whose opening's seed ends so."""

    def script(asked: Any) -> Any:
        return error(400, "this one I cannot") if asked.body["seed"] % 3 < n() else lab.replies(asked)

    return script


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def test_questions_that_a_server_refuses_are_wrong_stay_in_the_denominator_and_block_nobody(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [1]
    with LoopbackServer(refusing(lambda: refused[0])) as some, LoopbackServer(lab.replies) as all_of_them:
        lab.write_campaign(place, {"some": some.url, "good": all_of_them.url})
        assert lab.run("c.yaml", "--out", "E") == 0
        cells = lab.cells(place / "E")
        assert list(cells) == ["good--q--s42", "some--q--s42"]
        good, made = (lab.rows(cell) for cell in cells.values())
        told = lab.numbers(cells["some--q--s42"])
        failed = [id for _, id, _, record in made if record["stop"] == "policy_error"]
        assert 0 < len(failed) < 8
        assert told["questions"] == told["headline"]["correct"]["n"] == told["tasks"]["cv"]["n"] == 8
        assert told["machinery"] == told["stops"]["policy_error"] == len(failed)
        right = sum(d["verdict"]["answer"] == r["question"]["answer"] for _, id, d, r in made if id not in failed)
        assert told["headline"]["correct"]["k"] == right
        assert lab.numbers(cells["good--q--s42"])["machinery"] == 0
        answers = [(row[1], row[2]["verdict"]) for row in made if row[1] not in failed]
        assert answers == [(row[1], row[2]["verdict"]) for row in good if row[1] not in failed]

        asked, sealed = (len(some.posts), len(all_of_them.posts)), files(place / "E" / "cells")
        assert lab.run("c.yaml", "--out", "E") == 0
        assert (len(some.posts), len(all_of_them.posts)) == asked  # nothing is asked again …
        assert files(place / "E" / "cells") == sealed

        refused[0] = 0
        monkeypatch.chdir(place / "input")  # wherever that is said
        assert lab.run("../c.yaml", "--out", "../E", "--retry") == 0  # … unless it shall be, and then only what failed
        assert len(all_of_them.posts) == asked[1]
        now = lab.rows(cells["some--q--s42"])
        assert [row for row in now if row[1] not in failed] == [row for row in made if row[1] not in failed]
        assert all(row[3]["stop"] == "answered" for row in now)
        turns = sum(len(row[3]["turns"]) for row in now if row[1] in failed)
        assert len(some.posts) == asked[0] + turns
        assert lab.numbers(cells["some--q--s42"])["machinery"] == 0
        assert specvet(["eval", "verify", "../E", "--inputs", "skip"]) == 0


def test_a_server_that_is_of_no_use_ends_its_own_cells_and_not_the_others(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = [3]

    def dying(asked: Any) -> Any:
        left[0] -= 1
        return lab.replies(asked) if left[0] >= 0 else error(401, "no key")

    with LoopbackServer(dying) as bad, LoopbackServer(lab.replies) as good:
        lab.write_campaign(place, {"bad": bad.url, "good": good.url, "lines": "policy: line-indices"})
        assert lab.run("c.yaml", "--out", "E") == 1
        said = capsys.readouterr().err
        assert "bad on q (8 questions), seed 42: not completed:" in said
        assert "no key" in said
        cells = lab.cells(place / "E")
        sealed = {name for name, cell in cells.items() if (cell / "cell.json").is_file()}
        assert sealed == {"good--q--s42", "lines--q--any-seed"}
        assert sealed == {name.rpartition("--")[0] for name in manifest(place / "E")["current"]}
        assert specvet(["eval", "status", "E", "--fail-if-incomplete", "--json"]) != 0
        status = capsys.readouterr().out
        assert json.loads(status)
        others = files(cells["good--q--s42"])
        left[0] = 1 << 30
        assert lab.run("c.yaml", "--out", "E") == 0
        assert files(cells["good--q--s42"]) == others
        assert specvet(["eval", "status", "E", "--fail-if-incomplete"]) == 0
    with LoopbackServer(lab.replies) as whole:
        lab.write_campaign(place, {"bad": whole.url})
        assert lab.run("c.yaml", "--out", "whole") == 0
    assert lab.rows(lab.cells(place / "whole")["bad--q--s42"]) == lab.rows(cells["bad--q--s42"])


def test_another_setting_begins_a_new_cell_and_the_old_one_stays_to_the_last_bit(place: Path) -> None:
    with LoopbackServer(lab.replies) as server:
        lab.write_campaign(place, {"good": server.url})
        assert lab.run("c.yaml", "--out", "E") == 0
        (first,) = (place / "E" / "cells").iterdir()
        kept, asked = files(first), len(server.posts)
        assert lab.run("c.yaml", "--out", "E", "--concurrency", 5, "--images", "--device", "cpu") == 0  # all harmless
        assert list((place / "E" / "cells").iterdir()) == [first]
        assert (files(first), len(server.posts)) == (kept, asked)
        changes = (("--temperature", 0.7), ("--max-turns", 3), ("--format-reminder",), ("--seed", 7))
        for n, more in enumerate(changes, 2):
            asked = len(server.posts)
            assert lab.run("c.yaml", "--out", "E", *more) == 0
            cells = sorted((place / "E" / "cells").iterdir())
            assert len(cells) == n
            assert len(manifest(place / "E")["current"]) == 1
            assert first.name not in manifest(place / "E")["current"]
            assert files(first) == kept
            said = json.dumps(server.posts[asked].body["messages"])
            assert said.count(json.dumps(ANSWER_FORM)[1:-1]) == 1 + ("--format-reminder" in more)
        asked = len(server.posts)
        assert lab.run("c.yaml", "--out", "E") == 0  # and back: nothing is made, the first one counts again
        assert manifest(place / "E")["current"] == [first.name]
        assert len(list((place / "E" / "cells").iterdir())) == 5
        assert len(server.posts) == asked


def test_a_matched_budget_gives_every_policy_the_largest_and_begins_new_cells(place: Path) -> None:
    with LoopbackServer(lab.replies) as server:
        small = f'policy: openai, model: small, base_url: "{server.url}", settings: {{max_turns: 1, max_tokens: 100}}'
        lab.write_campaign(place, {"small": small, "good": server.url})
        assert lab.run("c.yaml", "--out", "E") == 0
        assert lab.run("c.yaml", "--out", "E", "--matched-budget") == 0
    told = {}
    for cell in (place / "E" / "cells").iterdir():
        record = json.loads((cell / "cell.json").read_text())
        told[record["policy"], record["settings"]["max_turns"]] = lab.numbers(cell)
    assert set(told) == {("small", 1), ("small", 8), ("good", 8)}  # that of good was the largest before
    assert told["small", 1]["turns"]["max"] == 1
    assert told["small", 1]["stops"]["max_turns"] > 0
    assert told["small", 8]["stops"] == {"answered": 8}
    assert told["small", 8]["headline"] == told["good", 8]["headline"]


def test_print_config_resolves_everything_and_touches_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = "sets:\n  gone: {path: gone/questions.jsonl}\n  sim: {recipe: {simvi: full, part: val}}\n"
    policies = {"far": "http://192.0.2.1:9/v1", "hub": "policy: torch, model: owner/model"}
    policies["lines"] = "policy: line-indices"
    lab.write_campaign(place, policies, "seeds: [42, 43]\nsettings: {temperature: 0.25, style: compact}\n", sets)
    before = files(place)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setenv("HOME", str(place / "home"))
    for out in ((), ("--out", "E")):
        assert lab.run("c.yaml", *out, "--print-config", "--max-turns", 5) == 0
    said = capsys.readouterr().out
    assert files(place) == before
    assert not (place / "E").exists()
    assert not (place / "runs").exists()
    assert "temperature: 0.25" in said
    assert "max_turns: 5" in said
    assert "10 cells; nothing was read, made or asked" in said  # (2 seeds × 2 models + 1) × 2 sets
    assert lab.run("input/questions.jsonl", "--policy", "line-indices", "--print-config") == 0
    assert files(place) == before


def test_spectra_that_cannot_be_read_are_wrong_and_are_tried_again_when_that_is_wanted(place: Path) -> None:
    wavelength = np.arange(4000.0, 8000.0, 4.0)
    spectrum = np.column_stack([wavelength, 10 + np.sin(wavelength / 40)])
    np.savetxt(place / "input" / "good.txt", spectrum, fmt="%.4f")
    (place / "input" / "bad.fits").write_bytes(b"SIMPLE  = no FITS file")
    names = ["good.txt", "gone.txt", "bad.fits", "good.txt"]
    lines = [
        {"id": f"{key}-{i}", "task": key, "spectrum": {"path": name}, "answer": "NO"}
        for i, name in enumerate(names[:3])
        for key in ("cv", "wd")
    ]
    (place / "input" / "questions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with LoopbackServer(lab.replies) as server:
        sets = "sets:\n  q: {path: input/questions.jsonl}\n"
        lab.write_campaign(place, {"good": server.url, "lines": "policy: line-indices"}, sets=sets)
        assert lab.run("c.yaml", "--out", "E") == 0
        for cell in lab.cells(place / "E").values():
            told = lab.numbers(cell)
            assert (told["questions"], told["machinery"], told["answers"]["ERROR"]) == (6, 4, 4)
            assert told["stops"]["unreadable"] == 4
            assert told["headline"]["correct"]["n"] == 6
            stops = {id: None if record is None else record["stop"] for _, id, _, record in lab.rows(cell)}
            assert [id for id, stop in stops.items() if stop is None] == ["cv-1", "wd-1", "cv-2", "wd-2"]
        assert specvet(["eval", "verify", "E", "--inputs", "skip"]) == 0
        np.savetxt(place / "input" / "gone.txt", spectrum, fmt="%.4f")
        assert lab.run("c.yaml", "--out", "E", "--retry") == 0
        for cell in lab.cells(place / "E").values():
            assert lab.numbers(cell)["stops"]["unreadable"] == 2
        assert specvet(["eval", "verify", "E", "--inputs", "skip"]) == 0


def test_another_rule_or_other_facts_make_the_numbers_again_and_ask_nothing(place: Path) -> None:
    with LoopbackServer(lab.replies) as server:
        file = lab.write_campaign(place, {"good": server.url})
        assert lab.run(file, "--out", "E") == 0
        (cell,) = (place / "E" / "cells").iterdir()
        kept, asked, first = (cell / "rows.parquet").read_bytes(), len(server.posts), lab.numbers(cell)
        assert "stars of the old kind" not in json.dumps(first["confusers"])
        facts = place / "input" / "facts.csv"
        facts.write_text(facts.read_text().replace("carbon star", "stars of the old kind"))
        file.write_text(file.read_text() + "rule: lenient\n")
        assert lab.run(file, "--out", "E") == 0
        assert len(server.posts) == asked
        told = lab.numbers(cell)
        assert told["rule"] == json.loads((place / "E" / "metrics.json").read_text())["rule"] == "lenient/1"
        assert "stars of the old kind" in json.dumps(told["confusers"])
        assert specvet(["eval", "verify", "E", "--inputs", "skip"]) == 0
        # What it was rescored with is made again beside it, and what is its own rule now stands in metrics.json alone.
        assert specvet(["eval", "rescore", "E", "--rule", "strict"]) == 0
        assert lab.run(file, "--out", "E", "--seed", 42, "--seed", 7) == 0
        assert len(list((place / "E" / "cells").glob("*/metrics.strict-1.json"))) == 2
        file.write_text(file.read_text().replace("rule: lenient", "rule: strict"))
        assert lab.run(file, "--out", "E") == 0
        assert [p.name for p in cell.glob("metrics*")] == ["metrics.json"]
        assert {**lab.numbers(cell), "confusers": {}} == {**first, "confusers": {}}
        assert specvet(["eval", "verify", "E", "--inputs", "skip"]) == 0
        assert (cell / "rows.parquet").read_bytes() == kept


def test_a_damaged_record_is_named_and_a_cell_without_it_is_sealed_again_from_its_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackServer(lab.replies) as server:
        file = lab.write_campaign(place, {"good": server.url})
        assert lab.run(file, "--out", "E") == 0
        (cell,) = (place / "E" / "cells").iterdir()
        made, asked = (lab.rows(cell), lab.numbers(cell)), len(server.posts)
        for damaged in (cell / "cell.json", place / "E" / "policies" / "good.json", place / "E" / "sets" / "q.json"):
            kept = damaged.read_bytes()
            damaged.write_bytes(kept[:99])
            assert lab.run(file, "--out", "E") == 2
            assert f"{damaged.relative_to(place)}: is damaged (" in capsys.readouterr().err
            damaged.write_bytes(kept)
        (cell / "rows.parquet").write_bytes(b"damaged")
        assert lab.run(file, "--out", "E") == 2
        assert "rows.parquet: is damaged: it is not the file that was sealed" in capsys.readouterr().err
        assert specvet(["eval", "verify", "E", "--inputs", "skip"]) == 1
        (cell / "cell.json").unlink()
        assert lab.run(file, "--out", "E") == 0
        assert (lab.rows(cell), lab.numbers(cell), len(server.posts)) == (*made, asked)
        assert specvet(["eval", "verify", "E", "--inputs", "skip"]) == 0
