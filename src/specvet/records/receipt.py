"""The `Receipt`: what makes a result checkable. A number without one is not a result."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel, ConfigDict

from specvet.records.schema import SCHEMA_VERSION

_PACKAGES = (
    "specvet",
    "numpy",
    "scipy",
    "astropy",
    "matplotlib",
    "pillow",
    "pyarrow",
    "pydantic",
    "onnxruntime",
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "pytrio",
    "tinker",
)
"""Whose versions can change a verdict or a file; those that are not installed are left out."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Inputs(_Part):
    """What was read."""

    files: int
    """Files that were asked for, unreadable ones included."""
    spectra: int
    """(file, row) pairs with a decision."""
    hash: str
    """SHA-256 over the sorted content hashes of all spectra; names and folders do not count."""


class Session(_Part):
    """One process that worked on the run; each resume adds one."""

    started: str
    """UTC, ISO 8601."""
    ended: str | None = None
    """None while it runs, and for ever when it was killed."""
    seconds: float = 0.0
    """As last written: a killed session may have lasted up to a minute longer."""
    decided: int = 0
    """Decisions made, ERROR rows included."""
    skipped: int = 0
    """Decisions that an earlier session had made."""
    duplicates: int = 0
    """List entries that repeat another of the same session."""
    interrupted: bool = False
    """Stopped on request before the list was through."""
    tokens_in: int = 0
    """In prompts. Those of probes stand in `usage` alone, as `probes.prompt_tokens`."""
    tokens_out: int = 0
    """Sampled, without those of probes."""
    cost: float = 0.0
    """US dollars, as the service states them; 0 for what runs here."""
    usage: dict[str, float] = {}
    """What a model used in this session: `specvet.policies.tokens.Usage` by name, and whatever else it counts;
    what of it were probes stands under `probes.` once more."""
    sums: dict[str, dict[str, int]] = {}
    """By task, `TrajectoryRecord.sums` of the model's trajectories that it recorded."""
    probes: tuple[dict[str, Any], ...] = ()
    """The start-up probes of a model: name, ok, value and bound of each, or that it was skipped and why."""
    specvet: str = ""
    host_platform: str = ""
    asked: dict[str, Any] = {}
    """The config this session was started with: inputs, tasks with their hashes, and what else was set."""


class Receipt(_Part):
    """Counts, hashes, versions, time and cost of a run."""

    schema_version: int = SCHEMA_VERSION
    kind: str
    policy: str | None
    settings: dict[str, str | int | float | bool | None]
    """Everything that can change a verdict, by name (`frame_mode`, `budget.max_turns`)."""
    settings_hash: str
    task_hashes: dict[str, str]
    inputs: Inputs | None
    """None while the run is open."""
    answers: dict[str, dict[str, int]]
    """Decisions by task and answer; unreadable files stand under the task `*`."""
    stops: dict[str, dict[str, int]]
    """Trajectories by task and stop reason."""
    sums: dict[str, dict[str, int]] = {}
    """By task, over a model's trajectories: turns, calls (made, answered with a view, repeated), malformed turns by
    kind, tokens. Those that were removed to be tried again count as well, since they were made."""
    decisions: int
    tokens_in: int
    """0 for policies without tokens; probes are left out, as in each `Session`."""
    tokens_out: int
    cost: float
    """US dollars."""
    usage: dict[str, float] = {}
    """What a model used, summed over the sessions: prompt, prefilled, sampled tokens, pictures, requests, seconds."""
    probes: tuple[dict[str, Any], ...] = ()
    """Of the last session that probed."""
    training: dict[str, Any] = {}
    """Of a training run: steps, updates, epochs, rejected data, and the checkpoints with the hash of each."""
    started: str
    ended: str | None
    """None while the run is open."""
    seconds: float
    """Sum over the sessions."""
    spectra_per_second: float | None
    """None while the run is open."""
    versions: dict[str, str]
    """Of the last session that wrote."""
    platform: str
    sessions: tuple[Session, ...]


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that matter; imports none of them."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
