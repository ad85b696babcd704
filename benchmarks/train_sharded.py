"""The torch trainer in one process and in several: whether the numbers are the same, and what is gained.

    python benchmarks/train_sharded.py --json --device cpu --shape tiny             two CPU processes
    python benchmarks/train_sharded.py --json                                       two GPUs, small, under 3 minutes
    python benchmarks/train_sharded.py --json --shape 3b --method lora full         two GPUs, Qwen2.5-VL-3B's shape

A random model is saved as a folder. Then, for each method, the same demonstrations (`train_work.py`) are trained on by
one process and by `--processes`: losses and gradient norms of each step, and how far they are apart; positions a second
(the median step, from the PNG bytes on); the peak of memory on the first GPU; seconds to open, to save a state and to
bring the sampler up to date. The state that several processes saved is read by one, and must give the same loss. At
last a process is killed in the middle of a step, and the seconds until the trainer says so are counted.

Numbers of steps after the first differ by what rounding differs, and Adam makes the most of small gradients: the first
step tells about the code. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import train_work as work
from specvet.chat import Datum, sft_datum
from specvet.chat.tiny import write_tiny
from specvet.policies.options import ModelOptions
from specvet.policies.remote import resolve
from specvet.policies.torch.loading import device_of, dtype_of
from specvet.training.registry import open_trainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Lora, Trainer, TrainerError, TrainerOptions

WARM = 1
RATE = 2e-5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--shape", choices=tuple(work.SHAPES), default="small")
    parser.add_argument("--layers", type=int, help="text layers, instead of the shape's own")
    parser.add_argument("--method", nargs="+", choices=("lora", "full"), default=["lora", "full"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16, help="demonstrations an update")
    parser.add_argument("--steps", type=int, default=4, help="that count, after one that warms up")
    parser.add_argument("--micro-tokens", type=int, help="positions that go through the model at a time")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "cpu"))
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        told = measured(options, Path(folder))
    if not options.json:
        print(json.dumps(told, indent=1), file=sys.stderr)
    print(json.dumps(told))
    return 0


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    device = device_of(options.device)
    dtype = dtype_of(options.dtype, device)
    module = work.model(options, device, dtype)
    told: dict[str, Any] = {
        "shape": options.shape,
        "weights_millions": round(sum(p.numel() for p in module.parameters()) / 1e6, 1),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "gpus": torch.cuda.device_count(),
        "dtype": str(dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    n_ids = int(module.config.text_config.vocab_size)
    module.save_pretrained(folder / "model")
    write_tiny(work.FAMILY, folder / "model")
    del module
    if device.type == "cuda":
        torch.cuda.empty_cache()
    for method in options.method:
        try:
            told[method] = asyncio.run(compared(options, folder, method, n_ids))
        except Exception as e:  # the other method may work
            told[method] = {"error": f"{type(e).__name__}: {e}"[:2000]}
    return told


async def compared(options: argparse.Namespace, folder: Path, method: str, n_ids: int) -> dict[str, Any]:
    """One method, in one process and in several."""
    told: dict[str, Any] = {}
    runs = {}
    for processes in (1, options.processes):
        runs[processes] = told[f"processes_{processes}"] = await trained(options, folder, method, processes, n_ids)
    one, many = runs[1], runs[options.processes]
    told["times_as_fast"] = round(many["tokens_per_second"] / one["tokens_per_second"], 3)
    for name in ("losses", "grad_norms"):
        apart = [abs(a - b) / abs(a) for a, b in zip(one[name], many[name], strict=True)]
        told[f"{name}_apart"] = [float(f"{value:.2e}") for value in apart]
    told["first_logprobs_apart"] = float(np.abs(one.pop("logprobs") - many.pop("logprobs")).max())
    state = str(folder / f"{method}-{options.processes}-state")
    trainer = open_trainer("torch", trainer_options(options, folder, method, 1, state=state, with_optimizer=True))
    try:
        again = await resolve(trainer.forward(batches(options, trainer, n_ids)[0], CROSS_ENTROPY))
    finally:
        await resolve(trainer.aclose())
    told["state_read_by_one"] = {"loss": again.loss, "loss_of_many": many["loss_at_the_end"]}
    return told


async def trained(options: argparse.Namespace, folder: Path, method: str, processes: int, n_ids: int) -> dict[str, Any]:
    began = time.perf_counter()
    trainer = open_trainer("torch", trainer_options(options, folder, method, processes))
    told: dict[str, Any] = {"open_seconds": round(time.perf_counter() - began, 2)}
    try:
        groups = batches(options, trainer, n_ids)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        losses, norms, seconds = [], [], []
        for group in groups:
            start = time.perf_counter()
            step = await resolve(trainer.forward_backward(group, CROSS_ENTROPY))
            update = await resolve(trainer.optim_step(Adam(RATE)))
            seconds.append(time.perf_counter() - start)
            losses.append(step.loss)
            norms.append(update.grad_norm)
            if len(losses) == 1:
                told["logprobs"] = np.concatenate(step.logprobs)
        rates = [sum(d.n_tokens for d in g) / s for g, s in zip(groups, seconds, strict=True)][WARM:]
        told |= {"losses": losses, "grad_norms": norms, "step_seconds": [round(s, 3) for s in seconds]}
        told["tokens_per_second"] = round(statistics.median(rates), 1)
        told["padding"] = round(trainer.usage.padded_tokens / trainer.usage.trained_tokens, 3)
        if torch.cuda.is_available():
            told["peak_gib_of_first_gpu"] = round(torch.cuda.max_memory_allocated(0) / 2**30, 2)
        told["loss_at_the_end"] = (await resolve(trainer.forward(groups[0], CROSS_ENTROPY))).loss
        told["save_seconds"] = await clocked(trainer.save_state(f"{method}-{processes}", folder))
        told["first_sampler_seconds"] = await clocked(trainer.sampler())
        await resolve(trainer.forward_backward(groups[0], CROSS_ENTROPY))
        await resolve(trainer.optim_step(Adam(RATE)))
        told["sampler_seconds"] = await clocked(trainer.sampler())
        if processes > 1:
            told["killed"] = await killed(trainer, groups[0])
    finally:
        start = time.perf_counter()
        await resolve(trainer.aclose())
        del trainer
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        told["close_seconds"] = round(time.perf_counter() - start, 2)
    return told


async def clocked(later: Any) -> float:
    start = time.perf_counter()
    await resolve(later)
    return round(time.perf_counter() - start, 3)


async def killed(trainer: Any, datums: Sequence[Datum]) -> dict[str, Any]:
    """Kill a process soon after a pass has begun; what is said, and the seconds until then."""
    pid = trainer._workers.pids[-1]
    times: list[float] = []

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        times.append(time.perf_counter())

    threading.Timer(0.05, kill).start()
    try:
        while True:
            await resolve(trainer.forward_backward(datums, CROSS_ENTROPY))
    except TrainerError as e:
        return {"said": str(e), "seconds": round(time.perf_counter() - times[0], 2)}


def trainer_options(
    options: argparse.Namespace, folder: Path, method: str, processes: int, **more: Any
) -> TrainerOptions:
    return TrainerOptions(
        ModelOptions(model=str(folder / "model"), device=options.device, dtype=options.dtype),
        lora=Lora(options.rank, options.rank) if method == "lora" else None,
        processes=processes,
        micro_tokens=options.micro_tokens,
        **more,
    )


def batches(options: argparse.Namespace, trainer: Trainer, n_ids: int) -> list[list[Datum]]:
    n = (WARM + options.steps) * options.batch
    ledgers = work.demonstrations(trainer.format, n, 1, work.Sizes.of(options.shape), n_ids)
    return [[sft_datum(x) for x in group] for group in work.batches(ledgers, options.batch)]


if __name__ == "__main__":
    sys.exit(main())
