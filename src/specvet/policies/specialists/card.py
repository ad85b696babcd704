"""`specialist.json`: what a folder of weights is, what it was trained on, and the hash of each of its files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specvet.records import file_hash, text_hash, write_atomic

CARD, RECEIPT = "specialist.json", "receipt.json"
VERSION = 1

Kind = Literal["majority", "trees", "cnn"]

TREES_FILE, NETWORK_FILE = "trees.npz", "cnn.safetensors"
WEIGHTS: dict[Kind, set[str]] = {"majority": set(), "trees": {TREES_FILE}, "cnn": {NETWORK_FILE}}
"""The files that each kind consists of."""


class SpecialistError(ValueError):
    """A folder that holds no specialist, a damaged one, or one that this version cannot run."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TaskCard(_Part):
    """A task as it was trained on."""

    task_hash: str
    """Of all that the task said then; its wording may change and the class stay."""
    questions: int = Field(gt=0)
    yes: int = Field(ge=0)
    """Of them, those that are YES."""

    @model_validator(mode="after")
    def _at_most_all(self) -> TaskCard:
        if self.yes > self.questions:
            raise ValueError("more are YES than there are questions")
        return self

    @property
    def share(self) -> float:
        """Of YES, 0-1."""
        return self.yes / self.questions


class Data(_Part):
    """Questions that were learnt from, or that training was stopped by."""

    file_sha256: str
    """Of the question file."""
    spectra_sha256: str
    """Over the sorted content hashes of the spectra as they were seen."""
    questions: int
    objects: int
    rejects: int = 0
    """Questions left out because their spectrum cannot be read or shows nothing that is measured."""


class Card(_Part):
    """All that decides what a specialist says; the same data, seed and versions give the same card."""

    kind: Kind
    version: int = VERSION
    tasks: dict[str, TaskCard]
    frame: str
    """Mode in which spectra were opened: careful, published or observed."""
    sees: dict[str, Any] = Field(default_factory=dict)
    """What is made of a spectrum: the indices by name with the hash of their definitions, or the grid."""
    temperature: float = Field(default=1.0, gt=0)
    """Log-odds are divided by it, so that probabilities fit the validation questions."""
    seed: int = 0
    settings: dict[str, Any] = Field(default_factory=dict)
    """Of the training."""
    training: Data
    validation: Data | None = None
    """None for one that needs none."""
    held_out: bool = False
    """Whether the validation questions are a part of the training file, of objects of their own."""
    versions: dict[str, str]
    files: dict[str, str] = Field(default_factory=dict)
    """Name of each file of weights → SHA-256."""


def write_card(folder: Path, card: Card) -> None:
    """Raises OSError."""
    write_atomic(folder / CARD, card.model_dump_json(indent=1) + "\n")


def read_card(folder: Path) -> Card:
    """The card of a folder, whose files have the hashes that it states. Raises SpecialistError."""
    try:
        card = Card.model_validate_json((folder / CARD).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise SpecialistError(
            f"{folder}: holds no specialist ({CARD}: {getattr(e, 'strerror', None) or e}); "
            "name a folder that `specvet train specialist` wrote"
        ) from None
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SpecialistError(f"{folder / CARD}: {field}: {first['msg']}") from None
    if card.version != VERSION:
        raise SpecialistError(f"{folder / CARD}: is of version {card.version}, this specvet reads {VERSION}")
    if set(card.files) != WEIGHTS[card.kind]:
        named = ", ".join(sorted(WEIGHTS[card.kind])) or "no file"
        raise SpecialistError(f"{folder / CARD}: files: a {card.kind} names {named}; train it again")
    for name, sha in card.files.items():
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise SpecialistError(f"{folder}: the file {name!r} is missing; copy the whole folder")
        if file_hash(file) != sha:
            raise SpecialistError(f"{file}: is not the file that {CARD} names (SHA-256 differs); copy it again")
    return card


def marks(hashes: Iterable[str]) -> list[str]:
    """Content hashes of spectra, shortened to 16 digits, sorted, each once: what a receipt keeps of them."""
    return sorted({sha[:16] for sha in hashes})


def read_marks(folder: Path) -> frozenset[str] | None:
    """`marks` of the spectra that a specialist learnt from or was stopped by; None where its receipt tells none.

    They stand in the receipt and not in the card, since they decide nothing that it says. Raises SpecialistError.
    """
    file = folder / RECEIPT
    try:
        told = json.loads(file.read_text(encoding="utf-8")).get("spectra")
        return None if told is None else frozenset(marks(told))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TypeError) as e:
        raise SpecialistError(f"{file}: cannot be read as a receipt ({e}); copy the whole folder again") from None


def fingerprint(folder: Path, card: Card) -> str:
    """Hash of the card and of the weights that it names."""
    return text_hash("\n".join((file_hash(folder / CARD), *(f"{n} {sha}" for n, sha in sorted(card.files.items())))))
