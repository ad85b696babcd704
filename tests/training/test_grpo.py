"""GRPO: each step's numbers by hand, what is counted and what is left out, and what is off unless asked for."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from menu_lab import FORMAT, LOOK, MENU, YES, MenuPolicy, MenuTrainer
from run_lab import (
    Fuse,
    Killed,
    Seen,
    assert_same_run,
    config,
    count_evaluations,
    grpo_loop,
    lines,
    receipt,
    timeless_trajectories,
    toy_questions,
    trained,
    weights,
)

from specvet.cli.train_summary import print_training
from specvet.data.asking import Questions
from specvet.policies.tokens import PolicyError, Samples
from specvet.policies.tokens import Sequence as Sampled
from specvet.records import RunFolder, RunMismatchError
from specvet.records.schema import Question
from specvet.training import batches
from specvet.training.config import ConfigError, GrpoConfig, OptimiserConfig, RewardConfig
from specvet.training.estimate import Price
from specvet.training.run import TrainingRun


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    return toy_questions(tmp_path_factory.mktemp("toy") / "toy", 4)


def one_step(**more: Any) -> GrpoConfig:
    return grpo_loop(**{"epochs": 1, "questions": 4, "group": 4} | more)


def groups_of(run: Path) -> dict[str, list[dict[str, Any]]]:
    groups = defaultdict(list)
    for (id, _), record in sorted(timeless_trajectories(run).items()):
        groups[id].append(record)
    return dict(groups)


def by_hand(record: dict[str, Any]) -> float:
    """The reward, from what happened."""
    answered = record["stop"] == "answered"
    return 1.0 * (answered and record["verdict"]["answer"] == record["question"]["answer"]) - 0.2 * (not answered)


def n_sampled(record: dict[str, Any]) -> int:
    return sum(len(segment["sampled"]) for segment in record["ledger"]["segments"] if "sampled" in segment)


def test_the_numbers_of_a_step_are_those_of_its_trajectories(tmp_path, questions):
    trained(tmp_path / "run", config(one_step()), questions)
    (line,) = lines(tmp_path / "run", "step")
    groups = groups_of(tmp_path / "run")
    records = [r for group in groups.values() for r in group]
    rewards = [by_hand(r) for r in records]
    assert len(records) == line["trajectories"] == 16
    assert line["reward_mean"] == pytest.approx(np.mean(rewards))
    assert line["reward_std"] == pytest.approx(np.std(rewards))
    assert line["accuracy"] == pytest.approx(np.mean([r >= 0.8 for r in rewards]))
    assert line["format"] == pytest.approx(np.mean([r["stop"] == "answered" for r in records]))
    calls = [sum(t["action"]["kind"] == "call" for t in r["turns"]) for r in records]
    assert line["calls_mean"] == pytest.approx(np.mean(calls))
    assert line["zero_call_share"] == pytest.approx(np.mean([n == 0 for n in calls]))
    assert line["turns_mean"] == pytest.approx(np.mean([len(r["turns"]) for r in records]))
    assert line["sampled_mean"] == pytest.approx(np.mean([n_sampled(r) for r in records]))
    assert line["sampled_tokens"] == sum(n_sampled(r) for r in records)
    assert sum(line["stops"].values()) == 16
    equal = [id for id, group in groups.items() if len({by_hand(r) for r in group}) == 1]
    assert (line["groups"], line["groups_equal"]) == (4, len(equal))
    assert (line["trajectories_unrewarded"], line["datums_refused"]) == (0, 0)
    assert line["datums"] == 16 - 4 * len(equal)


def test_the_loss_is_minus_the_advantages_over_all_sampled_tokens_of_groups_that_differ(tmp_path, questions):
    trained(tmp_path / "run", config(one_step()), questions)
    (line,) = lines(tmp_path / "run", "step")
    total, active = 0.0, 0
    for group in groups_of(tmp_path / "run").values():
        rewards = np.array([by_hand(r) for r in group])
        if rewards.min() == rewards.max():
            continue
        advantages = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
        total -= sum(a * n_sampled(r) for a, r in zip(advantages, group, strict=True))
        active += sum(map(n_sampled, group))
    assert line["active_tokens"] == active > 0
    assert line["loss"] == pytest.approx(total / active, rel=1e-5)  # at ratio 1
    assert (line["ratio_mean"], line["clip_share"], line["drift_mean"]) == pytest.approx((1.0, 0.0, 0.0), abs=1e-6)


def test_a_groups_first_prompt_is_counted_once_since_it_is_sent_once(tmp_path, questions):
    trained(tmp_path / "run", config(one_step()), questions)
    (line,) = lines(tmp_path / "run", "step")
    used = receipt(tmp_path / "run")["usage"]
    assert line["prompt_tokens"] == used["prompt_tokens"]
    assert line["sampled_tokens"] == used["sampled_tokens"]
    assert line["trained_tokens"] == used["trained_tokens"]
    assert line["images"] == used["trained_images"]


@dataclass
class NarrowPolicy(MenuPolicy):
    """Samples two sequences at a time, as a policy on this machine does; of a prompt that it has seen it computes one
    token."""

    branches: int = 2
    seen: set[Any] = field(default_factory=set)

    async def sample(self, ledger, n, params):
        made = await super().sample(ledger, n, params)
        sends = math.ceil(n / self.branches)
        new = 1 if ledger.digest in self.seen else ledger.n_tokens
        self.seen.add(ledger.digest)
        self.usage.prompt_tokens += (sends - 1) * ledger.n_tokens
        self.usage.prefilled_tokens += new - ledger.n_tokens + sends - 1
        return made


class NarrowTrainer(MenuTrainer):
    def sampler(self) -> NarrowPolicy:
        return NarrowPolicy(self.weights, before=lambda: self.before("sample"))


def test_a_first_prompt_that_is_sent_in_parts_counts_as_often_as_it_is_sent(tmp_path, questions):
    loop = config(one_step(group=5))
    trained(tmp_path / "run", loop, questions, made=NarrowTrainer)
    (line,) = lines(tmp_path / "run", "step")
    used = receipt(tmp_path / "run")["usage"]
    for name in ("prompt_tokens", "prefilled_tokens", "cached_tokens", "sampled_tokens"):
        assert line[name] == used[name] > 0
    with pytest.raises(Killed):
        trained(tmp_path / "killed", loop, questions, made=NarrowTrainer, fuse=Fuse("recorded", 7))
    trained(tmp_path / "killed", loop, questions, made=NarrowTrainer)
    (again,) = lines(tmp_path / "killed", "step")
    assert again["prompt_tokens"] == line["prompt_tokens"]
    assert again["prefilled_tokens"] + again["cached_tokens"] == again["prompt_tokens"]


def test_rewards_rise(tmp_path, questions):
    same = [asked for asked in questions.asked if asked.question.answer == "YES"]  # what this model can learn
    loop = grpo_loop(epochs=8, questions=2, group=4, optimiser=OptimiserConfig(lr=0.3), save_every=0)
    trainer = trained(tmp_path / "run", config(loop), replace(questions, asked=same))
    rewards = [x["reward_mean"] for x in lines(tmp_path / "run", "step")]
    assert np.mean(rewards[:2]) < 0.6
    assert np.mean(rewards[-2:]) > 0.9
    shares = np.exp(trainer.weights) / np.exp(trainer.weights).sum()
    assert shares[4] < 0.05  # the malformed turn


def test_a_batch_of_equal_groups_makes_no_update_and_counts_all_the_same(tmp_path, questions, capsys):
    class Sure(MenuTrainer):
        def __init__(self, state: str | None = None) -> None:
            super().__init__(state)
            self.weights = np.array([-50.0, -50.0, 50.0, -50.0, -50.0])  # always YES

    told = config(one_step(questions=2))
    trainer = trained(tmp_path / "run", told, questions, made=Sure)
    found = lines(tmp_path / "run", "step")
    assert [(x["step"], x["update"], x["groups"], x["groups_equal"], x["datums"]) for x in found] == [
        (1, 0, 2, 2, 0),
        (2, 0, 2, 2, 0),
    ]
    assert [x["loss"] for x in found] == [None, None]
    assert sum(x["accuracy"] for x in found) == 1.0  # half of the toy's answers are YES
    assert trainer.usage.updates == 0
    assert receipt(tmp_path / "run")["training"]["step"] == 2
    print_training(tmp_path / "run", told, True)
    assert "No update was made, and the weights are as they were: all rewards of" in capsys.readouterr().out


def test_questions_none_of_which_fits_into_the_context_end_the_run(tmp_path, questions):
    small = config(one_step(budget={"max_turns": 3, "turn_tokens": 200, "context": 300}))
    told = r"none of the 4 questions of the first step fits into 300 tokens \(SIM.* 0 \+ \d+ of 300 tokens\); raise"
    with pytest.raises(ConfigError, match=told):
        trained(tmp_path / "run", small, questions)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_question_that_does_not_fit_is_counted_where_others_do(tmp_path, questions):
    long, *rest = questions.asked
    prompt = "Long? " * 9_000
    asked = replace(long, question=Question.model_validate(long.question.model_dump() | {"prompt": prompt}))
    trained(tmp_path / "run", config(one_step()), replace(questions, asked=[asked, *rest]))
    (line,) = lines(tmp_path / "run", "step")
    assert line["stops"]["context"] >= 4
    assert line["trajectories"] == 16
    assert line["trajectories_unrewarded"] == 4


class Odd(MenuTrainer):
    """Its sampler does something else in the second sequence of each group's first request."""

    def sampler(self) -> MenuPolicy:
        return self.odd(self.weights)

    odd: type[MenuPolicy] = MenuPolicy


class Stalling(MenuPolicy):
    async def sample(self, ledger, n, params):
        if n == 1 and params.seed % 2:
            raise PolicyError("the server said 500")
        return await super().sample(ledger, n, params)


def test_a_trajectory_that_the_backend_ended_has_no_reward_and_leaves_its_group(tmp_path, questions):
    class Trainer(Odd):
        odd = Stalling

    trained(tmp_path / "run", config(one_step()), questions, made=Trainer)
    (line,) = lines(tmp_path / "run", "step")
    groups = groups_of(tmp_path / "run")
    lost = [r for group in groups.values() for r in group if r["stop"] == "policy_error"]
    assert line["trajectories_unrewarded"] == line["stops"]["policy_error"] == len(lost) > 0
    kept = [[by_hand(r) for r in group if r["stop"] != "policy_error"] for group in groups.values()]
    assert line["reward_mean"] == pytest.approx(np.mean([r for group in kept for r in group]))
    assert line["datums"] == sum(len(group) for group in kept if len(set(group)) > 1)


class Blind(MenuPolicy):
    """Its second sequence of each first request holds the id that stands for pictures."""

    async def sample(self, ledger, n, params):
        made = await super().sample(ledger, n, params)
        if n == 1:
            return made
        ids = (ledger.images[0].pad_id, FORMAT.stop_ids[0])
        odd = Sampled(ids, np.array([-1.0, -1.0], dtype=np.float32), "end")
        return Samples((made.sequences[0], odd, *made.sequences[2:]), made.prompt_tokens)


def test_a_datum_that_cannot_be_made_is_counted_and_its_reward_still_counts_in_its_group(tmp_path, questions):
    class Trainer(Odd):
        odd = Blind

    trained(tmp_path / "run", config(one_step()), questions, made=Trainer)
    (line,) = lines(tmp_path / "run", "step")
    groups = [[by_hand(r) for r in group] for group in groups_of(tmp_path / "run").values()]
    taught = [group for group in groups if len(set(group)) > 1]
    assert line["stops"]["image_ids"] == 4
    assert line["datums_refused"] == len(taught) > 0
    assert line["datums"] == sum(len(group) - 1 for group in taught)
    assert line["reward_mean"] == pytest.approx(np.mean(groups))
    assert line["trajectories_unrewarded"] == 0


def test_a_trajectory_longer_than_the_trainer_takes_is_counted_as_refused(tmp_path, questions):
    class Short(MenuTrainer):
        context = 2_000

    trained(tmp_path / "run", config(one_step()), questions, made=Short)
    (line,) = lines(tmp_path / "run", "step")
    long = [
        sum(map(_tokens, r["ledger"]["segments"])) > 2_001
        for group in groups_of(tmp_path / "run").values()
        if len({by_hand(r) for r in group}) > 1
        for r in group
    ]
    assert 0 < line["datums_refused"] == sum(long) < len(long)


def _tokens(segment: dict[str, Any]) -> int:
    image = segment.get("image")
    return image["rows"] * image["columns"] if image else len(segment.get("ids") or segment.get("sampled") or ())


def test_the_weights_of_the_reward_are_the_runs_own(tmp_path, questions):
    rule = RewardConfig(correct=3.0, bad_format=-1.0)
    trained(tmp_path / "run", config(one_step(reward=rule)), questions)
    (line,) = lines(tmp_path / "run", "step")
    assert line["reward_mean"] == pytest.approx(3.0 * line["accuracy"] - 1.0 * (1 - line["format"]))
    kept = [r["reward"]["score"] for group in groups_of(tmp_path / "run").values() for r in group]
    assert line["reward_mean"] == pytest.approx(np.mean(kept))


def test_steps_and_updates_are_counted_apart(tmp_path, questions):
    loop = grpo_loop(epochs=2, questions=2, group=4, mini_batches=3)
    trainer = trained(tmp_path / "run", config(loop), questions)
    found = lines(tmp_path / "run", "step")
    assert [x["step"] for x in found] == [1, 2, 3, 4]
    made = np.diff([0, *(x["update"] for x in found)])
    assert made.tolist() == [min(3, x["datums"]) for x in found]
    assert trainer.usage.updates == found[-1]["update"] > 4
    assert max(abs(x["ratio_mean"] - 1) for x in found) > 1e-4  # from the second update on it is off-policy


def test_the_penalty_on_leaving_the_beginning_is_zero_there_and_grows(tmp_path, questions):
    loop = grpo_loop(epochs=2, questions=2, group=4, kl=0.1, optimiser=OptimiserConfig(lr=0.3))
    trained(tmp_path / "run", config(loop), questions)
    found = [x["kl_reference"] for x in lines(tmp_path / "run", "step") if x["datums"]]
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    assert max(abs(k) for k in found[1:]) > 1e-4
    assert all(x["kl_reference"] is None for x in lines(tmp_path / "run", "step") if not x["datums"])


def test_what_a_backend_cannot_compute_is_said_before_anything_is_sampled(tmp_path, questions):
    def plain(state: str | None = None) -> MenuTrainer:
        return MenuTrainer(state, kept=())

    for name in ("entropy", "kl"):
        fuse = Fuse()
        with pytest.raises(ConfigError, match=rf"grpo.{name}: the backend menu cannot compute it; set it to 0"):
            trained(tmp_path / name, config(one_step(**{name: 0.1})), questions, made=plain, fuse=fuse)
        assert not fuse.happened


def test_a_batch_takes_more_questions_in_place_of_groups_that_teach_nothing(tmp_path, questions):
    class Inclined(MenuTrainer):
        def __init__(self, state: str | None = None) -> None:
            super().__init__(state)
            self.weights = np.array([0.0, 0.0, 2.5, 0.0, 0.0])

    loop = grpo_loop(epochs=1, questions=1, group=2, refill=2)
    seen = Seen()
    trained(tmp_path / "run", config(loop), questions, watch=seen, made=Inclined)
    found = lines(tmp_path / "run", "step")
    for x in found:
        assert x["groups"] == 1 + x["groups_refilled"] <= 3
        # It stops at the first group that teaches something, at the limit, or with the epoch.
        assert x["groups"] - x["groups_equal"] == 1 or x["groups_refilled"] == 2 or x is found[-1]
    assert sum(x["groups"] for x in found) == 4
    assert sum(x["groups_refilled"] for x in found) > 0
    assert sum(seen.batches) == seen.trajectories == 8


def test_epochs_are_answered_by_other_luck_and_every_trajectory_is_kept(tmp_path, questions):
    class Frozen(MenuTrainer):
        def optim_step(self, adam):
            weights, update = self.weights, super().optim_step(adam)
            self.weights = weights
            return update

    trained(tmp_path / "run", config(one_step(epochs=2, group=3)), questions, made=Frozen)
    groups = groups_of(tmp_path / "run")
    assert [[r["sample"] for r in group] for group in groups.values()] == [[0, 1, 2, 3, 4, 5]] * 4
    said = [
        [[t["action"]["text"] + str(t["action"]["arguments"]) for t in r["turns"]] for r in g] for g in groups.values()
    ]
    assert [g[:3] for g in said] != [g[3:] for g in said]


def test_it_is_saved_every_so_many_steps_and_at_each_end_and_the_dev_questions_answered(tmp_path, questions):
    loop = grpo_loop(epochs=2, questions=1, group=2, save_every=3, max_steps=7)
    trained(tmp_path / "run", config(loop), questions, evaluate=count_evaluations)
    assert list(weights(tmp_path / "run")) == ["epoch-01", "step-000003", "step-000006", "step-000007"]
    found = lines(tmp_path / "run", "dev")
    told = [(x["step"], x["epoch"], x["questions"]) for x in found]
    assert told == [(0, 0, 1), (3, 1, 1), (4, 1, 1), (6, 2, 1), (7, 2, 1)]
    before = lines(tmp_path / "run")[0]
    assert (before["kind"], before["accuracy"]) == ("dev", MenuTrainer(None).weights[2])


def test_somebody_who_says_stop_gets_a_checkpoint_without_an_evaluation(tmp_path, questions):
    loop = config(grpo_loop(epochs=1, questions=1, group=2, save_every=0))
    trained(tmp_path / "run", loop, questions, watch=Seen(stop_after=3), evaluate=count_evaluations)
    assert list(weights(tmp_path / "run")) == ["step-000002"]
    assert [x["step"] for x in lines(tmp_path / "run", "dev")] == [0]
    trained(tmp_path / "run", loop, questions, evaluate=count_evaluations)
    assert [x["step"] for x in lines(tmp_path / "run", "dev")] == [0, 4]


def test_a_policy_that_is_gone_stops_a_run_that_can_go_on(tmp_path, questions):
    told = config(grpo_loop(epochs=1, questions=2, group=2, save_every=1))
    trained(tmp_path / "whole", told, questions)

    class Leaving(MenuTrainer):
        def sampler(self) -> MenuPolicy:
            policy = super().sampler()
            if self.usage.batches or self.steps:
                policy.before = self._leave
            return policy

        def _leave(self) -> None:
            raise PolicyError("no login", fatal=True)

    with pytest.raises(PolicyError, match="no login"):
        trained(tmp_path / "run", told, questions, made=Leaving)
    assert list(weights(tmp_path / "run")) == ["step-000001"]
    trained(tmp_path / "run", told, questions)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


# --- pictures of recorded trajectories


def killed_before_its_update(out: Path, questions: Questions) -> Any:
    told = config(one_step())
    with pytest.raises(Killed):
        trained(out, told, questions, fuse=Fuse("forward_backward", 1))
    return told


def test_pictures_that_were_left_out_are_drawn_again(tmp_path, questions):
    told = killed_before_its_update(tmp_path / "run", questions)
    shutil.rmtree(tmp_path / "run" / "images")
    rest = Fuse()
    trained(tmp_path / "run", told, questions, fuse=rest)
    assert rest.happened["recorded"] == 0
    trained(tmp_path / "whole", told, questions)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_damaged_picture_is_drawn_again_too(tmp_path, questions):
    told = killed_before_its_update(tmp_path / "run", questions)
    for picture in (tmp_path / "run" / "images").rglob("*.png"):
        picture.write_bytes(picture.read_bytes()[:-10])
    trained(tmp_path / "run", told, questions)
    trained(tmp_path / "whole", told, questions)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_trajectory_whose_pictures_cannot_be_had_is_made_again(tmp_path, questions, monkeypatch):
    told = killed_before_its_update(tmp_path / "run", questions)
    shutil.rmtree(tmp_path / "run" / "images")
    monkeypatch.setattr(batches, "_drawn_again", lambda record, tool: iter(()))  # as another version of the style would
    rest = Fuse()
    trained(tmp_path / "run", told, questions, fuse=rest)
    assert rest.happened["recorded"] == 16
    trained(tmp_path / "whole", told, questions)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    with RunFolder.read(tmp_path / "run") as folder:
        events = [e.text for e in folder.events() if e.kind == "withdrawn"]
    assert len(events) == 16
    assert "is gone from the run's images, and drawing it gives another one" in events[0]


# --- going on with other settings


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("grpo.group", {"group": 3}),
        ("grpo.optimiser.lr", {"optimiser": OptimiserConfig(lr=0.01)}),
        ("grpo.kl", {"kl": 0.1}),
        ("grpo.budget.max_turns", {"budget": {"max_turns": 2, "turn_tokens": 200}}),
        ("grpo.style", {"style": "reference"}),
    ],
)
def test_a_run_does_not_go_on_with_settings_that_make_it_another(tmp_path, questions, name, other):
    trained(tmp_path / "run", config(one_step(max_steps=1, group=2, questions=1)), questions)
    with pytest.raises(RunMismatchError, match=f"was made with {name} = "):
        trained(tmp_path / "run", config(one_step(**{"max_steps": 1, "group": 2, "questions": 1} | other)), questions)


def test_a_run_may_become_longer_and_then_equals_one_that_was_long_from_the_start(tmp_path, questions):
    def told(epochs: int, **more: Any) -> Any:
        return config(grpo_loop(epochs=epochs, questions=2, group=2, save_every=0, **more))

    trained(tmp_path / "run", told(1), questions)
    trained(tmp_path / "run", told(2, concurrency=3), questions)
    trained(tmp_path / "whole", told(2), questions)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_run_whose_rate_depends_on_its_length_keeps_it(tmp_path, questions):
    falling = OptimiserConfig(lr=0.1, schedule="cosine")
    trained(tmp_path / "run", config(one_step(group=2, optimiser=falling)), questions)
    with pytest.raises(RunMismatchError, match=r"grpo.epochs = 1, but now grpo.epochs = 2"):
        trained(tmp_path / "run", config(one_step(group=2, optimiser=falling, epochs=2)), questions)


def test_what_killed_sessions_used_is_in_the_receipt_and_metrics_have_each_step_once(tmp_path, questions):
    price = Price(backend="torch", model="m", currency="CNY", prefill=1.0, cached_prefill=0.1, sample=5.0, train=4.0,
                  source="a test", date="2026-09")  # fmt: skip
    told = config(grpo_loop(epochs=1, questions=2, group=4, save_every=0))
    trained(tmp_path / "whole", told, questions, price=price)
    with pytest.raises(Killed):
        trained(tmp_path / "run", told, questions, fuse=Fuse("forward_backward", 2), price=price)
    trained(tmp_path / "run", told, questions, price=price)
    first, second = receipt(tmp_path / "run")["sessions"]
    (once,) = receipt(tmp_path / "whole")["sessions"]
    assert first["usage"]["sampled_tokens"] == once["usage"]["sampled_tokens"]  # all of it was sampled before the kill
    assert second["usage"].get("sampled_tokens", 0) == 0
    assert first["usage"]["trained_tokens"] > 0
    assert second["usage"]["trained_tokens"] == once["usage"]["trained_tokens"]
    costs = [x["cost"] for x in lines(tmp_path / "run", "step")]
    by_hand = np.cumsum(
        [
            (x["prefilled_tokens"] * 1.0 + x["sampled_tokens"] * 5.0 + x["trained_tokens"] * 4.0) / 1e6
            for x in lines(tmp_path / "run", "step")
        ]
    )
    assert costs == pytest.approx(by_hand.tolist(), abs=1e-6)
    training = receipt(tmp_path / "run")["training"]
    assert (training["cost"], training["currency"]) == (pytest.approx(costs[-1]), "CNY")


def test_lines_of_metrics_hold_no_nan_and_half_a_line_is_cut_off(tmp_path, questions):
    told = config(one_step(group=2))
    trained(tmp_path / "run", told, questions)
    whole = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    (tmp_path / "run" / "metrics.jsonl").write_bytes(whole + b'{"kind": "step", "st')
    with TrainingRun.open(tmp_path / "run", told) as run:
        assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == whole
        line = run.log("dev", run.position, 0.5, accuracy=math.nan, stops={"a": math.inf})
    assert (line["accuracy"], line["stops"]) == (None, {"a": None})
    assert b"NaN" not in (tmp_path / "run" / "metrics.jsonl").read_bytes()


def test_a_run_of_one_stage_is_not_gone_on_with_by_the_other(tmp_path, questions):
    from specvet.training.config import SftConfig

    trained(tmp_path / "run", config(one_step(group=2)), questions)
    with pytest.raises(RunMismatchError, match="stage = grpo, but now stage = sft"):
        TrainingRun.open(tmp_path / "run", config(SftConfig()))


def test_the_menus_first_turns_are_what_the_parser_takes_them_for():
    kinds = [type(FORMAT.parse(ids, "end")).__name__ for ids in MENU]
    assert kinds == ["CallTurn", "CallTurn", "AnswerTurn", "AnswerTurn", "MalformedTurn"]
    assert asyncio.iscoroutinefunction(MenuPolicy.sample)
    assert len(LOOK) != len(YES)
