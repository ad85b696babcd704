"""`read_documents`: SIMULATED spectra as conversations that only read them.

A document's `messages` begin with a system text and go on with a picture and a request, its reply, more requests and
replies, another picture, and so on; `kinds` says what each reply is to, and `pictures` has the grey pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Image, Message, ToolCall
from specvet.chat.messages import assistant, system, user
from specvet.data.reading.pictures import Picture
from specvet.data.reading.reader import Reader
from specvet.data.reading.requests import Request, requests
from specvet.data.reading.scenes import VERSION, Scenes, scenes_of
from specvet.data.reading.windows import window_of
from specvet.data.simulate.templates import Templates
from specvet.spectra.index_kinds import Range
from specvet.tasks import SHORT_SYSTEM_TEXT

MOST_WINDOWS = 4
"""Of one document; at least one, three as a rule."""

CALLS_SHARE = 0.15
"""Of documents in which a window is asked for and the assistant calls the tool; in the others the user shows it."""

_WORDS = 3
"""Stream of random numbers; others are those of `scenes`."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadingDocument:
    """One conversation about one SIMULATED spectrum."""

    messages: tuple[Message, ...]
    kinds: tuple[str, ...]
    """What each assistant message replies to, in their order: `whole.shape`, `window.named`, `call`, …"""
    pictures: tuple[NDArray[np.uint8], ...]
    """The grey pixels of each picture in the messages, in their order, shape (height, width)."""


def read_documents(
    seed: int, start: int, n: int, *, templates: str | Templates | None = None
) -> Iterator[ReadingDocument]:
    """Documents `start` to `start + n − 1`. Each follows from the seed and its number, whoever makes it.

    `templates` are real spectra, or the folder of some, that seed a part of the simulated ones. Raises ValueError for a
    negative seed, and for a folder that is none of templates.
    """
    scenes = scenes_of(seed, templates)
    for number in range(start, start + n):
        yield _document(scenes, number)


def corpus(n: int, seed: int = 0) -> Iterator[str]:
    """The words of n documents, one text a message, to learn a vocabulary from; nothing is drawn for them."""
    scenes = scenes_of(seed)
    for number in range(n):
        for message in _document(scenes, number, drawn=False).messages:
            yield from filter(None, (message.text, message.reasoning))


def _document(scenes: Scenes, number: int, drawn: bool = True) -> ReadingDocument:
    rng = np.random.default_rng([scenes.seed, VERSION, _WORDS, number])
    page = _Page(Reader(scenes.exposure(number), rng), drawn)
    if rng.random() < CALLS_SHARE:
        page.called()
    else:
        page.shown()
    return ReadingDocument(tuple(page.messages), tuple(page.kinds), tuple(page.pictures))


class _Page:
    """A document while it is written."""

    def __init__(self, reader: Reader, drawn: bool) -> None:
        self.reader, self.rng, self.drawn = reader, reader.rng, drawn
        self.tool, self.opening = reader.exposure.tool, reader.opening
        self.messages: list[Message] = [system(SHORT_SYSTEM_TEXT)]
        self.kinds: list[str] = []
        self.pictures: list[NDArray[np.uint8]] = []

    def shown(self) -> None:
        """The user shows the whole view and some windows, and asks about each."""
        self._asked(self.opening, requests(self.reader, self.opening, int(self.rng.integers(2, 4))))
        for picture in self._windows():
            self._asked(picture, requests(self.reader, picture, int(self.rng.integers(2, 5))))

    def called(self) -> None:
        """The user names windows, the assistant calls the tool for one after the other, and reads what comes.

        In half of them readings are thoughts before the next call, as in an agent's turns; the last is a reply.
        """
        pictures = self._windows()
        thinking = bool(self.rng.random() < 0.5)
        ranges = [_ends(p) for p in pictures]
        ask = f"Show {', '.join(f'{low:g}-{high:g}' for low, high in ranges)} Å."
        self.messages.append(self._opened(self.opening, f"Read it. {ask}" if thinking else ask))
        before = self.opening
        for picture, window in zip(pictures, ranges, strict=True):
            thought = self.reader.text(before) if thinking else ""
            calls = [ToolCall(self.tool.name, {"wavelength_range": [_plain(x) for x in window]})]
            self._reply(assistant(reasoning=thought, calls=calls), "call.read" if thinking else "call")
            self.messages.append(Message("tool", (*self._image(picture), picture.observation.text)))
            before = picture
        self._reply(assistant(self.reader.text(before)), f"{'whole' if before.whole else 'window'}.read")

    def _asked(self, picture: Picture, requests: list[Request]) -> None:
        """A picture with its first request, and the others after it."""
        if not requests:
            return
        first, *others = requests
        self.messages.append(self._opened(picture, first.ask))
        self._reply(assistant(first.reply), first.kind)
        for request in others:
            self.messages.append(user(request.ask))
            self._reply(assistant(request.reply), request.kind)

    def _opened(self, picture: Picture, ask: str) -> Message:
        """The picture, what is said of it, and a request; the whole view as a question shows it."""
        said = f"{picture.observation.text}\n\n{ask}"
        return user(*self._image(picture), f"\n{said}" if picture.whole else said)

    def _reply(self, message: Message, kind: str) -> None:
        self.messages.append(message)
        self.kinds.append(kind)

    def _image(self, picture: Picture) -> tuple[Image, ...]:
        if not self.drawn:
            return ()
        self.pictures.append(picture.pixels)
        return (picture.image,)

    def _windows(self) -> list[Picture]:
        """One to `MOST_WINDOWS` windows that can be drawn, all different."""
        found: list[Picture] = []
        for _ in range(1 + int(self.rng.binomial(MOST_WINDOWS - 1, 0.6))):
            window = window_of(self.reader, self.rng)
            if window is None or any(window == _ends(picture) for picture in found):
                continue
            observation = self.tool({"wavelength_range": [_plain(x) for x in window]})
            if observation.ok:
                found.append(Picture(observation))
        return found


def _ends(picture: Picture) -> Range:
    assert picture.view.window is not None
    return picture.view.window


def _plain(x: float) -> float | int:
    return int(x) if float(x).is_integer() else x
