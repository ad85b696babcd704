"""Backends that are blind in one way each, around ones that see; and a small model that really looks."""

from __future__ import annotations

import asyncio
import dataclasses
import io
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from PIL import Image as Pillow

from specvet.chat import (
    ChatFormat,
    Image,
    ImageSegment,
    Ledger,
    MalformedTurn,
    Message,
    SampledSegment,
    TextSegment,
)
from specvet.chat.formats import chat_format
from specvet.chat.messages import assistant
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies.text import Replies, Reply
from specvet.policies.tokens import Samples, SamplingParams, Usage
from specvet.policies.tokens import Sequence as Sampled

T = TypeVar("T")
Redraw = Callable[[Pillow.Image], Pillow.Image]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


# --- what can be done to a picture


def blank(picture: Pillow.Image) -> Pillow.Image:
    return Pillow.new("RGB", picture.size, "white")


def on_black(picture: Pillow.Image) -> Pillow.Image:
    """Alpha thrown away: what was transparent shows the black that lies underneath."""
    return picture.convert("RGB")


def mirror(picture: Pillow.Image) -> Pillow.Image:
    return picture.transpose(Pillow.Transpose.FLIP_LEFT_RIGHT)


def redrawn(png: bytes, redraw: Redraw) -> Image:
    out = io.BytesIO()
    with Pillow.open(io.BytesIO(png)) as picture:
        redraw(picture).save(out, "PNG")
    return Image.of(out.getvalue())


# --- a backend on ids that does something to what it is shown


class Meddling:
    """A `TokenPolicy` around another. `redraw` changes pictures (only those in a tool's reply with `later`), `drop`
    leaves them out, `respell` decodes and encodes sampled ids anew, `off` is added to each count of a prompt."""

    name = "meddling"

    def __init__(
        self,
        inner: Any,
        *,
        redraw: Redraw | None = None,
        later: bool = False,
        drop: bool = False,
        respell: bool = False,
        off: int = 0,
        edit: Callable[[Samples], Samples] | None = None,
        params: Callable[[SamplingParams], SamplingParams] | None = None,
    ) -> None:
        self.inner, self.redraw, self.later, self.drop, self.respell, self.off = (
            inner,
            redraw,
            later,
            drop,
            respell,
            off,
        )
        self.edit, self.params = edit, params

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        samples = await self.inner.sample(self.shown(ledger), n, self.params(params) if self.params else params)
        if samples.prompt_tokens is not None:
            samples = dataclasses.replace(samples, prompt_tokens=samples.prompt_tokens + self.off)
        return self.edit(samples) if self.edit else samples

    def shown(self, ledger: Ledger) -> Ledger:
        shown: Ledger = self.inner.format.new_ledger()
        for segment in ledger:
            if isinstance(segment, ImageSegment):
                if not self.drop:
                    shown.append([self.picture(segment)])
            elif isinstance(segment, SampledSegment):
                ids: Sequence[int] = segment.ids
                if self.respell:
                    vocabulary = self.inner.format.vocabulary
                    ids = vocabulary.encode(vocabulary.decode(ids))
                    shown.append_sampled(ids, None, segment.stop)
                else:
                    shown.append_sampled(ids, segment.logprobs, segment.stop)
            else:
                shown.append([segment])
        return shown

    def picture(self, segment: ImageSegment) -> ImageSegment:
        if self.redraw is None or (self.later and segment.role != "tool"):
            return segment
        assert segment.png is not None
        new = redrawn(segment.png, self.redraw)
        return dataclasses.replace(segment, png=new.png, sha256=new.sha256)


class Confusing(Meddling):
    """A `TokenPolicy` whose prefix cache goes by ids alone: a prompt that differs in its pictures only is read with
    those of the one that was answered before. So did more than one engine."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.read: dict[bytes, list[ImageSegment]] = {}

    def shown(self, ledger: Ledger) -> Ledger:
        pictures = iter(self.read.get(ledger.ids().tobytes(), ledger.images))
        shown: Ledger = self.inner.format.new_ledger()
        shown.append([next(pictures) if isinstance(s, ImageSegment) else s for s in ledger])
        return shown

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        samples = await super().sample(ledger, n, params)
        self.read.setdefault(ledger.ids().tobytes(), list(ledger.images))
        return samples


# --- a small deterministic model that looks


def seen(images: Sequence[bytes], words: str, seed: int | None) -> str:
    """What a plain but sighted describer says: where red is when asked, else numbers of every picture's pixels."""
    pictures = []
    for png in images:
        with Pillow.open(io.BytesIO(png)) as picture:
            pictures.append(np.asarray(picture.convert("RGB"), dtype=float))
    if "red square" in words and pictures:
        pixels = pictures[-1]
        red = (pixels[..., 0] > 150) & (pixels[..., 1] < 100) & (pixels[..., 2] < 100)
        if not red.any():
            return "nowhere"
        y, x = (float(axis.mean()) for axis in np.nonzero(red))
        if "left" in words:
            return "left" if x < pixels.shape[1] / 2 else "right"
        return "top" if y < pixels.shape[0] / 2 else "bottom"
    said = " ".join(f"{p.mean():.4f} {p[:, : p.shape[1] // 2].mean():.4f}" for p in pictures) or "nothing"
    return said if seed is None else f"{said} {seed * 7919 % 1000}"


class SeeingText:
    """A `TextPolicy` that looks. `redraw`, `later`, `drop` as in `Meddling`; `tokens_of` counts pictures."""

    name = "seeing"
    context = None
    fingerprint = "seeing"

    def __init__(
        self,
        *,
        redraw: Redraw | None = None,
        later: bool = False,
        drop: bool = False,
        tokens_of: Callable[[int], int | None] = lambda n: 98 * n,
        n: bool = True,
        seeded: bool = True,
        wavering: bool = False,
        confusing: bool = False,
    ) -> None:
        self.redraw, self.later, self.drop, self.tokens_of = redraw, later, drop, tokens_of
        self.seeded, self.wavering, self.confusing = seeded, wavering, confusing
        self.read: dict[str, list[bytes]] = {}
        self.capabilities: Any = frozenset({"images", *(["n"] if n else [])})
        self.usage = Usage()

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], n: int, params: SamplingParams
    ) -> Replies:
        self.usage.requests += 1
        images = []
        for message in messages:
            for image in message.images:
                meddled = message.role == "tool" or not self.later
                if self.drop and meddled:
                    continue
                shown = redrawn(image.png, self.redraw) if self.redraw and meddled else Image.of(image.png)
                images.append(shown.png)
        if self.confusing:  # as `Confusing`
            words = repr([(m.role, m.text, len(m.images)) for m in messages])
            images = self.read.get(words, images)
            await asyncio.sleep(0)
            self.read.setdefault(words, images)
        replies = []
        for i in range(n):
            seed = params.seed + i if params.temperature and self.seeded else None
            if self.wavering:
                seed = self.usage.requests
            text = seen(images, messages[-1].text, seed)
            replies.append(Reply(MalformedTurn("nothing", "", text), assistant(text), text, "end"))
        counted = self.tokens_of(len(images))
        return Replies(tuple(replies), None if counted is None else 40 + counted)

    async def aclose(self) -> None:
        pass


class SeeingTokens:
    """The same as a `TokenPolicy`: its words are spelt by the tiny vocabulary of a format."""

    name = "seeing"
    capabilities: Any = frozenset({"ids", "logprobs", "n", "images"})
    context = None
    fingerprint = "seeing"

    def __init__(self, format: str = "qwen3_5") -> None:
        self.format: ChatFormat = chat_format(format, tiny_vocabulary(format))
        self.usage = Usage()

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        self.usage.requests += 1
        ids = [i for s in ledger if isinstance(s, TextSegment | SampledSegment) for i in s.ids]
        words = self.format.vocabulary.decode(ids).rpartition("user\n")[2]
        sequences = []
        for i in range(n):
            pictures = [s.png for s in ledger.images if s.png]
            text = seen(pictures, words, params.seed + i if params.temperature else None)
            said = [*self.format.vocabulary.encode(text), self.format.stop_ids[0]][: params.max_tokens]
            logprobs = np.full(len(said), -0.25 - len(ids) / 1e5, np.float32)
            sequences.append(Sampled(tuple(said), logprobs, "length"))
        return Samples(tuple(sequences), ledger.n_tokens)

    def release(self, ledger: Ledger) -> None:
        pass

    async def aclose(self) -> None:
        pass
