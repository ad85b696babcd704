"""What both remote policies share: waiting for anything, chunks, stops, tokenizers, secrets."""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from remote_lab import opening, picture

from specvet.chat import AnswerTurn, ImageSegment, Ledger, LedgerError, TruncatedTurn, WordsSegment, chat_format
from specvet.chat.messages import assistant, tool
from specvet.chat.tiny import tiny_vocabulary, write_tiny
from specvet.policies import remote, remote_setup, tinker, trio
from specvet.policies.options import ModelOptions
from specvet.policies.remote import prompt_chunks, resolve, scrubbed, sequence, wire_seed, within
from specvet.policies.remote_setup import LiveModel, format_of, identity, live_check, model_named, tokenizer_path
from specvet.policies.tokens import PolicyError, turn_seed

FORMAT = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))


# --- resolve


def finished(value: Any) -> concurrent.futures.Future[Any]:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_result(value)
    return future


def failed(error: Exception) -> concurrent.futures.Future[Any]:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_exception(error)
    return future


async def coroutine(value: Any) -> Any:
    return value


class Awaitable:
    """A future of an SDK's own kind."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, Any]:
        return coroutine(self.value).__await__()


class Blocking:
    """A future that can only block."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.thread: threading.Thread | None = None

    def done(self) -> bool:
        return False

    def result(self, timeout: float | None = None) -> Any:
        self.thread = threading.current_thread()
        return self.value


SHAPES = {
    "an object": lambda v: v,
    "a concurrent future": finished,
    "a coroutine": coroutine,
    "an awaitable object": Awaitable,
    "a blocking future": Blocking,
    "a coroutine of a concurrent future": lambda v: coroutine(finished(v)),
    "a coroutine of an awaitable object": lambda v: coroutine(Awaitable(v)),
    "a coroutine of a coroutine of a blocking future": lambda v: coroutine(coroutine(Blocking(v))),
    "a future of a future": lambda v: finished(finished(v)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [7, None, [], {"tokens": [1]}])
def test_resolve_gives_the_value_of_any_shape(shape: str, value: Any) -> None:
    async def run() -> Any:
        return await resolve(SHAPES[shape](value))

    assert asyncio.run(run()) is value


def test_resolve_takes_a_future_of_the_running_loop() -> None:
    async def run() -> Any:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 7)
        return await resolve(future)

    assert asyncio.run(run()) == 7


def test_resolve_raises_what_the_future_raises() -> None:
    with pytest.raises(KeyError, match="gone"):
        asyncio.run(resolve(coroutine(failed(KeyError("gone")))))


def test_resolve_waits_for_a_blocking_future_in_a_daemon_thread() -> None:
    blocking = Blocking(7)
    assert asyncio.run(resolve(blocking)) == 7
    assert blocking.thread is not threading.main_thread()
    assert blocking.thread is not None
    assert blocking.thread.daemon


def test_cancelling_resolve_cancels_the_future() -> None:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(resolve(future), 0.01)

    asyncio.run(run())
    assert future.cancelled()


def test_tinkers_futures_are_awaited_without_its_warnings(recwarn: pytest.WarningsRecorder) -> None:
    wrapper = pytest.importorskip("tinker.lib.backcompat_concurrent_future")
    assert asyncio.run(resolve(wrapper._AwaitableFutureCompatWrapper(finished(7)))) == 7
    assert [w for w in recwarn if w.category is FutureWarning] == []


# --- deadlines and slots


def test_a_blocking_call_that_takes_too_long_is_given_up() -> None:
    released = threading.Event()
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="too long"):
        within(0.3, released.wait, lambda: TimeoutError("too long"))
    assert time.monotonic() - began >= 0.3
    released.set()


def test_a_timeout_of_the_call_itself_stays_its_own() -> None:
    def call() -> None:
        raise TimeoutError("of the call")

    with pytest.raises(TimeoutError, match="of the call"):
        within(5, call, lambda: TimeoutError("ours"))


def test_a_hopeless_wait_ends_early() -> None:
    released = threading.Event()
    with pytest.raises(PolicyError, match="no money"):
        within(3600, released.wait, lambda: PolicyError("no money"), lambda: "no money")
    released.set()


def test_slots_hold_on_every_event_loop() -> None:
    slots = remote.Slots(2)

    async def crowd() -> int:
        inside, most = 0, 0

        async def one() -> None:
            nonlocal inside, most
            async with slots.one():
                inside += 1
                most = max(most, inside)
                for _ in range(3):
                    await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(one() for _ in range(7)))
        return most

    assert [asyncio.run(crowd()), asyncio.run(crowd())] == [2, 2]
    with pytest.raises(ValueError, match="at least 1"):
        remote.Slots(0)


# --- over the line


def test_chunks_are_the_ledgers_ids_with_pictures_in_their_places() -> None:
    ledger = opening(FORMAT, picture(1), picture(2, 112, 168))
    ledger.append_sampled([5, 6, FORMAT.stop_ids[0]], [-1.0, -2.0, -0.5], "end")
    ledger.append(FORMAT.observation(ledger, tool("Here.", picture(3))))
    chunks = prompt_chunks(ledger)
    flat: list[int] = []
    for chunk in chunks:
        flat += [chunk.pad_id] * chunk.n_tokens if isinstance(chunk, ImageSegment) else list(chunk)
    assert flat == ledger.ids().tolist()
    assert [c for c in chunks if isinstance(c, ImageSegment)] == list(ledger.images)
    kinds = [isinstance(c, ImageSegment) for c in chunks]
    assert kinds == [False, True, False, True, False, True, False]  # text between pictures is one run


def test_what_cannot_be_sent_is_a_ledger_error() -> None:
    with pytest.raises(LedgerError, match="nothing to continue"):
        prompt_chunks(FORMAT.new_ledger())
    words = Ledger.of_text("openai")
    words.append([WordsSegment("Look.", "user")])
    with pytest.raises(LedgerError, match="words only"):
        prompt_chunks(words)
    bare = Ledger.from_dict(opening(FORMAT).to_dict())
    with pytest.raises(LedgerError, match="has no bytes; read the ledger with its images"):
        prompt_chunks(bare)


@pytest.mark.parametrize(
    ("ids", "reason", "stop"),
    [
        ([5, 9], "stop", "end"),
        ([5, 9], "length", "end"),  # the end token took the last place
        ([5, 9], "", "end"),
        ([5, 6], "length", "length"),
        ([5, 6], "max_tokens", "length"),
        ([5, 6, 7, 8], "", "length"),
        ([5, 6], "", "end"),
        ([5, 6], "stop", "end"),  # the end token was left out
        ([], "stop", "end"),
    ],
)
def test_why_a_turn_stopped_is_read_from_its_ids_first(ids: list[int], reason: str, stop: str) -> None:
    got = sequence(ids, [-1.0] * len(ids), reason, (9, 10), 4)
    assert got.stop == stop
    assert got.ids == tuple(ids)


def test_an_unknown_reason_to_stop_is_refused() -> None:
    with pytest.raises(LedgerError, match="'abort'"):
        sequence([5, 6], [-1.0, -1.0], "abort", (9,), 4)


def test_logprobs_that_do_not_fit_the_ids_are_refused() -> None:
    with pytest.raises(LedgerError, match="gave 1 log-probs for 2 sampled tokens"):
        sequence([5, 6], [-1.0], "length", (9,), 4)
    assert sequence([5, 6], None, "length", (9,), 4).logprobs is None
    got = sequence([5, 6], np.array([-1.0, -2.0]), "length", (9,), 4)
    assert got.logprobs is not None
    assert got.logprobs.dtype == np.float32
    assert not got.logprobs.flags.writeable


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_a_turn_whose_end_token_was_left_out_goes_on_with_the_same_prompt(family: str) -> None:
    format = chat_format(family, tiny_vocabulary(family))
    said = format.demonstration(assistant("<answer>\\boxed{YES} It is.</answer>", "I see."))
    whole, cut = opening(format), opening(format)
    whole.append_sampled(said, [-1.0] * len(said), "end")
    cut.append_sampled(said[:-1], [-1.0] * (len(said) - 1), "end")
    for ledger in (whole, cut):
        ledger.append(format.observation(ledger, tool("Here.", picture(3))))
    assert whole.ids().tolist() == cut.ids().tolist()
    assert whole.n_sampled == cut.n_sampled + 1
    turn = format.parse(said, "end")
    assert isinstance(turn, AnswerTurn)
    assert format.parse(said[:-1], "end") == turn
    assert isinstance(format.parse(said[:-1], "length"), TruncatedTurn)


def test_seeds_fit_in_31_bits_and_stay_apart() -> None:
    seeds = {wire_seed(turn_seed(0, "q", branch, turn)) for branch in range(32) for turn in range(8)}
    assert len(seeds) == 256
    assert all(0 <= s < 2**31 for s in seeds)


# --- opening


def test_importing_the_shared_part_needs_no_sdk() -> None:
    code = (
        "import sys; import specvet.policies.remote, specvet.policies.remote_setup, specvet.policies.trio, "
        "specvet.policies.tinker; print(sorted({'pytrio', 'tinker', 'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", [trio, tinker])
def test_a_missing_sdk_names_the_extra_to_install(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = {"trio": "pytrio", "tinker": "tinker"}[module.SERVICE.name]
    monkeypatch.setitem(sys.modules, sdk, None)
    with pytest.raises(PolicyError, match=rf"pip install 'specvet\[{module.SERVICE.name}\]'") as caught:
        module.open_policy(ModelOptions(model="Qwen/Qwen3.5-4B"))
    assert caught.value.fatal
    report = live_check(module.SERVICE.name)
    assert not report.ok
    assert "pip install" in report.detail


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl"),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3_vl"),
        ("Qwen/Qwen3-VL-8B-Thinking", "qwen3_vl_thinking"),
        ("Qwen/Qwen3.5-4B", "qwen3_5"),
    ],
)
def test_the_format_is_known_by_the_models_name(model: str, name: str, tmp_path: Path) -> None:
    write_tiny(name, tmp_path)
    assert format_of(trio.SERVICE, ModelOptions(tokenizer=str(tmp_path)), model).name == name


def test_the_format_is_else_known_by_the_configuration_beside_the_tokenizer(tmp_path: Path) -> None:
    write_tiny("qwen3_vl", tmp_path)
    options = ModelOptions(tokenizer=str(tmp_path))
    with pytest.raises(PolicyError, match=r"which chat format does 'me/mine' speak.*--format"):
        format_of(trio.SERVICE, options, "me/mine")
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl_moe"}')
    assert format_of(trio.SERVICE, options, "me/mine").name == "qwen3_vl"
    assert format_of(trio.SERVICE, replace(options, format="qwen3_vl_thinking"), "me/mine").name == "qwen3_vl_thinking"


def test_a_format_that_nobody_knows_is_refused_before_a_tokenizer_is_missed() -> None:
    with pytest.raises(PolicyError, match="there is no chat format 'qwen4'; known are qwen2_5_vl"):
        format_of(trio.SERVICE, ModelOptions(format="qwen4"), "me/mine")


def test_a_tokenizer_of_another_family_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(PolicyError, match="not a tokenizer") as caught:
        format_of(trio.SERVICE, ModelOptions(tokenizer=str(tmp_path)), "Qwen/Qwen3.5-4B")
    assert caught.value.fatal


def test_the_tokenizer_is_found_in_the_hubs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HOME", raising=False)
    model = "Qwen/Qwen3.5-4B"
    with pytest.raises(PolicyError, match=r"give --tokenizer its folder or tokenizer\.json, or run once: hf download"):
        tokenizer_path(trio.SERVICE, ModelOptions(), model)
    kept = tmp_path / "models--Qwen--Qwen3.5-4B"
    for commit in ("aaa", "bbb"):
        write_tiny("qwen3_5", kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("bbb")
    assert tokenizer_path(trio.SERVICE, ModelOptions(), model) == kept / "snapshots" / "bbb"
    assert tokenizer_path(trio.SERVICE, ModelOptions(revision="aaa"), model) == kept / "snapshots" / "aaa"
    assert format_of(trio.SERVICE, ModelOptions(), model).name == "qwen3_5"


def test_a_model_that_the_account_lacks_is_answered_with_those_it_has() -> None:
    models = [LiveModel("b", 10, True, True), LiveModel("a", None, True, False), LiveModel("c", 10, False, True)]
    assert model_named(trio.SERVICE, models, "a").name == "a"
    with pytest.raises(PolicyError, match="cannot sample from 'c'; it can from: a, b"):
        model_named(trio.SERVICE, models, "c")


# --- secrets


def test_nothing_that_looks_like_a_key_gets_into_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTRIO_API_KEY", "sesame-street-9")
    said = "key sesame-street-9 or tml-abc_DEF-1 or eyJhbGciOi.eyJzdWIi.c2ln is wrong"
    assert scrubbed(said) == "key <PYTRIO_API_KEY> or <key> or <key> is wrong"
    assert "sesame" not in str(trio.SERVICE.problem("login", said))
    assert "sesame" not in str(trio.SERVICE.stalled("a request", 3, said))


def test_an_address_identifies_without_user_password_and_query() -> None:
    told = identity(trio.SERVICE, "https://me:secret@example.org:8000/api?token=secret", "m", None)
    assert told == ("trio", "example.org:8000", "m", "")


def test_a_service_that_nobody_knows_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="known are: trio, tinker"):
        remote_setup.live_check("fire")
