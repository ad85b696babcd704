"""Whether the embedded policy says what the torch policy says: greedy ids and log-probs of whole conversations.

    python benchmarks/embedded_exact.py [--model FOLDER] [--trajectories 200] [--questions FILE --run RUN] [--json]

The conversations are those of `benchmarks/embedded.py` (figures of SIMULATED spectra, six turns), each held once with
either policy, greedily, in float32. With `--questions` they are a trained model's own greedy trajectories about the
first questions of a file, which `specvet rollout` writes to RUN (and goes on where it was stopped); the stock model
then reads each whole conversation in one forward, without any cache: where every id that was said is the likeliest
there, greedy torch says the same.

Told are the conversations whose ids are all the same, and over those the largest and the mean difference of a sampled
token's log-prob. Where ids differ, the margin between the log-probs of the first that does is told: a tie, or a
mistake. Exits with 1 where the difference passes the bound that the tests hold.
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
POLICIES = ("embedded", "torch")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder of nano's shape")
    parser.add_argument("--trajectories", type=int, default=200)
    parser.add_argument("--questions", type=Path, help="take the model's own trajectories about the first of these")
    parser.add_argument("--run", type=Path, help="where these are kept; by default nowhere")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or packaged() or random_nano(Path(folder) / "nano")
        if args.questions:
            run = args.run or Path(folder) / "run"
            result = read_by_stock(model, rollouts(model, args.questions, args.trajectories, run))
        else:
            result = compared(*(asyncio.run(conversations(name, model, args.trajectories)) for name in POLICIES))
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


def rollouts(model: Path, questions: Path, n: int, run: Path) -> list[Any]:
    """Ledgers of the embedded policy's greedy trajectories about the first n questions, with their pictures."""
    from specvet.chat import Image, Ledger
    from specvet.cli.main import main as specvet
    from specvet.records import RunFolder

    command = ["rollout", str(questions), "--policy", "embedded", "--model", str(model), "--limit", str(n)]
    how = ["--temperature", "0", "--concurrency", str(AT_ONCE), "--out", str(run)]
    if code := specvet([*command, *how, "--no-probes"]):
        raise SystemExit(code)
    pictures = {p.stem: Image.of(p.read_bytes()) for p in (run / "images").rglob("*.png")}
    made = RunFolder.read(run).decisions(with_trajectories=True)
    kept = [d.trajectory.ledger for d in made if d.trajectory is not None and d.trajectory.ledger is not None]
    return [Ledger.from_dict(ledger, pictures) for ledger in kept]


def read_by_stock(folder: Path, ledgers: list[Any]) -> dict[str, Any]:
    """How far ledgers are from what the stock model says of them."""
    import torch

    from specvet.chat import SampledSegment
    from specvet.policies.options import ModelOptions
    from specvet.policies.torch.policy import TorchPolicy
    from specvet.policies.torch.positions import stretch

    policy = TorchPolicy.open(ModelOptions(model=str(folder), context=2048, device="cpu", dtype="float32"))
    stock, gaps, margins = policy.model, [], []
    for ledger in ledgers:
        part = stretch(ledger, 0, ledger.n_tokens)
        ends = zip(ledger.ends, ledger.ends[1:], ledger, strict=False)
        at = np.concatenate([np.arange(a, b) for a, b, s in ends if isinstance(s, SampledSegment)])
        with torch.no_grad():
            features = stock.vision.features([s for _, s, _, _ in part.pictures])
            states = stock.states([part], features)[0]
            logprobs = torch.log_softmax(stock.head(states[torch.from_numpy(at - 1)]).float(), dim=-1).numpy()
        its = logprobs[np.arange(len(at)), ledger.ids()[at]]
        behind = logprobs.max(axis=1) - its
        if (behind > 0).any():
            margins.append(float(behind[behind > 0][0]))
        else:
            gaps.append(np.abs(np.concatenate([s.logprobs for s in ledger.sampled]) - its))
    asyncio.run(policy.aclose())
    return told(gaps, margins)


def compared(mine: list[Any], its: list[Any]) -> dict[str, Any]:
    """How far two sets of ledgers are apart."""
    gaps: list[np.ndarray] = []
    margins: list[float] = []
    for one, other in zip(mine, its, strict=True):
        turns = list(zip(one.sampled, other.sampled, strict=True))
        first = next(((a, b) for a, b in turns if a.ids != b.ids), None)
        if first is None:
            gaps.append(np.concatenate([np.abs(a.logprobs - b.logprobs) for a, b in turns]))
            continue
        a, b = first
        at = next((i for i, (x, y) in enumerate(zip(a.ids, b.ids, strict=False)) if x != y), 0)
        margins.append(float(abs(a.logprobs[at] - b.logprobs[at])))
    return told(gaps, margins)


def told(gaps: list[np.ndarray], margins: list[float]) -> dict[str, Any]:
    """Gaps of log-probs of the conversations whose ids are the same, and the margins of the others."""
    every = np.concatenate(gaps) if gaps else np.array([np.inf])
    return {
        "trajectories": len(gaps) + len(margins),
        "same_ids": len(gaps),
        "tokens_compared": int(every.size) if gaps else 0,
        "largest": float(every.max()),
        "mean": float(every.mean()),
        "margins_where_ids_differ": [round(m, 7) for m in sorted(margins)],
    }


if __name__ == "__main__":
    raise SystemExit(main())
