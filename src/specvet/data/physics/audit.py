"""An audit of solved problems: every stored call is made again, the answer is matched, and copies are found.

A row is dropped for the first of these reasons, in this order:

| reason | why |
|---|---|
| `unreadable` | it is no `Problem`, see `rows` |
| `fabricated` | the model's own text begins a tool's result |
| `call_differs` | a stored call is not the one that the text before it makes, or is not to `sympy` |
| `result_differs` | the tool says something else, or the text does not show the stored result |
| `answer_wrong` | the answer that the model gave does not match the gold (`no_answer` is one of these) |
| `duplicate` | its question is a near-duplicate of an earlier row's, see `near` |
| `contaminated` | its question is a near-duplicate of one in another set |

Rows without a solution pass the checks of a solution, and their `audit` says None for those.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from specvet.chat.sympy_tags import result_text
from specvet.data.errors import InputError, Reject
from specvet.data.physics.near import LIMIT, contaminated, duplicates, words
from specvet.data.physics.rows import Loaded, load_problems, picture_of, write_problems
from specvet.data.physics.solving import SolvingTool, check_extra, patient_tool
from specvet.records import file_hash, versions, write_atomic
from specvet.records.problems import Audit, Problem
from specvet.tasks.physics.matching import match
from specvet.tasks.physics.reading import fabricated, read_answer, sampled

RECEIPT, REJECTS = "audit.json", "rejects.jsonl"

REASONS = (
    "unreadable", "fabricated", "call_differs", "result_differs", "answer_wrong", "duplicate", "contaminated",
)  # fmt: skip

_CALL = re.compile(r"<tool>\s*(\w+)\s*:(.*?)</tool>\s*$", re.DOTALL)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit kept and dropped."""

    kept: tuple[Problem, ...]
    """In order, each with its `audit`."""
    dropped: tuple[Reject, ...]
    """The reason begins with a word of `REASONS` and a colon."""
    calls: int
    """Made again."""

    @property
    def counts(self) -> dict[str, int]:
        """Rows kept, rows dropped by reason, calls made again."""
        found = Counter(one.reason.partition(":")[0] for one in self.dropped)
        return {"kept": len(self.kept), **{reason: found[reason] for reason in REASONS}, "calls": self.calls}


def audit(
    loaded: Loaded,
    tool: Callable[[], SolvingTool],
    *,
    against: Sequence[Problem] = (),
    limit: float = LIMIT,
    workers: int = 1,
    progress: Progress = lambda doing, done, total: None,
) -> Audited:
    """Check all rows.

    Args:
        tool: makes a tool for each row (an episode), such as `patient_tool`.
        against: problems of other sets, which no kept row may be near.
        limit: Jaccard index of word 5-grams from which two questions are near.
        workers: threads that call the tool.
    """
    dropped = [Reject(one.id, one.where, f"unreadable: {one.reason}") for one in loaded.rejects]
    calls = sum(segment.call is not None for p in loaded.problems for segment in p.segments)
    checked: list[tuple[Problem, str]] = []
    with ThreadPoolExecutor(max(1, workers)) as pool:
        verdicts: list[str] = []
        for verdict in pool.map(lambda p: _wrong(p, tool), loaded.problems):
            verdicts.append(verdict)
            progress("calls made again", len(verdicts), len(loaded.problems))
    for problem, where, verdict in zip(loaded.problems, loaded.places, verdicts, strict=True):
        if verdict:
            dropped.append(Reject(problem.id, where, verdict))
        else:
            checked.append((problem, where))
    kept: list[Problem] = []
    texts = [words(problem) for problem, _ in checked]
    others = list(against)
    same = _with_other_picture(duplicates(texts, limit), [p for p, _ in checked], [p for p, _ in checked])
    leaked = _with_other_picture(
        contaminated(texts, [words(p) for p in others], limit), [p for p, _ in checked], others
    )
    for i, (problem, where) in enumerate(checked):
        if i in same:
            dropped.append(Reject(problem.id, where, f"duplicate: near {checked[same[i]][0].id}"))
        elif i in leaked:
            dropped.append(Reject(problem.id, where, f"contaminated: near {others[leaked[i]].id}"))
        else:
            solved = True if problem.segments else None
            told = Audit(result_reexecuted=solved, answer_matches=solved, contamination=False if others else None)
            kept.append(problem.model_copy(update={"audit": told}))
    return Audited(tuple(kept), tuple(dropped), calls)


def _wrong(problem: Problem, tool: Callable[[], SolvingTool]) -> str:
    """Why a solution is not to be learnt from; empty if nothing is wrong, or there is none."""
    texts = sampled(problem.segments)
    if not problem.segments:
        return ""
    if fabricated(texts):
        return "fabricated: the model's text begins a tool's result"
    episode = tool()
    for before, segment in zip((None, *problem.segments), problem.segments, strict=False):
        call, stored = segment.call, segment.result
        if call is None or stored is None:
            continue
        made = _CALL.search(before.text) if before is not None and before.kind == "model" else None
        if call.name != "sympy" or made is None or made[1] != call.name or made[2].strip() != call.argument.strip():
            return f"call_differs: the text before it does not call sympy: {call.argument}"
        result = episode.run(call.argument)
        if (result.status, result.text) != (stored.status, stored.text.strip()):
            return f"result_differs: {call.argument} gives {result.text!r}, not {stored.text!r}"
        if segment.text.strip() != result_text(stored.text):
            return f"result_differs: the text shows {segment.text!r}, not the stored result"
    decision = match(read_answer(texts).text, problem.gold)
    return "" if decision.right else f"answer_wrong: {decision.reason}"


def _with_other_picture(near: dict[int, int], ours: Sequence[Problem], theirs: Sequence[Problem]) -> dict[int, int]:
    """Without pairs that both show pictures, but others: the same words then ask something else."""
    return {i: j for i, j in near.items() if not _differ(_pictures(ours[i]), _pictures(theirs[j]))}


def _differ(a: frozenset[str], b: frozenset[str]) -> bool:
    return bool(a) and bool(b) and not a & b


def _pictures(problem: Problem) -> frozenset[str]:
    return frozenset(sha256(picture_of(figure)).hexdigest() for figure in problem.images)


def audit_file(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    against: Sequence[str | os.PathLike[str]] = (),
    limit: float = LIMIT,
    workers: int = 2,
    progress: Progress = lambda doing, done, total: None,
) -> Audited:
    """Audit a file with the `sympy` tool into the new folder `out`: `problems.jsonl` (kept), `rejects.jsonl` and the
    receipt `audit.json` with counts, hashes and versions, written last. Raises InputError, OSError."""
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not empty; choose a new folder")
    check_extra()
    loaded = load_problems(path)
    others = [problem for other in against for problem in load_problems(other).problems]
    found = audit(loaded, patient_tool, against=others, limit=limit, workers=workers, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    write_problems(folder / "problems.jsonl", found.kept)
    rejects = (json.dumps({k: v for k, v in asdict(one).items() if v is not None}) for one in found.dropped)
    write_atomic(folder / REJECTS, "".join(f"{one}\n" for one in rejects))
    receipt: dict[str, Any] = {
        "counts": found.counts,
        "limit": limit,
        "input": {"name": Path(path).name, "sha256": file_hash(Path(path))},
        "against": [{"name": Path(other).name, "sha256": file_hash(Path(other))} for other in against],
        "output_sha256": file_hash(folder / "problems.jsonl"),
        "versions": versions() | _versions(),
    }
    write_atomic(folder / RECEIPT, json.dumps(receipt, indent=1) + "\n")
    return found


def _versions() -> dict[str, str]:
    """Of what decides what the tool says and how answers match."""
    from importlib.metadata import version

    return {name: version(name) for name in ("sympy", "pint")}
