"""How many tokens a picture costs: every size against the families' own image processors in transformers."""

from __future__ import annotations

import importlib.metadata
import random
import re
import struct
from functools import cache
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from specvet.chat import GEOMETRIES, ImageError, ImageGeometry, images
from specvet.chat.tiny import write_tiny
from specvet.views import draw
from specvet.views.compact import SIZES

FIGURES = [
    (zoomed, span, n)
    for zoomed in (False, True)
    for span in (30.0, 150.0, 500.0, 2000.0, 5300.0)
    for n in (30, 2000, 12_000)
]
"""A reference figure's size follows from these: full or zoom, its span in Å, its number of points."""


def configured(geometry: ImageGeometry, spelling: str) -> dict[str, Any]:
    """The geometry as a `preprocessor_config.json` says it."""
    told: dict[str, Any] = {"patch_size": geometry.patch, "merge_size": geometry.merge}
    if spelling == "old":
        return told | {"min_pixels": geometry.min_pixels, "max_pixels": geometry.max_pixels}
    return told | {"size": {"shortest_edge": geometry.min_pixels, "longest_edge": geometry.max_pixels}}


def processor(family: str, spelling: str = "new") -> Any:
    """The family's own image processor in transformers, the one that needs no torchvision."""
    pytest.importorskip("transformers")
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    assert IMAGE_PROCESSOR_MAPPING_NAMES[family]["pil"] == "Qwen2VLImageProcessorPil"
    return Qwen2VLImageProcessorPil(**configured(GEOMETRIES[family], spelling))


@cache
def reference_sizes() -> list[tuple[int, int]]:
    """(width, height) in pixels of the reference figures of all kinds, drawn."""
    rng = np.random.default_rng(1)
    sizes = set()
    for zoomed, span, n in FIGURES:
        wavelength = np.linspace(4000, 4000 + span, n)
        png = draw(wavelength, rng.normal(100, 5, n), window=(4000, 4000 + span) if zoomed else None)
        sizes.add(struct.unpack(">II", png[16:24]))
    return sorted(sizes)


def test_every_size_is_resized_as_the_processors_resize_it() -> None:
    pytest.importorskip("transformers")
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    rng = random.Random(2)
    sizes = [(w, h) for w in range(1, 1500, 13) for h in range(1, 1200, 13)]
    sizes += [(w, h) for w in range(1, 90) for h in range(1, 90)]
    sizes += [(rng.randint(1, 9000), rng.randint(1, 9000)) for _ in range(10_000)]
    sizes += [*reference_sizes(), *(s for pair in SIZES.values() for s in pair)]
    odd = ImageGeometry(14, 2, 28 * 28 * 90, 28 * 28 * 100)  # a narrow range, where rounding matters most
    for geometry in (*GEOMETRIES.values(), images.DEFAULT, odd):
        for width, height in sizes:
            options = geometry.factor, geometry.min_pixels, geometry.max_pixels
            if max(width, height) / min(width, height) > images.MAX_RATIO:
                with pytest.raises(ImageError, match="more than 200 times"):
                    geometry.grid(width, height)
                continue
            high, wide = smart_resize(height, width, *options)
            assert geometry.resized(width, height) == (wide, high)
            assert geometry.grid(width, height) == (high // geometry.factor, wide // geometry.factor)
            assert geometry.is_resized(width, height) == ((wide, high) != (width, height))


@pytest.mark.parametrize("spelling", ["old", "new"])
@pytest.mark.parametrize("family", GEOMETRIES)
def test_tokens_are_those_of_the_family_s_own_processor(family: str, spelling: str) -> None:
    theirs, geometry = processor(family, spelling), GEOMETRIES[family]
    assert ImageGeometry.from_config(configured(geometry, spelling)) == geometry
    rng = random.Random(3)
    sizes = [(rng.randint(20, 900), rng.randint(20, 700)) for _ in range(12)]
    sizes += [*reference_sizes(), *(s for pair in SIZES.values() for s in pair), (28, 28), (1, 1), (2000, 10)]
    for width, height in sizes:
        pixels = theirs(images=[Pillow.new("RGB", (width, height), "white")], return_tensors="np")
        frames, rows, columns = (int(n) for n in pixels["image_grid_thw"][0])
        assert (frames, rows // geometry.merge, columns // geometry.merge) == (1, *geometry.grid(width, height))
        assert theirs.get_number_of_image_patches(height, width) == rows * columns
        assert geometry.n_tokens(width, height) == rows * columns // geometry.merge**2
        assert pixels["pixel_values"].shape[0] == rows * columns


@pytest.mark.parametrize("family", GEOMETRIES)
@pytest.mark.parametrize("size", [(896, 448), (672, 448), (448, 280), (632, 392)])
def test_a_picture_keeps_its_pixels_exactly_when_its_size_is_not_flagged(family: str, size: tuple[int, int]) -> None:
    theirs, geometry = processor(family), GEOMETRIES[family]
    drawn = Pillow.fromarray(np.random.default_rng(4).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    shown = theirs(images=[drawn], return_tensors="np")["pixel_values"]
    if geometry.is_resized(*size):
        assert geometry.resized(*size) != size
    else:
        assert np.array_equal(shown, theirs(images=[drawn], do_resize=False, return_tensors="np")["pixel_values"])


def test_the_folder_s_own_file_decides(tmp_path) -> None:
    import json

    for family, geometry in GEOMETRIES.items():
        write_tiny(family, tmp_path / family)
        told = json.loads((tmp_path / family / "preprocessor_config.json").read_text())
        assert ImageGeometry.from_config(told) == geometry
        assert ImageGeometry.from_config({"image_processor": told, "processor_class": "X"}) == geometry
    transformers = pytest.importorskip("transformers")
    kept = transformers.AutoImageProcessor.from_pretrained(tmp_path / "qwen3_5", backend="pil")
    assert kept.size["longest_edge"] == GEOMETRIES["qwen3_5"].max_pixels
    kept.save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "preprocessor_config.json").read_text())
    assert ImageGeometry.from_config(saved) == GEOMETRIES["qwen3_5"]


def test_what_a_file_leaves_out_is_the_processor_class_s_own() -> None:
    assert ImageGeometry.from_config({}) == images.DEFAULT
    pytest.importorskip("transformers")
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as Theirs

    told = Theirs()
    assert (
        ImageGeometry(told.patch_size, told.merge_size, told.size["shortest_edge"], told.size["longest_edge"])
        == images.DEFAULT
    )
    both = {"min_pixels": 1000, "max_pixels": 90_000, "size": {"shortest_edge": 5, "longest_edge": 50}}
    mixed = Theirs(**both)
    assert (mixed.size["shortest_edge"], mixed.size["longest_edge"]) == (1000, 90_000)
    assert ImageGeometry.from_config(both) == ImageGeometry(14, 2, 1000, 90_000)


@pytest.mark.parametrize("wrong", [{"patch_size": 0}, {"merge_size": "2"}, {"max_pixels": -1}, {"min_pixels": True}])
def test_sizes_that_no_processor_has_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ImageError, match="whole numbers above 0"):
        ImageGeometry.from_config(wrong)


@pytest.mark.parametrize("size", [(0, 10), (10, 0), (-1, 5), (201, 1)])
def test_shapes_that_no_picture_has_are_refused(size: tuple[int, int]) -> None:
    for geometry in GEOMETRIES.values():
        with pytest.raises(ImageError):
            geometry.n_tokens(*size)


# --- our figures: the table in images.py is true


def _table() -> list[list[str]]:
    rows = re.findall(r"^ *\| (\d+ x \d+) \| (.+?) \| (.+?) \|$", images.__doc__ or "", flags=re.MULTILINE)
    return [list(row) for row in rows]


def _cell(family: str, width: int, height: int) -> str:
    geometry = GEOMETRIES[family]
    wide, high = geometry.resized(width, height)
    tokens = geometry.n_tokens(width, height)
    return f"{tokens}, as {wide} x {high}" if geometry.is_resized(width, height) else f"{tokens}"


@pytest.mark.skipif(
    importlib.metadata.version("matplotlib") != "3.11.2",
    reason="the table is of matplotlib 3.11.2; a tight figure's width is its letters'",
)
def test_the_table_of_our_figures_holds_every_size_and_what_becomes_of_it() -> None:
    drawn = [*reference_sizes(), *sorted(s for pair in SIZES.values() for s in pair)]
    wanted = [[f"{w} x {h}", _cell("qwen2_5_vl", w, h), _cell("qwen3_vl", w, h)] for w, h in drawn]
    assert _table() == wanted
    assert GEOMETRIES["qwen3_5"] == GEOMETRIES["qwen3_vl"]


def test_every_reference_figure_is_resized_and_no_published_compact_one() -> None:
    for geometry in GEOMETRIES.values():
        assert all(geometry.is_resized(*size) for size in reference_sizes())
        assert not any(geometry.is_resized(*size) for size in SIZES["published"])
    assert [GEOMETRIES["qwen2_5_vl"].is_resized(*s) for s in SIZES["small"]] == [False, False]
    assert [GEOMETRIES["qwen3_5"].is_resized(*s) for s in SIZES["small"]] == [True, True]
