"""How many tokens a picture costs: the resize rule of each model family, exactly.

Processors resize a picture to whole tokens (28 or 32 pixels each way) between two areas, and thin lines suffer. What
becomes of specvet's own figures, in tokens and, where they are resized, in pixels (published picture sizes of each
family; the reference figure, drawn by matplotlib 3.11, has a size that follows from its span and number of points, and
a wide tick label or a long title moves its width by some pixels):

    | pixels | Qwen2.5-VL | Qwen3-VL, Qwen3.5 |
    |---|---|---|
    | 448 x 312 | 176, as 448 x 308 | 140, as 448 x 320 |
    | 472 x 312 | 187, as 476 x 308 | 150, as 480 x 320 |
    | 496 x 312 | 198, as 504 x 308 | 160, as 512 x 320 |
    | 524 x 352 | 247, as 532 x 364 | 176, as 512 x 352 |
    | 552 x 352 | 260, as 560 x 364 | 187, as 544 x 352 |
    | 580 x 352 | 273, as 588 x 364 | 198, as 576 x 352 |
    | 600 x 392 | 294, as 588 x 392 | 228, as 608 x 384 |
    | 632 x 392 | 322, as 644 x 392 | 240, as 640 x 384 |
    | 664 x 392 | 336, as 672 x 392 | 252, as 672 x 384 |
    | 676 x 432 | 360, as 672 x 420 | 294, as 672 x 448 |
    | 712 x 432 | 375, as 700 x 420 | 308, as 704 x 448 |
    | 748 x 432 | 405, as 756 x 420 | 322, as 736 x 448 |
    | 752 x 472 | 459, as 756 x 476 | 360, as 768 x 480 |
    | 792 x 472 | 476, as 784 x 476 | 375, as 800 x 480 |
    | 832 x 472 | 510, as 840 x 476 | 390, as 832 x 480 |
    | 224 x 168 | 48 | 70, as 320 x 224 |
    | 252 x 196 | 63 | 80, as 320 x 256 |
    | 308 x 224 | 88 | 70, as 320 x 224 |
    | 448 x 280 | 160 | 126, as 448 x 288 |
    | 672 x 448 | 384 | 294 |
    | 896 x 448 | 512 | 392 |

The last six are the compact drawings (`tiny` full view and zoom, `small` zoom and full view, `published` zoom and full
view); all above them are reference figures, which every family resizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specvet.chat.messages import ImageError

MAX_RATIO = 200
"""Longest side over shortest that the families' processors accept."""


@dataclass(frozen=True, slots=True)
class ImageGeometry:
    """The image processor of a family: patches of `patch` pixels, `merge` x `merge` of them a token."""

    patch: int
    merge: int
    min_pixels: int
    max_pixels: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ImageGeometry:
        """The rule of a model folder's `preprocessor_config.json`, in its old and its new spelling.

        Old: `min_pixels`, `max_pixels`. New: `size` with `shortest_edge` and `longest_edge`, which are pixel counts
        too. The old names win where both stand, as in the processors. What is missing is the processor class's own
        default (`Qwen2VLImageProcessor`). A `processor_config.json` holds the same under `image_processor`. Raises
        ImageError for values that no processor can have.
        """
        told: Mapping[str, Any] = config.get("image_processor") or config
        size: Mapping[str, Any] = (told.get("size") or {}) if isinstance(told, Mapping) else {}
        if not isinstance(told, Mapping) or not isinstance(size, Mapping):
            raise ImageError("an image processor's settings, and its size in them, must be objects")
        found = [
            told.get("patch_size", DEFAULT.patch),
            told.get("merge_size", DEFAULT.merge),
            _first(told.get("min_pixels"), size.get("shortest_edge"), size.get("min_pixels"), DEFAULT.min_pixels),
            _first(told.get("max_pixels"), size.get("longest_edge"), size.get("max_pixels"), DEFAULT.max_pixels),
        ]
        if not all(isinstance(x, int) and not isinstance(x, bool) and x > 0 for x in found):
            raise ImageError(f"an image processor's sizes must be whole numbers above 0, not {found}")
        return cls(*found)

    @property
    def factor(self) -> int:
        """Pixels a token spans each way; sizes are multiples of it after resizing."""
        return self.patch * self.merge

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """(width, height) in pixels after the processor's resize. Raises ImageError for what it refuses."""
        if width < 1 or height < 1:
            raise ImageError(f"a picture of {width} x {height} pixels")
        if max(width, height) / min(width, height) > MAX_RATIO:
            raise ImageError(
                f"a picture of {width} x {height} pixels: one side is more than {MAX_RATIO} times the other"
            )
        f = self.factor
        high, wide = round(height / f) * f, round(width / f) * f
        if high * wide > self.max_pixels:
            scale = math.sqrt(height * width / self.max_pixels)
            high, wide = max(f, math.floor(height / scale / f) * f), max(f, math.floor(width / scale / f) * f)
        elif high * wide < self.min_pixels:
            scale = math.sqrt(self.min_pixels / (height * width))
            high, wide = math.ceil(height * scale / f) * f, math.ceil(width * scale / f) * f
        return wide, high

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """(rows, columns) of visual tokens."""
        wide, high = self.resized(width, height)
        return high // self.factor, wide // self.factor

    def n_tokens(self, width: int, height: int) -> int:
        """Visual tokens of a picture of that size."""
        rows, columns = self.grid(width, height)
        return rows * columns

    def is_resized(self, width: int, height: int) -> bool:
        """Whether the processor would change the pixels: thin lines suffer."""
        return self.resized(width, height) != (width, height)


DEFAULT = ImageGeometry(14, 2, 56 * 56, 28 * 28 * 1280)
"""What `Qwen2VLImageProcessor` has when a folder says nothing (transformers 5.17 to 5.24)."""

GEOMETRIES = {
    "qwen2_5_vl": ImageGeometry(14, 2, 56 * 56, 28 * 28 * 16384),
    "qwen3_vl": ImageGeometry(16, 2, 256 * 256, 4096 * 4096),
    "qwen3_5": ImageGeometry(16, 2, 256 * 256, 4096 * 4096),
}
"""By family, as the published models' `preprocessor_config.json` have them (Qwen2.5-VL: 3136 and 12845056 pixels,
Qwen3-VL and Qwen3.5: 65536 and 16777216). A model folder's own file comes first."""


def _first(*values: Any) -> Any:
    return next(v for v in values if v is not None)
