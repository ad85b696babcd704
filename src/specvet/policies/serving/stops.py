"""Stop texts of rows that are sampled: which token completes one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specvet.chat import Vocabulary


class StopTexts:
    """Texts that end a turn, looked for in the bytes of its tokens: they may begin in one token and end in another,
    and the token that completes one may hold more."""

    def __init__(self, texts: Iterable[str], vocabulary: Vocabulary) -> None:
        self._texts = [text.encode() for text in texts]
        self._vocabulary = vocabulary
        self.reach = max(map(len, self._texts), default=1)
        """Tokens, the last included, that can have a part in what the last one completes: each has a byte at least."""

    def completed(self, last: Sequence[int]) -> bool:
        """Whether the last of these tokens, the newest `reach` of a turn, completes a text."""
        newest = self._vocabulary.token_bytes(last[-1])
        before = self._vocabulary.bytes(last[:-1])[-(self.reach - 1) :] if self.reach > 1 else b""
        tail = before + newest
        return any(tail.find(text, max(0, len(before) - len(text) + 1)) >= 0 for text in self._texts)
