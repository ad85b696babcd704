"""`export`: a run's decisions as a table, CSV or Parquet, one row a decision.

Columns are those of `COLUMNS`, in that order, in both formats. Identifiers are text (Parquet strings, quoted in CSV),
answers are the six words, what is not known is null (an empty field without quotation marks in CSV). CSV is UTF-8 with
`\\n` line ends and every text quoted; nothing in it is changed to please a spreadsheet, so read the columns `id` and
`file` as text there. Wavelengths are Å, ra and dec degrees.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from specvet.records.decision import Decision
    from specvet.records.schema import EvidenceItem

Format = Literal["csv", "parquet"]

COLUMNS: dict[str, type] = {
    "file": str,
    "row": int,
    "id": str,
    "task": str,
    "answer": str,
    "confidence": float,
    "reason": str,
    "p_yes": float,
    "log_odds": float,
    "likelier_class": str,
    "evidence": str,
    "windows": str,
    "n_calls": int,
    "stop": str,
    "survey": str,
    "layout": str,
    "n_pix": int,
    "wave_min": float,
    "wave_max": float,
    "medium": str,
    "snr": float,
    "ra": float,
    "dec": float,
    "z": float,
    "z_file": float,
    "frame": str,
    "pipeline_class": str,
    "warnings": str,
    "policy": str,
}

_BATCH = 5_000


class ExportError(ValueError):
    """A table that cannot be written as asked; the message says why."""


def export(
    run_path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    format: Format | None = None,
    *,
    tasks: Iterable[str] | None = None,
    answers: Iterable[str] | None = None,
) -> int:
    """Write the decisions of a run to `out`, and return how many.

    `out` appears when it is complete, in place of what was there; `-` writes CSV to standard output. Without `format`
    the suffix decides (`.csv`, `.parquet`). `tasks` and `answers` keep only those; an unreadable file is part of every
    task. Reads as it writes, so a run of any length fits in memory.

    Raises `ExportError`, `specvet.records.errors.RunError` when `run_path` is no run, `DiskFullError`, `OSError`.
    """
    from specvet.records.decision import WHOLE_FILE
    from specvet.records.run import RunFolder

    target = os.fspath(out)
    kind = format or _format_of(target)
    if target == "-" and kind != "csv":
        raise ExportError("--out -: only csv can be written to standard output; name a file for parquet")
    chosen = None if tasks is None else [*tasks, WHOLE_FILE]
    run = RunFolder.read(run_path)
    try:
        rows = map(table_row, run.decisions(tasks=chosen, answers=answers, with_trajectories=True))
        if target == "-":
            return _write_csv(rows, sys.stdout)
        return _write_atomic(rows, Path(target), kind)
    finally:
        run.close()


def table_row(decision: Decision) -> dict[str, Any]:
    """One row of the table, with None for what is not known."""
    verdict, trajectory = decision.verdict, decision.trajectory
    observed = [t.observation for t in trajectory.turns] if trajectory else []
    windows = [o.window for o in observed if o is not None and o.window is not None]
    return {
        "file": decision.file,
        "row": decision.row,
        "id": decision.id or None,
        "task": decision.task,
        "answer": str(verdict.answer),
        "confidence": verdict.confidence,
        "reason": verdict.reason,
        "p_yes": verdict.p_yes,
        "log_odds": round(sum(e.log_odds for e in verdict.evidence), 3) if verdict.evidence else None,
        "likelier_class": verdict.likelier_class,
        "evidence": "; ".join(map(evidence_text, verdict.evidence)) or None,
        "windows": "; ".join(f"{low:g}-{high:g}" for low, high in windows) or None,
        "n_calls": trajectory.tool_calls if trajectory else None,
        "stop": str(trajectory.stop) if trajectory else "unreadable",
        "survey": decision.survey or None,
        "layout": decision.layout or None,
        "n_pix": decision.n_pix,
        "wave_min": decision.wave_min,
        "wave_max": decision.wave_max,
        "medium": decision.medium or None,
        "snr": decision.snr,
        "ra": decision.ra,
        "dec": decision.dec,
        "z": decision.z,
        "z_file": decision.z_file,
        "frame": decision.frame or None,
        "pipeline_class": decision.pipeline_class or None,
        "warnings": "; ".join(decision.warnings) or None,
        "policy": trajectory.policy if trajectory else None,
    }


def evidence_text(item: EvidenceItem) -> str:
    """`Hα in emission (Hα EW = -23.1 ± 0.8 Å, 6540-6590 Å)`."""
    m = item.measurement
    value = "not measurable" if m.value is None else _number(m.value, 3)
    if m.value is not None and m.error is not None:
        value += f" ± {_number(m.error, 2)}"
    where = f", {m.window[0]:.0f}-{m.window[1]:.0f} Å" if m.window else ""
    return f"{item.says} ({m.name} = {value}{' ' + m.unit if m.unit else ''}{where})"


def _number(x: float, digits: int) -> str:
    return f"{x:.0f}" if 100 <= abs(x) < 1e6 else f"{x:.{digits}g}"


def _format_of(out: str) -> Format:
    if out == "-" or out.lower().endswith(".csv"):
        return "csv"
    if out.lower().endswith((".parquet", ".pq")):
        return "parquet"
    raise ExportError(f"{out}: name it .csv or .parquet, or say --format csv or --format parquet")


def _write_atomic(rows: Iterator[dict[str, Any]], target: Path, kind: Format) -> int:
    from specvet.records.errors import naming_a_full_disk

    if target.is_dir():
        raise ExportError(f"{target}: is a folder; name a file in it, such as {target / f'verdicts.{kind}'}")
    if not target.parent.is_dir():
        raise ExportError(f"{target}: there is no folder {target.parent}; make it first")
    temporary = target.with_name(f".specvet-{secrets.token_hex(8)}.tmp")
    with naming_a_full_disk(target):
        try:
            if kind == "csv":
                with open(temporary, "x", encoding="utf-8", newline="") as f:
                    n = _write_csv(rows, f)
            else:
                n = _write_parquet(rows, temporary)
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    return n


def _write_csv(rows: Iterator[dict[str, Any]], f: TextIO) -> int:
    # Python's csv module cannot yet (3.11) tell null from empty text, so fields are quoted here: RFC 4180.
    f.write(",".join(COLUMNS) + "\n")
    n = 0
    for n, row in enumerate(rows, 1):  # noqa: B007 - the last n is the count
        f.write(",".join(map(_csv_field, row.values())) + "\n")
    return n


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return repr(value)


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    n = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(rows, _BATCH)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
            n += len(batch)
    return n
