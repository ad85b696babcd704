"""From a PNG to the patches that a vision tower takes: the families' image processor, exactly.

Pixels travel as bytes; normalising is a table of 256 values a channel, computed as the processor computes it, so that
looking them up on any device gives the processor's very floats.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Image, ImageError, ImageSegment, LedgerError
from specvet.chat.png import decode_plain

if TYPE_CHECKING:
    from torch import Tensor

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
"""What `Qwen2VLImageProcessor` has when a folder says nothing (from OpenAI's CLIP)."""
BICUBIC = 3
"""Pillow's number for the resampling of all families."""


@dataclass(frozen=True, slots=True)
class PixelRule:
    """How one model's image processor makes patches of pixels."""

    patch: int
    merge: int
    temporal: int = 2
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD
    scale: float = 1 / 255

    @classmethod
    def from_config(cls, config: Mapping[str, Any], vision: Any) -> PixelRule:
        """From a folder's `preprocessor_config.json`; what it does not say is the processor's default.

        Patch sizes come from the vision tower's own configuration, which must agree. Raises ImageError.
        """
        told: Mapping[str, Any] = config.get("image_processor") or config
        if not isinstance(told, Mapping):
            raise ImageError("preprocessor_config.json: its image_processor must be an object")
        try:
            rule = cls(
                patch=int(vision.patch_size),
                merge=int(vision.spatial_merge_size),
                temporal=int(vision.temporal_patch_size),
                mean=tuple(map(float, told.get("image_mean") or CLIP_MEAN)),
                std=tuple(map(float, told.get("image_std") or CLIP_STD)),
                scale=float(told.get("rescale_factor", 1 / 255)),
            )
        except (TypeError, ValueError) as e:
            raise ImageError(f"preprocessor_config.json: a mean, deviation or factor that is no number: {e}") from e
        if len(rule.mean) != 3 or len(rule.std) != 3 or 0 in rule.std or not np.isfinite(rule.table()).all():
            raise ImageError(
                f"preprocessor_config.json: mean {rule.mean}, deviation {rule.std}, factor {rule.scale}: three finite "
                "numbers each are needed, deviations not 0"
            )
        for name, mine in (
            ("patch_size", rule.patch),
            ("merge_size", rule.merge),
            ("temporal_patch_size", rule.temporal),
        ):
            if int(told.get(name, mine)) != mine:
                raise ImageError(
                    f"preprocessor_config.json says {name} {told[name]}, the model's vision tower has {mine}: "
                    "these files do not belong together"
                )
        if told.get("resample") not in (None, BICUBIC):
            raise ImageError(
                f"preprocessor_config.json says resample {told['resample']}; specvet knows bicubic (3) only"
            )
        for name in ("do_resize", "do_rescale", "do_normalize"):
            if not told.get(name, True):
                raise ImageError(f"preprocessor_config.json says {name} false; specvet has no rule for that")
        return rule

    def table(self) -> NDArray[np.float32]:
        """The float of every byte, shape (3, 256): rescaled in double, then normalised in single precision."""
        scaled = (np.arange(256, dtype=np.uint8).astype(np.float64) * self.scale).astype(np.float32)
        mean, std = np.array(self.mean, dtype=np.float32), np.array(self.std, dtype=np.float32)
        values: NDArray[np.float32] = (scaled[None, :] - mean[:, None]) / std[:, None]
        return values

    def pixels(self, segment: ImageSegment) -> NDArray[np.uint8]:
        """RGB bytes of a ledger's picture at the size that the ledger counts with, shape (height, width, 3).

        Resized (bicubic, as the processors do) where the PNG has another size. Raises LedgerError where the ledger was
        read back without its pictures or with another one, ImageError for a damaged PNG.
        """
        from PIL import Image as Pillow

        if segment.png is None:
            raise LedgerError(
                f"the picture {segment.sha256[:12]} is known by its hash only; read the ledger with images"
            )
        if hashlib.sha256(segment.png).hexdigest() != segment.sha256:
            raise LedgerError(f"the picture {segment.sha256[:12]} of this ledger has the bytes of another one")
        factor = self.patch * self.merge
        size = (segment.columns * factor, segment.rows * factor)
        if (segment.width, segment.height) == size and (drawn := _plain_png(segment.png, *size)) is not None:
            return drawn
        try:
            opaque = Image.of(segment.png).png  # what has alpha is laid on white, wherever it came from
            with Pillow.open(io.BytesIO(opaque)) as picture:
                shown = picture.convert("RGB")
        except Exception as e:  # damaged files make Pillow raise all sorts of things
            raise ImageError(f"the picture {segment.sha256[:12]} is damaged: {e}") from e
        if shown.size != (segment.width, segment.height):
            raise LedgerError(
                f"the picture {segment.sha256[:12]} has {shown.width} x {shown.height} pixels, its ledger says "
                f"{segment.width} x {segment.height}"
            )
        if shown.size != size:
            shown = shown.resize(size, Pillow.Resampling.BICUBIC)
        return np.asarray(shown, dtype=np.uint8)


def _plain_png(png: bytes, width: int, height: int) -> NDArray[np.uint8] | None:
    """RGB bytes of a PNG of that size as specvet writes its own; None for any other."""
    pixels = decode_plain(png) if png[16:24] == struct.pack(">II", width, height) else None
    return pixels if pixels is None or pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)


def patches(pictures: Tensor, rule: PixelRule, table: Tensor) -> Tensor:
    """Patches of pictures of one size, float32, shape (pictures * patches, 3 * temporal * patch * patch).

    `pictures` are RGB bytes, uint8 of shape (pictures, height, width, 3), and `table` is `rule.table()`; both on the
    device that the patches shall be on.
    """
    import torch

    bytes_ = pictures.int()
    channels = [table[c][bytes_[..., c]] for c in range(3)]
    values = torch.stack(channels, dim=1)
    n, _, height, width = values.shape
    p, m = rule.patch, rule.merge
    values = values.reshape(n, 3, height // (p * m), m, p, width // (p * m), m, p)
    values = values.permute(0, 2, 5, 3, 6, 1, 4, 7).unsqueeze(6)  # picture, block row/column, row/column in it, channel
    values = values.expand(-1, -1, -1, -1, -1, -1, rule.temporal, -1, -1)
    return values.reshape(n * (height // p) * (width // p), 3 * rule.temporal * p * p)
