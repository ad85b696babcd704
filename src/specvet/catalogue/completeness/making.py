"""Injections become files, in several processes; what is there already is not made again.

    plan.json   spectra/SIMULATED-000000.fits.gz …

A file is complete or not there at all. Whatever can alter a spectrum stands in the plan, so that a folder goes on as it
began, or says that it is another's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from specvet.catalogue.completeness.injecting import injected
from specvet.catalogue.completeness.plan import By, Host, Injection, plan
from specvet.data.processes import in_any_order
from specvet.records import write_atomic
from specvet.spectra import Spectrum, read, write

PLAN, SPECTRA = "plan.json", "spectra"
VERSION = 1
AT_ONCE = 50
"""Injections into one host file that a process makes at a time."""

Progress = Callable[[str, int, int], None]
"""Told (what is done, done, in all)."""


class CompletenessError(ValueError):
    """What cannot be measured as asked; the message says why and what to do."""


class Asked(BaseModel):
    """What can alter an injection."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    tasks: tuple[str, ...]
    by: By
    levels: tuple[float, ...]
    each: int
    seed: int


class Plan(BaseModel):
    """`plan.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    note: str = "SIMULATED members of classes in the noise of a run's own spectra"
    asked: Asked
    hosts: int
    """Spectra of the run that could lend their noise."""
    injections: tuple[Injection, ...]


def planned(folder: Path, asked: Asked, hosts: Callable[[], Sequence[Host]]) -> Plan:
    """The plan of a folder, which is made where there is none.

    Raises `CompletenessError` for a folder that was planned otherwise, or whose plan cannot be read; what `plan`
    raises; `OSError`.
    """
    file = folder / PLAN
    if file.is_file():
        found = _read(file)
        old, new = found.asked.model_dump(), asked.model_dump()
        if changed := [f"{name} {old[name]}, not {new[name]}" for name in old if old[name] != new[name]]:
            raise CompletenessError(
                f"{folder}: was begun with {'; '.join(changed)}; say the same again, or name another folder with --out"
            )
        return found
    known = hosts()
    made = Plan(
        asked=asked,
        hosts=len(known),
        injections=tuple(plan(known, asked.tasks, asked.levels, asked.each, asked.by, asked.seed)),
    )
    (folder / SPECTRA).mkdir(parents=True, exist_ok=True)
    write_atomic(file, made.model_dump_json(indent=1) + "\n")
    return made


def make_spectra(
    folder: Path, bases: Sequence[Path], workers: int, stop: threading.Event, progress: Progress | None = None
) -> dict[int, str]:
    """Write what is missing of the folder's plan; returns why, by number, of those that could not be made.

    Hosts are looked for below each of `bases` in turn. After `stop` nothing more is begun. Raises `OSError`.
    """
    groups, total = _groups(os.fspath(folder)), len(_plan(os.fspath(folder)).injections)
    (folder / SPECTRA).mkdir(parents=True, exist_ok=True)
    work = _Making(os.fspath(folder), tuple(os.fspath(base) for base in bases))
    refused: dict[int, str] = {}
    done = 0
    for n, failed in in_any_order(work, range(len(groups)), min(workers, len(groups)), stop):
        refused |= failed
        done += n
        if progress is not None:
            progress("SIMULATED spectra", done, total)
    return refused


@dataclass(frozen=True, slots=True)
class _Making:
    """Makes all injections that one host file lends its noise to; it travels to other processes."""

    folder: str
    bases: tuple[str, ...]

    def __call__(self, number: int) -> tuple[int, dict[int, str]]:
        group, seed = _groups(self.folder)[number], _plan(self.folder).asked.seed
        folder = Path(self.folder) / SPECTRA
        missing = [one for one in group if not (folder / one.name).is_file()]
        if not missing:
            return len(group), {}
        file = missing[0].host.file
        found = next((p for base in self.bases if (p := Path(base) / file).is_file()), None)
        try:
            spectra = {} if found is None else {s.row: s for s in read(found, name=file)}
        except (OSError, ValueError) as e:
            return len(group), {one.number: str(e) for one in missing}
        failed = {}
        for one in missing:
            host = spectra.get(one.host.row)
            try:
                if host is None:
                    raise ValueError(f"{file} row {one.host.row}: is not there any more")
                _make(one, host, seed, folder)
            except ValueError as e:
                failed[one.number] = str(e)
        return len(group), failed


def _make(one: Injection, host: Spectrum, seed: int, folder: Path) -> None:
    rng = np.random.default_rng([seed, one.number])
    spectrum = injected(host, one.kind, one.snr, rng, one.name.partition(".")[0])
    # As surveys store them, which packs twice as well.
    flux = spectrum.flux.astype(np.float32).astype(np.float64)
    ivar = None if spectrum.ivar is None else spectrum.ivar.astype(np.float32).astype(np.float64)
    write(spectrum.replace(flux=flux, ivar=ivar), folder / one.name)


@lru_cache(maxsize=2)
def _plan(folder: str) -> Plan:
    return _read(Path(folder) / PLAN)


@lru_cache(maxsize=2)
def _groups(folder: str) -> tuple[tuple[Injection, ...], ...]:
    """Injections by host file, so that each file is read as seldom as can be; small enough to be shared out."""
    ordered = sorted(_plan(folder).injections, key=lambda one: (one.host.file, one.number))
    return tuple(
        tuple(group[i : i + AT_ONCE])
        for _, members in groupby(ordered, key=lambda one: one.host.file)
        for group in [list(members)]
        for i in range(0, len(group), AT_ONCE)
    )


def _read(file: Path) -> Plan:
    try:
        return Plan.model_validate_json(file.read_bytes())
    except ValidationError as e:
        raise CompletenessError(f"{file}: cannot be read ({e.errors()[0]['msg']}); remove its folder") from None
