"""`specvet data realvi`: from a folder of labelled spectra to a finished run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_lab import Specvet


@pytest.fixture
def real(tmp_path: Path) -> Path:
    folder = tmp_path / "real"
    folder.mkdir()
    w = np.linspace(3700.0, 9000.0, 3000)
    line = 8.0 * np.exp(-0.5 * ((w - 6563) / 18) ** 2) + 5.0 * np.exp(-0.5 * ((w - 4861) / 14) ** 2)
    noise = np.random.default_rng(0).normal(0, 0.03, (2, w.size))
    np.savetxt(folder / "nova.txt", np.column_stack([w, 1 + line + noise[0]]))
    np.savetxt(folder / "star.txt", np.column_stack([w, 1 + noise[1]]))
    (folder / "manifest.csv").write_text("path,class_label\nnova.txt,CV\nstar.txt,G star\n", encoding="utf-8")
    (folder / "labels.csv").write_text("path,cv,gm\nnova.txt,YES,NO\nstar.txt,NO,\n", encoding="utf-8")
    return folder


def test_a_labelled_folder_becomes_questions_that_a_policy_answers(specvet: Specvet, real: Path) -> None:
    made = specvet("data", "realvi", "--spectra", real, "--out", "vi")
    assert made.returncode == 0, made.stderr
    assert "3 questions in vi" in made.stdout
    lines = [line.split() for line in made.stdout.splitlines()]
    assert ["layout", "split", "cv", "gm"] in [
        [w for w in line if w in ("layout", "split", "cv", "gm")] for line in lines
    ]
    done = specvet("rollout", "vi/realvi.jsonl", "--policy", "line-indices", "--out", "run", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["answers"]["cv"] == {"YES": 1, "NO": 1}
    assert told["stops"]["answered"] >= 2


def test_harmonised_counts_come_as_json_and_a_second_call_does_nothing(specvet: Specvet, real: Path) -> None:
    first = specvet("data", "realvi", "--spectra", real, "--out", "vi", "--harmonise", "--json")
    assert first.returncode == 0, first.stderr
    stats = json.loads(first.stdout)
    assert stats["questions"] == 3
    assert stats["left_out"] == {}
    again = specvet("data", "realvi", "--spectra", real, "--out", "vi", "--harmonise", "--json", "--quiet")
    assert json.loads(again.stdout) == stats


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--spectra", "nowhere", "--out", "vi"), 2, "nowhere: has no manifest.csv; give a folder with one"),
        (("--spectra", "real", "--out", "vi", "--copy", "--harmonise"), 2, "--copy and --harmonise: choose one"),
        (("--spectra", "real", "--out", "real"), 4, "real: holds something else than what is to be made there"),
    ],
)
def test_what_cannot_be_made_is_said(
    specvet: Specvet, real: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    done = specvet("data", "realvi", *options)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
