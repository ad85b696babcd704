"""Sealing a cell: its rows in one file, its numbers, and a record that holds the hash of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specvet.evaluation.cells import CELL, Cell, CellPlan, CellRecord, metrics_file
from specvet.evaluation.measures import measure
from specvet.evaluation.outcomes import outcome_of
from specvet.evaluation.plan import Campaign
from specvet.evaluation.rows import ROWS, read_rows, write_rows
from specvet.evaluation.rules import RULES, rule
from specvet.evaluation.sets import QuestionSet
from specvet.records import Decision, RunFolder, file_hash, text_hash, write_atomic
from specvet.records.receipt import Receipt, versions
from specvet.records.schema import Question
from specvet.vetting.report.story import is_simulated


class IncompleteError(ValueError):
    """A cell that cannot be sealed, since some of its questions have no row."""


def seal(
    path: Path,
    plan: CellPlan,
    asked: QuestionSet,
    campaign: Campaign,
    learnt: Callable[[str], bool | None] = lambda spectrum_hash: None,
) -> CellRecord:
    """Write `rows.parquet`, `metrics.json` and, last, `cell.json`. Raises IncompleteError, OSError.

    `learnt` tells whether the policy was trained on the spectrum of that hash; None where it does not know.
    """
    with RunFolder.read(path) as run:
        write_rows(path / ROWS, in_order(run, asked))
        receipt = run.receipt()
    name = rule(campaign.rule).name
    cost = receipt.usage.get("cost") or None
    seen = _seen(path / ROWS, learnt)
    numbers = numbers_of(
        path / ROWS,
        asked,
        plan,
        name,
        campaign.replicates,
        seconds=receipt.seconds,
        cost_usd=cost,
        seen_in_training=seen,
    )
    write_atomic(path / metrics_file(None, name), metrics_text(numbers))
    record = CellRecord(
        policy=plan.policy.slug,
        set=plan.set.slug,
        seed=plan.seed,
        contract=plan.contract,
        settings=plan.settings,
        questions=plan.set.questions,
        rows_sha256=file_hash(path / ROWS),
        receipt_sha256=file_hash(path / "receipt.json"),
        config_sha256=file_hash(path / "config.yaml"),
        rule=name,
        replicates=campaign.replicates,
        basis=basis_of(plan, campaign),
        metrics_sha256=file_hash(path / metrics_file(None, name)),
        machinery=numbers["machinery"],
        seen_in_training=seen,
        seconds=receipt.seconds,
        tokens_in=receipt.tokens_in,
        tokens_out=receipt.tokens_out,
        cost_usd=cost,
        usage=receipt.usage,
        sealed=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
    )
    write_atomic(path / CELL, record.model_dump_json(indent=1) + "\n")
    return record


def basis_of(plan: CellPlan, campaign: Campaign) -> str:
    """Hash of what a cell's numbers rest on besides its rows."""
    asked, unseen = plan.set, sorted(unseen_tasks(plan))
    return text_hash(
        json.dumps([rule(campaign.rule).name, campaign.replicates, asked.facts_sha256, unseen, asked.reference])
    )


def remeasure(cell: Cell, campaign: Campaign) -> None:
    """Make the numbers of a sealed cell again where the campaign now measures in another way: by another rule or with
    more replicates, or where the set tells other facts. Its rows stay as they are; so do rules it was rescored with."""
    plan = CellPlan(cell.policy, cell.set.record, cell.record.seed, cell.record.settings)
    basis, name = basis_of(plan, campaign), rule(campaign.rule).name
    if cell.record.basis == basis:
        return
    rescored = {json.loads(file.read_text(encoding="utf-8"))["rule"] for file in cell.path.glob("metrics.*.json")}
    record = cell.record.model_copy(update={"rule": name, "replicates": campaign.replicates, "basis": basis})
    measured = Cell(cell.path, record, cell.policy, cell.set)
    for each in (name, *sorted((rescored - {name}) & RULES.keys())):
        write_atomic(cell.path / metrics_file(each, name), metrics_text(metrics_of(measured, each)))
    (cell.path / metrics_file(name, "")).unlink(missing_ok=True)
    sha = file_hash(cell.path / metrics_file(None, name))
    write_atomic(cell.path / CELL, record.model_copy(update={"metrics_sha256": sha}).model_dump_json(indent=1) + "\n")


def metrics_of(cell: Cell, name: str | None = None) -> dict[str, Any]:
    """A sealed cell's numbers, made again from its rows: under its own rule, or another.

    Raises ValueError, OSError, KeyError and LedgerError for rows that cannot be read.
    """
    plan = CellPlan(cell.policy, cell.set.record, cell.record.seed, cell.record.settings)
    record = cell.record
    chosen = rule(name or record.rule).name
    return numbers_of(
        cell.path / ROWS,
        cell.set,
        plan,
        chosen,
        record.replicates,
        seconds=record.seconds,
        cost_usd=record.cost_usd,
        seen_in_training=record.seen_in_training,
    )


def metrics_text(numbers: dict[str, Any]) -> str:
    """`metrics.json` as it is written."""
    return json.dumps(numbers, indent=1, ensure_ascii=False) + "\n"


def numbers_of(
    rows: Path,
    asked: QuestionSet,
    plan: CellPlan,
    name: str,
    replicates: int,
    *,
    seconds: float,
    cost_usd: float | None,
    seen_in_training: int | None = None,
) -> dict[str, Any]:
    """What `metrics.json` says; `seconds`, `cost_usd` and `seen_in_training` are of the whole cell.

    `simulated` in it is how many of the questions are about a spectrum that says of itself that it is no observation.
    """
    chosen = rule(name)
    questions = asked.questions
    outcomes, simulated = [], 0
    for place, _, decision in read_rows(rows):
        outcomes.append(outcome_of(questions[place].question, decision, chosen, questions[place].facts))
        simulated += is_simulated(decision)
    record = plan.set
    n = len(outcomes)
    return {
        "schema_version": 1,
        "policy": plan.policy.slug,
        "label": plan.policy.label,
        "set": record.slug,
        "seed": plan.seed,
        "rule": chosen.name,
        "simulated": simulated,
        "seen_in_training": seen_in_training,
        "seconds_per_spectrum": round(seconds / n, 6) if n else None,
        "cost_usd_per_spectrum": None if cost_usd is None else round(cost_usd / n, 8),
        **measure(
            outcomes,
            replicates=replicates,
            unseen=unseen_tasks(plan),
            reference=record.reference,
        ),
    }


def _seen(rows: Path, learnt: Callable[[str], bool | None]) -> int | None:
    """How many rows are about spectra that the policy was trained on; None where it does not tell."""
    records = (decision.trajectory for _, _, decision in read_rows(rows))
    told = [learnt(record.spectrum_hash) for record in records if record is not None and record.spectrum_hash]
    return sum(map(bool, told)) if told and None not in told else None


def unseen_tasks(plan: CellPlan) -> frozenset[str]:
    """Tasks of the set whose class the policy was not trained on, by the set or by the policy's descriptor."""
    trained = plan.policy.trained_on
    beyond = () if trained is None else (key for key in plan.set.tasks if key not in trained)
    return frozenset(plan.set.unseen).union(beyond)


def in_order(run: RunFolder, asked: QuestionSet) -> Iterator[tuple[int, str, Decision]]:
    """Every question's decision, in the order of the set; files by the names that the questions have for them.

    Rows stand in a run in the order in which they ended, which is nearly that of the set: those that came early wait.
    """
    places = {one.question.id: place for place, one in enumerate(asked.questions)}
    waiting: dict[int, Decision] = {}
    following = 0
    for decision in run.decisions(with_trajectories=True):
        place = places.get(decision.id)
        if place is not None:
            waiting[place] = decision
        while following in waiting:
            one = asked.questions[following].question
            yield following, one.id, _named(waiting.pop(following), one)
            following += 1
    if following < len(places):
        missing = asked.questions[following].question.id
        left = len(places) - following - len(waiting)
        raise IncompleteError(f"{run.path}: {left} questions have no row yet, such as {missing}")


def _named(decision: Decision, question: Question) -> Decision:
    """A decision whose file is called as the question calls it, which holds wherever the set lies."""
    named = question.spectrum.path or question.spectrum.array_file or ""
    reason = decision.verdict.reason.replace(decision.file, named) if decision.file else decision.verdict.reason
    verdict = decision.verdict.model_copy(update={"reason": reason})
    return decision.model_copy(update={"file": named, "verdict": verdict})


def receipt_of(path: Path) -> Receipt:
    """`receipt.json` of a cell. Raises ValueError, OSError."""
    return Receipt.model_validate_json((path / "receipt.json").read_text(encoding="utf-8"))
