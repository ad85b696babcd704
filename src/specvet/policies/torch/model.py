"""A vision-language model as specvet uses it: embeddings, pictures, logits, and teacher-forced log-probs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specvet.chat import Ledger, LedgerError, SampledSegment
from specvet.policies.serving.thread import check_ids
from specvet.policies.torch import adapters
from specvet.policies.torch.layers import speed_up
from specvet.policies.torch.pixels import PixelRule
from specvet.policies.torch.positions import Embedded, stretch
from specvet.policies.torch.vision import Features, Key, VisionTower, key

FEATURE_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
"""Vision features that are kept: some 2,500 pictures of 448 x 280 for a model of hidden size 2048 in bfloat16."""
LOGIT_ROWS = 1024
"""Positions whose logits are made at a time when no gradient needs them."""


def placed(values: NDArray[Any], device: torch.device) -> Tensor:
    """An array on the device. A GPU is not waited for."""
    there = torch.from_numpy(values)
    return there.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else there


@contextmanager
def at_home(device: torch.device) -> Iterator[None]:
    """Where a thread computes: on its own GPU, and there without cuDNN's attention, which plans anew for each shape and
    may not be recorded in a graph."""
    if device.type != "cuda":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with torch.cuda.device(device), sdpa_kernel(kernels):
        yield


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of a GPU or of this machine."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


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
        speed_up(self.text)
        self.vision = VisionTower(core.model.visual, rule, keep_bytes=FEATURE_BYTES.get(self.device.type, 256 << 20))
        self.trained: dict[str, Tensor] = {}
        """Weights that a trainer changes, by name; where there are none, those of the files."""
        self._files = list(files)
        self._base: str | None = None
        self._weights: str | None = None

    @property
    def n_ids(self) -> int:
        """Rows of the embedding."""
        return int(self.text.embed_tokens.weight.shape[0])

    @property
    def max_positions(self) -> int:
        return int(self.config.text_config.max_position_embeddings)

    @property
    def base(self) -> str:
        """SHA-256 of the weights as they were opened: of their files where they came from files, else of the tensors.

        Asked for the first time before a trainer changes them, where there are no files.
        """
        if self._base is None:
            self._base = _hash_of_files(self._files) if self._files else _hash_of_tensors(self.module.state_dict())
        return self._base

    @property
    def weights(self) -> str:
        """SHA-256 of the weights as they are; reads all that are trained."""
        if self._weights is None:
            self._weights = self.base
            if self.trained:
                told = f"{self.base} {_hash_of_tensors(self.trained)}"
                self._weights = hashlib.sha256(told.encode()).hexdigest()
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
        sees = any(hasattr(m, "_disable_adapters") for m in self.vision.visual.modules())
        if sees:
            self.vision.forget()
        try:
            for layer in layers:
                layer._disable_adapters = True
            yield
        finally:
            for layer, was in zip(layers, before, strict=True):
                layer._disable_adapters = was
            if sees:
                self.vision.forget()

    def weights_changed(self) -> None:
        """Somebody trained the weights: they have another hash, and features of a tower that was trained are no longer
        its own."""
        self._weights = None
        adapters.refresh(self.module)
        if not self.trained:  # nobody said which
            self._files, self._base = [], None
        if not self.trained or any(p.requires_grad for p in self.vision.visual.parameters()):
            self.vision.forget()

    def close(self) -> None:
        self.vision.close()

    def check(self, ledger: Ledger) -> None:
        """Whether this model can be shown the ledger. Raises LedgerError."""
        check_ids(ledger, self.n_ids)

    def embed(
        self, parts: Sequence[Embedded], features: dict[Key, Features]
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
        hidden = self.text.embed_tokens(placed(ids, self.device))
        deep: list[Tensor] = []
        where = placed(np.concatenate(places), self.device)
        if shown:
            main = torch.cat([f.main[a:b] for f, a, b in shown]).to(hidden.dtype)
            hidden = hidden.flatten(0, 1).index_copy(0, where, main).view_as(hidden)
            deep = [torch.cat([f.deep[i][a:b] for f, a, b in shown]) for i in range(len(shown[0][0].deep))]
        return hidden, placed(positions, self.device), deep, where

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
        states = self.states(parts, features)
        return [self._sampled(states[r], ledger) for r, ledger in enumerate(ledgers)]

    def states(self, parts: Sequence[Embedded], features: dict[Key, Features]) -> Tensor:
        """Final hidden states of whole ledgers or datums from the stock text model, shape (parts, tokens, hidden);
        what lies right of a part's end is padding, which no part sees: attention is causal, and needs no mask."""
        hidden, positions, deep, where = self.embed(parts, features)
        more = {"visual_pos_masks": where, "deepstack_visual_embeds": deep} if deep else {}
        out = self.text(inputs_embeds=hidden, position_ids=positions, attention_mask=None, use_cache=False, **more)
        states: Tensor = out.last_hidden_state
        return states

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


def _hash_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()
