"""What a server does not understand, groups, keys, and who the policy is."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import pytest
from openai_lab import (
    ANSWER,
    PARAMS,
    SCHEMA,
    Asked,
    LoopbackServer,
    Said,
    asked,
    completion,
    error,
    picture,
    policy_for,
)

from specvet.chat import AnswerTurn, ToolCall
from specvet.chat.messages import assistant, tool, user
from specvet.policies.openai import OpenAIPolicy, ServerError
from specvet.policies.tokens import PolicyError

OK = completion(ANSWER)
YES = AnswerTurn("YES", "Broad Hα.")
KEY = "sk-very-secret-0123456789"


# --- what a server does not understand


def without(*fields: str, words: str = "Unsupported parameter: '{}'") -> Any:
    """A server that refuses these fields of a request by name."""

    def step(request: Asked) -> Said:
        refused = next((f for f in fields if f in request.body), None)
        return error(400, words.format(refused)) if refused else OK

    return step


def test_max_completion_tokens_is_used_where_max_tokens_is_refused_and_remembered() -> None:
    words = "Unsupported parameter: '{}' is not supported with this model. Use 'max_completion_tokens' instead."
    with LoopbackServer(without("max_tokens", words=words)) as server:
        policy = policy_for(server)
        for _ in range(2):
            assert asked(policy).replies[0].turn == YES
    assert [("max_tokens" in p.body, p.body.get("max_completion_tokens")) for p in server.posts] == [
        (True, None),
        (False, 32),
        (False, 32),
    ]
    assert policy.usage.notes == {"max_completion_tokens": 1.0}


def test_a_refused_seed_is_left_out_and_counted() -> None:
    with LoopbackServer(without("seed", words="Unrecognized request argument supplied: {}")) as server:
        policy = policy_for(server)
        assert asked(policy).replies[0].turn == YES
    assert policy.usage.notes == {"seed_not_honoured": 1.0}


def test_a_refused_temperature_is_an_error_since_samples_would_be_others() -> None:
    with LoopbackServer(without("temperature")) as server, pytest.raises(ServerError, match="temperature"):
        asked(policy_for(server))


TALK = (user(picture(1), "Is it?"), assistant("", "", [ToolCall("zoom", {})]), tool(picture(2), "Here."))


def refuses_tool_pictures(request: Asked) -> Said:
    if any(m["role"] == "tool" and isinstance(m["content"], list) for m in request.body["messages"]):
        return error(400, "Invalid 'messages[2]': image URLs are only allowed for messages with role 'user'")
    return OK


def test_pictures_that_are_refused_in_a_tools_message_follow_as_the_users() -> None:
    with LoopbackServer(refuses_tool_pictures) as server:
        policy = policy_for(server)
        for _ in range(2):
            assert asked(policy, TALK).replies[0].turn == YES
        roles = [[m["role"] for m in p.body["messages"]] for p in server.posts]
    assert roles == [["user", "assistant", "tool"], *[["user", "assistant", "tool", "user"]] * 2]
    assert policy.usage.notes == {"tool_images_as_user": 1.0}


def test_a_refusal_for_another_reason_teaches_nothing() -> None:
    with LoopbackServer(error(400, "no")) as server:
        policy = policy_for(server)
        before = policy.dialect
        with pytest.raises(ServerError, match="The server says: no"):
            asked(policy, TALK)
    assert policy.dialect == before
    assert policy.usage.notes == {}


def test_pictures_stay_in_the_tools_message_where_that_is_asked_for() -> None:
    with LoopbackServer(refuses_tool_pictures) as server, pytest.raises(ServerError, match="only allowed for"):
        asked(policy_for(server, tool_images="tool"), TALK)


# --- groups


def test_n_is_sent_once_where_the_server_honours_it() -> None:
    with LoopbackServer(lambda r: completion(*[ANSWER] * r.body.get("n", 1))) as server:
        policy = policy_for(server)
        assert len(asked(policy, n=4).replies) == 4
    assert len(server.posts) == 1
    assert "n" in policy.capabilities
    assert policy.usage.sampled_tokens == 12


def test_a_server_that_ignores_n_is_asked_for_the_rest_with_other_seeds_and_then_known() -> None:
    with LoopbackServer(OK) as server:
        policy = policy_for(server)
        assert len(asked(policy, n=4).replies) == 4
        assert [p.body.get("n") for p in server.posts] == [4, None, None, None]
        assert len({p.body["seed"] for p in server.posts}) == 4
        assert "n" not in policy.capabilities
        asked(policy, n=3)
        assert [p.body.get("n") for p in server.posts[4:]] == [None, None, None]
    assert policy.usage.notes == {"n_not_honoured": 1.0}


def test_a_server_that_refuses_n_is_asked_one_by_one() -> None:
    with LoopbackServer(without("n", words="parameter `{}` is not supported")) as server:
        policy = policy_for(server)
        assert len(asked(policy, n=3).replies) == 3
    assert "n" not in policy.capabilities


def test_a_greedy_group_is_asked_one_by_one_and_teaches_nothing() -> None:
    with LoopbackServer(OK) as server:
        policy = policy_for(server)
        assert len(asked(policy, n=2, params=dataclasses.replace(PARAMS, temperature=0.0)).replies) == 2
        assert ["n" in p.body for p in server.posts] == [False, False]
    assert "n" in policy.capabilities


def test_more_choices_than_asked_are_left_and_counted() -> None:
    with LoopbackServer(completion(*[ANSWER] * 5)) as server:
        policy = policy_for(server)
        assert len(asked(policy, n=2).replies) == 2
    assert policy.usage.notes == {"more_choices_than_asked": 1.0}


def test_no_more_requests_are_in_flight_than_branches() -> None:
    with LoopbackServer(OK) as server:
        policy = policy_for(server, branches=3)

        async def many() -> None:
            await policy.reply([user("?")], [], 1, PARAMS)
            await asyncio.gather(*(policy.reply([user("?")], [], 1, PARAMS) for _ in range(30)))
            await policy.aclose()

        asyncio.run(many())
    assert len(server.posts) == 31
    assert server.open_most <= 3


def test_one_failure_in_a_group_ends_the_others_and_is_raised_as_itself() -> None:
    with LoopbackServer(OK, OK, error(403, "no more"), Said(fault="stall")) as server:
        policy = policy_for(server)
        with pytest.raises(ServerError, match="no more"):
            asked(policy, n=8)


def test_a_policy_may_be_used_in_one_event_loop_after_another() -> None:
    with LoopbackServer(OK) as server:
        policy = policy_for(server)
        for _ in range(3):
            assert asked(policy).replies[0].turn == YES


# --- keys


def sent_key(environment: dict[str, str], **options: Any) -> str | None:
    with LoopbackServer(OK) as server:
        asked(policy_for(server, environment=environment, **options))
        return server.posts[0].headers.get("authorization")


def test_the_key_comes_from_the_environment_and_ours_comes_first() -> None:
    assert sent_key({}) is None
    assert sent_key({"OPENAI_API_KEY": KEY}) == f"Bearer {KEY}"
    assert sent_key({"OPENAI_API_KEY": KEY, "SPECVET_API_KEY": "mine"}) == "Bearer mine"


def test_an_openai_key_does_not_travel_over_plain_http() -> None:
    from specvet.policies.openai import open_policy
    from specvet.policies.openai.errors import explained
    from specvet.policies.options import ModelOptions

    def said(url: str, **environment: str) -> str:
        return open_policy(ModelOptions(base_url=url, model="m"), environment=environment).server.key_said

    unsent = said("http://example.org/v1", OPENAI_API_KEY=KEY)
    assert "not sent over plain http" in unsent
    refusal = explained(401, b"", address="http://example.org/v1", model="m", key=unsent)
    assert "asks for a key; OPENAI_API_KEY is not sent over plain http; use SPECVET_API_KEY." in str(refusal)
    assert said("https://example.org/v1", OPENAI_API_KEY=KEY) == "the key in OPENAI_API_KEY"
    assert said("http://example.org/v1", SPECVET_API_KEY=KEY) == "the key in SPECVET_API_KEY"
    assert said("http://[::1]:8000/v1", OPENAI_API_KEY=KEY) == "the key in OPENAI_API_KEY"


@pytest.mark.parametrize("key", ["Bearer x", "schlüssel", "a\nb"])
def test_a_key_that_is_none_is_refused_without_being_shown(key: str) -> None:
    with LoopbackServer(OK) as server, pytest.raises(PolicyError, match="SPECVET_API_KEY") as e:
        policy_for(server, environment={"SPECVET_API_KEY": key})
    assert key not in str(e.value)


def test_the_key_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echoing = error(401, f"Incorrect API key provided: {KEY}")
    with LoopbackServer(echoing) as server:
        url = server.url.replace("://", "://user:password@") + "?api-version=secretish"
        policy = policy_for(server, base_url=url, environment={"SPECVET_API_KEY": KEY})
        with pytest.raises(ServerError) as e:
            asked(policy)
    shown = f"{e.value} {e.value.said} {policy.fingerprint} {policy.usage} {policy.server.address} {policy!r}"
    for secret in (KEY, "password", "secretish"):
        assert secret not in shown
        assert secret not in caplog.text or secret == "secretish"  # httpx logs whole addresses: no place for a key
    assert "[key]" in e.value.said


def test_the_fingerprint_tells_server_model_and_manner_apart() -> None:
    def mark(**options: Any) -> str:
        return policy_for(server, **options).fingerprint

    server = LoopbackServer(OK)
    server.port = 1
    marks = {mark(), mark(model="other"), mark(base_url="http://x/v1"), mark(tools="text", format="qwen3_5")}
    assert len(marks) == 4
    assert mark() == mark()


def test_an_answer_without_end_is_left() -> None:
    import specvet.policies.openai.server as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_BODY", 1000)
        with (
            LoopbackServer(completion("x" * 5000)) as server,
            pytest.raises(ServerError, match="answers with more than"),
        ):
            asked(policy_for(server))


def test_it_is_a_text_policy() -> None:
    from specvet.policies.text import TextPolicy

    with LoopbackServer(OK) as server:
        policy: TextPolicy = policy_for(server)
    assert isinstance(policy, OpenAIPolicy)
    assert policy.name == "openai"
    assert SCHEMA["type"] == "function"
