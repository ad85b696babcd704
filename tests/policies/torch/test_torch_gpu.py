"""On a GPU: recorded graphs, blocks and kernels say what the CPU says. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_lab import FAMILIES, conversations, run, tiny

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


@pytest.mark.parametrize("family", FAMILIES)
def test_graphs_on_a_gpu_say_what_plain_steps_and_the_cpu_say(family: str) -> None:
    said = []
    for policy in (tiny(family), tiny(family, device="cuda", graphs=False), tiny(family, device="cuda", graphs=True)):
        ledgers = run(lambda p=policy: conversations(p), policy)  # type: ignore[misc]
        said.append([tuple(s.ids for s in ledger.sampled) for ledger in ledgers])
    assert said[1] == said[2]
    same = np.mean([one == other for one, other in zip(said[0], said[2], strict=True)])
    assert same >= 0.8  # a draw within rounding of a border may go the other way


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 2e-4), ("bfloat16", 0.1)])
def test_logprobs_from_graphs_equal_a_whole_reading_on_the_same_gpu(family: str, dtype: str, bound: float) -> None:
    policy = tiny(family, device="cuda", dtype=dtype)

    async def work() -> None:
        for ledger in await conversations(policy):
            values = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
            assert np.abs(values - policy.recomputed_logprobs(ledger)).mean() < bound
        assert policy.usage.prefilled_tokens / policy.usage.unique_tokens <= 1.1

    run(work, policy)
