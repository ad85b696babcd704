"""Stop texts of remote services: how they are sent, and how what comes back is told apart."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from specvet.chat import Ledger, TextSegment, chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies.remote import Service, sequence, wire_stops
from specvet.policies.remote_policy import RemotePolicy, Reply
from specvet.policies.tokens import PolicyError, SamplingParams

FORMAT = chat_format("qwen3_vl", tiny_vocabulary("qwen3_vl"))
TEXTS = ("</tool>", "</answer>")


def test_ids_go_as_ids_and_beside_texts_end_tokens_go_as_theirs() -> None:
    assert wire_stops(FORMAT.stop_ids, (), FORMAT.vocabulary) == list(FORMAT.stop_ids)
    assert wire_stops(FORMAT.stop_ids, TEXTS, FORMAT.vocabulary) == [*TEXTS, "<|im_end|>", "<|endoftext|>"]


@pytest.mark.parametrize("sdk", ["pytrio", "tinker.types"])
def test_both_sdks_take_either(sdk: str) -> None:
    params = pytest.importorskip(sdk).SamplingParams
    for stop in (wire_stops(FORMAT.stop_ids, (), FORMAT.vocabulary), wire_stops((), TEXTS, FORMAT.vocabulary)):
        assert list(params(max_tokens=4, temperature=1.0, seed=1, stop=stop).stop) == stop


class Replying(RemotePolicy):
    """A service that says given ids and stopped for a reason of its own."""

    name = "replying"
    service = Service("replying", "log in", "replying://")

    def __init__(self, ids: list[int], reason: str) -> None:
        super().__init__(FORMAT, ("x",), model="m", context=512, trainable=False, timeout_s=5, in_flight=1)
        self.ids, self.reason = ids, reason

    def _prompt(self, chunks: list[Any]) -> Any:
        return chunks

    async def _send(self, prompt: Any, n: int, params: SamplingParams) -> Reply:
        logprobs = -np.ones(len(self.ids), dtype=np.float32)
        return Reply((sequence(self.ids, logprobs, self.reason, FORMAT.stop_ids, params.max_tokens),))

    def _explained(self, e: Exception, opening: bool) -> PolicyError:
        return PolicyError(str(e))

    def _close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("text", "end", "reason", "stop"),
    [
        ("<tool>sympy: 1</tool>", False, "stop", "stop"),
        ("<tool>sympy: 1", False, "stop", "end"),
        ("no more", True, "stop", "end"),
        ("and so on", False, "length", "length"),
        ("<answer>1</answer>", False, "length", "length"),
    ],
)
def test_a_text_that_ended_a_turn_is_told_from_an_end_token_that_was_left_out(
    text: str, end: bool, reason: str, stop: str
) -> None:
    ids = [*FORMAT.vocabulary.encode(text), *([FORMAT.stop_ids[0]] if end else [])]
    ledger = Ledger(FORMAT.name, FORMAT.vocabulary.fingerprint)
    ledger.append([TextSegment((1, 2, 3), "user")])
    policy = Replying(ids, reason)
    samples = asyncio.run(policy.sample(ledger, 1, SamplingParams(64, stop=TEXTS)))
    assert samples.sequences[0].stop == stop
    assert policy.usage.notes.get("end_tokens_left_out", 0) == (stop == "end" and not end)
