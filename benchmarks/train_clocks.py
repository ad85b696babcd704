"""Clocks for `train_torch.py`: parts of a step, kinds of kernels, rates, and what the work needs at the least."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from specvet.chat import Datum

WARM = 2
"""Steps that warm up."""


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Seconds of parts that call each other, each without what the parts inside it take; waits for the device at every
    boundary, so what it times is slower than what runs unwatched."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._last = 0.0
        self._undo: list[Any] = []

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._tick()
        self._open.append(name)
        try:
            yield
        finally:
            self._tick()
            self._open.pop()

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Time every call of `owner.method` from now on, until `stop`."""
        inner = getattr(owner, method)
        own = method in vars(owner)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return inner(*args, **kwargs)

        setattr(owner, method, timed)
        self._undo.append(lambda: setattr(owner, method, inner) if own else delattr(owner, method))

    def stop(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _tick(self) -> None:
        synchronise(self.device)
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._last
        self._last = now


KERNELS = (
    # the first that fits a kernel's name says what it is
    ("attention", ("flash", "fmha", "attention", "softmax_warp", "cudnn")),
    ("matrix products", ("gemm", "nvjet", "cutlass", "cublas", "splitk", "xmma")),
    ("optimiser", ("multi_tensor_apply", "fusedadam", "lpnorm", "foreach")),
    ("norm and reductions", ("reduce", "norm", "mean", "softmax", "log_softmax")),
    ("moved and cast", ("memcpy", "memset", "copy", "cat", "index", "gather", "scatter", "transpose")),
    ("triton", ("triton", "_kernel_")),
    ("elementwise", ("elementwise", "vectorized", "unrolled")),
)


def kernel_seconds(profile: Any) -> dict[str, float]:
    """Seconds of the device's kernels by kind, and in all, of a finished `torch.profiler.profile`."""
    told: dict[str, float] = defaultdict(float)
    for event in profile.events():
        if event.device_type != torch.autograd.DeviceType.CUDA:
            continue
        name = event.name.lower()
        kind = next((kind for kind, words in KERNELS if any(w in name for w in words)), "other")
        seconds = event.time_range.elapsed_us() / 1e6
        told[kind] += seconds
        told["all kernels"] += seconds
        told["number of kernels"] += 1
    return {k: round(v, 4) for k, v in sorted(told.items(), key=lambda x: -x[1])}


def flops(module: Any, lengths: Sequence[int], active: int) -> float:
    """Floating-point operations that training a LoRA of the text model cannot do without: the frozen weights forward
    and back to the inputs, causal attention, the head at the active positions; not adapters, nor the vision tower."""
    config = module.config.text_config
    hidden, layers, heads = config.hidden_size, config.num_hidden_layers, config.num_attention_heads
    wide = hidden // heads
    own = hidden * wide * (2 * heads + 2 * config.num_key_value_heads) + 3 * hidden * config.intermediate_size
    linear = 2.0 * layers * own * sum(lengths)
    attention = sum(2.0 * layers * heads * wide * n * n for n in lengths)  # q k and p v, half of each
    head = 2.0 * hidden * config.vocab_size * active
    return 2 * linear + 3.5 * attention + 2 * head


def rounded(values: Mapping[str, float], digits: int = 4) -> dict[str, float]:
    return {k: round(v, digits) for k, v in values.items()}


def rates(
    module: Any, batches: Sequence[Sequence[Datum]], seconds: Sequence[float], losses: Sequence[float]
) -> dict[str, float]:
    """Medians over the steps that count, those after `WARM`. `batches` may go on beyond the steps that were timed."""
    spent = seconds[WARM:]
    counted = batches[WARM : len(seconds)]
    tokens = [float(sum(d.n_tokens for d in batch)) for batch in counted]
    active = [sum(d.n_learnt for d in batch) for batch in counted]
    needed = [flops(module, [d.n_tokens for d in batch], a) for batch, a in zip(counted, active, strict=True)]
    return {
        "seconds": round(statistics.median(spent), 4),
        "tokens_per_s": _rate(tokens, spent),
        "active_tokens_per_s": _rate(active, spent),
        "slowest_tokens_per_s": round(min(t / s for t, s in zip(tokens, spent, strict=True)), 1),
        "useful_tflops": round(_rate(needed, spent) / 1e12, 2),
        "first_loss": round(float(losses[0]), 5),
        "last_loss": round(float(losses[len(seconds) - 1]), 5),
    }


def _rate(amounts: Sequence[float], seconds: Sequence[float]) -> float:
    return round(statistics.median(a / s for a, s in zip(amounts, seconds, strict=True)), 1)


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {k: float(f"{statistics.median(r[k] for r in rows):.5g}") for k in rows[0]}


def matrix_tflops(device: torch.device) -> float | None:
    """What this device reaches in bf16 matrix products of 8192 x 8192 on random numbers: nothing here can be faster."""
    if device.type != "cuda":
        return None
    a, b = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(13):
        synchronise(device)
        start = time.perf_counter()
        a @ b
        synchronise(device)
        seconds.append(time.perf_counter() - start)
    return round(2 * 8192**3 / statistics.median(seconds[3:]) / 1e12, 1)
