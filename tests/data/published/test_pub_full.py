"""The counts of the published sets, on generated ones of their full size with short arrays."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from published_lab import lines_of, picture, write_conversations, write_set

from specvet.data.published.bench import prepare_bench
from specvet.data.published.coldstart import prepare_coldstart
from specvet.data.published.layout import BENCH_DEV, BENCH_TEST, BENCH_TRAIN, COLDSTART_USABLE


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory, where the system has such a place: 24,000 small files cost most disks more than all the rest."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as made:
        yield Path(made)


def test_the_published_sizes_give_the_published_counts(folder: Path) -> None:
    rows = sum(BENCH_TRAIN.values())
    write_conversations(folder / "coldstart", COLDSTART_USABLE, step=rows / COLDSTART_USABLE, most=3)
    write_set(folder / "bench", {"train": BENCH_TRAIN, "test": BENCH_TEST}, n_pix=8, shared=("test",), image=picture(0))
    sft = prepare_coldstart(folder / "coldstart", folder).stats
    bench = prepare_bench(folder / "bench", folder).stats
    assert (sft["train"], sft["val"], sft["objects_on_both_sides"]) == (848, 94, 0)
    assert (bench["rl_train"], bench["dev"], bench["test"]) == (3108, 256, 6754)
    assert bench["by_task"]["dev"] == dict(BENCH_DEV) == {"cc": 56, "cv": 50, "gm": 51, "ss": 50, "wd": 49}
    assert bench["by_task"]["test"] == dict(BENCH_TEST)
    assert (bench["dev_missing"], bench["dev_in_cold_start"], bench["rejects"]) == (0, 0, {})
    found = {part: lines_of(folder / "rl" / f"bench_{part}.jsonl") for part in ("rl_train", "dev", "test")}
    assert {part: len(questions) for part, questions in found.items()} == {"rl_train": 3108, "dev": 256, "test": 6754}
    seen = {d["name"] for part in ("train", "val") for d in lines_of(folder / "sft" / f"sft_{part}.jsonl")}
    assert len(seen) == 942
    assert not {q["name"] for q in found["dev"]} & seen
    assert not {q["object_id"] for q in found["dev"]} & {q["object_id"] for q in found["rl_train"]}
    yes = Counter(q["task"] for q in found["dev"] if q["answer"] == "YES")
    assert all(abs(yes[task] - n / 3) < 1 for task, n in BENCH_DEV.items())
    spectra = rows + max(BENCH_TEST.values())
    assert len(os.listdir(folder / "rl" / "spectra")) == len(os.listdir(folder / "rl" / "images")) == spectra
    assert not prepare_bench(folder / "bench", folder).made
