"""The pictures and conversations that probes show; the same everywhere, made here, of no spectrum in particular."""

from __future__ import annotations

import hashlib
import io
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Image, Message, ToolCall
from specvet.chat.messages import assistant, system, tool, user

WIDTH, HEIGHT = 448, 224
"""Pixels: multiples of 28 and 32, within all families' limits, so that no processor resizes them."""

Side = Literal["left", "right", "top", "bottom"]

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look_closer",
        "description": "Show a part of the picture again.",
        "parameters": {
            "type": "object",
            "properties": {"part": {"type": "string", "description": "Which part to show."}},
            "required": ["part"],
        },
    },
}
CALL = assistant("", "There is a line. I look closer.", [ToolCall("look_closer", {"part": "centre"})])
_SYSTEM = system("You look at pictures and say what they show.")


@cache
def curve() -> Image:
    """A dark curve with a spike left of the middle, on white."""
    return _png(_curve())


@cache
def recoded() -> Image:
    """The very same pixels in another file: nobody can answer from a cache that goes by the file."""
    return Image.of(_encoded(_curve(), level=1))


@cache
def noise() -> Image:
    """Coloured noise: nothing like the curve."""
    return _png(np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8))


@cache
def mirrored() -> Image:
    """The curve, left and right exchanged."""
    return _png(_curve()[:, ::-1])


@cache
def square(side: Side) -> Image:
    """A red square on white: left or right at half height, top or bottom in the middle."""
    pixels = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    y, x = {"left": (56, 28), "right": (56, 308), "top": (0, 168), "bottom": (112, 168)}[side]
    pixels[y : y + 112, x : x + 112] = (220, 20, 20)
    return _png(pixels)


@cache
def transparent() -> Image:
    """The curve on a transparent ground that is black underneath. No `Image.of` has made it opaque."""
    pixels = _curve()
    ink = pixels.min(axis=2, keepdims=True) < 128
    alpha = np.dstack([np.where(ink, pixels, 0), np.where(ink, 255, 0)]).astype(np.uint8)
    png = _encoded(alpha)
    return Image(png, WIDTH, HEIGHT, hashlib.sha256(png).hexdigest())


@cache
def laid_on(ground: Literal["white", "black"]) -> Image:
    """The same curve laid on a ground, by arithmetic of our own."""
    pixels = _curve()
    shade = 255 if ground == "white" else 0
    return _png(np.where(pixels.min(axis=2, keepdims=True) < 128, pixels, shade).astype(np.uint8))


def _png(pixels: NDArray[np.uint8]) -> Image:
    return Image.of(_encoded(pixels))


def _encoded(pixels: NDArray[np.uint8], level: int = 6) -> bytes:
    from PIL import Image as Pillow

    out = io.BytesIO()
    Pillow.fromarray(np.ascontiguousarray(pixels)).save(out, "PNG", compress_level=level)
    return out.getvalue()


def _curve() -> NDArray[np.uint8]:
    pixels = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    x = np.arange(WIDTH)
    y = HEIGHT * (0.7 - 0.2 * np.sin(x / 60.0) - 0.45 * np.exp(-(((x - 130.0) / 9.0) ** 2)))
    rows = np.arange(HEIGHT)[:, None]
    pixels[np.abs(rows - y[None, :]) < 2.5] = (10, 20, 110)
    pixels[HEIGHT - 6 :, :] = pixels[:, :4] = (0, 0, 0)
    return pixels


def question(*pictures: Image, words: str = "Describe what you see.") -> tuple[Message, ...]:
    """A first prompt with any number of pictures."""
    return _SYSTEM, user(*pictures, words)


def later(picture: Image) -> tuple[Message, Message]:
    """A turn that called the tool, and the tool's reply with a picture."""
    return CALL, tool(picture, "Here it is.")


def where(side: Side) -> tuple[Message, ...]:
    """Where is the red square? For models that can say."""
    pair = "left or on the right" if side in ("left", "right") else "top or at the bottom"
    at = "on" if side in ("left", "right") else "at"
    return question(square(side), words=f"Is the red square {at} the {pair} of the picture? Answer with one word.")


def side_in(text: str, side: Side) -> Side | None:
    """The side that an answer names last, of the two that were asked about; None where it names neither."""
    words = text.lower().rpartition("</think>")[2]
    pair: tuple[Side, Side] = ("left", "right") if side in ("left", "right") else ("top", "bottom")
    first, second = (words.rfind(name) for name in pair)
    return None if first == second else pair[second > first]
