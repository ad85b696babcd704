"""Cases: what triage weighs of a run, one for each spectrum and task, whatever number of samples it holds.

| feature | what it is |
|---|---|
| `policy` | log-odds of YES that the policy gave, the mean over samples (without probabilities, of its votes) |
| `votes` | agreement: of the samples that answer, the share of YES less that of NO (−1 … 1) |
| `unsure` | share of the samples that say UNSURE |
| `calls` | looks through the zoom tool, the mean over samples |
| `index` | log-odds of the measured indices, as `line-indices` weighs them for the same spectrum and task |
| `index_sn` | decimal logarithm of the signal to noise of those indices, each with the weight of its log-odds |
| `snr` | decimal logarithm of the median signal to noise a pixel of the spectrum |
| `supported`, `contradicted` | claims of the trace that the measured spectrum bears out, and contradicts (log(1 + n)) |

A feature that is not known is NaN; so is `policy` where a prefilter said NO and nobody was asked.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from specvet.records.decision import WHOLE_FILE
from specvet.records.schema import Answer, Verdict
from specvet.vetting.prefilter import PREFIX
from specvet.vetting.rows import rated

if TYPE_CHECKING:
    from specvet.records import Decision

FEATURES = ("policy", "votes", "unsure", "calls", "index", "index_sn", "snr", "supported", "contradicted")
"""In the order of a row of features."""

LIMIT = 12.0
"""Log-odds beyond which a policy or a sum of evidence is not believed to know more."""

DECIDED = frozenset({Answer.YES, Answer.NO})

SIMULATED = "SIMULATED"
"""What the warnings of a simulated spectrum say."""

Place = tuple[str, int, str]
"""File as the run knows it (`RunFolder.key`), row and task."""

Look = Callable[["Decision"], Mapping[str, float]]
"""More features of a decision, by name: of the indices of a policy that does not measure, of its claims."""


@dataclass(frozen=True, slots=True)
class Case:
    """One spectrum and task, all samples together."""

    file: str
    """As the user wrote it."""
    row: int
    task: str
    id: str
    answer: Answer
    """What most samples that answer say; UNSURE where they tie. Without any, the commonest other word."""
    p_raw: float | None
    """Probability of YES as the policy gave it, the mean over samples."""
    survey: str
    snr: float | None
    simulated: bool
    samples: int
    features: Mapping[str, float] = field(default_factory=dict)
    """Those of `FEATURES` that are known."""

    @property
    def scored(self) -> bool:
        """Whether the policy, or what was measured, says anything: else it goes to a person without a probability."""
        return "policy" in self.features or "index" in self.features

    @property
    def place(self) -> Place:
        return self.file, self.row, self.task


def cases_of(decisions: Iterable[Decision], look: Look | None = None) -> Iterator[Case]:
    """The cases of decisions, in the order of the first of each. ERROR rows, of the task `*`, are cases too.

    Decisions come with their trajectories. Samples of one spectrum and task may stand anywhere; what is kept of each
    is small.
    """
    gathered: dict[tuple[str, int, str, str], tuple[_First, list[_Sample]]] = {}
    for decision in decisions:
        # Unreadable list entries of one file differ in nothing but the id, see `specvet.records.database`.
        key = decision.file, decision.row, decision.task, decision.id if decision.task == WHOLE_FILE else ""
        if key not in gathered:
            gathered[key] = _first(decision), []
        gathered[key][1].append(_sample(decision, look))
    for first, samples in gathered.values():
        yield _case(first, samples)


class _First(NamedTuple):
    """What all samples share: far less than a decision, of which a list may hold a million."""

    file: str
    row: int
    task: str
    id: str
    survey: str
    snr: float | None
    simulated: bool


def _first(decision: Decision) -> _First:
    simulated = any(SIMULATED in warning for warning in decision.warnings)
    place = decision.file, decision.row, sys.intern(decision.task)
    return _First(*place, decision.id, sys.intern(decision.survey), decision.snr, simulated)


@dataclass(frozen=True, slots=True)
class _Sample:
    answer: Answer
    p_yes: float | None
    calls: int | None
    prefiltered: bool
    more: Mapping[str, float]


def _sample(decision: Decision, look: Look | None) -> _Sample:
    if decision.verdict.p_yes is None:
        decision = rated(decision)
    verdict, trajectory = decision.verdict, decision.trajectory
    more = index_features(verdict) if verdict.evidence else {}
    if look is not None and verdict.answer is not Answer.ERROR:
        more = {**more, **look(decision)}
    prefiltered = verdict.reason.startswith(PREFIX)
    calls = None if trajectory is None or prefiltered else trajectory.tool_calls
    return _Sample(verdict.answer, verdict.p_yes, calls, prefiltered, more)


def index_features(verdict: Verdict) -> dict[str, float]:
    """`index` and `index_sn` of a verdict that was measured."""
    total = sum(item.log_odds for item in verdict.evidence)
    found = {"index": max(-LIMIT, min(LIMIT, total))}
    weight = signal = 0.0
    for item in verdict.evidence:
        m = item.measurement
        if m.value is not None and m.error:
            weight += abs(item.log_odds)
            signal += abs(item.log_odds) * math.log10(1.0 + min(abs(m.value) / m.error, 1e6))
    if weight:
        found["index_sn"] = signal / weight
    return found


def _case(first: _First, samples: Sequence[_Sample]) -> Case:
    said = Counter(s.answer for s in samples)
    votes = said[Answer.YES] - said[Answer.NO]
    decided = said[Answer.YES] + said[Answer.NO]
    if 2 * decided > len(samples):
        answer = Answer.YES if votes > 0 else Answer.NO if votes < 0 else Answer.UNSURE
    else:
        answer = max((a for a in said if a not in DECIDED), key=lambda a: said[a], default=Answer.UNSURE)
    given = [s.p_yes for s in samples if s.p_yes is not None]
    features = {"votes": votes / decided if decided else 0.0, "unsure": said[Answer.UNSURE] / len(samples)}
    asked = [s.p_yes for s in samples if s.p_yes is not None and not s.prefiltered]
    if asked:
        features["policy"] = sum(map(log_odds, asked)) / len(asked)
    elif decided and not given:
        # Half a vote for each side, so that one sample does not make a certainty (Jeffreys' prior).
        features["policy"] = math.log((said[Answer.YES] + 0.5) / (said[Answer.NO] + 0.5))
    if calls := [s.calls for s in samples if s.calls is not None]:
        features["calls"] = sum(calls) / len(calls)
    if first.snr is not None and math.isfinite(first.snr):
        features["snr"] = math.log10(max(first.snr, 0.1))
    for name in {name for s in samples for name in s.more}:
        values = [s.more[name] for s in samples if name in s.more]
        features[name] = sum(values) / len(values)
    p_raw = sum(given) / len(given) if given else None
    return Case(
        file=first.file,
        row=first.row,
        task=first.task,
        id=first.id,
        answer=answer,
        p_raw=p_raw,
        survey=first.survey,
        snr=first.snr,
        simulated=first.simulated,
        samples=len(samples),
        features=features,
    )


def log_odds(p: float) -> float:
    """Of a probability, within ±`LIMIT`."""
    q = 1.0 / (1.0 + math.exp(LIMIT))
    p = min(max(p, q), 1.0 - q)
    return math.log(p / (1.0 - p))
