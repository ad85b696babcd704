r"""A small vocabulary learnt from texts, for a model that is trained from nothing.

    bytes (256) · learnt merges · the family's control tokens and tags · macros

Digits are never merged, so that a number is read and said digit by digit. A macro is one token for a long text that
never varies, such as the beginning of every call: a model says it in one step. It is an ordinary token, not a control
token: nobody gains power by writing it, and a text that spells it has its id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import AddedToken, Tokenizer, trainers

from specvet.chat.formats import FAMILIES
from specvet.chat.tiny import ADDED
from specvet.chat.vocabulary import ORDINARY_TAGS, VocabularyError
from specvet.chat.vocabulary_files import bpe_tokenizer, letters_of_bytes

SIZE = 1_536
"""Ids in all: what `nano` has room for."""

_CALL = '{"name": "spectral_visualization_tool", "arguments": {"wavelength_range": ['

MACROS = (
    "<think>",
    "</think>",
    f"\n{_CALL}",
    _CALL,
    "<answer>\\boxed{",
    "</answer>",
    "Generated spectral visualization focused on wavelength range (",
    " Å. Wavelengths are in the ",
)
"""What a trajectory on spectra repeats word by word; the word in the box stays a token of its own."""

_WORDS = "YES NO"
"""Words that are one token whatever the texts hold, since answers are read off them."""


def learn_vocabulary(
    texts: Iterable[str], size: int = SIZE, macros: Sequence[str] = MACROS, format: str = "qwen2_5_vl"
) -> Tokenizer:
    """A byte-level BPE tokenizer for a chat format, of at most `size` ids; the same for the same texts in any order.

    Merges are learnt where the format cuts words, the commonest pair first, and never across a control token, a tag or
    a macro. Raises VocabularyError where `size` has no room for what must be in it, and for a macro that is empty,
    given twice, or holds a control token.
    """
    added, split = ADDED[FAMILIES[format].template]
    _check_macros(macros, added)
    n_merges = size - len(letters_of_bytes()) - len(added) - len(macros)
    if n_merges < 0:
        raise VocabularyError(f"a vocabulary of {size} ids; bytes, control tokens and macros take {size - n_merges}")
    merges = _merges([*_cut(texts, (*added, *macros)), *_WORDS.split()], n_merges, split)
    vocabulary = {letter: b for b, letter in enumerate(letters_of_bytes())}
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    tokenizer = bpe_tokenizer(vocabulary, merges, split)
    for token in (*added, *macros):  # one by one: ids in this order
        special = token in added and token not in ORDINARY_TAGS
        entry = AddedToken(token, special=special, normalized=False)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([entry])
    return tokenizer


def _check_macros(macros: Sequence[str], added: Sequence[str]) -> None:
    for i, macro in enumerate(macros):
        if not macro or macro in macros[:i] or macro in added:
            raise VocabularyError(f"the macro {macro!r} is empty, or a token already")
        if held := next((token for token in added if token in macro), None):
            raise VocabularyError(f"the macro {macro!r} holds the token {held}, which must stay one of its own")


def _cut(texts: Iterable[str], tokens: Sequence[str]) -> Iterator[str]:
    """What of the texts lies between tokens that are no words."""
    longest_first = sorted(tokens, key=len, reverse=True)
    tags = re.compile("|".join(map(re.escape, longest_first)))
    for text in texts:
        yield from filter(None, tags.split(text))


def _merges(runs: Sequence[str], n: int, split: str) -> list[tuple[str, str]]:
    """At most n merges."""
    if n == 0:
        return []
    letters = letters_of_bytes()
    learner = bpe_tokenizer({letter: b for b, letter in enumerate(letters)}, [], split)
    trainer = trainers.BpeTrainer(
        vocab_size=len(letters) + n,
        initial_alphabet=list(letters),
        special_tokens=[],
        show_progress=False,
        min_frequency=1,
    )
    learner.train_from_iterator(sorted(runs), trainer)  # sorted: of pairs that are as common, order must not decide
    learnt = json.loads(learner.to_str())["model"]["merges"]
    return [(left, right) for left, right in learnt]
