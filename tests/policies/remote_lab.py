"""Both remote policies on their loopback services, and a trajectory to record through them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import certifi
import numpy as np
import pytest
from PIL import Image as Pillow
from services import tinker_service, trio_service
from services.backing import Backing, Chunk, Faults, Sampled
from services.loopback import serving
from services.tinker_service import TinkerService
from services.trio_service import TrioService

from specvet.chat import Image, ImageSegment, Ledger
from specvet.chat.messages import system, tool, user
from specvet.chat.tiny import write_tiny
from specvet.policies import tinker, trio
from specvet.policies.options import ModelOptions
from specvet.policies.remote import prompt_chunks, wire_seed
from specvet.policies.remote_policy import RemotePolicy
from specvet.policies.tokens import Samples, SamplingParams, Sequence, turn_seed

KEY = "tml-loopback-key"


@cache
def backing(family: str) -> Backing:
    """One a family for all tests; services change nothing in it."""
    return Backing(family)


@dataclass(frozen=True)
class Lab:
    """A loopback service of one kind, and how a policy on it is opened."""

    name: str
    module: ModuleType
    """`specvet.policies.trio` or `.tinker`."""
    service: Any
    options: ModelOptions
    opened: list[RemotePolicy] = field(default_factory=list)
    """Closed with the lab."""

    @property
    def faults(self) -> Faults:
        return self.service.faults

    @property
    def backing(self) -> Backing:
        return self.service.backing

    def open(self, **changed: Any) -> RemotePolicy:
        policy = self.module.open_policy(replace(self.options, **changed))
        self.opened.append(policy)
        return policy


@contextlib.contextmanager
def lab(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A running loopback service `trio` or `tinker`; the user's own keys and settings are out of reach."""
    for variable in ("PYTRIO_BASE_URL", "PYTRIO_ENV", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD", "TINKER_TELEMETRY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PYTRIO_API_KEY", KEY)
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    family = {"trio": "qwen2_5_vl", "tinker": "qwen3_vl"}[name]
    module, kinds = {"trio": (trio, trio_service), "tinker": (tinker, tinker_service)}[name]
    service = {"trio": TrioService, "tinker": TinkerService}[name](backing(family))
    # An SDK makes ten TLS contexts for a session, and all certificates in each cost more than the rest of a test.
    one = folder / "one.pem"
    one.write_text(certifi.contents().partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(one))
    tokenizer = folder.parent / f"tokenizer-{family}"
    if not tokenizer.exists():
        write_tiny(family, tokenizer)
    gc.freeze()
    with serving(service.app) as address:
        options = ModelOptions(model=kinds.MODEL, tokenizer=str(tokenizer), base_url=address, timeout_s=30.0)
        made = Lab(name, module, service, options)
        yield made
        service.faults.stall = service.faults.stall_opening = False
        for policy in made.opened:
            asyncio.run(policy.aclose())
    _sweep()


def _sweep() -> None:
    """Collect what a lab left: tinker never closes the connection that fetched its settings.

    Elsewhere the garbage collector would meet it, and its ResourceWarning would be somebody else's error.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.unfreeze()


def picture(seed: int, width: int = 112, height: int = 112) -> Image:
    """Noise as a PNG."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Pillow.fromarray(pixels).save(out, "PNG")
    return Image.of(out.getvalue())


def opening(format: Any, *images: Image) -> Ledger:
    """A question with pictures, up to the first assistant turn."""
    ledger = format.new_ledger()
    ledger.append(format.opening([system("Look."), user("Is it?", *(images or (picture(1),)))]))
    return ledger


def params(question: str = "q", branch: int = 0, turn: int = 0, **changed: Any) -> SamplingParams:
    return replace(SamplingParams(max_tokens=5, seed=turn_seed(1, question, branch, turn)), **changed)


def direct(backing: Backing, ledger: Ledger, n: int, asked: SamplingParams) -> list[Sampled]:
    """What the model behind the service gives when nobody is in between."""
    chunks: list[Chunk] = [c.png or b"" if isinstance(c, ImageSegment) else c for c in prompt_chunks(ledger)]
    words = {
        "max_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "top_k": asked.top_k or -1,
        "seed": wire_seed(asked.seed),
        "stop": list(backing.format.stop_ids),
    }
    return backing.sample(chunks, n, words)


def same(sequence: Sequence, sampled: Sampled) -> bool:
    """Bit for bit."""
    assert sequence.logprobs is not None
    stop = "end" if sampled.reason == "stop" else "length"
    wanted = np.array(sampled.logprobs, dtype=np.float32)
    return sequence.ids == tuple(sampled.ids) and sequence.stop == stop and np.array_equal(sequence.logprobs, wanted)


async def branches(
    policy: RemotePolicy, n: int, turns: int, check: Any = None, size: tuple[int, int] = (112, 112)
) -> list[Ledger]:
    """n trajectories of one question: the first turn is sampled once for all, every later one gets a picture first."""
    first = opening(policy.format, picture(1, *size))
    asked = params()
    got = await policy.sample(first, n, asked)
    if check:
        check(first, n, asked, got)
    ledgers = []
    for i, one in enumerate(got.sequences):
        ledger = first.fork()
        ledger.append_sampled(one.ids, one.logprobs, one.stop)
        for turn in range(1, turns):
            ledger.append(policy.format.observation(ledger, tool("Here.", picture(100 * i + turn, *size))))
            asked = params(branch=i, turn=turn)
            later = await policy.sample(ledger, 1, asked)
            if check:
                check(ledger, 1, asked, later)
            ledger.append_sampled(later.sequences[0].ids, later.sequences[0].logprobs, later.sequences[0].stop)
        ledgers.append(ledger)
    return ledgers


def sampled(here: Lab, n: int = 1, *, ledger: Ledger | None = None, **asked: Any) -> Samples:
    """One request through a fresh policy."""
    policy = here.open()

    async def run() -> Samples:
        try:
            return await policy.sample(ledger or opening(policy.format), n, params(**asked))
        finally:
            await policy.aclose()

    return asyncio.run(run())


def reread(ledger: Ledger) -> Ledger:
    """Through JSON text and back, pictures put back in."""
    images = {s.sha256: Image.of(s.png) for s in ledger.images if s.png is not None}
    return Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())), images)
