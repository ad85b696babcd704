"""A language model that knows five turns, with its trainer and its sampler: real, exact, and fast.

Its weights are one number a turn of the menu. Of a turn begun so far, the next token's probability is the share of the
turns that go on with it among those that began so: an autoregressive model over a trie, with exact log-probs and
gradients in float64. It looks (calls the zoom tool), answers YES or NO, or says something malformed; GRPO can teach it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Datum, Ledger, ToolCall
from specvet.chat.formats import chat_format
from specvet.chat.messages import assistant
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies.tokens import Samples, SamplingParams, Usage
from specvet.policies.tokens import Sequence as Sampled
from specvet.tools import TOOL_NAME
from specvet.training.trainer import Adam, Loss, NotFiniteError, Step, TrainUsage, Update

FORMAT = chat_format("qwen3_5", tiny_vocabulary("qwen3_5"))


def look(low: float, high: float) -> list[int]:
    return FORMAT.demonstration(assistant("", "Look.", [ToolCall(TOOL_NAME, {"wavelength_range": [low, high]})]))


def answer(word: str) -> list[int]:
    return FORMAT.demonstration(assistant(f"<answer>\\boxed{{{word}}} so it seems.</answer>", "Seen."))


LOOK, ELSEWHERE, YES, NO = look(6400, 6700), look(4500, 5000), answer("YES"), answer("NO")
MENU = (LOOK, ELSEWHERE, YES, NO, [*FORMAT.vocabulary.encode("Hm.</think>Hm."), FORMAT.stop_ids[0]])


@cache
def _going_on(ids: tuple[int, ...]) -> NDArray[np.float64]:
    """Which turns of the menu begin with the first i of these ids; shape (n_tokens + 1, n_turns)."""
    alike = [[len(turn) > i and turn[i] == token for turn in MENU] for i, token in enumerate(ids)]
    return np.cumprod([[1] * len(MENU), *alike], axis=0).astype(np.float64)


def token_logprobs(weights: NDArray[np.float64], ids: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(log-prob of each token, its gradient by the weights) of a turn, or of the beginning of one."""
    shares = _going_on(tuple(ids)) * np.exp(weights - weights.max())
    sums = shares.sum(axis=1, keepdims=True)
    return np.log(sums[1:, 0] / sums[:-1, 0]), shares[1:] / sums[1:] - shares[:-1] / sums[:-1]


@dataclass
class MenuPolicy:
    """Samples from the menu; a `TokenPolicy`."""

    weights: NDArray[np.float64]
    name: str = "menu"
    capabilities: frozenset[Any] = frozenset({"ids", "logprobs", "n", "images", "trainable"})
    format: Any = FORMAT
    context: int | None = None
    usage: Usage = field(default_factory=Usage)
    before: Callable[[], None] = lambda: None
    """Called before each request."""

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.weights.tobytes()).hexdigest()

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        self.before()
        made = []
        for i in range(n):
            digest = hashlib.sha256(f"{params.seed} {i}".encode()).digest()
            shares = np.exp(self.weights - self.weights.max())
            ids = MENU[np.random.default_rng(list(digest)).choice(len(MENU), p=shares / shares.sum())]
            ids = ids[: params.max_tokens]
            logprobs = token_logprobs(self.weights, ids)[0].astype(np.float32)
            made.append(Sampled(tuple(ids), np.minimum(logprobs, 0), "end" if ids[-1] in FORMAT.stop_ids else "length"))
            self.usage.sampled_tokens += len(ids)
        self.usage.requests += 1
        self.usage.prompt_tokens += ledger.n_tokens
        self.usage.prefilled_tokens += ledger.n_tokens
        await asyncio.sleep(0)
        return Samples(tuple(made), ledger.n_tokens)

    def release(self, ledger: Ledger) -> None: ...

    async def aclose(self) -> None: ...


class MenuTrainer:
    """AdamW on the menu's weights; a `Trainer`."""

    name = "menu"
    format = FORMAT
    context: int | None = None

    def __init__(self, state: str | None = None, kept: Sequence[str] = ("entropy", "reference", "local")) -> None:
        self.capabilities: frozenset[Any] = frozenset(kept)
        self.usage = TrainUsage()
        self.messages: list[str] = []
        self.before: Callable[[str], None] = lambda name: None
        """Called before each method, with its name."""
        n = len(MENU)
        self.weights, self.moments, self.steps = np.zeros(n), np.zeros((2, n)), 0
        self.first = self.weights
        self._gradient = np.zeros(n)
        if state is not None:
            with np.load(Path(state) / "menu.npz") as kept_state:
                self.weights, self.moments = kept_state["weights"], kept_state["moments"]
                self.first, self.steps = kept_state["first"], int(kept_state["steps"])

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(MENU).encode()).hexdigest()

    async def forward(self, datums: Sequence[Datum], loss: Loss) -> Step:
        self.before("forward")
        self.usage.forward_tokens += sum(d.n_tokens for d in datums)
        return self._pass(datums, loss)[0]

    async def forward_backward(self, datums: Sequence[Datum], loss: Loss) -> Step:
        self.before("forward_backward")
        step, gradient = self._pass(datums, loss)
        if not np.isfinite(step.loss):
            raise NotFiniteError(f"the loss is {step.loss}")
        self._gradient = self._gradient + gradient
        self.usage.trained_tokens += sum(d.n_tokens for d in datums)
        self.usage.active_tokens += step.n_active
        self.usage.images += sum(len(d.images) for d in datums)
        self.usage.batches += 1
        return step

    def optim_step(self, adam: Adam) -> Update:
        self.before("optim_step")
        gradient, self._gradient = self._gradient, np.zeros_like(self._gradient)
        norm = float(np.linalg.norm(gradient))
        if adam.grad_clip_norm and norm > adam.grad_clip_norm:
            gradient = gradient * adam.grad_clip_norm / norm
        self.steps += 1
        first = adam.beta1 * self.moments[0] + (1 - adam.beta1) * gradient
        second = adam.beta2 * self.moments[1] + (1 - adam.beta2) * gradient**2
        self.moments = np.array([first, second])
        scale = np.sqrt(second / (1 - adam.beta2**self.steps)) + adam.eps
        self.weights = self.weights - adam.lr * first / (1 - adam.beta1**self.steps) / scale
        self.usage.updates += 1
        return Update(norm)

    def reference(self, datums: Sequence[Datum]) -> tuple[NDArray[np.float32], ...]:
        return tuple(_read(self.first, d)[0] for d in datums)

    async def save_state(self, name: str, folder: Path) -> str:
        self.before("save_state")
        (folder / f"{name}-state").mkdir()
        told = {"weights": self.weights, "moments": self.moments, "first": self.first, "steps": np.array(self.steps)}
        np.savez(folder / f"{name}-state" / "menu.npz", **told)
        self.before("saved_state")
        return f"{name}-state"

    def save_sampler(self, name: str, folder: Path) -> str:
        self.before("save_sampler")
        (folder / f"{name}-sampler").mkdir()
        np.save(folder / f"{name}-sampler" / "menu.npy", self.weights)
        return f"{name}-sampler"

    def sampler(self) -> MenuPolicy:
        return MenuPolicy(self.weights, before=lambda: self.before("sample"))

    def aclose(self) -> None: ...

    def _pass(self, datums: Sequence[Datum], loss: Loss) -> tuple[Step, NDArray[np.float64]]:
        n = sum(d.n_learnt for d in datums)
        total, gradient, logprobs = 0.0, np.zeros(len(MENU)), []
        for datum in datums:
            p, slopes = _read(self.weights, datum)
            logprobs.append(p)
            active = datum.weights > 0
            now = p[active].astype(np.float64)
            if loss.name == "cross_entropy":
                total, by_p = total - now.sum(), -np.ones_like(now)
            else:
                assert datum.logprobs is not None and datum.advantages is not None  # noqa: PT018
                ratio, a = np.exp(now - datum.logprobs[active]), datum.advantages[active].astype(np.float64)
                clipped = np.clip(ratio, *loss.clip) if loss.name == "ppo" else ratio
                total -= np.minimum(ratio * a, clipped * a).sum()
                by_p = -np.where(ratio * a <= clipped * a, ratio * a, 0.0)
            gradient += by_p @ slopes
        return Step(float(total / n), tuple(logprobs), n), gradient / n


def _read(weights: NDArray[np.float64], datum: Datum) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(log-probs by position, gradients of the active ones) of a datum; a turn is a run of active positions."""
    values = np.zeros(datum.n_tokens, dtype=np.float32)
    slopes = []
    edges = np.flatnonzero(np.diff(np.concatenate([[0], datum.weights > 0, [0]])))
    for start, end in edges.reshape(-1, 2):
        values[start:end], gradients = token_logprobs(weights, datum.targets[start:end].tolist())
        slopes.append(gradients)
    return values, np.concatenate(slopes)
