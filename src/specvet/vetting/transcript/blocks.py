"""A trajectory in the order in which it was said: blocks of one speaker each, made of runs of tokens and pictures.

From a ledger of tokens come tokens with their bytes, ids, log-probs and weights; from one of words come words; without
a ledger (`line-indices`) the recorded actions and observations are told instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from specvet.chat import LedgerError
from specvet.chat.ledger import pieces
from specvet.records.schema import ActionRecord, ObservationRecord, TrajectoryRecord

Role = Literal["system", "user", "frame", "tool", "sampled"]
Weight = Literal["learns", "context", "left_out"]
"""`left_out`: behind the last sampled token, so in no datum at all."""

OPENER = b"<|im_start|>"
"""The token that starts a message in every chat format of ours; what precedes it closes the message before."""

_SPECIAL = re.compile(rb"<\|[^<>|\s]{1,40}\|>|</?(?:think|tool_call|tool_response)>")


class Token(NamedTuple):
    piece: bytes
    id: int
    logprob: float | None
    """Natural logarithm; None for what was not sampled, and for a demonstration."""

    @property
    def special(self) -> bool:
        """Whether one id stands for a whole tag; letters that spell the same are several."""
        return bool(_SPECIAL.fullmatch(self.piece))


MAX_CUT = 8
"""Tokens that may share characters; more of them are bytes of no text."""


def units(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Tokens one by one, those together that share a character: `\\xce` and `\\xb1` are α."""
    at = 0
    while at < len(tokens):
        n = next((n for n in range(1, MAX_CUT + 1) if _is_text(tokens[at : at + n])), 1)
        yield tokens[at : at + n]
        at += n


def _is_text(tokens: Sequence[Token]) -> bool:
    try:
        b"".join(t.piece for t in tokens).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@dataclass(slots=True)
class Run:
    """Tokens, or words, of one role that follow each other."""

    role: Role
    weight: Weight = "context"
    tokens: list[Token] = field(default_factory=list)
    words: str = ""
    """Of a ledger without tokens, or of a record without ledger."""
    start: int = 0
    """Position of the first token in the ledger."""


@dataclass(slots=True)
class Picture:
    """A picture where it was seen."""

    number: int
    """From 1, in the order of the trajectory."""
    role: Role
    view: ObservationRecord | None
    """What is recorded of it; None where no observation fits."""
    sha256: str | None = None
    width: int = 0
    """Pixels; 0 where unknown."""
    height: int = 0
    rows: int = 0
    """Visual tokens down; 0 where unknown."""
    columns: int = 0
    start: int = 0

    @property
    def n_tokens(self) -> int:
        return self.rows * self.columns


@dataclass(slots=True)
class Block:
    """What one speaker said at a time."""

    role: Role
    turn: int
    """0 before the policy's first turn, then the turn that it belongs to."""
    parts: list[Run | Picture] = field(default_factory=list)

    @property
    def n_tokens(self) -> int:
        return sum(p.n_tokens if isinstance(p, Picture) else len(p.tokens) for p in self.parts)


def blocks_of(trajectory: TrajectoryRecord) -> list[Block]:
    """All of a trajectory. Raises LedgerError where its ledger cannot be read."""
    if trajectory.ledger is None:
        return list(_recorded(trajectory))
    try:
        return _Talk(trajectory.ledger, views_of(trajectory)).blocks()
    except (KeyError, TypeError, AttributeError) as e:
        raise LedgerError(f"a kept ledger that cannot be read: {type(e).__name__}: {e}") from e


def views_of(trajectory: TrajectoryRecord) -> list[ObservationRecord]:
    """What showed a picture, in order: the opening, then each turn's."""
    seen = [trajectory.opening, *(t.observation for t in trajectory.turns)]
    return [o for o in seen if o is not None and o.kind == "view"]


def call_text(action: ActionRecord) -> str:
    """`tool(name=value, …)` of a call."""
    words = ", ".join(
        f"{k}={json.dumps(v, ensure_ascii=False, default=str)}" for k, v in (action.arguments or {}).items()
    )
    return f"{action.tool}({words})"


def _recorded(trajectory: TrajectoryRecord) -> Iterator[Block]:
    count = 0

    def block(role: Role, turn: int, words: str, view: ObservationRecord | None = None) -> Block:
        nonlocal count
        parts: list[Run | Picture] = [Run(role, words=words)] if words else []
        if view is not None and view.kind == "view":
            count += 1
            parts.insert(0, Picture(count, role, view, view.image))
        return Block(role, turn, parts)

    if trajectory.opening is not None:
        yield block("user", 0, trajectory.opening.text, trajectory.opening)
    for n, turn in enumerate(trajectory.turns, start=1):
        action = turn.action
        said = [action.text, call_text(action) if action.kind == "call" else ""]
        yield block("sampled", n, "\n".join(filter(None, said)))
        if turn.observation is not None:
            yield block("tool", n, turn.observation.text, turn.observation)


def _rendered(segment: Mapping[str, Any]) -> list[Token]:
    ids: Sequence[int] = segment["ids"]
    return [Token(piece, id, None) for piece, id in zip(_pieces(segment, ids), ids, strict=True)]


def _pieces(segment: Mapping[str, Any], ids: Sequence[int]) -> list[bytes]:
    """The bytes of each token; its number where they were not kept."""
    return pieces(segment) if "lengths" in segment else [f"‹{id}›".encode() for id in ids]


class _Talk:
    """Segments of a ledger, one after another, into blocks."""

    def __init__(self, ledger: Mapping[str, Any], views: Sequence[ObservationRecord]) -> None:
        self._segments: list[Mapping[str, Any]] = list(ledger["segments"])
        self._views = list(views)
        self._blocks: list[Block] = []
        self._open: Block | None = None
        self._named = False
        """Whether the open block has more than a frame, so that its role stands."""
        self._turn = self._pictures = self._position = 0

    def blocks(self) -> list[Block]:
        said = [i for i, s in enumerate(self._segments) if "sampled" in s or s.get("role") == "assistant"]
        last = said[-1] if said else -1
        for i, segment in enumerate(self._segments):
            behind: Weight = "left_out" if said and i > last else "context"
            if "image" in segment:
                self._picture(segment["image"])
            elif "text" in segment and "ids" not in segment and "sampled" not in segment:
                role: Role = "sampled" if segment["role"] == "assistant" else segment["role"]
                self._begin(role)
                self._block.parts.append(Run(role, words=segment["text"]))
            elif "sampled" in segment:
                logprobs = segment.get("logprobs") or [None] * len(segment["sampled"])
                tokens = list(map(Token, _pieces(segment, segment["sampled"]), segment["sampled"], logprobs))
                self._begin("sampled")
                self._add("sampled", "learns", tokens)
            elif segment["role"] == "frame":
                self._frame(_rendered(segment), behind)
            else:
                self._begin(segment["role"])
                self._add(segment["role"], behind, _rendered(segment))
        return self._blocks

    @property
    def _block(self) -> Block:
        if self._open is None:
            self._open = Block("frame", self._turn)
            self._blocks.append(self._open)
            self._named = False
        return self._open

    def _begin(self, role: Role) -> None:
        """Go on in the open block if it is this role's, or nobody's yet; two turns are never one block."""
        if self._named and (self._block.role != role or role == "sampled"):
            self._open = None
        if role == "sampled":
            self._turn += 1
        block = self._block
        block.role, block.turn, self._named = role, self._turn, True

    def _frame(self, tokens: list[Token], weight: Weight) -> None:
        starts = [i for i, t in enumerate(tokens) if t.piece == OPENER]
        for a, b in zip([0, *starts], [*starts, len(tokens)], strict=True):
            if a in starts:
                self._open = None
            if b > a:
                self._add("frame", weight, tokens[a:b])

    def _add(self, role: Role, weight: Weight, tokens: list[Token]) -> None:
        parts = self._block.parts
        before = parts[-1] if parts else None
        if isinstance(before, Run) and (before.role, before.weight) == (role, weight) and not before.words:
            before.tokens.extend(tokens)
        else:
            parts.append(Run(role, weight, tokens, start=self._position))
        self._position += len(tokens)

    def _picture(self, image: Mapping[str, Any]) -> None:
        role: Role = image["role"] if image["role"] != "frame" else "user"
        if not self._named or self._block.role != role:
            self._begin(role)
        picture = Picture(
            self._pictures + 1,
            role,
            self._view(image["sha256"]),
            image["sha256"],
            image["width"],
            image["height"],
            image["rows"],
            image["columns"],
            self._position,
        )
        self._block.parts.append(picture)
        self._pictures += 1
        self._position += picture.n_tokens

    def _view(self, sha: str) -> ObservationRecord | None:
        """The observation of the next picture: the one that kept it, else the one in its place."""
        place = self._pictures
        if place < len(self._views) and self._views[place].image in (None, sha):
            return self._views[place]
        return next((v for v in self._views if v.image == sha), None)
