"""A prefilter: what `line-indices` finds hopeless is a NO, and no model is asked about it.

Measuring takes some milliseconds and asking a model tens to thousands. Of a list in which one in five hundred is of the
class most can be left out, at the price of the few true ones that measure as hopeless; how many that are is to be told
of a labelled set beside every result (`recall_of`). Hopeless is what the class's screen says (see
`specvet.vetting.screen`), or, where a threshold is given or the class has no screen, a NO with a probability of YES
below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from specvet.agent import Budget, run_agent
from specvet.policies.line_indices import LineIndices
from specvet.records import text_hash, write_atomic
from specvet.records.schema import Answer, Question, TrajectoryRecord, Verdict
from specvet.tasks import Task
from specvet.tools import ZoomTool
from specvet.vetting.deciding import Decider, Tell
from specvet.vetting.screen import evidence_hash, fingerprint, screen_of

DEFAULT_BELOW = 0.02
"""Probability of YES, as `line-indices` states it, below which a row is left out that no screen is for."""

SCREENS, THRESHOLD = "line-indices screens", "line-indices below "
"""The two ways, as a run's settings name them."""

_BUDGET = Budget()

PREFIX = "prefilter: "
"""What the reason of a row begins with that no model was asked about."""


class Prefilter:
    """Measures a question's spectrum; `rejected` gives the row of a hopeless one."""

    def __init__(self, below: float | None = None) -> None:
        """`below` None: by screens. Raises ValueError for a threshold at which nothing or all would be left out."""
        if below is not None and not 0.0 < below < 0.5:
            raise ValueError(f"a prefilter below {below:g}: give a probability above 0 and under 0.5")
        self.below = below
        self.asked = self.left_out = 0
        self._policy = LineIndices()

    @property
    def settings(self) -> dict[str, object]:
        """What of it can change a verdict."""
        own = self._policy.fingerprint
        if self.below is None:
            return {"prefilter": SCREENS, "prefilter_fingerprint": text_hash(f"{own} {fingerprint()}")}
        return {"prefilter": f"{THRESHOLD}{self.below:g}", "prefilter_fingerprint": own}

    def check(self, task: Task) -> None:
        """Whether it can measure for this task. Raises TaskError; ValueError for a task without evidence."""
        self._policy.check(task)
        if not task.evidence:
            raise ValueError(f"the task {task.key!r} lists no evidence, so that nothing can be measured before a model")

    def rejected(self, question: Question, task: Task, tool: ZoomTool) -> TrajectoryRecord | None:
        """The trajectory of the measuring that makes it a NO; None where the model is to be asked.

        What measuring cannot decide, and what it breaks on, goes to the model.
        """
        self.asked += 1
        try:
            record = run_agent(question, task, tool, self._policy, _BUDGET)
        except MemoryError:
            raise
        except Exception:  # the model is asked, and says what is wrong
            return None
        verdict = record.verdict
        why = hopeless(task, verdict, self.below)
        if not why:
            return None
        self.left_out += 1
        reason = f"{PREFIX}{verdict.reason} ({why}; no model was asked)"
        return record.model_copy(update={"verdict": verdict.model_copy(update={"reason": reason})})


def hopeless(task: Task, verdict: Verdict, below: float | None = None) -> str:
    """Why no model need be asked where `line-indices` said this: a clear NO, never an UNSURE. Empty where one must.

    `below` None: by the task's screen, or `DEFAULT_BELOW` where it has none.
    """
    if verdict.answer is not Answer.NO or verdict.p_yes is None:
        return ""
    screen = screen_of(task) if below is None else None
    if screen is not None:
        score = screen.score(verdict)
        return f"screened: {score:.2g} is below {screen.below:g}" if score < screen.below else ""
    below = DEFAULT_BELOW if below is None else below
    return f"p {verdict.p_yes:.2g} is below {below:g}" if verdict.p_yes < below else ""


def prefilter_named(text: str) -> Prefilter | None:
    """The prefilter that a run's settings name; None for `none`."""
    if text == "none":
        return None
    return Prefilter(None if text == SCREENS else float(text.removeprefix(THRESHOLD)))


class Prefiltered:
    """A decider that asks another one only about what is left."""

    def __init__(self, inner: Decider, prefilter: Prefilter) -> None:
        self._inner, self._prefilter = inner, prefilter

    def begin(self, question: Question, task: Task, tool: ZoomTool, tell: Tell) -> bool:
        record = self._prefilter.rejected(question, task, tool)
        if record is None:
            return self._inner.begin(question, task, tool, tell)
        tell(record)
        return True

    def finish(self) -> None:
        self._inner.finish()

    def abandon(self) -> None:
        self._inner.abandon()


@dataclass(frozen=True, slots=True)
class Recall:
    """What a prefilter does to a labelled set, for one task."""

    task: str
    positives: int
    kept: int
    """Positives that are not left out."""
    others: int
    left_out: int
    """Of the others."""

    @property
    def recall(self) -> float | None:
        """Share of the positives that a model would be asked about; None without any."""
        return self.kept / self.positives if self.positives else None

    def interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Clopper-Pearson interval of the recall."""
        from scipy.stats import beta

        if not self.positives:
            return None
        tail, missed = 0.5 * (1.0 - confidence), self.positives - self.kept
        low = 0.0 if not self.kept else float(beta.ppf(tail, self.kept, missed + 1))
        high = 1.0 if not missed else float(beta.ppf(1.0 - tail, self.kept + 1, missed))
        return low, high

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "task": self.task,
            "positives": self.positives,
            "kept": self.kept,
            "recall": self.recall,
            "interval": self.interval(),
            "others": self.others,
            "left_out": self.left_out,
        }


def recall_of(measured: Iterable[tuple[str, bool, bool]]) -> list[Recall]:
    """What a prefilter does to labelled rows: (task, whether it is of the class, whether it is left out).

    A row that is UNSURE, or could not be measured, is kept: a model would be asked.
    """
    counts: dict[str, list[int]] = {}
    for task, positive, out in measured:
        of_task = counts.setdefault(task, [0, 0, 0, 0])
        if positive:
            of_task[0] += 1
            of_task[1] += not out
        else:
            of_task[2] += 1
            of_task[3] += out
    return [Recall(task, *numbers) for task, numbers in sorted(counts.items())]


class KeptRecall(BaseModel):
    """One task of a `KeptRecalls`; its fields are those of `Recall`."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    task: str
    positives: int
    kept: int
    recall: float
    interval: tuple[float, float]
    others: int
    left_out: int
    evidence: str
    """Hash of what the task weighs, see `screen.evidence_hash`."""


class KeptRecalls(BaseModel):
    """What a prefilter does to a labelled set, as `specvet triage prefilter --out` keeps it."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: Literal["specvet prefilter"] = "specvet prefilter"
    below: float | None
    """None: by screens."""
    fingerprint: str
    """Of the thresholds and screens that it was measured with."""
    labels: str
    recalls: tuple[KeptRecall, ...]

    def is_of(self, prefilter: Prefilter, tasks: Iterable[Task]) -> bool:
        """Whether it still tells what this prefilter does to these tasks; of tasks that it does not name, nothing."""
        known = {one.task: one.evidence for one in self.recalls}
        same = all(known.get(task.key, evidence_hash(task)) == evidence_hash(task) for task in tasks)
        return same and self.fingerprint == prefilter.settings["prefilter_fingerprint"]


def write_recalls(
    path: str | PathLike[str], below: float | None, recalls: Iterable[Recall], labels: str, tasks: Mapping[str, Task]
) -> None:
    """Keep what a prefilter (`below` None: by screens) does to a labelled set (`labels` names it).

    `tasks` are those of the recalls, by key. Raises `OSError`.
    """
    rows = [r.as_dict() | {"evidence": evidence_hash(tasks[r.task])} for r in recalls if r.positives]
    fingerprint = str(Prefilter(below).settings["prefilter_fingerprint"])
    told = {"below": below, "fingerprint": fingerprint, "labels": labels, "recalls": rows}
    write_atomic(path, KeptRecalls.model_validate(told).model_dump_json(indent=2) + "\n")


def read_recalls(path: str | PathLike[str]) -> KeptRecalls:
    """What `write_recalls` kept. Raises `OSError`; ValueError for another file."""
    try:
        return KeptRecalls.model_validate_json(Path(path).read_bytes())
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(
            f"{path}: is not what specvet triage prefilter writes ({where}: {first['msg']}); make it with that"
        ) from None
