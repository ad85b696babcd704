"""Stop texts end the embedded policy's turns where they end the torch policy's."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from embedded_lab import FULL, picture

from specvet.chat import Ledger
from specvet.chat.messages import system, user
from specvet.policies.embedded.policy import EmbeddedPolicy
from specvet.policies.tokens import SamplingParams
from specvet.policies.torch.policy import TorchPolicy

LONG = SamplingParams(max_tokens=20, temperature=1.0, seed=11)


def question(policy: EmbeddedPolicy | TorchPolicy) -> Ledger:
    ledger = policy.format.new_ledger()
    ledger.append(policy.format.opening([system("Look."), user(picture(1, FULL), "Is there Hα?")]))
    return ledger


def test_both_engines_of_this_machine_stop_at_the_same_token(embedded: EmbeddedPolicy, stock: TorchPolicy) -> None:
    async def said(policy: EmbeddedPolicy | TorchPolicy, stop: tuple[str, ...]) -> list[tuple[tuple[int, ...], str]]:
        given = await policy.sample(question(policy), 2, replace(LONG, stop=stop))
        return [(s.ids, s.stop) for s in given.sequences]

    free = asyncio.run(said(embedded, ()))
    vocabulary, special = embedded.format.vocabulary, embedded.format.vocabulary.control_ids
    texts = tuple(
        next(vocabulary.decode([i]) for i in ids[5:] if vocabulary.decode([i]).isascii() and i not in special)
        for ids, _ in free
    )
    here, there = asyncio.run(said(embedded, texts)), asyncio.run(said(stock, texts))
    assert here == there
    for (ids, stop), (whole, _) in zip(here, free, strict=True):
        assert stop == "stop"
        assert ids == whole[: len(ids)]
        assert any(vocabulary.decode([ids[-1]]).endswith(text[-1]) for text in texts)
