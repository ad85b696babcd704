"""Alarms: what a training run's metrics say when it collapses. Pure: lines of metrics in, alarms out.

Each rule has a threshold at which it speaks and a milder one at which it counts as recovered; between them nothing
changes. So an alarm is said once, and again only after a recovery. Rules look at means over a few steps, since a batch
of eight questions is noisy; a fall counts against the run's own best, and only where it is larger than that noise.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from specvet.training.watch.metrics import numbers


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that a person should look at."""

    name: str
    """Of the rule, a key of `RULES`."""
    step: int
    text: str
    """What was measured, what it means and what to try."""


_SIGMAS = 8
"""Of the noise of a mean, by which it must have moved: the best of a hundred means lies 3 above the truth by chance and
the worst 3 below. 140 simulated runs of 500 steps without any change, from 2 questions of 4 trajectories to 64 of 8,
raised one alarm."""


class Trend:
    """Running means of one metric over `window` values; values that are missing are passed over."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.first: float | None = None
        """The first full window's mean."""
        self.lowest: float | None = None
        self.highest: float | None = None
        self._last: deque[float] = deque(maxlen=window)
        self._jumps: deque[float] = deque(maxlen=100)
        self._n = 1.0

    def add(self, value: float | None, n: float = 1.0) -> None:
        """A step's value; for a share, of how many independent cases."""
        if value is None:
            return
        if self._last:
            self._jumps.append(abs(value - self._last[-1]))
        self._last.append(value)
        self._n = max(n, 1.0)
        mean = self.mean
        if mean is None:
            return
        self.first = mean if self.first is None else self.first
        self.lowest = mean if self.lowest is None else min(self.lowest, mean)
        self.highest = mean if self.highest is None else max(self.highest, mean)

    @property
    def mean(self) -> float | None:
        """Of the last `window` values; None before there are so many."""
        return statistics.fmean(self._last) if len(self._last) == self.window else None

    def noise(self, share: float) -> float:
        """Standard deviation of the mean: by the median jump between neighbours, which neither a slow change nor one
        sudden fall moves, and not less than that of a share of n cases. The median jump of a normal distribution is
        0.954 standard deviations.
        """
        jumps = statistics.median(self._jumps) / 0.954 if self._jumps else 0.0
        share = min(max(share, 0.0), 1.0)
        return float(max(jumps, (share * (1 - share) / self._n) ** 0.5) / self.window**0.5)


@dataclass(slots=True)
class Past:
    """What the rules see: the newest line and how things went until it."""

    line: Mapping[str, Any] = field(default_factory=dict)
    now: dict[str, float] = field(default_factory=dict)
    """The newest line's numbers."""
    calls: Trend = field(default_factory=lambda: Trend(5))
    looping: Trend = field(default_factory=lambda: Trend(3))
    format: Trend = field(default_factory=lambda: Trend(5))
    reward: Trend = field(default_factory=lambda: Trend(20))
    entropy: Trend = field(default_factory=lambda: Trend(5))
    clipped: Trend = field(default_factory=lambda: Trend(5))
    equal_steps: int = 0
    """Steps in a row in which every group was equal."""
    equal_groups: int = 0
    """Groups of these steps."""

    def add(self, line: Mapping[str, Any]) -> None:
        self.line, self.now = line, numbers(line)
        groups, trajectories = self.now.get("groups", 0.0), self.now.get("trajectories", 0.0)
        self.looping.add(self.now.get("looping_share"), trajectories)
        self.format.add(self.now.get("format"), trajectories)
        self.reward.add(self.now.get("reward_mean"), trajectories)
        self.calls.add(self.now.get("zero_call_share"), groups)  # whether to zoom hangs on a group's common question
        self.entropy.add(self.now.get("entropy"))
        self.clipped.add(self.now.get("clip_share"))
        if groups and self.now.get("groups_equal") == groups:
            self.equal_steps += 1
            self.equal_groups += int(groups)
        elif groups:
            self.equal_steps = self.equal_groups = 0


Finding = str | bool
"""A text: this is wrong. True: all is well (again). False: in between, or not known."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way in which training goes wrong."""

    metric: str
    """What it looks at."""
    when: str
    """When it speaks, and when it counts as recovered."""
    why: str
    """Where the thresholds come from."""
    judge: Callable[[Past], Finding]


class Alarms:
    """All rules over one run's stream of metrics."""

    def __init__(self) -> None:
        self._past = Past()
        self._standing: set[str] = set()

    @property
    def standing(self) -> frozenset[str]:
        """Names of the alarms that were said and have not recovered."""
        return frozenset(self._standing)

    def check(self, line: Mapping[str, Any]) -> list[Alarm]:
        """Alarms that this line raises. Only `step` lines count, in their order.

        Lines of before a resume go through here too, so that what was said stays said.
        """
        if line.get("kind", "step") != "step":
            return []
        self._past.add(line)
        raised: list[Alarm] = []
        for name, rule in RULES.items():
            found = rule.judge(self._past)
            if isinstance(found, str):
                if name not in self._standing:
                    self._standing.add(name)
                    raised.append(Alarm(name, int(line["step"]), found))
            elif found:
                self._standing.discard(name)
        return raised


def _zero_calls(past: Past) -> Finding:
    share, lowest = past.calls.mean, past.calls.lowest
    if share is None or lowest is None:
        return False
    said = f"{share:.0%} of the trajectories of the last {past.calls.window} steps never called the tool"
    if share >= 0.5 and share - lowest >= max(0.3, _SIGMAS * past.calls.noise(lowest)):
        return (
            f"{said}; it was {lowest:.0%} at its lowest. The model has come to answer from the first picture alone. Go "
            "back to an earlier checkpoint with a lower learning rate or a KL penalty (--set grpo.kl=0.01), or show it "
            "more demonstrations that zoom"
        )
    if share >= 0.9:
        return (
            f"{said}; it was never below {lowest:.0%}. Calls cannot be rewarded where there are none: train on "
            "demonstrations that zoom first (specvet train sft)"
        )
    return share <= 0.35 or (share <= 0.75 and share - lowest <= 0.15)


def _looping(past: Past) -> Finding:
    share = past.looping.mean
    if share is None:
        return False
    if share >= max(0.1, _SIGMAS * past.looping.noise(0.02)):
        return (
            f"{share:.0%} of the trajectories of the last {past.looping.window} steps repeat the same tokens over and "
            "over. The policy is coming apart: look at some with `specvet transcript`, go back to an earlier "
            "checkpoint and lower the learning rate"
        )
    return share <= 0.03


def _format_drop(past: Past) -> Finding:
    now, best = past.format.mean, past.format.highest
    if now is None or best is None:
        return False
    if best - now >= max(0.15, _SIGMAS * past.format.noise(best)):
        return (
            f"good format fell to {now:.0%} over the last {past.format.window} steps, from {best:.0%} at its best. "
            "Malformed trajectories drown what the reward says about answers: look at some with `specvet transcript`; "
            "if turns are cut off, raise grpo.budget.turn_tokens, else lower the learning rate"
        )
    return best - now <= 0.05


def _equal_groups(past: Past) -> Finding:
    if past.equal_steps >= 5 and past.equal_groups >= 32:
        reward = past.now.get("reward_mean", 0.0)
        cause = (
            "All answers are right: the questions have become too easy, give harder ones, or stop here"
            if reward >= 0.9
            else "The trajectories of a group are all alike: mix in easier questions, raise the temperature, or train "
            "longer on demonstrations first"
        )
        return (
            f"in the last {past.equal_steps} steps all {past.equal_groups} groups had equal rewards (mean "
            f"{reward:.2f}), so nothing was learnt. {cause}; --set grpo.refill=8 asks more questions in their place"
        )
    return past.equal_steps == 0


def _reward_drop(past: Past) -> Finding:
    now, best = past.reward.mean, past.reward.highest
    if now is None or best is None:
        return False
    if best - now >= max(0.2, _SIGMAS * past.reward.noise(best)):
        return (
            f"the mean reward fell to {now:.2f} over the last {past.reward.window} steps, from {best:.2f} at its best. "
            "Go on from the checkpoint before the fall with a lower learning rate or a KL penalty "
            "(--set grpo.kl=0.01)"
        )
    return best - now <= 0.1


def _drift(past: Past) -> Finding:
    drift = past.now.get("drift_mean")
    if drift is None:
        return False
    if drift >= 0.1:
        return (
            f"trainer and sampler disagree by {drift:.2f} nats a token before any update. They do not see the same "
            "thing (pictures that do not arrive, other weights, another template), so the policy gradient is wrong: "
            "stop, and run `specvet doctor` on the policy"
        )
    return drift <= 0.05


def _entropy(past: Past) -> Finding:
    now, first = past.entropy.mean, past.entropy.first
    if now is None or first is None:
        return False
    if now < 0.05 and now < 0.25 * first:
        return (
            f"the entropy fell to {now:.3f} nats a token, from {first:.3f} at the start. The trajectories of a group "
            "become alike and groups equal: try clip-higher (--set grpo.clip=[0.8,1.28]), an entropy bonus "
            "(--set grpo.entropy=0.001) or a lower learning rate"
        )
    return now >= 0.4 * first


def _not_finite(past: Past) -> Finding:
    if "loss" in past.now:
        return True
    sft = "reward_mean" not in past.line
    if sft or past.now.get("datums", 0) > 0:
        return (
            "the step gave no finite loss, so no update was made with it. Look at the data of this step and the "
            "gradient norms before it; a lower learning rate, a longer warm-up or float32 are what helps"
        )
    return False  # a step of equal groups has none


def _clipped(past: Past) -> Finding:
    share = past.clipped.mean
    if share is None:
        return False
    if share >= 0.2:
        return (
            f"{share:.0%} of the tokens of the last {past.clipped.window} steps lay outside the clip range. "
            "One update moves the policy too far, or sampler and trainer disagree (see drift_mean): lower "
            "the learning rate or grpo.mini_batches"
        )
    return share <= 0.1


RULES: dict[str, Rule] = {
    "zero_calls": Rule(
        "zero_call_share",
        "mean of 5 steps ≥ 0.9, or ≥ 0.5 and 0.3 (and 8 times its noise) above its lowest; recovered at ≤ 0.35, or at "
        "≤ 0.75 within 0.15 of the lowest",
        "tool use that falls to none while the reward looks normal is reported again and again "
        "(Visual-Agent/DeepEyes#55, #78); 94 % without a call in NVIDIA-NeMo/Gym#1304",
        _zero_calls,
    ),
    "looping": Rule(
        "looping_share",
        "mean of 3 steps ≥ 0.1; recovered at ≤ 0.03",
        "a healthy policy has 0 to 1 %; loops of special tokens are among what DeepEyes users meet",
        _looping,
    ),
    "format_drop": Rule(
        "format",
        "mean of 5 steps ≥ 0.15 below its best and ≥ 8 times its noise; recovered within 0.05 of the best",
        "after cold-start supervision format is near 1; with 64 trajectories a step the mean of 5 is known to 0.02",
        _format_drop,
    ),
    "equal_groups": Rule(
        "groups_equal",
        "every group equal for 5 steps and 32 groups; recovered at the first step with an unequal one",
        "even with 86 % equal groups, as near the end of training, 32 in a row come by chance in 0.8 % of cases",
        _equal_groups,
    ),
    "reward_drop": Rule(
        "reward_mean",
        "mean of 20 steps ≥ 0.2 below its best and ≥ 8 times its noise; recovered within 0.1 of the best",
        "rewards run from −0.2 to 1; the mean of 8 questions scatters by 0.12 from step to step, that of 20 such steps "
        "by 0.03",
        _reward_drop,
    ),
    "drift": Rule(
        "drift_mean",
        "one step ≥ 0.1; recovered at ≤ 0.05",
        "two engines in bf16 differ by 0.01 to 0.04, in fp8 by 0.07 (vllm-project/vime#64, radixark/miles#2722), and "
        "at 0.2 to 0.4 training hardly converges (Gen-Verse/OpenClaw-RL#69); pictures that one side does not see gave "
        "a KL of 5.24, and 0.001 after the repair (PrimeIntellect-ai/prime-rl#2786)",
        _drift,
    ),
    "entropy": Rule(
        "entropy",
        "mean of 5 steps < 0.05 nats and below a quarter of the first 5; recovered at 0.4 of the first 5",
        "some decline is learning; at 0.05 nats a hundred tokens have about five real choices left",
        _entropy,
    ),
    "not_finite": Rule(
        "loss",
        "a step that trained on something and has no loss; recovered at the next that has",
        "NaN and infinity are written as null",
        _not_finite,
    ),
    "clipped": Rule(
        "clip_share",
        "mean of 5 steps ≥ 0.2; recovered at ≤ 0.1",
        "one update on fresh samples clips a few per cent at the most",
        _clipped,
    ),
}
"""Every rule by its name."""
