"""PNGs as specvet writes them, read back without a general decoder."""

from __future__ import annotations

import numpy as np
import pytest

from specvet.chat.png import decode_plain
from specvet.views.png import encode_png


@pytest.mark.parametrize("height", [1, 2, 3, 4, 8, 9, 15, 16, 17, 168, 196])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_every_height_comes_back_byte_for_byte(height: int, channels: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(height).integers(0, 256, (height, 11, *channels), dtype=np.uint8)
    decoded = decode_plain(encode_png(pixels))
    assert decoded is not None
    np.testing.assert_array_equal(decoded, pixels)
    decoded[0] = 0  # its own memory, not a part of the file's
