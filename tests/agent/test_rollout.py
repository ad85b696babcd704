"""Rollouts with a real vocabulary: turns, groups, determinism, branches that leave each other alone."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest
from rollout_lab import (
    FORMAT,
    QUESTION,
    Asked,
    Scripted,
    answer,
    gambler,
    ledger_of,
    look,
    one,
    rolled,
    said,
    task,
    timeless,
    turns,
    zoom,
)

from specvet.agent import Budget, Rollouts
from specvet.agent.episode import Ask, Episode, Over, Start
from specvet.chat import Image, Ledger, TextSegment, rl_datum
from specvet.policies.tokens import PolicyError, Samples, SamplingParams, turn_seed
from specvet.policies.tokens import Sequence as Sampled
from specvet.records.schema import Answer, Question, SpectrumRef, StopReason, TrajectoryRecord
from specvet.tasks import ANSWER_FORM, SHORT_SYSTEM_TEXT, Coverage


def test_a_look_and_an_answer_are_kept_token_by_token() -> None:
    kept: dict[str, bytes] = {}

    def keep(png: bytes) -> str:
        image = Image.of(png)
        kept[image.sha256] = png
        return image.sha256

    policy = Scripted(turns(look(), answer()))
    (record,) = rolled(policy, keep_image=keep)
    assert (record.stop, record.verdict.answer, record.verdict.confidence) == (StopReason.ANSWERED, Answer.YES, None)
    assert record.verdict.reason == "since it is so."
    first, second = record.turns
    assert (first.action.kind, first.action.text) == ("call", "Look.")
    assert first.action.arguments == {"wavelength_range": [6400, 6700], "label": "Hα"}
    assert first.observation is not None
    assert first.observation.window == (6400.0, 6700.0)
    assert (second.action.kind, second.observation) == ("answer", None)
    assert record.reward == {"score": 1.0, "correct": 1.0, "format_ok": 1.0}
    ledger = Ledger.from_dict(record.ledger or {}, {sha: Image.of(png) for sha, png in kept.items()})
    assert [s.ids for s in ledger.sampled] == [tuple(look()), tuple(answer())]
    assert [i.sha256 for i in ledger.images] == list(kept) == [record.opening.image, first.observation.image]
    assert all(i.png == kept[i.sha256] for i in ledger.images)
    # Each prompt is the one before, plus what was said and shown since; the ledger counts as the backend does.
    (before, n, params), (after, m, later) = policy.requests
    assert (n, m) == (1, 1)
    assert (first.tokens.prompt, second.tokens.prompt) == (before, after)
    assert (first.tokens.sampled, second.tokens.sampled) == (len(look()), len(answer()))
    assert ledger.n_tokens == after + len(answer()) == record.tokens.total
    assert record.tokens.prompt == before + after
    assert record.tokens.images == sum(i.n_tokens for i in ledger.images)
    assert params.seed == turn_seed(0, "q", 0, 0)
    assert later.seed == turn_seed(0, "q", 0, 1)
    assert policy.released[0].extends(Ledger(FORMAT.name, FORMAT.vocabulary.fingerprint))
    assert ledger in policy.released
    assert rl_datum(ledger, 0.5).n_learnt == len(look()) + len(answer())


def test_the_first_prompt_holds_the_picture_first_then_the_question_and_the_form_of_an_answer() -> None:
    ledger = ledger_of(one(turns(answer())))
    words = [FORMAT.vocabulary.decode(s.ids) for s in ledger if isinstance(s, TextSegment)]
    text = "".join(words)
    assert "You are an astronomer" in text
    assert "spectral_visualization_tool" in text
    shown, question = text.index("<|vision_start|><|vision_end|>"), text.index("Is it?")
    assert shown < text.index("Full spectrum, 4000.0-7998.0 Å") < question < text.index(ANSWER_FORM)
    assert "You have 8 turns; a call in the last is not executed." in text
    assert text.endswith("<|im_start|>assistant\n<think>\n")


@pytest.mark.parametrize(
    ("prompt", "begins"),
    [
        (
            "<image>\nBy what light does it shine?",
            "user\n<|vision_start|><|vision_end|>\nBy what light does it shine?<",
        ),
        ("First words. <image> Then more.", "user\nFirst words. <|vision_start|><|vision_end|> Then more.<"),
        ("No mark at all.", "user\n<|vision_start|><|vision_end|>\nNo mark at all.<"),
    ],
)
def test_a_prompt_that_a_question_brings_along_is_used_as_it_is(prompt: str, begins: str) -> None:
    question = QUESTION.model_copy(update={"prompt": prompt})
    ledger = ledger_of(one(turns(answer()), question=question))
    text = "".join(FORMAT.vocabulary.decode(s.ids) for s in ledger if isinstance(s, TextSegment))
    assert begins in text
    assert "Is it?" not in text


def test_the_short_wording_takes_the_place_of_what_a_question_brings_along() -> None:
    question = QUESTION.model_copy(update={"prompt": "By what light does it shine?", "system": "Be long."})
    ledger = ledger_of(one(turns(answer()), question=question, wording="short"))
    text = "".join(FORMAT.vocabulary.decode(s.ids) for s in ledger if isinstance(s, TextSegment))
    assert SHORT_SYSTEM_TEXT in text
    assert "Is it? You have 8 turns." in text
    assert "By what light" not in text
    assert "Be long." not in text


def test_whoever_asks_for_ledgers_is_given_the_very_ones_that_are_recorded() -> None:
    told: list[tuple[TrajectoryRecord, Ledger | None]] = []
    policy = Scripted(turns(look(), answer()))

    async def work() -> None:
        rollouts = Rollouts(policy)
        try:
            await rollouts.group(
                QUESTION, task(), zoom(), 2, ended=lambda record, ledger: told.append((record, ledger))
            )
        finally:
            rollouts.close()

    asyncio.run(work())
    assert sorted(record.sample for record, _ in told) == [0, 1]
    for record, ledger in told:
        assert ledger is not None
        assert record.ledger is not None
        assert ledger == Ledger.from_dict(record.ledger)
        assert all(image.png for image in ledger.images)


def test_the_first_turn_of_a_group_is_sampled_in_one_request_and_the_later_ones_a_branch() -> None:
    policy = Scripted(turns(look(), look(6000, 6300), answer()))
    records = rolled(policy, n=4)
    assert [n for _, n, _ in policy.requests] == [4] + [1] * 8
    assert [r.sample for r in records] == [0, 1, 2, 3]
    assert {r.group for r in records} == {4}
    assert len({r.turns[0].tokens.prompt for r in records}) == 1


def test_the_prompt_that_branches_share_counts_as_cached_in_all_but_the_first_where_the_backend_tells() -> None:
    for cached, shared in ((5, True), (None, False)):

        def told(samples: Samples, cached: int | None = cached) -> Samples:
            return replace(samples, cached_tokens=cached)

        for only in (None, [1, 3]):
            first, *others = rolled(Scripted(turns(look(), answer()), change=told), n=4, only=only)
            assert [t.tokens.cached for t in first.turns] == [cached, cached]
            for other in others:
                prompt = other.turns[0].tokens.prompt if shared else None
                assert [t.tokens.cached for t in other.turns] == [prompt, cached]


def test_a_server_without_n_is_asked_once_for_each_branch() -> None:
    policy = Scripted(turns(answer()), capabilities=frozenset({"ids", "logprobs", "images"}))
    records = rolled(policy, n=4)
    assert [n for _, n, _ in policy.requests] == [1] * 4
    assert [p.seed for _, _, p in policy.requests] == [turn_seed(0, "q", branch, 0) for branch in range(4)]
    assert len(records) == 4


def test_the_same_seed_gives_the_same_trajectories_and_another_gives_others() -> None:
    first, again = ([timeless(r) for r in rolled(gambler, n=8)] for _ in range(2))
    assert first == again
    other = [timeless(r) for r in rolled(gambler, n=8, params=SamplingParams(2048, seed=1))]
    assert first != other
    assert len({str(r["ledger"]) for r in first}) > 4  # branches differ


def test_some_branches_made_alone_are_those_of_the_whole_group() -> None:
    whole = [timeless(r) for r in rolled(gambler, n=8)]
    some = [timeless(r) for r in rolled(gambler, n=8, only=[5, 2])]
    assert some == [whole[2], whole[5]]
    with pytest.raises(ValueError, match=r"branches \[8\] of a group of 8"):
        rolled(gambler, n=8, only=[8])


def test_results_come_in_the_order_of_branches_whatever_finishes_first() -> None:
    finished: list[int] = []
    branch_of = {turn_seed(0, "q", branch, 1): branch for branch in range(6)}

    async def the_last_first(asked: Asked) -> None:
        while asked.turn and len(finished) < 5 - branch_of[asked.params.seed]:
            await asyncio.sleep(0)

    records = rolled(
        Scripted(turns(look(), answer()), before=the_last_first), n=6, done=lambda r: finished.append(r.sample)
    )
    assert finished == [5, 4, 3, 2, 1, 0]
    assert [r.sample for r in records] == [0, 1, 2, 3, 4, 5]


def test_a_window_that_several_branches_ask_for_is_drawn_once() -> None:
    drawn: list[bytes] = []
    policy = Scripted(turns(look(), look(6000, 6300), answer()))
    records = rolled(policy, n=8, keep_image=lambda png: drawn.append(png) or Image.of(png).sha256)
    assert len(drawn) == 3
    ledgers = [ledger_of(r) for r in records]
    assert all(ledger.images == ledgers[0].images for ledger in ledgers)


# Branches leave each other alone


def breaking(where: int, error: BaseException) -> Scripted:
    """Looks, then answers; `error` is raised in the second turn of the branch `where`."""
    seed = turn_seed(0, "q", where, 1)

    async def breaks(asked: Asked) -> None:
        if asked.params.seed == seed:
            raise error

    return Scripted(turns(look(), answer()), before=breaks)


@pytest.mark.parametrize(
    ("error", "stop", "detail", "says"),
    [
        (RuntimeError("no memory left"), StopReason.POLICY_ERROR, "RuntimeError", "RuntimeError: no memory left"),
        (PolicyError("refused"), StopReason.POLICY_ERROR, "PolicyError", "PolicyError: refused"),
        (TimeoutError("no answer in 5 s"), StopReason.OUT_OF_TIME, "backend", "no answer in 5 s"),
        (asyncio.CancelledError(), StopReason.POLICY_ERROR, "RequestCancelledError", "the request was cancelled"),
    ],
)
def test_what_one_branch_meets_ends_that_branch_only(error: BaseException, stop: str, detail: str, says: str) -> None:
    records = rolled(breaking(2, error), n=4)
    assert [r.stop for r in records] == [StopReason.ANSWERED] * 2 + [stop] + [StopReason.ANSWERED]
    broken = records[2]
    assert broken.stop_detail == detail
    assert says in broken.verdict.reason
    assert broken.verdict.answer is Answer.FAILED
    assert broken.reward is None  # a server's trouble says nothing of the model
    assert len(broken.turns) == 1
    assert len(ledger_of(broken).sampled) == 1
    assert [r.reward["score"] for r in records if r.reward] == [1.0] * 3


@pytest.mark.parametrize("error", [RuntimeError("x"), asyncio.CancelledError()])
@pytest.mark.parametrize("n", [True, False])
def test_what_the_first_request_meets_ends_the_branches_that_shared_it(error: BaseException, n: bool) -> None:
    async def breaks(asked: Asked) -> None:
        if n or asked.params.seed == turn_seed(0, "q", 1, 0):
            raise error

    abilities = frozenset({"ids", "logprobs", "images", *(("n",) if n else ())})
    records = rolled(Scripted(turns(answer()), capabilities=abilities, before=breaks), n=3)  # type: ignore[arg-type]
    bad = [r.stop is StopReason.POLICY_ERROR for r in records]
    assert bad == ([True] * 3 if n else [False, True, False])


def test_what_every_question_would_meet_stops_the_run_and_what_is_over_is_told() -> None:
    told: list[int] = []

    async def breaks(asked: Asked) -> None:
        if asked.params.seed == turn_seed(0, "q", 1, 1):
            while not told:  # until the first branch is over
                await asyncio.sleep(0)
            raise PolicyError("log in again: `trio login`", fatal=True)
        if asked.params.seed == turn_seed(0, "q", 2, 1):
            await asyncio.Event().wait()  # stalls; must be cancelled

    policy = Scripted(turns(look(), answer()), before=breaks)
    with pytest.raises(PolicyError, match="log in again"):
        rolled(policy, n=3, done=lambda r: told.append(r.sample))
    assert told == [0]
    assert len(policy.released) == 4  # three branches and what they shared: nothing stays cached


def test_a_cancelled_group_ends_at_once_and_records_nothing() -> None:
    told: list[int] = []

    async def stalls(asked: Asked) -> None:
        if asked.turn:
            started.set()
            await asyncio.Event().wait()

    started = asyncio.Event()

    async def scene() -> Scripted:
        policy = Scripted(turns(look(), answer()), before=stalls)
        rollouts = Rollouts(policy)
        group = asyncio.create_task(rollouts.group(QUESTION, task(), zoom(), 3, done=lambda r: told.append(r.sample)))
        await started.wait()
        group.cancel()
        with pytest.raises(asyncio.CancelledError):
            await group
        rollouts.close()
        assert rollouts.tally.running == 0
        return policy

    policy = asyncio.run(scene())
    assert told == []
    assert len(policy.released) == 4


def test_what_the_image_store_raises_is_raised() -> None:
    def full(_: bytes) -> str:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        rolled(turns(answer()), n=2, keep_image=full)


def test_no_more_branches_run_at_a_time_than_allowed_and_groups_do_not_wait_for_each_other() -> None:
    running = most = 0

    async def counts(_: Asked) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async def scene() -> list[int]:
        rollouts = Rollouts(Scripted(gambler, before=counts), concurrency=4)
        questions = [Question(id=f"q{i}", task="t", spectrum=SpectrumRef(path="x")) for i in range(7)]
        sizes = [3, 4, 1, 6, 2, 4, 3]  # one group is larger than all slots together
        groups = [rollouts.group(q, task(), zoom(), n) for q, n in zip(questions, sizes, strict=True)]
        records = await asyncio.gather(*groups)
        rollouts.close()
        for question, made in zip(questions, records, strict=True):
            assert {r.question.id for r in made} == {question.id}
        return [len(r) for r in records]

    assert asyncio.run(scene()) == [3, 4, 1, 6, 2, 4, 3]
    assert 2 <= most <= 4


def test_a_group_that_is_cancelled_while_it_waits_gives_its_slots_back() -> None:
    async def scene() -> None:
        gate = asyncio.Event()

        async def waits(_: Asked) -> None:
            await gate.wait()

        rollouts = Rollouts(Scripted(turns(answer()), before=waits), concurrency=3)
        first = asyncio.create_task(rollouts.group(QUESTION, task(), zoom(), 2))
        second = asyncio.create_task(rollouts.group(QUESTION, task(), zoom(), 3))
        third = asyncio.create_task(rollouts.group(QUESTION, task(), zoom(), 3))
        for _ in range(20):
            await asyncio.sleep(0.001)
        second.cancel()  # it holds the one slot that was left, and waits for two more
        gate.set()
        assert [len(await group) for group in (first, third)] == [2, 3]
        rollouts.close()

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_waiting_for_others_of_a_large_group_does_not_count_against_a_trajectory() -> None:
    begun = Start("2026-01-01T00:00:00.000+00:00", time.perf_counter() - 100)
    tool, budget = zoom(), Budget(max_seconds=50)
    root = Episode(
        QUESTION, task(), tool, tool.opening(), policy="p", task_hash="", spectrum_hash=None, budget=budget, start=begun
    )
    waiting, late = root.branch(0), root.branch(1)
    waiting.waited(80)
    assert isinstance(waiting.step(), Ask)
    assert isinstance(late.step(), Over)
    assert (late.stop, waiting.verdict) == (StopReason.OUT_OF_TIME, None)


# Not asked


def test_a_spectrum_that_lacks_what_the_task_needs_is_no_data_in_every_branch_and_nobody_is_asked() -> None:
    policy = Scripted(turns(answer()))
    wanted = task(coverage=(Coverage(range=(8100.0, 8700.0), why="Ca II"),))
    records = rolled(policy, n=2, t=wanted)
    assert [(r.stop, r.verdict.answer, r.sample) for r in records] == [
        (StopReason.NOT_ASKED, Answer.NO_DATA, 0),
        (StopReason.NOT_ASKED, Answer.NO_DATA, 1),
    ]
    assert policy.requests == []
    assert all(r.ledger is None and r.reward is None and r.turns == () for r in records)


def test_a_policy_without_eyes_is_shown_words_only() -> None:
    policy = Scripted(turns(look(), answer()), capabilities=frozenset({"ids", "logprobs", "n"}))
    record = one(policy)
    ledger = ledger_of(record)
    assert ledger.images == ()
    assert record.turns[0].observation is not None
    assert record.turns[0].observation.view_hash
    assert "Generated spectral visualization" in FORMAT.vocabulary.decode(ledger.ids().tolist())


def test_demonstrations_without_log_probs_are_kept_and_said_not_to_be_trainable() -> None:
    record = one(Scripted(turns(answer()), capabilities=frozenset({"ids", "n", "images"})))
    ledger = ledger_of(record)
    assert record.stop is StopReason.ANSWERED
    assert not ledger.trainable
    assert ledger.sampled[0].logprobs is None


def test_the_turn_before_the_last_is_executed_and_a_call_in_the_last_is_not() -> None:
    policy = Scripted(turns(look()))
    record = one(policy, budget=Budget(max_turns=3))
    assert (record.stop, record.verdict.answer) == (StopReason.MAX_TURNS, Answer.FAILED)
    assert [t.observation.kind for t in record.turns if t.observation] == ["view", "view", "not_executed"]
    assert (record.calls.made, record.calls.executed, record.calls.succeeded) == (3, 2, 2)
    ledger = ledger_of(record)
    assert len(ledger.images) == 3  # the opening and two looks
    assert ledger.segments[-1].ids == tuple(look())  # nothing follows the last call
    assert record.reward == {"score": -0.2, "correct": 0.0, "format_ok": 0.0}


def test_log_probs_come_back_bit_for_bit() -> None:
    odd = np.array([-1e-30, -0.1, -7.123456789, -88.5, -3.4e38], dtype=np.float32)

    def change(samples: Samples) -> Samples:
        ids = samples.sequences[0].ids
        return replace(samples, sequences=(Sampled(ids, np.resize(odd, len(ids)), "end"),))

    ledger = ledger_of(one(Scripted(turns(answer()), change=change)))
    got = ledger.sampled[0].logprobs
    assert got is not None
    assert got.tobytes() == np.resize(odd, len(got)).tobytes()


def test_words_that_no_turn_is_made_of_are_no_verdict() -> None:
    record = one(turns(said("I think the answer is YES, surely YES.\n</think>\n\nYES")))
    assert (record.stop, record.verdict.answer) == (StopReason.MALFORMED, Answer.FAILED)


def test_a_turns_seconds_hold_what_its_sampling_took_the_shared_first_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("specvet.agent.episode.time.perf_counter", lambda: clock[0])

    async def takes(asked: Asked) -> None:
        clock[0] += (3.0, 5.0)[asked.turn]

    records = rolled(Scripted(turns(look(), answer()), before=takes), n=2)
    assert [r.turns[0].seconds >= 2 * 3.0 for r in records] == [True, True]  # one request, two sequences of 3 s
    assert all(r.turns[1].seconds >= 5.0 for r in records)
    assert all(sum(t.seconds for t in r.turns) <= r.seconds for r in records)
