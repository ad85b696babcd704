"""A vision-language model as specvet uses it: embeddings, pictures, logits, and teacher-forced log-probs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specvet.chat import ImageSegment, Ledger, LedgerError, SampledSegment, TextSegment
from specvet.policies.torch.pixels import PixelRule
from specvet.policies.torch.positions import rotary_positions
from specvet.policies.torch.vision import Features, VisionTower, key

FEATURE_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
"""Vision features that are kept: some 2,500 pictures of 448 x 280 for a model of hidden size 2048 in bfloat16."""
LOGIT_ROWS = 1024
"""Positions whose logits are made at a time when no gradient needs them."""


@dataclass(slots=True)
class Embedded:
    """A stretch of a ledger, ready for the text model."""

    ids: NDArray[np.int64]
    """Shape (n,)."""
    positions: NDArray[np.int64]
    """Shape (3, n)."""
    pictures: list[tuple[int, ImageSegment, int, int]]
    """Where in the stretch, which picture, and which of its tokens (from, to) stand there."""


def stretch(ledger: Ledger, start: int, end: int) -> Embedded:
    """Tokens `start` to `end` of a ledger, which must hold tokens."""
    ids = np.empty(end - start, dtype=np.int64)
    pictures = []
    for at, stop, segment in zip(ledger.ends, ledger.ends[1:], ledger, strict=False):
        first, last = max(at, start), min(stop, end)
        if first >= last:
            continue
        if isinstance(segment, ImageSegment):
            ids[first - start : last - start] = segment.pad_id
            pictures.append((first - start, segment, first - at, last - at))
        elif isinstance(segment, TextSegment | SampledSegment):
            ids[first - start : last - start] = segment.ids[first - at : last - at]
    return Embedded(ids, rotary_positions(ledger, start, end), pictures)


class TorchModel:
    """A stock `…ForConditionalGeneration` (with or without a LoRA adapter in it) and what goes with it."""

    def __init__(self, module: Any, rule: PixelRule, *, files: Sequence[Path] = ()) -> None:
        self.module = module.eval()
        """The whole model; `parameters()` of it are what a trainer trains."""
        core = module.get_base_model() if hasattr(module, "get_base_model") else module
        self.config = core.config
        self.text = core.model.language_model
        self.head = core.lm_head
        self.device: torch.device = self.text.embed_tokens.weight.device
        self.dtype: torch.dtype = self.text.embed_tokens.weight.dtype
        self.vision = VisionTower(core.model.visual, rule, keep_bytes=FEATURE_BYTES.get(self.device.type, 256 << 20))
        self._files = list(files)
        self._weights: str | None = None

    @property
    def n_ids(self) -> int:
        """Rows of the embedding."""
        return int(self.text.embed_tokens.weight.shape[0])

    @property
    def max_positions(self) -> int:
        return int(self.config.text_config.max_position_embeddings)

    @property
    def weights(self) -> str:
        """SHA-256 of the weights: of their files where they came from files, else of the tensors."""
        if self._weights is None:
            self._weights = _hash_of_files(self._files) if self._files else _hash_of_tensors(self.module)
        return self._weights

    @property
    def adapter(self) -> Literal["none", "fresh", "trained"]:
        """Whether there is a LoRA in it; `fresh` where every B is 0, as LoRA begins, which changes nothing."""
        parts = [p for name, p in self.module.named_parameters() if "lora_B" in name or "lora_embedding_B" in name]
        if not parts:
            return "none"
        return "trained" if any(bool(p.detach().any()) for p in parts) else "fresh"

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """The base model alone, in this block. Only for the thread that computes, between its other work."""
        # By the layers' own flag: peft's `disable_adapter` also changes what a trainer may train.
        layers = [m for m in self.module.modules() if hasattr(m, "_disable_adapters")]
        before = [layer._disable_adapters for layer in layers]
        self.vision.forget()
        try:
            for layer in layers:
                layer._disable_adapters = True
            yield
        finally:
            for layer, was in zip(layers, before, strict=True):
                layer._disable_adapters = was
            self.vision.forget()

    def weights_changed(self) -> None:
        """Somebody trained the weights: files no longer say what they are, and features are no longer theirs."""
        self._files, self._weights = [], None
        self.vision.forget()

    def close(self) -> None:
        self.vision.close()

    def check(self, ledger: Ledger) -> None:
        """Whether this model can be shown the ledger. Raises LedgerError."""
        highest = 0
        for segment in ledger:
            if isinstance(segment, ImageSegment):
                highest = max(highest, segment.pad_id)
            elif isinstance(segment, TextSegment | SampledSegment) and segment.ids:
                highest = max(highest, *segment.ids)
        if highest >= self.n_ids:
            raise LedgerError(f"the token id {highest} is beyond the model's {self.n_ids} ids")

    def embed(
        self, parts: Sequence[Embedded], features: dict[Any, Features]
    ) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
        """Stretches padded on the right, as `TextLayers` takes them: (hidden, positions, deep, deep_at)."""
        width = max(p.ids.size for p in parts)
        ids = np.zeros((len(parts), width), dtype=np.int64)
        positions = np.zeros((3, len(parts), width), dtype=np.int64)
        places: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        shown: list[tuple[Features, int, int]] = []
        for r, part in enumerate(parts):
            ids[r, : part.ids.size] = part.ids
            positions[:, r, : part.ids.size] = part.positions
            for at, segment, first, last in part.pictures:
                places.append(r * width + at + np.arange(last - first))
                shown.append((features[key(segment)], first, last))
        hidden = self.text.embed_tokens(torch.from_numpy(ids).to(self.device))
        deep: list[Tensor] = []
        where = torch.from_numpy(np.concatenate(places)).to(self.device)
        if shown:
            main = torch.cat([f.main[a:b] for f, a, b in shown]).to(hidden.dtype)
            hidden = hidden.flatten(0, 1).index_copy(0, where, main).view_as(hidden)
            deep = [torch.cat([f.deep[i][a:b] for f, a, b in shown]) for i in range(len(shown[0][0].deep))]
        return hidden, torch.from_numpy(positions).to(self.device), deep, where

    def logprobs(self, ledgers: Sequence[Ledger]) -> list[Tensor]:
        """Teacher-forced log-probs of the sampled tokens, one float32 tensor (n_sampled,) a ledger, in order.

        The stock text model reads each whole ledger in one batch, without any cache: what a trainer differentiates, and
        what the log-probs of sampling are held against. Gradients flow where they are on. Raises LedgerError.
        """
        for ledger in ledgers:
            self.check(ledger)
        parts = [stretch(ledger, 0, ledger.n_tokens) for ledger in ledgers]
        segments = [s for p in parts for _, s, _, _ in p.pictures]
        if torch.is_grad_enabled():
            unique = {key(s): s for s in segments}
            features = dict(zip(unique, self.vision.encode(list(unique.values())), strict=True))
        else:
            features = self.vision.features(segments)
        hidden, positions, deep, where = self.embed(parts, features)
        out = self.text(
            inputs_embeds=hidden,
            position_ids=positions,
            attention_mask=None,
            use_cache=False,
            **self._deep(hidden, deep, where),
        )
        states = out.last_hidden_state
        return [self._sampled(states[r], ledger) for r, ledger in enumerate(ledgers)]

    def _deep(self, hidden: Tensor, deep: list[Tensor], where: Tensor) -> dict[str, Any]:
        if not deep:
            return {}
        mask = torch.zeros(hidden.shape[0] * hidden.shape[1], dtype=torch.bool, device=self.device)
        mask[where] = True
        return {"visual_pos_masks": mask.view(hidden.shape[:2]), "deepstack_visual_embeds": deep}

    def _sampled(self, states: Tensor, ledger: Ledger) -> Tensor:
        ends = zip(ledger.ends, ledger.ends[1:], ledger, strict=False)
        places = [np.arange(a, b) for a, b, s in ends if isinstance(s, SampledSegment)]
        if not places:
            return torch.zeros(0, device=self.device)
        at = np.concatenate(places)
        if at[0] == 0:
            raise LedgerError("the first token of a ledger was sampled; there is no position that predicts it")
        before = torch.from_numpy(at - 1).to(self.device)
        ids = torch.from_numpy(ledger.ids()[at].astype(np.int64)).to(self.device)
        step = len(at) if torch.is_grad_enabled() else LOGIT_ROWS
        values = []
        for i in range(0, len(at), step):
            logits = self.head(states[before[i : i + step]]).float()
            values.append(torch.log_softmax(logits, dim=-1).gather(-1, ids[i : i + step, None]).squeeze(-1))
        return torch.cat(values)


def _hash_of_files(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda p: p.name):
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _hash_of_tensors(module: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()
