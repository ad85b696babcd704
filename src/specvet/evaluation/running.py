"""Running a campaign: cell by cell, every trajectory on disk before the next is reported.

    cell_plans(campaign, …) → run_cell(each) → seal → finish: summary and manifest

A cell that is sealed is left as it is. One that was stopped goes on; one that something other than its policy ends (a
server that is gone for good) stays open and does not keep the others from being made. A question whose trajectory could
not be made (a server that fails on it, a file that cannot be read) has its row, which counts as wrong.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import yaml

from specvet.agent import Budget
from specvet.agent.opening import in_wording
from specvet.agent.talk import ModelPolicy
from specvet.data.errors import InputError
from specvet.data.files import printable
from specvet.data.questions import Asked
from specvet.evaluation.cells import CELL, CellPlan, read_record
from specvet.evaluation.folder import CAMPAIGN, CELLS, MANIFEST, POLICIES, SETS, SUMMARY, manifest_of, open_campaign
from specvet.evaluation.plan import Campaign, RunSettings
from specvet.evaluation.rescore import rescore
from specvet.evaluation.rows import ROWS
from specvet.evaluation.rules import RULES, rule
from specvet.evaluation.sealing import remeasure, seal
from specvet.evaluation.sets import QuestionSet
from specvet.evaluation.summary import summarise
from specvet.policies import Policy
from specvet.policies.tokens import SamplingParams
from specvet.records import RunFolder, RunMismatchError, file_hash, write_atomic
from specvet.records.files import TEMPORARY
from specvet.records.schema import Answer, Question, StopReason
from specvet.tasks import ANSWER_FORM, SYSTEM_TEXT
from specvet.vetting.rollouts import Engine, rollout, rollout_settings, wanted_of_questions
from specvet.vetting.watch import RolloutProgress, RolloutSummary

RETRIED = (StopReason.POLICY_ERROR, StopReason.OUT_OF_TIME, StopReason.TOKEN_DRIFT, StopReason.LEDGER)
"""Ends that `retry` makes again: machinery's doing. What a policy did itself stands."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A policy that is ready to be asked."""

    policy: Policy | ModelPolicy
    engine: Callable[[ExitStack, RunFolder, Budget, SamplingParams], Engine]
    """Makes what rolls out, closed with the stack."""
    before: Callable[[RunFolder, Engine], Mapping[str, float]] | None = None
    """Probes the policy before its first question; returns what that used."""
    usage: Callable[[Engine], Mapping[str, float]] = lambda engine: {}


class Opener(Protocol):
    """Opens the policy of a cell, on its stack."""

    def __call__(self, plan: CellPlan, stack: ExitStack) -> Opened: ...


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that a killed session left in a campaign's folder; its cells see to their own."""
    for place in (folder, folder / POLICIES, folder / SETS):
        for stale in place.glob(TEMPORARY):
            stale.unlink(missing_ok=True)


def cell_plans(campaign: Campaign, policies: Mapping[str, Any], sets: Mapping[str, QuestionSet]) -> Iterator[CellPlan]:
    """All cells, policy by policy; `policies` (descriptors) and `sets` by slug, those that are not there left out."""
    for slug in campaign.policies:
        for asked in campaign.sets:
            if slug in policies and asked in sets:
                for seed in campaign.seeds_of(slug):
                    yield CellPlan(policies[slug], sets[asked].record, seed, campaign.settings_of(slug))


def run_cell(
    folder: Path,
    plan: CellPlan,
    asked: QuestionSet,
    campaign: Campaign,
    opener: Opener,
    *,
    progress: Callable[[RolloutProgress], None] | None = None,
    stop: threading.Event | None = None,
    retry: bool = False,
) -> tuple[Path, RolloutSummary | None]:
    """Make what is missing of a cell, and seal it when all of it is there. Returns its folder and what was done.

    None for a cell that was sealed before. Raises what opens a policy raises, fatal PolicyErrors, InputError,
    TaskError for a task that the policy cannot be asked about, DiskFullError, RunError.
    """
    sealed = sealed_folder(folder, plan)
    if sealed is not None and not (retry and _unsealed(sealed)):
        return sealed, None
    settings = plan.settings
    budget = Budget(
        settings.max_turns, settings.max_malformed, settings.max_seconds, settings.max_tokens, settings.context
    )
    params = SamplingParams(settings.max_tokens, settings.temperature, settings.top_p, settings.top_k, plan.seed or 0)
    size = settings.pixels
    with ExitStack() as stack:
        opened = opener(plan, stack)
        model = not hasattr(opened.policy, "act")
        title = settings.title if model else None
        tasks = list(asked.tasks.values())
        if not model:
            for task in tasks:
                cast("Policy", opened.policy).check(task)
        looks = (settings.frame, budget, settings.style, size, title, settings.wording, settings.guard and model)
        decisive = rollout_settings(tasks, opened.policy, 1, params, *looks)
        config = {
            "cell": {"policy": plan.policy.slug, "set": plan.set.slug, "seed": plan.seed, "contract": plan.contract},
            "settings": settings.model_dump(),
            "descriptor": plan.policy.model_dump(mode="json"),
            "question_set": plan.set.model_dump(mode="json"),
            **decisive,
        }
        run, path = _opened(folder, plan, config, stack)
        if retry:
            retried(run)
        left = list(_left(run, asked, plan))
        engine = opened.engine(stack, run, budget, params)
        probing: dict[str, float] = {}

        def before() -> None:
            if opened.before is not None:
                probing.update(opened.before(run, engine))

        summary = rollout(
            wanted_of_questions(left, asked.tasks),
            tasks,
            engine,
            run,
            concurrency=settings.concurrency,
            frame_mode=settings.frame,
            style=settings.style,
            size=size,
            title=title,
            before=before,
            usage=lambda: {**opened.usage(engine), **probing},
            progress=progress,
            stop=stop,
            total=len(left),
        )
    if not summary.interrupted:
        seal(path, plan, asked, campaign, getattr(opened.policy, "learnt", lambda spectrum_hash: None))
    return path, summary


def retried(run: RunFolder) -> int:
    """Remove rows that machinery ended, so that they are made again; those of a policy's own doing stand. Returns how
    many; the run keeps an event of each."""
    run.retry(Answer.ERROR)
    again = [
        d for d in run.decisions(with_trajectories=True) if d.trajectory is not None and d.trajectory.stop in RETRIED
    ]
    for d in again:
        assert d.trajectory is not None
        run.withdraw_question(d.id, f"ended by {d.trajectory.stop}, to be tried again")
    return len(again)


def sealed_folder(folder: Path, plan: CellPlan) -> Path | None:
    """Where a cell lies that was sealed before."""
    for place in sorted((folder / CELLS).glob(f"{plan.name}*")):
        record = read_record(place)
        if record is not None and record.contract == plan.contract:
            return place
    return None


def _unsealed(place: Path) -> bool:
    """Open a sealed cell again whose machinery failed, where its run is still there; False where it stays sealed."""
    record = read_record(place)
    if record is None or not record.machinery or not (place / "run.db").is_file():
        return False
    (place / CELL).unlink()
    return True


def finish(folder: Path, campaign: Campaign, sealed: list[Path]) -> None:
    """Write the campaign's summary and manifest over the cells that count now, and the summaries of other rules.

    Raises InputError where the rows of a sealed cell are no longer what was sealed: no manifest is to name them.
    """
    write_atomic(folder / CAMPAIGN, campaign_text(campaign))
    current = [place.name for place in sealed]
    for cell in open_campaign(folder).cells:
        if file_hash(cell.path / ROWS) != cell.record.rows_sha256:
            raise InputError(
                f"{cell.path / ROWS}: is damaged: it is not the file that was sealed; put it back, or remove cell.json "
                "beside it and run the same command again, which makes it from the run's own rows"
            )
        remeasure(cell, campaign)
    write_atomic(folder / MANIFEST, _json({"schema_version": 1, "current": sorted(current), "files": {}}))
    write_atomic(folder / SUMMARY, _json(summarise(open_campaign(folder))))
    write_atomic(folder / MANIFEST, _json(manifest_of(folder, current)))
    for file in sorted(folder.glob("metrics.*.json")):
        name = json.loads(file.read_text(encoding="utf-8"))["rule"]
        if name == rule(campaign.rule).name:
            file.unlink()
        elif name in RULES:
            rescore(open_campaign(folder), name)
    write_atomic(folder / MANIFEST, _json(manifest_of(folder, current)))


def campaign_text(campaign: Campaign) -> str:
    """A campaign as YAML, all of it resolved but what is at its default within policies and sets."""
    told = campaign.model_dump(mode="json", exclude_none=True)
    told["policies"] = {
        slug: plan.model_dump(mode="json", exclude_defaults=True, exclude_none=True) | {"policy": plan.policy}
        for slug, plan in campaign.policies.items()
    }
    told["sets"] = {
        slug: plan.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        | ({"recipe": plan.recipe.model_dump(mode="json", exclude_none=True)} if plan.recipe else {})
        for slug, plan in campaign.sets.items()
    }
    return str(yaml.safe_dump(told, sort_keys=False, allow_unicode=True))


def as_asked(question: Question, settings: RunSettings) -> Question:
    """A question as it is asked: in the wording that is wanted, and with the form of an answer once more at its end.

    Where that reminder is wanted it stands behind the question's own prompt, else behind the system text.
    """
    if not settings.format_reminder:
        return in_wording(question, settings.wording)
    if question.prompt is not None:
        return question.model_copy(update={"prompt": f"{question.prompt}\n\n{ANSWER_FORM}"})
    return question.model_copy(update={"system": f"{question.system or SYSTEM_TEXT}\n\n{ANSWER_FORM}"})


def _left(run: RunFolder, asked: QuestionSet, plan: CellPlan) -> Iterator[Asked]:
    """The questions that have no row yet, as they are asked.

    They are known by their ids: a run knows spectra by their files, which may lie elsewhere now than when the cell was
    begun (a set that is made again in another cache, a folder that was moved).
    """
    decided = {decision.id for decision in run.decisions()}
    for one in asked.questions:
        if printable(one.question.id) not in decided:
            yield Asked(as_asked(one.question, plan.settings), one.file, one.where)


def _opened(folder: Path, plan: CellPlan, config: Mapping[str, Any], stack: ExitStack) -> tuple[RunFolder, Path]:
    """The cell's run; another folder beside it where libraries or a template make other rows than those there."""
    for n in range(1, 1_000):
        path = folder / CELLS / (plan.name if n == 1 else f"{plan.name}--{n}")
        try:
            return stack.enter_context(RunFolder.open(path, "eval", config)), path
        except RunMismatchError:
            continue
    raise AssertionError("a thousand folders of one cell")  # pragma: no cover


def _json(what: Mapping[str, Any]) -> str:
    return json.dumps(what, indent=1, ensure_ascii=False) + "\n"
