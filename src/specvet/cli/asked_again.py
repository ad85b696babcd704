"""The policy of a run, opened once more: for what asks about other spectra as the run itself was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specvet.cli import asking, models

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from specvet.records import RunFolder
    from specvet.vetting.blanks import Asked


def urls_of(config: Any) -> list[str]:
    """The servers that a run's config names."""
    return [config] if isinstance(config, str) else list(config or ())


def opened_as(
    stack: ExitStack,
    name: str,
    told: Mapping[str, Any],
    config: Mapping[str, Any],
    concurrency: int,
    processes: int = 1,
) -> Callable[[RunFolder], Asked]:
    """What opens the policy for another run, which is then asked as the `config` of the first says.

    `told` holds model, base_url (a list), device and dtype.
    """
    from specvet.agent import Budget
    from specvet.policies.manner import PUBLISHED
    from specvet.vetting.blanks import Asked

    frame = config.get("frame_mode", "careful")
    if not models.is_model(name):
        measuring = models.open_measuring(name, told["model"])
        asked = Asked(measuring, frame, Budget(), _style(config), config.get("size"), None)
        return lambda run: asked
    from specvet.policies.options import ModelOptions
    from specvet.policies.tokens import SamplingParams

    given = {name: config.get(name) for name in ("wording", "style", "size")}
    given["turn_tokens"] = (config.get("budget") or {}).get("turn_tokens")
    manner, _ = asking.manner_for(name, told["model"], given, PUBLISHED)
    budget = Budget(max_turns=manner.max_turns, turn_tokens=manner.turn_tokens, context=manner.context)
    params = SamplingParams(manner.turn_tokens, temperature=0.0)
    options = ModelOptions(
        model=told["model"],
        adapter=config.get("adapter"),
        **models.servers(name, told["base_url"]),
        device=told["device"],
        dtype=told["dtype"],
        branches=concurrency,
        context=manner.context,
    )
    decider = models.open_model(name, options)
    title = config.get("title")

    def opened(run: RunFolder) -> Asked:
        engine = models.opened_engine(
            stack, decider, run, budget, params, style=manner.style, images=False, concurrency=concurrency,
            wording=manner.wording, guard=True,
            crew=models.opened_crew(stack, decider, name, options, processes),
        )  # fmt: skip
        return Asked(engine, frame, budget, manner.style, manner.pixels, title, concurrency)

    return opened


def _style(config: Mapping[str, Any]) -> str:
    from specvet.views import REFERENCE_STYLE

    return str(config.get("style") or REFERENCE_STYLE)
