"""What a page about training shows: its panels, in order, and which metrics each of them draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SHARE = (-0.02, 1.02)
"""Limits of an axis that shows shares: a line at 0 or 1 stays visible."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One axes. It is drawn where some run has one of its series; of two with one title, the first that can be."""

    title: str
    unit: str
    series: tuple[tuple[str, str], ...]
    """(name, words for the legend). `dev/accuracy` is the accuracy of `dev` lines, drawn as points; `stops/` stands for
    all reasons. Besides the names of `METRICS` there are `equal_share` and `refilled_share`, of the groups.
    """
    stage: Literal["sft", "grpo"] | None = None
    """Only of these runs."""
    y: tuple[float | None, float | None] = (None, None)
    """Limits that are kept; None: by the data."""
    log: bool = False
    band: str | None = None
    """A standard deviation, drawn of a single run as a band about the first series."""
    level: float | None = None
    """A thin line for comparison."""
    stacked: bool = False
    """Areas on each other, of a single run; `stops/` as shares of their sum."""
    smooth: bool = True
    """Whether there is noise to take a running mean of."""
    powers: bool = False
    """Whether numbers on the axis are written with powers of ten, as 2e-3."""
    height: float = 0.0
    """Of the axis at least, about `level`: differences below it are no news, and would need long numbers."""


PANELS: tuple[Panel, ...] = (
    Panel("Loss", "nats a token", (("loss", "training"), ("validation/loss", "validation")), "sft", (0, None)),
    Panel("Reward", "", (("reward_mean", "mean"), ("dev/reward_mean", "dev set")), band="reward_std"),
    Panel(
        "Accuracy and format",
        "share",
        (("accuracy", "accuracy"), ("format", "format"), ("dev/accuracy", "dev set"), ("dev/format", "dev set")),
        y=SHARE,
    ),
    Panel("Tool calls a trajectory", "calls", (("calls_mean", "calls"), ("dev/calls_mean", "dev set")), y=(0, None)),
    Panel(
        "Trajectories without a call, looping ones",
        "share",
        (("zero_call_share", "no call"), ("looping_share", "looping")),
        y=SHARE,
    ),
    Panel("Length of a trajectory", "tokens", (("tokens_mean", "all"), ("sampled_mean", "sampled")), y=(0, None)),
    Panel("How trajectories ended", "share", (("stops/", ""),), y=(0, 1), stacked=True),
    Panel(
        "Groups of equal rewards (skipped)",
        "share",
        (("equal_share", "equal"), ("refilled_share", "refilled")),
        y=SHARE,
    ),
    Panel(
        "Distances of the policy",
        "nats a token",
        (("drift_mean", "trainer to sampler"), ("kl_reference", "KL from the start")),
        log=True,
    ),
    Panel("Tokens outside the clip range", "share", (("clip_share", "clipped"),), y=(0, None)),
    Panel("Ratio of new to old probability", "", (("ratio_mean", "mean"),), level=1.0, height=0.002),
    Panel("Entropy", "nats a token", (("entropy", "entropy"),), y=(0, None)),
    Panel("Policy loss", "", (("loss", "policy loss"),), "grpo", level=0.0),
    Panel("Gradient norm before clipping", "", (("grad_norm", "norm"),), y=(0, None)),
    Panel("Learning rate", "", (("lr", "rate"),), y=(0, None), smooth=False, powers=True),
    Panel("Throughput", "tokens a second", (("tokens_per_second", "tokens"),), y=(0, None)),
    Panel(
        "Seconds a step",
        "s",
        (("seconds_rollout", "rollouts"), ("seconds_train", "training"), ("seconds_save", "saving")),
        "grpo",
        (0, None),
        stacked=True,
    ),
    Panel("Seconds a step", "s", (("seconds", "seconds"),), y=(0, None)),
    Panel("Cost so far", "currency of the price table", (("cost", "cost"),), y=(0, None), smooth=False),
)
