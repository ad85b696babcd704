"""The rows of a cell: every question exactly one, each trajectory held against itself and against the set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specvet.agent.readings import Said, said_of
from specvet.chat import Ledger, LedgerError
from specvet.evaluation.cells import Cell
from specvet.evaluation.outcomes import POLICY_ENDS
from specvet.evaluation.rows import ROWS
from specvet.evaluation.running import as_asked
from specvet.evaluation.sealing import in_order
from specvet.evaluation.verify import turns
from specvet.evaluation.verify.checks import Check, Findings, differing, drift
from specvet.records import WHOLE_FILE, Decision, RunFolder
from specvet.records.schema import Answer, Question, TrajectoryRecord
from specvet.records.session import added

CHECKS = ("rows", "questions", "verdicts", "ledgers", "turns", "counts")


@dataclass(slots=True)
class Summed:
    """What the rows of a cell sum up to, as receipts count."""

    decisions: int = 0
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    stops: dict[str, dict[str, int]] = field(default_factory=dict)
    sums: dict[str, dict[str, int]] = field(default_factory=dict)
    spectra: set[str] = field(default_factory=set)
    """Their content hashes."""
    policies: set[str] = field(default_factory=set)
    """Names, as trajectories have them."""
    machinery: int = 0

    def count(self, decision: Decision) -> None:
        record = decision.trajectory
        self.decisions += 1
        _more(self.answers, decision.task, str(decision.verdict.answer))
        if record is None:
            self.machinery += 1
            return
        _more(self.stops, decision.task, str(record.stop))
        self.machinery += record.stop not in POLICY_ENDS
        self.policies.add(record.policy)
        if record.spectrum_hash:
            self.spectra.add(record.spectrum_hash)
        if record.tokens is not None:
            self.sums = added([self.sums, {decision.task: record.sums}])


def _more(table: dict[str, dict[str, int]], task: str, name: str) -> None:
    of_task = table.setdefault(task, {})
    of_task[name] = of_task.get(name, 0) + 1


def check_rows(cell: Cell, known: turns.Vocabularies) -> tuple[list[Check], Summed]:
    """What is wrong with a cell's rows, and what they sum up to. Raises what a damaged file makes its reader raise."""
    found, summed = Findings(cell.name, CHECKS), Summed()
    then = drift(cell.record.versions, "specvet")
    questions = cell.set.questions
    seen: dict[int, int] = {}
    columns = _columns(cell.path)
    last = -1
    for n, (place, id, decision) in enumerate(cell.rows()):
        where = f"row {n} ({id})"
        summed.count(decision)
        seen[place] = seen.get(place, 0) + 1
        if not 0 <= place < len(questions) or questions[place].question.id != id:
            found.add("rows", [f"{where}: is no question of the set at place {place}"])
            continue
        if place < last:
            found.add("rows", [f"{where}: stands out of order"])
        last = place
        asked = as_asked(questions[place].question, cell.record.settings)

        def note(check: str, problems: Iterator[str], where: str = where) -> None:
            found.add(check, (f"{where}: {problem}" for problem in problems))

        note("questions", _question_problems(decision, asked, columns[n]))
        note("verdicts", _verdict_problems(decision, cell))
        record = decision.trajectory
        if record is None:
            continue
        ledger: Ledger | None = None
        said: tuple[Said, ...] = ()
        if record.ledger is not None:
            try:
                ledger = Ledger.from_dict(record.ledger)
                note("ledgers", turns.ledger_problems(record, ledger, known))
                said = said_of(record) or ()
                problems = list(turns.turn_problems(record, ledger, said))
            except LedgerError as e:
                note("ledgers", iter([str(e)]))
                continue
            # What a verdict is has one version of its rule; how a malformed turn is called may get better.
            found.add("turns", (f"{where}: {problem}" for problem in problems), "" if _decides(problems) else then)
        else:
            note("turns", turns.measured_problems(record))
        note("turns", turns.window_problems(record))
        note("counts", turns.count_problems(record, ledger))
        found.add("counts", (f"{where}: {p}" for p in turns.reward_problems(record, ledger, said, cell.tasks)), then)
    found.add("rows", (f"{questions[p].question.id}: has {k} rows" for p, k in _twice(seen, len(questions))))
    missing = [one.question.id for place, one in enumerate(questions) if place not in seen]
    found.add("rows", (f"{id}: has no row" for id in missing))
    found.looked = f"{summed.decisions:,} rows"
    return found.checks(), summed


def _decides(problems: list[str]) -> bool:
    return any("verdict" in problem or "it ended as" in problem for problem in problems)


def _twice(seen: dict[int, int], n: int) -> Iterator[tuple[int, int]]:
    return ((place, k) for place, k in seen.items() if k > 1 and 0 <= place < n)


def _columns(path: Path) -> list[tuple[str, str]]:
    """(task, answer) of each row, as its columns say beside the decision."""
    import pyarrow.parquet as pq

    table = pq.read_table(path / ROWS, columns=["task", "answer"], page_checksum_verification=True)
    return list(zip(table["task"].to_pylist(), table["answer"].to_pylist(), strict=True))


def _question_problems(decision: Decision, asked: Question, columns: tuple[str, str]) -> Iterator[str]:
    record = decision.trajectory
    yield from differing("column task", columns[0], decision.task)
    yield from differing("column answer", columns[1], str(decision.verdict.answer))
    yield from differing("id", decision.id, asked.id)
    yield from differing("task", decision.task, asked.task if record is not None else WHOLE_FILE)
    yield from differing("file", decision.file, asked.spectrum.path or asked.spectrum.array_file)
    yield from differing("row of its file", decision.row, asked.spectrum.row)
    if record is not None and record.question != asked:
        then, now = record.question.model_dump(), asked.model_dump()
        other = ", ".join(name for name in now if then[name] != now[name])
        yield f"its trajectory was asked another question than the set's ({other})"


def _verdict_problems(decision: Decision, cell: Cell) -> Iterator[str]:
    record = decision.trajectory
    if record is None:
        yield from differing("verdict of a spectrum that could not be read", str(decision.verdict.answer), Answer.ERROR)
        return
    # Files are called in a decision as the question calls them, in its trajectory as they lay then.
    then, now = decision.verdict.model_dump(exclude={"reason"}), record.verdict.model_dump(exclude={"reason"})
    for name in then:
        yield from differing(f"verdict {name}, here and in its trajectory", then[name], now[name])
    yield from differing("hash of its task", record.task_hash, cell.set.record.tasks.get(record.question.task))
    yield from _branch(record)


def _branch(record: TrajectoryRecord) -> Iterator[str]:
    yield from differing("sample", record.sample, 0)
    yield from differing("group", record.group, 1)
    if len(record.turns) and record.opening is None:
        yield "it has turns and no opening"


def check_run(cell: Cell) -> list[Check]:
    """Whether the rows are those that the run's own database holds, where it is kept."""
    if not (cell.path / "run.db").is_file():
        return []
    found = Findings(cell.name, ("run",))
    n = 0
    with RunFolder.read(cell.path) as run:
        for n, ((_, id, row), (_, _, kept)) in enumerate(zip(cell.rows(), in_order(run, cell.set), strict=True), 1):
            if _as_kept(row) != _as_kept(kept):
                found.add("run", [f"row {n - 1} ({id}): is not what run.db holds"])
    found.looked = f"{n:,} rows as in run.db"
    return found.checks()


def _as_kept(decision: Decision) -> dict[str, Any]:
    """A decision as rows keep it: of the log-probs those of the last turn. NaN is a word in JSON, and equals itself."""
    fields = decision.model_dump(mode="json")
    ledger = (fields["trajectory"] or {}).get("ledger") or {"segments": []}
    said = [segment for segment in ledger["segments"] if "sampled" in segment]
    for segment in said[:-1]:
        segment["logprobs"] = None
    return fields
