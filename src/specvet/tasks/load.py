"""Finds tasks: by name, as people write it, or from a YAML file. Built-in files and a user's go the same way."""

from __future__ import annotations

import difflib
import functools
import json
import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from specvet.tasks.errors import TaskError
from specvet.tasks.messages import task_error
from specvet.tasks.task import Task
from specvet.tasks.yaml_text import MAX_BYTES, read_yaml

_BUILTIN = ("cv", "cc", "ss", "gm", "wd")
"""Files of `stars/`, in the order that lists show them."""


def load_task(name_or_path: str | Path) -> Task:
    """The task with that name, or the one in that YAML file.

    A name may be the key, the class or an alias, in any case, with or without spaces and hyphens: `CV`, `carbon`, `gM`,
    `M giant`, `white dwarfs`. What ends in `.yaml` or `.yml` or holds a directory is a path; a name that is not known
    is tried as a path too. Raises TaskError.
    """
    if isinstance(name_or_path, Path) or _looks_like_path(name_or_path):
        return _task_from_file(Path(name_or_path).expanduser())
    key = _names().get(_simple(name_or_path))
    if key is not None:
        return builtin_tasks()[key]
    if Path(name_or_path).is_file():
        return _task_from_file(Path(name_or_path))
    raise TaskError(_unknown(name_or_path))


def builtin_tasks() -> dict[str, Task]:
    """The tasks that come with specvet, by key. Read on the first call and kept."""
    return dict(_builtin())


def resolve_tasks(names: str | Path | Task | Iterable[str | Path | Task]) -> list[Task]:
    """The tasks named in `"cv,wd"`, or in a list of names, paths and tasks: each once, in the order given.

    `all` stands for every built-in one.

    Raises TaskError when nothing is named, or when two tasks share a key but not their contents.
    """
    chosen: dict[str, tuple[Task, str]] = {}
    for item in _items(names):
        task = item if isinstance(item, Task) else load_task(item)
        label = f"task `{item.key}`" if isinstance(item, Task) else f"`{item}`"
        first, first_label = chosen.setdefault(task.key, (task, label))
        if first != task:
            raise TaskError(
                f"{first_label} and {label} both have the key `{task.key}`, but different contents; "
                "give one of them another `key`"
            )
    if not chosen:
        raise TaskError(f"no task is named; {_known()}")
    return [task for task, _ in chosen.values()]


def task_text(task: Task) -> str:
    """A task as a YAML file that loads as the same task: what a run keeps, so that it knows what was asked."""
    return _yaml_of(json.dumps(task.model_dump(mode="json", exclude_defaults=True)))


@functools.lru_cache(maxsize=32)
def _yaml_of(told: str) -> str:
    """JSON as YAML; kept, since writing it takes 0.1 s and every run and cell keeps the same few tasks."""
    import yaml

    return yaml.safe_dump(json.loads(told), allow_unicode=True, sort_keys=False, width=118)


def template_text() -> str:
    """A commented task file to start a new category from; it loads as it is."""
    return resources.files("specvet.tasks").joinpath("template.yaml").read_text(encoding="utf-8")


def task_from_bytes(raw: bytes, file: str) -> Task:
    """The task in a YAML file's bytes; `file` is the name that errors show. Raises TaskError."""
    source = read_yaml(raw, file)
    try:
        return Task.model_validate(source.data)
    except ValidationError as error:
        raise task_error(error, source, file) from None


def _task_from_file(path: Path) -> Task:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise TaskError(f"{path}: there is no such file; check the path, or name a built-in task") from None
    except IsADirectoryError:
        raise TaskError(f"{path}: this is a directory; name the task file in it") from None
    except (OSError, ValueError) as error:
        raise TaskError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return task_from_bytes(raw, str(path))


@functools.cache
def _builtin() -> dict[str, Task]:
    folder = resources.files("specvet.tasks").joinpath("stars")
    tasks = (task_from_bytes(folder.joinpath(f"{key}.yaml").read_bytes(), f"stars/{key}.yaml") for key in _BUILTIN)
    return {task.key: task for task in tasks}


@functools.cache
def _names() -> dict[str, str]:
    """Every accepted spelling, simplified → key."""
    names: dict[str, str] = {}
    for key, task in _builtin().items():
        for name in (key, task.name, task.data_source, *task.aliases):
            if name:
                names.setdefault(_simple(name), key)
    for name, key in list(names.items()):
        if len(name) > 3:
            names.setdefault(name + "s", key)
    return names


def _simple(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _looks_like_path(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml")) or "/" in name or os.sep in name


def _items(names: str | Path | Task | Iterable[str | Path | Task]) -> list[str | Path | Task]:
    if isinstance(names, (str, Path, Task)):
        names = [names]
    items: list[str | Path | Task] = []
    for item in names:
        if isinstance(item, str) and not Path(item).is_file():
            for part in filter(None, (part.strip() for part in item.split(","))):
                items += list(_builtin().values()) if part.casefold() == "all" else [part]
        else:
            items.append(item)
    return items


def _known() -> str:
    return "known are " + ", ".join(f"{key} ({task.name})" for key, task in _builtin().items())


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(_simple(name), list(_names()), n=1, cutoff=0.6)
    hint = f"did you mean `{_names()[near[0]]}` ({_builtin()[_names()[near[0]]].name})? " if near else ""
    return f"there is no task `{name}`; {hint}{_known()}; a category of your own is a path to a YAML file"
