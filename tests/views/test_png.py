"""PNG bytes: what any decoder reads back, and what is refused."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from specvet.views.png import encode_png

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "figure"


def decoded(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        image.load()
        assert image.mode in ("L", "RGB")
        return np.asarray(image)


@pytest.mark.shared
@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden figures at {GOLDEN}")
def test_published_figures_come_back_pixel_for_pixel_and_stay_small() -> None:
    ours = pillows = 0
    for path in sorted(GOLDEN.glob("*_full.png")):
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
        png = encode_png(pixels)
        np.testing.assert_array_equal(decoded(png), pixels)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        ours, pillows = ours + len(png), pillows + len(buffer.getvalue())
    assert 0 < ours < 1.3 * pillows


@settings(deadline=None, max_examples=60)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    colour=st.booleans(),
    level=st.integers(0, 9),
    seed=st.integers(0, 2**32 - 1),
    turned=st.booleans(),
)
def test_any_picture_comes_back_pixel_for_pixel(
    height: int, width: int, colour: bool, level: int, seed: int, turned: bool
) -> None:
    shape = (height, width, 3) if colour else (height, width)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    given_array = pixels[::-1, ::-1] if turned else pixels  # another memory order
    png = encode_png(given_array, level)
    np.testing.assert_array_equal(decoded(png), given_array)
    assert png == encode_png(np.ascontiguousarray(given_array), level)


def test_the_file_holds_three_chunks_and_no_metadata() -> None:
    png = encode_png(np.full((3, 5, 3), 255, dtype=np.uint8))
    kinds, at = [], 8
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        (crc,) = struct.unpack(">I", png[at + 8 + length : at + 12 + length])
        assert crc == zlib.crc32(png[at + 4 : at + 8 + length])
        kinds.append(kind)
        at += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", png[16:29]) == (5, 3, 8, 2, 0, 0, 0)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((4, 4)), "float64"),
        (np.zeros((4, 4, 4), dtype=np.uint8), r"\(4, 4, 4\)"),
        (np.zeros(4, dtype=np.uint8), r"\(4,\)"),
        (np.zeros((0, 4), dtype=np.uint8), "at least one pixel"),
    ],
    ids=["floats", "alpha", "one row", "empty"],
)
def test_what_is_no_picture_is_refused_by_name(array: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        encode_png(array)


def test_a_level_that_zlib_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="level = 10"):
        encode_png(np.zeros((2, 2), dtype=np.uint8), 10)
