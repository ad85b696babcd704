"""A task as the page draws it: lines, band heads, key windows and what deceives there; Å at rest in air."""

from __future__ import annotations

from typing import Any

from specvet.spectra import LINES
from specvet.spectra.lines import vacuum_to_air
from specvet.tasks import Feature, KeyWindow, Task

BAND_SHOWN = 120.0
"""Å that are shaded from a band's sharp edge into the band, where its window reaches so far."""

_SAME_LINE = 2.5


def described(task: Task) -> dict[str, Any]:
    """What `/api/session` says of a task."""
    own = [(f, w) for w in task.windows for f in w.features]
    lines = {
        f.name: {"name": f.name, "wave": _air(f), "kind": f.kind, "own": True}
        for f, _ in own
        if not f.kind.startswith("band")
    }
    waves = [line["wave"] for line in lines.values()]
    for line in LINES:
        if task.key in line.tasks and all(abs(line.air - wave) > _SAME_LINE for wave in waves):  # type: ignore[operator]
            lines.setdefault(
                line.name, {"name": line.name, "wave": round(line.air, 3), "kind": line.seen, "own": False}
            )
    bands = {f.name: _band(f, w) for f, w in own if f.kind.startswith("band")}
    return {
        "key": task.key,
        "label": task.name,
        "question": task.question,
        "include": list(task.include),
        "exclude": list(task.exclude),
        "guidance": task.guidance,
        "lines": sorted(lines.values(), key=lambda line: line["wave"]),
        "bands": sorted(bands.values(), key=lambda band: band["low"]),
        "windows": [_window(w) for w in task.windows],
        "likelier": [r if isinstance(r, str) else r.name for r in task.rivals],
    }


def _air(feature: Feature) -> float:
    wave = feature.wavelength
    return round(vacuum_to_air(wave) if feature.medium == "vacuum" else wave, 3)


def _band(feature: Feature, window: KeyWindow) -> dict[str, Any]:
    head = _air(feature)
    if feature.kind == "band head red-sharp":
        return {"name": feature.name, "low": max(window.range[0], head - BAND_SHOWN), "high": head, "head": head}
    return {"name": feature.name, "low": head, "high": min(window.range[1], head + BAND_SHOWN), "head": head}


def _window(window: KeyWindow) -> dict[str, Any]:
    traps = [
        {"name": c.name, "range": list(c.range) if c.range else None, "effect": c.effect} for c in window.contaminants
    ]
    low, high = window.range
    return {"key": window.key, "name": window.name, "low": low, "high": high, "why": window.why, "traps": traps}
