"""Weights of a model folder, without torch: safetensors files as float32 arrays, arranged as the graphs take them.

A safetensors file is the length of a JSON header (8 bytes, little-endian), the header (name → dtype, shape, offsets),
and the tensors' bytes (https://github.com/huggingface/safetensors, "Format"). A bfloat16 is the upper half of a
float32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.policies.embedded.shape import Shape
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.pixels import PixelRule

Array = NDArray[np.float32]
MAX_HEADER = 100 << 20
"""Bytes, as the format has it."""
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


def read_tensors(files: Sequence[Path]) -> Mapping[str, Array]:
    """All tensors of these safetensors files; each is read, as float32, when it is asked for: all at once would take
    as much memory as the sessions do. Raises PolicyError for a damaged file."""
    places: dict[str, Place] = {}
    for file in files:
        try:
            places |= {_published(name): place for name, place in _places(file).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            raise PolicyError(f"{file}: not a sound safetensors file: {e}", fatal=True) from e
    return Tensors(places)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies in its file."""

    raw: NDArray[Any]
    shape: tuple[int, ...]

    def read(self) -> Array:
        raw = self.raw
        bfloat = raw.dtype.kind == "u"
        values: Array = (raw.astype(np.uint32) << 16).view(np.float32) if bfloat else raw.astype(np.float32)
        return values.reshape(self.shape)


class Tensors(Mapping[str, Array]):
    """Tensors by their published names, read anew whenever they are asked for."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> Array:
        return self._places[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _published(name: str) -> str:
    """A tensor's name as published models have it, whichever version of transformers wrote it."""
    return name.replace("model.language_model.", "model.").replace("model.visual.", "visual.")


def _places(file: Path) -> dict[str, Place]:
    data = np.memmap(file, dtype=np.uint8, mode="r")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if data.size < 8 or not 2 <= length <= min(MAX_HEADER, data.size - 8):
        raise ValueError(f"a header of {length} bytes in a file of {data.size}")
    header = json.loads(data[8 : 8 + length].tobytes())
    body = data[8 + length :]
    return {name: _place(name, told, body) for name, told in header.items() if name != "__metadata__"}


def _place(name: str, told: Mapping[str, Any], body: NDArray[np.uint8]) -> Place:
    if told["dtype"] not in _TYPES:
        raise ValueError(f"{name} is of type {told['dtype']}; {', '.join(_TYPES)} can be read")
    dtype, shape = _TYPES[told["dtype"]], tuple(map(int, told["shape"]))
    start, end = map(int, told["data_offsets"])
    if not 0 <= start <= end <= body.size or end - start != int(np.prod(shape)) * dtype.itemsize:
        raise ValueError(f"{name}, {told['dtype']} of shape {shape}, does not fill the bytes {start} to {end}")
    return Place(body[start:end].view(dtype), shape)


class Weights:
    """What the two graphs take, by the names that they have there, and the embeddings."""

    def __init__(self, tensors: Mapping[str, Array], shape: Shape, rule: PixelRule) -> None:
        """Raises PolicyError for tensors that are missing or of another shape, and for values that are not finite."""
        self._tensors, self._shape = tensors, shape
        self.embeddings = self._take("model.embed_tokens", shape.ids, shape.hidden)
        """Shape (ids, hidden)."""
        self.text = self._text()
        self.vision = self._vision(rule)

    def _take(self, name: str, *shape: int) -> Array:
        """`name`.weight, or `name` itself if it ends in `.bias`."""
        full = name if name.endswith(".bias") else f"{name}.weight"
        found = self._tensors.get(full)
        if found is None:
            raise PolicyError(f"the weights {full} are missing", fatal=True)
        if found.shape != shape:
            raise PolicyError(f"the weights {full} have the shape {found.shape}, config.json says {shape}", fatal=True)
        if not np.isfinite(found).all():
            raise PolicyError(f"the weights {full} are not all finite: damaged, or trained to pieces", fatal=True)
        return found

    def _linear(self, name: str, parts: Sequence[tuple[str, int]], wide: int, *, bias: bool) -> dict[str, Array]:
        """Layers that read the same, (name, width of output) each, as one product."""
        weights = [self._take(part, out, wide) for part, out in parts]
        made = {f"{name}.weight": np.ascontiguousarray(np.concatenate(weights).T)}
        if bias:
            made[f"{name}.bias"] = np.concatenate([self._take(f"{part}.bias", out) for part, out in parts])
        return made

    def _text(self) -> dict[str, Array]:
        s = self._shape
        made: dict[str, Array] = {}
        kv = s.kv_heads * s.head
        for i in range(s.layers):
            at = f"model.layers.{i}"
            made[f"{i}.input_norm.weight"] = self._take(f"{at}.input_layernorm", s.hidden)
            made[f"{i}.ffn_norm.weight"] = self._take(f"{at}.post_attention_layernorm", s.hidden)
            qkv = [(f"{at}.self_attn.{p}_proj", width) for p, width in (("q", s.hidden), ("k", kv), ("v", kv))]
            made |= self._linear(f"{i}.qkv", qkv, s.hidden, bias=True)
            made |= self._linear(f"{i}.out", [(f"{at}.self_attn.o_proj", s.hidden)], s.hidden, bias=False)
            made |= self._gated(f"{i}.ffn", f"{at}.mlp", s.hidden, s.ffn, bias=False)
        made["norm.weight"] = self._take("model.norm", s.hidden)
        made["head.weight"] = np.ascontiguousarray(self.embeddings.T)
        return made

    def _gated(self, name: str, at: str, wide: int, ffn: int, *, bias: bool) -> dict[str, Array]:
        both = self._linear(f"{name}.gate_up", [(f"{at}.gate_proj", ffn), (f"{at}.up_proj", ffn)], wide, bias=bias)
        return both | self._linear(f"{name}.down", [(f"{at}.down_proj", wide)], ffn, bias=bias)

    def _vision(self, rule: PixelRule) -> dict[str, Array]:
        s = self._shape
        v, at = s.vision_hidden, "visual"
        made = self._patches(self._take(f"{at}.patch_embed.proj", v, 3, s.temporal, s.patch, s.patch), rule)
        for i in range(s.vision_layers):
            block = f"{at}.blocks.{i}"
            made[f"{i}.norm1.weight"] = self._take(f"{block}.norm1", v)
            made[f"{i}.norm2.weight"] = self._take(f"{block}.norm2", v)
            made |= self._linear(f"{i}.qkv", [(f"{block}.attn.qkv", 3 * v)], v, bias=True)
            made |= self._linear(f"{i}.out", [(f"{block}.attn.proj", v)], v, bias=True)
            made |= self._gated(f"{i}.ffn", f"{block}.mlp", v, s.vision_ffn, bias=True)
        made["merger_norm.weight"] = self._take(f"{at}.merger.ln_q", v)
        made |= self._linear("merger_in", [(f"{at}.merger.mlp.0", s.merged)], s.merged, bias=True)
        return made | self._linear("merger_out", [(f"{at}.merger.mlp.2", s.hidden)], s.merged, bias=True)

    def _patches(self, kernel: Array, rule: PixelRule) -> dict[str, Array]:
        """The patch embedding for bytes: normalising them is a part of its weights and a bias.

        A still picture fills all `temporal` frames, whose kernels are therefore added up.
        """
        summed = kernel.astype(np.float64).sum(axis=2).transpose(2, 3, 1, 0)  # row, column, colour, output
        mean, std = (np.array(values, dtype=np.float64)[:, None] for values in (rule.mean, rule.std))
        scaled = summed * (rule.scale / std)
        bias = -(summed * (mean / std)).sum(axis=(0, 1, 2))
        weight = scaled.reshape(self._shape.patch_values, -1)
        return {"patches_in.weight": weight.astype(np.float32), "patches_in.bias": bias.astype(np.float32)}
