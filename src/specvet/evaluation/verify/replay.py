"""What a trajectory saw, seen again: the spectrum's hash, every observation, every picture; and a policy that measures
asked once more. Works in other processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from specvet.agent import Budget, run_agent
from specvet.data.files import SpectrumFiles, failure
from specvet.policies.line_indices import LineIndices
from specvet.records import Decision, bytes_hash
from specvet.records.schema import ObservationRecord, TrajectoryRecord
from specvet.spectra import Spectrum
from specvet.tasks import Task
from specvet.tools import TOOL_NAME, Observation, ZoomTool
from specvet.vetting.items import Item
from specvet.vetting.rows import description
from specvet.views import Size

AGAIN = ("view", "bad_range", "bad_arguments", "too_few_points")
"""Observations that the spectrum and the call alone decide; the others tell of time, turns and formats."""


DESCRIBED = (
    *("survey", "layout", "n_pix", "wave_min", "wave_max", "medium", "snr", "ra", "dec", "z", "z_file", "frame"),
    *("pipeline_class", "warnings"),
)
"""What a decision says of its spectrum."""


@dataclass(frozen=True, slots=True)
class Look:
    """One observation, and the call that asked for it."""

    turn: int
    """From 1; 0 is the opening."""
    arguments: Mapping[str, Any] | None
    """None for the opening."""
    seen: ObservationRecord
    picture: str | None
    """SHA-256 of the PNG that was shown."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the trajectory of one cell saw of a spectrum."""

    cell: str
    where: str
    """The row, for people."""
    spectrum_hash: str | None
    described: Mapping[str, Any]
    """What the row says of the spectrum, which groups and the classifier of metadata rest on."""
    looks: tuple[Look, ...]
    style: str
    size: Size
    frame: str
    title: str | None
    asked: tuple[TrajectoryRecord, Task, int] | None = None
    """(trajectory, task, most turns) of `line-indices`, which is asked again."""


@dataclass(frozen=True, slots=True)
class Job:
    """One question of a set: its spectrum, and what each cell saw of it."""

    file: str
    row: int
    sights: tuple[Sight, ...]


@dataclass(slots=True)
class Seen:
    """What came of some jobs."""

    jobs: int = 0
    wrong: list[tuple[str, str, str]] = field(default_factory=list)
    """(cell, check, problem)."""
    pictures: dict[str, int] = field(default_factory=dict)
    """By cell: drawn again, and equal or not."""


def sight_of(cell: str, where: str, decision: Decision, record: TrajectoryRecord, **drawn: Any) -> Sight:
    """What the trajectory `record` of a decision saw."""
    shown = iter(()) if record.ledger is None else iter(_pictures(record.ledger))
    looks: list[Look] = []
    if record.opening is not None:
        looks.append(_look(0, None, record.opening, shown))
    for n, turn in enumerate(record.turns, 1):
        if turn.observation is not None:
            calls = turn.action.kind == "call" and turn.action.tool == TOOL_NAME
            look = _look(n, turn.action.arguments or {}, turn.observation, shown)
            if calls and turn.observation.kind in AGAIN:
                looks.append(look)
    described = {name: getattr(decision, name) for name in DESCRIBED}
    return Sight(cell, where, record.spectrum_hash, described, tuple(looks), **drawn)


def _look(n: int, arguments: Mapping[str, Any] | None, seen: ObservationRecord, shown: Any) -> Look:
    picture = next(shown, None) if seen.kind == "view" else None
    return Look(n, arguments, seen, picture or seen.image)


def _pictures(ledger: Mapping[str, Any]) -> list[str]:
    return [str(segment["image"]["sha256"]) for segment in ledger["segments"] if "image" in segment]


def replay(jobs: list[Job], draw: bool = True) -> Seen:
    """See again what some trajectories saw; `draw`: their pictures too."""
    out = Seen(len(jobs))
    for job in jobs:
        try:
            spectrum = _files().row(job.file, job.row)
        except MemoryError:
            raise
        except Exception as e:  # a reader may fail on anything that a file may hold
            out.wrong += [(s.cell, "spectra", f"{s.where}: {failure(e)}") for s in job.sights]
            continue
        drawn: dict[str, str] = {}
        for sight in job.sights:
            _sight(sight, spectrum, drawn, out, draw)
    return out


def _sight(sight: Sight, spectrum: Spectrum, drawn: dict[str, str], out: Seen, draw: bool) -> None:
    def wrong(check: str, problem: str) -> None:
        out.wrong.append((sight.cell, check, f"{sight.where}: {problem}"))

    if spectrum.content_hash != sight.spectrum_hash:
        told = "none" if sight.spectrum_hash is None else f"{sight.spectrum_hash[:12]}…"
        wrong("spectra", f"the spectrum here is another one: {spectrum.content_hash[:12]}…, {told} is recorded")
        return
    tool = ZoomTool(spectrum, sight.frame, title=sight.title, style=sight.style, size=sight.size)  # type: ignore[arg-type]
    now_described = description(Item(""), spectrum, tool.frame)
    for name, then in sight.described.items():
        if not _alike(then, now_described[name]):
            wrong("descriptions", f"{name}: {then} is recorded, the spectrum says {now_described[name]}")
    for look in sight.looks:
        said = "the opening" if look.turn == 0 else f"turn {look.turn}"
        observation = tool.opening() if look.arguments is None else tool(look.arguments)
        now = observation.record(look.seen.image)
        if now != look.seen:
            other = [k for k, v in now.model_dump().items() if v != getattr(look.seen, k)]
            wrong("views", f"{said}: the spectrum gives another observation ({', '.join(other)})")
        elif draw and look.picture is not None and observation.view is not None:
            out.pictures[sight.cell] = out.pictures.get(sight.cell, 0) + 1
            if (sha := _drawn(observation, drawn)) != look.picture:
                wrong("pictures", f"{said}: drawn again it is {sha[:12]}…, {look.picture[:12]}… was shown")
    if sight.asked is not None and (problem := _asked_again(*sight.asked, tool)):
        wrong("asked again", problem)


def _alike(then: Any, now: Any) -> bool:
    """Numbers to the eighth digit: their means and medians differ in the last bits."""
    numbers = isinstance(then, float) and isinstance(now, float)
    return math.isclose(then, now, rel_tol=1e-8) if numbers else then == now


def _drawn(observation: Observation, drawn: dict[str, str]) -> str:
    view = observation.view
    assert view is not None
    if view.content_hash not in drawn:
        try:
            drawn[view.content_hash] = bytes_hash(view.png)
        except ValueError as e:
            drawn[view.content_hash] = f"not drawn ({e})"
    return drawn[view.content_hash]


def _asked_again(then: TrajectoryRecord, task: Task, max_turns: int, tool: ZoomTool) -> str:
    """What `line-indices` does otherwise now; empty where it is the same."""
    now = run_agent(then.question, task, tool, _line_indices(), Budget(max_turns=max_turns))
    if [t.action for t in now.turns[:-1]] != [t.action for t in then.turns[:-1]] or len(now.turns) != len(then.turns):
        return "asked again it looks elsewhere"
    a, b = then.verdict, now.verdict
    if a.answer != b.answer or a.likelier_class != b.likelier_class:
        return f"asked again it says {b.answer}, {a.answer} is recorded"
    if (a.p_yes is None) != (b.p_yes is None) or abs((a.p_yes or 0.0) - (b.p_yes or 0.0)) > 2e-4:
        return f"asked again its p(YES) is {b.p_yes}, {a.p_yes} is recorded"
    for m, k in zip(then.measurements, now.measurements, strict=False):
        far = abs((m.value or 0.0) - (k.value or 0.0)) > 1e-5 * max(1.0, abs(k.value or 0.0))
        if m.index != k.index or (m.value is None) != (k.value is None) or far:
            return f"measured again {k.index} is {k.value}, {m.value} of {m.index} is recorded"
    return ""


@cache
def _files() -> SpectrumFiles:
    return SpectrumFiles(kept=2)


@cache
def _line_indices() -> LineIndices:
    return LineIndices()
