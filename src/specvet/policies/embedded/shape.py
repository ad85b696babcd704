"""The sizes of a model that the embedded policy can run, read from its `config.json` and checked.

A Qwen2.5-VL whose vision layers all attend to the whole picture, with plain rotary positions and tied embeddings. Its
weights may have any sizes; the graphs in the package are those of `nano` (`specvet.policies.torch.nano`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specvet.policies.tokens import PolicyError

MOST_POSITIONS = 1 << 20
"""Of a context; there are tables of them all."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the graphs, and the rotary frequencies."""

    ids: int
    """Rows of the embedding."""
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    """Width of a layer's feed-forward part."""
    epsilon: float
    """Of the text model's norms; those of the vision tower have 1e-6."""
    theta: float
    sections: tuple[int, int, int]
    """Rotary frequencies that follow time, row and column; half a head together."""
    positions: int
    """The largest context."""
    image_id: int
    patch: int
    merge: int
    temporal: int
    vision_hidden: int
    vision_layers: int
    vision_heads: int
    vision_ffn: int
    vision_theta: float = 10_000.0

    @property
    def head(self) -> int:
        """Width of a head of the text model."""
        return self.hidden // self.heads

    @property
    def vision_head(self) -> int:
        return self.vision_hidden // self.vision_heads

    @property
    def patch_values(self) -> int:
        """Bytes of one patch: rows, columns, colours."""
        return 3 * self.patch**2

    @property
    def merged(self) -> int:
        """Width of the patches that become one token, side by side."""
        return self.vision_hidden * self.merge**2

    @property
    def has_graphs(self) -> bool:
        """Whether the graphs in the package are for such a model."""
        return replace(self, positions=NANO.positions, image_id=NANO.image_id) == NANO

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """From a `config.json` that transformers wrote. Raises PolicyError for a model that cannot be run here."""
        try:
            return _shape(config)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise PolicyError(
                f"config.json: not of a Qwen2.5-VL that can be read: {type(e).__name__}: {e}", fatal=True
            ) from e


NANO = Shape(
    ids=1536,
    hidden=384,
    layers=5,
    heads=6,
    kv_heads=2,
    ffn=640,
    epsilon=1e-5,
    theta=10_000.0,
    sections=(8, 12, 12),
    positions=4096,
    image_id=0,
    patch=14,
    merge=2,
    temporal=2,
    vision_hidden=256,
    vision_layers=5,
    vision_heads=4,
    vision_ffn=640,
)
"""The shape that the graphs in the package are built for (`positions` and `image_id` are no part of them)."""


def _shape(config: Mapping[str, Any]) -> Shape:
    text, vision = config["text_config"], config["vision_config"]
    rope = text.get("rope_parameters") or {}
    shape = Shape(
        ids=int(text["vocab_size"]),
        hidden=int(text["hidden_size"]),
        layers=int(text["num_hidden_layers"]),
        heads=int(text["num_attention_heads"]),
        kv_heads=int(text["num_key_value_heads"]),
        ffn=int(text["intermediate_size"]),
        epsilon=float(text.get("rms_norm_eps", 1e-6)),
        theta=float(rope["rope_theta"]),
        sections=_three(rope["mrope_section"]),
        positions=int(text["max_position_embeddings"]),
        image_id=int(config["image_token_id"]),
        patch=int(vision["patch_size"]),
        merge=int(vision["spatial_merge_size"]),
        temporal=int(vision["temporal_patch_size"]),
        vision_hidden=int(vision["hidden_size"]),
        vision_layers=int(vision["depth"]),
        vision_heads=int(vision["num_heads"]),
        vision_ffn=int(vision["intermediate_size"]),
        vision_theta=float((vision.get("rope_parameters") or {}).get("rope_theta", 10_000.0)),
    )
    kinds = set(text.get("layer_types") or ["full_attention"])
    for wrong, why in (
        (config.get("model_type") != "qwen2_5_vl", f"a {config.get('model_type')} model"),
        (not 1 <= shape.positions <= MOST_POSITIONS, f"{shape.positions:,} positions"),
        (kinds != {"full_attention"}, f"layers of {', '.join(sorted(kinds))}"),
        (rope.get("rope_type") != "default", f"rotary positions of type {rope.get('rope_type')}"),
        (not config.get("tie_word_embeddings"), "embeddings that are not tied"),
        (text.get("hidden_act", "silu") != "silu" or vision.get("hidden_act", "silu") != "silu", "other activations"),
        (
            set(vision["fullatt_block_indexes"]) != set(range(shape.vision_layers)),
            "vision layers that attend to windows",
        ),
        (2 * sum(shape.sections) != shape.head, f"mrope_section {shape.sections} for heads of {shape.head}"),
    ):
        if wrong:
            raise PolicyError(
                f"config.json: {why}; the embedded policy cannot run that: --policy torch can", fatal=True
            )
    return shape


def _three(values: Any) -> tuple[int, int, int]:
    time, row, column = map(int, values)
    return time, row, column
