"""What stands above the conversation: who asked what, how it ended, what it took, and a line a turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specvet.records import Decision
from specvet.records.schema import TrajectoryRecord, TurnRecord
from specvet.spectra import Spectrum
from specvet.tasks import Task
from specvet.vetting.claims import Claim, check_decision
from specvet.vetting.report.story import is_simulated
from specvet.vetting.transcript.blocks import Block, Picture, Run, blocks_of, call_text
from specvet.vetting.transcript.safe import one_line

Pair = tuple[str, str]

Kind = Literal["tokens", "ids", "text", "none"]
"""`ids`: tokens whose texts were not kept; `none`: there is no ledger."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Tokens of a trajectory by what they are; all 0 for words."""

    text: int
    """Rendered by the program: system, user, frame and tool."""
    image: int
    sampled: int
    pictures: int
    left_out: int
    """Behind the last sampled token: in no datum."""
    logprob: float | None
    """Sum over the sampled tokens; None where a turn has none."""
    prompts: int | None
    """Of all prompts together, each of which holds what came before; None where nobody counted."""
    cached: int | None
    """Of them, those that the backend says it did not compute again; None where it does not say."""
    counted: int | None
    """All tokens as the record counts them: of words, what a server said."""

    @property
    def all(self) -> int:
        return self.text + self.image + self.sampled


@dataclass(frozen=True, slots=True)
class TurnLine:
    """One turn in short."""

    number: int
    action: str
    """In words: the call, the answer, or why the turn was none."""
    kind: str
    """`call`, `answer`, `malformed` or `truncated`; empty where the turn was not parsed."""
    malformed: str
    """Kind; empty for a well-formed turn."""
    observation: str
    """Kind; empty after an answer."""
    prompt: int | None
    cached: int | None
    tokens: int | None
    """Sampled."""
    logprob: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that both renderers show."""

    n: int
    """The decision's place in the run, from 1."""
    title: str
    simulated: bool
    """The spectrum says of itself that it is simulated."""
    answer: str
    confidence: str
    reason: str
    kind: Kind
    """What the ledger holds."""
    facts: tuple[Pair, ...]
    totals: Totals
    turns: tuple[TurnLine, ...]
    blocks: tuple[Block, ...]
    question: str
    """What was asked, in words; empty where nothing says."""
    evidence: tuple[Pair, ...]
    """(what it says, log-odds) of a policy that weighs evidence."""
    warnings: tuple[str, ...]
    only: str
    """Says which turns are shown, where not all are."""
    claims: tuple[Claim, ...] = ()
    """What it says that it saw, held against the spectrum; empty where the spectrum is not there."""


MAX_PROBLEM = 100
"""Characters of what was wrong with a turn; all that it said stands in the conversation."""

NOTES: dict[Kind, str] = {
    "tokens": "",
    "ids": "This ledger was kept without the texts of its tokens: each is shown by its id.",
    "text": (
        "This ledger holds words only: the policy gives no token ids, so token boundaries, weights and log-probs are "
        "unknown, and the trajectory cannot be trained on."
    ),
    "none": (
        "This policy keeps no ledger: what follows are its recorded actions and observations. One that measures has "
        "worked on the numbers behind the pictures."
    ),
}
"""What to say of each kind of ledger."""


def transcript(
    n: int,
    decision: Decision,
    task: Task | None,
    turns: Sequence[int] | None = None,
    spectrum: Spectrum | None = None,
) -> Transcript:
    """What is shown of a decision with its trajectory.

    With the `spectrum`, as its file holds it, claims are checked, unless it is not the one that was judged. `turns`
    chooses what is told of (0: what came before the first turn); None tells all.

    Raises LedgerError, and ValueError for a decision without trajectory.
    """
    record = decision.trajectory
    if record is None:
        raise ValueError(f"{decision.file} row {decision.row}: an {decision.verdict.answer} row has no trajectory")
    blocks = blocks_of(record)
    verdict = decision.verdict
    chosen = [b for b in blocks if turns is None or b.turn in turns]
    lines = _turn_lines(record, blocks)
    return Transcript(
        n=n,
        title=f"{decision.id or decision.file} · {decision.task}",
        simulated=is_simulated(decision),
        answer=str(verdict.answer),
        confidence="" if verdict.confidence is None else f"{min(verdict.confidence, 0.999):.2f}",
        reason=verdict.reason,
        kind=_kind(record),
        facts=tuple((name, value) for name, value in _facts(decision, record, task) if value),
        totals=_totals(record, blocks),
        turns=tuple(t for t in lines if turns is None or t.number in turns),
        blocks=tuple(chosen),
        question=record.question.prompt or (task.question if task else ""),
        evidence=tuple((e.says, f"{e.log_odds:+.2f}".replace("-", "−")) for e in verdict.evidence),
        warnings=decision.warnings,
        only=_only(turns, blocks),
        claims=tuple(c for c in _claims(decision, task, spectrum) if turns is None or c.turn in turns),
    )


def _claims(decision: Decision, task: Task | None, spectrum: Spectrum | None) -> tuple[Claim, ...]:
    record = decision.trajectory
    if record is None or task is None or spectrum is None or decision.verdict.evidence:
        return ()  # a policy that weighs evidence has measured what it says
    same = record.spectrum_hash in (None, "", spectrum.content_hash)
    return check_decision(decision, spectrum, task) if same else ()


def _only(turns: Sequence[int] | None, blocks: Sequence[Block]) -> str:
    if turns is None:
        return ""
    there = {b.turn for b in blocks}
    shown = ", ".join(str(n) for n in sorted(there.intersection(turns)))
    return f"Of the turns 0 to {max(there, default=0)}, only these are shown: {shown or 'none'}."


def _kind(record: TrajectoryRecord) -> Kind:
    if record.ledger is None:
        return "none"
    if record.ledger["kind"] == "text":
        return "text"
    named = [s for s in record.ledger["segments"] if "image" not in s]
    return "tokens" if all("lengths" in s for s in named) else "ids"


def _facts(decision: Decision, record: TrajectoryRecord, task: Task | None) -> list[Pair]:
    question, ledger = record.question, record.ledger
    row = f", row {decision.row}" if decision.row else ""
    verdict = decision.verdict
    return [
        ("question", question.id),
        ("task", f"{decision.task} ({task.name})" if task and task.name != decision.task else decision.task),
        ("file", f"{decision.file}{row}"),
        ("label", f"{question.answer}{f' ({question.label_source})' if question.label_source else ''}"
         if question.answer else ""),
        ("policy", record.policy),
        ("format", f"{ledger['format']}{'' if ledger['kind'] == 'tokens' else ', words only'}" if ledger else ""),
        ("vocabulary", str(ledger["vocabulary"])[:16] if ledger and ledger.get("vocabulary") else ""),
        ("sample", f"{record.sample}, of {record.group} from 0" if record.group > 1 else ""),
        ("stop", f"{record.stop.value}{f' ({record.stop_detail})' if record.stop_detail else ''}"),
        ("likelier class", verdict.likelier_class or ""),
        ("P(YES)", "" if verdict.p_yes is None else f"{verdict.p_yes:.3f}"),
        ("reward", ", ".join(f"{k} {v:g}" for k, v in (record.reward or {}).items())),
        ("wavelengths", decision.frame),
        ("started", f"{record.started}, {record.seconds:.3g} s"),
    ]  # fmt: skip


def _totals(record: TrajectoryRecord, blocks: Sequence[Block]) -> Totals:
    runs = [p for b in blocks for p in b.parts if isinstance(p, Run)]
    pictures = [p for b in blocks for p in b.parts if isinstance(p, Picture)]
    sampled = [r for r in runs if r.role == "sampled"]
    known = [t.tokens.cached for t in record.turns if t.tokens and t.tokens.cached is not None]
    return Totals(
        text=sum(len(r.tokens) for r in runs if r.role != "sampled"),
        image=sum(p.n_tokens for p in pictures),
        sampled=sum(len(r.tokens) for r in sampled),
        pictures=len(pictures),
        left_out=sum(len(r.tokens) for r in runs if r.weight == "left_out"),
        logprob=logprob_of(sampled),
        prompts=record.tokens.prompt if record.tokens else None,
        cached=sum(known) if known else None,
        counted=record.tokens.total if record.tokens else None,
    )


def logprob_of(runs: Sequence[Run]) -> float | None:
    """Sum over the tokens of sampled runs; None without any, or where one has none."""
    values = [t.logprob for r in runs for t in r.tokens]
    known = [v for v in values if v is not None]
    return math.fsum(known) if values and len(known) == len(values) else None


def _turn_lines(record: TrajectoryRecord, blocks: Sequence[Block]) -> list[TurnLine]:
    said: dict[int, list[Run]] = {}
    for block in blocks:
        for part in block.parts:
            if isinstance(part, Run) and part.role == "sampled":
                said.setdefault(block.turn, []).append(part)
    last = max(len(record.turns), *said, 0) if said else len(record.turns)
    return [_turn_line(n, record, said.get(n, [])) for n in range(1, last + 1)]


def _turn_line(n: int, record: TrajectoryRecord, runs: Sequence[Run]) -> TurnLine:
    turn: TurnRecord | None = record.turns[n - 1] if n <= len(record.turns) else None
    if turn is None:
        tokens = sum(len(r.tokens) for r in runs)
        ended = "not parsed: the trajectory ended in this turn"
        return TurnLine(n, ended, "", "", "", None, None, tokens or None, logprob_of(runs), None)
    action, counted = turn.action, turn.tokens
    words = {
        "call": call_text(action),
        "answer": f"answer {record.verdict.answer}",
        "truncated": "cut off at its limit before its end",
    }
    return TurnLine(
        number=n,
        action=words.get(action.kind, one_line(action.text, MAX_PROBLEM)),
        kind=action.kind,
        malformed=(action.malformed or "malformed") if action.kind == "malformed" else "",
        observation=turn.observation.kind if turn.observation else "",
        prompt=counted.prompt if counted else None,
        cached=counted.cached if counted else None,
        tokens=sum(len(r.tokens) for r in runs) or (counted.sampled if counted else None),
        logprob=logprob_of(runs),
        seconds=turn.seconds,
    )
