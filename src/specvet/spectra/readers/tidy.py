"""Tidy tables: spectra one below the other, a pixel a row, told apart by a column of identifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.readers.values import identifier

ID_NAMES = (
    "targetid",
    "source_id",
    "object_id",
    "obj_id",
    "specid",
    "spec_id",
    "spectrum_id",
    "specobjid",
    "sparcl_id",
    "sdss_id",
    "star_id",
    "obsid",
    "obs_id",
    "id",
    "object",
    "objname",
    "name",
    "star",
    "target",
    "spectrum",
)
"""Columns that may say to which spectrum a pixel belongs, the surest first; in lower case."""

MAX_SPECTRA = 20_000


def spectra_by_id(
    columns: Mapping[str, NDArray[Any]], wavelength: NDArray[Any]
) -> tuple[str, list[tuple[str, NDArray[np.intp]]]] | None:
    """(column, [(identifier, its rows)]) where a column of `columns` (names in lower case) tells several spectra apart.

    Each identifier must have two rows or more, whose wavelengths rise or fall all the way. None for one spectrum, and
    where the column tells nothing apart: `building.build` then judges the wavelengths.
    """
    for name in ID_NAMES:
        if name not in columns or np.shape(columns[name]) != np.shape(wavelength):
            continue
        values = np.asarray(columns[name])
        unique, first, index = np.unique(values, return_index=True, return_inverse=True)
        if not 2 <= unique.size <= min(MAX_SPECTRA, values.size // 2):
            continue
        index = index.reshape(-1)
        order = np.argsort(index, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(index[order])) + 1)
        if all(_is_one(np.asarray(wavelength)[part]) for part in parts):
            return name, [(identifier(unique[i]), parts[i]) for i in np.argsort(first)]
    return None


def _is_one(wavelength: NDArray[Any]) -> bool:
    steps = np.diff(wavelength.astype(np.float64))
    return steps.size > 0 and bool(np.all(steps > 0) or np.all(steps < 0))
