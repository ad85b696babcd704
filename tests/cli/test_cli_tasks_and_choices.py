"""Choosing tasks on the command line, and checking one's own before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_lab import Specvet

from specvet.tasks import template_text


@pytest.fixture
def spectrum(tmp_path: Path) -> Path:
    w = np.linspace(3800.0, 9000.0, 2600)
    file = tmp_path / "star.txt"
    np.savetxt(file, np.column_stack([w, 1 + 0.01 * np.sin(w)]))
    return file


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        (["--task", "cv", "--task", "gm"], ["cv", "gm"]),
        (["--task", "White Dwarf,cv", "--task", "cv"], ["wd", "cv"]),
        (["--task", "all"], ["cv", "cc", "ss", "gm", "wd"]),
    ],
)
def test_tasks_add_up(specvet: Specvet, spectrum: Path, asked: list[str], keys: list[str]) -> None:
    done = specvet("vet", spectrum, *asked, "--policy", "line-indices", "--out", "run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tasks"] == keys


def test_the_built_in_indices_are_listed(specvet: Specvet) -> None:
    rows = [json.loads(line) for line in specvet("tasks", "--indices", "--json").stdout.splitlines()]
    by_name = {row["index"]: row for row in rows}
    assert by_name["ha"]["unit"] == "Å"
    assert by_name["cah_excess"]["how"] == "cah2 + cah3 - 0.82 - 1.19 * tio5"
    assert by_name["tio5"]["how"] == "7127.96-7136.97 over 7043.94-7047.94 (vacuum)"


@pytest.mark.parametrize("command", ["tasks", "vet"])
def test_an_index_that_does_not_exist_is_told_before_anything_is_read(
    specvet: Specvet, spectrum: Path, tmp_path: Path, command: str
) -> None:
    wrong = template_text().replace("  - index: li6708_ew", "  - index: li6708_eww", 1)
    assert wrong != template_text()
    (tmp_path / "mine.yaml").write_text(wrong, encoding="utf-8")
    done = (
        specvet("tasks", "mine.yaml")
        if command == "tasks"
        else specvet("vet", spectrum, "--task", "mine.yaml", "--policy", "line-indices", "--out", "run")
    )
    assert done.returncode == 2
    assert "evidence[0].index: there is no index `li6708_eww`; did you mean `li6708_ew`" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
