"""Built-in rival classes: what a NO may name as likelier. Read from `rivals.yaml`, scored as a task's evidence is."""

from __future__ import annotations

import functools
from importlib import resources

from specvet.tasks.evidence import Rival, Strict
from specvet.tasks.yaml_text import read_yaml


class _RivalFile(Strict):
    rivals: tuple[Rival, ...]


@functools.cache
def _builtin() -> dict[str, Rival]:
    raw = resources.files("specvet.tasks").joinpath("rivals.yaml").read_bytes()
    return {r.name: r for r in _RivalFile.model_validate(read_yaml(raw, "rivals.yaml").data).rivals}


def builtin_rivals() -> dict[str, Rival]:
    """Rival classes by name (`M dwarf`), as a task's `rivals` may refer to them."""
    return dict(_builtin())
