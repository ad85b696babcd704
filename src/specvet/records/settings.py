"""Which settings can change a verdict, and how a run holds them against those it was made with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from os import PathLike
from typing import Any

from specvet.records.errors import RunMismatchError
from specvet.records.receipt import versions

DECISIVE = (
    "policy",
    "policy_fingerprint",
    "format",
    "vocabulary",
    "sampling",
    "group",
    "frame_mode",
    "budget",
    "tasks",
    "style",
    "size",
    "title",
    "wording",
    "guard",
)
"""Keys of a config that can change a verdict. `tasks` counts where it maps a task's key to its hash."""

TASK = "tasks."
"""Before the key of a task, among the settings."""

_TRAINED = "a run that goes on must equal one that never stopped"


def decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a config that can change a verdict."""
    chosen = {key: config[key] for key in DECISIVE if config.get(key) is not None}
    if not isinstance(chosen.get("tasks", {}), Mapping):
        del chosen["tasks"]
    return chosen


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings under dotted names: `{"budget": {"max_turns": 8}}` → `{"budget.max_turns": 8}`."""
    out: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            out.update(flat(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value if isinstance(value, str | int | float | bool | None) else str(value)
    return out


def settle(
    path: str | PathLike[str], kind: str, then: dict[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any] | None:
    """`then` with what is new in `settings`; None when nothing is. Raises `RunMismatchError` for what differs."""
    now = flat(settings)
    why = {"why": _TRAINED} if kind == "train" else {}
    for key, value in now.items():
        if key in then and then[key] != value:
            if key.startswith(TASK):
                task = key.removeprefix(TASK)
                raise RunMismatchError(path, f"hash of task {task}", _short(then[key]), _short(value), **why)
            raise RunMismatchError(path, key, _short(then[key]), _short(value), **why)
    return {**then, **now} if now.keys() - then.keys() else None


def _short(value: Any) -> Any:
    """The first digits of a SHA-256 are enough to see that it is another one."""
    return value[:12] if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else value


def config_text(kind: str, config: Mapping[str, Any]) -> str:
    """`config.yaml`: the resolved config, with the kind of run and the versions it was made with."""
    import yaml

    text = yaml.safe_dump({"kind": kind, **plain(config), "versions": versions()}, sort_keys=False, allow_unicode=True)
    return str(text)


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as JSON can hold it: tuples, paths and enums as a person would write them."""
    written: dict[str, Any] = json.loads(json.dumps(dict(config), default=str))
    return written
