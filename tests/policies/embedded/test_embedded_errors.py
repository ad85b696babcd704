"""Bad input and bad luck: typed errors for those concerned, and the engine goes on for the others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from embedded_lab import FULL, GREEDY, observe, opening, options, picture, run, say

from specvet.chat import ImageError, ImageSegment, Ledger, LedgerError, TextSegment
from specvet.policies.embedded.policy import EmbeddedPolicy
from specvet.policies.probes import fast_probes
from specvet.policies.tokens import PolicyError, SamplingParams


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        (SamplingParams(1000), r"a prompt of \d+ tokens and up to 1000 sampled ones, but the context is 1024: at most"),
        (SamplingParams(0), "both must be at least 1"),
        (SamplingParams(5, temperature=-1), "out of range"),
        (SamplingParams(5, top_p=0), "out of range"),
        (SamplingParams(5, top_k=-1), "out of range"),
    ],
)
def test_what_cannot_be_sampled_is_refused_with_numbers(
    embedded: EmbeddedPolicy, params: SamplingParams, reason: str
) -> None:
    with pytest.raises(LedgerError, match=reason):
        run(lambda: embedded.sample(opening(embedded), 1, params))


def test_a_turn_fits_the_context_to_the_last_token(nano_folder: Path) -> None:
    policy = EmbeddedPolicy.open(options(nano_folder, context=100))

    async def work() -> None:
        ledger = opening(policy)
        room = 100 - ledger.n_tokens
        said = (await policy.sample(ledger, 2, SamplingParams(room, 1.0))).sequences
        assert [len(s.ids) for s in said] == [room, room]
        with pytest.raises(LedgerError, match=f"at most {room} fit"):
            await policy.sample(ledger, 1, SamplingParams(room + 1))

    run(work, policy)


def test_a_ledger_of_another_model_is_refused(embedded: EmbeddedPolicy) -> None:
    ledger = opening(embedded)
    other = Ledger(ledger.format, "another vocabulary")
    other.append(ledger)
    words = Ledger.of_text("chat")
    beyond = ledger.fork()
    beyond.append([TextSegment((1536,), "user")])
    grid = ledger.format and embedded.format.new_ledger()
    grid.append(replace(s, rows=7, columns=7) if isinstance(s, ImageSegment) else s for s in ledger)
    for bad, says in (
        (other, "is not of this model's format"),
        (words, "holds words only"),
        (beyond, "the token id 1536 is beyond the model's 1536 ids"),
        (grid, "counted as 7 x 7 tokens; this model makes 6 x 8"),
        (embedded.format.new_ledger(), "an empty ledger"),
    ):
        with pytest.raises(LedgerError, match=says):
            run(lambda bad=bad: embedded.sample(bad, 1, GREEDY))


def test_a_picture_that_cannot_be_shown_fails_alone(embedded: EmbeddedPolicy) -> None:
    good, lost, torn = (opening(embedded, "Q", picture(90 + i, FULL)) for i in range(3))

    def with_png(ledger: Ledger, change: Any) -> Ledger:
        changed = embedded.format.new_ledger()
        changed.append(replace(s, png=change(s.png)) if isinstance(s, ImageSegment) else s for s in ledger)
        return changed

    async def work() -> list[Any]:
        asked = [good, with_png(lost, lambda _: None), with_png(torn, lambda png: png[:-30])]
        return await asyncio.gather(*(embedded.sample(a, 1, GREEDY) for a in asked), return_exceptions=True)

    sound, unknown, damaged = run(work)
    assert len(sound.sequences[0].ids) == 10
    assert isinstance(unknown, LedgerError)
    assert "known by its hash only" in str(unknown)
    assert isinstance(damaged, LedgerError | ImageError)
    assert "has the bytes of another one" in str(damaged)


def test_a_request_that_is_called_off_frees_its_row(nano_folder: Path) -> None:
    policy = EmbeddedPolicy.open(options(nano_folder, branches=1))

    async def work() -> None:
        ledger = opening(policy)
        said = (await policy.sample(ledger, 1, GREEDY)).sequences[0]
        long = asyncio.create_task(policy.sample(ledger, 1, SamplingParams(900, 0.0)))
        behind = asyncio.create_task(policy.sample(ledger, 1, GREEDY))
        while not policy._engine._lanes.n_busy:
            await asyncio.sleep(0)
        long.cancel()
        assert (await behind).sequences[0].ids == said.ids
        assert policy.usage.sampled_tokens == 20
        say(ledger, said)
        observe(policy, ledger, "No.")
        assert len((await policy.sample(ledger, 1, GREEDY)).sequences) == 1

    run(work, policy)


def test_a_closed_policy_fails_what_is_being_sampled_and_refuses_the_rest(nano_folder: Path) -> None:
    policy = EmbeddedPolicy.open(options(nano_folder))

    async def work() -> None:
        asked = asyncio.create_task(policy.sample(opening(policy), 1, SamplingParams(900, 0.0)))
        while not policy._engine._lanes.n_busy:
            await asyncio.sleep(0)
        await policy.aclose()
        await policy.aclose()
        with pytest.raises(PolicyError, match="closed while this was being sampled"):
            await asked
        with pytest.raises(PolicyError, match="this policy is closed"):
            await policy.sample(opening(policy), 1, GREEDY)
        policy.release(opening(policy))

    run(work)


def test_logits_that_are_not_finite_are_an_error_and_the_engine_goes_on(nano_folder: Path) -> None:
    policy = EmbeddedPolicy.open(options(nano_folder))

    async def work() -> None:
        kept = policy.model._embeddings[:].copy()
        policy.model._embeddings[:] = float("nan")
        with pytest.raises(PolicyError, match="the model's logits are not finite"):
            await policy.sample(opening(policy), 1, GREEDY)
        policy.model._embeddings[:] = kept
        assert len((await policy.sample(opening(policy), 1, GREEDY)).sequences[0].ids) == 10

    run(work, policy)


def test_the_probes_of_a_start_pass(embedded: EmbeddedPolicy) -> None:
    probes = run(lambda: fast_probes(embedded))
    assert {p.name: p.ok for p in probes} == dict.fromkeys(
        ("token_count", "determinism", "swap_image", "later_image"), True
    )
