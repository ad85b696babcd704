"""Stop texts in the engine: a turn ends with the token that completes one, wherever tokens are cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from torch_lab import FAMILIES, opening, run, say, tiny

from specvet.chat import Ledger, LedgerError, Vocabulary
from specvet.chat.sympy_tags import put_in, result_text
from specvet.policies.serving.stops import StopTexts
from specvet.policies.tokens import SamplingParams, Sequence
from specvet.policies.torch.policy import TorchPolicy

LONG = SamplingParams(max_tokens=48, temperature=1.0, seed=5)
NONE = (1 << 20,)
"""No token ends a turn, so that samples of random weights have their full length."""


def a_text_in(ids: tuple[int, ...], vocabulary: Vocabulary) -> tuple[str, int]:
    """A text that begins in one token and ends in the next, and the token that completes its first occurrence."""
    data = [vocabulary.token_bytes(i) for i in ids]
    ends = [len(b"".join(data[: k + 1])) for k in range(len(ids))]
    for k in range(2, len(ids) - 4):
        for text in (data[k][-1:] + data[k + 1][:1], data[k] + data[k + 1]):
            try:
                words = text.decode()
            except UnicodeDecodeError:
                continue
            end = b"".join(data).index(text) + len(text)
            last = next(n for n, e in enumerate(ends) if e >= end)
            if 2 <= last < len(ids) - 2:
                return words, last
    raise AssertionError("no token of this sample ends where another begins")


async def sampled(policy: TorchPolicy, ledger: Ledger, params: SamplingParams, n: int = 1) -> tuple[Sequence, ...]:
    return (await policy.sample(ledger, n, params)).sequences


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_ends_with_the_token_that_completes_a_text(family: str) -> None:
    policy = tiny(family, block=8, stop_ids=NONE)

    async def work() -> None:
        ledger = opening(policy)
        (free,) = await sampled(policy, ledger, LONG)
        assert len(free.ids) == LONG.max_tokens
        text, last = a_text_in(free.ids, policy.format.vocabulary)
        (cut,) = await sampled(policy, ledger, replace(LONG, stop=("no such text", text)))
        assert cut.ids == free.ids[: last + 1]
        assert cut.stop == "stop"
        assert cut.logprobs is not None
        assert free.logprobs is not None
        np.testing.assert_allclose(cut.logprobs, free.logprobs[: last + 1], atol=1e-4)

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_ids_go_on_after_a_result_whether_or_not_the_cache_knows_them(family: str) -> None:
    policy, fresh = tiny(family, block=8, stop_ids=NONE), tiny(family, stop_ids=NONE)

    async def work() -> None:
        ledger = opening(policy)
        (free,) = await sampled(policy, ledger, LONG)
        text, _ = a_text_in(free.ids, policy.format.vocabulary)
        (cut,) = await sampled(policy, ledger, replace(LONG, stop=(text,)))
        say(ledger, cut)
        ledger.append([put_in(result_text("6"), "tool", policy.format)])
        used = policy.usage.prefilled_tokens
        (warm,) = await sampled(policy, ledger, LONG)
        assert policy.usage.prefilled_tokens - used == ledger.segments[-1].n_tokens + 1
        (cold,) = await sampled(fresh, ledger, LONG)
        assert warm.ids == cold.ids
        np.testing.assert_allclose(warm.logprobs, cold.logprobs, atol=3e-4)

    run(work, policy, fresh)


def test_rows_with_and_without_texts_run_side_by_side() -> None:
    policy = tiny("qwen2_5_vl", block=8, branches=8, stop_ids=NONE)

    async def work() -> None:
        import asyncio

        ledger = opening(policy)
        free = await sampled(policy, ledger, LONG, 3)
        text, _ = a_text_in(free[1].ids, policy.format.vocabulary)
        stops = replace(LONG, stop=(text,))
        texts = StopTexts(stops.stop, policy.format.vocabulary)
        both = await asyncio.gather(sampled(policy, ledger, stops, 3), sampled(policy, ledger, LONG, 3))
        for one, whole in zip(both[0], free, strict=True):
            ends = [k for k in range(len(whole.ids)) if texts.completed(whole.ids[: k + 1][-texts.reach :])]
            assert one.ids == (whole.ids[: ends[0] + 1] if ends else whole.ids)
            assert one.stop == ("stop" if ends else whole.stop)
        assert [s.ids for s in both[1]] == [s.ids for s in free]

    run(work, policy)


def test_an_empty_stop_text_is_refused() -> None:
    policy = tiny("qwen2_5_vl")

    async def work() -> None:
        with pytest.raises(LedgerError, match="empty stop text"):
            await policy.sample(opening(policy), 1, replace(LONG, stop=("",)))

    run(work, policy)
