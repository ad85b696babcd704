"""The model: two ONNX sessions, their memory of keys and values, and everything that is looked up in tables."""

from __future__ import annotations

import math
import mmap
import os
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files as package_files
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from specvet.chat import ImageSegment
from specvet.policies.embedded.shape import Shape
from specvet.policies.embedded.weights import Weights
from specvet.policies.serving.rows import Reading
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.pixels import PixelRule
from specvet.policies.torch.positions import stretch

Array = NDArray[np.float32]
MOST_PATCHES = 2_048
"""That go through the vision tower at a time."""
MOST_TOKENS = 512
"""Of one row that are read at a time; bounds the scores of one attention."""
MOST_THREADS = 8
FEATURE_BYTES = 64 << 20
"""Vision features that are kept: some 650 pictures of 63 tokens."""

Key = tuple[str, int, int]
"""A picture's SHA-256 and its grid."""


class EmbeddedModel:
    """Reads pictures and tokens; for one thread at a time."""

    def __init__(
        self, weights: Weights, shape: Shape, rule: PixelRule, *, rows: int, room: int, threads: int | None = None
    ) -> None:
        """Room for `rows` rows of `room` tokens; memory is taken as it is filled. `threads` as in `threads_here`."""
        self.shape, self.rule, self.rows, self.room = shape, rule, rows, room
        self._embeddings = weights.embeddings
        self._text = _session("text", weights.text, threads or threads_here())
        self._vision = _session("vision", weights.vision, threads or threads_here())
        memory = (rows, shape.kv_heads, room, shape.head)
        self._keys = [_taken_as_filled(memory) for _ in range(shape.layers)]
        self._values = [_taken_as_filled(memory) for _ in range(shape.layers)]
        self._cos, self._sin = _frequencies(shape.theta, shape.head // 2, shape.positions)
        self._part = np.repeat(np.arange(3), shape.sections)
        """Which of time, row and column each frequency follows."""
        self._bound: dict[int, Bound] = {}
        self._layouts: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._features: OrderedDict[Key, Array] = OrderedDict()
        self._feature_bytes = 0
        self._pixels: dict[Key, NDArray[np.uint8]] = {}
        """Pictures that were decoded to check them and go through the tower next."""
        self.n_encoded = 0
        """Pictures that went through the vision tower so far."""

    # --- pictures

    def features(self, segments: Iterable[ImageSegment]) -> dict[Key, Array]:
        """Of these pictures, (tokens, hidden) each, where they are not kept. Raises LedgerError, ImageError."""
        found: dict[Key, Array] = {}
        missing: dict[tuple[int, int], dict[Key, ImageSegment]] = defaultdict(dict)
        for s in segments:
            if key(s) in self._features:
                self._features.move_to_end(key(s))
                found[key(s)] = self._features[key(s)]
            else:
                missing[s.rows, s.columns][key(s)] = s
        for (rows, columns), of_size in missing.items():
            wanted = list(of_size)
            step = max(1, MOST_PATCHES // (rows * columns * self.shape.merge**2))
            for at in range(0, len(wanted), step):
                some = wanted[at : at + step]
                pixels = [self._pixels.pop(k) if k in self._pixels else self.rule.pixels(of_size[k]) for k in some]
                encoded = self.encode(pixels)
                found |= dict(zip(some, encoded, strict=True))
                for k, values in zip(some, encoded, strict=True):
                    self._features[k] = values
                    self._feature_bytes += values.nbytes
        self._pixels.clear()  # of requests that failed for another picture
        while self._feature_bytes > FEATURE_BYTES:
            _, oldest = self._features.popitem(last=False)
            self._feature_bytes -= oldest.nbytes
        return found

    def check(self, segments: Iterable[ImageSegment]) -> None:
        """Whether all of these can be decoded. Raises LedgerError, ImageError."""
        for s in segments:
            if key(s) not in self._features and key(s) not in self._pixels:
                self._pixels[key(s)] = self.rule.pixels(s)

    def encode(self, pictures: Sequence[NDArray[np.uint8]]) -> list[Array]:
        """Features of pictures of one size, RGB bytes of shape (height, width, 3), computed now."""
        s = self.shape
        height, width, _ = pictures[0].shape
        rows, columns = height // (s.patch * s.merge), width // (s.patch * s.merge)
        n, per = len(pictures), rows * columns * s.merge**2
        values = np.stack(pictures).reshape(n, rows, s.merge, s.patch, columns, s.merge, s.patch, 3)
        values = values.transpose(0, 1, 4, 2, 5, 3, 6, 7).reshape(n * per, s.patch_values)
        cos, sin = self._layout(rows, columns)
        given = {
            "patches": values,
            "shape": np.array([n, per, -1], dtype=np.int64),
            "start": np.zeros(1, dtype=np.int64),
            "cos": cos,
            "sin": sin,
        }
        (features,) = self._vision.run(None, given)
        self.n_encoded += n
        return list(np.split(features, n))

    def _layout(self, rows: int, columns: int) -> tuple[Array, Array]:
        """Rotary tables of a picture's patches, in the order of the tokens that they become."""
        if (rows, columns) not in self._layouts:
            s = self.shape
            m = s.merge
            places = np.indices((rows * m, columns * m)).reshape(2, rows, m, columns, m)
            down, across = places.transpose(0, 1, 3, 2, 4).reshape(2, -1)
            cos, sin = _frequencies(s.vision_theta, s.vision_head // 4, m * max(rows, columns))
            both = [np.concatenate((t[down], t[across]), axis=1) for t in (cos, sin)]
            self._layouts[rows, columns] = both[0], both[1]
        return self._layouts[rows, columns]

    # --- tokens

    def read(self, reading: Reading, features: Mapping[Key, Array]) -> Array:
        """A row reads tokens of a ledger; the logits of what follows, shape (ids,)."""
        part = stretch(reading.ledger, reading.start, reading.end)
        hidden = self._embeddings[part.ids]
        for at, segment, first, last in part.pictures:
            hidden[at : at + last - first] = features[key(segment)][first:last]
        logits = None
        for at in range(0, len(hidden), MOST_TOKENS):
            some = slice(at, at + MOST_TOKENS)
            logits = self._read(reading.slot, reading.start + at, hidden[some], part.positions[:, some])
        assert logits is not None
        return logits

    def _read(self, slot: int, start: int, hidden: Array, positions: NDArray[np.int64]) -> Array:
        bound = Bound(self, slot, 1, len(hidden))
        bound.hidden[:] = hidden
        bound.cos[: len(hidden)], bound.sin[: len(hidden)] = self._turns(positions)
        logits: Array = bound.run(np.array([start + len(hidden)]))[0].copy()
        return logits

    def step(self, tokens: NDArray[np.int64], columns: NDArray[np.int64], positions: NDArray[np.int64]) -> Array:
        """The first rows, one token each: its id, how many tokens its row holds, its position; arrays of one entry a
        row. Logits (rows, ids), valid until the next step."""
        n = len(tokens)
        bound = self._bound.get(n)
        if bound is None:
            bound = self._bound[n] = Bound(self, 0, n, 1)
        np.take(self._embeddings, tokens, axis=0, out=bound.hidden)
        np.take(self._cos, positions, axis=0, out=bound.cos[:n])
        np.take(self._sin, positions, axis=0, out=bound.sin[:n])
        return bound.run(columns + 1)

    def _turns(self, positions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Rotary tables of tokens at positions (3, tokens)."""
        follows = positions[self._part].T
        each = np.arange(len(self._part))
        return self._cos[follows, each], self._sin[follows, each]

    # --- memory

    def copy(self, source: int, target: int, length: int) -> None:
        """The first `length` tokens of a row to another."""
        for store in (*self._keys, *self._values):
            store[target, :, :length] = store[source, :, :length]

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchange the first `length` tokens of two rows."""
        for store in (*self._keys, *self._values):
            kept = store[one, :, :length].copy()
            store[one, :, :length] = store[other, :, :length]
            store[other, :, :length] = kept

    def forget(self) -> None:
        """Drop all features."""
        self._features.clear()
        self._pixels.clear()
        self._feature_bytes = 0


class Bound:
    """Buffers of one size, bound to the text session: nothing is allocated or copied when it runs."""

    def __init__(self, model: EmbeddedModel, first: int, rows: int, each: int) -> None:
        s = model.shape
        room = max(model.room, rows * each)
        self.hidden = np.empty((rows * each, s.hidden), dtype=np.float32)
        self.cos, self.sin = (np.zeros((room, s.head // 2), dtype=np.float32) for _ in range(2))
        self._seen, self._longest = np.zeros(rows, dtype=np.int32), np.zeros(1, dtype=np.int32)
        self._logits = np.empty((rows, s.ids), dtype=np.float32)
        self._session = model._text
        self._binding = self._session.io_binding()
        given: dict[str, NDArray[Any]] = {
            "hidden": self.hidden,
            "cos": self.cos,
            "sin": self.sin,
            "seen": self._seen,
            "longest": self._longest,
            "shape": np.array([rows, each, -1], dtype=np.int64),
            "order": np.arange(rows * each, dtype=np.int64).reshape(rows, each),
        }
        self._kept = given
        """ONNX Runtime reads these where they lie."""
        stores = {"keys": model._keys, "values": model._values}
        memory: list[tuple[str, NDArray[Any]]]
        memory = [(f"{n}.{i}", store[first : first + rows]) for n in stores for i, store in enumerate(stores[n])]
        for name, values in (*given.items(), *memory):
            self._binding.bind_input(name, "cpu", 0, values.dtype, values.shape, values.ctypes.data)
        for name, values in (("logits", self._logits), *((f"new_{name}", values) for name, values in memory)):
            self._binding.bind_output(name, "cpu", 0, values.dtype, values.shape, values.ctypes.data)

    def run(self, ends: NDArray[np.int64]) -> Array:
        """`ends` (rows,): tokens of each row with those that are read now. Logits (rows, ids), overwritten by the next
        run."""
        self._seen[:] = ends - 1
        self._longest[0] = ends.max()
        self._session.run_with_iobinding(self._binding)
        return self._logits


def _taken_as_filled(shape: tuple[int, ...]) -> Array:
    """Zeros whose memory the system gives page by page, as they are written.

    numpy asks for pages of 2 MB, and a row's part in a layer is smaller: half of the memory that they then took was
    never used. Raises PolicyError where there is not that much.
    """
    n_bytes, private = 4 * math.prod(shape), getattr(mmap, "MAP_PRIVATE", None)
    try:
        lying = mmap.mmap(-1, n_bytes) if private is None else mmap.mmap(-1, n_bytes, flags=private)
    except (OSError, OverflowError) as e:
        rows, _, room, _ = shape
        raise PolicyError(
            f"no memory for {rows:,} rows of {room:,} tokens ({e}); take a smaller --concurrency or --context",
            fatal=True,
        ) from e
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            lying.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(lying, dtype=np.float32).reshape(shape)


def threads_here() -> int:
    """Threads to compute with: `OMP_NUM_THREADS`, where somebody set it, else the cores that this process may use, of
    which a model this small has no use for more than `MOST_THREADS`."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def key(segment: ImageSegment) -> Key:
    return segment.sha256, segment.rows, segment.columns


def _session(name: str, weights: Mapping[str, Array], threads: int) -> Any:
    """A session of one of the package's graphs with these weights."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.enable_mem_pattern = False  # shapes vary from run to run
    options.log_severity_level = 3
    # Threads that spin while they wait make a step some 0.5 ms faster on an idle machine, and several times slower, at
    # twice the processor's time, on a busy one: figures are drawn on the same cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(values) for values in weights.values()]
    options.add_external_initializers(list(weights), values)
    graph = (package_files("specvet.policies.embedded") / "graphs" / f"{name}.onnx").read_bytes()
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _frequencies(theta: float, n: int, positions: int) -> tuple[Array, Array]:
    """Cosine and sine of `n` frequencies at each position, shape (positions, n), computed as the stock model does."""
    exponents = np.arange(0, 2 * n, 2, dtype=np.float32) / np.float32(2 * n)
    inverse = np.float32(1.0) / np.power(np.float32(theta), exponents, dtype=np.float32)
    angles = np.arange(positions, dtype=np.float32)[:, None] * inverse[None, :]
    return np.cos(angles), np.sin(angles)
