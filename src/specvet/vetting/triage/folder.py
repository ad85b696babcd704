"""What triage leaves in a run: `triage/rows.parquet`, a row a case, and `triage/triage.json`, how it came to be.

| column of `rows.parquet` | holds |
|---|---|
| `file`, `row`, `task`, `id` | which case; `file` as the run's own decisions name it |
| `answer`, `samples` | what the policy said, of how many samples |
| `p_raw` | probability of YES as the policy gave it |
| `evidence` | calibrated evidence for YES, natural logarithm of a likelihood ratio |
| `probability` | of YES, calibrated and at the prevalence of this list; `p_raw` where nothing was calibrated |
| `band`, `why` | `accept`, `look` or `reject`, and why |
| `audit` | rejected, and drawn to be looked at all the same |
| `f_…` | the features that were weighed |

What is not known is null.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from specvet.vetting.triage.calibration import TriageError
from specvet.vetting.triage.cases import FEATURES, Place

if TYPE_CHECKING:
    from specvet.records import RunFolder
    from specvet.vetting.triage.calibration import Calibration
    from specvet.vetting.triage.settings import Settings
    from specvet.vetting.triage.sorting import Sorted, Triage

FOLDER, ROWS, ABOUT = "triage", "rows.parquet", "triage.json"

VERSION = 1


class Told(NamedTuple):
    """What triage said of one case."""

    probability: float | None
    band: str
    audit: bool

    @property
    def text(self) -> str:
        """`look, probability 12 %`."""
        if self.probability is None:
            return self.band
        share = f"{100 * self.probability:.2g}" if self.probability < 0.995 else f"{100 * self.probability:.1f}"
        return f"{self.band}, probability {share} %" + (", drawn for the audit" if self.audit else "")


def write_triage(
    run: RunFolder,
    triage: Triage,
    settings: Settings,
    calibration: Calibration | None,
    calibration_file: Path | None,
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Write the folder and return it. `more` joins `triage.json`. Raises `OSError`."""
    from specvet import __version__
    from specvet.records import write_atomic
    from specvet.records.receipt import versions

    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    content = _parquet(triage.rows)
    about = {
        "schema_version": VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "specvet": __version__,
        "run": {
            "name": run.path.resolve().name,
            "policy": run.config.get("policy"),
            "decisions": run.last_number(),
            "settings": run.settings,
        },
        "calibration": None if calibration is None else _about(calibration, calibration_file),
        "settings": settings.model_dump(mode="json"),
        "tasks": {task: count.as_dict() for task, count in triage.tasks.items()},
        "looks": triage.looks,
        "notices": triage.notices,
        "rows": len(triage.rows),
        "rows_sha256": hashlib.sha256(content).hexdigest(),
        "versions": versions(),
    }
    write_atomic(folder / ROWS, content)
    write_atomic(folder / ABOUT, json.dumps(about | dict(more or {}), indent=1, ensure_ascii=False) + "\n")
    return folder


def read_about(run: Path) -> dict[str, Any] | None:
    """`triage.json` of a run; None where no triage was made. Raises `TriageError`."""
    file = run / FOLDER / ABOUT
    if not file.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("tasks"), dict):
            raise ValueError("it is of another layout")
    except ValueError as e:
        raise TriageError(f"{file}: cannot be read ({e}); run specvet triage again") from None
    return found


def read_told(run: Path) -> dict[Place, Told]:
    """What triage said, by (file, row, task); empty where none was made. Raises `TriageError`."""
    file = run / FOLDER / ROWS
    if not file.is_file():
        return {}
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["file", "row", "task", "probability", "band", "audit"]
    try:
        columns = pq.read_table(file, columns=names).to_pydict()
    except (OSError, ValueError, KeyError, pa.ArrowException) as e:
        raise TriageError(f"{file}: cannot be read ({e}); run specvet triage again") from None
    each = zip(*(columns[name] for name in names), strict=True)
    return {(file, row, task): Told(p, band, audit) for file, row, task, p, band, audit in each}


def _about(calibration: Calibration, file: Path | None) -> dict[str, Any]:
    content = None if file is None else file.read_bytes()
    return {
        "file": None if file is None else file.name,
        "sha256": None if content is None else hashlib.sha256(content).hexdigest(),
        "made": calibration.made,
        "cases": calibration.cases,
        "simulated": calibration.simulated,
        "surveys": calibration.surveys,
    }


def _parquet(rows: Sequence[Sorted]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number = pa.string(), pa.float64()
    columns: dict[str, tuple[Any, list[Any]]] = {
        "file": (text, [r.case.file for r in rows]),
        "row": (pa.int64(), [r.case.row for r in rows]),
        "task": (text, [r.case.task for r in rows]),
        "id": (text, [r.case.id for r in rows]),
        "answer": (text, [str(r.case.answer) for r in rows]),
        "samples": (pa.int32(), [r.case.samples for r in rows]),
        "p_raw": (number, [r.case.p_raw for r in rows]),
        "evidence": (number, [r.evidence for r in rows]),
        "probability": (number, [r.probability for r in rows]),
        "band": (text, [r.band for r in rows]),
        "why": (text, [r.why for r in rows]),
        "audit": (pa.bool_(), [r.audit for r in rows]),
    }
    for name in FEATURES:
        columns[f"f_{name}"] = number, [r.case.features.get(name) for r in rows]
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    table = pa.Table.from_arrays([pa.array(v, type=k) for k, v in columns.values()], schema=schema)
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    return bytes(buffer.getvalue().to_pybytes())
