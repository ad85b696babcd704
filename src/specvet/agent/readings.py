r"""What a kept trajectory says, read from its ledger alone: no model and no tokenizer is needed.

A ledger that was kept with its vocabulary holds the bytes of every sampled token beside its id and log-prob. From them
come the turns as the chat format reads them, and the probability of the answer: the model's own probability (at
temperature 1) of the tokens that spell YES or NO in its box, given all before them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from specvet.chat.keeping import joined
from specvet.chat.ledger import LedgerError, pieces
from specvet.records.schema import TrajectoryRecord
from specvet.tasks.answers import last_body
from specvet.tasks.turns import THOUGHT

TURN_START = b"<|im_start|>assistant\n"
"""What begins a turn of the model in every chat format of ours; what follows it in the prompt is the turn's prefix."""

END_TOKENS = (b"<|im_end|>", b"<|endoftext|>")
"""Tokens that end a turn; a service may keep them to itself, and a turn may end exactly at its limit."""

_BOX = re.compile(rb"\\boxed[ \t]*\{[ \t\r\n]*(yes|no)[ \t\r\n]*\}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a model."""

    text: str
    """With its prefix, without its end token: what rewards and rules read."""
    pieces: tuple[bytes, ...] = ()
    """The bytes of each sampled token, end token included; empty where only words are known."""
    logprobs: tuple[float, ...] | None = None


def said_of(record: TrajectoryRecord) -> tuple[Said, ...] | None:
    """The turns that the model wrote; None for a policy without a ledger (one that measures).

    Raises LedgerError for a ledger that cannot be read.
    """
    ledger = record.ledger
    if ledger is None:
        return None
    turns: list[Said] = []
    before = b""
    try:
        for segment in ledger["segments"]:
            if "sampled" in segment:
                turns.append(_turn(segment, before))
            elif "ids" in segment:
                before = joined(segment)
            elif segment.get("role") == "assistant" and "text" in segment:
                turns.append(Said(segment["text"]))
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        if isinstance(e, LedgerError):
            raise
        raise LedgerError(f"a kept ledger that cannot be read: {type(e).__name__}: {e}") from e
    return tuple(turns)


def texts_of(record: TrajectoryRecord) -> tuple[str, ...] | None:
    """The texts of `said_of`."""
    said = said_of(record)
    return None if said is None else tuple(turn.text for turn in said)


def p_yes_of(record: TrajectoryRecord) -> float | None:
    """The probability of YES that a trajectory's answer was given with.

    A policy that measures states it. Of a model it is the probability of the tokens of the word that it boxed, or one
    less that of NO: the first box of the last complete answer block, or behind the thought where there is no such
    block. None without log-probs, and where the last turn boxes neither word or can hold no answer at all (see
    `specvet.tasks.answers`).
    """
    said = said_of(record)
    if said is None:
        return record.verdict.p_yes
    if not said or said[-1].logprobs is None or last_body([said[-1].text]) is None:
        return None
    last, logprobs = said[-1], said[-1].logprobs
    box = _answer_box(b"".join(last.pieces))
    if box is None:
        return None
    start, end = box.span(1)
    ends = list(accumulate(len(piece) for piece in last.pieces))
    spelling = [
        logprob
        for piece, stop, logprob in zip(last.pieces, ends, logprobs, strict=True)
        if stop > start and stop - len(piece) < end
    ]
    p = min(1.0, math.exp(math.fsum(spelling)))
    return p if box.group(1).upper() == b"YES" else 1.0 - p


def _answer_box(data: bytes) -> re.Match[bytes] | None:
    body = data.rfind(THOUGHT.encode()) + 1
    close = data.rfind(b"</answer>")
    block = data.rfind(b"<answer>", body, max(close, 0))
    boxes = list(_BOX.finditer(data, body))
    within = [box for box in boxes if block <= box.start() < close] if block >= 0 else []
    return next(iter(within or boxes), None)


def _turn(segment: Mapping[str, Any], before: bytes) -> Said:
    cut = tuple(pieces(segment))
    spoken: Sequence[bytes] = cut[:-1] if cut and cut[-1] in END_TOKENS else cut
    prefix = before.rpartition(TURN_START)[2] if TURN_START in before else b""
    logprobs = segment["logprobs"]
    text = (prefix + b"".join(spoken)).decode("utf-8", "replace")
    return Said(text, cut, None if logprobs is None else tuple(float(x) for x in logprobs))
