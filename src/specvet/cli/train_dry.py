"""`specvet train … --dry-run`: what a run would work on, use and cost, counted without a model."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import DONE, USAGE, failing
from specvet.cli.progress import LINE_EVERY_S, duration
from specvet.cli.train_summary import count_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from specvet.data.errors import Reject
    from specvet.training.config import TrainConfig
    from specvet.training.dry import Estimate, GrpoDry, Lengths, SftDry

SHOWN_REJECTS = 5

Row = tuple[str, str, str]
"""What, how much, and more about it."""


def dry(config: TrainConfig, prices: str | None, assume: list[str], json: bool, quiet: bool) -> int:
    """Count, and print a table or one JSON object. Returns the exit code."""
    from specvet.data.errors import InputError
    from specvet.policies.tokens import PolicyError
    from specvet.training.config import ConfigError, SftConfig
    from specvet.training.dry import assumptions, dry_grpo, dry_sft
    from specvet.training.estimate import load_prices, price_of
    from specvet.training.inputs import grpo_data, sft_data
    from specvet.training.opening import chat_format_of, check_model

    told: SftDry | GrpoDry
    with failing(USAGE, ConfigError, InputError, PolicyError), tempfile.TemporaryDirectory(prefix="specvet-") as folder:
        price = price_of(load_prices(prices), config.backend, config.model.name)
        assumed = assumptions(assume)
        check_model(config)
        format = chat_format_of(config)
        if isinstance(config.loop, SftConfig):
            train, validation, rejects = sft_data(config.loop, format, folder)
            told = dry_sft(config.loop, train, rejects, validation, price, assumed)
        else:
            questions, dev = grpo_data(config.loop, folder)
            told = dry_grpo(
                config.loop,
                questions,
                format,
                len(dev.asked) if dev else 0,
                price,
                assumed,
                processes=max(1, min(os.cpu_count() or 1, 16)),
                counted=None if quiet else _counting(len(questions.asked)),
            )
    if json:
        print_json({"stage": config.stage, "profile": config.profile, "backend": config.backend} | told.as_dict())
    else:
        _print(config, told)
    return DONE


def _counting(total: int) -> Callable[[int], None]:
    """Says now and then how many first prompts have been drawn."""
    last = time.monotonic()

    def counted(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY_S:
            last = time.monotonic()
            say(f"{done:,} of {total:,} first prompts drawn and counted")

    return counted


def _print(config: TrainConfig, told: SftDry | GrpoDry) -> None:
    from rich import box
    from rich.table import Table

    from specvet.training.dry import SftDry

    out = console()
    told_of = f"{config.stage} with {config.profile} on {config.backend}"
    out.print(f"{told_of}: what it would be. Nothing was trained.\n", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in _sft_rows(told) if isinstance(told, SftDry) else _grpo_rows(told):
        table.add_row(*row)
    for row in _use_rows(told.estimate):
        table.add_row(*row)
    out.print(table)
    _print_rejects(told.rejects, "left out")
    if not isinstance(told, SftDry):
        _print_rejects(told.too_long, "that cannot be asked, since their first prompt is too long")
        a = told.assumed
        turns, sampled, observed = _of(a.turns, "turn"), _of(a.sampled, "token"), _of(a.observed, "token")
        taken = f"{turns} a trajectory, {sampled} a turn, {observed} an observation"
        shares = f"{a.cached:.0%} of the prompts cached, {a.trained:.0%} of the trajectories trained on"
        out.print(f"\nAssumed: {taken}, {shares}; --assume NAME=VALUE changes it.", style="dim", soft_wrap=True)
        for note in told.notes:
            out.print(f"  {note}", style="dim", soft_wrap=True)


def _sft_rows(told: SftDry) -> Iterator[Row]:
    yield "demonstrations", f"{told.demonstrations.n:,}", _lengths(told.demonstrations)
    yield "tokens", f"{told.demonstrations.total:,}", "an epoch, pictures included"
    yield "learnt", f"{told.active_tokens:,}", f"{told.active_tokens / told.demonstrations.total:.0%} of them"
    yield "pictures", f"{told.images:,}", ""
    if told.validation:
        yield "validation", f"{told.validation.n:,}", _lengths(told.validation)
    yield "steps", f"{told.steps:,}", f"{told.steps_per_epoch:,} an epoch"


def _grpo_rows(told: GrpoDry) -> Iterator[Row]:
    by_task = ", ".join(f"{n:,} {task}" for task, n in told.by_task.items())
    yield "questions", f"{told.openings.n:,}", by_task
    yield "first prompt", f"{told.openings.mean:,.0f} tokens", _lengths(told.openings)
    if told.not_asked:
        yield "not asked", f"{told.not_asked:,}", "their spectra lack what the task requires"
    yield "steps", f"{told.steps:,}", f"{told.steps_per_epoch:,} an epoch"
    yield "trajectories", f"{told.trajectories:,}", f"of about {told.trajectory:,} tokens"
    if told.dev_trajectories:
        yield "dev", f"{told.dev_trajectories:,}", "trajectories, at all checkpoints together"


def _of(n: float | None, what: str) -> str:
    assert n is not None  # a dry run fills in what nobody assumed
    return f"{n:g} {what}{'' if n == 1 else 's'}"


def _lengths(lengths: Lengths) -> str:
    return f"median {lengths.median:,} tokens, 95 % up to {lengths.p95:,}, longest {lengths.longest:,}"


_USES = {
    "prefilled_tokens": "prefilled",
    "cached_tokens": "cached",
    "sampled_tokens": "sampled",
    "trained_tokens": "trained",
}


def _use_rows(estimate: Estimate) -> Iterator[Row]:
    for name, word in _USES.items():
        if n := estimate.usage.get(name):
            yield word, count_text(n), "tokens of the whole run"
    money = f" {estimate.currency}" if estimate.currency else ""
    if estimate.cost is not None:
        yield "cost", f"{estimate.cost:,.2f}{money}", estimate.priced or ""
    elif estimate.cost_range:
        low, high = estimate.cost_range
        yield "cost", f"{low:,.0f} to {high:,.0f}{money}", f"{estimate.priced}; single prices are not known"
    else:
        yield "cost", "not known", "no price of this backend and model; --prices FILE gives yours"
    if estimate.seconds is not None:
        yield "time", duration(estimate.seconds), "at the rates that were assumed"
    else:
        yield "time", "not known", "give rates: --assume train_rate=… and, for grpo, sample_rate=… (tokens a second)"


def _print_rejects(rejects: list[Reject], what: str) -> None:
    from rich.text import Text

    if not rejects:
        return
    out = console()
    out.print(f"\n{len(rejects):,} {what}:", style="bold yellow")
    for reject in rejects[:SHOWN_REJECTS]:
        out.print(Text.assemble(f"  {reject.where}: ", (reject.reason, "dim")), soft_wrap=True)
    if (more := len(rejects) - SHOWN_REJECTS) > 0:
        out.print(f"  … and {more:,} more (--json lists them all)")
