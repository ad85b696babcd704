"""`specvet rollout`: spectra or questions in, trajectories out, token by token."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specvet.cli import asking, models
from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.plot import frame_mode
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from specvet.agent import Budget
    from specvet.agent.talk import ModelPolicy
    from specvet.cli.rollout_summary import Kept
    from specvet.data.asking import TitleMode
    from specvet.policies import Policy
    from specvet.policies.manner import Manner
    from specvet.policies.options import ModelOptions
    from specvet.policies.tokens import SamplingParams
    from specvet.records.schema import Answer
    from specvet.tasks import Task, Wording
    from specvet.vetting.rollouts import Wanted
    from specvet.vetting.watch import RolloutSummary


def rollout(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT", help="Files, folders, quoted globs or lists, as for vet; or a question file."),
    ],
    *,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="Tasks, as in cv,wd; all; or a YAML file. A question file has its own."),
    ] = None,
    policy: models.PolicyName = "torch",
    model: models.Model = None,
    adapter: models.Adapter = None,
    revision: models.Revision = None,
    base_url: models.BaseUrls = None,
    format: models.Format = None,
    tokenizer: models.Tokenizer = None,
    device: models.Device = "auto",
    dtype: models.Dtype = "auto",
    tools: models.Tools = "tools",
    tool_images: models.ToolImages = "auto",
    group: Annotated[int, typer.Option("--group", min=1, metavar="N", help="Trajectories of each question.")] = 1,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="0 takes the likeliest token.")] = 1.0,
    top_p: Annotated[float, typer.Option("--top-p", min=0.0, max=1.0, help="Nucleus sampling; 1 keeps all.")] = 1.0,
    top_k: Annotated[int, typer.Option("--top-k", min=0, help="0 keeps all.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Of all sampling.")] = 0,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="A call in the last is not executed. By default 8.")
    ] = None,
    max_malformed: Annotated[
        int, typer.Option("--max-malformed", min=0, help="Malformed turns that are answered with a reminder.")
    ] = 0,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, metavar="N", help="That a turn may have; by default 2,048.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            "--context", min=2, metavar="N", help="Tokens of a trajectory, pictures included; by default 16,384."
        ),
    ] = None,
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=0.0, help="Of a trajectory.")] = 600.0,
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help="Seconds of one request.")] = 600.0,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, metavar="N", help="Trajectories under way at a time.")
    ] = 16,
    processes: models.Processes = 1,
    wording: asking.Wording = None,
    style: asking.Style = None,
    size: asking.Size = None,
    frame: Annotated[
        str, typer.Option("--frame", metavar="MODE", help="When to take the file's redshift out, as for vet.")
    ] = "careful",
    title: models.Title = "plain",
    images: Annotated[bool, typer.Option("--images/--no-images", help="Keep the pictures that were shown.")] = True,
    root: Annotated[str | None, typer.Option("--root", metavar="DIR", help="Where a list's paths start.")] = None,
    path_column: Annotated[
        str | None, typer.Option("--path-column", metavar="NAME", help="The list's column of paths, if unusual.")
    ] = None,
    z_column: Annotated[
        str | None, typer.Option("--z-column", metavar="NAME", help="The list's column of redshifts of your own.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="RUN", help="Run folder; by default runs/ and the time.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N inputs.")] = None,
    probes: Annotated[
        bool, typer.Option("--probes/--no-probes", help="Check first that pictures reach the model, and more.")
    ] = True,
    retry_errors: models.RetryErrors = False,
    retry_failed: models.RetryFailed = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON summary on stdout instead of the table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Let a model answer questions in several turns, and keep every token.

    A question file is JSON Lines or Parquet; paths in it are relative to it:

    \b
      {"id": "q1", "task": "cv", "spectrum": {"path": "a.fits", "row": 0}, "answer": "YES"}
      {"id": "q2", "task": "cv", "spectrum": {"array_file": "train.npz", "row": 17}}

    The N trajectories of a question share its first prompt, then each goes its own way. Every trajectory is on disk
    before the next is reported: Ctrl-C finishes those under way, and the same command makes those that are missing.
    Look at one with `specvet transcript RUN`. A model whose folder says how it is asked (specvet.json: wording, style,
    size, turns, tokens) is asked so, but for what is said here.

    \b
    Exit codes:
      0    trajectories were made, whatever the model answered
      1    none could be made, or a probe failed
      2    the command is wrong, or the policy cannot be opened
      4    the disk is full, or the run folder cannot be written
      130  interrupted; what was over is kept
    """
    mode = frame_mode(frame)
    titled = models.title_mode(title) if models.is_model(policy) else None
    from specvet.agent import Budget
    from specvet.cli.rollout_summary import json_rollouts, print_rollouts
    from specvet.policies.manner import PUBLISHED
    from specvet.policies.tokens import SamplingParams
    from specvet.records import RunError, RunMismatchError
    from specvet.records.schema import Answer
    from specvet.tasks import TaskError
    from specvet.vetting.inputs import InputError

    given = {"wording": wording, "style": style, "size": size, "max_turns": max_turns, "context": context}
    manner, says = asking.manner_for(policy, model, given | {"turn_tokens": max_tokens}, PUBLISHED)
    if not 0.0 < top_p <= 1.0:
        raise CommandError(f"--top-p {top_p:g}: give a number above 0, and 1 to keep all", USAGE)
    if temperature == float("inf"):
        raise CommandError("--temperature inf: give a finite number; 1 samples as the model says", USAGE)
    with failing(USAGE, TaskError, InputError):
        asked = _Asked(inputs, task, root, path_column, z_column, limit, manner.wording)
    folder = out or os.path.join("runs", datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    budget = Budget(manner.max_turns, max_malformed, max_seconds, manner.turn_tokens, manner.context)
    params = SamplingParams(manner.turn_tokens, temperature, top_p, top_k, seed)
    addresses = models.servers(policy, base_url)
    decider: Policy | ModelPolicy
    opening: tuple[str, ModelOptions | None, int] = policy, None, processes
    if models.is_model(policy):
        from specvet.policies.options import ModelOptions

        options = ModelOptions(
            model=model,
            adapter=adapter,
            revision=revision,
            format=format,
            tokenizer=tokenizer,
            **addresses,
            device=device,
            dtype=dtype,
            branches=concurrency,
            context=manner.context,
            tools=tools,
            tool_images=tool_images,
            timeout_s=timeout,
        )
        decider, opening = models.open_model(policy, options), (policy, options, processes)
    else:
        decider = models.open_measuring(policy, model)
        with failing(USAGE, TaskError):
            for one in asked.tasks:
                decider.check(one)
    config: dict[str, Any] = {
        "inputs": inputs,
        "root": root,
        "path_column": path_column,
        "z_column": z_column,
        "limit": limit,
        "model": model,
        "adapter": adapter,
        "revision": revision,
        "base_url": base_url,
        "tools": tools,
        "device": device,
        "dtype": dtype,
        "concurrency": concurrency,
        "images": images,
    } | models.identity_of(policy, model, adapter)
    if policy == "torch" and model is None:
        asked.notices.append("no --model: a tiny one with random weights answers, which means nothing")
    keys = [task.key for task in asked.tasks]
    asked.notices += [said for said in (says, asking.untrained(manner, keys)) if said]
    for notice in asked.notices if not quiet else ():
        say(notice)
    with failing(CANNOT_WRITE, OSError, RunError), failing(USAGE, RunMismatchError, InputError):
        again = [*([Answer.ERROR] if retry_errors else []), *([Answer.FAILED] if retry_failed else [])]
        looks = (mode, manner, titled)
        summary, kept = _made(
            asked,
            decider,
            folder,
            config,
            budget,
            params,
            group,
            concurrency,
            looks,
            images,
            probes,
            again,
            quiet,
            opening,
        )
    code = _exit_code(summary, kept.stops)
    if json:
        print_json(json_rollouts(folder, summary, kept, decider.name, code))
    elif not quiet:
        print_rollouts(folder, summary, kept)
    if summary.interrupted and not quiet:
        from specvet.cli.vet import same_command

        say(f"stopped; what was over is in {folder}. To go on: {same_command(folder, out)}")
    raise typer.Exit(code)


class _Asked:
    """What is to be asked of what."""

    def __init__(
        self,
        inputs: list[str],
        task: list[str] | None,
        root: str | None,
        path_column: str | None,
        z_column: str | None,
        limit: int | None,
        wording: Wording,
    ) -> None:
        from specvet.data.asking import tasks_of
        from specvet.data.questions import is_question_file, read_questions
        from specvet.tasks import resolve_tasks
        from specvet.vetting.inputs import InputError, expand_inputs
        from specvet.vetting.rollouts import wanted_of_items, wanted_of_questions

        self.notices: list[str] = []
        self.tasks: list[Task]
        self.wanted: Iterable[Wanted]
        self.total: int | None
        """Questions, where it is known."""
        self.at_least = False
        """Whether `total` counts files, each of which may hold several spectra."""
        for name in inputs:
            if name.lower().endswith((".jsonl", ".parquet", ".pq")) and not (
                os.path.exists(name) or set(name) & set("*?[")
            ):
                raise InputError(f"{name}: no such file")
        files = [name for name in inputs if is_question_file(name)]
        if files and len(inputs) > 1:
            raise InputError(f"{files[0]}: is a question file; give it alone")
        if files:
            if root or path_column or z_column:
                raise InputError("--root, --path-column and --z-column are for lists; a question file has none of them")
            questions = read_questions(files[0])
            given = {t.key: t for t in resolve_tasks(task)} if task else {}
            if given:
                questions = [q for q in questions if q.question.task in given]
                if not questions:
                    raise InputError(f"{files[0]}: holds no question about {', '.join(given)}")
            questions = questions[:limit]
            named = tasks_of(questions, files[0], given.values())
            self.tasks = list(named.values())
            self.wanted = wanted_of_questions(questions, named, wording)
            self.total = len(questions)
            return
        if not task:
            raise InputError("--task is missing: say what to ask, as in --task cv,wd (a question file says it itself)")
        self.tasks = resolve_tasks(task)
        items = expand_inputs(inputs, root=root, path_column=path_column, z_column=z_column)
        if items.total == 0:
            raise InputError(f"{', '.join(inputs)}: nothing to ask about, no files or rows in it")
        self.notices = items.notices
        self.wanted = wanted_of_items(islice(items, limit), self.tasks)
        counted = items.total if limit is None else limit if items.total is None else min(limit, items.total)
        self.at_least = True
        self.total = None if counted is None else counted * len(self.tasks)


def _made(
    asked: _Asked,
    decider: Policy | ModelPolicy,
    folder: str,
    config: dict[str, Any],
    budget: Budget,
    params: SamplingParams,
    group: int,
    concurrency: int,
    looks: tuple[str, Manner, TitleMode | None],
    images: bool,
    probes: bool,
    again: list[Answer],
    quiet: bool,
    opening: tuple[str, ModelOptions | None, int],
) -> tuple[RolloutSummary, Kept]:
    """What this session did, and what the whole run holds."""
    from specvet.agent import Engine
    from specvet.cli.rollout_progress import shown_rollouts
    from specvet.cli.rollout_summary import Kept
    from specvet.policies.tokens import PolicyError
    from specvet.records import RunFolder
    from specvet.vetting.rollouts import Measuring, rollout_settings
    from specvet.vetting.rollouts import rollout as roll_out

    mode, manner, title = looks
    style, size, wording = manner.style, manner.pixels, manner.wording
    with ExitStack() as stack:
        drawing = (mode, budget, style, size, title, wording)
        settings = rollout_settings(asked.tasks, decider, group, params, *drawing)  # type: ignore[arg-type]
        run = stack.enter_context(RunFolder.open(folder, kind="rollout", config=config | settings))
        for answer in again:
            run.retry(answer)
        engine: Engine | Measuring
        before: Callable[[], None] | None = None
        probing: dict[str, float] = {}
        if hasattr(decider, "act"):
            engine = Measuring(cast("Policy", decider), budget, run.images.put if images else None)
        else:
            engine = opened = models.opened_engine(
                stack,
                decider,
                run,
                budget,
                params,
                style=style,
                images=images,
                concurrency=concurrency,
                wording=wording,
                crew=models.opened_crew(stack, decider, *opening),
            )
            if probes:

                def before() -> None:
                    probing.update(models.probe_into(run, opened, quiet))

        with (
            failing(NOTHING_VETTED, PolicyError),
            shown_rollouts(quiet, asked.at_least) as progress,
            stopped_by_signals(progress.stopping) as stop,
        ):
            summary = roll_out(
                asked.wanted,
                asked.tasks,
                engine,
                run,
                group=group,
                concurrency=concurrency,
                frame_mode=mode,  # type: ignore[arg-type]
                style=style,
                size=size,
                title=title,
                before=before,
                usage=models.usage_of(engine, probing) if isinstance(engine, Engine) else dict,
                progress=progress,
                stop=stop,
                total=None if asked.total is None else asked.total * group,
            )
    with RunFolder.read(folder) as kept:  # closed, so that its receipt is complete
        return summary, Kept.of(kept)


def _exit_code(summary: RolloutSummary, stops: dict[str, int]) -> int:
    if summary.interrupted:
        return INTERRUPTED
    made = sum(n for stop, n in stops.items() if stop != "policy_error")
    return DONE if made else NOTHING_VETTED
