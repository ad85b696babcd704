"""`rows.parquet`: all that a cell's score is made of, one row a question, in the order of the set.

Texts, sampled ids and hashes, no pictures; zstd. Of the log-probs only those of each last turn, which p(YES) is made
of: they are most of what does not compress, and the run's own shards have them all. Written once, when the last row is
decided, and never changed: its SHA-256 stands in `cell.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from specvet.records import Decision, write_atomic
from specvet.records.schema import TrajectoryRecord
from specvet.records.shards import fields_of, take_sampled

ROWS = "rows.parquet"
_LEVEL = 15
"""Of zstd: a third smaller than the default, written once."""
_ROW_GROUP = 250


def write_rows(path: Path, rows: Iterable[tuple[int, str, Decision]]) -> int:
    """Write (place in the set, question id, decision with its trajectory), in rising place. Returns how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer, schema, n = pa.BufferOutputStream(), _schema(), 0
    how = {"compression": "zstd", "compression_level": _LEVEL, "write_page_checksum": True}
    with pq.ParquetWriter(buffer, schema, **how) as writer:
        group: list[dict[str, Any]] = []
        for place, id, decision in rows:
            group.append(_flat(place, id, decision))
            n += 1
            if len(group) == _ROW_GROUP:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group = []
        writer.write_table(pa.Table.from_pylist(group, schema=schema))
    write_atomic(path, buffer.getvalue().to_pybytes())
    return n


def read_rows(path: Path) -> Iterator[tuple[int, str, Decision]]:
    """What `write_rows` wrote. Raises ValueError (pyarrow's and pydantic's are such), OSError, KeyError."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(batch_size=_ROW_GROUP):
            for row in batch.to_pylist():
                fields = json.loads(row["decision"])
                if row["json"] is not None:
                    fields["trajectory"] = TrajectoryRecord.model_validate(fields_of(row))
                yield row["place"], row["id"], Decision.model_validate(fields)


def _flat(place: int, id: str, decision: Decision) -> dict[str, Any]:
    record = None if decision.trajectory is None else json.loads(decision.trajectory.model_dump_json())
    ledger = None if record is None else record["ledger"]
    ids, logprobs = (None, None) if ledger is None else take_sampled(ledger)
    return {
        "place": place,
        "id": id,
        "task": decision.task,
        "answer": str(decision.verdict.answer),
        "decision": decision.model_dump_json(exclude={"trajectory"}, exclude_defaults=True),
        "json": None if record is None else json.dumps(record, ensure_ascii=False),
        "sampled_ids": ids,
        "logprobs": None if not logprobs else [*[None] * (len(logprobs) - 1), logprobs[-1]],
    }


def _schema() -> Any:
    import pyarrow as pa

    text = pa.string()
    types = {
        "place": pa.int64(),
        **dict.fromkeys(("id", "task", "answer", "decision", "json"), text),
        "sampled_ids": pa.list_(pa.list_(pa.int32())),
        "logprobs": pa.list_(pa.list_(pa.float32())),
    }
    return pa.schema(list(types.items()))
