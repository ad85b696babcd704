"""The engine: the torch policy's, over ONNX Runtime.

Left out: recurrent states, blocks of steps, holding weights for a trainer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from specvet.chat import ImageSegment, Vocabulary
from specvet.policies.embedded.drawing import draw
from specvet.policies.embedded.model import EmbeddedModel
from specvet.policies.serving.jobs import Branch, Job, plan
from specvet.policies.serving.rows import Rows
from specvet.policies.serving.thread import Serving
from specvet.policies.tokens import Usage
from specvet.policies.torch.positions import next_position


class Engine(Serving):
    """Owns the model and the thread. At most `branches` rows are sampled at a time; `stop_ids` end a turn."""

    def __init__(
        self,
        model: EmbeddedModel,
        *,
        stop_ids: Iterable[int],
        branches: int,
        usage: Usage,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        kept = Rows(model.rows, recurrent=False)
        super().__init__(
            "embedded-policy", kept, stop_ids=stop_ids, branches=branches, usage=usage, vocabulary=vocabulary
        )
        self.model = model
        self._thread.start()

    def _forget(self) -> None:
        self.model.forget()

    def _check(self, pictures: Iterable[ImageSegment]) -> None:
        self.model.check(pictures)

    # --- admission

    def _admit(self) -> None:
        while self._waiting:
            jobs, self._waiting = plan(self._waiting, self._rows, self._tally, self._branches - self._lanes.n_busy)
            if not jobs:
                return
            self._waiting.extendleft(j.request for j in reversed(jobs))  # until they run, so that errors reach them
            with self._timed("vision_s"):
                shown = [job for job in jobs if self._can_be_shown(job)]
                features = self.model.features(s for job in shown for s in job.pictures)
            for job in shown:
                self._begin(job, features)
            for _ in jobs:
                self._waiting.popleft()
            self.usage.images = self.model.n_encoded

    def _begin(self, job: Job, features: dict[tuple[str, int, int], NDArray[np.float32]]) -> None:
        """Read what is new, copy it to the branches, draw their first tokens."""
        request, found, slots = job.request, job.found, [row.slot for row in job.rows]
        ledger, n_tokens = request.ledger, request.ledger.n_tokens
        if found.row is not None and not found.taken_over:
            self.model.copy(found.row.slot, slots[0], found.length)
        request.cached = found.length
        logits = self.model.read(job.reading(found.length, n_tokens), features)
        self._tally.prompt(ledger, found.length)
        self._lanes.reserve(self.model.rows, request.params.max_tokens)
        offset = next_position(ledger) - n_tokens
        for b, row in enumerate(job.rows):
            if b:
                self.model.copy(slots[0], row.slot, n_tokens)
            self._rows.hold(row, ledger, n_tokens, busy=True)
            self._lanes.start(row.slot, Branch(request, row, request.first + b, offset), n_tokens)
        self._draw(np.array(slots), np.broadcast_to(logits, (len(slots), logits.size)), stepped=False)

    # --- stepping

    def _step(self) -> None:
        lanes = self._lanes
        if not lanes.n_busy:
            return
        self._pack()
        busy = lanes.busy
        columns = lanes.column[busy]
        logits = self.model.step(lanes.token[busy], columns, columns + lanes.offset[busy])
        self._count_steps(1)
        self._draw(busy, logits, stepped=True)

    def _draw(self, slots: NDArray[np.int64], logits: NDArray[np.float32], *, stepped: bool) -> None:
        """Draw a token for rows, from logits (rows, ids)."""
        lanes = self._lanes
        ids, logprobs = draw(
            logits, lanes.numbers(slots, 1)[0], lanes.temperature[slots], lanes.top_p[slots], lanes.top_k[slots]
        )
        self._append(slots, ids[None], logprobs[None], stepped=stepped)

    def _pack(self) -> None:
        """Exchange rows so that those that move are the first: a step computes a block of neighbours."""
        lanes, busy = self._lanes, self._lanes.busy
        n = len(busy)
        high: list[int] = busy[busy >= n].tolist()
        low: list[int] = np.flatnonzero(~lanes.moving[:n]).tolist()
        for slot, other in zip(high, low, strict=True):
            parked = self._rows.at(other)
            self.model.swap(slot, other, max(int(lanes.column[slot]), 0 if parked is None else parked.filled))
            self._rows.exchange(slot, other)
        if high:
            lanes.swap(high, low)
