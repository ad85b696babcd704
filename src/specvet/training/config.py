"""What a training run is told: one frozen `TrainConfig` a run, made from a profile (`specvet.training.profiles`)."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

MOST = 1_000_000_000
"""Of whatever is counted."""
MOST_SEED = 2**63 - 1


class ConfigError(ValueError):
    """A profile, file or flag that says what no run can do; the message names the field and the fix."""


class Part(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML's `true` would count as 1."""
        kind = cls.model_fields[info.field_name or ""].annotation
        given = value if isinstance(value, list | tuple) else [value]
        if {int, float} & {kind, *get_args(kind)} and any(isinstance(v, bool) for v in given):
            raise ValueError("a number")
        return value


class ModelConfig(Part):
    """The base model."""

    name: str | None = None
    """Folder or hub id; None: a tiny random model of `format` (profile `tiny`)."""
    revision: str | None = None
    """Of a hub id."""
    format: str | None = None
    """Chat format; None: the model family's own."""
    tokenizer: str | None = None
    """Where the model is remote and its tokenizer is not found by its name; of the tiny model, `toy` gives it the words
    of the toy set, so that it has less to read."""
    dtype: str = "auto"
    device: str = "auto"
    base_url: str | None = None
    """Of a service."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Of one sampling request; training requests get ten times as much."""


class MethodConfig(Part):
    """What of the model is trained, and how it is held in memory."""

    kind: Literal["lora", "full"] = "lora"
    rank: int = Field(default=32, ge=1, le=MOST)
    alpha: float = Field(default=32.0, gt=0)
    unembed: bool | None = None
    """Whether the output layer has an adapter too; None: as the services do by themselves, and `torch` cannot."""
    vision: Literal["frozen", "trained"] = "frozen"
    gradient_checkpointing: bool | None = None
    """None: on a GPU, in as many layers as a micro-batch needs to fit."""
    micro_tokens: int | None = Field(default=None, ge=1, le=MOST)
    """Positions, padding included, that go through the model at a time; None: the backend chooses."""
    processes: int = Field(default=1, ge=1, le=MOST)


class OptimiserConfig(Part):
    """AdamW."""

    lr: float = Field(default=2e-5, gt=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip_norm: float = Field(default=1.0, ge=0)
    """0: no clipping."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """After the warm-up; cosine and linear end at `lr_end` times the rate."""
    warmup: float = Field(default=0.0, ge=0)
    """Share of all steps where below 1, else steps; the rate rises linearly from 0."""
    lr_end: float = Field(default=0.0, ge=0, le=1)

    @property
    def depends_on_length(self) -> bool:
        """Whether the rate of a step depends on how many steps there are in all, so that a run cannot grow."""
        return self.schedule != "constant" or 0 < self.warmup < 1


class BudgetConfig(Part):
    """What one trajectory may use."""

    max_turns: int = Field(default=8, ge=1, le=MOST)
    max_malformed: int = Field(default=0, ge=0, le=MOST)
    max_seconds: float = Field(default=600.0, gt=0)
    turn_tokens: int = Field(default=2_048, ge=1, le=MOST)
    context: int = Field(default=16_384, ge=2, le=MOST)


class SftConfig(Part):
    """Cold-start supervision on demonstrations."""

    data: str | None = None
    """JSONL of demonstrations (`specvet.data.demonstrations`); `toy`: the simulated toy set; None: must be given."""
    validation: str | None = None
    """The same, for the loss at the end of each epoch."""
    epochs: int = Field(default=2, ge=1, le=MOST)
    batch: int = Field(default=4, ge=1, le=MOST)
    """Demonstrations an update."""
    optimiser: OptimiserConfig = OptimiserConfig()
    max_tokens: int = Field(default=16_384, ge=2, le=MOST)
    """Longer demonstrations are listed in `rejects.jsonl`, never cut."""
    save_every: int = Field(default=0, ge=0, le=MOST)
    """Steps between checkpoints, besides those at the ends of epochs; 0: none."""
    save_epochs: int = Field(default=1, ge=1, le=MOST)
    """Epochs between the checkpoints at their ends; the end of the last has one in any case."""


class RewardConfig(Part):
    """What a trajectory is worth."""

    variant: Literal["default", "paper", "chapter"] = "default"
    """`specvet.tasks.rewards` says what each reads."""
    correct: float = 1.0
    bad_format: float = -0.2


class GrpoConfig(Part):
    """Multi-turn GRPO."""

    data: str | None = None
    """Question file with answers (JSONL or Parquet); `toy`; None: must be given."""
    dev: str | None = None
    """Questions that are asked at each save; None: none."""
    dev_temperature: float = Field(default=0.0, ge=0)
    """Of their sampling; 0 takes the likeliest token."""
    style: str = "reference"
    """Of the figure that the model looks at, see `specvet.views`."""
    size: str | None = None
    """Of the compact style: `small` (None), `published`, `tiny` or `448x280`."""
    wording: Literal["full", "short"] = "full"
    """Of the questions, see `specvet.tasks.wording`."""
    title: Literal["plain", "file"] = "plain"
    """Over the figures of the reference style; a file's name, as in the published data, may give the class away."""
    epochs: int = Field(default=1, ge=1, le=MOST)
    questions: int = Field(default=8, ge=1, le=MOST)
    """A rollout batch."""
    group: int = Field(default=8, ge=2, le=MOST)
    """Trajectories a question."""
    optimiser: OptimiserConfig = OptimiserConfig(lr=1e-6)
    loss: Literal["importance_sampling", "ppo", "cispo"] = "ppo"
    clip: tuple[float, float] = (0.8, 1.2)
    """Lowest and highest ratio; "clip higher" is [0.8, 1.28]."""
    reward: RewardConfig = RewardConfig()
    balance: float = Field(default=0.0, ge=0, le=1)
    """How far the rarer answer of a task is made up for, see `specvet.training.balance`: 0 counts each question once, 1
    each answer the same."""
    temperature: float = Field(default=1.0, gt=0)
    """The log-probs q that are recorded are the model's own, at temperature 1 with nothing cut off. At any other
    setting, of this or of `top_p`, tokens are drawn from another distribution than q: r = exp(p − q) still compares the
    model with itself, but the gradient is that of a policy that did not sample. Not with `kl`."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Below 1, unlikely tokens are cut off; see `temperature`."""
    budget: BudgetConfig = BudgetConfig()
    kl: float = Field(default=0.0, ge=0)
    """Penalty on leaving the weights that the run began from: taken from each token's advantage as kl·(q − p_ref).
    Needs temperature 1 and top_p 1: only over tokens drawn from q is that the divergence."""
    entropy: float = Field(default=0.0, ge=0)
    """Bonus, see `specvet.training.trainer.Loss`."""
    refill: int = Field(default=0, ge=0, le=MOST)
    """At most so many more questions are rolled out in place of those whose rewards were all equal.
    An epoch then has fewer steps than planned, so the learning rate must not depend on how many there are."""
    mini_batches: int = Field(default=1, ge=1, le=MOST)
    """Updates a rollout batch."""
    save_every: int = Field(default=100, ge=0, le=MOST)
    """Rollout steps between checkpoints, besides those at the ends of epochs; 0: none."""
    concurrency: int = Field(default=64, ge=1, le=MOST)
    """Trajectories that run at a time."""
    processes: int = Field(default=1, ge=1, le=64)
    """That roll out, each with a policy on the one set of weights; above 1 only with the torch trainer in one process.
    For a small model on a GPU, which answers faster than one process can act on."""
    max_steps: int = Field(default=0, ge=0, le=MOST)
    """Rollout steps after which training ends; 0: all epochs."""

    @model_validator(mode="after")
    def _sensible(self) -> GrpoConfig:
        low, high = self.clip
        if not 0 <= low <= 1 <= high:
            raise ValueError(f"clip: [{low}, {high}] must hold 1, as in [0.8, 1.2]")
        if self.refill and self.optimiser.depends_on_length:
            raise ValueError(
                "refill: with it nobody knows beforehand how many steps there are, and this learning rate depends on "
                "that; set optimiser.schedule to constant and optimiser.warmup to a number of steps, or refill to 0"
            )
        if self.kl and (self.temperature != 1 or self.top_p < 1):
            raise ValueError(
                f"kl: at temperature {self.temperature:g} and top_p {self.top_p:g} tokens are not drawn from the "
                "log-probs that the penalty is taken from; set both to 1, or kl to 0"
            )
        return self


class Profile(Part):
    """A profile file."""

    profile: str
    about: str
    """One sentence: what it is and whose settings these are."""
    source: str = ""
    """Where the numbers come from."""
    notes: tuple[str, ...] = ()
    """What differs from the source, and what is not known."""
    model: ModelConfig = ModelConfig()
    method: MethodConfig = MethodConfig()
    sft: SftConfig = SftConfig()
    grpo: GrpoConfig = GrpoConfig()
    seed: int = Field(default=0, ge=0, le=MOST_SEED)


class TrainConfig(Part):
    """One training run, all of it resolved."""

    stage: Literal["sft", "grpo"]
    profile: str
    backend: Literal["torch", "trio", "tinker"] = "torch"
    model: ModelConfig
    method: MethodConfig
    loop: SftConfig | GrpoConfig
    start: str | None = None
    """Checkpoint folder or address (`trio://…`) whose weights training begins from, as `--from` was resolved."""
    seed: int = Field(default=0, ge=0, le=MOST_SEED)
