"""What the tests of the `torch` policy share: conversations, and the stock transformers code as the oracle."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow

from specvet.chat import Image, ImageSegment, Ledger, Message, SampledSegment
from specvet.chat.messages import system, tool, user
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import SamplingParams, Sequence
from specvet.policies.torch.loading import load
from specvet.policies.torch.policy import TorchPolicy
from specvet.policies.torch.steps import Stepper

torch.set_num_threads(1)
FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_5")
T = TypeVar("T")
GREEDY = SamplingParams(max_tokens=8, temperature=0.0)


def picture(seed: int, width: int = 64, height: int = 64) -> Image:
    """A picture of noise: every patch tells it from another seed's."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Pillow.fromarray(pixels).save(out, "PNG")
    return Image.of(out.getvalue())


def small_pictures(options: ModelOptions, **settings: Any) -> TorchPolicy:
    """A policy on the CPU whose format takes pictures of any size from one token on, so that tests stay small."""
    model, format = load(replace(options, device="cpu") if options.device == "auto" else options)
    format.geometry = type(format.geometry)(format.geometry.patch, format.geometry.merge, 1, 1 << 20)  # type: ignore[misc]
    return TorchPolicy(model, format, **{"branches": options.branches, "context": options.context, **settings})


def tiny(family: str, device: str = "cpu", dtype: str = "float32", **settings: Any) -> TorchPolicy:
    """A tiny random policy of a family."""
    return small_pictures(ModelOptions(format=family, seed=3, context=4096, device=device, dtype=dtype), **settings)


def opening(policy: TorchPolicy, text: str = "Is there Hα?", *images: Image) -> Ledger:
    """The first prompt of a question: the rules, a picture or more, the question."""
    ledger = policy.format.new_ledger()
    ledger.append(policy.format.opening([system("Look and answer."), user(*(images or (picture(1),)), text)]))
    return ledger


def observe(policy: TorchPolicy, ledger: Ledger, message: Message | None = None, seed: int = 2) -> None:
    """A tool's answer with a picture, appended."""
    ledger.append(policy.format.observation(ledger, message or tool(picture(seed, 96, 64), "range (6400, 6700)")))


def say(ledger: Ledger, sequence: Sequence) -> Ledger:
    """The ledger with what was sampled; itself."""
    ledger.append_sampled(sequence.ids, sequence.logprobs, sequence.stop)
    return ledger


def run(work: Callable[[], Coroutine[Any, Any, T]], *policies: TorchPolicy) -> T:
    """Run asynchronous work, then close the policies, within a minute."""

    async def all_of_it() -> T:
        try:
            return await asyncio.wait_for(work(), 60)
        finally:
            for policy in policies:
                await policy.aclose()

    return asyncio.run(all_of_it())


def stock_inputs(policy: TorchPolicy, ledgers: list[Ledger]) -> dict[str, torch.Tensor]:
    """Ledgers as the stock model takes them: padded on the left, pictures through the stock image processor."""
    from transformers import Qwen2VLImageProcessor
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    assert Qwen2VLImageProcessor is not None
    geometry = policy.format.geometry
    processor = Qwen2VLImageProcessorPil(
        patch_size=geometry.patch,
        merge_size=geometry.merge,
        size={"shortest_edge": geometry.min_pixels, "longest_edge": geometry.max_pixels},
    )
    width = max(ledger.n_tokens for ledger in ledgers)
    ids = torch.zeros((len(ledgers), width), dtype=torch.long)
    mask, kinds = torch.zeros_like(ids), torch.zeros_like(ids)
    pictures = []
    for row, ledger in enumerate(ledgers):
        left = width - ledger.n_tokens
        ids[row, left:] = torch.from_numpy(ledger.ids().astype(np.int64))
        mask[row, left:] = 1
        for start, end, segment in zip(ledger.ends, ledger.ends[1:], ledger, strict=False):
            if isinstance(segment, ImageSegment):
                kinds[row, left + start : left + end] = 1
                assert segment.png is not None
                pictures.append(Pillow.open(io.BytesIO(segment.png)))
    given = {"input_ids": ids, "attention_mask": mask}
    if pictures:
        given |= {"mm_token_type_ids": kinds, **processor(images=pictures, return_tensors="pt")}
    return given


def stock_greedy(policy: TorchPolicy, ledgers: list[Ledger], n: int) -> list[list[int]]:
    """What plain `generate` says to these prompts, end tokens included."""
    model = policy.model.module
    config = model.generation_config
    config.eos_token_id = list(policy.format.stop_ids)
    given = stock_inputs(policy, ledgers)
    with torch.no_grad():
        out = model.generate(**given, max_new_tokens=n, do_sample=False)
    said = []
    for row in out[:, given["input_ids"].shape[1] :].tolist():
        end = next((i + 1 for i, t in enumerate(row) if t in policy.format.stop_ids), len(row))
        said.append(row[:end])
    return said


def stock_logprobs(policy: TorchPolicy, ledger: Ledger, module: Any = None) -> NDArray[np.float32]:
    """Log-probs of a ledger's sampled tokens from one forward of the stock model, shape (n_sampled,)."""
    with torch.no_grad():
        given = stock_inputs(policy, [ledger])
        logits = (module or policy.model.module)(**given, use_cache=False).logits[0]
    values = torch.log_softmax(logits.float(), dim=-1).numpy()
    ids = ledger.ids()
    spans = zip(ledger.ends, ledger.ends[1:], ledger, strict=False)
    return np.array([values[i - 1, ids[i]] for a, b, s in spans if isinstance(s, SampledSegment) for i in range(a, b)])


class FakeGraphs:
    """A stepper that takes the path of CUDA graphs (rounded sizes, static buffers) and replays by stepping."""

    def __init__(self, stepper: Stepper, rows: int, reach: int, filtered: bool) -> None:
        self._step = lambda: stepper._step(rows, reach, filtered)

    def replay(self) -> None:
        self._step()

    @classmethod
    def in_place_of(cls, policy: TorchPolicy) -> TorchPolicy:
        """The same policy, stepping as on a GPU."""
        engine = policy._engine
        engine._graphs = True
        engine._arena, engine._stepper = engine._memory()
        stepper = engine._stepper
        stepper._recorded = lambda *size: cls(stepper, *size)  # type: ignore[assignment, method-assign, return-value]
        return policy


async def conversations(policy: TorchPolicy) -> list[Ledger]:
    """Two questions with five branches each, three turns of ragged lengths."""

    async def one(q: int) -> list[Ledger]:
        first = opening(policy, "Q" * (q + 1), picture(q, 96, 128))
        said = (await policy.sample(first, 5, SamplingParams(9, seed=q))).sequences
        branches = [say(first.fork(), s) for s in said]
        for turn in range(2):
            for i, branch in enumerate(branches):
                observe(policy, branch, seed=10 * turn + i)
            limits = [SamplingParams(5 + 6 * i, seed=i, top_p=0.9 if i % 2 else 1.0) for i in range(5)]
            asked = [policy.sample(b, 1, p) for b, p in zip(branches, limits, strict=True)]
            for branch, samples in zip(branches, await asyncio.gather(*asked), strict=True):
                say(branch, samples.sequences[0])
        return branches

    return [ledger for some in await asyncio.gather(one(0), one(1)) for ledger in some]
