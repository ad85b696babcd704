"""Hashes that survive a change of machine: arrays are rounded first, as vector instructions differ in the last bits."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RELATIVE = 1e-5


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
    """`array` as float64 on a grid of steps of at most 1e-5 relative (a power of two), NaN and ±inf kept, −0 made 0."""
    values = np.array(array, dtype=np.float64)
    finite = np.isfinite(values) & (values != 0)
    mantissa, exponent = np.frexp(values[finite])
    # 0.5 <= |mantissa| < 1, so a step of 2^-18 (3.8e-6) is at most 7.6e-6 relative.
    steps = 2.0**18
    values[finite] = np.ldexp(np.round(mantissa * steps) / steps, exponent)
    return values + 0.0


def array_hash(*arrays: NDArray[Any]) -> str:
    """SHA-256 of one or more arrays: shape, then values rounded to 1e-5 relative, little-endian float64."""
    digest = hashlib.sha256()
    for array in arrays:
        values = rounded(array)
        values[np.isnan(values)] = np.nan  # one bit pattern for every NaN
        digest.update(repr(values.shape).encode())
        digest.update(values.astype("<f8").tobytes())
    return digest.hexdigest()
