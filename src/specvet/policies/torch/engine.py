"""The engine: one thread that owns the model and its arena, and steps all branches together, in blocks of steps."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specvet.chat import ImageSegment, Vocabulary
from specvet.policies.serving.jobs import Branch, Job, plan
from specvet.policies.serving.rows import Rows
from specvet.policies.serving.thread import Serving
from specvet.policies.tokens import PolicyError, Usage
from specvet.policies.torch.arena import Arena, shapes_of
from specvet.policies.torch.layers import TextLayers
from specvet.policies.torch.model import TorchModel, at_home, is_out_of_memory
from specvet.policies.torch.positions import next_position
from specvet.policies.torch.prefill import prefill
from specvet.policies.torch.sampling import draw
from specvet.policies.torch.steps import MAX_BLOCK, Stepper

BLOCK = {"cuda": 8, "cpu": 1}
"""Steps between two looks at the results: on a GPU each look waits for it, on a CPU looking costs nothing."""
PATIENCE = 4
"""Blocks that waiting requests let pass until enough of them have gathered for one prefill."""


class Hold:
    """For whoever trains: within it, weights and device are the caller's."""

    def __init__(self) -> None:
        self._entered: Future[None] = Future()
        self._leave = threading.Event()

    def __enter__(self) -> Hold:
        """Waits for the block in hand. Raises PolicyError where something asked for before is still being sampled."""
        self._entered.result()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Let the engine go on; also without having entered."""
        self._leave.set()

    def park(self, sampled: int) -> None:
        """On the engine's thread, of which so many sequences are wanted."""
        if sampled:
            said = f"{sampled} sequences are being sampled; weights may change between turns only"
            self._entered.set_exception(PolicyError(said))
        else:
            self._entered.set_result(None)
            self._leave.wait()


class Engine(Serving):
    """Owns the arena and the thread. At most `branches` rows are sampled at a time, and `rows` are kept; `stop_ids`
    end a turn; `context` bounds a row's tokens."""

    def __init__(
        self,
        model: TorchModel,
        *,
        stop_ids: Iterable[int],
        branches: int,
        context: int,
        usage: Usage,
        block: int | None = None,
        rows: int | None = None,
        graphs: bool | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        shapes = shapes_of(model.config.text_config)
        kept = Rows(max(rows or 2 * branches, branches + 1), recurrent=shapes.recurrent)
        super().__init__("torch-policy", kept, stop_ids=stop_ids, branches=branches, usage=usage, vocabulary=vocabulary)
        self.model, self._shapes, self._context = model, shapes, context
        self._block = min(block or BLOCK.get(model.device.type, 1), MAX_BLOCK)
        self._layers = TextLayers(model.text)
        self._graphs = model.device.type == "cuda" if graphs is None else graphs
        self._arena, self._stepper = self._memory()
        self._thread.start()

    # --- from other threads

    def call(self, job: Callable[[], Any]) -> Future[Any]:
        """Run a job on the engine's thread, between two blocks."""
        done: Future[Any] = Future()

        def run() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(job())
                except BaseException as e:
                    done.set_exception(self._explained(e))

        self._post(run)
        return done

    def held(self) -> Hold:
        """Keep the thread from computing: what is asked for after this call waits until the hold is released."""
        hold = Hold()

        def park() -> None:
            self._drop_cancelled()
            sampled = self._lanes.n_busy + sum(r.n for r in self._waiting)
            hold.park(sampled)

        self._post(park)
        return hold

    def drop(self, *, memory: bool = False) -> None:
        """Drop all rows, of `memory` also what they lay in. Only for whoever holds the engine."""
        self._rows.clear()
        self._tally.forget()
        if memory:
            self._arena, self._stepper = self._memory()

    # --- on the thread

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        with torch.inference_mode(), at_home(self.model.device):
            yield

    def _forget(self) -> None:
        self._arena, self._stepper = self._memory()
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _memory(self) -> tuple[Arena, Stepper]:
        """An arena that has no rows yet, and what steps it."""
        arena = Arena(self._shapes, device=self.model.device, dtype=self.model.dtype)
        embed, head, stop_ids = self.model.text.embed_tokens, self.model.head, self._stop_ids
        return arena, Stepper(self._layers, arena, embed=embed, head=head, stop_ids=stop_ids, graphs=self._graphs)

    # --- admission

    def _admit(self) -> None:
        while self._waiting:
            first, wanted = self._waiting[0], sum(r.n for r in self._waiting)
            if wanted < self._lanes.n_busy // 8 and first.waited < PATIENCE:
                first.waited += 1
                return
            room = self._branches - self._lanes.n_busy
            jobs, self._waiting = plan(self._waiting, self._rows, self._tally, room)
            if not jobs:
                return
            self._waiting.extendleft(j.request for j in reversed(jobs))  # until they run, so that errors reach them
            self._begin([job for job in jobs if self._can_be_shown(job)])
            for _ in jobs:
                self._waiting.popleft()

    def _check(self, pictures: Iterable[ImageSegment]) -> None:
        self.model.vision.check(pictures)

    def _begin(self, jobs: list[Job]) -> None:
        """Prefill what is new, copy it to the branches, draw their first tokens."""
        if not jobs:
            return
        self._reserve(max(j.request.ledger.n_tokens for j in jobs))
        with self._timed("vision_s"):
            features = self.model.vision.features([s for j in jobs for s in j.pictures])
        for job in jobs:
            self._place(job)
        readings = []
        for job in jobs:
            start = job.found.length
            for end, digest in job.cuts:
                prefill(self.model, self._layers, self._arena, [job.reading(start, end)], features)
                self._rows.keep_state(digest, self._arena.state(job.rows[0].slot))
                start = end
            readings.append(job.reading(start, job.request.ledger.n_tokens))
        last = prefill(self.model, self._layers, self._arena, readings, features)
        for job in jobs:
            self._tally.prompt(job.request.ledger, job.found.length)
        self.usage.images = self.model.vision.n_encoded
        self._start(jobs, last)

    def _place(self, job: Job) -> None:
        """Put the prefix that is known into the job's first row."""
        found, slot = job.found, job.rows[0].slot
        if found.row is None:
            self._arena.blank([slot])
        elif not found.taken_over:
            self._arena.copy([found.row.slot], [slot], found.length, state=False)
            if found.state is not None:
                self._arena.set_state(slot, found.state)
        job.request.cached = found.length

    def _start(self, jobs: list[Job], last: Tensor) -> None:
        """Branches for all jobs, and their first tokens; `last` (jobs, hidden) are the prompts' last hidden states."""
        lanes = self._lanes
        pairs = [(job.rows[0].slot, row.slot) for job in jobs for row in job.rows[1:]]
        longest = max(job.request.ledger.n_tokens for job in jobs)  # what follows a shorter row's end is never read
        self._arena.copy([a for a, _ in pairs], [b for _, b in pairs], longest)
        for job in jobs:
            request, n_tokens = job.request, job.request.ledger.n_tokens
            offset = next_position(request.ledger) - n_tokens
            lanes.reserve(self._arena.rows, request.params.max_tokens)
            for b, row in enumerate(job.rows):
                self._rows.hold(row, request.ledger, n_tokens, busy=True)
                lanes.start(row.slot, Branch(request, row, request.first + b, offset), n_tokens)
        at = np.array([row.slot for job in jobs for row in job.rows])
        logits = self.model.head(last)[[i for i, job in enumerate(jobs) for _ in job.rows]]
        given = [lanes.numbers(at, 1)[0], lanes.temperature[at]]
        if lanes.cuts(at):
            given += [lanes.top_p[at], lanes.top_k[at]]
        ids, logprobs = draw(logits, *(torch.from_numpy(x).to(logits.device) for x in given))
        self._append(at, ids.cpu().numpy()[None], logprobs.cpu().numpy()[None], stepped=False)

    # --- stepping

    def _step(self) -> None:
        lanes, busy = self._lanes, self._lanes.busy
        if not busy.size:
            return
        # A text ends a row at a token that the device cannot know, and a recurrent state cannot be taken back.
        n = 1 if lanes.watched[busy].any() else min(self._block, int(lanes.left[busy].max()))
        self._reserve(int(lanes.column[busy].max()) + n)
        self._pack()
        busy = lanes.busy
        ids, logprobs = self._stepper.run(lanes, n)
        self._count_steps(n)
        self._append(busy, ids, logprobs, stepped=True)

    def _reserve(self, length: int) -> None:
        """Room for all rows in use, for `length` columns, and for one of scratch."""
        arena = self._arena
        rows, columns = arena.rows, arena.length
        if self._rows.n_slots > rows:
            rows = min(self._rows.limit, max(self._rows.n_slots, 2 * rows))
        if length + 1 > columns:
            columns = max(length + 1, min(self._context + 2, max(columns * 3 // 2, 512)))
            columns = -(-columns // 64) * 64  # attention is slow for masks of other widths
        arena.reserve(rows, columns)
        self._lanes.reserve(arena.rows, 0)

    def _pack(self) -> None:
        """Exchange rows so that the moving ones come first, where that makes the step smaller."""
        lanes, busy = self._lanes, self._lanes.busy
        size = self._stepper.rows_for(len(busy))
        high: list[int] = busy[busy >= size].tolist()
        if not high:
            return
        low: list[int] = np.flatnonzero(~lanes.moving[:size])[: len(high)].tolist()
        parked = [row.filled for row in map(self._rows.at, low) if row is not None]
        self._arena.swap(high, low, max([*lanes.column[high].tolist(), *parked]))
        lanes.swap(high, low)
        for slot, other in zip(high, low, strict=True):
            self._rows.exchange(slot, other)

    def _explained(self, error: BaseException) -> BaseException:
        """An error as a caller can act on it."""
        if isinstance(error, PolicyError) or not is_out_of_memory(error):
            return super()._explained(error)
        arena = self._arena
        said = PolicyError(
            f"out of memory on {self.model.device} with {arena.rows} rows of {arena.length} tokens: sample fewer "
            f"branches at a time (now {self._branches}) or allow less context (now {self._context})",
            fatal=True,
        )
        said.__cause__ = error
        return said
