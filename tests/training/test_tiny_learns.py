"""The profile `tiny` learns: SFT brings the form, GRPO the judgement, from the command line to the last checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

SCRIPT = Path(sys.executable).parent / "specvet"


def trained(folder: Path, *arguments: object) -> list[dict[str, Any]]:
    """The metrics of a run by the real script; one thread, so that sums are always taken in the same order."""
    done = subprocess.run(
        [SCRIPT, "train", *map(str, arguments), "--profile", "tiny", "--quiet"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    run = folder / str(arguments[arguments.index("--out") + 1])
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def test_imitation_brings_the_form_and_reward_the_judgement(tmp_path: Path) -> None:
    imitated = trained(tmp_path, "sft", "--out", "sft", "--epochs", 3)
    validation = [line["loss"] for line in imitated if line["kind"] == "validation"]
    assert imitated[0]["loss"] > 5.0
    assert validation[-1] < 0.03

    settings = ("--set", "grpo.max_steps=16", "--set", "grpo.save_every=0", "--no-probes")
    rewarded = trained(tmp_path, "grpo", "--out", "grpo", "--from", "sft", *settings)
    steps = [line for line in rewarded if line["kind"] == "step"]
    assert len(steps) == 16

    def mean(name: str, some: slice) -> float:
        return float(np.mean([line[name] for line in steps[some]]))

    first, last = slice(0, 4), slice(-4, None)
    assert mean("format", first) > 0.9
    assert mean("reward_mean", first) < 0.8
    assert mean("reward_mean", last) > mean("reward_mean", first) + 0.1
    assert mean("reward_mean", last) > 0.8
    assert mean("drift_mean", slice(None)) < 1e-4
    (*_, dev) = (line for line in rewarded if line["kind"] == "dev")
    assert (dev["accuracy"], dev["format"]) > (0.9, 0.9)
