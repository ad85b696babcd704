"""Words → what they claim: sentences are cut into groups of a feature, what is said of it, and a number.

    sentence → chunks at commas, colons, `and`, `but` → groups: names + polarity + number → `Stated`

A name without a polarity waits for the next chunk (`Hα, Hβ and Hγ are in emission`), a chunk without a name belongs to
the one before (`Hα absorption, EW 4.2`), a bare name after a complete group shares its polarity when that stood first
(`no Hα, Hβ or Hγ`). Sentences that plan, ask, suppose or doubt claim nothing: it is better to miss a claim than to
make one up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specvet.vetting.claims.claim import Says
from specvet.vetting.claims.naming import Mention, Named, Names, Reading

MAX_TEXT = 20_000
"""Characters of one turn that are read: a model that loops may write for ever."""

MAX_SENTENCE = 600
"""And of one sentence: what has no end is no sentence, and the time to read one grows with the square of its length."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written."""

    value: float
    unit: str
    """`Å`, `km/s` or nothing."""
    step: float
    """Of its last digit."""
    bound: str = ""
    """`at most` or `at least`, where it is said to be a limit."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a text says of one feature."""

    text: str
    says: Says
    named: Named | None = None
    reading: Reading | None = None
    number: Number | None = None
    negated: bool = False
    """Of a reading: the words around it say that it is not so."""


_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_CHUNK = re.compile(
    r"[,:(—–]\s+|\s\(|\)|\s+(?=(?:but|while|whereas|although|though|yet|however|without|nor|and|or|with)\b)"
)

_PLANS = re.compile(
    r"\?|\b(?:zoom\w*|look(?:ing)? (?:at|for|in|into|closer)|checks?|checking|examin\w+|inspect\w*|search\w*|"
    r"I (?:still )?(?:need|want|lack|go|start|begin|turn|use)|still (?:missing|to be)|let(?:'s| me| us)|"
    r"should|would|could|might|may|cannot|can|will|if|whether|unless|expect\w*|typical\w*|usual\w*|requires?|"
    r"(?:to|and) (?:confirm|verify|see|find|test|disprove|rule)|depends?|decides?|hangs on|matters? most|focus\w*|"
    r"deceive\w*|keep in mind|mistaken|trap|distinguish\w*|criteri\w+|candidates?|next|rival|characteris\w+|"
    r"characteriz\w+|speaks?|argue|mean an?)\b"
    r"|^(?:first|next|now|then|confirm|hope|close|aside|start|begin|missing|support|on to|further)\b",
    re.IGNORECASE,
)
"""What marks a sentence as a plan, a question, a rule or a supposition."""

_DOUBTS = re.compile(
    r"\b(?:perhaps|possibl[ey]|maybe|hints?|unsure|uncertain|unclear|ambiguous|seems?|appears? to|tentative\w*|"
    r"crowd\w*|bands around|lost in|noise hides|from noise|hard to tell|inconclusive|not (?:sure|clear|convincing)|"
    r"hardly|moderate|barely|marginal\w*|questionable|core|cores|double-peaked|P Cygni|join|telluric|sky)\b",
    re.IGNORECASE,
)  # fmt: skip
"""What takes the claim out of a group; its number may stand all the same. Cores and peaks have no index."""

_NOT = re.compile(
    r"\b(?:no|not|none|never|absent|absence|lacks?|lacking|missing|without|nothing|undetected|nor|neither|fails?|"
    r"smoothly|straight|invisible|shallow)\b|n't\b",
    re.IGNORECASE,
)  # fmt: skip
_TWICE = re.compile(
    r"\b(?:not (?:only|just|surprising\w*)|(?:not|isn't|aren't) (?:\w+ ){0,3}(?:absent|missing|lacking)|far from|"
    r"except\w*|apart from|other than|no (?:doubt|question)|without (?:a |any )?doubt)\b",
    re.IGNORECASE,
)
"""A denial that does not deny what stands beside it: `Hα is not absent`, `not only Hα`, `no emission except Hα`."""
_INSTRUMENT = re.compile(r"\bwithout (?:the |its )?(?:instrument|any zoom|zoom)\w*", re.IGNORECASE)
_RISE = re.compile(r"\b(?:rises?|rise instead|the other way|no such edge)\b", re.IGNORECASE)
_EMISSION = re.compile(r"\b(?:emission|emits?|emitting)\b", re.IGNORECASE)
_ABSORPTION = re.compile(r"\b(?:absorption|absorbs?|absorbed|absorbing|troughs?|dips?|cuts into)\b", re.IGNORECASE)
_BROAD = re.compile(r"\b(?:broad|broadened|wide|broader)\b", re.IGNORECASE)
_NARROW = re.compile(r"\b(?:narrow|unresolved)\b|\bnot resolved\b", re.IGNORECASE)
_STRONG = re.compile(r"\b(?:strong\w*|prominent\w*|deep\w*|intense\w*|conspicuous\w*|dominat\w+)\b", re.IGNORECASE)
_THERE = re.compile(
    r"\b(?:present|visible|seen|detected|there|shows?|showing|clear\w*|plain|obvious|evident|edges?|band ?heads?|"
    r"bands?|steps?|drops?|falls?|stands? out|exist\w*|found|weak|faint|detect|appear)\b",
    re.IGNORECASE,
)  # fmt: skip
_NUMBER = re.compile(
    r"(?<![\w.])(?P<value>[−-]?(?:\d{1,3},\d{3}(?= ?km)|\d+(?:\.\d+)?))"
    r"(?: ?(?:±|\+/-) ?\d+(?:\.\d+)?)?(?: ?(?P<unit>Å|A\b|km/s|km s-1|%))?"
)
_OTHER_UNIT = re.compile(r" ?(?:m[ÅA]|nm|[µμ]m)\b|[eE][+−-]?\d")
"""Behind a number that is not what its digits say."""
_OF_WIDTH = re.compile(r"\b(?:EW|equivalent width)\b", re.IGNORECASE)
_MOST = re.compile(r"\b(?:at most|below|under|less than)\b|<", re.IGNORECASE)
_LEAST = re.compile(r"\b(?:at least|above|over|more than|exceeds?)\b|>", re.IGNORECASE)
_RANGE = re.compile(
    r"\d+(?:\.\d+)?\s?(?:-|–|to|,)\s?\d{4}(?:\.\d+)?(?: ?Å)?|\[\d[^\]]*\]|\d\.?\d* ?(?:times|σ|%)|near \d{4}"
)
_TAG = re.compile(r"<[^<>\n]{1,40}>|\\boxed\{[^{}]*\}")
_LEAD = re.compile(
    r"\b(?:so|hence|thus|likely|in short|in words|my reading|I read it as|that means|weakly|if anything)\b",
    re.IGNORECASE,
)
"""What may stand before a bare name that is a finding: `Hence: CN 7910`."""

_ASIDE = re.compile(r"\s*(?:which|so|as|since|because|therefore|thus|this|that|I)\b", re.IGNORECASE)
"""What a chunk begins with that says nothing more of the feature before it."""

_LIST_ITEM = 14
"""Letters beside the name in a chunk that is but one more item of a list."""


def stated_in(text: str, names: Names) -> Iterator[Stated]:
    """What a text claims, in its order."""
    text = _TAG.sub(" ", text[:MAX_TEXT])
    for sentence in (whole.strip()[:MAX_SENTENCE] for whole in _SENTENCE.split(text)):
        mentions = names.in_text(sentence) if sentence else []
        # Words of a reading itself (`any normal star would show`) are no plan.
        if mentions and not _PLANS.search(_without(sentence, [m for m in mentions if m.reading is not None])):
            yield from _sentence(sentence, mentions)


def _without(sentence: str, mentions: Sequence[Mention]) -> str:
    for mention in mentions:
        sentence = sentence[: mention.start] + "x" * (mention.end - mention.start) + sentence[mention.end :]
    return sentence


@dataclass(slots=True)
class _Group:
    """Names of one kind of thing, and what is said of them."""

    start: int
    end: int
    mentions: list[Mention]
    words: str
    """Without the names."""
    head: str
    """What stands before the first name."""
    bare: str = ""

    @property
    def says(self) -> Says | None:
        return _says(self.words)


def _sentence(sentence: str, mentions: Sequence[Mention]) -> Iterator[Stated]:
    groups: list[_Group] = []
    for start, end in _chunks(sentence, mentions):
        here = [m for m in mentions if start <= m.start < end]
        words = _blanked(sentence, start, end, here)
        last = groups[-1] if groups else None
        if not here:
            if last is not None and not _ASIDE.match(words) and _goes_on(last, words):
                last.words += " , " + words
                last.end = end
            continue
        waits = last is not None and last.says is None and not _numbered(last.words) and not _reads(last)
        if last is not None and waits and not _reads_alone(here, words):
            last.mentions += here
            last.words += " , " + words
            last.end = end
            continue
        head = sentence[start : here[0].start]
        group = _Group(start, end, here, words, head)
        item = len(re.sub(r"\W|\band\b|\bor\b|\bnor\b", "", words)) <= _LIST_ITEM and group.says is None
        if item and last is not None and _says(last.head) is not None and not _numbered(words):
            group.words = last.head + " " + words
        groups.append(group)
    for group in groups:
        yield from _claims(sentence, group)


def _goes_on(last: _Group, words: str) -> bool:
    """Whether a chunk without a name says more of the names before it: what they show, how, or a number."""
    if _numbered(words) and not _numbered(last.words):
        return True
    if _reads(last):  # a phrase of the evidence says all by itself
        return False
    if last.says is None:
        return True
    return last.says in ("present", "strong") and _says(words) in ("emission", "absorption", "broad", "narrow")


def _chunks(sentence: str, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Where the chunks begin and end; a name is never cut."""
    start = 0
    for m in _CHUNK.finditer(sentence):
        if any(n.start < m.end() and m.start() < n.end for n in mentions) or m.start() <= start:
            continue
        yield start, m.start()
        start = m.start() if not m[0].strip() else m.end()
    yield start, len(sentence)


def _blanked(sentence: str, start: int, end: int, mentions: Sequence[Mention]) -> str:
    """A chunk's words with its names taken out."""
    words, at = [], start
    for m in mentions:
        words.append(sentence[at : m.start])
        at = max(at, min(m.end, end))
    words.append(sentence[at:end])
    return " _ ".join(words)


def _reads(group: _Group) -> bool:
    return any(m.reading is not None and m.named is None for m in group.mentions)


def _reads_alone(here: Sequence[Mention], words: str) -> bool:
    return any(m.reading is not None and m.named is None for m in here)


def _says(words: str) -> Says | None:
    """The polarity that words give to the names beside them; None where they give none."""
    if _DOUBTS.search(words) or _TWICE.search(words):
        return None
    words = _INSTRUMENT.sub(" ", words)
    negated = _NOT.search(words) is not None
    if _RISE.search(words) and not _EMISSION.search(words):
        return "absent"
    if _EMISSION.search(words):
        return "no emission" if negated else "emission"
    if _ABSORPTION.search(words):
        return "no absorption" if negated else "absorption"
    if _NARROW.search(words) and not negated:
        return "narrow"
    if _NARROW.search(words):
        return "narrow" if re.search(r"\bnot resolved\b", words, re.IGNORECASE) else None
    if _BROAD.search(words):
        return None if negated else "broad"
    if negated:
        return "absent" if not _STRONG.search(words) else None
    if _STRONG.search(words):
        return "strong"
    return "present" if _THERE.search(words) else None


def _claims(sentence: str, group: _Group) -> Iterator[Stated]:
    """One claim a name; a group of names shares what is said, and the last of them the number."""
    says = group.says
    number = _number(group.words)
    text = sentence[group.start : group.end].strip(" ,:;.")
    broad = says in ("emission", "absorption") and _BROAD.search(group.words) is not None
    narrow = says in ("emission", "absorption") and _NARROW.search(group.words) is not None
    for i, mention in enumerate(group.mentions):
        of = number if i == len(group.mentions) - 1 else None
        bare = says is None and number is None and _alone(group)
        if mention.reading is not None and (mention.named is None or bare):
            negated = _NOT.search(_INSTRUMENT.sub(" ", _TWICE.sub(" ", group.words))) is not None
            yield Stated(text, "reading", mention.named, mention.reading, of, negated)
            continue
        if mention.named is None:
            continue
        stated = Stated(text, says or "value", mention.named, None, of)
        if says is not None or of is not None:
            yield stated
        if broad or narrow:
            yield replace(stated, says="broad" if broad else "narrow", number=None)


def _alone(group: _Group) -> bool:
    """Whether a name stands for itself, with at most a lead and its number: `Hence: CN 7910, ratio 0.82`."""
    return len(re.sub(r"[\W_]", "", _LEAD.sub("", group.words))) <= 4


def _unranged(words: str) -> str:
    return _RANGE.sub(" ", words)


def _numbered(words: str) -> bool:
    return _number(words) is not None


def _number(words: str) -> Number | None:
    """The number that a group gives: a width in Å or km/s, or a ratio; None without any, and for wavelengths."""
    plain = _unranged(words)
    for m in _NUMBER.finditer(plain):
        if m["unit"] == "%" or (m["unit"] is None and _OTHER_UNIT.match(plain, m.end())):
            continue
        unit = {"A": "Å", "km s-1": "km/s"}.get(m["unit"] or "", m["unit"] or "")
        value = float(m["value"].replace("−", "-").replace(",", ""))
        if unit == "" and _OF_WIDTH.search(plain[: m.start()]):
            unit = "Å"
        if (unit == "Å" and abs(value) > 1000.0) or (unit == "" and abs(value) > 20.0) or "S/N" in plain[: m.start()]:
            continue
        written = m["value"].lstrip("−-")
        step = 10.0 ** -len(written.partition(".")[2]) if "." in written else 1.0
        bound = (
            "at most" if _MOST.search(plain[: m.start()]) else "at least" if _LEAST.search(plain[: m.start()]) else ""
        )
        return Number(value, unit, step, bound)
    return None
