"""Answers that are a letter, or words."""

from __future__ import annotations

import re
import unicodedata

from specvet.records.problems import LETTERS, Gold
from specvet.tasks.physics.plain import LONGEST, plain
from specvet.tasks.physics.reasons import Matched, Reason, UnreadError

_LEAD = r"(?:(?:the )?(?:correct |final |right )*(?:answer|option|choice)(?: is)?:? )?(?:(?:option|choice) )?"
_LETTER = re.compile(
    rf"(?i:{_LEAD})(?:\(([A-Ja-j])\)|\[([A-Ja-j])\]|([A-Ja-j])(?=[).:,;]|\Z| \())[).:]?(?P<rest>.*)\Z", re.DOTALL
)
_ALONE = re.compile(r"(?<![A-Za-z0-9\\])\(?([A-J])\)?(?![A-Za-z0-9'])")


def match_choice(text: str, gold: Gold) -> Matched:
    """Whether a text names the right choice: its letter, with or without its text, or its text alone."""
    try:
        said = plain(text).rstrip(".,; ")
    except UnreadError as e:
        return Matched(False, e.reason)
    texts = {letter: words(choice) for letter, choice in zip(LETTERS, gold.choices, strict=False)}
    by_text = [letter for letter, choice in texts.items() if choice == words(said)]
    found = _LETTER.match(said)
    if found is None or (len(by_text) == 1 and len(said) > 1):
        if len(by_text) != 1:
            several = len(by_text) > 1 or len(set(_ALONE.findall(said))) > 1
            return Matched(False, Reason.SEVERAL if several else Reason.NO_LETTER)
        right = by_text[0] == gold.value
        return Matched(right, Reason.CHOICE_TEXT if right else Reason.OTHER_LETTER)
    letter = next(group for group in found.groups() if group).upper()
    rest = found["rest"].strip(" .:,;-")
    if letter not in texts:
        return Matched(False, Reason.NO_LETTER)
    if rest and words(rest) != texts[letter]:
        if words(rest) in texts.values():
            return Matched(False, Reason.LETTER_AND_TEXT)
        if set(_ALONE.findall(rest)) & set(texts) - {letter} or re.match(r"(?i)(?:or|and)\b", rest):
            return Matched(False, Reason.SEVERAL)
    right = letter == gold.value
    return Matched(right, Reason.LETTER if right else Reason.OTHER_LETTER)


def match_words(text: str, gold: Gold) -> Matched:
    """Whether a text is the words of the right answer, or other right words. Never whether it contains them."""
    if len(text) > LONGEST:
        return Matched(False, Reason.TOO_LONG)
    right = words(text) in {words(answer) for answer in (str(gold.value), *gold.also)}
    return Matched(right, Reason.SAME_TEXT if right else Reason.OTHER_TEXT)


def words(text: str) -> str:
    """A text without case, articles, marks at its ends and differences of notation."""
    try:
        text = plain(text)
    except UnreadError:
        text = text[:LONGEST]
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"\b(?:the|a|an) ", "", text)
    return " ".join(re.sub(r"[\"“”.,;:!?]+(?= |\Z)|\A[\"“”]", " ", text).split())
