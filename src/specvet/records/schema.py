"""Schemas of what is kept: questions, trajectories, verdicts. One definition each; every room and file uses these.

Everything here is plain data that reads and writes as JSON (`model_dump_json`, `model_validate_json`). Windows are in Å
in the frame that the observation names; ids are strings; times are UTC, ISO 8601.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA_VERSION = 1


class Answer(StrEnum):
    """The six words a verdict can be."""

    YES = "YES"
    NO = "NO"
    UNSURE = "UNSURE"
    """Looked at, but the evidence does not decide: goes to a person."""
    NO_DATA = "NO_DATA"
    """The spectrum does not offer what the task requires (coverage, S/N): goes to a person."""
    FAILED = "FAILED"
    """The policy gave no well-formed answer within its budget: goes to a person."""
    ERROR = "ERROR"
    """The file could not be read."""


class StopReason(StrEnum):
    """Why a trajectory ended. Nothing is dropped in silence."""

    ANSWERED = "answered"
    NOT_ASKED = "not_asked"
    """The task's requirements were not met, so the policy was never asked."""
    MAX_TURNS = "max_turns"
    MALFORMED = "malformed"
    """More malformed turns than reminders; each turn keeps its kind."""
    TRUNCATED = "truncated"
    """A turn met the limit of tokens a turn before its end."""
    CONTEXT = "context"
    """The trajectory's tokens were used up: by the opening, by an observation (which was then not shown), or in a turn
    that had less left than the limit a turn."""
    IMAGE_IDS = "image_ids"
    """The model produced ids that stand for pictures; a prompt with them would count pictures that are not there."""
    TOKEN_DRIFT = "token_drift"
    """The backend counted another prompt than the ledger holds: something was lost, added or encoded again."""
    LEDGER = "ledger"
    """What was sampled fits no ledger: counts that differ, log-probs that are not finite, more tokens than allowed."""
    MAX_CALLS = "max_calls"
    """One more call than a problem's limit; it was not executed."""
    TOOL_BUDGET = "tool_budget"
    """A call after the tool's seconds of a problem were used up; it was not executed."""
    FABRICATED_RESULT = "fabricated_result"
    """The model wrote a tool's result itself for the second time."""
    MALFORMED_CALL = "malformed_call"
    """More malformed calls in the middle of a turn than are answered with what was wrong."""
    NO_ANSWER = "no_answer"
    """The turn came to its end without an answer."""
    OUT_OF_TIME = "out_of_time"
    POLICY_ERROR = "policy_error"
    UNREADABLE = "unreadable"


class _Record(BaseModel):
    # JSON has no NaN or infinity; written as strings they read back as what they were, for fields without None too.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class SpectrumRef(_Record):
    """Where a spectrum lies: exactly one of `path` (a native file) and `array_file` (NPZ), and which row of it."""

    path: str | None = None
    array_file: str | None = None
    row: int = Field(default=0, ge=0, lt=2**63)
    """From 0; what a database can hold."""

    @model_validator(mode="after")
    def _one_place(self) -> SpectrumRef:
        if (self.path is None) == (self.array_file is None):
            raise ValueError("spectrum reference: give exactly one of path and array_file")
        return self


class Question(_Record):
    """One spectrum, one task."""

    id: str
    task: str
    """Key of the task: `cv`."""
    spectrum: SpectrumRef
    name: str | None = None
    """Of the spectrum, as the survey names its file; a string, its own for each spectrum."""
    system: str | None = None
    """System text to ask with; None takes ours."""
    prompt: str | None = None
    """Text to ask with; None takes the task's own."""
    image: str | None = None
    """The picture that it was published with, relative to the question file. An agent's tool draws its own."""
    answer: Literal["YES", "NO"] | None = None
    """The label, where one is known; never shown to a policy."""
    split: str | None = None
    object_id: str | None = None
    """What must not be on both sides of a split: one star, all its spectra."""
    label_source: str | None = None


class Measurement(_Record):
    """One measured index; `value` None means not measurable, and `note` says why."""

    index: str
    name: str
    value: float | None = None
    error: float | None = None
    """1σ; None where the file states no errors and the scatter gives none."""
    unit: str = ""
    window: tuple[float, float] | None = None
    """Å, the stretch used, in the medium and frame of the observation."""
    quality: float = 1.0
    """0-1: how much of it is free of gaps, arm joins and tellurics."""
    note: str = ""


class EvidenceItem(_Record):
    """One reason: what was measured where, what it says, and how much it moved the log-odds."""

    says: str
    """`Hα in emission`."""
    window: str = ""
    """Key of the task's window."""
    measurement: Measurement
    log_odds: float
    """Added to the log-odds of YES."""


class Verdict(_Record):
    """What is said of one spectrum for one task."""

    answer: Answer
    confidence: float | None = Field(default=None, ge=0, le=1)
    """That the answer is right; None for NO_DATA, FAILED and ERROR. Of a model it is raw: the probability of the word
    that it gave, which ranks and is not calibrated."""
    p_yes: float | None = Field(default=None, ge=0, le=1)
    """Probability of YES, where the policy gives one."""
    reason: str
    """In words, for a person."""
    likelier_class: str | None = None
    """For a NO: what it looks like instead."""
    evidence: tuple[EvidenceItem, ...] = ()


class ActionRecord(_Record):
    """What a policy did in one turn."""

    kind: Literal["call", "answer", "malformed", "truncated"]
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    text: str = ""
    """The policy's words: reasoning, or why the turn was malformed."""
    malformed: str | None = None
    """What was wrong with a malformed turn, a `specvet.chat.format.MalformedKind`; None without a chat format."""


class ObservationRecord(_Record):
    """What came back: text, and which window was shown."""

    kind: str
    """`view`, or the kind of trouble: `bad_range`, `too_few_points`, `deadline`, …"""
    text: str
    window: tuple[float, float] | None = None
    n_points: int | None = None
    frame: str = ""
    view_hash: str | None = None
    """Hash of the data, window and style that determine the picture; the same hash, the same picture."""
    image: str | None = None
    """SHA-256 of the PNG in `images/`, when it was kept."""


class TurnTokens(_Record):
    """What one turn of a model took."""

    prompt: int | None = None
    """Tokens of the prompt, pictures included: as the ledger counts them, or a server that gives words; None where
    nobody did."""
    cached: int | None = None
    """Of them, those that the backend did not compute again, where it says so."""
    sampled: int | None = None
    repeated: float | None = None
    """Share (0-1) of the commonest four tokens in a row among all such fours: near 1, the model looped."""


class TurnRecord(_Record):
    action: ActionRecord
    observation: ObservationRecord | None = None
    """None after an answer."""
    seconds: float
    """Of the whole turn: from the request to what the tool gave. A first turn that branches share counts in each."""
    tokens: TurnTokens | None = None
    """None for a policy without tokens."""


class CallCounts(_Record):
    """The calls of a trajectory."""

    made: int = 0
    executed: int = 0
    """Handed to the tool: neither a call in the last turn nor of an unknown tool is."""
    succeeded: int = 0
    """Answered with a view."""
    repeated: int = 0
    """Answered as an earlier call of the trajectory was, to the pixel."""
    unknown_tool: int = 0
    extra_arguments: int = 0
    """Arguments that the tool's schema does not know; they are ignored."""


class TokenCounts(_Record):
    """The tokens of a trajectory."""

    prompt: int = 0
    """Of all its prompts together; each holds what came before."""
    cached: int = 0
    """Of them, those that a backend did not compute again, where it says so."""
    sampled: int = 0
    images: int = 0
    """Visual tokens, each picture once."""
    total: int = 0
    """Tokens of the ledger."""
    looping: int = 0
    """Turns in which the model looped, see `TurnTokens.repeated`."""


class TrajectoryRecord(_Record):
    """All that happened for one question, or in one branch of it."""

    schema_version: int = SCHEMA_VERSION
    question: Question
    policy: str
    task_hash: str
    spectrum_hash: str | None
    opening: ObservationRecord | None
    """The whole spectrum, as first shown; None when nothing was shown."""
    turns: tuple[TurnRecord, ...]
    stop: StopReason
    stop_detail: str = ""
    """What the stop reason alone does not say, for a program: `open_thought` of a truncated turn, the two counts of a
    token drift, the kind of the malformed turn."""
    verdict: Verdict
    measurements: tuple[Measurement, ...] = ()
    reward: dict[str, float] | None = None
    """Parts and total, where the question has an answer and the policy is a model."""
    seconds: float
    started: str
    """UTC, ISO 8601."""
    sample: int = 0
    """Which branch of its question it is, from 0."""
    group: int = 1
    """How many branches the question was given; they share the first prompt."""
    calls: CallCounts | None = None
    tokens: TokenCounts | None = None
    """None for a policy without tokens."""
    ledger: dict[str, Any] | None = None
    """What was shown and sampled, token by token: as `specvet.chat.Ledger.to_dict` gives and `from_dict` takes it."""

    @property
    def tool_calls(self) -> int:
        return sum(t.action.kind == "call" for t in self.turns)

    @property
    def malformed(self) -> dict[str, int]:
        """Malformed turns by kind; those without a kind as `malformed`."""
        kinds = [t.action.malformed or "malformed" for t in self.turns if t.action.kind == "malformed"]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    @property
    def sums(self) -> dict[str, int]:
        """What receipts add up: `trajectories`, `turns`, `calls.made`, `malformed.bad_call`, `tokens.images`, …"""
        parts = {"calls": self.calls, "tokens": self.tokens}
        of_parts = {
            f"{part}.{k}": n for part, counts in parts.items() if counts for k, n in counts.model_dump().items()
        }
        malformed = {f"malformed.{kind}": n for kind, n in self.malformed.items()}
        return {"trajectories": 1, "turns": len(self.turns)} | of_parts | malformed
