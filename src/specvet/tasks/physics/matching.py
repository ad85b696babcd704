"""Whether what a model answered is right. The kind of the right answer decides how it is read, never the answer."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Literal

from specvet.records.problems import Gold
from specvet.tasks.physics.choices import match_choice, match_words
from specvet.tasks.physics.numbers import match_number
from specvet.tasks.physics.plain import LONGEST
from specvet.tasks.physics.reading import boxes
from specvet.tasks.physics.reasons import STRICT_REFUSES, Flag, Matched, Reason
from specvet.tasks.physics.symbolic import match_expression

Mode = Literal["lenient", "strict"]


def match(prediction: str | None, gold: Gold, mode: Mode = "lenient") -> Matched:
    r"""The decision on an answer, which is the text of an `<answer>` block or a `\boxed{}` (see `reading`).

    `lenient` takes some assumptions for right and flags them: a missing unit, a unit where none was asked for, `5 C`
    for a temperature, `1/2π` in either sense, parts without labels. `strict` refuses them with the reason `flagged`
    (or `unit_missing`, `unit_extra`). Never raises for a text; a gold that cannot be read is `gold_unread`.
    """
    if prediction is None or not prediction.strip():
        return Matched(False, Reason.NO_ANSWER)
    if len(prediction) > 4 * LONGEST:
        return Matched(False, Reason.TOO_LONG)
    if gold.kind == "multipart":
        return _match_parts(prediction, gold, mode)
    inside = boxes(prediction)
    if len({" ".join(box.split()) for box in inside}) > 1:
        return Matched(False, Reason.SEVERAL)
    if inside and gold.kind == "numeric":
        return _by_mode(_match_boxed_number(prediction, inside[-1], gold), mode)
    return _by_mode(_match_one(inside[-1] if inside else prediction, gold), mode)


def _match_boxed_number(text: str, box: str, gold: Gold) -> Matched:
    """A number in a box, whose unit may stand behind it: `\\boxed{3} km/s` is no 3 m/s."""
    behind = text[text.rfind(box) + len(box) :].strip().removeprefix("}").strip()
    if behind:
        decision = match_number(f"{box} {behind}", gold)
        if decision.reason not in (Reason.UNREAD, Reason.UNIT_UNKNOWN):
            return decision
    return match_number(box, gold)


def _match_one(text: str, gold: Gold) -> Matched:
    match gold.kind:
        case "numeric":
            return match_number(text, gold)
        case "symbolic":
            return match_expression(text, gold)
        case "mcq":
            return match_choice(text, gold)
        case _:
            return match_words(text, gold)


def _by_mode(decision: Matched, mode: Mode) -> Matched:
    refused = decision.flags & STRICT_REFUSES
    if mode == "lenient" or not decision.right or not refused:
        return decision
    by_unit = {Flag.UNIT_MISSING: Reason.UNIT_MISSING, Flag.UNIT_EXTRA: Reason.UNIT_EXTRA}
    reason = next((by_unit[flag] for flag in by_unit if flag in refused), Reason.FLAGGED)
    return Matched(False, reason, flags=decision.flags)


def _match_parts(text: str, gold: Gold, mode: Mode) -> Matched:
    """By label; `credit` is the share of right parts, and only all of them are right."""
    inside = boxes(text)
    if len(inside) == 1:
        text = inside[0]
    labelled = _by_label(text, tuple(gold.parts))
    flags: frozenset[Flag] = frozenset()
    if not labelled:
        pieces = inside if len(inside) == len(gold.parts) else _pieces(text)
        if len(pieces) != len(gold.parts):
            return Matched(False, Reason.NO_PARTS)
        flags = frozenset({Flag.PARTS_BY_ORDER})
        if mode == "strict":
            return Matched(False, Reason.FLAGGED, flags=flags)
        labelled = {label: [piece] for label, piece in zip(gold.parts, pieces, strict=True)}
    parts = {}
    for label, part in gold.parts.items():
        said = labelled.get(label, [])
        if len(said) == 1:
            parts[label] = match(said[0], part, mode)
        else:
            parts[label] = Matched(False, Reason.PART_TWICE if said else Reason.PART_MISSING)
    credit = sum(part.right for part in parts.values()) / len(parts)
    flags = flags.union(*(part.flags for part in parts.values()))
    reason = Reason.ALL_PARTS if credit == 1 else Reason.SOME_PARTS
    return Matched(credit == 1, reason, credit, flags, parts)


def _by_label(text: str, labels: tuple[str, ...]) -> dict[str, list[str]]:
    """What stands behind each label, up to the next: `(a)`, `a)`, `a.`, `a:`, `Part a:`, `a =`."""
    names = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    marker = re.compile(
        rf"(?<![A-Za-z0-9_\\^{{(])(?:\\text\s*\{{\s*)?(?:part\s+)?(?:\(\s*({names})\s*\)|({names})\s*(?:[):]|\.(?!\d)|=(?!=)))(?:\s*\}})?[:=]?",
        re.IGNORECASE if len({label.lower() for label in labels}) == len(labels) else 0,
    )
    found = list(marker.finditer(text))
    said: dict[str, list[str]] = {}
    same = {label.lower(): label for label in labels}
    for here, after in zip_longest(found, found[1:]):
        name = here[1] or here[2]
        label = name if name in labels else same[name.lower()]
        piece = text[here.end() : after.start() if after else len(text)].strip()
        said.setdefault(label, []).append(_ended(piece))
    return said


def _ended(piece: str) -> str:
    """A piece without what leads to the next: commas, blanks, `and`."""
    while True:
        shorter = piece.rstrip(",;. \t\r\n\\").removesuffix(r"\quad").removesuffix(r"\qquad")
        shorter = shorter.removesuffix(" and").removesuffix(r"\text{ and }").removesuffix(r"\text{and}")
        if shorter == piece:
            return piece
        piece = shorter


def _pieces(text: str) -> list[str]:
    """Parts without labels: by semicolon, line, or comma with a blank."""
    for mark in (r";", r"\\\\|\n", r",\s"):
        pieces = [piece.strip() for piece in re.split(mark, text) if piece.strip()]
        if len(pieces) > 1:
            return pieces
    return [text]
