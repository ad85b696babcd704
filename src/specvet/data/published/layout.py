"""The published sets: where they lie, what their files are called, and how many rows they have.

Counts are of the sets as published and of what is prepared from them; another count is told, never an error.
"""

from __future__ import annotations

import re
from types import MappingProxyType

COLDSTART = "Maxwell-Jia/Spec-o3-ColdStartSFT"
BENCH = "Maxwell-Jia/SpecVI-Bench"
"""Data sets on the Hugging Face hub."""

SHAREGPT = "train_sharegpt.json"
IMAGES = "images"
"""Of the cold start: its conversations, and the folder of their pictures."""

BENCH_FOLDER = "benchmark/data"
TASK_OF = MappingProxyType({"cv": "cv", "carbon": "cc", "cc": "cc", "ss": "ss", "gm": "gm", "wd": "wd"})
"""`data_source` of a row → key of our task."""
DATA_SOURCE_OF = MappingProxyType({"cv": "cv", "cc": "carbon", "ss": "ss", "gm": "gm", "wd": "wd"})
"""Key of our task → `data_source`."""
TASKS = ("cc", "cv", "gm", "ss", "wd")
"""In the order of the published files."""

BENCH_FILES = tuple(f"{part}_{task}.parquet" for part in ("train", "test") for task in TASKS)
"""The ten published ones, as they are called here."""

TOOL_NAME = "spectral_visualization_tool"
IMAGE_MARK = "<image>"

COLDSTART_USABLE = 942
COLDSTART_VAL_SHARE = 0.1
"""94 of 942, and 848 to learn from."""

BENCH_TRAIN = MappingProxyType({"cv": 711, "cc": 671, "ss": 706, "gm": 658, "wd": 618})
BENCH_TEST = MappingProxyType({"cv": 1458, "cc": 1321, "ss": 1442, "gm": 1321, "wd": 1212})
BENCH_DEV = MappingProxyType({"cc": 56, "cv": 50, "gm": 51, "ss": 50, "wd": 49})
"""Questions of train that are kept for development, of the published sizes; 3,108 stay."""
DEV_SHARE = 256 / 3364
"""Of other sizes."""

_FILE = re.compile(r"(?P<part>train|val|validation|test)_(?P<task>[a-z]+)\.parquet")


def part_and_task(file: str) -> tuple[str, str] | None:
    """Of `validation_carbon.parquet`: `val` and `cc`; None for the name of any other file."""
    named = _FILE.fullmatch(file)
    if named is None or named["task"] not in TASK_OF:
        return None
    return "val" if named["part"] == "validation" else named["part"], TASK_OF[named["task"]]


def task_of(file: str) -> str:
    """The key of the task that a file's name says; empty for any other file."""
    named = part_and_task(file)
    return "" if named is None else named[1]
