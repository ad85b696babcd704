"""Several endpoints as one: requests are spread, one that dies is survived, what is everybody's trouble is told."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from openai_lab import ANSWER, PARAMS, HeldClock, LoopbackServer, Said, completion, error

from specvet.chat.messages import user
from specvet.policies.openai import OpenAIPolicy, ServerError, ServerPool, open_policy
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import PolicyError

OK = completion(ANSWER)


def gone() -> str:
    """An address at which nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{s.getsockname()[1]}/v1"


def pooled(*urls: str, clock: HeldClock | None = None, **options: Any) -> OpenAIPolicy:
    chosen = ModelOptions(model="tiny", base_url=urls[0], more_urls=urls[1:], **options)
    return open_policy(chosen, environment={}, clock=clock or HeldClock())


def asked_many(policy: OpenAIPolicy, n: int) -> list[str]:
    async def all_of_them() -> list[str]:
        try:
            found = await asyncio.gather(*(policy.reply([user("Is it?")], [], 1, PARAMS) for _ in range(n)))
        finally:
            await policy.aclose()
        return [replies.replies[0].text for replies in found]

    return asyncio.run(all_of_them())


def test_requests_are_spread_evenly_over_the_servers() -> None:
    with LoopbackServer(OK) as a, LoopbackServer(OK) as b, LoopbackServer(OK) as c:
        policy = pooled(a.url, b.url, c.url)
        assert len(asked_many(policy, 30)) == 30
        assert [len(server.posts) for server in (a, b, c)] == [10, 10, 10]
        assert policy.usage.requests == 30


@pytest.mark.parametrize(
    "trouble", [Said(fault="drop"), error(503, "down"), Said(b"<html></html>", 502, kind="text/html")]
)
def test_a_server_in_trouble_is_survived_and_left_alone(trouble: Said) -> None:
    with LoopbackServer(trouble) as bad, LoopbackServer(OK) as good:
        policy = pooled(bad.url, good.url)
        assert all(ANSWER in text for text in asked_many(policy, 12))
        assert len(good.posts) == 12
        few = len(bad.posts)
        asked_many(policy, 12)
        assert (len(good.posts), len(bad.posts)) == (24, few)  # it rests
        assert policy.usage.notes["servers_lost"] == 1


def test_a_server_that_is_not_there_is_survived_also_for_the_list_of_models() -> None:
    with LoopbackServer(OK) as good:
        policy = pooled(gone(), good.url)
        assert len(asked_many(policy, 5)) == 5
        named = open_policy(ModelOptions(base_url=gone(), more_urls=(good.url,)), environment={}, clock=HeldClock())
        assert named.model == "tiny"


def test_a_server_that_comes_back_is_asked_again_after_its_rest() -> None:
    clock = HeldClock()
    with LoopbackServer(error(503, "down"), error(503, "down"), OK) as a, LoopbackServer(OK) as b:
        policy = pooled(a.url, b.url, clock=clock)
        asked_many(policy, 2)
        before = len(a.posts)
        clock.time += 3_600.0
        asked_many(policy, 8)
        assert len(a.posts) >= before + 3


def test_when_none_answers_round_after_round_it_is_told_as_fatal() -> None:
    with LoopbackServer(error(503, "down")) as a, LoopbackServer(error(503, "down")) as b:
        with pytest.raises(ServerError, match=r"none of the 2 servers answers \(8 rounds\); the last: ") as caught:
            asked_many(pooled(a.url, b.url), 1)
        assert caught.value.fatal


def test_what_is_the_requests_own_fault_is_not_asked_of_another() -> None:
    with LoopbackServer(error(401, "bad key")) as a, LoopbackServer(OK) as b:
        with pytest.raises(PolicyError):
            asked_many(pooled(a.url, b.url), 1)
        assert len(b.posts) == 0


def test_a_run_knows_several_servers_by_the_model_alone() -> None:
    one, two = pooled("http://a/v1", "http://b/v1"), pooled("http://c/v1", "http://a/v1", "http://d/v1")
    assert one.fingerprint == two.fingerprint != pooled("http://a/v1").fingerprint
    assert isinstance(one.server, ServerPool)
    assert one.server.address == "http://a/v1, http://b/v1"
