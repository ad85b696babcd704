"""How fast the embedded policy is on this machine's processor, part by part and spectrum by spectrum.

    python benchmarks/embedded.py [--model FOLDER] [--threads N] [--spectra 16] [--concurrent 16] [--json]

Without `--model` it takes the packaged nano, or (where there is none) random weights of its shape, which another
process writes with torch. Trajectories have a typical shape, whatever the model would say: an opening of 90 tokens and
the whole view (48 image tokens), then five times a turn of 33 sampled tokens and an observation of 55 tokens with a
zoom (63 image tokens), and an answer of 33. Figures are those of `examples/spectra` (SIMULATED), drawn in nano's style
while the trajectories run. `alone` asks for one spectrum at a time, `batch` for `--concurrent` at once. Times are wall
times but for the `cpu` ones, which are of the whole process; on a busy machine only those tell something.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPECTRA = Path(__file__).resolve().parents[1] / "examples" / "spectra"
OPENING, OBSERVATION, SAID, LOOKS = 90, 55, 33, 5
AIMS = {"batch_s_per_spectrum": 1.0, "alone_s_per_spectrum": 1.5, "rss_mb": 700}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder of nano's shape")
    parser.add_argument("--threads", type=int, help="of ONNX Runtime; all cores by default")
    parser.add_argument("--spectra", type=int, default=16)
    parser.add_argument("--concurrent", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=20, help="of each part")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    if args.threads:
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or packaged() or random_nano(Path(folder) / "nano")
        started, cpu = time.perf_counter(), time.process_time()
        from specvet.policies.embedded.loading import load
        from specvet.policies.options import ModelOptions

        imported = time.perf_counter(), time.process_time()
        options = ModelOptions(model=str(model), context=2048, branches=args.concurrent)
        opened = load(options)
        result: dict[str, Any] = {
            "import_s": imported[0] - started,
            "import_cpu_s": imported[1] - cpu,
            "open_s": time.perf_counter() - imported[0],
            "open_cpu_s": time.process_time() - imported[1],
            "rss_opened_mb": rss(),
        }
        result |= parts(opened[0], args.repeat, args.concurrent)
        result |= asyncio.run(whole(*opened, args.spectra, args.concurrent))
    result |= {"rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "aims": AIMS}
    result |= {"cores": os.cpu_count(), "threads": args.threads, "machine": platform.machine()}
    result["weights"] = str(model.name) if args.model or packaged() else "random"
    result = {k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}
    for name, value in result.items():
        print(f"{name:32} {value}")
    if args.json:
        print(json.dumps(result))
    return 0


def packaged() -> Path | None:
    """The packaged nano, where there is one."""
    from specvet.policies.catalogue import PACKAGED

    return PACKAGED / "nano" if (PACKAGED / "nano" / "config.json").is_file() else None


def random_nano(folder: Path) -> Path:
    """Random weights, written by another process, so that torch takes no memory here."""
    script = (
        "from specvet.chat.tiny import tiny_vocabulary\n"
        "from specvet.policies.torch.nano import nano_model, save_nano\n"
        "vocabulary = tiny_vocabulary('qwen2_5_vl')\n"
        f"save_nano({str(folder)!r}, nano_model(vocabulary), vocabulary)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    return folder


def parts(model: Any, repeat: int, concurrent: int) -> dict[str, float]:
    """Milliseconds of each part, and of the processor in it: median of `repeat`, after one that is not counted."""
    import numpy as np

    rng = np.random.default_rng(0)
    found: dict[str, float] = {}
    for name, size, n in (("full", (168, 224), 1), ("zoom", (196, 252), 1), ("zoom_of_8", (196, 252), 8)):
        pictures = [rng.integers(0, 255, (*size, 3), dtype=np.uint8) for _ in range(n)]
        found |= timed(f"vision_{name}", repeat, lambda p=pictures: model.encode(p), of=n)
    for start, tokens in ((0, OPENING + 48), (300, OBSERVATION + 63)):
        hidden = rng.normal(size=(tokens, model.shape.hidden)).astype(np.float32)
        at = np.broadcast_to(np.arange(start, start + tokens), (3, tokens))
        found |= timed(f"read_{tokens}_after_{start}", repeat, lambda h=hidden, a=at, s=start: model._read(0, s, h, a))
    for rows in sorted({1, 4, concurrent}):
        tokens, held = np.arange(rows), np.full(rows, 500)
        found |= timed(f"step_of_{rows}_at_500", repeat, lambda t=tokens, h=held: model.step(t, h, h))
    return found


def timed(name: str, repeat: int, work: Callable[[], object], of: int = 1) -> dict[str, float]:
    wall, cpu = [], []
    for _ in range(repeat + 1):
        started, busy = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - busy)
    return {
        f"{name}_ms": 1000 * statistics.median(wall[1:]) / of,
        f"{name}_cpu_ms": 1000 * statistics.median(cpu[1:]) / of,
    }


async def whole(model: Any, format: Any, weights: str, n: int, concurrent: int) -> dict[str, float]:
    """Seconds a spectrum, alone and many at a time, and where they went."""
    from specvet import read
    from specvet.policies.embedded.policy import EmbeddedPolicy

    # Without an end token every turn has its length.
    policy = EmbeddedPolicy(model, format, branches=concurrent, weights=weights, stop_ids=())
    stars = [s for file in sorted(SPECTRA.glob("spec-*")) for s in read(str(file))]
    found: dict[str, float] = {}
    first = time.perf_counter()
    await trajectory(policy, stars[0], 1 << 20)
    found["first_s"] = time.perf_counter() - first
    for name, many, at_once in (("alone", max(3, n // 4), 1), ("batch", n, concurrent)):
        gate = asyncio.Semaphore(at_once)
        before, started, busy = dict(policy.usage.notes), time.perf_counter(), time.process_time()

        async def one(i: int, gate: asyncio.Semaphore = gate, name: str = name) -> int:
            async with gate:
                seed = i if name == "batch" else 1000 + i
                return (await trajectory(policy, stars[i % len(stars)], seed)).n_tokens

        tokens = await asyncio.gather(*(one(i) for i in range(many)))
        found[f"{name}_s_per_spectrum"] = (time.perf_counter() - started) / many
        found[f"{name}_cpu_s_per_spectrum"] = (time.process_time() - busy) / many
        for part in ("vision_s", "prefill_s", "decode_s"):
            spent = policy.usage.notes[part] - before.get(part, 0.0)
            if part == "prefill_s":  # the engine's note has the pictures in it
                spent -= policy.usage.notes["vision_s"] - before.get("vision_s", 0.0)
            found[f"{name}_{part}_per_spectrum"] = spent / many
    found["tokens_per_spectrum"] = tokens[0]
    await policy.aclose()
    return found


async def trajectory(policy: Any, star: Any, seed: int, temperature: float = 1.0) -> Any:
    """One spectrum: the whole view, five zooms, an answer; its ledger."""
    from specvet.chat import Image
    from specvet.chat.messages import system, tool, user
    from specvet.policies.tokens import SamplingParams
    from specvet.views import COMPACT_STYLE, full_view, zoom_view

    ledger = policy.format.new_ledger()
    shown = Image.of(full_view(star, style=COMPACT_STYLE, size="tiny").png)
    rules = system("You vet spectra by eye.")
    fixed = sum(s.n_tokens for s in policy.format.opening([rules, user(shown)])) - 48
    ledger.append(policy.format.opening([rules, user(shown, words(policy, OPENING - fixed, seed))]))
    for look in range(LOOKS + 1):
        params = SamplingParams(SAID, temperature, seed=seed)
        said = (await policy.sample(ledger, 1, params)).sequences[0]
        ledger.append_sampled(said.ids, said.logprobs, said.stop)
        if look < LOOKS:
            low = 4000 + 37 * (seed % 20) + 700 * look
            view = zoom_view(star, (low, low + 250), style=COMPACT_STYLE, size="tiny")
            zoom = Image.of(view.png)
            fixed = sum(s.n_tokens for s in policy.format.observation(ledger, tool(zoom))) - 63
            ledger.append(policy.format.observation(ledger, tool(zoom, words(policy, OBSERVATION - fixed, look))))
    policy.release(ledger)
    return ledger


def words(policy: Any, n: int, seed: int) -> str:
    """A text of about n tokens, if that is more than one."""
    text = f"{seed} " + "5165 A, 0.41; " * max(0, n)
    while len(policy.format.vocabulary.encode(text)) > max(1, n):
        text = text[: -max(1, (len(policy.format.vocabulary.encode(text)) - n) // 4)]
    return text


def rss() -> float:
    """Resident memory now, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    raise SystemExit(main())
