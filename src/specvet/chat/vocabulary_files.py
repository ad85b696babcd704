"""Reading tokenizers from what model folders hold, new and old."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

_FILES = "tokenizer.json, or vocab.json with merges.txt"

QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Qwen2, Qwen2.5 and Qwen3 cut a text before merging (their `tokenizer.json`)."""
QWEN3_5_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen3.5: marks belong to letters."""


class VocabularyError(ValueError):
    """No tokenizer where one should be, or one that a chat format cannot use."""


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file or model folder. Raises VocabularyError."""
    if not path.exists():
        raise VocabularyError(f"{path}: no such file or folder; a tokenizer is {_FILES}")
    if path.is_file():
        return _from_json(path)
    if (path / "tokenizer.json").is_file():
        tokenizer = _from_json(path / "tokenizer.json")
    elif (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
        tokenizer = _from_two_files(path)
    else:
        raise VocabularyError(f"{path}: this folder holds no tokenizer ({_FILES})")
    _add_listed(tokenizer, path)
    return tokenizer


def bpe_tokenizer(vocab: dict[str, int], merges: list[tuple[str, str]], split: str) -> Tokenizer:
    """A byte-level BPE tokenizer as the Qwen families have it: NFC, cut by `split`, then bytes, then merges."""
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    cuts = pre_tokenizers.Split(Regex(split), behavior="isolated", invert=False)
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cuts, letters])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@cache
def letters_of_bytes() -> tuple[str, ...]:
    """The 256 letters that byte-level BPE writes bytes with: printable Latin-1 as itself, the rest from U+0100 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in shown]
    letters = {b: chr(b) for b in shown} | {b: chr(0x100 + i) for i, b in enumerate(hidden)}
    return tuple(letters[b] for b in range(256))


@cache
def _bytes_of_letters() -> dict[str, int]:
    return {letter: b for b, letter in enumerate(letters_of_bytes())}


def byte_of_letter(token: str) -> bytes:
    """The bytes of a token as a byte-level vocabulary spells it; letters that stand for no byte as UTF-8."""
    table = _bytes_of_letters()
    try:
        return bytes([table[letter] for letter in token])
    except KeyError:
        return token.encode("utf-8", "replace")


def _from_json(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as e:  # the library raises a bare Exception
        raise VocabularyError(f"{path}: not a tokenizer that this version of `tokenizers` reads: {e}") from e


def _from_two_files(folder: Path) -> Tokenizer:
    vocab = _json(folder / "vocab.json")
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
    if wrong := [m for m in merges if len(m) != 2]:
        raise VocabularyError(f"{folder / 'merges.txt'}: `{' '.join(wrong[0])}` is no merge of two parts")
    family = str(_json(folder / "tokenizer_config.json").get("tokenizer_class", ""))
    split = QWEN3_5_SPLIT if re.match(r"Qwen3_5", family) else QWEN2_SPLIT
    try:
        return bpe_tokenizer(vocab, [(a, b) for a, b in merges], split)
    except Exception as e:  # a merge of something that is not in vocab.json
        raise VocabularyError(f"{folder}: vocab.json and merges.txt do not belong together: {e}") from e


def _add_listed(tokenizer: Tokenizer, folder: Path) -> None:
    """Tokens that only `added_tokens.json` or `tokenizer_config.json` knows, at the ids that they name."""
    listed: dict[int, AddedToken] = {}
    for content, i in _json(folder / "added_tokens.json").items():
        listed[int(i)] = AddedToken(content, special=content.startswith("<|"), normalized=False)
    for i, told in _json(folder / "tokenizer_config.json").get("added_tokens_decoder", {}).items():
        flags = {k: bool(told.get(k, False)) for k in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        listed[int(i)] = AddedToken(told["content"], **flags)
    for i in sorted(listed):
        token = listed[i]
        if tokenizer.token_to_id(token.content) is None or i not in tokenizer.get_added_tokens_decoder():
            (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        if (got := tokenizer.token_to_id(token.content)) != i:
            raise VocabularyError(
                f"{folder}: `{token.content}` should have the id {i} and gets {got}; files are missing"
            )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise VocabularyError(f"{path}: broken JSON: {e}") from e
    return read if isinstance(read, dict) else {}
