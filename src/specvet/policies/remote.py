"""What the policies on a remote training service (`trio`, `tinker`) share, without importing either SDK.

Both take a prompt as chunks of ids and pictures and give back ids with their log-probs. Here are the parts that must
not differ: how a ledger becomes chunks, how a reply becomes sequences, how many requests are in flight, and that every
wait ends; `remote_policy` puts them together. What an SDK returns may be a value, a future, a coroutine, or a coroutine
of a future: `resolve` takes them all.

Deadlines. A request gets `timeout_s` seconds from the moment it is sent; then it is cancelled and TimeoutError says
what to do. The SDKs retry by themselves below that; nothing is retried twice here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from collections.abc import Sequence as Listed
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Image, ImageSegment, Ledger, LedgerError, Stop, Vocabulary, WordsSegment
from specvet.policies.tokens import PolicyError, Sequence

T = TypeVar("T")

ENDED = frozenset({"stop", "eos", "stop_token"})
LIMITED = frozenset({"length", "max_tokens"})

Problem = Literal["login", "money", "model", "weights", "busy", "gone", "request", "failed", "down"]

_FATAL = {"login", "money", "model", "weights", "busy", "gone", "down"}
"""What every other question would meet as well. A service that is `busy` or `down` has been retried by its SDK for most
of the deadline by then; to stop and go on later costs nothing, to fail row by row costs the rows."""
_SECRETS = ("PYTRIO_API_KEY", "TINKER_API_KEY")
_KEY_LIKE = re.compile(r"\btml-[\w-]+|\beyJ[\w-]+\.[\w.-]+")
"""Keys of Tinker, and the tokens that both services hand out."""


@dataclass(frozen=True, slots=True)
class Service:
    """A remote service, as messages speak of it."""

    name: str
    """Of the policy and of the extra that installs its SDK."""
    login: str
    """What to do to be let in."""
    scheme: str
    """With which a path of weights starts."""

    def missing(self, e: ImportError) -> PolicyError:
        """The error for an SDK that is not installed."""
        return PolicyError(
            f"{self.name!r} needs its SDK ({e}); install it with: pip install 'specvet[{self.name}]'",
            fatal=True,
        )

    def problem(self, kind: Problem, said: str, *, opening: bool = False) -> PolicyError:
        """What went wrong in one sentence, and what to do. Whatever fails while opening is fatal."""
        advice = {
            "login": self.login,
            "money": "add credits in the service's console, then run the same command again",
            "model": "give --model one of the models that `specvet doctor --live` lists",
            "weights": f"give --adapter the path of sampler weights as the training named it ({self.scheme}…)",
            "busy": "the service has no capacity left; run the same command again later, or lower --branches",
            "gone": "the sampler is gone from the service; run the same command again, it asks for a new one",
            "request": "the service refused this request",
            "failed": "the service failed; if it goes on, run the same command again later",
            "down": "is the address right, and is there a network?",
        }[kind]
        return PolicyError(f"{self.name}: {scrubbed(said)}; {advice}", fatal=opening or kind in _FATAL)

    def stalled(self, doing: str, seconds: float, known: str = "") -> TimeoutError:
        """The error for a service that does not answer."""
        heard = f" (last heard: {scrubbed(known)})" if known else ""
        return TimeoutError(
            f"{self.name}: {doing} took longer than {seconds:g} s and was given up{heard}; the service may be short of "
            "capacity or stuck. Run the same command again later, or allow more time (--timeout; in training --set "
            "model.timeout_s=SECONDS)"
        )


def scrubbed(text: str) -> str:
    """A text of somebody else's without keys: those in the environment, and whatever looks like one."""
    for name in _SECRETS:
        key = os.environ.get(name, "").strip()
        if len(key) >= 6:
            text = text.replace(key, f"<{name}>")
    return _KEY_LIKE.sub("<key>", text)


# --- waiting


async def resolve(value: Any) -> Any:
    """The value itself, whatever it is wrapped in: nothing, a future of any kind, a coroutine, or a coroutine of those.

    A future that can only block (`result`, `done`, no `await`) is waited for in a thread. Cancelling cancels a future.
    """
    while True:
        if inspect.isawaitable(value):  # before Future: tinker's futures are both, and warn when used as the latter
            value = await value
        elif isinstance(value, concurrent.futures.Future):
            value = await asyncio.wrap_future(value)
        elif callable(getattr(type(value), "result", None)) and callable(getattr(type(value), "done", None)):
            value = await off_loop(value.result)
        else:
            return value


async def off_loop(function: Callable[[], T]) -> T:
    """What a blocking call returns, made in a thread of its own.

    The thread is a daemon: one that never returns does not keep the program from ending, as the threads of
    `asyncio.to_thread` would.
    """
    return await asyncio.wrap_future(_threaded(function))


@contextlib.contextmanager
def in_our_words(explained: Callable[[Exception, bool], PolicyError]) -> Iterator[None]:
    """Whatever an SDK raises while something is opened, said in one way. Raises PolicyError, TimeoutError."""
    try:
        yield
    except (PolicyError, TimeoutError):
        raise
    except Exception as e:
        raise explained(e, True) from e


def within(
    seconds: float, function: Callable[[], T], stalled: Callable[[], BaseException], hopeless: Callable[[], str] = str
) -> T:
    """What a blocking call returns, or `stalled()` is raised when it takes longer.

    `hopeless` is asked five times a second; when it answers with a reason, the wait ends early.
    """
    future = _threaded(function)
    end = time.monotonic() + seconds
    while not hopeless():
        left = end - time.monotonic()
        try:
            return future.result(timeout=max(0.0, min(0.2, left)))
        except concurrent.futures.TimeoutError:
            if future.done():  # the call itself raised it
                raise
            if left <= 0:
                break
    raise stalled()


def _threaded(function: Callable[[], T]) -> concurrent.futures.Future[T]:
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def work() -> None:
        try:
            value = function()
        except BaseException as e:  # handed to whoever waits
            if not future.cancelled():
                future.set_exception(e)
        else:
            if not future.cancelled():
                future.set_result(value)

    threading.Thread(target=work, daemon=True, name="specvet-remote").start()
    return future


class Slots:
    """At most `n` at a time, on whichever event loop is running."""

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"{n} requests in flight; at least 1 must be")
        self.n = n
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(n)

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a free slot and hold it."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # probes and the run itself may each have a loop
            self._loop, self._free = loop, asyncio.Semaphore(self.n)
        async with self._free:
            yield


# --- what goes over the line


def prompt_chunks(ledger: Ledger) -> list[tuple[int, ...] | ImageSegment]:
    """A ledger as runs of ids and pictures, in order.

    Raises LedgerError for words, an empty ledger, or a picture without its bytes; ImageError for damaged ones.
    """
    chunks: list[tuple[int, ...] | ImageSegment] = []
    ids: list[int] = []
    for segment in ledger:
        if isinstance(segment, WordsSegment):
            raise LedgerError("this ledger holds words only; a service that works on token ids cannot be shown it")
        if isinstance(segment, ImageSegment):
            if ids:
                chunks.append(tuple(ids))
                ids = []
            chunks.append(opaque(segment))
        else:
            ids.extend(segment.ids)
    if ids:
        chunks.append(tuple(ids))
    if not chunks:
        raise LedgerError("an empty ledger; there is nothing to continue")
    return chunks


def opaque(picture: ImageSegment) -> ImageSegment:
    """The picture as it is sent: what has alpha is laid on white here, since a service may lay it on black.

    Raises LedgerError for a picture without its bytes, ImageError for damaged ones.
    """
    if picture.png is None:
        raise LedgerError(
            f"the picture {picture.sha256[:12]} of this ledger has no bytes; read the ledger with its images"
        )
    return replace(picture, png=Image.of(picture.png).png)


def wire_seed(seed: int) -> int:
    """A seed of 31 bits from one of 63: JSON and random generators of several services take no more for certain.

    Two seeds may meet; what is sampled then differs all the same unless the prompts are equal too.
    """
    return (seed ^ (seed >> 32)) & 0x7FFF_FFFF


def wire_stops(stop_ids: Listed[int], texts: Listed[str], vocabulary: Vocabulary) -> list[int] | list[str]:
    """What ends a turn, as both services take it: ids or texts, never both. Beside texts, end tokens go as theirs."""
    return list(stop_ids) if not texts else [*texts, *(vocabulary.decode([i]) for i in stop_ids)]


def sequence(
    ids: Listed[int],
    logprobs: Listed[float] | np.ndarray[Any, Any] | None,
    reason: str,
    stop_ids: Listed[int],
    limit: int,
) -> Sequence:
    """One sampled turn of a reply. Raises LedgerError for log-probs that do not fit the ids.

    Whether a service gives the end token back is not documented by either; both ways are read truly. A last id that is
    an end token ended the turn, whatever the reason says. A turn that was stopped without one keeps its ids as they
    came, with the stop `end`: the format then writes the end token as a separator, which carries no weight, since
    nobody knows its log-prob.
    """
    ids = tuple(int(i) for i in ids)
    values: NDArray[np.float32] | None = None
    if logprobs is not None:
        values = np.array(logprobs, dtype=np.float32)
        if values.shape != (len(ids),):
            raise LedgerError(f"the service gave {values.size} log-probs for {len(ids)} sampled tokens")
        values.setflags(write=False)
    return Sequence(ids, values, _stop(ids, reason, stop_ids, limit))


def _stop(ids: Listed[int], reason: str, stop_ids: Listed[int], limit: int) -> Stop:
    if ids and ids[-1] in stop_ids:
        return "end"
    if reason in LIMITED or (not reason and len(ids) >= limit):
        return "length"
    if reason in ENDED or not reason:
        return "end"
    raise LedgerError(f"the service stopped a turn for the reason {reason!r}, which is neither an end nor a limit")
