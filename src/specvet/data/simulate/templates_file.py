"""All templates of a folder of real spectra in one small file, to be carried where the folder is not.

    write_template_file("../shared/spectra", "templates.npz")    →  some 10 kB a spectrum
    load_templates("templates.npz", fold=read_fold("2/5"))

It holds every object, those that a fold keeps back too, so that one file serves all folds. Wavelengths are those of
`specvet.data.simulate.source.GRID`, in vacuum and at rest. What it holds are other people's spectra: it is not to be
published or committed.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specvet.data.simulate.templates_cleaning import Template
from specvet.data.simulate.templates_reading import read_templates, words_of
from specvet.records import write_atomic

FORMAT = "specvet templates 1, vacuum, log10 step 5e-5"

_STEP = 5e-4
"""Of ln flux, to which it is rounded: ±0.025 %, less than what denoising leaves."""


def write_template_file(folder: str | Path, out: str | Path) -> tuple[list[Template], dict[str, str]]:
    """Write the templates of a folder into one file; returns them, and what made none (path → why).

    Raises ValueError for a folder without a manifest or without a template, OSError.
    """
    templates, refused = read_templates(folder)
    if not templates:
        raise ValueError(f"{folder}: none of its {len(refused)} spectra makes a template")
    buffer = io.BytesIO()
    levels = [np.rint(np.log(t.flux.astype(np.float64)) / _STEP).astype(np.int16) for t in templates]
    # Smooth spectra: steps from pixel to pixel are small, and the high bytes nearly all alike.
    steps = np.concatenate([np.diff(level, prepend=np.int16(0)) for level in levels]).astype(np.uint16)
    np.savez_compressed(
        buffer,
        format=np.array(FORMAT),
        start=np.array([t.start for t in templates], dtype=np.int32),
        size=np.array([t.flux.size for t in templates], dtype=np.int32),
        low=(steps & 0xFF).astype(np.uint8),
        high=(steps >> 8).astype(np.uint8),
        seen=np.packbits(np.concatenate([t.seen for t in templates])),
        words=words_of(templates),
    )
    write_atomic(Path(out), buffer.getvalue())
    return templates, refused


def read_template_file(path: str | Path) -> list[Template]:
    """What `write_template_file` wrote. Raises ValueError for a file that is none, OSError."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["format"]) != FORMAT:
                raise ValueError(f"it says {str(kept['format'])[:60]!r}")
            start, size = kept["start"].tolist(), kept["size"].tolist()
            steps = kept["low"].astype(np.uint16) | kept["high"].astype(np.uint16) << 8
            seen = np.unpackbits(kept["seen"], count=steps.size).astype(bool)
            words = kept["words"].tolist()
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as e:
        raise ValueError(
            f"{path}: is no file of templates ({e}); make one: specvet data templates FOLDER --out FILE"
        ) from None
    ends = np.cumsum(size).tolist()
    return [
        Template(first, _flux(steps[end - n : end]), seen[end - n : end], tuple(kinds.split()), *told)
        for first, n, end, (kinds, *told) in zip(start, size, ends, words, strict=True)
    ]


def _flux(steps: NDArray[np.uint16]) -> NDArray[np.float32]:
    levels = np.cumsum(steps, dtype=np.uint16).view(np.int16)
    return np.asarray(np.exp(levels * _STEP), dtype=np.float32)
