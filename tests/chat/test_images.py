"""What is made of PNG bytes before any model is shown them."""

from __future__ import annotations

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image as Pillow

from specvet.chat import Image, ImageError

PIXELS = np.random.default_rng(0).integers(0, 255, (30, 40, 4), dtype=np.uint8)


def encoded(picture: Pillow.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def shown(png: bytes) -> np.ndarray:
    with Pillow.open(io.BytesIO(Image.of(png).png)) as picture:
        return np.asarray(picture.convert("RGB"))


KINDS = {
    "RGB": encoded(Pillow.fromarray(PIXELS[..., :3])),
    "RGBA": encoded(Pillow.fromarray(PIXELS)),
    "L": encoded(Pillow.fromarray(PIXELS[..., 0])),
    "LA": encoded(Pillow.fromarray(PIXELS).convert("LA")),
    "P": encoded(Pillow.fromarray(PIXELS[..., :3]).convert("P")),
    "16 bits": encoded(Pillow.fromarray(PIXELS[..., 0].astype(np.uint16) << 8)),
}


def test_opaque_pictures_of_8_bits_stay_byte_for_byte() -> None:
    for kind in ("RGB", "L"):
        assert Image.of(KINDS[kind]).png == KINDS[kind]


def test_grey_of_16_bits_is_shown_as_its_upper_8_and_not_as_white() -> None:
    assert (shown(KINDS["16 bits"])[..., 0] == PIXELS[..., 0]).all()


@pytest.mark.parametrize("before", [0, 100, 5000])
def test_a_transparent_colour_is_laid_on_white_wherever_the_file_says_it(before: int) -> None:
    pixels = PIXELS[..., :3].copy()
    pixels[:10] = (10, 20, 30)
    png = encoded(Pillow.fromarray(pixels))
    clear = chunk(b"tEXt", b"a\0" + b"x" * before) + chunk(b"tRNS", struct.pack(">HHH", 10, 20, 30))
    seen = shown(png[:33] + clear + png[33:])
    assert (seen[:10] == 255).all()
    assert (seen[10:] == pixels[10:]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bytes_are_an_image_error_or_a_picture(kind: str) -> None:
    for seed in range(200):
        chance = random.Random(seed)
        png = bytearray(KINDS[kind])
        for _ in range(chance.randint(1, 5)):
            png[chance.randrange(len(png))] = chance.randrange(256)
        del png[chance.randrange(len(png)) if seed % 3 == 0 else len(png) :]
        try:
            image = Image.of(bytes(png))
        except ImageError:
            continue
        assert image.png.startswith(b"\x89PNG")


def test_a_picture_too_vast_to_be_flattened_is_an_image_error() -> None:
    png = KINDS["RGBA"]
    vast = png[:8] + chunk(b"IHDR", struct.pack(">II", 60_000, 60_000) + png[24:29]) + png[33:]
    with pytest.raises(ImageError, match="a damaged PNG"):
        Image.of(vast)
