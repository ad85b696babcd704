"""Trajectories as Parquet: a few flat columns to search by, and the whole record as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from specvet.records.files import write_atomic

Waiting = tuple[int, str, str, int, str, str]
"""n, id, file, row, task and the JSON of a trajectory that is to be moved."""

_ROW_GROUP = 250
"""Trajectories that are decompressed together: small, since a transcript needs one."""


def shard_path(folder: Path, part: int) -> Path:
    """`part-00000.parquet` in `folder`."""
    return folder / f"part-{part:05d}.parquet"


def write_shard(path: Path, trajectories: Iterable[Waiting]) -> None:
    """Write trajectories with n in rising order; one row group is unpacked at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer, schema, left = pa.BufferOutputStream(), _schema(), iter(trajectories)
    with pq.ParquetWriter(buffer, schema, compression="zstd") as writer:
        while group := list(islice(left, _ROW_GROUP)):
            writer.write_table(pa.Table.from_pylist([_flat(t) for t in group], schema=schema))
    write_atomic(path, buffer.getvalue().to_pybytes())


def read_shard(path: Path) -> Iterator[tuple[int, str]]:
    """(n, JSON) of each trajectory of a shard, in order, one row group in memory at a time."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROW_GROUP, columns=["n", "json"]):
            yield from zip(batch["n"].to_pylist(), batch["json"].to_pylist(), strict=True)


def read_from_shard(path: Path, n: int) -> str | None:
    """The JSON of trajectory `n`; reads the one row group that may hold it."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            statistics = file.metadata.row_group(group).column(0).statistics
            if statistics is not None and not statistics.min <= n <= statistics.max:
                continue
            table = file.read_row_group(group, columns=["n", "json"])
            for number, text in zip(table["n"].to_pylist(), table["json"].to_pylist(), strict=True):
                if number == n:
                    return str(text)
    return None


def _flat(waiting: Waiting) -> dict[str, Any]:
    n, id, file, row, task, text = waiting
    record = json.loads(text)
    turns = record["turns"]
    shown = [o for o in (record["opening"], *(t["observation"] for t in turns)) if o is not None]
    return {
        "n": n,
        "id": id,
        "file": file,
        "row": row,
        "task": task,
        "policy": record["policy"],
        "stop": record["stop"],
        "answer": record["verdict"]["answer"],
        "confidence": _number(record["verdict"]["confidence"]),
        "tool_calls": sum(t["action"]["kind"] == "call" for t in turns),
        "seconds": _number(record["seconds"]),
        "started": record["started"],
        "spectrum_hash": record["spectrum_hash"],
        "task_hash": record["task_hash"],
        "windows": [[_number(x) for x in o["window"]] for o in shown if o["window"]],
        "view_hashes": [o["view_hash"] for o in shown if o["view_hash"]],
        "texts": [t["action"]["text"] for t in turns],
        "json": text,
    }


def _number(value: float | str | None) -> float | None:
    """JSON has no NaN: the schemas write it as a string."""
    return None if value is None else float(value)


def _schema() -> Any:
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    types = {
        "n": pa.int64(),
        **dict.fromkeys(("id", "file"), text),
        "row": pa.int64(),
        **dict.fromkeys(("task", "policy", "stop", "answer"), text),
        "confidence": pa.float64(),
        "tool_calls": pa.int32(),
        "seconds": pa.float64(),
        **dict.fromkeys(("started", "spectrum_hash", "task_hash"), text),
        "windows": pa.list_(pa.list_(pa.float64())),
        "view_hashes": texts,
        "texts": texts,
        "json": text,
    }
    return pa.schema(list(types.items()))
