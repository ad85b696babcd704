"""Letters of the compact style: small grey pictures that were drawn once and are stored as package data.

`compact_glyphs.npz` holds DejaVu Sans 2.37 (Bitstream Vera licence, whose terms allow pictures of its letters) at 11
pixels, the size of the reference figure's tick labels. Since the letters are stored, neither matplotlib nor FreeType
takes part in a compact drawing, and no version of theirs can change a byte of it. `python -m
specvet.views.compact_glyphs FILE` drew it, with Pillow 13 and the font file that matplotlib 3.11 ships.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

DATA = "compact_glyphs.npz"
SIZE = 11
HEIGHT = 14
"""Rows of every glyph: the baseline is below row 10, Å and brackets need the rest."""
BASELINE = 11
CHARACTERS = "".join(chr(code) for code in range(32, 127)) + "Åλαβγδ×°±µ−–…²³☐"
UNKNOWN = "☐"


@lru_cache(maxsize=1024)
def text_ink(text: str) -> Pixels:
    """Ink of one line of text: uint8 of shape (HEIGHT, width), 255 where it is black; read-only, safe in threads.

    What the stored letters do not hold is shown as an empty box.
    """
    glyphs = _glyphs()
    box = glyphs[UNKNOWN]
    parts = [glyphs.get(character, box) for character in text]
    ink = np.concatenate(parts, axis=1) if parts else np.zeros((HEIGHT, 0), dtype=np.uint8)
    ink.setflags(write=False)
    return ink


def text_width(text: str) -> int:
    """Pixels that a line of text is wide."""
    glyphs = _glyphs()
    box = glyphs[UNKNOWN]
    return sum(glyphs.get(character, box).shape[1] for character in text)


def fitted(text: str, width: int) -> str:
    """`text` on one line, its middle left out where it is wider than `width` pixels; "" where nothing fits."""
    text = " ".join(text.split())
    if len(text) <= width and text_width(text) <= width:
        return text
    for n in range(min(len(text) - 1, width), 0, -1):
        kept = f"{text[: (n + 1) // 2]}…{text[len(text) - n // 2 :]}"
        if text_width(kept) <= width:
            return kept
    return ""


@cache
def _glyphs() -> dict[str, Pixels]:
    path = resources.files("specvet.views").joinpath(DATA)
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        atlas, starts = stored["atlas"], stored["starts"]
        characters = str(stored["characters"])
    return {c: atlas[:, starts[i] : starts[i + 1]] for i, c in enumerate(characters)}


def drawn_glyphs() -> dict[str, NDArray[np.generic]]:
    """What `compact_glyphs.npz` holds, drawn anew: the atlas (HEIGHT, sum of widths), where each glyph starts, and
    the characters. Needs Pillow and matplotlib; pixels depend on Pillow's FreeType."""
    import matplotlib as mpl
    from PIL import Image, ImageDraw, ImageFont

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font = ImageFont.truetype(str(path), SIZE, layout_engine=ImageFont.Layout.BASIC)
    glyphs = []
    for character in CHARACTERS:
        image = Image.new("L", (max(1, round(font.getlength(character))), HEIGHT), 0)
        draw = ImageDraw.Draw(image)
        if character == UNKNOWN:
            draw.rectangle((1, 3, image.width - 2, BASELINE - 1), outline=255)
        else:
            draw.text((0, BASELINE), character, font=font, fill=255, anchor="ls")
        glyphs.append(np.asarray(image))
    starts = np.cumsum([0, *(glyph.shape[1] for glyph in glyphs)])
    return {
        "atlas": np.concatenate(glyphs, axis=1),
        "starts": starts.astype(np.int32),
        "characters": np.array(CHARACTERS),
    }


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **drawn_glyphs())  # type: ignore[arg-type]
