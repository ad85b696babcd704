"""What every engine of this machine is: one thread that takes requests as they come, and answers them.

    requests → plan (who shares what with whom) → what is new is read → first tokens → steps → results

Rows of finished turns are parked with their caches; the next turn of the same ledger goes on from there. Who computes,
and where keys and values lie, is the subclass's. Nothing here needs torch.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import InvalidStateError
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from specvet.chat import (
    ChatFormat,
    ImageError,
    ImageSegment,
    Ledger,
    LedgerError,
    SampledSegment,
    Stop,
    TextSegment,
    Vocabulary,
)
from specvet.policies.serving.jobs import Job, Request, Tally
from specvet.policies.serving.lanes import Lanes
from specvet.policies.serving.rows import Rows
from specvet.policies.serving.stops import StopTexts
from specvet.policies.tokens import PolicyError, Samples, SamplingParams, Sequence, Usage


class Serving(ABC):
    """Owns the thread, which the subclass starts when it is ready (`_thread.start()`). At most `branches` rows are
    sampled at a time; `stop_ids` end a turn."""

    def __init__(
        self,
        name: str,
        rows: Rows,
        *,
        stop_ids: Iterable[int],
        branches: int,
        usage: Usage,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """`vocabulary` is needed where requests name stop texts."""
        self.usage = usage
        self._vocabulary = vocabulary
        self._stop_ids, self._branches = sorted(stop_ids), branches
        self._rows = rows
        self._tally = Tally(usage)
        self._lanes = Lanes(self._stop_ids)
        self._waiting: deque[Request] = deque()
        self._wake = threading.Condition()
        self._inbox: deque[Request | Callable[[], None]] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- what the subclass does

    @abstractmethod
    def _admit(self) -> None:
        """Begin what waits, as far as there is room."""

    @abstractmethod
    def _step(self) -> None:
        """A token, or a block of them, for all rows that move."""

    @abstractmethod
    def _forget(self) -> None:
        """Throw away what rows lay in: nothing of it can be trusted."""

    @abstractmethod
    def _check(self, pictures: Iterable[ImageSegment]) -> None:
        """Raises LedgerError, ImageError for pictures that cannot be decoded."""

    def _computing(self) -> AbstractContextManager[object]:
        """What the thread runs in."""
        return contextlib.nullcontext()

    # --- from other threads

    def check_open(self) -> None:
        """Raises PolicyError once closed."""
        if self._closed:
            raise PolicyError("this policy is closed", fatal=True)

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        """n sequences that continue the ledger. Raises LedgerError, ImageError, PolicyError."""
        started = time.perf_counter()
        ledger = ledger.fork()
        self.usage.requests += 1
        given: list[Samples] = []
        texts = None
        if params.stop:
            if self._vocabulary is None:
                raise PolicyError("this engine was given no vocabulary, so it cannot look for stop texts")
            texts = StopTexts(params.stop, self._vocabulary)
        try:
            for first in range(0, n, self._branches):  # more than can be sampled at a time go one after the other
                request = Request(ledger, min(self._branches, n - first), params, first, texts)
                self._post(request)
                given.append(await asyncio.wrap_future(request.done))
        finally:
            self.usage.seconds += time.perf_counter() - started
        sequences = tuple(s for g in given for s in g.sequences)
        return Samples(sequences, given[0].prompt_tokens, given[0].cached_tokens)

    def release(self, ledger: Ledger) -> None:
        """Rows of this ledger may go first."""
        with contextlib.suppress(PolicyError):  # closed: there are none
            self._post(lambda: self._rows.release(ledger))

    def close(self) -> None:
        """End the thread; what is being sampled fails. Waits for the step in hand."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _post(self, item: Request | Callable[[], None]) -> None:
        with self._wake:
            self.check_open()
            self._inbox.append(item)
            self._wake.notify()

    # --- on the thread

    def _run(self) -> None:
        with self._computing():
            while self._take_in():
                try:
                    self._drop_cancelled()
                    with self._timed("prefill_s"):
                        self._admit()
                    with self._timed("decode_s"):
                        self._step()
                except BaseException as e:  # whatever it is, those who wait must hear of it
                    self._fail(self._explained(e))
        self._fail(PolicyError("the policy was closed while this was being sampled"))

    def _take_in(self) -> bool:
        """Take what was posted, waiting while there is nothing to do; False once closed."""
        with self._wake:
            while not (self._inbox or self._waiting or self._lanes.n_busy or self._closed):
                with self._timed("idle_s"):
                    self._wake.wait()
            items = list(self._inbox)
            self._inbox.clear()
            closed = self._closed
        for item in items:
            if isinstance(item, Request):
                self._waiting.append(item)
            else:
                item()
        return not closed

    def _drop_cancelled(self) -> None:
        self._waiting = deque(r for r in self._waiting if not r.done.cancelled())
        for branch in self._lanes.in_hand():
            if branch.request.done.cancelled():
                row = branch.row
                row.filled, row.busy, row.over = int(self._lanes.column[row.slot]), False, True
                self._lanes.stop(row.slot)

    def _fail(self, error: BaseException) -> None:
        """Everything in flight fails, and nothing that is kept can be trusted."""
        failed = {b.request for b in self._lanes.in_hand()} | set(self._waiting)
        self._lanes = Lanes(self._stop_ids)
        self._waiting.clear()
        self._rows.clear()
        self._forget()
        for request in failed:
            _settle(request, error)

    def _can_be_shown(self, job: Job) -> bool:
        """Whether a job's pictures can be decoded; else it fails alone."""
        try:
            self._check(job.pictures)
        except (LedgerError, ImageError) as e:
            for row in job.rows:
                row.busy = False
                if row is not job.found.row:
                    self._rows.drop(row)
            _settle(job.request, e)
            return False
        return True

    def _append(
        self, slots: NDArray[np.int64], ids: NDArray[np.int64], logprobs: NDArray[np.float32], *, stepped: bool
    ) -> None:
        """Give rows their new tokens, shape (steps, rows); park and answer those that have ended."""
        ended: dict[int, Stop] = {
            slot: _STOPS[with_end] for slot, with_end in self._lanes.append(slots, ids, logprobs, stepped=stepped)
        }
        for slot in slots[self._lanes.watched[slots]].tolist():
            if ended.get(slot) != "end" and self._completed(slot):
                ended[slot] = "stop"
        for slot, stop in ended.items():
            said, values = self._lanes.words(slot)
            filled = int(self._lanes.column[slot])
            branch = self._lanes.stop(slot)
            request = branch.request
            ledger = request.ledger.fork()
            ledger.append_sampled(said, None, stop)
            self._rows.hold(branch.row, ledger, filled, busy=False)
            self._tally.sampled(ledger, len(said))
            request.sequences[branch.index] = Sequence(said, values, stop)
            if len(request.sequences) == request.n:
                _settle(request)

    def _completed(self, slot: int) -> bool:
        """Whether the newest token of a row completes a stop text of its request."""
        branch = self._lanes.branches[slot]
        assert branch is not None
        texts = branch.request.texts
        return texts is not None and texts.completed(self._lanes.newest(slot, texts.reach))

    def _count_steps(self, n: int) -> None:
        self.usage.notes["decode_steps"] = self.usage.notes.get("decode_steps", 0) + n

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Add the seconds that this takes to the usage's notes. A GPU's work counts where it is waited for."""
        started = time.perf_counter()
        yield
        self.usage.notes[name] = self.usage.notes.get(name, 0.0) + time.perf_counter() - started

    def _explained(self, error: BaseException) -> BaseException:
        """An error as a caller can act on it."""
        if isinstance(error, PolicyError | LedgerError | ImageError):
            return error
        said = PolicyError(f"sampling failed: {type(error).__name__}: {error}")
        said.__cause__ = error
        return said


def check_request(
    ledger: Ledger, n: int, params: SamplingParams, *, format: ChatFormat, context: int, policy: str
) -> None:
    """Raises LedgerError for what a policy of this format and context cannot be asked."""
    if ledger.kind != "tokens":
        raise LedgerError(f"the {policy} policy continues token ids; this ledger holds words only")
    if ledger.format != format.name or ledger.vocabulary != format.vocabulary.fingerprint:
        raise LedgerError(
            f"{ledger!r} (vocabulary {ledger.vocabulary[:12]}) is not of this model's format {format.name} "
            f"(vocabulary {format.vocabulary.fingerprint[:12]})"
        )
    if not ledger.n_tokens:
        raise LedgerError("an empty ledger; there is no prompt to continue")
    if n < 1 or params.max_tokens < 1:
        raise LedgerError(f"{n} sequences of up to {params.max_tokens} tokens; both must be at least 1")
    if not all(params.stop):
        raise LedgerError("an empty stop text, which every token would complete")
    if not 0 <= params.temperature < math.inf or not 0 < params.top_p <= 1 or not 0 <= params.top_k < 1 << 31:
        raise LedgerError(f"temperature {params.temperature}, top_p {params.top_p}, top_k {params.top_k}: out of range")
    if ledger.n_tokens + params.max_tokens > context:
        raise LedgerError(
            f"a prompt of {ledger.n_tokens} tokens and up to {params.max_tokens} sampled ones, but the context is "
            f"{context}: at most {max(0, context - ledger.n_tokens)} fit"
        )
    for segment in ledger.images:
        rows, columns = format.geometry.grid(segment.width, segment.height)
        if (segment.rows, segment.columns) != (rows, columns):
            raise LedgerError(
                f"a picture of {segment.width} x {segment.height} pixels counted as {segment.rows} x "
                f"{segment.columns} tokens; this model makes {rows} x {columns} of it"
            )


def check_ids(ledger: Ledger, n_ids: int) -> None:
    """Raises LedgerError where an id is beyond a model's."""
    highest = 0
    for segment in ledger:
        if isinstance(segment, ImageSegment):
            highest = max(highest, segment.pad_id)
        elif isinstance(segment, TextSegment | SampledSegment) and segment.ids:
            highest = max(highest, *segment.ids)
    if highest >= n_ids:
        raise LedgerError(f"the token id {highest} is beyond the model's {n_ids} ids")


_STOPS: tuple[Stop, Stop] = ("length", "end")


def _settle(request: Request, error: BaseException | None = None) -> None:
    """Answer a request, with its samples or an error."""
    with contextlib.suppress(InvalidStateError):  # called off meanwhile, or answered
        if error is not None:
            request.done.set_exception(error)
        else:
            request.done.set_result(request.samples())
