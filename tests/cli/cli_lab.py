"""The real `specvet` script, and small spectra to give it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

SCRIPT = Path(sys.executable).parent / "specvet"
SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"

Specvet = Callable[..., "subprocess.CompletedProcess[str]"]


def write_star(path: Path, peak: float = 5.0) -> Path:
    """A text spectrum of 3800-9200 Å with Hα of that height over a continuum of 1, S/N near 50."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for i in range(2700):
        wavelength = 3800 + 2 * i
        noise = 0.02 * ((i * 7919) % 13 - 6) / 3.7
        line = peak * 2.718281828 ** (-(((wavelength - 6563) / 12) ** 2) / 2)
        lines.append(f"{wavelength} {1 + line + noise:.5f} {0.02:.3f}\n")
    path.write_text("".join(lines))
    return path
