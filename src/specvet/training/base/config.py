"""What a run of base training is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from specvet.training.config import MOST, MOST_SEED, Part


class BaseConfig(Part):
    """Settings of `specvet train base`. The defaults are those of `nano`."""

    data: str = "reading"
    """`reading` (SIMULATED spectra, made on the way), or a file of demonstrations."""
    templates: str | None = None
    """Folder of observed or computed spectra that some of the simulated ones begin from."""
    start: str | None = None
    """Model folder to go on from, with its vocabulary; None: a new `nano`."""
    shape: Literal["nano", "mini"] = "nano"
    """Of a new model, see `specvet.policies.torch.nano`."""
    vocabulary: str | None = None
    """`tokenizer.json`, or a folder that holds one; None: learnt from the documents, or that of `start`."""
    vocabulary_documents: int = Field(default=2_000, ge=1, le=MOST)
    """Documents that a vocabulary is learnt from."""
    seed: int = Field(default=0, ge=0, le=MOST_SEED)
    """Of documents and of new weights. Which document comes when depends on the processes."""

    seconds: float | None = Field(default=None, gt=0)
    """How long to train; the rate falls to 0 by then. What comes before the first step does not count."""
    documents: int | None = Field(default=None, ge=1, le=MOST)
    """… or on how many documents."""
    epochs: int | None = Field(default=None, ge=1, le=MOST)
    """… or how often a file of demonstrations is gone through."""
    batch: int = Field(default=256, ge=1, le=MOST)
    """Documents an update."""
    max_tokens: int = Field(default=1_536, ge=2, le=4_096)
    """A document of more positions is left out, and counted."""
    repeats: int = Field(default=2, ge=1, le=100)
    """How often a document may be learnt from, where the GPU would wait for new ones."""

    lr: float = Field(default=1e-3, gt=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)
    weight_decay: float = Field(default=0.05, ge=0)
    """Of matrices; not of norms and biases."""
    warmup: int = Field(default=100, ge=0, le=MOST)
    """Updates."""
    grad_clip_norm: float = Field(default=1.0, gt=0)
    ink_weight: float = Field(default=1.0, ge=0)
    """Of the auxiliary loss (see `network.InkHead`) beside the text's; 0: none."""

    workers: int | None = Field(default=None, ge=1, le=1_024)
    """Processes that make documents; None: one a core but one."""
    device: str = "auto"
    compile: bool | None = None
    """Whether to compile the layers (`torch.compile`); None: on a GPU."""
    held_out: int = Field(default=512, ge=0, le=MOST)
    """Documents that are not learnt from, to measure by at the end; with 0 all of a file are learnt from."""
    save_every_s: float = Field(default=60.0, gt=0)

    @model_validator(mode="after")
    def _one_length(self) -> BaseConfig:
        if sum(given is not None for given in (self.seconds, self.documents, self.epochs)) != 1:
            raise ValueError("seconds, documents or epochs: give one of them, how long to train")
        if self.epochs is not None and self.data == "reading":
            raise ValueError("epochs: documents that are made on the way have no end; give seconds or documents")
        if self.start is not None and self.vocabulary is not None:
            raise ValueError("vocabulary: a model that is gone on from has its own; leave it out")
        if self.start is not None and self.shape != "nano":
            raise ValueError("shape: a model that is gone on from has its own; leave it out")
        return self
