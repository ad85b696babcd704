"""Writes sets in the published layout: benchmarks as Parquet, demonstrations as ShareGPT JSON with pictures.

Equal rows give equal bytes. A file appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Image, Message, ToolCall
from specvet.data.published.layout import IMAGE_MARK, IMAGES, SHAREGPT, TOOL_NAME
from specvet.data.published.toolblock import tool_block

ROW_GROUP = 64
"""Rows written, and held in memory, at once: some 8 MB of arrays and pictures."""


@dataclass(frozen=True, slots=True, eq=False)
class BenchRow:
    """One question of a benchmark."""

    data_source: str
    """`cv`, `carbon`, `ss`, `gm`, `wd`."""
    name: str
    """Of the spectrum, its own for each; published ones have the name of the LAMOST file."""
    index: str
    """Its own for each row; published ones are UUIDs."""
    system: str
    user: str
    """Begins with `<image>` and a newline."""
    answer: Literal["YES", "NO"]
    wavelength: NDArray[np.floating[Any]]
    """Å in vacuum as observed, shape (n_pix,)."""
    flux: NDArray[np.floating[Any]]
    """Shape (n_pix,)."""
    redshift: float
    image: bytes
    """PNG of the whole spectrum."""


@dataclass(frozen=True, slots=True, eq=False)
class ColdStartRow:
    """One conversation to imitate."""

    messages: Sequence[Message]
    """System, user with the first picture, then assistant and tool by turns, ending with the assistant's answer."""
    tools: Sequence[Mapping[str, Any]]
    name: str
    """Of the spectrum."""
    answer: Literal["YES", "NO"]
    index: int | str
    """Its own for each row of a task."""
    task: str = ""
    """Pictures are named after it and the index: `images/lf_cv_0_0.png`."""

    @property
    def pictures(self) -> str:
        """What the names of its pictures begin with: `lf_cv_0`."""
        return "_".join(("lf", *filter(None, (self.task,)), str(self.index)))


def write_bench(path: str | os.PathLike[str], rows: Iterable[BenchRow], about: str = "") -> int:
    """Write one Parquet file of a benchmark, `ROW_GROUP` rows at a time; returns how many rows it has.

    Arrays are stored as 64-bit floats, as published; `about` goes into the file's metadata. Raises ValueError for a row
    whose arrays differ in length.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(pa).with_metadata({"about": about} if about else None)
    n = 0
    with _appearing(Path(path)) as building, pq.ParquetWriter(building, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_pylist([_bench_fields(row) for row in group], schema=schema))
            n += len(group)
    return n


def write_coldstart(folder: str | os.PathLike[str], rows: Iterable[ColdStartRow]) -> int:
    """Write `train_sharegpt.json` and `images/` into a folder; returns how many conversations it has.

    The JSON comes last, so that a folder that has it has all. Raises ValueError for two rows of one task and index.
    """
    place = Path(folder)
    (place / IMAGES).mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    with _appearing(place / SHAREGPT) as building, open(building, "w", encoding="utf-8", newline="\n") as out:
        out.write("[")
        for row in rows:
            if row.pictures in seen:
                raise ValueError(
                    f"{row.name}: its pictures {row.pictures}_… are another row's; give each its own index"
                )
            out.write(",\n" if seen else "\n")
            seen.add(row.pictures)
            out.write(json.dumps(_sharegpt(place, row), ensure_ascii=False))
        out.write("\n]\n")
    return len(seen)


def sharegpt_text(message: Message) -> str:
    """A message as the published conversations spell it: `<image>` marks, tags of thoughts, calls and tool replies."""
    text = "".join(part if isinstance(part, str) else IMAGE_MARK for part in message.content)
    if message.role == "tool":
        return f"<tool_response>\n{text}\n</tool_response>"
    if message.reasoning:
        text = f"<think>{message.reasoning}</think>{text}"
    return text + "".join(f"\n<tool_call>\n{_call(call)}\n</tool_call>" for call in message.calls)


def _call(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)


def _sharegpt(folder: Path, row: ColdStartRow) -> dict[str, Any]:
    roles = {"system": "system", "user": "human", "assistant": "gpt", "tool": "human"}
    conversations: list[dict[str, str]] = []
    images: list[str] = []
    for i, message in enumerate(row.messages):
        text = sharegpt_text(message)
        if i == 0 and message.role == "system" and row.tools:
            text += tool_block(row.tools)
        conversations.append({"from": roles[message.role], "value": text})
        for part in message.content:
            if isinstance(part, Image):
                images.append(f"{IMAGES}/{row.pictures}_{len(images)}.png")
                _put(folder / images[-1], part.png)
    said = [message for message in row.messages if message.role == "assistant"]
    return {
        "conversations": conversations,
        "images": images,
        "sample_index": row.index,
        "source_name": row.name,
        "ground_truth": row.answer,
        "total_iterations": len(said),
        "total_tool_calls": sum(len(message.calls) for message in said),
    }


def _schema(pa: Any) -> Any:
    arrays = pa.list_(pa.float64())
    arguments = pa.struct([("wavelength", arrays), ("flux", arrays), ("redshift", pa.float64())])
    tool = pa.struct([(TOOL_NAME, pa.struct([("create_kwargs", arguments)]))])
    return pa.schema(
        [
            ("images", pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))),
            ("data_source", pa.string()),
            ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
            ("reward_model", pa.struct([("ground_truth", pa.string()), ("type", pa.string())])),
            ("agent_name", pa.string()),
            ("extra_info", pa.struct([("index", pa.string()), ("name", pa.string()), ("tools_kwargs", tool)])),
        ]
    )


def _bench_fields(row: BenchRow) -> dict[str, Any]:
    wavelength = np.asarray(row.wavelength, dtype=np.float64)
    flux = np.asarray(row.flux, dtype=np.float64)
    if wavelength.ndim != 1 or wavelength.shape != flux.shape:
        raise ValueError(f"{row.name}: wavelength has shape {wavelength.shape} and flux {flux.shape}; give (n_pix,)")
    arguments = {"wavelength": wavelength, "flux": flux, "redshift": float(row.redshift)}
    return {
        "images": [{"bytes": row.image, "path": None}],
        "data_source": row.data_source,
        "prompt": [{"content": row.system, "role": "system"}, {"content": row.user, "role": "user"}],
        "reward_model": {"ground_truth": row.answer, "type": "rule"},
        "agent_name": "tool_agent",
        "extra_info": {
            "index": row.index,
            "name": row.name,
            "tools_kwargs": {TOOL_NAME: {"create_kwargs": arguments}},
        },
    }


def _groups(rows: Iterable[BenchRow]) -> Iterator[list[BenchRow]]:
    group: list[BenchRow] = []
    for row in rows:
        group.append(row)
        if len(group) == ROW_GROUP:
            yield group
            group = []
    if group:
        yield group


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """Somewhere to write what appears as `path` when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_name(f".specvet-{secrets.token_hex(8)}.tmp")
    try:
        yield building
        os.replace(building, path)
    finally:
        building.unlink(missing_ok=True)


def _put(path: Path, data: bytes) -> None:
    with _appearing(path) as building:
        building.write_bytes(data)
