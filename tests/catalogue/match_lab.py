"""A small run whose stars and verdicts are known, and catalogues about them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specvet.agent import task_hash
from specvet.records import Decision, RunFolder
from specvet.records.schema import Answer, Question, SpectrumRef, StopReason, TrajectoryRecord, Verdict
from specvet.tasks import load_task, task_text

WD_ID = "4611686018427387905"
"""Of 19 digits: a float64 would make it …904."""

STARS: tuple[dict[str, Any], ...] = (
    {"file": "dc.fits", "task": "wd", "answer": "UNSURE", "ra": 10.0, "dec": 20.0, "mjd": 51544.5},
    {"file": "dwarf.fits", "task": "gm", "answer": "YES", "ra": 11.0, "dec": 21.0, "mjd": 57388.5},
    {"file": "giant.fits", "task": "gm", "answer": "YES", "ra": 12.0, "dec": 22.0, "mjd": 57388.5},
    {"file": "bad.fits", "task": "wd", "answer": "UNSURE", "ra": 13.0, "dec": 23.0, "mjd": 57388.5},
    {"file": "alone.fits", "task": "wd", "answer": "YES", "ra": 12.5, "dec": 22.7, "mjd": None},
    {"file": "lost.fits", "task": "wd", "answer": "NO_DATA", "ra": None, "dec": None, "mjd": None},
)

GAIA: tuple[dict[str, Any], ...] = (
    # 16 years of -500 mas/yr: 8″ from where it was in 2000.
    {"source_id": WD_ID, "ra": 10.0, "dec": 20.0 - 8.0 / 3600, "pmra": 0, "pmdec": -500, "parallax": 10,
     "parallax_error": 0.1, "phot_g_mean_mag": 18.0, "bp_rp": 0.3, "ruwe": 1.0},
    {"source_id": "2", "ra": 11.0, "dec": 21.0, "pmra": 0, "pmdec": 0, "parallax": 10, "parallax_error": 0.1,
     "phot_g_mean_mag": 13.8, "bp_rp": 2.1, "ruwe": 1.0},
    {"source_id": "3", "ra": 12.0, "dec": 22.0, "pmra": 0, "pmdec": 0, "parallax": 1, "parallax_error": 0.02,
     "phot_g_mean_mag": 9.0, "bp_rp": 2.5, "ruwe": 1.0},
    {"source_id": "4", "ra": 13.0, "dec": 23.0, "pmra": "", "pmdec": "", "parallax": 0.1, "parallax_error": 0.1,
     "phot_g_mean_mag": 18.0, "bp_rp": 0.3, "ruwe": 1.0},
)  # fmt: skip


def decision(star: dict[str, Any], number: int = 0) -> Decision:
    verdict = Verdict(answer=Answer(star["answer"]), confidence=None, p_yes=None, reason="so it looks")
    record = TrajectoryRecord(
        question=Question(id=star["file"], task=star["task"], spectrum=SpectrumRef(path=star["file"])),
        policy="steady", task_hash=task_hash(load_task(star["task"])), spectrum_hash=None, opening=None, turns=(),
        stop=StopReason.ANSWERED, verdict=verdict, seconds=0.1, started="2026-01-01T00:00:00Z",
    )  # fmt: skip
    return Decision(
        file=star["file"], row=0, task=star["task"], id=star.get("id", star["file"]), verdict=verdict,
        trajectory=record, ra=star["ra"], dec=star["dec"], mjd=star["mjd"], ids=star.get("ids", {}),
    )  # fmt: skip


def write_run(folder: Path, stars: Sequence[dict[str, Any]] = STARS) -> Path:
    """A run of these decisions; further stars join one that is there."""
    tasks = {key: task_text(load_task(key)) for key in ("cv", "cc", "ss", "gm", "wd")}
    with RunFolder.open(folder, kind="vet", config={"policy": "steady"}) as run:
        run.record_many([decision(star) for star in stars])
    (folder / "tasks").mkdir(exist_ok=True)
    for key, text in tasks.items():
        (folder / "tasks" / f"{key}.yaml").write_text(text, encoding="utf-8")
    return folder


def write_csv(file: Path, rows: Sequence[dict[str, Any]] = GAIA) -> Path:
    with open(file, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file
