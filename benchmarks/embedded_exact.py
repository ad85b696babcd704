"""Whether the embedded policy says what the torch policy says: greedy ids and log-probs of whole conversations.

    python benchmarks/embedded_exact.py [--model FOLDER] [--trajectories 200] [--json]

The conversations are those of `benchmarks/embedded.py` (figures of SIMULATED spectra, six turns), each held once with
either policy in float32. Told are the conversations whose ids are all the same, and over those the largest and the mean
difference of a sampled token's log-prob. Where ids differ, the margin between the two policies' log-probs of the first
id that differs is told: a tie, or a mistake. Exits with 1 where the difference passes the bound that the tests hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from embedded import SPECTRA, packaged, random_nano, trajectory

BOUND = 1e-4
AT_ONCE = 16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder of nano's shape")
    parser.add_argument("--trajectories", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or packaged() or random_nano(Path(folder) / "nano")
        mine, its = (asyncio.run(conversations(name, model, args.trajectories)) for name in ("embedded", "torch"))
    result = compared(mine, its)
    for name, value in result.items():
        print(f"{name:24} {value}")
    if args.json:
        print(json.dumps(result))
    return 0 if result["largest"] <= BOUND else 1


async def conversations(name: str, model: Path, n: int) -> list[Any]:
    """Ledgers of n greedy conversations."""
    from specvet import read
    from specvet.policies import open_policy
    from specvet.policies.options import ModelOptions

    policy: Any = open_policy(
        name, ModelOptions(model=str(model), context=2048, branches=AT_ONCE, device="cpu", dtype="float32")
    )
    stars = [s for file in sorted(SPECTRA.glob("spec-*")) for s in read(str(file))]
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(i: int) -> Any:
        async with gate:
            return await trajectory(policy, stars[i % len(stars)], i, temperature=0.0)

    ledgers = await asyncio.gather(*(one(i) for i in range(n)))
    await policy.aclose()
    return ledgers


def compared(mine: list[Any], its: list[Any]) -> dict[str, Any]:
    """How far two sets of ledgers are apart."""
    gaps: list[np.ndarray] = []
    margins: list[float] = []
    for one, other in zip(mine, its, strict=True):
        turns = list(zip(one.sampled, other.sampled, strict=True))
        first = next(((a, b) for a, b in turns if a.ids != b.ids), None)
        if first is None:
            gaps += [np.abs(a.logprobs - b.logprobs) for a, b in turns]
            continue
        a, b = first
        at = next((i for i, (x, y) in enumerate(zip(a.ids, b.ids, strict=False)) if x != y), 0)
        margins.append(float(abs(a.logprobs[at] - b.logprobs[at])))
    all_gaps = np.concatenate(gaps) if gaps else np.array([np.inf])
    return {
        "trajectories": len(mine),
        "same_ids": len(mine) - len(margins),
        "tokens_compared": int(all_gaps.size) if gaps else 0,
        "largest": float(all_gaps.max()),
        "mean": float(all_gaps.mean()),
        "margins_where_ids_differ": [round(m, 7) for m in sorted(margins)],
    }


if __name__ == "__main__":
    raise SystemExit(main())
