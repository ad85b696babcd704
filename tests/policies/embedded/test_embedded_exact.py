"""The embedded policy against the torch policy: the same tokens, the same log-probs, turn after turn."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from embedded_lab import BOUND, FULL, GREEDY, ZOOM, observe, opening, options, picture, run, say

from specvet.chat import Ledger
from specvet.policies.embedded.drawing import draw
from specvet.policies.embedded.policy import EmbeddedPolicy
from specvet.policies.tokens import SamplingParams, Sequence
from specvet.policies.torch.sampling import draw as torch_draw


async def talk(policy: Any, seed: int, n: int, params: SamplingParams, turns: int) -> list[Sequence]:
    """A question whose branches go their own ways: ragged turns, pictures of both sizes, colour, no picture."""
    first = opening(policy, "x" * (1 + 7 * seed), picture(seed, FULL), picture(seed + 50, ZOOM, grey=seed % 2 == 0))
    said = list((await policy.sample(first, n, params)).sequences)
    branches = [say(first.fork(), s) for s in said]
    for turn in range(1, turns):
        for i, branch in enumerate(branches):
            observe(policy, branch, *([picture(10 * turn + i), "6400-6700 Å."] if i else ["No."]))
        ways = [
            SamplingParams(4 + 3 * i, params.temperature, params.top_p, params.top_k, seed=turn)
            for i in range(len(branches))
        ]
        samples = await asyncio.gather(*(policy.sample(b, 1, p) for b, p in zip(branches, ways, strict=True)))
        for branch, s in zip(branches, samples, strict=True):
            said.append(s.sequences[0])
            say(branch, s.sequences[0])
    return said


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(10, 0.0),
        SamplingParams(10, 1.0, seed=7),
        SamplingParams(10, 0.7, top_p=0.9, top_k=60, seed=2**63 - 1),
    ],
    ids=["greedy", "sampled", "cut"],
)
def test_branches_say_what_the_torch_policy_says_with_the_same_logprobs(
    embedded: EmbeddedPolicy, stock: Any, params: SamplingParams
) -> None:
    async def all_of(policy: Any) -> list[Sequence]:
        some = await asyncio.gather(talk(policy, 1, 1, params, 3), talk(policy, 2, 3, params, 3))
        return [s for one in some for s in one]

    ours, theirs = run(lambda: all_of(embedded)), run(lambda: all_of(stock))
    assert len(ours) == 3 + 9
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.ids == its.ids
        assert mine.stop == its.stop
        np.testing.assert_allclose(mine.logprobs, its.logprobs, atol=BOUND)


def test_logprobs_of_a_conversation_are_those_of_one_stock_forward(embedded: EmbeddedPolicy, stock: Any) -> None:
    async def work() -> Ledger:
        ledger = opening(embedded)
        for turn in range(3):
            samples = await embedded.sample(ledger, 1, SamplingParams(12, seed=turn))
            say(ledger, samples.sequences[0])
            if turn < 2:
                observe(embedded, ledger, picture(turn))
        return ledger

    ledger = run(work)
    kept = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
    assert kept.shape == (36,)
    np.testing.assert_allclose(kept, stock.recomputed_logprobs(ledger), atol=BOUND)


def test_vision_features_are_those_of_the_stock_tower_for_grey_and_colour(embedded: EmbeddedPolicy, stock: Any) -> None:
    shown = [picture(1, FULL), picture(2, FULL, grey=False), picture(3), picture(4, (140, 280), grey=False)]
    segments = [embedded.format.image_segment(image) for image in shown]
    mine = embedded.model.features(segments)
    its = stock.model.vision.features(segments)
    for segment in segments:
        where = segment.sha256, segment.rows, segment.columns
        assert mine[where].shape == (segment.n_tokens, 384)
        np.testing.assert_allclose(mine[where], its[where].main.numpy(), atol=2e-5)


def test_what_a_sequence_says_does_not_depend_on_what_is_sampled_beside_it(nano_folder: Any) -> None:
    params = SamplingParams(12, seed=5)
    policy = EmbeddedPolicy.open(options(nano_folder, branches=3))

    async def work() -> None:
        alone = await policy.sample(opening(policy, "A"), 1, params)
        ledgers = [opening(policy, text, picture(9, FULL)) for text in ("B", "BBBBB")]
        many = await asyncio.gather(
            policy.sample(ledgers[0], 5, SamplingParams(9, seed=1)),  # more than are sampled at a time
            policy.sample(opening(policy, "A"), 2, params),
            policy.sample(ledgers[1], 3, SamplingParams(17, seed=1)),
        )
        assert many[1].sequences[0].ids == alone.sequences[0].ids
        np.testing.assert_allclose(many[1].sequences[0].logprobs, alone.sequences[0].logprobs, atol=BOUND)
        assert [len(m.sequences) for m in many] == [5, 2, 3]
        assert len({s.ids for s in many[0].sequences}) == 5  # each from its own stream

    run(work, policy)


def test_a_turn_reads_only_what_is_new_and_a_picture_goes_through_the_tower_once(nano_folder: Any) -> None:
    policy = EmbeddedPolicy.open(options(nano_folder))

    async def work() -> None:
        ledger = opening(policy)
        first = await policy.sample(ledger, 2, GREEDY)
        assert first.prompt_tokens == ledger.n_tokens
        assert first.cached_tokens == 0
        say(ledger, first.sequences[0])
        read = ledger.n_tokens - 1  # the last token was said and not read
        observe(policy, ledger, picture(1, FULL), picture(2))
        assert (await policy.sample(ledger, 1, GREEDY)).cached_tokens == read
        other = opening(policy, "Is there Hβ, then?")
        shared = next(i for i, (a, b) in enumerate(zip(other.ids(), opening(policy).ids(), strict=False)) if a != b)
        assert (await policy.sample(other, 1, GREEDY)).cached_tokens == max(e for e in other.ends if e <= shared)
        policy.release(ledger)
        assert policy.usage.images == 2
        assert policy.usage.sampled_tokens == 4 * 10
        assert policy.usage.prefilled_tokens == policy.usage.unique_tokens

    run(work, policy)


def test_where_rows_run_out_what_was_given_away_is_read_again(nano_folder: Any, embedded: EmbeddedPolicy) -> None:
    policy = EmbeddedPolicy.open(options(nano_folder, branches=1))  # two rows

    async def work() -> None:
        ledgers = [opening(policy, str(i) * 9, picture(i, FULL)) for i in range(3)]
        for ledger in ledgers:
            say(ledger, (await policy.sample(ledger, 1, GREEDY)).sequences[0])
            observe(policy, ledger, "No.")
        again = [await policy.sample(ledger, 1, GREEDY) for ledger in reversed(ledgers)]
        assert (again[0].cached_tokens or 0) > 60
        assert min(a.cached_tokens or 0 for a in again) < 30  # what all of them begin with
        for ledger, samples in zip(reversed(ledgers), again, strict=True):
            assert samples.sequences[0].ids == (await embedded.sample(ledger, 1, GREEDY)).sequences[0].ids

    run(work, policy)


def test_a_turn_ends_at_any_stop_id_which_is_part_of_it(nano_folder: Any) -> None:
    policy = EmbeddedPolicy.open(options(nano_folder))
    (said,) = run(lambda: policy.sample(opening(policy), 1, GREEDY), policy).sequences
    assert said.stop == "length"
    assert len(said.ids) == 10
    at = next(i for i, t in enumerate(said.ids) if i > 3 and t not in said.ids[:i])
    stop_ids = (policy.format.stop_ids[0], said.ids[at])
    again = EmbeddedPolicy(policy.model, policy.format, branches=2, weights="", stop_ids=stop_ids)
    (short,) = run(lambda: again.sample(opening(again), 1, GREEDY), again).sequences
    assert short.ids == said.ids[: at + 1]
    assert short.stop == "end"


def test_a_long_prompt_read_in_pieces_says_the_same(embedded: EmbeddedPolicy, stock: Any) -> None:
    ledger = opening(embedded, "The line is red. " * 40, *(picture(i) for i in range(4)))
    assert 700 < ledger.n_tokens < 1000
    mine, its = (run(lambda p=p: p.sample(ledger, 1, GREEDY)).sequences[0] for p in (embedded, stock))
    assert mine.ids == its.ids
    np.testing.assert_allclose(mine.logprobs, its.logprobs, atol=BOUND)


def test_draws_are_those_of_the_torch_policy() -> None:
    rng = np.random.default_rng(0)
    n = 400
    logits = rng.normal(0, 3, (n, 50)).astype(np.float32)
    logits[::7] = np.round(logits[::7])  # ties
    given = (
        rng.random(n).astype(np.float32),
        rng.choice([0, 0.3, 1, 2], n).astype(np.float32),
        rng.choice([0.2, 0.9, 1], n).astype(np.float32),
        rng.choice([0, 1, 5, 100], n),
    )
    ids, logprobs = draw(logits, *given)
    its = torch_draw(torch.from_numpy(logits), *(torch.from_numpy(x) for x in given))
    assert (ids == its[0].numpy()).all()
    np.testing.assert_allclose(logprobs, its[1].numpy(), atol=2e-6)
    assert len(set(ids.tolist())) > 40
