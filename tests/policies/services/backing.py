"""What stands behind both loopback services: a tiny real torch model, and the faults that a test asks for.

The services take a request apart into `Chunk`s; `Backing` makes tokens and pixels of them, by the image processor of
the model's own family, and samples one sequence after the other, without a cache: each token from a forward pass over
all before it. That is slow and leaves nothing to get wrong. Sequence i of n is drawn from the stream (seed, i); ids
that stand for pictures are never drawn, since transformers takes no prompt that holds one without its picture. A
service that trains (`services.backing_training`) finds the model at `Backing.model`.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import io
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image as Pillow
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

from specvet.chat import chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies.torch.tiny import tiny_model

SEED = 1
Chunk = tuple[int, ...] | bytes
"""Ids, or a picture's encoded bytes."""


@dataclass(frozen=True)
class Sampled:
    """One sequence: ids with the end token, float32 log-probs at temperature 1, and `stop` or `length`."""

    ids: list[int]
    logprobs: list[float]
    reason: str


@dataclass
class Faults:
    """What a loopback service does wrong, on request. Everything may be changed while it runs."""

    key: str = "tml-loopback-key"
    """The one key that is let in."""
    statuses: list[int] = field(default_factory=list)
    """Of the next sampling requests, instead of an answer."""
    code: str = "internal_error"
    """The error code that goes with them."""
    stall: bool = False
    """Sampling requests are taken and never answered."""
    stall_opening: bool = False
    """Nothing is answered at all."""
    hold_until: int = 0
    """No request is answered before so many are inside."""
    leave_out_end: bool = False
    """The end token is not given back."""
    miscount: int = 0
    """Added to the number of prompt tokens."""
    lose_logprobs: bool = False
    """One log-prob too few."""
    empty_account: bool = False
    """The account owes money."""
    blind: bool = False
    """Every picture is white to it."""
    training_statuses: list[int] = field(default_factory=list)
    """Of the next training requests, instead of an answer."""
    training_drops: int = 0
    """So many training requests are taken, and the line is cut instead of an answer."""
    training_stalls: bool = False
    """Training requests are taken and never answered."""
    training_fails: str = ""
    """What the next piece of training work fails with."""
    training_loses_logprobs: bool = False
    """A trained batch is answered without log-probs."""
    training_loss_factor: float = 1.0
    """The loss of a batch is said to be so many times what it is; NaN says that it is no number."""


class Backing:
    """A tiny random model of one family behind a service.

    With `specvet.policies.torch`'s default seed 0, the qwen3_vl model hardly heeds a later picture.
    """

    def __init__(self, family: str = "qwen2_5_vl", seed: int = SEED) -> None:
        torch.set_num_threads(1)
        self.model = tiny_model(family, seed)
        self.format = chat_format(family, tiny_vocabulary(family))
        self.adapter: dict[str, torch.Tensor] | None = None
        """What new adapters begin as, by peft's names; None draws them from their seed."""
        geometry = self.format.geometry
        self._processor = Qwen2VLImageProcessor(
            patch_size=geometry.patch,
            merge_size=geometry.merge,
            min_pixels=geometry.min_pixels,
            max_pixels=geometry.max_pixels,
        )
        self._pictures = torch.tensor(sorted(self.format.vocabulary.picture_ids))
        self._one_at_a_time = threading.Lock()

    def of_model(self, model: Any) -> Backing:
        """The same with another model of the same family."""
        other = copy.copy(self)
        other.model = model
        return other

    def blinded(self, chunks: list[Chunk]) -> list[Chunk]:
        """The same, with white pictures of the same size."""

        def white(png: bytes) -> bytes:
            out = io.BytesIO()
            Pillow.new("RGB", Pillow.open(io.BytesIO(png)).size, "white").save(out, "PNG")
            return out.getvalue()

        return [white(c) if isinstance(c, bytes) else c for c in chunks]

    def read(self, chunks: list[Chunk]) -> tuple[list[int], list[int], dict[str, Any]]:
        """(token ids, tokens of each picture, pixel inputs) of a prompt."""
        pad = self.format.vocabulary.need("<|image_pad|>")
        pictures = [Pillow.open(io.BytesIO(c)).convert("RGB") for c in chunks if isinstance(c, bytes)]
        pixels: dict[str, Any] = {}
        counts: list[int] = []
        if pictures:
            pixels = dict(self._processor(images=pictures, return_tensors="pt"))
            counts = [int(n) for n in pixels["image_grid_thw"].prod(-1) // self._processor.merge_size**2]
        waiting = iter(counts)
        ids: list[int] = []
        for chunk in chunks:
            ids += [pad] * next(waiting) if isinstance(chunk, bytes) else list(chunk)
        return ids, counts, pixels

    def sample(self, chunks: list[Chunk], n: int, params: dict[str, Any]) -> list[Sampled]:
        """n sequences; `params` in the words that both SDKs use: max_tokens, temperature, top_p, top_k, seed, stop."""
        ids, _, pixels = self.read(chunks)
        with self._one_at_a_time, torch.inference_mode():
            return [self._one(ids, pixels, i, params) for i in range(n)]

    async def sample_async(self, chunks: list[Chunk], n: int, params: dict[str, Any]) -> list[Sampled]:
        """The same, off the service's event loop."""
        return await asyncio.to_thread(self.sample, chunks, n, params)

    def prompt_logprobs(self, chunks: list[Chunk]) -> list[float | None]:
        """The log-prob of each prompt token after those before it; None for the first."""
        ids, _, pixels = self.read(chunks)
        with self._one_at_a_time, torch.inference_mode():
            logits = self.logits(ids, pixels)
        found = torch.log_softmax(logits[:-1], -1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
        return [None, *found.tolist()]

    def logits(self, ids: list[int], pixels: dict[str, Any]) -> torch.Tensor:
        """Of every position, float32, shape (n_tokens, n_ids)."""
        tokens = torch.tensor([ids])
        pad = self.format.vocabulary.need("<|image_pad|>")
        given = {"attention_mask": torch.ones_like(tokens), "mm_token_type_ids": (tokens == pad).int()}
        return self.model(input_ids=tokens, use_cache=False, **given, **pixels).logits[0].float()

    def _one(self, prompt: list[int], pixels: dict[str, Any], i: int, params: dict[str, Any]) -> Sampled:
        digest = hashlib.sha256(f"{params.get('seed')}/{i}".encode()).digest()
        draw = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        ids: list[int] = []
        logprobs: list[float] = []
        while True:
            logits = self.logits(prompt + ids, pixels)[-1]
            drawn_from = logits.index_fill(0, self._pictures, -torch.inf)
            token = _drawn(drawn_from, draw, params)
            ids.append(token)
            logprobs.append(float(torch.log_softmax(logits, -1)[token]))
            if token in params["stop"]:
                return Sampled(ids, logprobs, "stop")
            if len(ids) >= params["max_tokens"]:
                return Sampled(ids, logprobs, "length")


def _drawn(logits: torch.Tensor, draw: np.random.Generator, params: dict[str, Any]) -> int:
    temperature, top_k, top_p = params["temperature"], params["top_k"], params["top_p"]
    if temperature == 0:
        return int(logits.argmax())
    likely, order = torch.softmax(logits / temperature, -1).sort(descending=True)
    chances = likely.double().numpy()
    keep = np.cumsum(chances) - chances < top_p
    if top_k > 0:
        keep[top_k:] = False
    chances = np.where(keep, chances, 0)
    return int(order[int(np.searchsorted(np.cumsum(chances) / chances.sum(), draw.random(), side="right"))])
