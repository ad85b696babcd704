"""No processor of a published model resizes a compact drawing."""

from __future__ import annotations

import math

import pytest

from specvet.views.compact import SIZES

# (patch · merge, least pixels, most pixels) of each family's image processor.
# Qwen2-VL and Qwen2.5-VL: transformers, models/qwen2_vl/image_processing_qwen2_vl.py, and min_pixels and max_pixels of
# Qwen/Qwen2.5-VL-7B-Instruct's preprocessor_config.json. Qwen3-VL and Qwen3.5: size of Qwen/Qwen3-VL-4B-Instruct's
# preprocessor_config.json ({"shortest_edge": 65536, "longest_edge": 16777216}), patch_size 16, merge_size 2.
FAMILIES = {
    "Qwen2.5-VL": (28, 56 * 56, 12_845_056),
    "Qwen2-VL, class defaults": (28, 56 * 56, 28 * 28 * 1280),
    "Qwen3-VL, Qwen3.5": (32, 65_536, 16_777_216),
}


def resized(width: int, height: int, factor: int, least: int, most: int) -> tuple[int, int]:
    """`smart_resize` of transformers: multiples of `factor`, then an area between `least` and `most`."""
    to_width, to_height = round(width / factor) * factor, round(height / factor) * factor
    if to_width * to_height > most:
        shrink = math.sqrt(width * height / most)
        to_width = max(factor, math.floor(width / shrink / factor) * factor)
        to_height = max(factor, math.floor(height / shrink / factor) * factor)
    elif to_width * to_height < least:
        grow = math.sqrt(least / (width * height))
        to_width = math.ceil(width * grow / factor) * factor
        to_height = math.ceil(height * grow / factor) * factor
    return to_width, to_height


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", SIZES["published"])
def test_no_family_resizes_the_published_sizes(size: tuple[int, int], family: str) -> None:
    assert resized(*size, *FAMILIES[family]) == size


@pytest.mark.parametrize("size", SIZES["small"])
def test_models_with_28_pixel_units_take_the_small_sizes_as_they_are(size: tuple[int, int]) -> None:
    assert resized(*size, *FAMILIES["Qwen2.5-VL"]) == size


def test_the_number_of_image_tokens_is_what_the_sizes_say() -> None:
    tokens = {name: [[w * h // unit**2 for unit in (28, 32)] for w, h in pair] for name, pair in SIZES.items()}
    assert tokens["published"] == [[512, 392], [384, 294]]
    assert [full_or_zoom[0] for full_or_zoom in tokens["small"]] == [160, 88]


def test_the_formula_resizes_what_processors_are_known_to_resize() -> None:
    assert resized(1000, 600, *FAMILIES["Qwen2.5-VL"]) == (1008, 588)
    assert resized(308, 224, *FAMILIES["Qwen3-VL, Qwen3.5"]) == (320, 224)
    assert resized(224, 224, *FAMILIES["Qwen3-VL, Qwen3.5"]) == (256, 256)
