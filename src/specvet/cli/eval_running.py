"""What `specvet eval run` does: resolve the campaign, open its policies, run its cells, tell what came of it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.cli import models
from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.evaluation.cells import CellPlan
    from specvet.evaluation.plan import Campaign
    from specvet.evaluation.running import Opened
    from specvet.evaluation.sets import QuestionSet


@dataclass(frozen=True, slots=True)
class Direct:
    """One policy and one set, as the command line gives them."""

    what: str
    name: str | None
    policy: dict[str, Any]
    facts: str | None
    tasks: list[str] | None
    limit: int | None
    set: str | None = None


def run_campaign(
    what: str,
    direct: Direct | None,
    settings: dict[str, Any],
    seeds: list[int] | None,
    out: str | None,
    *,
    only: list[str] | None,
    matched_budget: bool,
    retry: bool,
    probes: bool,
    print_config: bool,
    json: bool,
    quiet: bool,
) -> int:
    """Returns the exit code."""
    from specvet.cli.eval_manners import with_manners
    from specvet.cli.eval_tables import json_campaign, print_campaign
    from specvet.data.errors import InputError
    from specvet.records import RunError
    from specvet.records.lock import FolderLock
    from specvet.records.setup import check_folder

    with failing(USAGE, InputError):
        campaign, folder = _resolved(what, direct, settings, seeds, out, matched_budget)
        campaign, told = with_manners(campaign, folder, () if direct else settings)
        unknown = [slug for slug in only or () if slug not in campaign.policies and slug not in campaign.sets]
        if unknown:
            known = ", ".join([*campaign.policies, *campaign.sets])
            raise InputError(f"--only {unknown[0]}: is neither a policy nor a set of {what}; there are {known}")
    for said in told if not quiet else ():
        say(said)
    if print_config:
        _print_config(campaign, folder)
        return DONE
    with failing(CANNOT_WRITE, OSError, RunError):
        if not (folder / "campaign.yaml").is_file():
            check_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder)
    try:
        with failing(CANNOT_WRITE, OSError, RunError), failing(USAGE, InputError):
            code = _Campaign(campaign, folder, only or [], retry, probes, quiet, direct is not None).run()
    finally:
        lock.release()
    if json:
        print_json(json_campaign(folder, code))
    elif not quiet:
        print_campaign(folder)
    if code == INTERRUPTED and not quiet:
        from specvet.cli.vet import same_command

        say(f"stopped; what was over is in {folder}. To go on: {same_command(str(folder), out)}")
    return code


def _resolved(
    what: str,
    direct: Direct | None,
    settings: dict[str, Any],
    seeds: list[int] | None,
    out: str | None,
    matched_budget: bool,
) -> tuple[Campaign, Path]:
    """The campaign with paths from its folder, and that folder."""
    from specvet.evaluation.folder import open_campaign
    from specvet.evaluation.plan import PolicyPlan, read_campaign
    from specvet.evaluation.rebasing import checked, joined, rebased, set_of, slugged

    if direct is None:
        campaign = read_campaign(what)
        folder = Path(out or os.path.join("runs", campaign.name))
        update: dict[str, Any] = {"settings": campaign.settings.model_dump() | settings}
        if seeds:
            update["seeds"] = tuple(seeds)
        if matched_budget:
            update["matched_budget"] = True
        campaign = checked(campaign.model_dump() | update)
        return rebased(campaign, Path(what).parent, folder), folder
    slug, plan = set_of(direct.what, facts=direct.facts, tasks=direct.tasks, limit=direct.limit)
    slug = direct.set or slug
    who = direct.policy
    name = direct.name or slugged(Path(who["model"]).name if who.get("model") else who["policy"])
    folder = Path(out or os.path.join("runs", f"{name}-{slug}"))
    there = open_campaign(folder).campaign if (folder / "campaign.yaml").is_file() else None
    policy = PolicyPlan(**who, settings=settings)
    alone = rebased(joined(None, slugged(folder.name), {name: policy}, {slug: plan}, None), Path(), folder)
    made = joined(there, slugged(folder.name), alone.policies, alone.sets, tuple(seeds or ()))
    if matched_budget:
        made = made.model_copy(update={"matched_budget": True})
    return made, folder


def _print_config(campaign: Campaign, folder: Path) -> None:
    """The campaign as resolved, and its cells with the settings of each."""
    import yaml

    from specvet.evaluation.running import campaign_text

    print(campaign_text(campaign), end="")
    cells = [
        {"policy": slug, "set": asked, "seed": seed, "settings": campaign.settings_of(slug).model_dump()}
        for slug in campaign.policies
        for asked in campaign.sets
        for seed in campaign.seeds_of(slug)
    ]
    print(f"# into {folder}: {len(cells)} cells; nothing was read, made or asked")
    print(
        "\n".join(f"# {line}" for line in yaml.safe_dump(cells, sort_keys=False, default_flow_style=None).splitlines())
    )


class _Campaign:
    """One session of a campaign."""

    def __init__(
        self,
        campaign: Campaign,
        folder: Path,
        only: list[str],
        retry: bool,
        probes: bool,
        quiet: bool,
        joined: bool,
    ) -> None:
        self.joined = joined
        self.campaign, self.folder, self.retry, self.probes, self.quiet = campaign, folder, retry, probes, quiet
        self.policies = [slug for slug in campaign.policies if slug in only] or list(campaign.policies)
        self.sets = [slug for slug in campaign.sets if slug in only] or list(campaign.sets)

    def run(self) -> int:
        from specvet.evaluation.descriptors import describe, keep_descriptor
        from specvet.evaluation.folder import CAMPAIGN, MANIFEST, POLICIES, SETS
        from specvet.evaluation.running import campaign_text, cell_plans, finish, remove_leftovers, sealed_folder
        from specvet.evaluation.sets import keep_set
        from specvet.records import write_atomic

        campaign, folder = self.campaign, self.folder
        remove_leftovers(folder)
        sets = {slug: self._set(slug) for slug in self.sets}
        policies = {
            slug: describe(slug, campaign.policies[slug], campaign.label(slug), folder) for slug in self.policies
        }
        for found in sets.values():
            keep_set(folder / SETS, found)
        for slug, descriptor in policies.items():
            policies[slug] = keep_descriptor(folder / POLICIES, descriptor)
        write_atomic(folder / CAMPAIGN, campaign_text(campaign))
        plans = list(cell_plans(campaign, policies, sets))
        failed = interrupted = False
        for number, plan in enumerate(plans, 1):
            done = self._cell(number, len(plans), plan, sets[plan.set.slug])
            failed |= done is None
            if done is False:
                interrupted = True
                break
        everything = list(cell_plans(campaign, self._kept_policies(), self._kept_sets()))
        sealed = [place for plan in everything if (place := sealed_folder(folder, plan)) is not None]
        if sealed or (folder / MANIFEST).is_file():
            finish(folder, campaign, sealed)
        if failed:
            say(
                "the same command tries again what was not completed; who shall not be asked is taken out of "
                f"{folder / CAMPAIGN if self.joined else 'the campaign file'}"
            )
        return INTERRUPTED if interrupted else NOTHING_VETTED if failed else DONE

    def _kept_policies(self) -> dict[str, Any]:
        from specvet.evaluation.folder import POLICIES, open_campaign

        return open_campaign(self.folder).policies if (self.folder / POLICIES).is_dir() else {}

    def _kept_sets(self) -> dict[str, Any]:
        from specvet.evaluation.folder import open_campaign

        return open_campaign(self.folder).sets

    def _set(self, slug: str) -> QuestionSet:
        from specvet.cli.data_progress import shown_steps
        from specvet.data.errors import InputError
        from specvet.evaluation.recipes import make
        from specvet.evaluation.sets import load_set

        plan = self.campaign.sets[slug]
        if plan.recipe is None:
            assert plan.path is not None
            path = os.path.relpath(self.folder / plan.path)
            facts = None if plan.facts is None else os.path.relpath(self.folder / plan.facts)
            for field, place in (("path", path), ("facts", facts)):
                if place is not None and not os.path.isfile(place):
                    raise InputError(f"sets.{slug}.{field}: {place}: no such file (paths start at the campaign file)")
            return load_set(slug, plan, path, facts)
        with shown_steps(self.quiet) as progress:
            made = make(plan.recipe, progress=progress)
        return load_set(slug, plan, str(made.path), None if made.facts is None else str(made.facts), made.about)

    def _cell(self, number: int, of: int, plan: CellPlan, asked: QuestionSet) -> bool | None:
        """True when it is sealed, False when it was stopped, None when it could not be completed."""
        from specvet.cli.rollout_progress import shown_rollouts
        from specvet.cli.signals import stopped_by_signals
        from specvet.evaluation.running import run_cell
        from specvet.evaluation.sealing import IncompleteError
        from specvet.policies.tokens import PolicyError
        from specvet.tasks import TaskError

        seed = "" if plan.seed is None else f", seed {plan.seed}"
        told = f"cell {number} of {of}: {plan.policy.label} on {plan.set.slug} ({plan.set.questions:,} questions){seed}"
        if not self.quiet:
            say(told)
        try:
            with shown_rollouts(self.quiet) as progress, stopped_by_signals(progress.stopping) as stop:
                _, summary = run_cell(
                    self.folder,
                    plan,
                    asked,
                    self.campaign,
                    self._opened,
                    progress=progress,
                    stop=stop,
                    retry=self.retry,
                )
        except (PolicyError, CommandError, IncompleteError, TaskError) as e:
            # One policy that cannot go on must not keep the others from being measured.
            say(f"{told}: not completed: {e.message if isinstance(e, CommandError) else e}")
            return None
        if summary is None and not self.quiet:
            say("  it is complete already")
        return not (summary and summary.interrupted)

    def _opened(self, plan: CellPlan, stack: ExitStack) -> Opened:
        from specvet.evaluation.descriptors import RUN_HERE, located
        from specvet.evaluation.running import Opened
        from specvet.records.hashing import bytes_hash

        given, settings = self.campaign.policies[plan.policy.slug], plan.settings

        def here(path: str | None, place: bool = True) -> str | None:
            found = located(path, self.folder) if place else None
            return path if found is None else os.path.relpath(found)

        if not models.is_model(given.policy):
            from specvet.vetting.rollouts import Measuring

            decider = models.open_measuring(given.policy, here(given.model))
            # It measures and never looks: a picture is drawn only where it is to be kept.
            return Opened(
                decider,
                lambda stack, run, budget, params: Measuring(
                    decider, budget, run.images.put if settings.images else None
                ),
            )
        from specvet.agent import Engine
        from specvet.policies.options import ModelOptions

        options = ModelOptions(
            model=here(given.model, given.policy in RUN_HERE),
            adapter=here(given.adapter, given.policy in RUN_HERE),
            revision=None if given.policy == "openai" else given.revision,
            format=given.format,
            tokenizer=here(given.tokenizer),
            **models.servers(given.policy, given.base_url),
            device=settings.device,
            dtype=settings.dtype,
            branches=settings.concurrency,
            context=settings.context,
            tools=given.tools,
            tool_images=given.tool_images,
            timeout_s=settings.timeout,
        )
        model = models.open_model(given.policy, options)

        def engine(stack: ExitStack, run: Any, budget: Any, params: Any) -> Engine:
            keep = None if settings.images else bytes_hash
            return models.opened_engine(
                stack,
                model,
                run,
                budget,
                params,
                style=settings.style,
                images=settings.images,
                concurrency=settings.concurrency,
                wording=settings.wording,
                guard=settings.guard,
                keep=keep,
                crew=models.opened_crew(stack, model, given.policy, options, settings.processes),
            )

        def usage(engine: Any) -> dict[str, float]:
            return models.usage_of(engine, {})()

        def before(run: Any, engine: Any) -> dict[str, float]:
            return models.probe_into(run, engine, self.quiet)

        return Opened(model, engine, before if self.probes else None, usage)
