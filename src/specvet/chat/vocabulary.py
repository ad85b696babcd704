"""A model's vocabulary: text ↔ ids, byte by byte, with control tokens that no text of ours can forge."""

from __future__ import annotations

import builtins
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from specvet.chat.vocabulary_files import VocabularyError, byte_of_letter, load_tokenizer

__all__ = ["Vocabulary", "VocabularyError", "harmless"]

ORDINARY_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Tags that models write or read as text, whether or not a vocabulary has an id for them; never control tokens."""

PICTURE_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")

_CONTROL = re.compile(r"<\|[^<>|\s]{1,64}\|>")
_PROTOCOL = re.compile(r"</?tool_response>")
_UNKNOWN = "\ufffd".encode()
"""What an id without a token stands for: models have more rows than their vocabulary has tokens."""

_MAX_ID = 1 << 32
"""The library's ids have 32 bits."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_MARKS = re.compile("[\ufdd0\ufdd1]")


def harmless(text: str, extra: re.Pattern[str] | None = None, *, tags: bool = True) -> str:
    """`text` without the power to act: `<|im_end|>` becomes `‹|im_end|›`, a `<tool_response>` tag `‹tool_response›`.

    Anything of the form `<|word|>` is disarmed, whether or not a vocabulary has a token for it, and what `extra`
    matches; protocol tags only with `tags`. What no UTF-8 can hold and the two noncharacters that mark learning spans
    in our templates become `\\ufffd`. Every other text comes back as it is.
    """
    if not text.isascii():
        text = _MARKS.sub("\ufffd", _SURROGATES.sub("\ufffd", text))
    if "<" not in text and extra is None:
        return text
    if tags:  # first: what is left of a tag may stand inside `<|…|>`
        text = _PROTOCOL.sub(_disarmed, text)
    text = _CONTROL.sub(_disarmed, text)
    return text if extra is None else extra.sub(_disarmed, text)


def _disarmed(found: re.Match[str]) -> str:
    token = found[0]
    inner = token.replace("<", "‹").replace(">", "›")
    return inner if inner != token else f"{token[0]}‹{token[1:]}›"


class Vocabulary:
    """Text ↔ ids of one byte-level tokenizer. Immutable and safe to share between threads.

    Made of a `tokenizers.Tokenizer`, which it takes over (nobody may change it afterwards), or by `load`. Raises
    VocabularyError for one that is not byte-level, since its tokens have no exact bytes.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if "ByteLevel" not in json.dumps(_state(tokenizer.decoder)):
            raise VocabularyError("this tokenizer is not byte-level; specvet's chat formats need exact bytes of tokens")
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        added = {int(i): t for i, t in tokenizer.get_added_tokens_decoder().items()}
        self._added: dict[str, int] = {t.content: i for i, t in added.items()}
        self._added_bytes = {i: t.content.encode() for i, t in added.items()}
        control = {
            i
            for i, t in added.items()
            if _CONTROL.fullmatch(t.content) or (t.special and t.content not in ORDINARY_TAGS)
        }
        self.control_ids: frozenset[int] = frozenset(control)
        """Ids that steer and are never said: roles, ends, pictures. Not `<think>` or `<tool_call>`."""
        self.picture_ids: frozenset[int] = frozenset(self._added[t] for t in PICTURE_TOKENS if t in self._added)
        """Of them, those that stand for or around pictures and films."""
        odd = sorted((added[i].content for i in control if not _CONTROL.fullmatch(added[i].content)), key=len)
        self._odd = re.compile("|".join(re.escape(t) for t in reversed(odd))) if odd else None
        self._token_bytes = _Bytes(self._bytes_of)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """From a `tokenizer.json` file or a model folder (`tokenizer.json`, else `vocab.json` and `merges.txt`).

        Raises VocabularyError for what is missing or broken, with what to do.
        """
        return cls(load_tokenizer(Path(path)))

    # --- what it is

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what decides which ids a text has; the same for a `tokenizer.json` and the older two files."""
        vocab = self._tokenizer.get_vocab(with_added_tokens=True)
        tokens = sorted(vocab, key=vocab.__getitem__)
        merges = _state(self._tokenizer.model).get("merges", ())  # pairs, or in older files "left right"
        digest = hashlib.sha256()
        for part in (
            "\n".join(tokens),
            ",".join([str(vocab[t]) for t in tokens]),
            "\n".join([m if isinstance(m, str) else " ".join(m) for m in merges]),
            json.dumps(sorted(self._added.items())),
            json.dumps(_told(_state(self._tokenizer.normalizer)), sort_keys=True),
            json.dumps(_told(_state(self._tokenizer.pre_tokenizer)), sort_keys=True),
        ):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()

    @cached_property
    def size(self) -> int:
        """One more than the highest id. A model's embedding may have more rows."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def id(self, token: str) -> int | None:
        """The id of the one token that is exactly this text, or None."""
        known = self._added.get(token)
        if known is None and token:
            ids = self.encode(token)
            known = ids[0] if len(ids) == 1 and self.token_bytes(ids[0]) == token.encode("utf-8", "replace") else None
        return known

    def need(self, token: str) -> int:
        """The id of an added token that a format cannot do without. Raises VocabularyError."""
        known = self._added.get(token)
        if known is None:
            raise VocabularyError(
                f"the vocabulary has no token {token}; is this the tokenizer of another model family?"
            )
        return known

    def __contains__(self, id: object) -> bool:
        """Whether some token has this id."""
        return isinstance(id, int) and id in self._ids

    @cached_property
    def _ids(self) -> frozenset[int]:
        """Ids that some token has; every sampled one is looked up."""
        return frozenset(self._tokenizer.get_vocab(with_added_tokens=True).values())

    def save(self, path: str | Path) -> None:
        """Write it as a `tokenizer.json`, which `load` reads. Raises DiskFullError and other OSErrors."""
        from specvet.records import write_atomic  # needs more than a training image has

        write_atomic(path, self._tokenizer.to_str(pretty=True))

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.size} ids, {self.fingerprint[:12]}>"

    # --- text to ids

    def encode(self, text: str) -> list[int]:
        """Ids of a template's text: added and control tokens are recognised. Other people's text goes through
        `harmless` first."""
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        except (UnicodeEncodeError, TypeError):  # lone surrogates, which JSON escapes can make
            return list(self._tokenizer.encode(_SURROGATES.sub("\ufffd", text), add_special_tokens=False).ids)

    def harmless(self, text: str, *, tags: bool = True) -> str:
        """As the function `harmless`, and this vocabulary's control tokens of other forms with it."""
        return harmless(text, self._odd, tags=tags)

    # --- ids to text

    def token_bytes(self, id: int) -> builtins.bytes:
        """The exact bytes of one token; of an id that no token has, those of `\\ufffd`."""
        return self._token_bytes[id]

    def bytes(self, ids: Iterable[int]) -> builtins.bytes:
        """The exact bytes of these tokens, one after the other."""
        return b"".join(map(self._token_bytes.__getitem__, ids))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these tokens, control tokens included; bytes that are no UTF-8 become `\\ufffd`."""
        return self.bytes(ids).decode("utf-8", "replace")

    def _bytes_of(self, id: int) -> builtins.bytes:
        added = self._added_bytes.get(id)
        if added is not None:
            return added
        token = self._tokenizer.id_to_token(id) if 0 <= id < _MAX_ID else None
        return _UNKNOWN if token is None else byte_of_letter(token)


class _Bytes(dict[int, builtins.bytes]):
    """The bytes of ids, found out when they are first asked for: a ledger looks up thousands at a time."""

    def __init__(self, find: Callable[[int], builtins.bytes]) -> None:
        self._find = find

    def __missing__(self, id: int) -> builtins.bytes:
        found = self[id] = self._find(id)
        return found


def _state(part: Any) -> Any:
    """A part of a tokenizer as its JSON says it; None for a part that is not there."""
    return None if part is None else json.loads(part.__getstate__())


_TELLING = ("type", "pattern", "Regex", "String", "behavior", "invert", "add_prefix_space", "use_regex", "content")
_NESTED = ("pretokenizers", "normalizers")


def _told(part: Any) -> Any:
    """Of a normalizer or splitter, what changes ids, without what a version of the library may add or leave out."""
    if isinstance(part, dict):
        return {k: _told(v) for k, v in part.items() if k in _TELLING or k in _NESTED}
    return [_told(p) for p in part] if isinstance(part, list) else part
