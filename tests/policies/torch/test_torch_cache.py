"""What is computed, and what is found again: caches across turns, branches, questions, and when rows run out."""

from __future__ import annotations

import asyncio

import pytest
from torch_lab import FAMILIES, GREEDY, conversations, observe, opening, picture, run, say, tiny

from specvet.chat import Ledger
from specvet.policies.tokens import SamplingParams
from specvet.policies.torch.policy import TorchPolicy


async def rollouts(policy: TorchPolicy, questions: int, branches: int, turns: int) -> list[Ledger]:
    """Groups of branches over several questions, all at once, each turn with a picture of its own."""

    async def one(question: int) -> list[Ledger]:
        ledger = opening(policy, f"Question {question}.", picture(question, 96, 96))
        said = (await policy.sample(ledger, branches, SamplingParams(6, seed=question))).sequences
        group = [say(ledger.fork(), s) for s in said]

        async def go_on(branch: int, ledger: Ledger) -> None:
            for turn in range(turns - 1):
                observe(policy, ledger, seed=100 * question + 10 * branch + turn)
                sample = await policy.sample(ledger, 1, SamplingParams(6, seed=branch))
                say(ledger, sample.sequences[0])
            policy.release(ledger)

        await asyncio.gather(*(go_on(i, b) for i, b in enumerate(group)))
        return group

    return [ledger for group in await asyncio.gather(*(one(q) for q in range(questions))) for ledger in group]


@pytest.mark.parametrize("family", FAMILIES)
def test_rollouts_compute_each_prefix_once_and_each_picture_once(family: str) -> None:
    policy = tiny(family, branches=12)
    ledgers = run(lambda: rollouts(policy, questions=4, branches=3, turns=4), policy)
    usage = policy.usage
    assert usage.requests == 4 + 4 * 3 * 3
    assert usage.images == 4 + 4 * 3 * 3
    assert usage.prefilled_tokens / usage.unique_tokens <= 1.05
    first_turns = {ledger.digests[ledger.segments.index(ledger.sampled[0]) + 1] for ledger in ledgers}
    twins = len(ledgers) - len(first_turns)  # that said the same, and both read its end token in their next prompt
    if family != "qwen3_5":  # whose states are not kept everywhere
        assert usage.prefilled_tokens == usage.unique_tokens + twins
    assert usage.prompt_tokens > 2 * usage.prefilled_tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_is_read_once_for_all_branches_also_when_each_asks_for_itself(family: str) -> None:
    policy = tiny(family)

    async def work() -> None:
        ledger = opening(policy)
        asked = [policy.sample(ledger, 1, SamplingParams(4, seed=i)) for i in range(6)]
        await asyncio.gather(*asked)
        last = ledger.segments[-1].n_tokens  # of which the logits are needed, or the recurrent state
        # Where the first request is taken up before the others arrive, nobody yet knows that a state will be shared.
        readings = 2 if family == "qwen3_5" else 1
        assert ledger.n_tokens <= policy.usage.prefilled_tokens <= readings * ledger.n_tokens + 5 * last
        assert policy.usage.unique_tokens == ledger.n_tokens
        assert policy.usage.images == 1

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_questions_with_the_same_rules_share_their_cache(family: str) -> None:
    policy = tiny(family)

    async def work() -> None:
        cached = []
        for i in range(4):
            ledger = opening(policy, "The same rules.", picture(i))
            cached.append((await policy.sample(ledger, 1, GREEDY)).cached_tokens)
        rules = ledger.ends[[s.n_tokens for s in ledger].index(ledger.images[0].n_tokens)]
        recurrent = family == "qwen3_5"  # the second of a kind is what shows where questions part
        assert cached == [0, 0 if recurrent else rules, rules, rules]

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_evicted_row_is_computed_again_counted_and_says_the_same(family: str) -> None:
    roomy, tight = tiny(family), tiny(family, branches=1, rows=2)

    async def conversation(policy: TorchPolicy) -> list[Ledger]:
        ledgers = [opening(policy, f"{i}", picture(i)) for i in range(4)]
        for turn in range(3):
            for i, ledger in enumerate(ledgers):  # one after the other: only two fit at a time
                say(ledger, (await policy.sample(ledger, 1, SamplingParams(5, seed=turn))).sequences[0])
                observe(policy, ledger, seed=10 * turn + i)
        return ledgers

    async def work() -> None:
        kept, evicted = await conversation(roomy), await conversation(tight)
        assert [[s.ids for s in a.sampled] for a in kept] == [[s.ids for s in a.sampled] for a in evicted]
        assert roomy.usage.unique_tokens == tight.usage.unique_tokens
        assert tight.usage.prefilled_tokens > 1.3 * tight.usage.unique_tokens
        assert tight.usage.images == 12  # features outlive rows

    run(work, roomy, tight)


def test_rows_of_trajectories_that_are_over_go_first() -> None:
    policy = tiny("qwen2_5_vl", branches=1, rows=3)

    async def work() -> None:
        ledgers = [opening(policy, f"{i}", picture(i)) for i in range(3)]
        for ledger in ledgers:
            say(ledger, (await policy.sample(ledger, 1, GREEDY)).sequences[0])
        policy.release(ledgers[2])
        await policy.sample(opening(policy, "new", picture(3)), 1, GREEDY)
        for ledger in ledgers[:2]:  # used before the one that is over
            held = ledger.n_tokens - 1
            observe(policy, ledger)
            assert (await policy.sample(ledger, 1, GREEDY)).cached_tokens == held

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_more_branches_than_fit_go_one_wave_after_the_other_with_the_same_streams(family: str) -> None:
    wide, narrow = tiny(family, branches=8), tiny(family, branches=3)

    async def work() -> None:
        ledger = opening(wide)
        params = SamplingParams(6, seed=4)
        a, b = await wide.sample(ledger, 8, params), await narrow.sample(ledger, 8, params)
        assert [s.ids for s in a.sequences] == [s.ids for s in b.sequences]

    run(work, wide, narrow)


def test_a_long_prompt_is_read_in_pieces_and_pictures_may_lie_across_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.policies.torch import prefill

    whole = tiny("qwen3_vl")
    expected = run(lambda: whole.sample(opening(whole, "?", picture(1, 256, 256), picture(2)), 1, GREEDY), whole)
    monkeypatch.setattr(prefill, "LEAST_TOKENS", 24)
    monkeypatch.setattr(prefill, "MOST_TOKENS", 24)
    policy = tiny("qwen3_vl")
    pieces = run(lambda: policy.sample(opening(policy, "?", picture(1, 256, 256), picture(2)), 1, GREEDY), policy)
    assert pieces.sequences[0].ids == expected.sequences[0].ids
    assert pieces.sequences[0].logprobs == pytest.approx(expected.sequences[0].logprobs, abs=1e-5)


def test_changed_weights_change_what_is_said_and_the_fingerprint_and_nothing_old_is_used() -> None:
    policy, fresh = tiny("qwen2_5_vl"), tiny("qwen2_5_vl")

    async def work() -> None:
        ledger = opening(policy)
        before = await policy.sample(ledger, 1, GREEDY), policy.fingerprint
        for changed in (policy, fresh):
            changed.model.module.lm_head.weight.data.mul_(-1)
            changed.model.module.model.visual.patch_embed.proj.weight.data.mul_(2)
            changed.weights_changed()
        after = await policy.sample(ledger, 1, GREEDY), policy.fingerprint
        assert after[0].cached_tokens == 0
        assert after[0].sequences[0].ids != before[0].sequences[0].ids
        assert after[0].sequences[0].ids == (await fresh.sample(ledger, 1, GREEDY)).sequences[0].ids
        assert after[1] != before[1]
        assert after[1] == fresh.fingerprint

    run(work, policy, fresh)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_branch_says_depends_neither_on_blocks_nor_on_who_is_sampled_beside_it(family: str) -> None:
    said = []
    for block in (1, 3, 8):
        policy = tiny(family, block=block)
        ledgers = run(lambda p=policy: conversations(p), policy)  # type: ignore[misc]
        said.append([[s.ids for s in ledger.sampled] for ledger in ledgers])
    assert said[0] == said[1] == said[2]
