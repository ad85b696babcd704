"""What commands that use a model share: its options, and how it is opened."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specvet.cli.console import say
from specvet.cli.failure import NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from contextlib import ExitStack

    from specvet.agent import Budget, Engine
    from specvet.agent.crew import Crew
    from specvet.agent.talk import ModelPolicy
    from specvet.data.asking import TitleMode
    from specvet.policies import Policy
    from specvet.policies.options import ModelOptions
    from specvet.policies.tokens import SamplingParams
    from specvet.records import RunFolder
    from specvet.tasks import Wording

PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Who decides: embedded, line-indices, majority, trees, cnn, torch, openai, trio or tinker.",
    ),
]
PolicyNameOrDefault = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Who decides: embedded, line-indices, majority, trees, cnn, torch, openai, trio or tinker. By default "
        "embedded, where this installation holds its model and it was trained on the tasks; else line-indices.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Folder, hub id or a server's name. Without: of embedded the packaged one, of torch random weights.",
    ),
]
Adapter = Annotated[
    str | None,
    typer.Option("--adapter", help="LoRA folder (torch), or sampler weights (trio://…, tinker://…)."),
]
Revision = Annotated[str | None, typer.Option("--revision", help="Of a hub id.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="Of a server.")]
BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url", metavar="URL", help="Of a server; may be repeated: work is spread over all, and one may die."
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", metavar="NAME", help="Chat format; by default the model family's own.")
]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", metavar="PATH", help="Of a remote model, where it is not found by itself.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, …")]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")]
Processes = Annotated[
    int,
    typer.Option(
        "--processes",
        min=1,
        metavar="P",
        help="That share the work, each with the model: for a small one on a GPU, which waits for one process.",
    ),
]
Tools = Annotated[
    str,
    typer.Option("--tools", metavar="tools|text", help="How an openai server is told of the tool: its way, or ours."),
]
ToolImages = Annotated[
    str,
    typer.Option("--tool-images", metavar="auto|tool|user", help="In whose message an openai server gets pictures."),
]
Title = Annotated[
    str,
    typer.Option(
        "--title", metavar="plain|file", help="Over a model's figures; a file's name may give the class away."
    ),
]
RetryErrors = Annotated[bool, typer.Option("--retry-errors", help="Try files again that could not be read (ERROR).")]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Ask again where the policy gave no answer (FAILED).")
]


def title_mode(title: str) -> TitleMode:
    """The value of `--title`, or a message."""
    if title not in ("plain", "file"):
        raise CommandError(f"--title {title}: choose plain or file (its name, as in the published data)", USAGE)
    return cast("TitleMode", title)


def is_model(policy: str) -> bool:
    """Whether that name is a model's."""
    from specvet.policies import MODELS

    return policy in MODELS


def open_model(name: str, options: ModelOptions) -> ModelPolicy:
    """The model policy, or a message that says what is missing."""
    from specvet.policies import UnknownPolicyError, open_policy
    from specvet.policies.tokens import PolicyError

    options = _found(name, options)
    with failing(USAGE, UnknownPolicyError, PolicyError, ValueError), failing(NOTHING_VETTED, TimeoutError):
        return open_policy(name, options)


def _found(name: str, options: ModelOptions) -> ModelOptions:
    """The options, with the folder of a model that is known by its name."""
    from specvet.policies.registry import model_folder

    folder = None if options.model is None else model_folder(name, options.model)
    return replace(options, model=str(folder)) if folder else options


def fatal_errors(policy: str) -> tuple[type[Exception], ...]:
    """What a policy of that name may raise that ends a run."""
    if not is_model(policy):
        return ()
    from specvet.policies.tokens import PolicyError

    return (PolicyError,)


def open_measuring(name: str, model: str | None = None) -> Policy:
    """The policy that measures, by name; `model` is the folder of one that was trained."""
    from specvet.policies import UnknownPolicyError, policy
    from specvet.policies.specialists import SpecialistError

    with failing(USAGE, UnknownPolicyError, SpecialistError):
        return policy(name, model)


def servers(policy: str, urls: str | Sequence[str] | None) -> dict[str, Any]:
    """Addresses as `ModelOptions` takes them: the first, and those that share its work. A message where nobody can."""
    every = (urls,) if isinstance(urls, str) else tuple(urls or ())
    if len(every) > 1 and policy != "openai":
        raise CommandError("--base-url: only the policy openai is spread over several servers", USAGE)
    return {"base_url": every[0] if every else None, "more_urls": every[1:]}


def identity_of(policy: str, model: str | None, adapter: str | None) -> dict[str, Any]:
    """For a run's config: which model it is by name and hash; empty for a policy without one."""
    from specvet.policies.identity import model_identity

    with failing(NOTHING_VETTED, OSError):
        told = model_identity(policy, model, adapter)
    return {"model_identity": told} if told else {}


def probed(engine: Engine) -> list[dict[str, Any]]:
    """What the fast start-up probes of the engine's policy gave, as `specvet.policies.probes.Probe.as_dict`."""
    from specvet.chat import ImageError, LedgerError
    from specvet.policies.probes import probe
    from specvet.policies.tokens import PolicyError

    with failing(NOTHING_VETTED, PolicyError, TimeoutError, LedgerError, ImageError):
        return [found.as_dict() for found in engine.wait(probe(engine.policy, fast=True)).probes]


def probe_into(run: RunFolder, engine: Engine, quiet: bool) -> dict[str, float]:
    """The start-up probes, into the receipt; a failed one ends the command. Returns what they used, by name."""
    from specvet.policies.tokens import usage_numbers

    results = probed(engine)
    used = usage_numbers(engine.policy.usage)
    probing = {f"probes.{name}": value for name, value in used.items() if value}
    run.note_session(usage=used | probing, probes=results)
    failed = [r for r in results if r.get("ok") is False]
    if failed:
        name = engine.policy.name
        told = "; ".join(f"{r['name']} ({r.get('detail') or r.get('value')})" for r in failed)
        raise CommandError(
            f"the policy {name} failed its probes: {told}. Nothing was asked; `specvet doctor --policy {name}` says "
            "more, --no-probes goes on all the same",
            NOTHING_VETTED,
        )
    if not quiet:
        skipped = [str(r["name"]) for r in results if r.get("ok") is None]
        left = f", not probed: {', '.join(skipped)}" if skipped else ""
        say(f"probes: {len(results) - len(skipped)} passed{left}")
    return probing


def usage_of(engine: Engine, probing: Mapping[str, float]) -> Callable[[], dict[str, float]]:
    """What the engine's policy has used by now, by name, with what of it were probes."""
    from specvet.policies.tokens import usage_numbers

    return lambda: {**usage_numbers(engine.policy.usage), **probing}


def opened_engine(
    stack: ExitStack,
    policy: ModelPolicy,
    run: RunFolder,
    budget: Budget,
    params: SamplingParams,
    *,
    style: str,
    images: bool,
    concurrency: int = 1,
    wording: Wording = "full",
    guard: bool = False,
    keep: Callable[[bytes], str] | None = None,
    crew: Crew | None = None,
) -> Engine:
    """An engine with what it draws with, closed with `stack`. `keep` takes the pictures instead of the run folder.
    `crew` is what `opened_crew` gave for this policy; its processes draw themselves."""
    from specvet.agent import Engine
    from specvet.views import REFERENCE_STYLE, RenderPool

    pool, cores = None, os.cpu_count() or 1
    # The compact style takes 2 to 3 ms: processes gain only where many draw at a time on many cores.
    gains = style == REFERENCE_STYLE or (cores >= 4 and concurrency >= 16)
    if crew is None and gains and ("images" in policy.capabilities or images or keep):
        pool = stack.enter_context(RenderPool(processes=max(1, min(cores, 16, concurrency))))
    keep = keep or (run.images.put if images else None)
    # What the libraries hold (torch alone: half a million objects) need not be looked through again and again.
    gc.collect()
    gc.freeze()
    engine = Engine(
        policy,
        budget,
        params,
        pool=pool,
        keep_image=keep,
        concurrency=concurrency,
        wording=wording,
        guard=guard,
        crew=crew,
    )
    return stack.enter_context(engine)


def opened_crew(
    stack: ExitStack, policy: ModelPolicy, name: str, options: ModelOptions | None, processes: int
) -> Crew | None:
    """Processes that each open the model of that name as `policy` was opened, closed with `stack`; None for one."""
    if processes == 1 or options is None:
        return None
    from specvet.agent.crew import Crew
    from specvet.policies import open_policy
    from specvet.policies.tokens import PolicyError

    share = replace(_found(name, options), branches=-(-options.branches // processes))
    with failing(NOTHING_VETTED, PolicyError, TimeoutError):
        return stack.enter_context(Crew(policy, open_policy, (name, share), processes))
