"""What the engine is asked for (requests), what it starts (jobs), what runs (branches), and what that cost (tally)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from specvet.chat import ImageSegment, Ledger
from specvet.policies.serving.rows import Found, Reading, Row, Rows
from specvet.policies.serving.stops import StopTexts
from specvet.policies.tokens import Samples, SamplingParams, Sequence, Usage

MIN_SHARED = 16
"""Tokens for which a request waits until another that computes them is done."""
MAX_SEEN = 1 << 18
"""Prefixes that are remembered for counting what was new."""


@dataclass(slots=True, eq=False)
class Request:
    """n branches that continue one ledger."""

    ledger: Ledger
    n: int
    params: SamplingParams
    first: int = 0
    """Index of its first branch among those of its call."""
    texts: StopTexts | None = None
    """That end a turn as well."""
    done: Future[Samples] = field(default_factory=Future)
    """Cancelling it ends the branches."""
    sequences: dict[int, Sequence] = field(default_factory=dict)
    """Those that have ended, by branch."""
    cached: int = 0
    """Tokens of the prompt that some row held."""
    waited: int = 0
    """Blocks that it has let pass."""

    def samples(self) -> Samples:
        """The result, once all branches have ended."""
        sequences = tuple(self.sequences[i] for i in sorted(self.sequences))
        return Samples(sequences, self.ledger.n_tokens, self.cached)


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One sequence that is being sampled."""

    request: Request
    row: Row
    index: int
    """Of its stream."""
    offset: int
    """Rotary position less tokens."""


@dataclass(slots=True, eq=False)
class Job:
    """A request that starts: where it goes on from, and its rows, the first of which reads for all."""

    request: Request
    found: Found
    rows: list[Row]
    cuts: list[tuple[int, bytes]] = field(default_factory=list)
    """Where to keep the recurrent state on the way: (tokens, digest), ascending."""

    @property
    def pictures(self) -> list[ImageSegment]:
        """Pictures of which some token must be read."""
        return self.reading(self.found.length, self.request.ledger.n_tokens).pictures

    def reading(self, start: int, end: int) -> Reading:
        return Reading(self.rows[0].slot, self.request.ledger, start, end)

    def cut(self, end: int) -> None:
        """Other ledgers go their own way after the prefix of `end` tokens: its state will be asked for."""
        ledger = self.request.ledger
        if self.found.length < end < ledger.n_tokens:
            self.cuts = sorted({*self.cuts, (end, ledger.digests[ledger.ends.index(end)])})


def plan(waiting: deque[Request], rows: Rows, tally: Tally, room: int) -> tuple[list[Job], deque[Request]]:
    """Requests that start together in up to `room` rows, and those that go on waiting.

    Who comes first starts first; but a request that shares more with an earlier one of this round than lies in any row
    waits until that is computed. The jobs' rows are taken and marked as busy.
    """
    jobs: list[Job] = []
    computing: dict[bytes, Job] = {}
    needed: list[Row] = []
    later: deque[Request] = deque()
    while waiting:
        request = waiting.popleft()
        found = rows.find(request.ledger)
        shared, leader = _shared(request.ledger, computing, whole=rows.recurrent)
        if leader is not None and shared - found.length >= MIN_SHARED:
            if rows.recurrent:
                leader.cut(shared)
            later.append(request)
            continue
        keep = needed if found.row is None else [*needed, found.row]
        free = rows.free(request.n - found.taken_over, keep) if request.n <= room else None
        if free is None:
            later.append(request)
            break
        own = [found.row] if found.row is not None and found.taken_over else []
        job = Job(request, found, own + free)
        if rows.recurrent:
            job.cut(tally.longest_seen(request.ledger))
        for row in job.rows:
            row.busy = True
        room -= request.n
        needed = [*keep, *job.rows]
        jobs.append(job)
        for digest in request.ledger.digests[1:]:
            computing.setdefault(digest, job)
    return jobs, later + waiting


def _shared(ledger: Ledger, jobs: Mapping[bytes, Job], *, whole: bool) -> tuple[int, Job | None]:
    """The longest prefix, of all but the last token, that a job (by digest) computes too: its tokens, and the job.

    `whole` segments only, where a state is needed at its end.
    """
    last = ledger.n_tokens - 1
    for digest, end in zip(ledger.digests[:0:-1], ledger.ends[:0:-1], strict=True):
        if digest in jobs and (end <= last or not whole):
            return min(end, last), jobs[digest]
    return 0, None


class Tally:
    """Counts tokens into a `Usage`, and remembers which prefixes it has seen."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._seen: OrderedDict[bytes, bool] = OrderedDict()
        """By digest: whether its last segment was sampled here and has not been part of a prompt yet."""

    def prompt(self, ledger: Ledger, cached: int) -> None:
        """A prompt of which `cached` tokens were not computed."""
        self._usage.prompt_tokens += ledger.n_tokens
        self._usage.prefilled_tokens += ledger.n_tokens - cached
        for digest, segment in zip(ledger.digests[1:], ledger, strict=True):
            own = self._seen.get(digest)
            if own is None:
                self._usage.unique_tokens += segment.n_tokens
            elif own:  # all but its last token went through the model while it was sampled
                self._usage.unique_tokens += 1
            self._seen[digest] = False
            self._seen.move_to_end(digest)
        while len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)

    def sampled(self, ledger: Ledger, n: int) -> None:
        """The ledger's last segment of n tokens was sampled here."""
        self._usage.sampled_tokens += n
        self._seen.setdefault(ledger.digest, True)

    def longest_seen(self, ledger: Ledger) -> int:
        """Tokens of the longest prefix, of all but the last token, that an earlier ledger had too."""
        last = ledger.n_tokens - 1
        known = zip(ledger.digests[1:], ledger.ends[1:], strict=True)
        return max((end for digest, end in known if digest in self._seen and end <= last), default=0)

    def forget(self) -> None:
        self._seen.clear()
