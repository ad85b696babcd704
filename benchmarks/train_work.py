"""The work that `train_torch.py` gives to both sides: a random model, and trajectories of realistic length.

A trajectory opens with 1,200 tokens, of which a figure of 896 x 448 pixels is 512; in each turn 250 tokens are sampled,
and between two turns a tool answers with 452, of which a figure of 672 x 448 is 384. With 2 to 7 turns that is 2,152 to
5,662 tokens. Sampled ids are random, figures are all different, so nothing can be kept from one to the next.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rollout_torch import Script, figure, module_of
from specvet.chat import ChatFormat, Datum, Image, ImageSegment, Ledger, Message
from specvet.chat.formats import chat_format
from specvet.chat.messages import system, tool, user
from specvet.chat.tiny import tiny_vocabulary

FAMILY = "qwen2_5_vl"
SHAPES = {"3b": "qwen2_5_vl_3b", "small": "small", "tiny": "tiny"}
FIGURE, ZOOM = (896, 448), (672, 448)
LORA_TARGETS = r".*language_model\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
"""Attention and MLP of the language model, as peft takes it."""
SYSTEM = "You are a careful astronomer."
WORDS = (
    "Look at the figure, call the zoom tool on a wavelength range that would prove or disprove the class, look again, "
    "and answer. Emission lines, molecular bands and the slope of the continuum count; one noisy pixel does not. "
)


@dataclass(frozen=True)
class Sizes:
    """Tokens of the parts of a trajectory."""

    opening: int = 1_200
    said: int = 250
    """Sampled a turn."""
    seen: int = 452
    """Observed between two turns."""

    @classmethod
    def of(cls, shape: str) -> Sizes:
        return cls() if shape != "tiny" else cls(opening=1_200, said=16, seen=420)


def model(options: argparse.Namespace, device: torch.device, dtype: torch.dtype) -> Any:
    """A random model of the shape, the same weights each time, drawn on the device; not yet trained in any way."""
    told = argparse.Namespace(size=SHAPES[options.shape], family=FAMILY, layers=options.layers)
    module = module_of(told, device, dtype)
    return module.to(device=device, dtype=dtype)


def text_format() -> ChatFormat:
    """The format on a small vocabulary. No sampled id ends a turn, so that both sides sample equally many."""
    format = chat_format(FAMILY, tiny_vocabulary(FAMILY))
    format.stop_ids = (-1,)
    return format


def question(format: ChatFormat, seed: int, sizes: Sizes) -> tuple[Message, Message]:
    """System and user message of an opening, as long as `sizes.opening` says where that can be."""

    def asked(words: int) -> tuple[Message, Message]:
        text = (WORDS * 9)[:words] + f" Object {seed}."
        return system(SYSTEM), user(figure(seed, FIGURE), text)

    return _as_long(asked, sizes.opening, lambda m: format.opening(m, [ZOOM_SCHEMA]))


def answer(format: ChatFormat, said: Ledger, seed: int, sizes: Sizes) -> Message:
    """What the tool answers, as long as `sizes.seen` says where that can be."""

    def seen(words: int) -> Message:
        return tool((WORDS * 9)[:words] + f" {seed}:", figure(seed, ZOOM))

    return _as_long(seen, sizes.seen, lambda m: format.observation(said, m))


_found: dict[tuple[str, int], int] = {}


def _as_long(make: Any, wanted: int, segments: Any) -> Any:
    """The message with as many letters as bring its segments to `wanted` tokens, or the shortest."""
    words = _found.get((make.__qualname__, wanted), wanted)
    for _ in range(20):
        n = sum(s.n_tokens for s in segments(make(words)))
        if n == wanted or (n > wanted and words == 0):
            break
        words = max(0, words + wanted - n)
    _found[make.__qualname__, wanted] = words
    return make(words)


def zoom(low: float, high: float) -> list[Any]:
    """Draw the spectrum between two wavelengths.

    Args:
        low: Å.
        high: Å.
    """
    raise NotImplementedError("the pictures are ready; see `train_trl.py`")


ZOOM_SCHEMA = {
    "type": "function",
    "function": {
        "name": "zoom",
        "description": "Draw the spectrum between two wavelengths.",
        "parameters": {
            "type": "object",
            "properties": {
                "low": {"type": "number", "description": "Å."},
                "high": {"type": "number", "description": "Å."},
            },
            "required": ["low", "high"],
        },
        "return": {"type": "array", "items": {}},
    },
}
"""What transformers makes of `zoom`: both sides show the model the same words."""


def demonstrations(format: ChatFormat, n: int, seed: int, sizes: Sizes, n_ids: int) -> list[Ledger]:
    """`n` whole trajectories of 2 to 7 turns without log-probs, in an order of their own."""
    noise = np.random.default_rng(seed)
    turns = np.resize(np.arange(2, 8), n)
    noise.shuffle(turns)
    return [trajectory(format, int(t), 1_000_003 * seed + 100 * i, sizes, n_ids) for i, t in enumerate(turns)]


def trajectory(format: ChatFormat, turns: int, seed: int, sizes: Sizes, n_ids: int) -> Ledger:
    ledger = format.new_ledger()
    ledger.append(format.opening(question(format, seed, sizes), [ZOOM_SCHEMA]))
    for turn in range(turns):
        ledger.append_sampled(random_ids(seed + turn, sizes.said, n_ids), None, "length")
        if turn + 1 < turns:
            ledger.append(format.observation(ledger, answer(format, ledger, seed + turn + 1, sizes)))
    return ledger


def long_trajectory(format: ChatFormat, tokens: int, seed: int, sizes: Sizes, n_ids: int) -> Ledger:
    """One of exactly `tokens` positions as a datum: turns as they come, the last of whatever length is left."""
    ledger = format.new_ledger()
    ledger.append(format.opening(question(format, seed, sizes), [ZOOM_SCHEMA]))
    turn = 0
    while tokens + 1 - ledger.n_tokens > 2 * sizes.said + sizes.seen:
        ledger.append_sampled(random_ids(seed + turn, sizes.said, n_ids), None, "length")
        ledger.append(format.observation(ledger, answer(format, ledger, seed + turn + 1, sizes)))
        turn += 1
    ledger.append_sampled(random_ids(seed + turn, tokens + 1 - ledger.n_tokens, n_ids), None, "length")
    return ledger


@dataclass(frozen=True)
class RolloutStep:
    """What is asked and answered in one GRPO step, as messages: what both sides make of it is their affair."""

    questions: list[tuple[Message, Message]]
    """System and user message."""
    answers: list[list[Message]]
    """The tool's, by turn and trajectory."""


def rollout_step(format: ChatFormat, step: int, questions: int, group: int, turns: int, sizes: Sizes) -> RolloutStep:
    asked = [question(format, 10_000 + step * questions + q, sizes) for q in range(questions)]
    said = format.new_ledger()
    said.append(format.opening(asked[0], [ZOOM_SCHEMA]))
    said.append_sampled([0], None, "length")
    n = questions * group
    first = 100_000 + step * turns * n
    answers = [[answer(format, said, first + turn * n + b, sizes) for b in range(n)] for turn in range(turns - 1)]
    return RolloutStep(asked, answers)


def script(format: ChatFormat, step: RolloutStep, sizes: Sizes) -> Script:
    """The step as `rollout_torch.ours` takes it."""
    openings = []
    for asked in step.questions:
        ledger = format.new_ledger()
        ledger.append(format.opening(asked, [ZOOM_SCHEMA]))
        openings.append(ledger)
    said = openings[0].fork()
    said.append_sampled([0], None, "length")
    by_turn = [[format.observation(said, message) for message in turn] for turn in step.answers]
    branches = [list(turns) for turns in zip(*by_turn, strict=True)]
    return Script(openings, branches, np.full((len(branches), len(by_turn) + 1), sizes.said))


def random_ids(seed: int, n: int, n_ids: int) -> list[int]:
    """Ids that are no control ids: beyond the small vocabulary, or its bytes where the model has no more."""
    low, high = (600, n_ids) if n_ids > 1_000 else (0, 256)
    return np.random.default_rng(seed).integers(low, high, size=n).tolist()


def arrays(datum: Datum) -> tuple[NDArray[np.int64], NDArray[np.int64], list[ImageSegment]]:
    """(ids, labels, pictures) as transformers' models take them: not shifted, one longer than the datum."""
    parts = [
        np.full(c.n_tokens, c.pad_id, dtype=np.int64) if isinstance(c, ImageSegment) else np.array(c, dtype=np.int64)
        for c in datum.chunks
    ]
    last = max(int(datum.targets[-1]), 0)
    ids = np.concatenate([*parts, [last]])
    labels = np.concatenate([[-100], datum.targets]).astype(np.int64)
    return ids, labels, list(datum.images)


def picture(image: Image | ImageSegment) -> Any:
    """A decoded RGB picture, as processors take it."""
    from PIL import Image as Pillow

    assert image.png is not None
    return Pillow.open(io.BytesIO(image.png)).convert("RGB")


def batches(ledgers: Sequence[Ledger], size: int) -> list[Sequence[Ledger]]:
    return [ledgers[i : i + size] for i in range(0, len(ledgers) - size + 1, size)]
