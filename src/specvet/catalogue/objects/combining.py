"""Verdicts over epochs: what the votes on several spectra of one star amount to, so that one outburst is not outvoted.

Each epoch has one vote, of the highest authority that spoke of it: a person, else triage, else the policy. YES and NO
vote; UNSURE, NO_DATA, FAILED and ERROR do not, and are told. The rule is the task's (`specvet.tasks.epochs`).

`any_yes` is for stars that change: an epoch at rest does not speak against an outburst. `weighed` is for what does not
change. Its p(YES) is a mean and no product, since spectra of one star share their faults (templates, calibration, the
policy itself): ten epochs that agree are hardly surer than one. There a person who saw an epoch saw the star, so where
people decided any epoch, only theirs count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from specvet.catalogue.sighting import Key
from specvet.records.schema import Answer
from specvet.tasks.epochs import DEFAULT, Epochs, Rule

Authority = Literal["person", "triage", "policy"]

CERTAIN = 0.99
"""p(YES) of a person's YES; 0.01 of a NO. The log-odds of no epoch count for more (±4.6)."""
WORD = 0.9
"""p(YES) of a YES that comes without a probability; 0.1 of a NO."""
LEAST_WEIGHT, MOST_WEIGHT = 1.0, 50.0
"""Of an epoch: its S/N within these. Above 50 what limits a verdict is no longer noise. Unknown S/N weighs least."""
SURE_YES, SURE_NO = 0.7, 0.3
"""Where epochs conflict, what lies between is UNSURE."""

_ABSTAIN = (Answer.UNSURE, Answer.FAILED, Answer.NO_DATA, Answer.ERROR)
"""What an object is where no epoch votes: the first of these that an epoch says."""


@dataclass(frozen=True, slots=True)
class Vote:
    """What was said of one epoch for one task."""

    key: Key
    answer: Answer
    p_yes: float | None = None
    """Probability of YES, where one was given."""
    snr: float | None = None
    mjd: float | None = None
    """Days."""
    likelier: str = ""
    """For a NO: the class that fits better."""
    by: Authority = "policy"

    @property
    def votes(self) -> bool:
        return self.answer in (Answer.YES, Answer.NO)

    @property
    def p(self) -> float:
        """p(YES) as it is counted; of an epoch that votes."""
        if self.by == "person" or self.p_yes is None:
            sure = CERTAIN if self.by == "person" else WORD
            return sure if self.answer is Answer.YES else 1.0 - sure
        return min(max(self.p_yes, 1.0 - CERTAIN), CERTAIN)

    @property
    def weight(self) -> float:
        known = self.snr is not None and math.isfinite(self.snr)
        return min(max(self.snr or 0.0, LEAST_WEIGHT), MOST_WEIGHT) if known else LEAST_WEIGHT


@dataclass(frozen=True, slots=True)
class Combined:
    """What is said of one object for one task."""

    answer: Answer
    p_yes: float | None
    """As the rule's formula gives it (`specvet.tasks.epochs.RULES`); None where no epoch votes."""
    rule: Rule
    reason: str
    """In words, with the conflict where there is one."""
    conflict: bool
    """Whether some epochs say YES and others NO, of those that count."""
    yes: tuple[Key, ...]
    no: tuple[Key, ...]
    likelier: str | None
    """For a NO: the class that most of its epochs name."""
    by: Authority | None
    """The highest authority among the epochs that count; None where none does."""


def combine(votes: Iterable[Vote], epochs: Epochs | None = None) -> Combined:
    """One verdict from the votes of an object's epochs, at least one, whatever their order.

    Without `epochs` the default rule holds. Raises ValueError without votes.
    """
    rule = epochs or DEFAULT
    said = sorted(votes, key=lambda v: (v.mjd is None, v.mjd or 0.0, v.key))
    if not said:
        raise ValueError("no votes: an object has at least one spectrum")
    counted = [v for v in said if v.votes]
    people = [v for v in counted if v.by == "person"]
    if rule.rule == "weighed" and people:
        counted = people
    yes, no = ([v for v in counted if v.answer is word] for word in (Answer.YES, Answer.NO))
    if not counted:
        answer = next(word for word in _ABSTAIN if any(v.answer is word for v in said))
        p, reason = None, f"no epoch says YES or NO: {_counts(said)}"
    elif rule.rule == "any_yes":
        answer, p, reason = _any_yes(yes, no, rule.trusted)
    else:
        answer, p, reason = _weighed(yes, no)
    left = [v for v in said if v not in counted]
    if counted and left:
        reason += f"; not counted: {_counts(left)}"
    return Combined(
        answer=answer,
        p_yes=p,
        rule=rule.rule,
        reason=reason,
        conflict=bool(yes and no),
        yes=tuple(v.key for v in yes),
        no=tuple(v.key for v in no),
        likelier=_likelier(no) if answer is Answer.NO else None,
        by=_highest(counted),
    )


def _any_yes(yes: Sequence[Vote], no: Sequence[Vote], least: float) -> tuple[Answer, float, str]:
    p = max(v.p for v in (*yes, *no))
    trusted = [v for v in yes if v.by != "policy" or v.p_yes is None or v.p_yes >= least]
    n = len(yes) + len(no)
    if trusted:
        return Answer.YES, p, f"YES in {len(yes)} of {_epochs(n)}{_when(yes)}{', which is enough' if no else ''}"
    if yes:
        best = max(v.p for v in yes)
        return Answer.UNSURE, p, f"YES in {len(yes)} of {_epochs(n)}{_when(yes)}, but at p {best:.2f} below {least:g}"
    return Answer.NO, p, f"NO in {'the only epoch' if n == 1 else f'all {n} epochs'}"


def _weighed(yes: Sequence[Vote], no: Sequence[Vote]) -> tuple[Answer, float, str]:
    counted = [*yes, *no]
    total = math.fsum(v.weight for v in counted)
    odds = math.fsum(sorted(v.weight * math.log(v.p / (1.0 - v.p)) for v in counted)) / total
    p = 1.0 / (1.0 + math.exp(-odds))
    if not (yes and no):
        word = Answer.YES if yes else Answer.NO
        return word, p, f"{word} in {'the only epoch' if len(counted) == 1 else f'all {len(counted)} epochs'}"
    answer = Answer.YES if p >= SURE_YES else Answer.NO if p <= SURE_NO else Answer.UNSURE
    verdict = "which does not decide" if answer is Answer.UNSURE else f"so {answer}"
    told = f"epochs conflict: {len(yes)} YES{_when(yes)}, {len(no)} NO{_when(no)}"
    return answer, p, f"{told}; by S/N they amount to p(YES) {p:.2f}, {verdict}"


def _likelier(no: Sequence[Vote]) -> str | None:
    named = Counter(v.likelier for v in no if v.likelier)
    return min(named, key=lambda name: (-named[name], name)) if named else None


def _highest(counted: Sequence[Vote]) -> Authority | None:
    order: tuple[Authority, ...] = ("person", "triage", "policy")
    return next((who for who in order if any(v.by == who for v in counted)), None)


def _counts(votes: Sequence[Vote]) -> str:
    """`2 UNSURE, 1 NO_DATA`."""
    n = Counter(v.answer for v in votes)
    return ", ".join(f"{n[word]} {word}" for word in Answer if n[word])


def _epochs(n: int) -> str:
    return "1 epoch" if n == 1 else f"{n} epochs"


def _when(votes: Sequence[Vote]) -> str:
    """` (MJD 55555.1, 55600)`, the first three; empty where no time is known."""
    known = [f"{v.mjd:.7g}" for v in votes if v.mjd is not None]
    more = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return f" (MJD {', '.join(known[:3])}{more})" if known else ""
