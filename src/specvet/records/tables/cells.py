"""The cells of a table: gone through once to learn what a format must be told first, kept on disk meanwhile."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from specvet.records.tables.sheet import Column, escaped, system_of

BATCH = 5_000
"""Rows in memory at once."""


@dataclass(slots=True)
class Seen:
    """What a column turned out to hold."""

    null: int = 0
    nan: int = 0
    """NaN that are no nulls."""
    empty: int = 0
    """Texts without a letter that are no nulls."""
    changed: int = 0
    """Texts that `escaped` changes."""
    ragged: int = 0
    """Texts with blanks at an end, or with line breaks or control characters other than tab and newline."""
    width: int = 0
    """Bytes of the longest text, escaped."""

    def look(self, values: Sequence[Any], kind: type) -> None:
        """Take more cells into account."""
        if kind is not str:
            self.null += sum(v is None for v in values)
            if kind is float:
                self.nan += sum(v is not None and math.isnan(v) for v in values)
            return
        for value in values:
            if value is None:
                self.null += 1
                continue
            ascii_ = escaped(value)
            self.width = max(self.width, len(ascii_))
            self.empty += not value
            self.changed += ascii_ != value
            if value != value.strip() or not (value.isprintable() or _plain(value)):
                self.ragged += 1


def _plain(value: str) -> bool:
    """Whether all that is not printable is a tab or a newline."""
    return value.replace("\n", "").replace("\t", "").isprintable()


class Cells(Protocol):
    """Cells that can be gone through, and what they turned out to hold."""

    n: int
    seen: dict[str, Seen]

    def batches(self) -> Iterator[dict[str, list[Any]]]:
        """Column name → cells, for `BATCH` rows at a time."""
        ...


class Spool:
    """Cells on disk, in a temporary Parquet file in `folder`: any number of rows, in little memory.

    A context manager; leaving it removes the file.
    """

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], folder: Path | None = None
    ) -> None:
        self.n = 0
        self.seen = {c.name: Seen() for c in columns}
        self._columns = columns
        self._file = tempfile.NamedTemporaryFile(dir=folder, prefix=".specvet-", suffix=".tmp")  # noqa: SIM115
        try:
            self._fill(iter(rows))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _fill(self, rows: Iterator[Mapping[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = arrow_schema(self._columns)
        with pq.ParquetWriter(self._file, schema, compression="zstd") as writer:
            while batch := list(islice(rows, BATCH)):
                columns = {c.name: [row[c.name] for row in batch] for c in self._columns}
                for column in self._columns:
                    self.seen[column.name].look(columns[column.name], column.kind)
                writer.write_batch(pa.RecordBatch.from_pydict(columns, schema=schema))
                self.n += len(batch)
        self._file.flush()

    def batches(self) -> Iterator[dict[str, list[Any]]]:
        """Column name → cells, for `BATCH` rows at a time."""
        import pyarrow.parquet as pq

        self._file.seek(0)
        with pq.ParquetFile(self._file) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                yield batch.to_pydict()


class _InMemory:
    def __init__(self, columns: Sequence[Column], cells: Mapping[str, Sequence[Any]]) -> None:
        self.n = len(next(iter(cells.values()), ()))
        self.seen = {c.name: Seen() for c in columns}
        self._cells = {c.name: list(cells[c.name]) for c in columns}
        for column in columns:
            self.seen[column.name].look(self._cells[column.name], column.kind)

    def batches(self) -> Iterator[dict[str, list[Any]]]:
        if self.n:
            yield self._cells


def cells_of(columns: Sequence[Column], cells: Mapping[str, Sequence[Any]]) -> Cells:
    """Cells that are in memory: column name → values, all of one length."""
    return _InMemory(columns, cells)


def arrow_schema(columns: Sequence[Column], metadata: Mapping[str, str] | None = None) -> Any:
    """The columns as Arrow types, with units and words as the metadata of the fields."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    fields = [
        pa.field(
            c.name,
            types[c.kind],
            metadata={
                k: v
                for k, v in (("description", c.says), ("unit", c.unit), ("ucd", c.ucd), ("system", system_of(c)))
                if v
            },
        )
        for c in columns
    ]
    return pa.schema(fields, metadata=dict(metadata) if metadata else None)
