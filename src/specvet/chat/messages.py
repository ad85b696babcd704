"""What is said in a conversation, before any format makes tokens of it."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]

_PNG = b"\x89PNG\r\n\x1a\n"
_OPAQUE = (0, 2)
"""PNG colour types without alpha or palette: grey and RGB."""


class ImageError(ValueError):
    """Bytes that are no picture a model can be shown."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as a model is shown it: an opaque PNG, known by its SHA-256. Made by `Image.of`."""

    png: bytes = field(repr=False, compare=False)
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    sha256: str
    """Of `png`."""

    @classmethod
    def of(cls, png: bytes) -> Image:
        """The picture of these PNG bytes; one with alpha or a palette is laid on white first, as every backend does,
        and grey of 16 bits becomes grey of 8.

        What was transparent would otherwise be white for one backend and black for another. Raises ImageError.
        """
        if png[:8] != _PNG or png[12:16] != b"IHDR":
            raise ImageError("not a PNG (its signature is missing); models are shown PNG bytes only")
        try:
            if png[25] not in _OPAQUE or b"tRNS" in png[33 : png.find(b"IDAT", 33)]:
                png = _on_white(png)
            elif png[24] == 16 and png[25] == 0:
                png = _of_8_bits(png)
            width, height = struct.unpack(">II", png[16:24])
        except Exception as e:  # damaged files make Pillow raise all sorts of things
            raise ImageError(f"a damaged PNG: {e}") from e
        return cls(png, width, height, hashlib.sha256(png).hexdigest())


def _of_8_bits(png: bytes) -> bytes:
    """A grey picture of 16 bits with its upper eight; turned into RGB as it is, it would be white nearly everywhere."""
    import numpy as np
    from PIL import Image as Pillow

    with Pillow.open(io.BytesIO(png)) as picture:
        upper = (np.asarray(picture, dtype=np.uint32) >> 8).astype(np.uint8)
    out = io.BytesIO()
    Pillow.fromarray(upper).save(out, "PNG")
    return out.getvalue()


def _on_white(png: bytes) -> bytes:
    from PIL import Image as Pillow

    with Pillow.open(io.BytesIO(png)) as picture:
        layers = picture.convert("RGBA")
        flat = Pillow.new("RGBA", layers.size, "white")
        flat.alpha_composite(layers)
        out = io.BytesIO()
        flat.convert("RGB").save(out, "PNG")
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, as an assistant message holds it."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message: words and pictures in their order, and what an assistant thought and called."""

    role: Role
    content: tuple[str | Image, ...] = ()
    reasoning: str = ""
    """An assistant's thought, without its tags."""
    calls: tuple[ToolCall, ...] = ()

    @property
    def text(self) -> str:
        """The words alone."""
        return "".join(part for part in self.content if isinstance(part, str))

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(part for part in self.content if isinstance(part, Image))


def system(text: str) -> Message:
    return Message("system", (text,))


def user(*content: str | Image) -> Message:
    return Message("user", content)


def tool(*content: str | Image) -> Message:
    return Message("tool", content)


def assistant(text: str = "", reasoning: str = "", calls: Sequence[ToolCall] = ()) -> Message:
    return Message("assistant", (text,) if text else (), reasoning, tuple(calls))
