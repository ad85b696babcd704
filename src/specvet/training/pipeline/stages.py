"""What a pipeline is made of: a `Stage` is one command of specvet, and what it makes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from specvet.data.processes import cores
from specvet.records import text_hash
from specvet.training.config import ConfigError


@dataclass(frozen=True, slots=True)
class Stage:
    """One command. It goes on where an earlier call of it stopped, as all commands that take long do."""

    name: str
    """`grpo-0`; the part before the dash names its kind."""
    command: tuple[str, ...]
    """What follows `specvet` on a command line, but for `machine`."""
    makes: Path
    """Is there when the stage is done; its SHA-256 is kept where it is a file."""
    root: Path
    """The pipeline's folder."""
    needs: tuple[str, ...] = ()
    """Names of stages that must be done before."""
    alone: bool = False
    """It takes all cores or the whole GPU, so nothing runs beside it."""
    gpu_minutes: float = 0.0
    """Of one H200, by itself."""
    core_minutes: float = 0.0
    """Of one core, where that is what it waits for."""
    disk_mb: float = 0.0
    writes: Mapping[Path, str] = field(default_factory=dict)
    """Files that are written before it begins, with what stands in them."""
    machine: tuple[str, ...] = ()
    """Options that say where and how fast; with others it is the same stage."""
    above: tuple[str, ...] = ()
    """Identities of the stages that it needs, as `in_order` sets them."""

    @property
    def line(self) -> tuple[str, ...]:
        """All that follows `specvet`."""
        return (*self.command, *self.machine)

    @property
    def minutes(self) -> float:
        """How long it is expected to take by itself, on an H200 and the cores of this machine."""
        return max(self.gpu_minutes, self.core_minutes / cores())

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    @property
    def identity(self) -> str:
        """SHA-256 of what it and those that it needs are told, wherever the pipeline's folder lies: told something else
        it is another stage."""
        words = [self._below(word) for word in self.command]
        written = {self._below(str(path)): text for path, text in self.writes.items()}
        return text_hash(json.dumps([words, written, self.above]))

    def _below(self, word: str) -> str:
        root = str(self.root)
        return f"OUT{word[len(root) :]}" if word == root or word.startswith(f"{root}{os.sep}") else word


def in_order(stages: Sequence[Stage]) -> list[Stage]:
    """The stages so that each follows those it needs and knows them, otherwise as given. Raises ConfigError for a need
    that is none of them, and for two of one name."""
    by_name = {stage.name: stage for stage in stages}
    if len(by_name) < len(stages):
        raise ConfigError("two stages have one name")
    ordered: list[Stage] = []
    left = list(stages)
    while left:
        done = {stage.name for stage in ordered}
        ready = next((stage for stage in left if done.issuperset(stage.needs)), None)
        if ready is None:
            odd = left[0]
            raise ConfigError(f"the stage {odd.name} needs {', '.join(odd.needs)}, which never are done")
        left.remove(ready)
        above = {stage.name: stage.identity for stage in ordered}
        ordered.append(replace(ready, above=tuple(above[name] for name in ready.needs)))
    return ordered


def expected_minutes(stages: Sequence[Stage], at_once: int) -> float:
    """When the last of `stages` would be over, were each as long as expected and none slower for those beside it."""
    left, done, running, now = list(stages), set[str](), dict[str, float](), 0.0
    names = {stage.name for stage in stages}
    while left or running:
        ready = next((s for s in left if all(need in done or need not in names for need in s.needs)), None)
        alone = any(s.alone for s in stages if s.name in running)
        if ready is not None and len(running) < at_once and not alone and not (ready.alone and running):
            left.remove(ready)
            running[ready.name] = now + ready.minutes
            continue
        now, first = min((end, name) for name, end in running.items())
        del running[first]
        done.add(first)
    return now


def chosen(stages: Iterable[Stage], only: Sequence[str]) -> list[Stage]:
    """Those that `only` names, by name or kind; all where it names none. Raises ConfigError for what is neither."""
    every = list(stages)
    for word in only:
        if not any(word in (stage.name, stage.kind) for stage in every):
            known = dict.fromkeys(name for stage in every for name in (stage.kind, stage.name))
            raise ConfigError(f"--only {word}: there is no such stage; there are {', '.join(known)}")
    return [stage for stage in every if not only or {stage.name, stage.kind} & set(only)]
