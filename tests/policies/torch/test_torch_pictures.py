"""Pictures and positions against the stock image processor, vision tower and position rule."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from torch_lab import FAMILIES, observe, opening, picture, run, stock_inputs, tiny

from specvet.chat import Image, ImageError, ImageSegment, Ledger
from specvet.chat.messages import tool, user
from specvet.policies.torch.pixels import PixelRule, _plain_png, patches
from specvet.policies.torch.positions import next_position, rotary_positions
from specvet.policies.torch.vision import VisionTower, key
from specvet.views.png import encode_png

SIZES = [(64, 64), (448, 280), (96, 224), (100, 75), (333, 517), (28, 28)]
"""Width and height; the fourth and fifth are resized by every family."""


def grey(width: int, height: int) -> Image:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width), dtype=np.uint8)
    out = io.BytesIO()
    Pillow.fromarray(pixels).save(out, "PNG")
    return Image.of(out.getvalue())


@pytest.mark.parametrize("family", FAMILIES)
def test_patches_equal_the_stock_image_processors_float_by_float(family: str) -> None:
    policy = tiny(family)
    rule = policy.model.vision.rule
    table = torch.from_numpy(rule.table())

    async def work() -> None:
        for image in [*(picture(i, *size) for i, size in enumerate(SIZES)), grey(90, 140)]:
            ledger = opening(policy, "?", image)
            stock = stock_inputs(policy, [ledger])
            (segment,) = ledger.images
            ours = patches(torch.from_numpy(rule.pixels(segment).copy())[None], rule, table)
            assert stock["image_grid_thw"].tolist() == [[1, segment.rows * rule.merge, segment.columns * rule.merge]]
            assert torch.equal(ours, stock["pixel_values"])

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_features_of_many_sizes_at_once_equal_the_stock_tower_picture_by_picture(family: str) -> None:
    policy, stock = tiny(family), tiny(family)
    tower = stock.model.module.model.visual
    for block in tower.blocks:  # back to the stock code
        del block.attn.forward
    del tower.patch_embed.forward

    async def work() -> None:
        images = [picture(i, *size) for i, size in enumerate([*SIZES, (448, 280), (64, 64)])]
        ledger = opening(policy, "?", *images)
        features = policy.model.vision.features(ledger.images)
        for image, segment in zip(images, ledger.images, strict=True):
            given = stock_inputs(policy, [opening(policy, "?", image)])
            with torch.no_grad():
                out = tower(given["pixel_values"], grid_thw=given["image_grid_thw"])
            mine = features[key(segment)]
            assert mine.main.numpy() == pytest.approx(out.pooler_output.numpy(), abs=2e-5)
            deep = getattr(out, "deepstack_features", None) or []
            assert len(mine.deep) == len(deep) == (family == "qwen3_vl")
            for ours, theirs in zip(mine.deep, deep, strict=True):
                assert ours.numpy() == pytest.approx(theirs.numpy(), abs=2e-5)

    run(work, policy, stock)


@pytest.mark.parametrize("family", FAMILIES)
def test_positions_equal_the_stock_rule_over_turns_and_pictures(family: str) -> None:
    policy = tiny(family)

    async def work() -> None:
        ledger = opening(policy, "a question", picture(1, 448, 64), picture(2, 64, 448))
        for turn in range(3):
            ledger.append_sampled([65] * (turn + 1), None, "length")
            observe(policy, ledger, tool(picture(turn, 64 * (turn + 1), 96), "said", picture(9)))
        given = stock_inputs(policy, [ledger])
        positions, delta = policy.model.module.model.get_rope_index(
            given["input_ids"], given["mm_token_type_ids"], image_grid_thw=given["image_grid_thw"]
        )
        assert rotary_positions(ledger).tolist() == positions[:, 0].tolist()
        assert next_position(ledger) - ledger.n_tokens == int(delta)

    run(work, policy)


def test_a_picture_with_alpha_is_seen_as_its_white_composite() -> None:
    policy = tiny("qwen2_5_vl")
    rgba = np.random.default_rng(5).integers(0, 255, (64, 64, 4), dtype=np.uint8)
    layers = Pillow.fromarray(rgba)
    white = Pillow.new("RGBA", layers.size, "white")
    white.alpha_composite(layers)
    black = Pillow.new("RGB", layers.size, "black")
    black.paste(layers.convert("RGB"))
    shown = []
    for made in (layers, white.convert("RGB"), black):
        out = io.BytesIO()
        made.save(out, "PNG")
        shown.append(Image.of(out.getvalue()))

    async def work() -> None:
        def logprobs(image: Image) -> list[float]:
            ledger = opening(policy, "?", image)
            ledger.append_sampled([65, 66], None, "length")
            return list(policy.recomputed_logprobs(ledger))

        with_alpha, composite, opaque = map(logprobs, shown)
        assert with_alpha == composite
        assert with_alpha != opaque

    run(work, policy)


def test_a_picture_goes_through_the_tower_once_and_old_ones_are_dropped_by_size() -> None:
    policy = tiny("qwen2_5_vl")
    tower = policy.model.vision
    small = VisionTower(policy.model.module.model.visual, tower.rule, keep_bytes=3 * 4 * 64 * 4)

    async def work() -> None:
        segments = [policy.format.image_segment(picture(i, 56, 56)) for i in range(4)]
        for segment in (*segments, *segments):
            tower.features([segment])
            small.features([segment])
        assert tower.n_encoded == 4
        assert small.n_encoded == 8  # three fit, and the one asked for is always the fourth
        small.close()

    run(work, policy)


def test_one_png_at_two_grids_has_two_features() -> None:
    policy = tiny("qwen2_5_vl")

    async def work() -> None:
        one = policy.format.image_segment(picture(1, 56, 112))
        other = ImageSegment(one.sha256, one.width, one.height, one.columns, one.rows, one.pad_id, one.role, one.png)
        assert (one.rows, one.columns) == (4, 2)
        found = policy.model.vision.features([one, other])
        assert len(found) == 2

    run(work, policy)


def test_settings_that_contradict_the_model_are_refused() -> None:
    vision = tiny_vision()
    assert PixelRule.from_config(
        {"image_processor": {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}}, vision
    ).mean == (
        0.5,
        0.5,
        0.5,
    )
    with pytest.raises(ImageError, match="patch_size 16, the model's vision tower has 14"):
        PixelRule.from_config({"patch_size": 16}, vision)
    with pytest.raises(ImageError, match="do_resize false"):
        PixelRule.from_config({"do_resize": False}, vision)


def tiny_vision() -> object:
    from specvet.chat.tiny import tiny_vocabulary
    from specvet.policies.torch.tiny import tiny_config

    vision: object = tiny_config("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl")).vision_config
    return vision


def test_a_ledger_counts_pictures_of_tool_and_user_alike() -> None:
    policy = tiny("qwen3_vl")

    async def work() -> None:
        ledger = Ledger(policy.format.name, policy.format.vocabulary.fingerprint)
        ledger.append(policy.format.opening([user(picture(1, 448, 280), "?")]))
        assert [(s.rows, s.columns) for s in ledger.images] == [(9, 14)]

    run(work, policy)


@pytest.mark.parametrize("shape", [(56, 84, 3), (84, 56)])
def test_specvets_own_pngs_are_read_as_a_general_decoder_reads_them(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    png = encode_png(array)
    height, width = shape[:2]
    quick = _plain_png(png, width, height)
    with Pillow.open(io.BytesIO(png)) as opened:
        assert np.array_equal(quick, np.asarray(opened.convert("RGB")))
    other = io.BytesIO()
    Pillow.fromarray(array).save(other, "PNG", optimize=True)
    for unusual in (other.getvalue(), png[:60], png[:-12], png[:50] + b"x" + png[51:], b""):
        assert _plain_png(unusual, width, height) is None, "left to the general decoder"
    assert _plain_png(png, width + 1, height) is None
