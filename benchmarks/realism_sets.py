"""The spectra that `realism.py` compares: real ones of a folder, and simulated ones of the same classes and S/N."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from specvet.data.simulate import kinds, observing
from specvet.data.simulate.physics import broadened
from specvet.data.simulate.source import GRID, Source
from specvet.data.simulate.templates import Templates
from specvet.data.simulate.templates_manifest import RealFile, held_out, read_manifest
from specvet.data.simulate.templates_reading import read_templates
from specvet.spectra import Spectrum, SpectrumReadError, read
from specvet.spectra.lines import air_to_vacuum

LAMOST = {
    "A star": {"a_star": 1.0},
    "F star": {"f_star": 1.0},
    "G star": {"g_star": 1.0},
    "K star": {"k_dwarf": 0.5, "k_giant": 0.5},
    "M star (luminosity class not given)": {"m_dwarf.quiet": 0.9, "m_dwarf.active": 0.1},
}
"""Class of real LAMOST files → kinds that they are compared with, and their shares."""

CV = {"cv.quiescence": 0.5, "cv.double_peaked": 0.25, "cv.magnetic": 0.08, "cv.nova_like": 0.12, "cv.outburst": 0.05}

LIBRARY_KINDS = ("gm.giant", "ss.S", "ss.MS", "cc.CH", "cc.N", "k_giant", "m_dwarf.quiet", "wd.DA", "wd.DB", "wd.DQ",
                 "sdo", "a_star", "f_star", "g_star", "b_star", "be_star")  # fmt: skip
"""Compared without noise with the libraries, by features alone."""

NEAR = 1.5
"""Subclasses that a simulated star may differ in type from the real one that it stands beside."""

LIBRARY_FWHM_KM_S = 150.0
"""Of MILES and Indo-US near 5000 Å; simulated sources are blurred by it."""


@dataclass(frozen=True)
class One:
    """A spectrum of either side."""

    spectrum: Spectrum
    label: str
    """Class, of the real one or as the real one that it stands beside."""
    group: str
    """Object, for folds."""
    name: str
    subtype: str = ""
    template: str = ""
    beside: str = ""
    """Name of the real one that it was made beside."""


def real(folder: Path, layout: str) -> Iterator[tuple[One, RealFile]]:
    """The files below `layout`, each with its class."""
    for file in read_manifest(folder):
        if file.path.startswith(layout):
            try:
                spectra = read(folder / file.path)
            except SpectrumReadError:
                continue
            if len(spectra) == 1:
                yield One(spectra[0], file.class_label, file.object_id, file.path, file.subclass), file


def lamost(folder: Path, only_held_out: bool = False) -> list[One]:
    """Real LAMOST low-resolution spectra of the classes that are compared."""
    found = (one for one, _ in real(folder, "lamost/") if one.label in LAMOST and "mrs" not in one.name)
    return [one for one in found if not only_held_out or held_out(one.group)]


def cataclysmic(folder: Path, only_held_out: bool = False) -> list[One]:
    """Real SDSS spectra of CVs: two columns, no errors."""
    found = [one for one, _ in real(folder, "sdss/cv_ascii/")]
    return [replace(one, spectrum=_bare(one.spectrum)) for one in found if not only_held_out or held_out(one.group)]


def simulated(
    beside: list[One],
    survey: str,
    mix: dict[str, dict[str, float]],
    per_real: int,
    seed: int,
    templates: Templates | None = None,
    bare: bool = False,
) -> list[One]:
    """`per_real` simulated spectra for each real one, of its class and, as asked for, its S/N."""
    out = []
    for i, one in enumerate(beside):
        shares = mix.get(one.label) or mix["*"]
        for j in range(per_real):
            rng = np.random.default_rng([seed, i, j])
            kind = str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))
            source = _of_type(kind, one.subtype, rng)
            if templates is not None:
                source = templates.seed(source, rng, share=1.0)
            snr = max(float(one.spectrum.snr or 5.0), 1.5)
            seen = observing.observe(source, survey, rng, snr=snr, object_number=i * per_real + j)
            spectrum = observing.spectrum(seen)
            name = f"SIMULATED {kind} {source.subtype}".strip()
            shown = _bare(spectrum) if bare else spectrum
            out.append(One(shown, one.label, f"s{i}-{j}", name, source.subtype, source.template, one.name))
    return out


def _of_type(kind: str, subtype: str, rng: np.random.Generator) -> Source:
    """A source within `NEAR` subclasses of a real star's type, or the nearest of 25 draws; any, without a type."""
    wanted = _type_number(subtype)
    best = kinds.make(kind, rng)
    for _ in range(25):
        own = _type_number(best.subtype)
        if wanted is None or own is None or abs(own - wanted) <= NEAR:
            return best
        other = kinds.make(kind, rng)
        other_number = _type_number(other.subtype)
        if other_number is not None and abs(other_number - wanted) < abs(own - wanted):
            best = other
    return best


def _type_number(text: str) -> float | None:
    """`F5V` → 35, `dM2.5` → 62.5; None for what is no spectral type."""
    found = re.search(r"([OBAFGKM])(\d+(?:\.\d+)?)", text)
    return None if found is None else 10.0 * "OBAFGKM".index(found[1]) + float(found[2])


def free_snr(survey: str, n: int, seed: int) -> list[float]:
    """S/N as the simulated survey draws it."""
    out = []
    for i in range(n):
        rng = np.random.default_rng([seed, 7, i])
        out.append(observing.observe(kinds.make("a_star" if i % 2 else "g_star", rng), survey, rng).snr)
    return out


def library(folder: Path, kind: str) -> list[Spectrum]:
    """Real spectra of a kind without noise, at rest, as released."""
    found = []
    for template in read_templates(folder)[0]:
        if kind in template.kinds and not template.file.startswith(("lamost/", "sdss/")):
            path, _, row = template.file.partition("#")
            spectra = _kept(folder / path)
            spectrum = next((s for s in spectra if s.id == row), spectra[0])
            if spectrum.medium == "air" or (spectrum.medium == "unknown" and "templates/" not in path):
                spectrum = spectrum.replace(wavelength=air_to_vacuum(spectrum.wavelength), medium="vacuum")
            found.append(spectrum)
    return found


@lru_cache(maxsize=4)
def _kept(path: Path) -> list[Spectrum]:
    return read(path)


def noiseless(kind: str, n: int, seed: int) -> list[Spectrum]:
    """Simulated sources of a kind at rest, at the resolution of the libraries."""
    made = (kinds.make(kind, np.random.default_rng([seed, 11, i])) for i in range(n))
    return [as_spectrum(source) for source in made]


def as_spectrum(source: Source) -> Spectrum:
    """A source as a library would give it."""
    return Spectrum(GRID.copy(), broadened(source.flux, LIBRARY_FWHM_KM_S), medium="vacuum", frame="rest")


def _bare(s: Spectrum) -> Spectrum:
    """Wavelength and flux of what SDSS releases of CVs in text: no errors, bad pixels bridged, 3,800-9,200 Å."""
    good = s.good
    inside = (s.wavelength > 3800.0) & (s.wavelength < 9200.0)
    flux = np.interp(s.wavelength, s.wavelength[good], s.flux[good])[inside]
    return Spectrum(s.wavelength[inside], flux, medium="vacuum", resolution=2000.0)
