"""`specvet eval run`: a campaign file, or one policy on one question set."""

from __future__ import annotations

from typing import Annotated

import typer

from specvet.cli import asking, models
from specvet.cli.failure import USAGE, CommandError

IN_FILE = "write it into the campaign file: facts, tasks and limit with a set, what tells of a model with its policy"

Seeds = Annotated[
    list[int] | None, typer.Option("--seed", metavar="N", help="Of all sampling; may be repeated. By default 42.")
]


def run(
    what: Annotated[
        str,
        typer.Argument(
            metavar="CAMPAIGN.yaml|QUESTIONS",
            help="A campaign file; or a question file, simvi:small:val, suite:cross-survey:300, to ask one policy.",
        ),
    ],
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="embedded, line-indices, majority, trees, cnn, torch, openai, trio or tinker.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="SLUG", help="Of the policy in tables; by default from the model.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="The same for people.")] = None,
    set_name: Annotated[
        str | None, typer.Option("--set", metavar="SLUG", help="Name of the question set; by default from its file.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Where the weights come from: a run, owner/repo@commit, …")
    ] = None,
    model: models.Model = None,
    adapter: models.Adapter = None,
    revision: models.Revision = None,
    base_url: models.BaseUrls = None,
    format: models.Format = None,
    tokenizer: models.Tokenizer = None,
    tools: models.Tools = "tools",
    tool_images: models.ToolImages = "auto",
    facts: Annotated[
        str | None,
        typer.Option("--facts", metavar="CSV", help="What each spectrum is: name, kind, subtype, snr, survey."),
    ] = None,
    task: Annotated[list[str] | None, typer.Option("--task", help="Only questions about it; may be repeated.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only N questions, evenly over the tasks.")
    ] = None,
    seed: Seeds = None,
    temperature: Annotated[float | None, typer.Option("--temperature", min=0.0, help="By default 0.6.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", min=0.0, max=1.0, help="By default 1.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", min=0, help="By default 0: all.")] = None,
    max_turns: Annotated[int | None, typer.Option("--max-turns", min=1, help="By default 8.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Of one generation; by default 6,144.")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", min=2, metavar="N", help="Of a trajectory; by default 16,384.")
    ] = None,
    format_reminder: Annotated[
        bool | None,
        typer.Option(
            "--format-reminder/--no-format-reminder", help="Say the answer's form once more, as to a base model."
        ),
    ] = None,
    wording: asking.Wording = None,
    style: asking.Style = None,
    size: asking.Size = None,
    guard: Annotated[
        bool | None,
        typer.Option(
            "--guard/--no-guard", help="Say UNSURE where nobody could decide, as vet does; by default models are asked."
        ),
    ] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", min=1, help="By default 16.")] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="That share the work, each with the model; by default 1.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:1, …")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")] = None,
    images: Annotated[
        bool | None, typer.Option("--images/--no-images", help="Keep the pictures; else their hashes, to draw again.")
    ] = None,
    matched_budget: Annotated[
        bool, typer.Option("--matched-budget", help="Give all policies the largest budget that any of them has.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="SLUG", help="Of a campaign, only this policy or set; may be repeated."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FOLDER", help="Campaign folder; by default runs/ and the name.")
    ] = None,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="Try again what a server or a file ended; a policy's own failures stand."),
    ] = False,
    probes: Annotated[
        bool, typer.Option("--probes/--no-probes", help="Check first that pictures reach the model, and more.")
    ] = True,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Show the campaign as resolved, and its cells; touch nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON summary on stdout instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Ask policies the questions of a set, and measure them.

    \b
      specvet eval run simvi:small:val --policy line-indices --out E
      specvet eval run rl/bench_dev.jsonl --policy torch --model MODEL --out E
      specvet eval run campaign.yaml --out E

    The defaults are those of the published reproduction: temperature 0.6, seed 42, 16 at a time, at most 8 turns,
    16,384 tokens. A model whose folder says how it is asked (specvet.json: wording, style, size, turns, tokens) is
    asked so, but for what is said here or in its own `settings`. Another policy or set with the same --out joins the
    campaign that is there. Finished rows are never made again and never deleted: what alters a row (weights, questions,
    settings, seed) begins a new cell. The same command goes on after an interruption.

    \b
    Exit codes:
      0    every cell is complete, whatever was answered
      1    some cell could not be completed
      2    the command or the campaign file is wrong
      4    the disk is full, or the folder cannot be written
      130  interrupted; what was over is kept
    """
    from specvet.cli.eval_running import Direct, run_campaign

    given = {
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "max_turns": max_turns,
        "max_tokens": max_tokens,
        "context": context,
        "format_reminder": format_reminder,
        "wording": wording,
        "style": style,
        "size": size,
        "guard": guard,
        "concurrency": concurrency,
        "processes": processes,
        "device": device,
        "dtype": dtype,
        "images": images,
    }
    settings = {key: value for key, value in given.items() if value is not None}
    described = {
        "model": model,
        "adapter": adapter,
        "revision": revision,
        "base_url": base_url[0] if base_url and len(base_url) == 1 else base_url,
        "format": format,
        "tokenizer": tokenizer,
        "label": label,
        "source": source,
    }
    from_file = what.lower().endswith((".yaml", ".yml"))
    if from_file:
        told = {"policy": policy, "name": name, "set": set_name, "facts": facts, "task": task, "limit": limit}
        for key, value in (told | described).items():
            option = f"--{key.replace('_', '-')}"
            if value is not None:
                raise CommandError(f"{option}: {IN_FILE}", USAGE)
        for option, chosen, default in (("--tools", tools, "tools"), ("--tool-images", tool_images, "auto")):
            if chosen != default:
                raise CommandError(f"{option}: {IN_FILE}", USAGE)
        direct = None
    else:
        if policy is None:
            raise CommandError("--policy is missing: say who shall answer, as in --policy line-indices", USAGE)
        if only:
            raise CommandError("--only is for campaign files", USAGE)
        options = {"policy": policy, "tools": tools, "tool_images": tool_images} | described
        direct = Direct(what, name, {k: v for k, v in options.items() if v is not None}, facts, task, limit, set_name)
    raise typer.Exit(
        run_campaign(
            what,
            direct,
            settings,
            seed,
            out,
            only=only,
            matched_budget=matched_budget,
            retry=retry,
            probes=probes,
            print_config=print_config,
            json=json,
            quiet=quiet,
        )
    )
