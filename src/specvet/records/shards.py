"""Trajectories as Parquet: a few flat columns to search by, and the whole record as JSON.

Sampled ids and their log-probs stand in columns of their own and not in the JSON, where they would take three times the
room; reading puts them back. Log-probs are float32, since a ledger must read back bit for bit: a gradient that is
computed from a float16 of a log-prob near −10 would be off by 0.4%.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

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
        for batch in file.iter_batches(batch_size=_ROW_GROUP, columns=_needed(file)):
            yield from ((row["n"], put_back(row)) for row in batch.to_pylist())


def read_from_shard(path: Path, n: int) -> str | None:
    """The JSON of trajectory `n`; None where the shard does not hold it."""
    return read_some(path, [n]).get(n)


def read_some(path: Path, wanted: Collection[int]) -> dict[int, str]:
    """The JSON of some trajectories by n, as far as the shard holds them; unpacks only row groups that may."""
    import pyarrow.parquet as pq

    found: dict[int, str] = {}
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            statistics = file.metadata.row_group(group).column(0).statistics
            if statistics is not None and not any(statistics.min <= n <= statistics.max for n in wanted):
                continue
            table = file.read_row_group(group, columns=_needed(file))
            for i, n in enumerate(table["n"].to_pylist()):
                if n in wanted:
                    found[n] = put_back(table.slice(i, 1).to_pylist()[0])
    return found


def read_times(path: Path) -> list[tuple[str, float]]:
    """(when it began, how many seconds it took) of each trajectory of a shard, in order."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["started", "seconds"])
    return list(zip(table["started"].to_pylist(), table["seconds"].to_pylist(), strict=True))


def _needed(file: Any) -> list[str]:
    """The columns that make up the record; shards of earlier versions have no ledgers."""
    return [name for name in ("n", "json", "sampled_ids", "logprobs") if name in file.schema_arrow.names]


def put_back(row: dict[str, Any]) -> str:
    """The JSON of a trajectory, with what its columns hold put back."""
    if row.get("sampled_ids") is None or row.get("logprobs") is None:
        return str(row["json"])
    return json.dumps(fields_of(row), ensure_ascii=False)


def fields_of(row: dict[str, Any]) -> dict[str, Any]:
    """The same before it is written as JSON."""
    record: dict[str, Any] = json.loads(row["json"])
    ids, logprobs = row.get("sampled_ids"), row.get("logprobs")
    if ids is None or logprobs is None:
        return record
    said = [segment for segment in record["ledger"]["segments"] if "sampled" in segment]
    for segment, these, theirs in zip(said, ids, logprobs, strict=True):
        segment["sampled"], segment["logprobs"] = these, None if theirs is None else _shortest(theirs)
    return record


def _shortest(logprobs: list[float]) -> list[float]:
    """float32 values as the shortest decimals that give them again, which is how a ledger writes them."""
    exact = np.array(logprobs, dtype=np.float32)
    short = exact.astype(np.str_).astype(np.float64)
    values: list[float] = np.where(short.astype(np.float32) == exact, short, exact.astype(np.float64)).tolist()
    return values


def take_sampled(ledger: dict[str, Any]) -> tuple[list[list[int]], list[list[float] | None]]:
    """The sampled ids and log-probs of a ledger, which it loses."""
    ids, logprobs = [], []
    for segment in ledger["segments"]:
        if "sampled" in segment:
            ids.append(segment["sampled"])
            logprobs.append(segment["logprobs"])
            segment["sampled"] = segment["logprobs"] = None
    return ids, logprobs


def _flat(waiting: Waiting) -> dict[str, Any]:
    n, id, file, row, task, text = waiting
    record = json.loads(text)
    turns = record["turns"]
    shown = [o for o in (record["opening"], *(t["observation"] for t in turns)) if o is not None]
    ledger, tokens = record.get("ledger"), record.get("tokens")  # none in what an earlier version left waiting
    ids, logprobs = (None, None) if ledger is None else take_sampled(ledger)
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
        "sample": record.get("sample", 0),
        "sampled_ids": ids,
        "logprobs": logprobs,
        "n_tokens": None if tokens is None else tokens["total"],
        "n_sampled": None if tokens is None else tokens["sampled"],
        "n_images": None if ledger is None else sum("image" in segment for segment in ledger["segments"]),
        "json": text if ledger is None else json.dumps(record, ensure_ascii=False),
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
        "sample": pa.int32(),
        "sampled_ids": pa.list_(pa.list_(pa.int32())),
        "logprobs": pa.list_(pa.list_(pa.float32())),
        **dict.fromkeys(("n_tokens", "n_sampled"), pa.int64()),  # sums of what a server says
        "n_images": pa.int32(),
        "json": text,
    }
    return pa.schema(list(types.items()))
