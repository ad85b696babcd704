"""How long the event loop is held up while trajectories run, in the published style.

    python benchmarks/rollout_lag.py [--trajectories 192] [--concurrent 64] [--style reference|compact] [--json]

A scripted token policy answers at once on a real vocabulary, so that everything but the model is measured: 64
trajectories at a time (groups of 8) zoom into seven windows of simulated stars each and answer; figures are drawn by a
`RenderPool` of as many processes as there are cores, records are made and written into a run folder by the main thread,
as `specvet rollout` does. A ticker on the same loop asks to be woken every 2 ms and notes how late it is; the bar is a
p99 below 50 ms. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TICK_S = 0.002
AIM_MS = 50.0
GROUP = 8


class AtOnce:
    """A `TokenPolicy` that zooms seven times, elsewhere in each branch and turn, and answers in the eighth turn."""

    name = "scripted"
    fingerprint = "scripted"
    context = None

    def __init__(self) -> None:
        from specvet.chat import ToolCall
        from specvet.chat.formats import chat_format
        from specvet.chat.messages import assistant
        from specvet.chat.tiny import tiny_vocabulary
        from specvet.policies.tokens import Usage

        self.capabilities = frozenset({"ids", "logprobs", "n", "images", "trainable"})
        self.format = chat_format("qwen3_5", tiny_vocabulary("qwen3_5"))
        self.usage = Usage()
        thought = "The continuum rises to the blue, and something stands at this wavelength. " * 3

        def look(low: int) -> list[int]:
            call = ToolCall("spectral_visualization_tool", {"wavelength_range": [low, low + 300], "label": "here"})
            return self.format.demonstration(assistant("", thought, [call]))

        self.looks = [look(low) for low in range(3900, 8000, 7)]
        self.answer = self.format.demonstration(
            assistant("<answer>\\boxed{YES} the lines are broad.</answer>", thought)
        )

    async def sample(self, ledger: Any, n: int, params: Any) -> Any:
        from specvet.policies.tokens import Samples, Sequence

        await asyncio.sleep(0)
        last = len(ledger.sampled) == 7
        made = []
        for i in range(n):
            ids = self.answer if last else self.looks[(params.seed + 131 * i) % len(self.looks)]
            made.append(Sequence(tuple(ids), np.full(len(ids), -0.5, np.float32), "end"))
        self.usage.requests += 1
        return Samples(tuple(made), ledger.n_tokens)

    def release(self, ledger: Any) -> None:
        pass

    async def aclose(self) -> None:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=192)
    parser.add_argument("--concurrent", type=int, default=64)
    parser.add_argument("--style", default="reference", choices=("reference", "compact"))
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    found = measured(options.trajectories, options.concurrent, options.style)
    if not options.json:
        print(f"lag p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms, max {found['max_ms']} ms", file=sys.stderr)
    print(json.dumps(found))
    return 0


def measured(trajectories: int, concurrent: int, style: str) -> dict[str, Any]:
    """Lags in ms, and how fast it went."""
    from specvet.agent import Budget
    from specvet.agent.engine import Engine
    from specvet.records import RunFolder
    from specvet.tasks import builtin_tasks
    from specvet.vetting.items import Item
    from specvet.vetting.rollouts import rollout, wanted_of_items
    from specvet.views import RenderPool

    lags: list[float] = []
    started, over = threading.Event(), threading.Event()

    async def ticker() -> None:
        while not over.is_set():
            asked = time.perf_counter()
            await asyncio.sleep(TICK_S)
            if started.is_set():
                lags.append(time.perf_counter() - asked - TICK_S)

    groups = -(-trajectories // GROUP)
    budget = Budget(context=100_000)
    with tempfile.TemporaryDirectory(prefix="specvet-lag-") as folder:
        items = [Item(name) for name in simulated(Path(folder), groups)]
        cores = os.cpu_count() or 1
        with (
            RenderPool(processes=cores) as pool,
            RunFolder.open(Path(folder) / "run", kind="rollout") as run,
            Engine(AtOnce(), budget, pool=pool, keep_image=run.images.put, concurrency=concurrent) as engine,
        ):
            ticking = engine.start(ticker())
            task = builtin_tasks()["cv"]
            for count, all_of_it in ((GROUP, False), (groups * GROUP, True)):  # the first pays for imports and starts
                if all_of_it:
                    started.set()
                clock, cpu = time.perf_counter(), time.process_time()
                some = items[: max(1, count // GROUP)] if all_of_it else items[:1]
                made = rollout(
                    wanted_of_items(some, [task]), [task], engine, run, group=GROUP, concurrency=concurrent, style=style
                )
            over.set()
            ticking.result()
            seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
            pictures = sum(1 for _ in run.images.folder.glob("*/*.png"))
    return {
        "style": style,
        "concurrent": concurrent,
        "trajectories": made.recorded,
        "turns": made.turns,
        "pictures": pictures,
        "seconds": round(seconds, 2),
        "turns_per_second": round(made.turns / seconds, 1),
        "main_process_cpu_ms_a_turn": round(1000 * cpu / made.turns, 2),
        "ticks": len(lags),
        **{name: round(1000 * float(np.quantile(lags, q)), 2) for name, q in (("p50_ms", 0.5), ("p99_ms", 0.99))},
        "max_ms": round(1000 * max(lags), 2),
        "aim_p99_ms": AIM_MS,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": cores,
    }


def simulated(folder: Path, n: int) -> Iterator[str]:
    """`n` text files of SIMULATED stars as LAMOST would see them, each with noise of its own."""
    from specvet.data.simulate.kinds import make
    from specvet.data.simulate.observing import observe, spectrum

    kinds = ("f_star", "cc.N", "gm.giant", "ss.S", "wd.DA")
    stars = []
    for i, kind in enumerate(kinds):
        stream = np.random.default_rng([8, i])
        stars.append(spectrum(observe(make(kind, stream), "lamost", stream, snr=60.0)))
    for i in range(n):
        star = stars[i % len(stars)]
        flux = star.flux * (1 + 0.03 * np.random.default_rng(i).normal(size=star.n_pix))
        path = folder / f"SIMULATED-{i:04d}.txt"
        np.savetxt(path, np.column_stack([star.wavelength, flux, 0.03 * np.abs(flux)]), fmt="%.6g")
        yield str(path)


if __name__ == "__main__":
    raise SystemExit(main())
