"""Miniatures of the published sets, written with the package's own writer, and what tests ask of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from specvet.chat import Image, Message, ToolCall
from specvet.chat.messages import assistant, system, tool, user
from specvet.data.published.layout import DATA_SOURCE_OF
from specvet.data.published.writing import BenchRow, ColdStartRow, write_bench, write_coldstart
from specvet.views.png import encode_png

TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "spectral_visualization_tool",
        "description": "A tool for visualizing spectral data with wavelength range zooming capabilities.",
        "parameters": {
            "type": "object",
            "properties": {"wavelength_range": {"type": "array", "items": {"type": "number"}}},
            "required": ["wavelength_range"],
        },
    },
}
SYSTEM = "You are a helpful assistant."
QUESTIONS = {
    "cv": "Is this a cataclysmic variable?",
    "cc": "Is this a carbon star?",
    "ss": "Is this an S-type star?",
    "gm": "Is this an M-type giant?",
    "wd": "Is this a white dwarf?",
}
TRAIN = {"cv": 26, "cc": 27, "ss": 26, "gm": 26, "wd": 26}
TEST = {"cv": 4, "cc": 5, "ss": 4, "gm": 4, "wd": 4}


@cache
def picture(number: int) -> bytes:
    """A small PNG, each number its own."""
    pixels = np.full((28, 56, 3), 255, dtype=np.uint8)
    pixels[0, 0] = (number % 251, number // 251 % 251, number // 63001 % 251)
    return encode_png(pixels)


def name_of(number: int) -> str:
    return f"spec-5{number // 100:04d}-KP061029N225952V01_sp{number % 16 + 1:02d}-{number % 250:03d}.fits.gz"


@cache
def grid(n_pix: int) -> Any:
    return 10.0 ** np.linspace(np.log10(3700.0), np.log10(9090.0), n_pix)


def bench_row(
    task: str, number: int, answer: str, *, name: str | None = None, n_pix: int = 24, flux: Any = None, **changes: Any
) -> BenchRow:
    """A row about spectrum `number`."""
    if flux is None:
        flux = (np.random.default_rng(number).normal(100.0, 5.0, n_pix)).astype(np.float32)
    fields = {
        "data_source": DATA_SOURCE_OF.get(task, task),
        "name": name or name_of(number),
        "index": str(uuid.UUID(int=number * 1000 + sum(map(ord, task)))),
        "system": SYSTEM,
        "user": f"<image>\n{QUESTIONS.get(task, '?')} Look at Hα (6563 Å).",
        "answer": answer,
        "wavelength": grid(len(flux)),
        "flux": flux,
        "redshift": 0.0001 * (number % 7),
        "image": picture(number),
    }
    return BenchRow(**(fields | changes))


def write_set(
    folder: Path, sizes: Mapping[str, Mapping[str, int]], n_pix: int = 24, shared: Collection[str] = (), **same: Any
) -> Path:
    """A benchmark in the published layout: every third spectrum a positive, every row about a spectrum of its own; in
    the parts `shared`, all tasks ask about the same ones. `same` is the same in all rows."""
    number = 0
    for part, of_task in sizes.items():
        first = number
        for task, n in of_task.items():
            begin = first if part in shared else number
            rows = [bench_row(task, begin + i, "NO" if i % 3 else "YES", n_pix=n_pix, **same) for i in range(n)]
            write_bench(folder / "benchmark" / "data" / f"{part}_{task}.parquet", rows)
            number = max(number, begin + n)
    return folder


def messages(
    number: int, task: str, answer: str, *, looks: int, words: Mapping[str, str] | None = None
) -> list[Message]:
    """A conversation of so many looks."""
    said = {"thought": "A look at the whole.", "label": "Halpha", "answer": "That is why."} | dict(words or {})
    found = [system(SYSTEM), user(Image.of(picture(number * 20)), f"\n{QUESTIONS[task]}")]
    for look in range(looks):
        window = [6400 + look, 6700.5 if look % 2 else 6700]
        call = ToolCall("spectral_visualization_tool", {"wavelength_range": window, "label": said["label"]})
        found += [
            assistant(reasoning=f"{said['thought']} Look {look}.", calls=[call]),
            tool(
                Image.of(picture(number * 20 + look + 1)),
                f"Generated spectral visualization focused on wavelength range ({window[0]}, {window[1]}) Å for "
                f"{said['label']}.",
            ),
        ]
    closing = rf"<answer>\boxed{{{answer}}}{said['answer']}</answer>"
    return [*found, assistant(closing, reasoning=f"{said['thought']} Enough.")]


BROKEN = (
    {"thought": "HÎ± at 6563 Ã… is broad (300 km sâ�»Â¹)."},
    {"label": "HŒ≤", "answer": "It doesnâ€™t fit."},
    {"thought": "H� (4861 Å) and H�, both in emission."},
    {"answer": "ÃŽÂ³ rays � none."},
)


def coldstart_rows(n: int, *, step: float = 1, most: int = 10) -> Iterator[ColdStartRow]:
    """Conversations of 1 to `most` pictures; every fifth has broken symbols. Spectra are numbered by `step`."""
    tasks = tuple(QUESTIONS)
    for i in range(n):
        task, answer = tasks[i % 5], "YES" if (i // 5) % 3 == 0 else "NO"
        words = BROKEN[(i // 5) % len(BROKEN)] if i % 5 == 2 else None
        said = messages(i, task, answer, looks=(i * 7) % most, words=words)
        yield ColdStartRow(said, [TOOL], name_of(int(i * step)), answer, i // 5, task)


def write_conversations(folder: Path, n: int, **options: Any) -> Path:
    write_coldstart(folder, coldstart_rows(n, **options))
    return folder


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The published rows of a folder."""
    found: list[dict[str, Any]] = json.loads((folder / "train_sharegpt.json").read_text(encoding="utf-8"))
    return found


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "train_sharegpt.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder but locks, by path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "run.lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
