"""`export`: a run's decisions as a table, one row a decision: CSV, Parquet, FITS, VOTable or ECSV.

Columns are those of `specvet.vetting.columns`, in that order, in every format; a rollout has a row a trajectory and two
columns more, a run that `specvet triage` has sorted has probability, band and audit. Identifiers are text, answers are
the six words, what is not known is null (an empty field without quotation marks in CSV). CSV is UTF-8 with `\\n` line
ends and every text quoted; nothing in it is changed to please a spreadsheet, so read the columns `id` and `file` as
text there. Wavelengths are Å, ra and dec degrees. Where the table comes from stands in the header of every format that
has one; what FITS, VOTable and ECSV hold and cannot hold is told in `specvet.records.tables`.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from specvet.catalogue.objects import RADIUS_ARCSEC
from specvet.vetting.columns import verdict_sheet
from specvet.vetting.matched import match_cells
from specvet.vetting.origin import origin_of

if TYPE_CHECKING:
    from specvet.records import RunFolder
    from specvet.records.decision import Decision
    from specvet.records.schema import EvidenceItem
    from specvet.records.tables import Sheet
    from specvet.vetting.triage.folder import Told

Format = Literal["csv", "parquet", "fits", "votable", "ecsv"]

FORMATS: tuple[Format, ...] = ("csv", "parquet", "fits", "votable", "ecsv")

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
    radius_arcsec: float = RADIUS_ARCSEC,
    tell: Callable[[str], None] | None = None,
) -> int:
    """Write the decisions of a run to `out`, and return how many.

    `out` appears when it is complete, in place of what was there; `-` writes CSV to standard output. Without `format`
    the suffix decides: `.csv`, `.parquet`, and `.fits`, `.vot`, `.xml`, `.ecsv`, which `.gz` may follow. `tasks` and
    `answers` keep only those; an unreadable file is part of every task. `tell` is given, once each and in words, what
    the format cannot hold of these very decisions. Reads as it writes, so a run of any length fits in memory.

    Raises `ExportError`, `specvet.records.errors.RunError` when `run_path` is no run, `DiskFullError`, `OSError`.
    """
    from specvet.records.decision import WHOLE_FILE
    from specvet.records.run import RunFolder

    kind = table_kind(out, format)
    tasks, answers = (None if chosen is None else list(chosen) for chosen in (tasks, answers))
    run = RunFolder.read(run_path)
    try:
        asked = None if tasks is None else [*tasks, WHOLE_FILE]
        make, sorted_ = row_maker(run, radius_arcsec)
        rows = map(make, run.decisions(tasks=asked, answers=answers, with_trajectories=True))
        return write_rows(rows, out, kind, verdict_sheet(run, tasks, answers, triage=sorted_), tell=tell)
    finally:
        run.close()


def table_kind(out: str | os.PathLike[str], format: Format | None = None) -> Format:
    """The format in which a table is written to `out`. Raises `ExportError` where no suffix says, or `-` cannot be."""
    target = os.fspath(out)
    kind = format or _format_of(target)
    if target == "-" and kind != "csv":
        raise ExportError(f"--out -: only csv can be written to standard output; name a file for {kind}")
    return kind


def write_rows(
    rows: Iterator[dict[str, Any]],
    out: str | os.PathLike[str],
    kind: Format,
    sheet: Sheet,
    *,
    tell: Callable[[str], None] | None = None,
) -> int:
    """Write rows, whose values stand in the order of the sheet's columns, as `export` does; returns how many."""
    target = os.fspath(out)
    if target == "-":
        return _write_csv(rows, sys.stdout, sheet)
    return _write_atomic(rows, Path(target), kind, sheet, tell)


def row_maker(
    run: RunFolder, radius_arcsec: float = RADIUS_ARCSEC
) -> tuple[Callable[[Decision], dict[str, Any]], bool]:
    """What makes the row of a decision of this run, and whether the run was sorted by triage, whose columns then join.

    Spectra within `radius_arcsec` are of one object, see `specvet.vetting.objects`. Raises `ExportError` where what
    triage or matching wrote cannot be read.
    """
    from specvet.data.errors import InputError
    from specvet.vetting.objects import object_names
    from specvet.vetting.triage.calibration import TriageError
    from specvet.vetting.triage.folder import read_told

    origin = origin_of(run)
    rolled = run.kind == "rollout"
    try:
        names = object_names(run, radius_arcsec)
    except InputError as e:
        raise ExportError(str(e)) from None

    def plain(decision: Decision) -> dict[str, Any]:
        row = table_row(decision) | origin.cells(decision)
        row["object"] = names.get((decision.file, decision.row))
        return row | rollout_cells(decision) if rolled else row

    matched = match_cells(run)
    try:
        told = read_told(run.path)
    except TriageError as e:
        raise ExportError(str(e)) from None
    if not told:
        return lambda d: plain(d) | matched(d), False
    return lambda d: plain(d) | triage_cells(told.get((d.file, d.row, d.task))) | matched(d), True


def triage_cells(told: Told | None) -> dict[str, Any]:
    """Of one row; None for a decision that was made after the run was sorted."""
    if told is None:
        return {"probability": None, "band": None, "audit": None}
    return {"probability": told.probability, "band": told.band, "audit": "yes" if told.audit else "no"}


def table_row(decision: Decision) -> dict[str, Any]:
    """One row of the table but its provenance, with None for what is not known."""
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


def rollout_cells(decision: Decision) -> dict[str, Any]:
    """What a rollout's table has besides."""
    trajectory = decision.trajectory
    reward = trajectory.reward if trajectory else None
    return {"sample": decision.sample, "reward": None if reward is None else reward["score"]}


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
    from specvet.records.tables import table_format

    if out == "-" or out.lower().endswith(".csv"):
        return "csv"
    if out.lower().endswith((".parquet", ".pq")):
        return "parquet"
    if kind := table_format(out):
        return kind
    raise ExportError(
        f"{out}: name it .csv, .parquet, .fits, .vot or .ecsv, or say --format with one of {', '.join(FORMATS)}"
    )


def _write_atomic(
    rows: Iterator[dict[str, Any]], target: Path, kind: Format, sheet: Sheet, tell: Callable[[str], None] | None
) -> int:
    from specvet.records.errors import naming_a_full_disk

    check_target(target, kind)
    temporary = target.with_name(f".specvet-{secrets.token_hex(8)}.tmp")
    notices: list[str] = []
    with naming_a_full_disk(target):
        try:
            if kind == "csv":
                with open(temporary, "x", encoding="utf-8", newline="") as f:
                    n = _write_csv(rows, f, sheet)
            elif kind == "parquet":
                n = _write_parquet(rows, temporary, sheet)
            else:
                from specvet.records.tables import Spool, write_table

                with Spool(sheet.columns, rows, target.parent) as cells:
                    packed = target.name.lower().endswith(".gz")
                    n, notices = cells.n, write_table(temporary, kind, sheet, cells, packed=packed)
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    for notice in notices if tell else ():
        tell(notice)  # type: ignore[misc]
    return n


def check_target(target: Path, kind: str) -> None:
    """Raises `ExportError` where no file can be written under that name."""
    if target.is_dir():
        raise ExportError(f"{target}: is a folder; name a file in it, such as {target / f'verdicts.{kind}'}")
    if not target.parent.is_dir():
        raise ExportError(f"{target}: there is no folder {target.parent}; make it first")


def _write_csv(rows: Iterator[dict[str, Any]], f: TextIO, sheet: Sheet) -> int:
    # Python's csv module cannot yet (3.11) tell null from empty text, so fields are quoted here: RFC 4180.
    names = [column.name for column in sheet.columns]
    f.write(",".join(names) + "\n")
    n = 0
    for n, row in enumerate(rows, 1):  # noqa: B007 - the last n is the count
        f.write(",".join(_csv_field(row.get(name)) for name in names) + "\n")
    return n


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return repr(value)


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path, sheet: Sheet) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from specvet.records.tables.cells import arrow_schema

    schema = arrow_schema(sheet.columns, {"description": sheet.says, **{f.name: str(f.value) for f in sheet.facts}})
    n = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(rows, _BATCH)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
            n += len(batch)
    return n
