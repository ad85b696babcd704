"""The torch policy against stock transformers: the same tokens, the same log-probs, turn after turn."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from torch_lab import (
    FAMILIES,
    GREEDY,
    FakeGraphs,
    observe,
    opening,
    picture,
    run,
    say,
    stock_greedy,
    stock_logprobs,
    tiny,
)

from specvet.chat import Ledger
from specvet.chat.messages import tool, user
from specvet.policies.tokens import SamplingParams
from specvet.policies.torch.policy import TorchPolicy


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_turns_of_ragged_branches_equal_plain_generate_of_every_turn(family: str) -> None:
    policy = tiny(family)

    async def work() -> None:
        first = opening(policy, "One.", picture(1), picture(2, 128, 96))
        given = await policy.sample(first, 4, SamplingParams(5, seed=7))
        branches = [say(first.fork(), s) for s in given.sequences]
        for turn in range(2):
            for i, branch in enumerate(branches):
                content = [picture(10 * turn + i, 64, 32 * (i + 1)), "x" * i] if i else ["no picture"]
                observe(policy, branch, tool(*content))
            limits = [4 + 3 * i for i in range(len(branches))]
            turns = [policy.sample(b, 1, SamplingParams(n, 0.0)) for b, n in zip(branches, limits, strict=True)]
            said = [s.sequences[0] for s in await asyncio.gather(*turns)]
            for branch, sequence, limit in zip(branches, said, limits, strict=True):
                assert list(sequence.ids) == stock_greedy(policy, [branch], limit)[0]
                say(branch, sequence)

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_of_all_turns_equal_one_stock_forward_of_the_whole_ledger(family: str) -> None:
    policy = tiny(family)

    async def work() -> None:
        ledger = opening(policy)
        for turn in range(3):
            params = SamplingParams(12, temperature=0.7 + 0.3 * turn, top_p=0.9, top_k=40, seed=turn)
            pad_id = ledger.images[0].pad_id  # the stock forward takes one that was sampled for a picture
            some = (await policy.sample(ledger, 6, params)).sequences[1:]
            say(ledger, next(s for s in some if pad_id not in s.ids))
            observe(policy, ledger, seed=turn)
        said = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
        stock = stock_logprobs(policy, ledger)
        assert said == pytest.approx(stock, abs=1e-4)
        assert policy.recomputed_logprobs(ledger) == pytest.approx(stock, abs=1e-5)

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_says_the_same_alone_in_company_and_whatever_the_block(family: str) -> None:
    async def said_by(policy: TorchPolicy, company: int) -> list[tuple[int, ...]]:
        ledger = opening(policy)
        others = [opening(policy, f"Another, {i}." * (i + 1), picture(20 + i)) for i in range(company)]
        params = SamplingParams(11, seed=5)
        asked = [policy.sample(o, 2, SamplingParams(3 + 4 * i, seed=i)) for i, o in enumerate(others)]
        mine, *_ = await asyncio.gather(policy.sample(ledger, 3, params), *asked)
        say(ledger, mine.sequences[2])
        observe(policy, ledger)
        again, *_ = await asyncio.gather(policy.sample(ledger, 1, params), policy.sample(opening(policy), 2, params))
        return [s.ids for s in (*mine.sequences, *again.sequences)]

    def all_said(policy: TorchPolicy, company: int) -> list[tuple[int, ...]]:
        return run(lambda: said_by(policy, company), policy)

    alone = all_said(tiny(family), 0)
    assert len(set(alone)) == 4
    assert alone == all_said(tiny(family), 3)
    assert alone == all_said(tiny(family, block=4), 3)
    assert alone == all_said(FakeGraphs.in_place_of(tiny(family, block=7)), 3)
    assert alone == all_said(tiny(family, branches=2, rows=3), 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_branches_are_drawn_from_streams_of_their_own_and_a_seed_repeats_them(family: str) -> None:
    policy = tiny(family)

    async def work() -> None:
        ledger = opening(policy)
        five = (await policy.sample(ledger, 5, SamplingParams(9, seed=1))).sequences
        two = (await policy.sample(ledger, 2, SamplingParams(9, seed=1))).sequences
        other = (await policy.sample(ledger, 2, SamplingParams(9, seed=2))).sequences
        assert [s.ids for s in five[:2]] == [s.ids for s in two]
        assert len({s.ids for s in (*five, *other)}) == 7

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fork_in_the_middle_goes_on_from_the_kept_cache_and_says_what_a_new_policy_says(family: str) -> None:
    policy, fresh = tiny(family), tiny(family)

    async def work() -> None:
        ledger = opening(policy)
        say(ledger, (await policy.sample(ledger, 1, GREEDY)).sequences[0])
        observe(policy, ledger)
        forks = (await policy.sample(ledger, 3, SamplingParams(7, seed=3))).sequences
        assert [s.ids for s in (await fresh.sample(ledger, 3, SamplingParams(7, seed=3))).sequences] == [
            s.ids for s in forks
        ]
        branches = [say(ledger.fork(), s) for s in forks]
        for i, b in enumerate(branches):
            observe(policy, b, seed=30 + i)
        for b in branches:
            mine, theirs = await asyncio.gather(policy.sample(b, 1, GREEDY), fresh.sample(b, 1, GREEDY))
            assert mine.sequences[0].ids == theirs.sequences[0].ids

    run(work, policy, fresh)


def test_sampled_picture_ids_are_words_and_never_replaced_by_features() -> None:
    policy = tiny("qwen3_vl")
    pad = policy.format.vocabulary.need("<|image_pad|>")

    async def work() -> None:
        ledger = opening(policy)
        ledger.append_sampled([pad, pad, pad, policy.format.stop_ids[0]], None, "end")
        observe(policy, ledger)
        sequence = (await policy.sample(ledger, 1, SamplingParams(5, seed=1))).sequences[0]
        say(ledger, sequence)
        recomputed = policy.recomputed_logprobs(ledger)
        assert recomputed.shape == (4 + len(sequence.ids),)
        assert sequence.logprobs == pytest.approx(recomputed[4:], abs=1e-4)

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_swapping_a_picture_of_any_turn_moves_the_logprobs_of_what_follows(family: str) -> None:
    policy = tiny(family)

    async def work() -> None:
        def conversation(first: int, second: int) -> Ledger:
            ledger = opening(policy, "Look.", picture(first))
            ledger.append_sampled([65, policy.format.stop_ids[0]], None, "end")
            observe(policy, ledger, seed=second)
            ledger.append_sampled([66, policy.format.stop_ids[0]], None, "end")
            return ledger

        base = policy.recomputed_logprobs(conversation(1, 2))
        first, later = (policy.recomputed_logprobs(conversation(*c)) for c in ((9, 2), (1, 9)))
        assert np.abs(first - base).min() > 1e-3
        assert np.abs(later - base)[:2].max() < 1e-5
        assert np.abs(later - base)[2:].max() > 1e-3

    run(work, policy)


def test_a_batch_of_ledgers_is_teacher_forced_as_each_alone_and_gradients_reach_every_part() -> None:
    policy = tiny("qwen3_vl")
    model = policy.model

    async def work() -> None:
        ledgers = []
        for i in range(3):
            ledger = opening(policy, "a" * (5 * i + 1), picture(i, 64, 64 + 32 * i))
            ledger.append_sampled([65 + i] * (i + 1), None, "length")
            ledgers.append(ledger)
        with torch.no_grad():
            together = model.logprobs(ledgers)
            for ledger, values in zip(ledgers, together, strict=True):
                assert values.numpy() == pytest.approx(model.logprobs([ledger])[0].numpy(), abs=1e-5)
        torch.cat(model.logprobs(ledgers)).sum().backward()
        for part in ("visual.blocks.0.attn.qkv", "visual.patch_embed.proj", "language_model.layers.0.self_attn.k_proj"):
            weight = model.module.model.get_submodule(part).weight
            assert weight.grad is not None
            assert float(weight.grad.abs().sum()) > 0

    run(work, policy)


def test_a_ledger_without_pictures_is_continued_too() -> None:
    policy = tiny("qwen2_5_vl")

    async def work() -> None:
        ledger = policy.format.new_ledger()
        ledger.append(policy.format.opening([user("No picture here.")]))
        said = (await policy.sample(ledger, 1, GREEDY)).sequences[0]
        assert list(said.ids) == stock_greedy(policy, [ledger], GREEDY.max_tokens)[0]

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_any_order_of_turns_forks_and_cancelled_calls_leaves_every_logprob_true(family: str) -> None:
    """Rollouts by chance: questions that share rules, groups, turns of any length, forks, calls that are called off."""
    policy = tiny(family, branches=7, rows=11, block=3)
    done: list[Ledger] = []

    async def grow(ledger: Ledger, chance: np.random.Generator, turns: int) -> None:
        while turns:
            turns -= 1
            params = SamplingParams(int(chance.integers(1, 14)), seed=int(chance.integers(1000)))
            asked = asyncio.ensure_future(policy.sample(ledger, int(chance.integers(1, 4)), params))
            if chance.random() < 0.2:
                await asyncio.sleep(0)
                asked.cancel()
                continue
            branches = [say(ledger.fork(), s) for s in (await asked).sequences]
            for branch in branches:
                observe(policy, branch, tool(*[picture(int(chance.integers(9)))][: int(chance.integers(2))], "seen"))
            done.extend(branches)
            ledger = branches[int(chance.integers(len(branches)))]
            if chance.random() < 0.3:
                policy.release(ledger)

    async def work() -> None:
        chance = np.random.default_rng(8)
        questions = [opening(policy, "Rules." + "?" * (i // 2), picture(i % 3)) for i in range(8)]
        await asyncio.gather(*(grow(q, np.random.default_rng(chance.integers(99)), 4) for q in questions))
        assert len(done) > 25
        for ledger in done[::3]:
            said = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
            assert said == pytest.approx(policy.recomputed_logprobs(ledger), abs=2e-4)

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_logprobs_differ_from_a_whole_reading_by_rounding_only(family: str) -> None:
    policy = tiny(family, dtype="bfloat16")

    async def work() -> None:
        ledger = opening(policy)
        for turn in range(2):
            say(ledger, (await policy.sample(ledger, 1, SamplingParams(10, seed=turn))).sequences[0])
            observe(policy, ledger, seed=turn)
        said = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
        assert np.abs(said - policy.recomputed_logprobs(ledger)).mean() < 0.1

    run(work, policy)
