"""Spectra to teach with: simple shapes whose lines and bands are known, SIMULATED here."""

from __future__ import annotations

import numpy as np

from specvet.data.teacher import Refused, Taught, Teacher
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum
from specvet.spectra.lines import in_medium
from specvet.spectra.spectrum import Join, Redshift
from specvet.tasks import load_task

GRID = 10.0 ** np.arange(np.log10(3700.0), np.log10(9100.0), 1e-4)
"""Å in vacuum, the sampling of LAMOST."""

LINES = {"Hα": 6562.8, "Hβ": 4861.3, "Hγ": 4340.5, "Hδ": 4101.7, "He I 5876": 5875.6, "He I 6678": 6678.2}
"""Å in air."""


def star(
    heights: dict[str, float],
    *,
    fwhm_km_s: float = 1500.0,
    snr: float = 30.0,
    slope: float = -1.0,
    seed: int = 0,
    ivar: bool = True,
    z: float | None = None,
    joins: tuple[Join, ...] = (Join(5700.0, 5900.0, "LAMOST blue/red"),),
) -> Spectrum:
    """A continuum ∝ λ^slope with Gaussian lines of these heights (negative in absorption) over it, in vacuum."""
    rng = np.random.default_rng(seed)
    rest = GRID / (1.0 + (z or 0.0))
    shape = np.ones_like(GRID)
    for name, height in heights.items():
        at = in_medium(LINES[name], "air", "vacuum")
        shape += height * np.exp(-0.5 * ((rest - at) / (at * fwhm_km_s / 299_792.458 / 2.3548)) ** 2)
    flux = shape * (GRID / 6000.0) ** slope
    sigma = flux.mean() / snr
    return Spectrum(
        wavelength=GRID,
        flux=flux + rng.normal(0.0, sigma, GRID.size),
        ivar=np.full(GRID.size, sigma**-2) if ivar else None,
        medium="vacuum",
        resolution=1800.0,
        calibration="relative",
        joins=joins,
        redshift=Redshift() if z is None else Redshift(z, None, "header Z"),
        pipeline_class="STAR",
        id=f"SIMULATED-{seed}",
    )


def cv(**more: object) -> Spectrum:
    """Broad Balmer and He I emission on a blue continuum."""
    heights = {"Hα": 1.6, "Hβ": 1.2, "Hγ": 1.0, "Hδ": 0.8, "He I 5876": 0.4, "He I 6678": 0.3}
    return star(heights, **more)  # type: ignore[arg-type]


def a_star(**more: object) -> Spectrum:
    """Balmer absorption of an A star, narrow."""
    return star({"Hα": -0.5, "Hβ": -0.55, "Hγ": -0.55, "Hδ": -0.55}, **{"fwhm_km_s": 900.0, **more})  # type: ignore[arg-type]


def question(task: str, answer: str, name: str = "a.fits") -> Question:
    return Question(
        id=f"{task}-{name}", task=task, spectrum=SpectrumRef(path=name), name=name, answer=answer, object_id=name
    )  # type: ignore[arg-type]


_TEACHERS: dict[str, Teacher] = {}


def teach(task: str, answer: str, spectrum: Spectrum, seed: int = 0) -> Taught | Refused:
    if task not in _TEACHERS:
        _TEACHERS[task] = Teacher(load_task(task), style="compact")
    return _TEACHERS[task].teach(question(task, answer), spectrum, np.random.default_rng(seed))


def taught(task: str, answer: str, spectrum: Spectrum, seed: int = 0) -> Taught:
    """Fails where the draft was refused."""
    found = teach(task, answer, spectrum, seed)
    assert isinstance(found, Taught), found
    return found


def texts(one: Taught) -> list[str]:
    return [*(turn.thought for turn in one.turns), one.answer]
