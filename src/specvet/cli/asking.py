"""How spectra are shown to a model and questions asked: the options, and what the model's own folder says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.failure import USAGE, CommandError, failing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specvet.policies.manner import Manner

Wording = Annotated[
    str | None,
    typer.Option(
        "--wording",
        metavar="full|short",
        help="Of questions: all that counts, or only what is asked. By default as the model's folder says, else full.",
    ),
]
Style = Annotated[
    str | None,
    typer.Option(
        "--style",
        metavar="reference|compact",
        help="Of pictures: the published figure, or the small one. By default as the model's folder says, else "
        "reference.",
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        "--size",
        metavar="small|published|tiny|WxH",
        help="Of the compact style; by default as the model's folder says.",
    ),
]


RANDOM_WEIGHTS = "no --model: tiny random weights answer, to try the machinery; what they say means nothing"
"""What is said of the `torch` policy without a model."""


def own_manner(policy: str, model: str | None) -> Manner | None:
    """How the folder of a model that runs here says that it is asked; None where it says nothing."""
    from specvet.policies.manner import manner_of
    from specvet.policies.registry import model_folder
    from specvet.policies.tokens import PolicyError

    folder = model_folder(policy, model)
    with failing(USAGE, PolicyError):
        return manner_of(folder)


def manner_for(policy: str, model: str | None, given: dict[str, Any], usual: Manner) -> tuple[Manner, str]:
    """How to ask, and a line that says whose word it is, or that no model answers; else empty.

    `given` is what the command line says, by `Manner`'s names, None for what it does not.
    """
    from specvet.cli.plot import figure_style
    from specvet.policies.manner import settled

    if given.get("wording") not in (None, "full", "short"):
        raise CommandError(f"--wording {given['wording']}: choose full or short", USAGE)
    if given.get("style") is not None:
        given = given | {"style": figure_style(given["style"])}
    own = own_manner(policy, model)
    with failing(USAGE, ValueError):
        manner = settled(own, given, usual)
    if own is None:
        return manner, RANDOM_WEIGHTS if policy == "torch" and model is None else ""
    name = Path(model).name if model else policy
    changed = [option for field, option in _OPTIONS if getattr(manner, field) != getattr(own, field)]
    but = f"; otherwise as you said: {', '.join(changed)}" if changed else ""
    return manner, f"asked as the folder of {name} says ({in_words(own)}){but}"


_OPTIONS = (
    ("wording", "--wording"),
    ("style", "--style"),
    ("size", "--size"),
    ("max_turns", "--max-turns"),
    ("turn_tokens", "--max-tokens"),
    ("context", "--context"),
)


def in_words(manner: Manner) -> str:
    """`short wording, compact-1 pictures (tiny), 8 turns, 160 tokens a turn, 2,048 in all`."""
    size = f" ({manner.size})" if manner.size else ""
    return (
        f"{manner.wording} wording, {manner.style} pictures{size}, {manner.max_turns} turns, "
        f"{manner.turn_tokens:,} tokens a turn, {manner.context:,} in all"
    )


def untrained(manner: Manner, keys: Iterable[str]) -> str:
    """A warning where a model is asked about a class that it was not trained on; empty where it is not."""
    strange = [key for key in keys if manner.tasks and key not in manner.tasks]
    if not strange:
        return ""
    return (
        f"the model was trained on {', '.join(manner.tasks)} and not on {', '.join(strange)}: its answers about "
        f"{'that' if len(strange) == 1 else 'those'} mean little"
    )
