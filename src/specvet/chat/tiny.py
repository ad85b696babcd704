"""Small real vocabularies, one a family: all 256 bytes, a few merges, and the family's own control tokens and tags.

For tests and for tiny random models: every text has ids below 512, nothing is downloaded, and BPE still merges, so that
a text can have more than one spelling in ids. Where `texts` are given, merges are learnt from them, and each of their
words becomes one token: a tiny model that learns reads a quarter as many.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from specvet.chat.formats import FAMILIES
from specvet.chat.templating import template_source
from specvet.chat.vocabulary import ORDINARY_TAGS, Vocabulary
from specvet.chat.vocabulary_files import QWEN2_SPLIT, QWEN3_5_SPLIT, bpe_tokenizer, letters_of_bytes

_FRAME = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_PICTURES = (
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_CALL = ("<tool_call>", "</tool_call>")
_CODE = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
_THOUGHT = ("<tool_response>", "</tool_response>", "<think>", "</think>")
_SOUND = (
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)

QWEN2_5_ADDED = (*_FRAME, *_PICTURES, *_CALL, *_CODE)
"""Added tokens of Qwen2.5-VL in the order of their ids, from 151643 on. `<think>` is ordinary text there."""
QWEN3_ADDED = (*QWEN2_5_ADDED, *_THOUGHT)
"""Qwen3-VL: the same ids, and the tags from 151665 on."""
QWEN3_5_ADDED = (*QWEN3_ADDED, *_SOUND)
"""Qwen3.5, from 248044 on."""
ADDED = {
    "qwen2_5_vl": (QWEN2_5_ADDED, QWEN2_SPLIT),
    "qwen3_vl": (QWEN3_ADDED, QWEN2_SPLIT),
    "qwen3_5": (QWEN3_5_ADDED, QWEN3_5_SPLIT),
}
"""By template: the added tokens, and where a text is cut before merging."""

_WORDS = "\n\n;  ; the; is; a; of; in; and; line;YES;NO;answer;boxed;name;arguments;wavelength;range;tool;think;label"
MAX_IDS = 512


@cache
def tiny_vocabulary(format: str, texts: tuple[str, ...] = ()) -> Vocabulary:
    """The small vocabulary for a chat format (`qwen2_5_vl`, …)."""
    return Vocabulary(tiny_tokenizer(format, texts))


def tiny_tokenizer(format: str, texts: tuple[str, ...] = ()) -> Tokenizer:
    """A new tokenizer for a chat format, as the `tokenizers` library has it."""
    added, split = ADDED[FAMILIES[format].template]
    letters = letters_of_bytes()
    vocab = {letter: b for b, letter in enumerate(letters)}
    merges = []
    for a, b in _learnt(texts, added, split) if texts else _merges():
        if a + b not in vocab:
            vocab[a + b] = len(vocab)
            merges.append((a, b))
    tokenizer = bpe_tokenizer(vocab, merges, split)
    for token in added:  # one by one: tags and control tokens take ids in this order
        entry = AddedToken(token, special=token not in ORDINARY_TAGS, normalized=False)
        (tokenizer.add_tokens if token in ORDINARY_TAGS else tokenizer.add_special_tokens)([entry])
    assert texts or tokenizer.get_vocab_size() <= MAX_IDS
    return tokenizer


def write_tiny(format: str, folder: str | Path, vocabulary: Vocabulary | None = None) -> None:
    """The files of a model folder that concern chat: tokenizer, its configuration, our template, picture sizes.

    `vocabulary` is the tiny model's own, where it is not `tiny_vocabulary(format)`.
    """
    folder, family = Path(folder), FAMILIES[format]
    folder.mkdir(parents=True, exist_ok=True)
    (vocabulary or tiny_vocabulary(format)).save(folder / "tokenizer.json")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1_000_000,
    }
    size = {"shortest_edge": family.geometry.min_pixels, "longest_edge": family.geometry.max_pixels}
    pictures = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": family.geometry.patch,
        "merge_size": family.geometry.merge,
        "temporal_patch_size": 2,
        "size": size,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures, indent=1))
    (folder / "chat_template.jinja").write_text(template_source(family.template), encoding="utf-8")


def _merges() -> Iterator[tuple[str, str]]:
    letters = letters_of_bytes()
    for word in _WORDS.split(";"):
        spelled = "".join(letters[b] for b in word.encode())
        for i in range(1, len(spelled)):
            yield spelled[:i], spelled[i]


def _learnt(texts: Iterable[str], added: Iterable[str], split: str) -> Iterator[tuple[str, str]]:
    """The merges that byte-pair encoding learns from these texts (the commonest pair first; of equals the first in the
    alphabet), until every word between two cuts is one token. Control tokens and tags are no words."""
    cut = bpe_tokenizer({letter: b for b, letter in enumerate(letters_of_bytes())}, [], split).pre_tokenizer
    assert cut is not None
    tags = re.compile("|".join(map(re.escape, added)))
    runs = [run for text in texts for run in tags.split(text)]
    words: Counter[tuple[str, ...]] = Counter(tuple(word) for run in runs for word, _ in cut.pre_tokenize_str(run))
    while True:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                pairs[pair] += n
        if not pairs:
            return
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        yield best
        merged: Counter[tuple[str, ...]] = Counter()
        for word, n in words.items():
            merged[_merged(word, best)] += n
        words = merged


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    made: list[str] = []
    for part in word:
        if made and (made[-1], part) == pair:
            made[-1] += part
        else:
            made.append(part)
    return tuple(made)
