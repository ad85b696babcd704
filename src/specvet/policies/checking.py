"""Whether the names in a task mean something to `line-indices`, told before the first spectrum is read."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator

from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import formula_names
from specvet.tasks import Condition, Evidence, IndexDefinition, Rival, Task, TaskError, builtin_rivals


def check_names(task: Task) -> None:
    """Raises TaskError, one line a mistake, for indices and rivals that do not exist and formulas that fail."""
    problems = [f"task `{task.key}`: {where}: {what}" for where, what in _problems(task)]
    if problems:
        raise TaskError("\n".join(problems))


def _problems(task: Task) -> Iterator[tuple[str, str]]:
    """(field, what is wrong and what to do) for each mistake."""
    known = {**dict.fromkeys(BUILTIN_INDICES), **dict.fromkeys(task.indices)}
    for key, index in task.indices.items():
        if key in BUILTIN_INDICES:
            yield f"indices.{key}", "is the name of a built-in index, which rivals rest on; give yours another name"
        if index.kind == "formula":
            yield from _formula_problems(key, task.indices, known)
        elif index.kind in ("line", "width") and not _between(index):
            yield f"indices.{key}.reference", "a line needs one continuum range on each side of its band"
    for i, e in enumerate(task.evidence):
        yield from _unknown(f"evidence[{i}]", e, known)
    for i, rule in enumerate(task.undecidable):
        yield from _unknown_given(f"undecidable[{i}]", rule.given, known)
    for i, rival in enumerate(task.rivals):
        if isinstance(rival, Rival):
            for k, e in enumerate(rival.evidence):
                yield from _unknown(f"rivals[{i}].evidence[{k}]", e, known)
        elif rival not in builtin_rivals():
            yield f"rivals[{i}]", f"there is no built-in rival `{rival}`; {_near(rival, builtin_rivals())}"


def _formula_problems(
    key: str, indices: dict[str, IndexDefinition], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    where = f"indices.{key}.formula"
    try:
        names = formula_names(indices[key].formula)
    except ValueError as e:
        yield where, str(e)
        return
    for name in names:
        if name not in known:
            yield where, f"there is no index `{name}`; {_near(name, known)}"
    if key in _below(key, indices):
        yield where, f"`{key}` rests on itself; a formula may only use what does not use it"


def _below(key: str, indices: dict[str, IndexDefinition]) -> set[str]:
    """Names of all that the formula `key` rests on, through formulas of the same task."""
    seen: set[str] = set()
    queue = [key]
    while queue:
        index = indices.get(queue.pop())
        if index is None or index.kind != "formula":
            continue
        try:
            names = formula_names(index.formula)
        except ValueError:  # told where it stands
            continue
        queue += [n for n in names if n not in seen]
        seen.update(names)
    return seen


def _between(index: IndexDefinition) -> bool:
    assert index.band is not None  # the schema sees to it
    low, high = sorted(0.5 * (a + b) for a, b in index.reference)
    return low < 0.5 * sum(index.band) < high


def _unknown(where: str, e: Evidence, known: Collection[str]) -> Iterator[tuple[str, str]]:
    if e.index not in known:
        yield f"{where}.index", f"there is no index `{e.index}`; {_near(e.index, known)}"
    yield from _unknown_given(where, e.given, known)


def _unknown_given(where: str, given: Iterable[Condition], known: Collection[str]) -> Iterator[tuple[str, str]]:
    for i, c in enumerate(given):
        if c.index not in known:
            yield f"{where}.given[{i}].index", f"there is no index `{c.index}`; {_near(c.index, known)}"


def _near(word: str, known: Collection[str]) -> str:
    """The names that `word` may have meant, else where the list is."""
    simple = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), simple, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"`{simple[n]}`" for n in near) + "?"
    if len(known) <= 20:
        return "known are " + ", ".join(known)
    return "`specvet tasks --indices` lists the built-in ones"
