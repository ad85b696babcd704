"""Hashes that survive a change of machine: arrays are rounded first, as vector instructions differ in the last bits."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DROPPED = 35
"""Of the 52 bits of a float64's fraction; the 17 that stay are steps of 2^-17 (7.6e-6) relative at most."""

_EXPONENT = np.uint64(0x7FF << 52)


def bytes_hash(data: bytes) -> str:
    """SHA-256 of `data`, as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def text_hash(text: str) -> str:
    """SHA-256 of the UTF-8 encoding of `text`."""
    return bytes_hash(text.encode("utf-8"))


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def rounded(array: NDArray[Any]) -> NDArray[np.float64]:
    """`array` as float64 on a grid of steps of at most 1e-5 relative (a power of two), NaN and ±inf kept, −0 made 0.

    Halves go to the even neighbour. Numbers below 2.3e-308, which have fewer bits, stay as they are.
    """
    values = np.array(array, dtype=np.float64)
    bits = values.view(np.uint64)
    exponent = bits & _EXPONENT
    # On the bits of the number itself: a carry out of the fraction rightly steps up the exponent.
    odd = (bits >> np.uint64(_DROPPED)) & np.uint64(1)
    stepped = (bits + odd + np.uint64(2 ** (_DROPPED - 1) - 1)) & np.uint64(2**64 - 2**_DROPPED)
    np.copyto(bits, stepped, where=(exponent != _EXPONENT) & (exponent != 0))
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return values + 0.0


def array_hash(*arrays: NDArray[Any]) -> str:
    """SHA-256 of one or more arrays: shape, then values rounded to 1e-5 relative, little-endian float64."""
    digest = hashlib.sha256()
    # Rounded in one go: for the 60 pixels of a window the calls cost more than the work.
    values = rounded(np.concatenate([np.ravel(a) for a in arrays])) if len(arrays) > 1 else rounded(np.ravel(arrays[0]))
    values[np.isnan(values)] = np.nan  # one bit pattern for every NaN
    values = values.astype("<f8", copy=False)
    start = 0
    for array in arrays:
        end = start + np.size(array)
        digest.update(repr(np.shape(array)).encode())
        digest.update(values[start:end].data)
        start = end
    return digest.hexdigest()
