"""What a trajectory costs the host of a `torch` policy, beside the model's arithmetic: where a GPU waits for Python.

    python benchmarks/rollout_host.py QUESTIONS DEMONSTRATIONS MODEL [--questions 64] [--profile FILE] [--json]

The rollouts of one step of `specvet train grpo --profile nano` (64 questions, 8 trajectories each) with the real
policy: requests, rows, lanes, prefixes, pictures to patches, blocks of steps; tool, drawings, PNGs, ledgers, parsing,
records, database. What is said are turns of DEMONSTRATIONS, put in the place of what was sampled, so that lengths and
windows are real; what computes is a model with the vocabulary and picture sizes of MODEL, 1 layer, 16 wide.

Every figure is processor time of all threads, in ms a trajectory, so that what else runs on the machine counts little.
`arithmetic` is what the model's own calls take (on a GPU: the launching of them) and no part of `host`; the parts of
`host` are times of their own, without what they call of other parts; `rest` is the event loop, the engine's loop,
threads and futures. Where several processes roll out (`grpo.processes`), each trajectory costs its process `send` more,
and the first process `receive` and `database` only. `python_ms` is what a million additions take, to compare machines
by. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import json
import os
import pickle
import platform
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from grpo_host import thin_model, turns_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions_file", metavar="QUESTIONS")
    parser.add_argument("demonstrations", metavar="DEMONSTRATIONS")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--block", type=int, default=8, help="decode steps between two looks, as on a GPU")
    parser.add_argument("--profile", help="write a cProfile of the event loop's thread here")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    found = asyncio.run(measured(options))
    if not options.json:
        for name, value in found.items():
            print(f"{name:24} {value}", file=sys.stderr)
    print(json.dumps(found))
    return 0


class Clock:
    """Processor seconds by part, each without those of the parts that it calls."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._local = threading.local()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        stack = self._local.__dict__.setdefault("stack", [])
        started = time.thread_time()
        stack.append(0.0)
        try:
            yield
        finally:
            spent = time.thread_time() - started
            self.seconds[name] += spent - stack.pop()
            if stack:
                stack[-1] += spent

    def timed(self, owner: Any, names: str, part: str) -> None:
        """These methods (or functions of a module) count as that part from now on."""
        for name in names.split():
            inner = owner.__dict__[name]
            if hasattr(inner, "func"):  # a cached property
                inner.func = self._around(inner.func, part)
            else:
                setattr(owner, name, self._around(inner, part))

    def _around(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            with self.part(part):
                return function(*given, **named)

        return counted


def watch(clock: Clock) -> None:
    """Name the parts of a rollout."""
    from specvet.agent import episode, rollout, talk
    from specvet.chat.ledger import Ledger
    from specvet.chat.qwen import QwenFormat
    from specvet.data.asking import Questions
    from specvet.policies.serving import thread
    from specvet.policies.serving.lanes import Lanes
    from specvet.policies.serving.rows import Rows
    from specvet.policies.torch import engine, prefill, steps, vision
    from specvet.policies.torch import policy as torch_policy
    from specvet.policies.torch.arena import Arena
    from specvet.policies.torch.layers import TextLayers
    from specvet.policies.torch.model import TorchModel
    from specvet.policies.torch.pixels import PixelRule
    from specvet.records.files import ImageStore
    from specvet.records.run import RunFolder
    from specvet.tools.zoom import ZoomTool
    from specvet.training import batches
    from specvet.views.view import View

    for owner, names, part in (
        (steps.Stepper, "_step", "arithmetic"),
        (TextLayers, "__call__", "arithmetic"),
        (TorchModel, "embed", "arithmetic"),
        (vision.VisionTower, "_forward", "arithmetic"),
        (engine, "draw", "arithmetic"),
        (Arena, "reserve copy swap blank", "arithmetic"),
        (Questions, "pose", "read"),
        (rollout, "content_hash task_hash missing_data", "hash"),
        (View, "content_hash", "hash"),
        (ZoomTool, "opening __call__", "tool"),
        (View, "png", "draw"),
        (PixelRule, "pixels", "decode_png"),
        (QwenFormat, "opening observation image_segment", "tokenize"),
        (QwenFormat, "parse turn_text", "parse"),
        (talk, "repeated", "parse"),
        (Ledger, "append fork extends", "ledger"),
        (Ledger, "to_dict", "record"),
        (episode.Episode, "record", "record"),
        (rollout, "reward", "score"),
        (batches, "score", "score"),
        (ImageStore, "put", "store_png"),
        (RunFolder, "record_many note_session", "database"),
        (engine, "plan", "plan"),
        (engine, "prefill", "prefill"),
        (prefill, "stretch", "stretch"),
        (engine.Engine, "_begin _start _place", "admit"),
        (engine.Engine, "_admit _step _reserve _pack", "engine"),
        (thread.Serving, "_take_in _post release _can_be_shown", "engine"),
        (TorchModel, "check", "check"),
        (torch_policy, "check_request", "check"),
        (vision.VisionTower, "prepare features check", "pictures"),
        (Rows, "find free hold release", "rows"),
        (thread.Serving, "_append _drop_cancelled", "lanes"),
        (steps.Stepper, "run", "lanes"),
        (Lanes, "append", "lanes"),
    ):
        clock.timed(owner, names, part)


class Scripts:
    """Turns in the place of what was sampled: calls at first, from the third turn on some answers."""

    def __init__(self, calls: list[tuple[int, ...]], answers: list[tuple[int, ...]]) -> None:
        self._calls, self._answers = calls, answers
        self._known: dict[Any, np.ndarray[Any, Any]] = {}

    def of(self, branch: Any) -> np.ndarray[Any, Any]:
        if branch not in self._known:
            turn = len(branch.request.ledger.sampled)
            rng = np.random.default_rng([branch.request.params.seed, branch.index])
            answers = turn >= 6 or (turn >= 2 and rng.random() < 0.6)
            turns = self._answers if answers else self._calls
            ids = turns[int(rng.integers(len(turns)))]
            self._known[branch] = np.array([*ids, *[0] * 64])
        return self._known[branch]

    def take_over(self, lanes: type[Any]) -> None:
        append = lanes.append

        def instead(self_: Any, slots: Any, ids: Any, logprobs: Any, *, stepped: bool) -> Any:
            ids = ids.copy()
            for j, slot in enumerate(slots.tolist()):
                said = int(self_.said[slot])
                ids[:, j] = self.of(self_.branches[slot])[said : said + len(ids)]
            return append(self_, slots, ids, logprobs, stepped=stepped)

        lanes.append = instead


async def measured(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from specvet.agent.crew_rollouts import packed
    from specvet.policies.remote import resolve
    from specvet.policies.serving.lanes import Lanes
    from specvet.policies.tokens import usage_numbers
    from specvet.policies.torch.policy import TorchPolicy
    from specvet.training.batches import Batches
    from specvet.training.inputs import grpo_data
    from specvet.training.opening import trainer_options
    from specvet.training.profiles import resolve as resolved
    from specvet.training.registry import open_trainer
    from specvet.training.run import TrainingRun, Unwatched

    torch.set_num_threads(1)
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="specvet-host-") as folder:
        settings = {
            "model.name": str(thin_model(Path(folder) / "thin", options.model)),
            "model.device": "cpu",
            "grpo.data": options.questions_file,
            "grpo.questions": options.questions,
            "grpo.group": options.group,
        }
        config = resolved("grpo", "nano", settings)
        with TrainingRun.open(Path(folder) / "run", config) as run:
            trainer: Any = await resolve(open_trainer("torch", trainer_options(config)))
            asked, _ = grpo_data(config.loop, folder)
            run.begin(trainer, asked.tasks.values())
            scripts = Scripts(*turns_of(options.demonstrations, trainer.format))
            watch(clock)
            scripts.take_over(Lanes)  # outside the clock's own wrapper: what it does counts as `rest`, and is measured
            clock.timed(Lanes, "append", "script")
            n = options.questions * options.group
            policy = TorchPolicy(
                trainer.model, trainer.format, branches=n, context=config.loop.budget.context, block=options.block
            )
            batches = Batches(config.loop, 0, trainer.format, asked, run, Unwatched())
            order = list(range(len(asked.asked)))
            await batches.roll_out(policy, order[: options.questions], 1)  # what is done once: imports, glyphs, layouts
            gc.collect()
            gc.freeze()  # as the commands do
            clock.seconds.clear()
            before = dict(policy.usage.notes)
            profiler = cProfile.Profile(time.thread_time) if options.profile else None
            wall, cpu, of_threads = time.perf_counter(), time.process_time(), thread_seconds()
            if profiler:
                profiler.enable()
            groups = await batches.roll_out(policy, order[options.questions : 2 * options.questions], 2)
            if profiler:
                profiler.disable()
                profiler.dump_stats(options.profile)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            now = thread_seconds()
            steps = policy.usage.notes["decode_steps"] - before["decode_steps"]
            await policy.aclose()
            await resolve(trainer.aclose())
    members = [m for g in groups for m in g.members]
    records = [m.record for m in members]
    began = time.thread_time()
    sent = [packed(("record", 0, m.record, m.ledger, usage_numbers(policy.usage))) for m in members]
    sending = time.thread_time() - began
    for one in sent:
        pickle.loads(one)
    receiving = time.thread_time() - began - sending
    host = cpu - clock.seconds["arithmetic"] - clock.seconds["script"]
    parts = {k: v for k, v in clock.seconds.most_common() if k not in ("arithmetic", "script")}
    per = 1e3 / len(records)
    return {
        "host_ms": round(host * per, 3),
        **{f"{name}_ms": round(v * per, 3) for name, v in parts.items()},
        "rest_ms": round((host - sum(parts.values())) * per, 3),
        "arithmetic_ms": round(clock.seconds["arithmetic"] * per, 3),
        "wall_ms": round(wall * per, 3),
        "send_ms": round(sending * per, 3),
        "receive_ms": round(receiving * per, 3),
        "threads_ms": {name: round((now[name] - of_threads[name]) * per, 3) for name in now},
        "trajectories": len(records),
        "turns": round(sum(len(r.turns) for r in records) / len(records), 2),
        "sampled": round(sum((r.tokens.sampled or 0) if r.tokens else 0 for r in records) / len(records), 1),
        "stops": dict(Counter(str(r.stop) for r in records)),
        "decode_steps": steps,
        "python_ms": python_ms(),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def thread_seconds() -> Counter[str]:
    """Processor seconds of the threads that are there from beginning to end, by name (Linux)."""
    seconds: Counter[str] = Counter()
    for thread in threading.enumerate():
        told = Path(f"/proc/self/task/{thread.native_id}/stat")
        if told.exists():
            user, system = told.read_text().rpartition(")")[2].split()[11:13]
            seconds[thread.name.rstrip("_0123456789")] += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return seconds


def python_ms() -> float:
    began = time.thread_time()
    sum(range(1_000_000))
    return round(1e3 * (time.thread_time() - began), 1)


if __name__ == "__main__":
    raise SystemExit(main())
