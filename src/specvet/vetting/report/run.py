"""From a run folder to the page: its decisions, its spectra read again, its receipt."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specvet.agent import task_hash
from specvet.records import Decision, RunError, RunFolder
from specvet.spectra import Spectrum, read
from specvet.tasks import Task, TaskError, load_task
from specvet.vetting.report.matched import matched_of
from specvet.vetting.report.page import About, Progress, render

PARENTS = 3
"""How many folders above the run a relative file is looked for in, when a run and its data have moved together."""


def write_report(
    run: Path,
    out: Path | None = None,
    *,
    answers: Collection[str] | None = None,
    tasks: Collection[str] | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """One self-contained HTML page about a run: every spectrum, zoom, measurement and reason, and every ERROR.

    Spectra are read again for their pictures. One that is gone or has changed is shown without, and the page says so.

    Args:
        run: the run folder; it may have been moved, and be worked on meanwhile.
        out: the page; `report.html` in the run folder when None. Its folder is made when missing.
        answers: show only spectra with one of these answers (`YES`, `UNSURE`, …); the counts stay those of the run.
        tasks: tell of these tasks only (keys).
        limit: show only so many spectra, the most urgent: YES first, then UNSURE, then the rest.
        progress: told (spectra done, spectra in all).
        tell: told what `limit` leaves out and what has no pictures, in words, as the page says it too.

    Returns:
        The path of the page.

    Raises:
        RunError: `run` is no run folder.
        ValueError: an unknown answer, or limit below 1.
        OSError: the page cannot be written; an older one stays as it was.
    """
    run = Path(run)
    folder = RunFolder.read(run)
    try:
        out = run / "report.html" if out is None else Path(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        config = _mapping(folder.config)
        if (group := config.get("group") or 1) != 1:
            raise RunError(
                f"{run}: holds {group} trajectories of each question, and a report shows one verdict a spectrum and "
                f"task; see them with `specvet transcript {run}`, or all in a table with `specvet export`"
            )
        about = About(
            name=f"specvet report: {run.resolve().name}",
            provenance=tuple(_provenance(run, folder, config)),
            definitions=definitions(folder),
            task_hash=task_hash,
            triage=_triage(run),
            matched=matched_of(run),
        )
        return render(
            out,
            _Decisions(folder, True),
            Spectra(run),
            about,
            overview=_Decisions(folder, False),
            answers=answers,
            tasks=tasks,
            limit=limit,
            progress=progress,
            tell=tell,
        )
    finally:
        folder.close()


@dataclass(frozen=True, slots=True)
class _Decisions:
    """A run's decisions, to be gone through more than once."""

    folder: RunFolder
    with_trajectories: bool

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.folder.decisions(with_trajectories=self.with_trajectories))


def _triage(run: Path) -> dict[tuple[str, int, str], str]:
    """What triage said, in words, where the run was sorted. Raises RunError for what cannot be read."""
    from specvet.vetting.triage.calibration import TriageError
    from specvet.vetting.triage.folder import read_told

    try:
        return {place: told.text for place, told in read_told(run).items()}
    except TriageError as e:
        raise RunError(str(e)) from None


class Spectra:
    """Reads spectra by (file, row), each file once while its rows come one after another."""

    def __init__(self, run: Path) -> None:
        self._run = run.resolve()
        self._file, self._rows = "", dict[int, Spectrum]()

    def __call__(self, file: str, row: int) -> Spectrum | None:
        """The spectrum; None when file or row is not there. Raises `SpectrumReadError` for an unreadable file."""

        if file != self._file:
            self._file, self._rows = file, {}
            path = self._find(file)
            if path is None:
                return None
            self._rows = {s.row: s for s in read(path, name=file)}
        return self._rows.get(row)

    def _find(self, file: str) -> Path | None:
        bases = [Path(), *self._run.parents[:PARENTS]]
        return next((p for p in (base / file for base in bases) if p.is_file()), None)


def definitions(folder: RunFolder) -> dict[str, Task]:
    """What the run asked, by key, as the run itself kept it."""
    found: dict[str, Task] = {}
    for file in sorted((folder.path / "tasks").glob("*.yaml")):
        try:
            task = load_task(file)
        except (TaskError, OSError):
            continue
        found[task.key] = task
    return {key: found[key] for key in (*folder.config.get("tasks", ()), *found) if key in found}


def _provenance(run: Path, folder: RunFolder, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, value) of the receipt, then of the config where it says more."""
    file = run / "receipt.json"
    try:
        receipt = _mapping(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        receipt = folder.receipt().model_dump(mode="json")
    said = dict(_flat(receipt))
    yield from said.items()
    yield from ((f"config: {key}", value) for key, value in _flat(config) if said.get(key) != value)


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested mappings and lists as (dotted name, text); short lists on one line, None left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        if any(isinstance(v, Mapping | list | tuple) for v in value):
            for i, inner in enumerate(value, start=1):
                yield from _flat(inner, f"{name} {i}")
        elif value:
            more = f" … ({len(value)} in all)" if len(value) > 20 else ""
            yield name, ", ".join(str(v) for v in value[:20]) + more
    elif value is not None:
        yield name, f"{value:g}" if isinstance(value, float) else str(value)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
