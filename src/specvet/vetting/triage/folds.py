"""Folds: objects dealt by a hash, so that an object's fold hangs on nothing but its name and the seed."""

from __future__ import annotations

import hashlib

FOLDS = 5


def fold_of(object_id: str, seed: int = 0) -> int:
    """From 0 to `FOLDS` − 1."""
    return int.from_bytes(hashlib.sha256(f"{seed} {object_id}".encode("utf-8", "replace")).digest()[:8], "big") % FOLDS
