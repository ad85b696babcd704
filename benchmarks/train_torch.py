"""How fast the `torch` trainer trains, beside TRL's trainers, in one run.

    python benchmarks/train_torch.py --json --compare                      tiny, on a CPU, some minutes
    python benchmarks/train_torch.py --json --compare --shape 3b --out DIR one GPU, within `--seconds`

SFT: the same demonstrations (see `train_work.py`), batches of 4, LoRA 32 on attention and MLP of the language model,
frozen vision tower, bf16, assistant tokens only, AdamW; with and without gradient checkpointing (ours also as memory
asks for it, its default). TRL is measured with its batch of 4 at once, padded, and one after the other, which needs no
padding; the better of the two is what ours is compared with. Our time counts everything from the PNG bytes on; TRL's
ids, labels and pixels are made ahead of time (`train_trl.py` says what it is given).

GRPO: one step, 8 questions x 8 trajectories of `--turns` turns, from the first prompt to the update, in both; the same
numbers of tokens and pictures. TRL rolls out with transformers' `generate`, its own way where there is no vLLM.

Steps are timed from end to end after two that warm up; figures are medians. `parts` are of one more step under clocks
that wait for the device at each boundary, so their sum is a little more than a step. Memory is the allocator's peak.
Weights are random: sizes are what is measured, and both sides start from the same ones: `first_loss` should agree.
The last line of the output is one JSON object; with `--out` it is also written after each part of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import transformers

import train_clocks as clocks
import train_work as work
from specvet.chat import Ledger, sft_datum
from specvet.policies.torch.loading import device_of, dtype_of
from train_ours import Ours

PARTS = ("sft", "grpo", "memory", "liger")
LONG = 16_384
CHECKPOINTING = {True: "checkpointing", False: "no_checkpointing"}
OURS = CHECKPOINTING | {None: "default"}
"""By default ours checkpoints as many layers as memory asks for."""
PACKAGES = ("torch", "transformers", "peft", "accelerate", "trl", "liger_kernel")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--shape", choices=tuple(work.SHAPES), default="tiny", help="3b: Qwen2.5-VL-3B's")
    parser.add_argument("--layers", type=int, help="text layers, instead of the shape's own")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="these parts")
    parser.add_argument("--compare", action="store_true", help="beside TRL")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--batch", type=int, default=4, help="demonstrations an update")
    parser.add_argument("--steps", type=int, default=5, help="SFT steps that count")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--grpo-steps", type=int, default=2, help="GRPO steps that count, after one that warms up")
    parser.add_argument("--grpo-micro", type=int, default=1, help="trajectories that TRL trains on at a time")
    parser.add_argument("--grpo-checkpointing", action="store_true", help="on both sides; otherwise what is fastest")
    parser.add_argument("--long", type=int, default=LONG, help="tokens of the datum whose memory is measured")
    parser.add_argument("--kernels", action="store_true", help="also profile the device's kernels in one more step")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, help="of torch; 1 where the device is a CPU, its own choice elsewhere")
    parser.add_argument("--seconds", type=float, default=500.0, help="begin nothing more after that")
    parser.add_argument("--out", type=Path, help="folder for metrics.json")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    bench = Bench(options)
    if options.threads or bench.device.type == "cpu":
        torch.set_num_threads(options.threads or 1)
    for part in PARTS:
        if not options.only or part in options.only:
            getattr(bench, part)()
    bench.write()
    if not options.json:
        print(json.dumps(bench.told, indent=1), file=sys.stderr)
    print(json.dumps(bench.told))
    return 0


class Bench:
    """The parts of the run and what they gave."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.began = options, time.perf_counter()
        self.device = device_of(options.device)
        self.dtype = dtype_of(options.dtype, self.device)
        self.format, self.sizes = work.text_format(), work.Sizes.of(options.shape)
        module = self.module()
        self.config = module.config
        self.n_ids = int(self.config.text_config.vocab_size)
        self.told: dict[str, Any] = {
            "shape": options.shape,
            "weights_millions": round(sum(p.numel() for p in module.parameters()) / 1e6, 1),
            "rank": options.rank,
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else platform.machine(),
            "dtype": str(self.dtype).removeprefix("torch."),
            "matrix_tflops": clocks.matrix_tflops(self.device),
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        }

    @property
    def kernels(self) -> bool:
        return bool(self.options.kernels) and self.device.type == "cuda"

    # --- SFT

    def demonstrations(self) -> list[Ledger]:
        n = clocks.WARM + self.options.steps + 1 + self.kernels
        return work.demonstrations(self.format, n * self.options.batch, 1, self.sizes, self.n_ids)

    def sft(self) -> None:
        options = self.options
        ledgers = self.demonstrations()
        counted = [sft_datum(x) for x in ledgers[clocks.WARM * options.batch :][: options.steps * options.batch]]
        told = self.told["sft"] = {
            "batch": options.batch,
            "steps": options.steps,
            "tokens": sum(d.n_tokens for d in counted),
            "active_tokens": sum(d.n_learnt for d in counted),
            "longest": max(d.n_tokens for d in counted),
            "pictures": sum(len(d.images) for d in counted),
        }
        for checkpointing, name in OURS.items():
            self.keep(told, f"ours_{name}", self.ours_sft, ledgers, checkpointing)
        if not options.compare:
            return
        for checkpointing, name in CHECKPOINTING.items():
            for micro in (1, options.batch):
                self.keep(told, f"trl_{name}_{micro}_at_a_time", self.trl_sft, ledgers, micro, checkpointing)
        told["times_trl"] = _times_trl(told)

    def liger(self) -> None:
        """TRL once more with liger-kernel's layers; last of all, since it changes transformers for this process."""
        options, told = self.options, self.told.setdefault("sft", {})
        if options.compare and self.device.type == "cuda" and _version("liger_kernel"):
            ledgers = self.demonstrations()
            for checkpointing, name in CHECKPOINTING.items():
                self.keep(told, f"trl_{name}_1_at_a_time_liger", self.trl_sft, ledgers, 1, checkpointing, True)
            told["times_trl"] = _times_trl(told)

    def profiled(self, ledgers: Sequence[Ledger], worth: bool) -> tuple[Sequence[Ledger], bool]:
        """The ledgers without those of the step for profiling, where it is not worth its time, and whether it is."""
        kernels = self.kernels and worth
        return ledgers[: (clocks.WARM + self.options.steps + 1 + kernels) * self.options.batch], kernels

    def ours_sft(self, ledgers: Sequence[Ledger], checkpointing: bool | None) -> dict[str, Any]:
        ledgers, kernels = self.profiled(ledgers, checkpointing is True)
        return self.ours(checkpointing, "sft", ledgers, self.options.batch, kernels=kernels)

    def trl_sft(
        self, ledgers: Sequence[Ledger], micro: int, checkpointing: bool, liger: bool = False
    ) -> dict[str, Any]:
        import train_trl

        module, batch = self.module(), self.options.batch
        ledgers, kernels = self.profiled(ledgers, checkpointing and micro == 1 and not liger)
        datums = [sft_datum(x) for x in ledgers]
        told = train_trl.sft(
            module,
            train_trl.processor(self.format, self.config),
            datums,
            device=self.device,
            rank=self.options.rank,
            batch=batch,
            micro=micro,
            checkpointing=checkpointing,
            liger=liger,
            kernels=kernels,
        )
        groups = [datums[i : i + batch] for i in range(0, len(datums), batch)]
        rates = clocks.rates(module, groups, told.seconds, told.losses)
        return rates | {"peak_gib": round(told.peak_gib, 2)} | told.notes | {"parts": clocks.rounded(told.parts)}

    # --- GRPO

    def grpo(self) -> None:
        options = self.options
        steps = [
            work.rollout_step(self.format, i, options.questions, options.group, options.turns, self.sizes)
            for i in range(options.grpo_steps + 1)
        ]
        told = self.told["grpo"] = {name: getattr(options, name) for name in ("questions", "group", "turns")}
        told["sampled_a_turn"] = self.sizes.said
        told["checkpointing"] = options.grpo_checkpointing
        checkpointing = True if options.grpo_checkpointing else None
        self.keep(told, "ours", self.ours, checkpointing, "grpo", steps, options.group, self.sizes)
        if options.compare:
            self.keep(told, "trl", self.trl_grpo, steps)
            mine, theirs = told["ours"], told["trl"]
            if "error" not in mine | theirs:
                parts = ("seconds", "rollout_seconds", "train_seconds")
                told["times_trl"] = {part: round(theirs[part] / mine[part], 2) for part in parts}

    def trl_grpo(self, steps: Sequence[work.RolloutStep]) -> dict[str, Any]:
        import train_trl

        told = train_trl.grpo(
            self.module(),
            train_trl.processor(self.format, self.config),
            steps,
            self.sizes,
            device=self.device,
            rank=self.options.rank,
            group=self.options.group,
            micro=self.options.grpo_micro,
            checkpointing=self.options.grpo_checkpointing,
            until=self.began + self.options.seconds,
        )
        rows = [
            {"seconds": s, "rollout_seconds": r, "train_seconds": s - r}
            for s, r in zip(told.seconds, told.notes.pop("rollout_seconds"), strict=True)
        ]
        told.notes["steps"] = len(rows[1:])
        first = {"first_step_seconds": round(rows[0]["seconds"], 2), "peak_gib": round(told.peak_gib, 2)}
        return clocks.medians(rows[1:] or rows) | told.notes | first

    # --- memory

    def memory(self) -> None:
        long = self.options.long
        seeds = (900_000, 901_000, 902_000)
        ledgers = [work.long_trajectory(self.format, long, seed, self.sizes, self.n_ids) for seed in seeds]
        told: dict[str, Any] = {"tokens": long, "pictures": len(ledgers[0].images)}
        self.told["memory"] = told
        for checkpointing, name in OURS.items():
            self.keep(told, f"ours_{name}", self.ours, checkpointing, "long", ledgers)
            if self.options.compare and checkpointing is not None:
                self.keep(told, f"trl_{name}", self.trl_long, ledgers, checkpointing)

    def trl_long(self, ledgers: Sequence[Ledger], checkpointing: bool) -> dict[str, Any]:
        import train_trl

        told = train_trl.sft(
            self.module(),
            train_trl.processor(self.format, self.config),
            [sft_datum(x) for x in ledgers],
            device=self.device,
            rank=self.options.rank,
            batch=1,
            micro=1,
            checkpointing=checkpointing,
            watched=False,
        )
        return {"peak_gib": round(told.peak_gib, 2), "seconds": round(told.seconds[-1], 3)}

    # --- both

    def module(self) -> Any:
        return work.model(self.options, self.device, self.dtype)

    def ours(self, checkpointing: bool | None, what: str, *arguments: Any, **named: Any) -> dict[str, Any]:
        """What a method of `Ours` gives, on a new module."""

        async def run() -> dict[str, Any]:
            options = self.options
            n = options.questions * options.group
            tokens = self.sizes.opening + options.turns * (self.sizes.said + self.sizes.seen)
            mine = Ours(self.module(), self.format, options.rank, checkpointing, n, -(-tokens // 1024) * 1024)
            try:
                return dict(await getattr(mine, what)(*arguments, **named))
            finally:
                await mine.aclose()

        return asyncio.run(run())

    def keep(self, told: dict[str, Any], name: str, run: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """What a part gave, or why it gave nothing, is told and written; what it held on the device is free again."""
        spent = time.perf_counter() - self.began
        if spent > self.options.seconds:
            told[name] = {"error": f"not begun after {spent:.0f} s (--seconds {self.options.seconds:.0f})"}
        else:
            try:
                told[name] = run(*arguments, **named)
            except Exception as e:
                traceback.print_exc()
                told[name] = {"error": f"{type(e).__name__}: {e}"[:500]}
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.write()

    def write(self) -> None:
        self.told["seconds_in_all"] = round(time.perf_counter() - self.began, 1)
        if self.options.out:
            self.options.out.mkdir(parents=True, exist_ok=True)
            (self.options.out / "metrics.json").write_text(json.dumps(self.told, indent=1) + "\n")


def _times_trl(told: dict[str, Any]) -> dict[str, float]:
    """Our tokens a second over those of TRL's best way, with checkpointing, without, and each side's best."""
    rates = {
        name: part["tokens_per_s"] for name, part in told.items() if isinstance(part, dict) and "tokens_per_s" in part
    }
    ratios = {}
    for kind, words in {**{n: f"_{n}" for n in CHECKPOINTING.values()}, "best": "_"}.items():
        own = [r for name, r in rates.items() if name.startswith(f"ours{words}")]
        theirs = [r for name, r in rates.items() if name.startswith(f"trl{words}")]
        if own and theirs:
            ratios[kind] = round(max(own) / max(theirs), 2)
    return ratios


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
