"""How complete a run is: SIMULATED members in its own noise, vetted as it was vetted, and what was recovered of them.

    RUN → hosts → plan → spectra → vetted by the run's own policy and settings → sorted as the run was → counts

Each step leaves its part in `RUN/completeness/` and goes on where it stopped: `plan.json`, `spectra/`, `run/` (a run
like any other, with its receipt), then `injections.csv`, `completeness.csv` and `completeness.json`.
"""

from __future__ import annotations

import csv
import io
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.catalogue.completeness.making import SPECTRA, CompletenessError, Plan
from specvet.catalogue.completeness.plan import Host
from specvet.records import WHOLE_FILE, RunFolder, write_atomic
from specvet.vetting.completeness_counts import Outcome, Row, rows_of
from specvet.vetting.items import Item
from specvet.vetting.prefilter import Prefilter, prefilter_named

if TYPE_CHECKING:
    from specvet.tasks import Task
    from specvet.vetting.blanks import Asked
    from specvet.vetting.triage import Calibration
    from specvet.vetting.watch import Progress

FOLDER, RUN = "completeness", "run"
ABOUT, ROWS, INJECTIONS = "completeness.json", "completeness.csv", "injections.csv"


def hosts_of(run: RunFolder, magnitudes: Mapping[tuple[str, int], float]) -> list[Host]:
    """The spectra of a run that could be read, each once, in the order of their names."""
    found: dict[tuple[str, int], Host] = {}
    for d in run.decisions():
        if d.task != WHOLE_FILE and (d.file, d.row) not in found:
            snr = None if d.snr is None or not math.isfinite(d.snr) else d.snr
            found[d.file, d.row] = Host(file=d.file, row=d.row, snr=snr, magnitude=magnitudes.get((d.file, d.row)))
    return [found[place] for place in sorted(found)]


def magnitudes_of(run: Path) -> dict[tuple[str, int], float]:
    """Gaia G by (file, row), where the run was matched; empty where it was not."""
    if not (run / "match").is_dir():
        return {}
    from specvet.catalogue.matching import read_matches

    found = read_matches(run)
    return {key: m.gaia.g for key, m in found.items() if m.gaia is not None and m.gaia.g is not None}


def vet_injections(
    folder: Path,
    plan: Plan,
    tasks: Mapping[str, Task],
    opened: Callable[[RunFolder], Asked],
    *,
    prefilter: Prefilter | None = None,
    refused: Iterable[int] = (),
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Ask about every injection as the run was asked, into `folder/run`; what was decided is not asked again.

    Raises `RunError` and its kinds, `DiskFullError`, a fatal PolicyError.
    """
    left_out = set(refused)
    config = {"completeness": "SIMULATED members in the noise of a run"} | plan.asked.model_dump(mode="json")
    config["completeness_tasks"] = config.pop("tasks")
    with RunFolder.open(folder / RUN, kind="vet", config=config) as run:
        asked = opened(run)
        begun, done = time.monotonic(), 0
        for key in plan.asked.tasks:
            if stop is not None and stop.is_set():
                return
            items = [
                Item(str(folder / SPECTRA / one.name), row=0)
                for one in plan.injections
                if one.task == key and one.number not in left_out
            ]
            asked.vet(
                items,
                tasks[key],
                run,
                prefilter=prefilter,
                settings={"completeness": f"version {plan.asked.version}, seed {plan.asked.seed}"},
                progress=None if progress is None else _of_all(progress, done, begun),
                stop=stop,
            )
            done += len(items)


def _of_all(progress: Callable[[Progress], None], done: int, begun: float) -> Callable[[Progress], None]:
    """Tells of all tasks together, where each is a batch of its own."""
    return lambda p: progress(replace(p, items=done + p.items, seconds=time.monotonic() - begun))


def prefilter_of(run: RunFolder) -> Prefilter | None:
    """What the run left out of its model's work, to be left out of the injections too."""
    return prefilter_named(str(run.settings.get("prefilter", "none")))


def sorted_as_the_run(
    folder: Path, triaged: Mapping[str, Any], calibration: Calibration | None, file: Path | None
) -> None:
    """Sort the injections with the thresholds of the run's own triage: its settings, its prevalences.

    `triaged` is the run's `triage.json`. Raises `TriageError`.
    """
    from specvet.vetting.triage import Settings, sort_run, write_triage

    told = dict(triaged["settings"])
    shares = {task: count["prevalence"]["value"] for task, count in triaged["tasks"].items() if count.get("prevalence")}
    settings = Settings(**(told | {"prevalence": told.get("prevalence", {}) | shares, "audit": 0.0}))
    with RunFolder.read(folder / RUN) as run:
        write_triage(run, sort_run(run, calibration, settings), settings, calibration, file)


def differences(run: RunFolder, folder: Path) -> list[str]:
    """What the injections were asked with that differs from how the run was, in words; weights among it."""
    with RunFolder.read(folder / RUN) as injected:
        mine, theirs = injected.settings, run.settings
    names = sorted({*mine, *theirs} - {"completeness"})
    tasks = {name for name in names if name.startswith("tasks.") and name not in mine}
    return [
        f"{name} is {mine.get(name)} here and {theirs.get(name)} in the run: this is not quite its completeness"
        for name in names
        if name not in tasks and mine.get(name) != theirs.get(name)
    ]


def outcomes_of(folder: Path, plan: Plan) -> list[Outcome]:
    """What became of each injection that was asked about."""
    from specvet.vetting.triage import read_told

    by_name = {one.name: one for one in plan.injections}
    bands = {(Path(file).name, task): told.band for (file, _, task), told in read_told(folder / RUN).items()}
    found = []
    with RunFolder.read(folder / RUN) as run:
        for d in run.decisions():
            name = Path(d.file).name
            if (one := by_name.get(name)) is not None and d.task in (one.task, WHOLE_FILE):
                found.append(Outcome(one, d.verdict.answer, d.verdict.p_yes, d.snr, bands.get((name, one.task), "")))
    return sorted(found, key=lambda o: o.injection.number)


def write_counts(
    folder: Path,
    run: RunFolder,
    plan: Plan,
    outcomes: Sequence[Outcome],
    refused: Mapping[int, str],
    notices: list[str],
) -> tuple[list[Row], dict[str, Any]]:
    """Write the tables and `completeness.json`; returns the rows and what stands in the latter. Raises `OSError`."""
    from specvet import __version__
    from specvet.records.receipt import versions

    rows = rows_of(outcomes)
    with RunFolder.read(folder / RUN) as injected:
        receipt = injected.receipt()
    about: dict[str, Any] = {
        "note": "SIMULATED members of each class in the noise of the run's own spectra; shares are of these",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "specvet": __version__,
        "run": {"name": run.path.resolve().name, "policy": run.config.get("policy"), "settings": run.settings},
        "asked": plan.asked.model_dump(mode="json"),
        "hosts": plan.hosts,
        "planned": len(plan.injections),
        "vetted": len(outcomes),
        "refused": [{"injection": number, "why": why} for number, why in sorted(refused.items())],
        "with_magnitude": sum(o.injection.magnitude is not None for o in outcomes),
        "notices": notices,
        "rows": [row.as_dict() for row in rows],
        "inputs": None if receipt.inputs is None else receipt.inputs.model_dump(mode="json"),
        "settings_hash": receipt.settings_hash,
        "seconds": receipt.seconds,
        "cost": receipt.cost,
        "versions": versions(),
    }
    write_atomic(folder / INJECTIONS, _csv([outcome.as_dict() for outcome in outcomes]))
    write_atomic(folder / ROWS, _csv([row.as_dict() for row in rows]))
    write_atomic(folder / ABOUT, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    return rows, about


def same_calibration(triaged: Mapping[str, Any], file: Path) -> None:
    """Raises `CompletenessError` where the run was not sorted with this calibration file."""
    import hashlib

    told = triaged.get("calibration") or {}
    if told.get("sha256") != hashlib.sha256(file.read_bytes()).hexdigest():
        raise CompletenessError(
            f"{file}: is not the calibration that the run was sorted with ({told.get('file') or 'none'}); give that "
            "one, or sort the run anew with specvet triage"
        )


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["note"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
