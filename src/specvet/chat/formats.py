"""The chat formats by name and by model type, and whole conversations as ledgers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from specvet.chat.format import ChatFormat
from specvet.chat.images import GEOMETRIES, ImageGeometry
from specvet.chat.ledger import Ledger
from specvet.chat.messages import Message
from specvet.chat.qwen import Family, QwenFormat
from specvet.chat.vocabulary import Vocabulary

FAMILIES = {
    family.name: family
    for family in (
        Family("qwen2_5_vl", "qwen2_5_vl", "json", False, GEOMETRIES["qwen2_5_vl"], ("qwen2_5_vl", "qwen2_vl")),
        Family("qwen3_vl", "qwen3_vl", "json", False, GEOMETRIES["qwen3_vl"], ("qwen3_vl", "qwen3_vl_moe")),
        Family("qwen3_vl_thinking", "qwen3_vl", "json", True, GEOMETRIES["qwen3_vl"], ()),
        Family("qwen3_5", "qwen3_5", "xml", True, GEOMETRIES["qwen3_5"], ("qwen3_5", "qwen3_5_moe")),
    )
}
"""The formats that `chat_format` knows.

`qwen3_5` thinks in every turn, as Qwen3.5 from 4B on does by default. The 0.8B and 2B models' own templates close the
thought at once unless asked; here they are asked.
"""


class UnknownFormatError(ValueError):
    """A chat format or a model type that specvet has no format for; the message lists those that it has."""


def chat_format(name: str, vocabulary: Vocabulary, geometry: ImageGeometry | None = None) -> QwenFormat:
    """The format of that name on a vocabulary. Raises UnknownFormatError, and VocabularyError for another family's.

    `geometry` overrides the family's own picture sizes.
    """
    if name not in FAMILIES:
        raise UnknownFormatError(f"there is no chat format {name!r}; known are {', '.join(FAMILIES)}")
    return QwenFormat(FAMILIES[name], vocabulary, geometry)


def format_for_model_type(model_type: str) -> str:
    """The name of the format for a `model_type` of a `config.json`. Raises UnknownFormatError.

    `qwen3_vl` is the Instruct edition; a Thinking model has the same type and needs `qwen3_vl_thinking` by name.
    """
    types = {t: family.name for family in FAMILIES.values() for t in family.model_types}
    if model_type not in types:
        raise UnknownFormatError(
            f"no chat format for models of type {model_type!r}; known types are {', '.join(types)}. "
            f"Name a format that fits: {', '.join(FAMILIES)}"
        )
    return types[model_type]


def ledger_of(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], format: ChatFormat) -> Ledger:
    """A whole conversation as a ledger whose assistant turns are demonstrations (sampled, without log-probs).

    Messages after the last assistant turn are kept, with the header of the turn that would follow.
    """
    turns = [i for i, m in enumerate(messages) if m.role == "assistant"]
    ledger = format.new_ledger()
    if turns[:1] == [0]:
        raise ValueError("the conversation starts with an assistant turn; a system or user message comes first")
    ledger.append(format.opening(messages[: turns[0] if turns else None], tools))
    for turn, following in pairwise([*turns, len(messages)]):
        ledger.append_sampled(format.demonstration(messages[turn]), None, "end")
        if turn + 1 < len(messages):
            ledger.append(format.between(ledger, messages[turn + 1 : following]))
    return ledger
