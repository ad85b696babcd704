"""What a step of GRPO costs beside the model: everything that the machine around a GPU does.

    python benchmarks/grpo_host.py QUESTIONS DEMONSTRATIONS BASE [--steps 2] [--pool N] [--profile FILE] [--json]

The real loop of `specvet train grpo --profile nano`: 64 questions, 8 trajectories each, with tool, pictures, ledgers,
run folder, datums, micro-batches and a step of the optimiser. Two things are not the model's: a scripted policy answers
at once with turns of DEMONSTRATIONS (real turns of real lengths, in the vocabulary of the model folder BASE), and what
is trained is a model with the same vocabulary and picture sizes, but 1 layer, 16 wide, so that its arithmetic is small
beside the rest. Seconds are those of processors, so that what else runs on the machine does not count: `loop_s` of the
event loop's own thread, `process_s` of all threads of the process. `python_ms` is what a
million additions take in Python, to compare machines by. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import platform
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np


class Repeated:
    """A `TokenPolicy` that repeats turns of demonstrations: calls, and from the third turn on some answers."""

    name = "scripted"
    context = None

    def __init__(self, format: Any, calls: list[tuple[int, ...]], answers: list[tuple[int, ...]]) -> None:
        from specvet.policies.tokens import Usage

        self.capabilities = frozenset({"ids", "logprobs", "n", "images", "trainable"})
        self.format, self.calls, self.answers = format, calls, answers
        self.usage = Usage()
        self.fingerprint = "scripted"
        self.seconds = 0.0

    async def sample(self, ledger: Any, n: int, params: Any) -> Any:
        from specvet.policies.tokens import Samples, Sequence

        await asyncio.sleep(0)
        started = time.thread_time()
        turn = len(ledger.sampled)
        rng = np.random.default_rng(params.seed)
        made = []
        for _ in range(n):
            answers = turn >= 6 or (turn >= 2 and rng.random() < 0.35)
            turns = self.answers if answers else self.calls
            ids = turns[int(rng.integers(len(turns)))]
            made.append(Sequence(ids, -rng.random(len(ids), dtype=np.float32), "end"))
        self.usage.requests += 1
        self.usage.sampled_tokens += sum(len(s.ids) for s in made)
        self.seconds += time.thread_time() - started
        return Samples(tuple(made), ledger.n_tokens)

    def release(self, ledger: Any) -> None:
        pass

    async def aclose(self) -> None:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions")
    parser.add_argument("demonstrations")
    parser.add_argument("base")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pool", type=int, default=0, help="processes that draw, as on a machine of many cores")
    parser.add_argument("--profile", help="write a cProfile of the loop's own thread here")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    found = measured(options)
    if not options.json:
        for name, value in found.items():
            print(f"{name:24} {value}", file=sys.stderr)
    print(json.dumps(found))
    return 0


class Clocks:
    """A `Watch` that notes the processor's seconds of each part of a step."""

    stopping = False

    def __init__(self) -> None:
        self.parts: list[dict[str, float]] = []
        self.lines: list[dict[str, Any]] = []
        self._now = self._clocks()

    def note(self, part: str) -> None:
        """What went by since the last note belongs to this part of the step under way."""
        now, then = self._clocks(), self._now
        spent = zip(("s", "loop_s", "process_s"), now, then, strict=True)
        self.parts[-1] |= {f"{part}_{name}": b - a for name, b, a in spent}
        self._now = now

    def batch(self, n: int) -> None:
        self.parts.append({})
        self._now = self._clocks()

    def step(self, metrics: Any) -> None:
        if metrics["kind"] == "step":
            self.note("train")
            self.lines.append(dict(metrics))

    def started(self, config: Any, run: Any) -> None: ...
    def trajectory(self) -> None: ...
    def message(self, text: str) -> None: ...
    def close(self) -> None: ...

    @staticmethod
    def _clocks() -> tuple[float, float, float]:
        return time.perf_counter(), time.thread_time(), time.process_time()


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds a step: the least of the steps after the first."""
    import torch

    from specvet.policies.remote import resolve
    from specvet.training.grpo import grpo
    from specvet.training.inputs import grpo_data
    from specvet.training.opening import trainer_options
    from specvet.training.profiles import resolve as resolved
    from specvet.training.registry import open_trainer
    from specvet.training.run import TrainingRun
    from specvet.views import RenderPool

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="specvet-host-") as folder:
        settings = {
            "model.name": str(thin_model(Path(folder) / "thin", options.base)),
            "model.device": "cpu",
            "grpo.data": options.questions,
            "grpo.questions": options.batch,
            "grpo.max_steps": options.steps,
        }
        config = resolved("grpo", "nano", settings)
        clocks = Clocks()

        async def run() -> dict[str, Any]:
            with TrainingRun.open(Path(folder) / "run", config) as training:
                trainer: Any = await resolve(open_trainer("torch", trainer_options(config)))
                began = time.process_time()
                asked, _ = grpo_data(config.loop, folder)
                loading = time.process_time() - began
                policy = Repeated(trainer.format, *turns_of(options.demonstrations, trainer.format))
                learn = trainer.forward_backward

                def forward_backward(*given: Any) -> Any:
                    clocks.note("rollout")
                    return learn(*given)

                trainer.sampler, trainer.forward_backward = lambda: policy, forward_backward
                profiler = cProfile.Profile(time.thread_time) if options.profile else None
                if profiler:
                    profiler.enable()
                try:
                    await grpo(config, trainer, asked, training, clocks, pool=pool)
                finally:
                    if profiler:
                        profiler.disable()
                        profiler.dump_stats(options.profile)
                    await resolve(trainer.aclose())
                return {"load_questions_s": loading, "questions": len(asked.asked), "scripted_s": policy.seconds}

        with RenderPool(processes=options.pool) if options.pool else nullcontext() as pool:
            about = asyncio.run(run())
    warm = clocks.parts[1:] or clocks.parts
    told = {name: round(min(part[name] for part in warm), 3) for name in warm[0]}
    line = clocks.lines[-1]
    about["scripted_s"] /= len(clocks.parts)
    told |= {name: round(value, 3) for name, value in about.items()}
    counts = ("trajectories", "turns_mean", "datums", "trained_tokens", "active_tokens", "images")
    told |= {name: line[name] for name in counts}
    began = time.thread_time()
    sum(range(1_000_000))
    told["python_ms"] = round(1e3 * (time.thread_time() - began), 1)
    return told | {"python": platform.python_version(), "machine": platform.machine()}


def turns_of(demonstrations: str, format: Any) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """(calls, answers): the ids of the turns of the first demonstrations."""
    from specvet.data.demonstrations import load_sft, sft_ledger

    calls, answers = [], []
    for row in load_sft(demonstrations, format, 4_096)[0][:200]:
        *looks, answer = [s.ids for s in sft_ledger(row.demonstration, format).sampled]
        calls += looks
        answers.append(answer)
    return calls, answers


def thin_model(folder: Path, base: str) -> Path:
    """A model folder with the chat files of `base` and next to no weights."""
    import torch
    import transformers

    from specvet.training.torch.states import copy_settings

    config = transformers.AutoConfig.from_pretrained(base)
    text, vision = config.text_config, config.vision_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = 16, 16, 1
    text.num_attention_heads = text.num_key_value_heads = 1
    text.layer_types, text.head_dim = ["full_attention"], 16
    text.rope_parameters = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
    vision.hidden_size, vision.intermediate_size, vision.depth, vision.num_heads = 16, 16, 1, 1
    vision.out_hidden_size, vision.fullatt_block_indexes = 16, [0]
    torch.manual_seed(0)
    transformers.AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    copy_settings(Path(base), folder)
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
