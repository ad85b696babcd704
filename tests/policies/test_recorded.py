"""A trajectory recorded through each policy reads back from its run bit for bit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.agent import Budget, rollout_group
from specvet.chat import Image, Ledger
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import SamplingParams
from specvet.records import Decision, RunFolder
from specvet.records.schema import Question, SpectrumRef, StopReason, TrajectoryRecord
from specvet.spectra import Spectrum
from specvet.tasks import Task, builtin_tasks
from specvet.tools import TOOL_NAME, ZoomTool

QUESTION = Question(id="q", task="wd", spectrum=SpectrumRef(path="x.fits"), answer="YES")
SHORT = Budget(max_turns=3, turn_tokens=12, context=4_000)


def tool() -> ZoomTool:
    w = np.arange(4000.0, 8000.0, 2.0)
    return ZoomTool(
        Spectrum(w, 10 + np.sin(w / 50), np.full(w.size, 4.0), medium="air", file="x.fits"), style="compact"
    )


def task() -> Task:
    """White dwarfs in few words, so that a small context holds a trajectory."""
    return builtin_tasks()["wd"].model_copy(
        update={"include": ("them",), "exclude": (), "borderline": (), "guidance": "Look at Hβ."}
    )


def recorded(policy: Any, run: RunFolder, n: int) -> tuple[list[TrajectoryRecord], list[Ledger]]:
    """Trajectories, put into a run, and the ledgers that the policy was shown at their ends."""
    shown: list[Ledger] = []
    if hasattr(policy, "release"):
        release = policy.release
        policy.release = lambda ledger: (shown.append(ledger.fork()), release(ledger))[1]

    async def go() -> list[TrajectoryRecord]:
        params = SamplingParams(SHORT.turn_tokens, seed=5)
        try:
            return await rollout_group(QUESTION, task(), tool(), policy, n, SHORT, params, keep_image=run.images.put)
        finally:
            await policy.aclose()

    records = asyncio.run(go())
    for r in records:
        run.record(Decision(file="x.fits", row=0, task="wd", id="q", sample=r.sample, verdict=r.verdict, trajectory=r))
    return records, shown


def read_back(path: Path) -> tuple[list[TrajectoryRecord], list[Ledger]]:
    with RunFolder.read(path) as run:
        images = {p.stem: Image.of(p.read_bytes()) for p in run.images.folder.glob("*/*.png")}
        kept = [d.trajectory for d in run.decisions(with_trajectories=True)]
    assert all(t is not None and t.ledger is not None for t in kept)
    ledgers = [Ledger.from_dict(t.ledger, images) for t in kept if t and t.ledger]
    assert all(image.png is not None for ledger in ledgers for image in ledger.images)
    return [t for t in kept if t], ledgers


def check(policy: Any, folder: Path, n: int = 3) -> list[TrajectoryRecord]:
    with RunFolder.open(folder / "run", kind="rollout") as run:
        records, shown = recorded(policy, run, n)
    kept, ledgers = read_back(folder / "run")
    assert kept == records
    for record, ledger in zip(records, ledgers, strict=True):
        live = next(s for s in shown if s == ledger)
        for ours, theirs in zip(ledger.sampled, live.sampled, strict=True):
            assert ours.ids == theirs.ids
            assert ours.logprobs is not None
            assert theirs.logprobs is not None
            assert ours.logprobs.tobytes() == theirs.logprobs.tobytes()
        assert ledger.digests == live.digests
        assert [i.png for i in ledger.images] == [i.png for i in live.images]
        assert record.tokens is not None
        assert record.tokens.total == ledger.n_tokens
        assert record.stop in (StopReason.TRUNCATED, StopReason.MALFORMED)  # random weights know no better
    return records


@pytest.mark.parametrize("format", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_torch(tmp_path: Path, format: str) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from specvet.policies.torch import open_policy

    check(open_policy(ModelOptions(format=format, device="cpu", dtype="float32")), tmp_path)


def test_trio_and_tinker(here: Any, tmp_path: Path) -> None:
    check(here.open(), tmp_path / "kept")


def test_openai(tmp_path: Path) -> None:
    from openai_lab import ANSWER, LoopbackServer, call, completion, policy_for

    look = completion(None, finish="tool_calls", calls=[call({"wavelength_range": [6400, 6700]}, TOOL_NAME)])
    with LoopbackServer(look, completion(ANSWER)) as server, RunFolder.open(tmp_path / "run", kind="rollout") as run:
        (record,), _ = recorded(policy_for(server), run, 1)
    (kept,), (ledger,) = read_back(tmp_path / "run")
    assert kept == record
    assert (record.stop, record.verdict.answer) == (StopReason.ANSWERED, "YES")
    assert (ledger.kind, len(ledger.images)) == ("text", 2)
    sent = server.posts[-1].body["messages"]
    assert [m["role"] for m in sent][:3] == ["system", "user", "assistant"]
