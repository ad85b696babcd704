"""A server that stalls, cuts the line, refuses, is busy or is not there: attempts, waits, deadlines, words."""

from __future__ import annotations

import asyncio
import dataclasses
import email.utils
import gzip
import json
import socket
import zlib
from collections.abc import Callable

import pytest
from openai_lab import (
    ANSWER,
    HeldClock,
    LoopbackServer,
    Said,
    asked,
    completion,
    error,
    policy_for,
)

from specvet.chat import AnswerTurn
from specvet.policies.openai import Patience, ServerError
from specvet.policies.openai.patience import retry_after
from specvet.policies.openai.server import GIVE_UP_AFTER, MAX_BODY
from specvet.policies.tokens import ContextLengthError, PolicyError

OK = completion(ANSWER)
YES = AnswerTurn("YES", "Broad Hα.")
KEY = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    "trouble",
    [
        *(error(status, "in trouble") for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        Said(b"<html><title>502 Bad Gateway</title></html>", 502, kind="text/html"),
        Said(b'{"choices": [{"mess'),
        Said({"choices": []}),
        Said({"error": {"message": "upstream"}}),
        dataclasses.replace(OK, fault="cut"),
        Said(fault="drop"),
    ],
)
def test_trouble_that_may_pass_is_tried_again_after_a_wait_with_full_jitter(trouble: Said) -> None:
    clock = HeldClock()
    with LoopbackServer(trouble, trouble, OK) as server:
        policy = policy_for(server, clock=clock)
        assert asked(policy).replies[0].turn == YES
    assert clock.slept == [0.25, 0.5]  # half of 0.5 and 1 s: the clock's chance is 0.5
    assert (policy.usage.requests, policy.usage.retries) == (3, 2)


def test_a_stalled_server_is_left_at_the_deadline_and_asked_again() -> None:
    clock = HeldClock(real_limit=0.5)  # within which the second attempt must succeed, on a busy machine too
    with LoopbackServer(Said(fault="stall"), OK) as server:
        policy = policy_for(server, clock=clock, timeout_s=20.0)
        policy.server.patience = dataclasses.replace(policy.server.patience, attempts=2)
        assert asked(policy).replies[0].turn == YES
    assert clock.time == pytest.approx(20.25)


def test_a_preflight_waits_for_a_silent_server_once_and_says_so() -> None:
    clock = HeldClock(real_limit=0.05)
    with LoopbackServer(OK, models=Said(fault="stall")) as server:
        policy = policy_for(server, clock=clock)
        with pytest.raises(TimeoutError, match="did not list its models within 5 s"):
            asyncio.run(policy.preflight())
    assert (clock.slept, server.posts) == ([], [])
    assert policy.server.patience.attempts > 1


def test_the_total_deadline_ends_a_request_whatever_attempts_are_left() -> None:
    clock = HeldClock(real_limit=0.05)
    with LoopbackServer(Said(fault="stall")) as server:
        policy = policy_for(server, clock=clock, patience=Patience(attempts=50, attempt_s=20.0, total_s=50.0))
        with pytest.raises(TimeoutError, match=r"no whole answer within 9 s.*--timeout.*tried 3 times in 50 s"):
            asked(policy)
    assert clock.time == pytest.approx(50.0, abs=1.0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": email.utils.formatdate(1_800_000_009, usegmt=True)}, 9.0),
        ({"retry-after": email.utils.formatdate(1_700_000_000, usegmt=True)}, 0.0),
        (
            {
                "retry-after": email.utils.formatdate(1_500_000_012, usegmt=True),
                "date": email.utils.formatdate(1_500_000_000, usegmt=True),
            },
            12.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "Wed, 99 Foo 2026"}, None),
        ({"retry-after-ms": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_seconds_and_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 1_800_000_000.0) == seconds


def test_what_a_busy_server_asks_is_waited_and_no_more_than_the_cap() -> None:
    clock = HeldClock()
    with LoopbackServer(
        error(429, "slow down", {"retry-after": "7"}), error(429, "slow down", {"retry-after": "99999"}), OK
    ) as server:
        asked(policy_for(server, clock=clock))
    assert clock.slept == [7.25, 300.5]


def test_a_wait_that_the_deadline_does_not_allow_is_not_begun() -> None:
    clock = HeldClock()
    with LoopbackServer(error(429, "slow down", {"retry-after": "200"})) as server:
        policy = policy_for(server, clock=clock, patience=Patience(total_s=100.0))
        with pytest.raises(ServerError, match="lower --branches") as e:
            asked(policy)
    assert (e.value.kind, e.value.fatal, clock.slept) == ("busy", False, [])


@pytest.mark.parametrize(
    ("said", "kind", "fatal", "words"),
    [
        (
            error(401, "Incorrect API key provided"),
            "unauthorised",
            True,
            r"asks for a key; none is set \(SPECVET_API_KEY or",
        ),
        (error(402, "Payment required"), "quota", True, "no credit left"),
        (error(403, "Not for you"), "forbidden", True, "may not use the model 'tiny'"),
        (error(404, "page not found"), "no_such_address", True, "ends in /v1"),
        (Said(b"<html>404</html>", 404, kind="text/html"), "no_such_address", True, "ends in /v1"),
        (Said(b"<html>403</html>", 403, kind="text/html"), "forbidden", True, "or nobody here may"),
        (error(413, "Payload too large"), "images_too_large", False, "--style compact"),
        (error(422, "temperature must be at most 1"), "refused", False, "temperature must be at most 1"),
        (Said({"detail": [{"loc": ["body"], "msg": "field required"}]}, 422), "refused", False, "field required"),
        (
            Said({"detail": "Server is pinned to 'a'; requested 'tiny'."}, 400),
            "no_such_model",
            True,
            "It has: 'a'|pinned",
        ),
        (
            error(400, "The model `tiny` does not exist", code="model_not_found"),
            "no_such_model",
            True,
            "no model named",
        ),
        (error(429, "You exceeded your current quota", code="insufficient_quota"), "quota", True, "top it up"),
        (error(501, "not implemented"), "broken", True, "501"),
        (Said(b"\xff\xfe", 400), "refused", False, "400"),
        (Said(b"", 400), "refused", False, "gives no reason"),
    ],
)
def test_a_refusal_is_explained_and_not_tried_again(said: Said, kind: str, fatal: bool, words: str) -> None:
    clock = HeldClock()
    with LoopbackServer(said) as server:
        policy = policy_for(server, clock=clock)
        with pytest.raises(ServerError, match=words) as e:
            asked(policy)
    assert (e.value.kind, e.value.fatal) == (kind, fatal)
    assert (clock.slept, len(server.posts)) == ([], 1)


def test_an_unknown_model_is_told_with_those_that_the_server_has() -> None:
    said = error(404, "The model `qwen-3b` does not exist")
    words = r"Did you mean 'qwen-vl-3b'\? It has: qwen-vl-3b, llama"
    with LoopbackServer(said, models=("qwen-vl-3b", "llama")) as server, pytest.raises(ServerError, match=words) as e:
        asked(policy_for(server, model="qwen-3b"))
    assert e.value.kind == "no_such_model"


@pytest.mark.parametrize(
    "said",
    [
        error(400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
        error(400, "anything", code="context_length_exceeded"),
        error(400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
        error(400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        error(400, "the request exceeds the available context size", type="exceed_context_size_error"),
        error(400, "prompt is too long: 9000 tokens > 8192 maximum"),
        Said({"object": "error", "message": "max_tokens exceeds max_model_len", "code": 400}, 400),
        error(413, "Requested token count exceeds the model's maximum context length of 8192 tokens."),
    ],
)
def test_a_context_that_is_full_is_an_error_of_its_own(said: Said) -> None:
    with LoopbackServer(said) as server:
        policy = policy_for(server)
        with pytest.raises(ContextLengthError) as e:
            asked(policy)
    assert not e.value.fatal
    assert policy.context in (8192, None)


def test_a_servers_context_is_learnt_from_its_list_of_models_or_its_refusal() -> None:
    listed = {"data": [{"id": "tiny", "max_model_len": 4096}]}
    with LoopbackServer(OK, models=listed) as server:
        policy = policy_for(server)
        asked(policy)
        assert policy.context == 4096
    with LoopbackServer(error(400, "This model's maximum context length is 8192 tokens.")) as server:
        policy = policy_for(server)
        with pytest.raises(ContextLengthError):
            asked(policy)
        assert policy.context == 8192


def test_the_only_model_of_a_server_need_not_be_named() -> None:
    with LoopbackServer(OK, models=("the-one",)) as server:
        policy = policy_for(server, model=None)
        assert policy.model == "the-one"
        asked(policy)
        assert server.posts[0].body["model"] == "the-one"
    with LoopbackServer(OK, models=("one", "two")) as server, pytest.raises(PolicyError, match="--model: one, two"):
        policy_for(server, model=None)


@pytest.mark.parametrize(
    "models", [error(404, "no list"), Said(b"x"), Said({"data": None}), Said({"data": [{"x": 1}, 7]})]
)
def test_a_server_without_a_list_of_models_is_asked_for_the_named_one(models: Said) -> None:
    with LoopbackServer(OK, models=models) as server:
        assert asked(policy_for(server)).replies[0].turn == YES


def test_a_server_that_is_not_there_is_said_to_be_unreachable_and_fatal() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with LoopbackServer(OK) as server:
        policy = policy_for(server, base_url=f"http://127.0.0.1:{port}/v1", patience=Patience(attempts=3))
        with pytest.raises(ServerError, match=r"cannot be reached.*is the server running.*tried 3 times") as e:
            asked(policy)
    assert e.value.fatal


def test_what_fails_inside_the_server_is_tried_three_times_at_most() -> None:
    with LoopbackServer(error(500, "Internal Server Error")) as server:
        policy = policy_for(server)
        with pytest.raises(ServerError, match=r"status 500.*tried 3 times") as e:
            asked(policy)
    assert (e.value.kind, e.value.fatal, len(server.posts)) == ("broken", False, 3)


def test_a_server_that_fails_time_after_time_fails_for_every_question() -> None:
    with LoopbackServer(error(503, "oh")) as server:
        policy = policy_for(server, patience=Patience(attempts=2))
        fatal = []
        for _ in range(GIVE_UP_AFTER):
            with pytest.raises(ServerError) as e:
                asked(policy)
            fatal.append(e.value.fatal)
    assert fatal == [False] * (GIVE_UP_AFTER - 1) + [True]


@pytest.mark.parametrize("body", [b"<" * 3_000_000, b"<html><title>" * 200_000, b"<a " * 1_000_000])
@pytest.mark.parametrize("status", [200, 400, 404, 503])
def test_a_hostile_error_page_costs_time_in_proportion_to_its_length(status: int, body: bytes) -> None:
    with LoopbackServer(Said(body, status, kind="text/html")) as server:
        policy = policy_for(server, clock=HeldClock())
        policy.server.patience = Patience(attempts=1)
        with pytest.raises(ServerError):  # with a pattern that is quadratic, this would take hours
            asked(policy)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
def test_a_compressed_answer_is_read_and_a_bomb_is_not_unpacked(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    headers = {"content-encoding": encoding}
    whole = json.dumps(OK.body).encode()
    with LoopbackServer(Said(pack(whole), headers=headers)) as server:
        assert asked(policy_for(server)).replies[0].turn == YES
    bomb = Said(pack(whole + b" " * MAX_BODY), headers=headers)
    with LoopbackServer(bomb) as server, pytest.raises(ServerError, match="more than 64 MiB"):
        asked(policy_for(server, clock=HeldClock()))


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"{}")[:-9]], ids=["no gzip", "cut short"])
def test_a_damaged_compression_is_tried_again(body: bytes) -> None:
    with LoopbackServer(Said(body, headers={"content-encoding": "gzip"}), OK) as server:
        assert asked(policy_for(server, clock=HeldClock())).replies[0].turn == YES


def test_compression_within_compression_is_not_unpacked() -> None:
    packed = gzip.compress(gzip.compress(json.dumps(OK.body).encode()))
    said = Said(packed, headers={"content-encoding": "gzip, gzip"})
    with LoopbackServer(said) as server, pytest.raises(ServerError, match="no whole JSON"):
        asked(policy_for(server, clock=HeldClock()))


@pytest.mark.parametrize(
    "said",
    [
        Said(f"your key {KEY} is bad".encode()),
        Said(f"<html><title>{KEY}</title>".encode(), kind="text/html"),
        Said({"key": KEY}),
        Said({"error": {"message": KEY}}),
        Said({"choices": KEY}),
        *(error(status, KEY) for status in (301, 400, 401, 402, 403, 404, 429, 500)),
    ],
)
def test_a_server_that_repeats_the_key_does_not_get_it_into_a_message(said: Said) -> None:
    with LoopbackServer(said) as server:
        policy = policy_for(server, clock=HeldClock(), environment={"SPECVET_API_KEY": KEY})
        with pytest.raises(PolicyError) as caught:
            asked(policy)
    assert KEY not in str(caught.value)
    assert KEY not in getattr(caught.value, "said", "")


def test_a_servers_words_can_be_printed_and_kept() -> None:
    said = Said(b'{"error": {"message": "half \\ud800, clear \\u001b[2J, bell \\u0007, zero \\u0000."}}', 400)
    with LoopbackServer(said) as server, pytest.raises(ServerError) as caught:
        asked(policy_for(server))
    assert caught.value.said == "half \ufffd, clear \ufffd[2J, bell \ufffd, zero \ufffd."
    str(caught.value).encode()
