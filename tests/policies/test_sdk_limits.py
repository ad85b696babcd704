"""The contract with the SDKs, continued: how many requests at a time, how long, and what is said of a refusal."""

from __future__ import annotations

import asyncio
import sys

import pytest
from remote_lab import KEY, Lab, opening, params

from specvet.chat import TextSegment
from specvet.policies.remote_setup import live_check
from specvet.policies.tokens import ContextLengthError, PolicyError

# --- many at a time, and never for ever


def test_no_more_requests_are_in_flight_than_allowed(here: Lab) -> None:
    policy = here.open(branches=4)
    here.faults.hold_until = 4

    async def run() -> None:
        ledger = opening(policy.format)
        await asyncio.gather(*(policy.sample(ledger, 1, params(branch=i, max_tokens=1)) for i in range(12)))

    asyncio.run(run())
    assert here.service.most_inside == 4


def test_more_requests_are_in_flight_than_the_sdk_allows_by_itself(here: Lab) -> None:
    policy = here.open(branches=40)
    here.faults.hold_until = 40  # nobody is answered before all are inside; pytrio's own limit is 16

    async def run() -> None:
        ledger = opening(policy.format)
        await asyncio.gather(*(policy.sample(ledger, 1, params(branch=i, max_tokens=1)) for i in range(40)))

    asyncio.run(run())
    assert here.service.most_inside == 40


def test_the_event_loop_runs_on_while_the_service_works(here: Lab) -> None:
    policy = here.open()
    here.faults.hold_until = 2

    async def run() -> None:
        ledger = opening(policy.format)
        waiting = asyncio.ensure_future(policy.sample(ledger, 1, params(max_tokens=1)))
        while not here.service.inside:
            await asyncio.sleep(0)  # a blocked loop would never come round
        assert not waiting.done()
        await asyncio.gather(waiting, policy.sample(ledger, 1, params(branch=1, max_tokens=1)))

    asyncio.run(run())


def test_a_service_that_stalls_is_given_up_and_the_error_says_what_to_do(here: Lab) -> None:
    policy = here.open(branches=1)
    here.faults.stall = True
    policy.timeout_s = 0.5

    async def run() -> None:
        with pytest.raises(TimeoutError, match=r"a request took longer than 0\.5 s.*Run the same command"):
            await policy.sample(opening(policy.format), 1, params())
        here.faults.stall, policy.timeout_s = False, 30.0
        got = await policy.sample(opening(policy.format), 1, params(max_tokens=1))  # its slot is free again
        assert len(got.sequences) == 1

    asyncio.run(run())


def test_a_service_that_never_opens_a_session_is_given_up(here: Lab) -> None:
    here.faults.stall_opening = True
    with pytest.raises(TimeoutError, match=r"opening a session took longer than 0\.5 s"):
        here.open(timeout_s=0.5)


def test_a_service_that_stops_answering_does_not_hold_up_the_end(here: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = here.open()
    monkeypatch.setattr("specvet.policies.remote_policy.CLOSE_S", 0.3)
    here.faults.stall_opening = True

    async def run() -> None:
        await policy.aclose()
        with pytest.raises(PolicyError, match="was closed"):
            await policy.sample(opening(policy.format), 1, params())

    asyncio.run(run())


def test_closing_ends_the_session_once(here: Lab) -> None:
    policy = here.open()

    async def run() -> None:
        await policy.aclose()
        await policy.aclose()

    asyncio.run(run())
    ends = [p for p in here.service.paths() if p.endswith(("/close", "/finish"))]
    assert len(ends) == 1


def test_a_cancelled_request_frees_its_slot(here: Lab) -> None:
    policy = here.open(branches=1)
    here.faults.stall = True

    async def run() -> None:
        task = asyncio.ensure_future(policy.sample(opening(policy.format), 1, params()))
        while not here.service.inside:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        here.faults.stall = False
        assert len((await policy.sample(opening(policy.format), 1, params(max_tokens=1))).sequences) == 1

    asyncio.run(run())


# --- refusals


def test_a_wrong_key_says_how_to_log_in(here: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTRIO_API_KEY", "TINKER_API_KEY"):
        monkeypatch.setenv(name, "tml-a-wrong-secret")
    with pytest.raises(PolicyError) as caught:
        here.open()
    assert caught.value.fatal
    assert "401" in str(caught.value)
    assert here.module.SERVICE.login in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_key_at_all_says_how_to_log_in(here: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    import pytrio.config.config

    monkeypatch.setattr(pytrio.config.config.auth_state, "api_key", "")  # of whoever runs the tests
    for name in ("PYTRIO_API_KEY", "TINKER_API_KEY"):
        monkeypatch.delenv(name)
    how = {
        "trio": "log in with `trio login`, or set PYTRIO_API_KEY",
        "tinker": "log in with `tinker auth login`, or set",
    }
    with pytest.raises(PolicyError) as caught:
        here.open()
    assert caught.value.fatal
    assert how[here.name] in str(caught.value)
    assert here.service.paths() == []  # found out before anybody is asked


def test_a_model_that_the_service_lacks_is_answered_with_its_models(here: Lab) -> None:
    with pytest.raises(
        PolicyError, match=r"cannot sample from 'Qwen/Qwen2-VL-1B'; it can from: Qwen/.*, Qwen/"
    ) as caught:
        here.open(model="Qwen/Qwen2-VL-1B")
    assert caught.value.fatal


def test_a_model_that_is_not_trained_there_does_not_claim_it(here: Lab) -> None:
    kinds = sys.modules[type(here.service).__module__]
    assert "trainable" in here.open().capabilities
    assert here.open(model=kinds.UNTRAINED).capabilities == {"ids", "logprobs", "n", "images"}


def test_the_context_is_the_smaller_of_the_services_and_ours(here: Lab) -> None:
    assert here.open().context == 4096
    assert here.open(context=2000).context == 2000


def test_weights_are_asked_for_by_their_path(here: Lab) -> None:
    kinds = sys.modules[type(here.service).__module__]
    policy = here.open(adapter=kinds.WEIGHTS)
    body = next(b for p, b in here.service.asked if p.endswith(("/sampling-runs", "/create_sampling_session")))
    assert body.get("source_checkpoint_uri", body.get("model_path")) == kinds.WEIGHTS
    assert policy.fingerprint != here.open().fingerprint
    with pytest.raises(PolicyError, match=r"no path of weights.*give --adapter the path of sampler weights"):
        here.open(adapter="run-1/step-4")
    with pytest.raises(PolicyError, match=r"404\).*give --adapter the path of sampler weights") as caught:
        here.open(adapter=kinds.WEIGHTS + "0")
    assert caught.value.fatal


def test_the_fingerprint_is_the_same_for_the_same_and_holds_no_secret(
    here: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = here.open()
    assert first.fingerprint == here.open().fingerprint
    assert len(first.fingerprint) == 64
    kinds = sys.modules[type(here.service).__module__]
    assert first.fingerprint != here.open(model=kinds.UNTRAINED).fingerprint
    assert KEY not in repr(vars(first)["_identity"])
    here.faults.key = "tml-another"
    monkeypatch.setenv("PYTRIO_API_KEY", here.faults.key)
    monkeypatch.setenv("TINKER_API_KEY", here.faults.key)
    assert first.fingerprint == here.open().fingerprint  # whose key it is decides nothing


def test_the_address_may_come_from_the_environment(here: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTRIO_BASE_URL", "TINKER_BASE_URL"):
        monkeypatch.setenv(name, str(here.options.base_url))
    assert here.open(base_url=None).fingerprint == here.open().fingerprint


def test_an_account_without_money_says_so(here: Lab) -> None:
    here.faults.empty_account = True
    with pytest.raises(PolicyError, match=r"billing.*add credits") as caught:
        here.open(timeout_s=20)
    assert caught.value.fatal


@pytest.mark.parametrize("status", [429, 500])
def test_a_passing_failure_is_retried_by_the_sdk(here: Lab, status: int) -> None:
    policy = here.open()
    here.faults.statuses = [status]
    got = asyncio.run(policy.sample(opening(policy.format), 1, params(max_tokens=1)))
    assert len(got.sequences) == 1
    assert len(here.service.sampled()) == 2


def test_a_service_without_capacity_is_given_up_with_its_reason(here: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specvet.policies.trio.RETRY_SHARE", 0.02)  # of 30 s
    policy = here.open()
    here.faults.statuses, here.faults.code = [429] * 1000, "actor_capacity_exceeded"
    if here.name == "tinker":  # its SDK never stops asking, so that our deadline must end it
        policy.timeout_s = 1.5
    with pytest.raises((PolicyError, TimeoutError)) as caught:
        asyncio.run(policy.sample(opening(policy.format), 1, params()))
    assert isinstance(caught.value, TimeoutError if here.name == "tinker" else PolicyError)
    assert "429" in str(caught.value)
    assert "capacity" in str(caught.value)
    assert "again later" in str(caught.value)
    assert getattr(caught.value, "fatal", True)


def test_a_prompt_that_is_too_long_is_refused_alone(here: Lab) -> None:
    policy = here.open()
    ledger = opening(policy.format)
    ledger.append([TextSegment((65,) * 3900, "user")])
    with pytest.raises(ContextLengthError, match="over the 4096 that Qwen/"):
        asyncio.run(policy.sample(ledger, 1, params(max_tokens=1000)))
    assert here.service.sampled() == []  # not even sent
    here.service.context = 1000  # less than it said
    with pytest.raises(PolicyError, match=r"more than 1000 tokens.*refused this request") as caught:
        asyncio.run(policy.sample(ledger, 1, params()))
    assert not caught.value.fatal
    assert len(asyncio.run(policy.sample(opening(policy.format), 1, params(max_tokens=1))).sequences) == 1


def test_a_server_that_is_not_there_is_named_down(here: Lab) -> None:
    with pytest.raises((PolicyError, TimeoutError)) as caught:
        here.open(base_url="http://127.0.0.1:9", timeout_s=2.0)
    assert here.name in str(caught.value)


# --- doctor


def test_a_live_check_lists_the_accounts_models(here: Lab) -> None:
    kinds = sys.modules[type(here.service).__module__]
    report = live_check(here.name, here.options.base_url, 20)
    assert report.ok
    assert "ada" in report.detail
    assert [(m.name, m.context, m.sampled, m.trained) for m in report.models] == [
        (kinds.MODEL, 4096, True, True),
        (kinds.UNTRAINED, 4096, True, False),
    ]
    assert report.as_dict()["models"][0]["name"] == kinds.MODEL
    assert here.service.sampled() == []  # costs nothing


def test_a_live_check_without_a_key_says_how_to_log_in(here: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    import pytrio.config.config

    monkeypatch.setattr(pytrio.config.config.auth_state, "api_key", "")
    for name in ("PYTRIO_API_KEY", "TINKER_API_KEY"):
        monkeypatch.delenv(name)
    report = live_check(here.name, here.options.base_url, 20)
    assert not report.ok
    assert here.module.SERVICE.login in report.detail
    assert report.models == ()
