"""The SIMULATED spectra that documents are made of: every kind and survey, S/N 3 to 60, with their defects."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from specvet.data.reading.reader import Exposure
from specvet.data.simulate import kinds
from specvet.data.simulate.observed import SURVEYS
from specvet.data.simulate.observing import observe, spectrum
from specvet.data.simulate.source import Source
from specvet.data.simulate.templates import Templates, load_templates
from specvet.spectra import Redshift, Spectrum
from specvet.tools import ZoomTool

VERSION = 1
"""Of all that is drawn by chance in this package: to be raised when the same seed gives other documents."""

DOCUMENTS_AN_EXPOSURE, EXPOSURES_A_SOURCE = 3, 4
"""Documents in a row about one exposure, and exposures in a row of one object: making or observing one costs as much as
drawing several pictures of it. Each document has windows and requests of its own."""

STYLE, SIZE = "compact", "tiny"
"""Of all pictures."""

SNR = (3.0, 60.0)
"""Median S/N a pixel, drawn log-uniformly."""

BARE_SHARE = 0.5
"""Of spectra without errors and joins, as published arrays hold them; the others have all that their survey states."""

CLASSES_SHARE = 0.45
"""Of objects that belong to one of the five classes; the others are what is taken for them."""

ATTEMPTS = 20
"""How often an object is drawn anew until it has light where its survey wants it."""

_SOURCE, _OBSERVATION = 1, 2
"""Streams of random numbers."""


class Scenes:
    """The spectra by number; each follows from the seed and its number alone, whoever asks and in what order."""

    def __init__(self, seed: int, templates: Templates | None = None) -> None:
        if seed < 0:
            raise ValueError(f"seed = {seed}; seeds start at 0")
        self.seed = seed
        self.templates = templates
        self._sources: dict[tuple[int, int], Source] = {}
        self._exposures: dict[int, Exposure] = {}

    def exposure(self, document: int) -> Exposure:
        """What a document is about. Raises RuntimeError as `spectrum`."""
        number = document // DOCUMENTS_AN_EXPOSURE
        found = self._exposures.get(number)
        if found is None:
            found = Exposure(ZoomTool(self.spectrum(number), style=STYLE, size=SIZE))
            self._exposures = {number: found}
        return found

    def spectrum(self, number: int) -> Spectrum:
        """One exposure. Raises RuntimeError where none of `ATTEMPTS` objects could be observed."""
        problem = ""
        for attempt in range(ATTEMPTS):
            rng = np.random.default_rng([self.seed, VERSION, _OBSERVATION, number, attempt])
            survey = SURVEYS[int(rng.integers(len(SURVEYS)))]
            snr = float(np.exp(rng.uniform(*np.log(SNR))))
            source = self._source(number // EXPOSURES_A_SOURCE, attempt)
            source = replace(source, velocity_km_s=source.velocity_km_s + float(rng.normal(0.0, 30.0)))
            try:
                seen = spectrum(observe(source, survey, rng, snr=snr, object_number=number))
            except ValueError as e:  # no light where the S/N is wanted
                problem = str(e)
                continue
            return bare(seen) if rng.random() < BARE_SHARE else seen
        raise RuntimeError(f"exposure {number}: none of {ATTEMPTS} objects can be observed; the last: {problem}")

    def _source(self, number: int, attempt: int) -> Source:
        found = self._sources.get((number, attempt))
        if found is None:
            rng = np.random.default_rng([self.seed, VERSION, _SOURCE, number, attempt])
            found = kinds.make(_kind(rng), rng)
            if self.templates is not None:
                found = self.templates.seed(found, rng)
            others = {key: source for key, source in self._sources.items() if key[0] == number}
            self._sources = others | {(number, attempt): found}
        return found


@lru_cache(maxsize=4)
def scenes_of(seed: int, templates: str | Templates | None = None) -> Scenes:
    """Those of a seed, kept: who asks for a few documents at a time has the same objects for the next."""
    return Scenes(seed, load_templates(templates) if isinstance(templates, str) else templates)


def bare(seen: Spectrum) -> Spectrum:
    """What a published array holds of it: wavelengths, fluxes and a redshift."""
    z = Redshift(seen.redshift.value or 0.0, None, "redshift")
    return Spectrum(seen.wavelength, seen.flux, medium="vacuum", redshift=z, id=seen.id, layout="npz", row=0)


def _kind(rng: np.random.Generator) -> str:
    of_classes = rng.random() < CLASSES_SHARE
    names = [key for key, kind in kinds.KINDS.items() if bool(kind.yes) == of_classes]
    return names[int(rng.integers(len(names)))]
