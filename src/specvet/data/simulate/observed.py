"""The `Observed`: one SIMULATED exposure stack of a source, as a survey's pipeline would release it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specvet.data.simulate.source import Source

SurveyName = Literal["lamost", "sdss", "boss", "desi"]
SURVEYS: tuple[SurveyName, ...] = ("lamost", "sdss", "boss", "desi")


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """One array of pixels of a release: the joined spectrum of LAMOST, SDSS and BOSS; B, R or Z of DESI."""

    name: str
    wavelength: NDArray[np.float64]
    """Å in vacuum, heliocentric (DESI: barycentric), shape (n_pix,)."""
    flux: NDArray[np.float32]
    """LAMOST: relative (counts after flat and relative flux calibration); others 1e-17 erg/s/cm²/Å."""
    ivar: NDArray[np.float32]
    """0 where the pixel is bad."""
    and_mask: NDArray[np.int32]
    """Bits as the survey defines them."""
    or_mask: NDArray[np.int32]
    sky: NDArray[np.float32] | None = None
    """The sky that was subtracted, where the survey releases it (SDSS, BOSS)."""
    dispersion: NDArray[np.float32] | None = None
    """1σ of the line spread function in pixels, where the survey releases it (SDSS, BOSS)."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What the survey releases of one object and epoch, and the truth behind it."""

    source: Source
    survey: SurveyName
    arms: tuple[Arm, ...]
    object_number: int
    """Which object of the simulated survey, from 0."""
    epoch: int
    """Which of its spectra, from 0."""
    ra: float
    """Degrees; invented."""
    dec: float
    mjd: int
    fibre: int
    magnitude_r: float
    snr: float
    """Median of flux·√ivar a pixel over good pixels, measured after everything."""
    pipeline_class: str
    """`STAR`, `GALAXY`, `QSO` or `Unknown`, as a pipeline would have said, errors included."""
    pipeline_subclass: str
    pipeline_z: float | None
    """What the pipeline states: the true shift with its error, or a wrong one; None where it gave up (LAMOST −9999)."""
    pipeline_z_error: float | None
    pipeline_z_warning: int
    """SDSS/redrock bits; 0 is none."""
    defects: tuple[str, ...]
    """What was done to it, in words: `arm step 1.2`, `cosmic rays`, `wrong redshift`, `dead columns`, …"""

    @property
    def name(self) -> str:
        """Unique in its survey, and says nothing of what it is: `SIMULATED-lamost-000123-0`."""
        return f"SIMULATED-{self.survey}-{self.object_number:06d}-{self.epoch}"

    @property
    def object_id(self) -> str:
        """The same for all epochs of one object."""
        return f"SIMULATED-{self.object_number:06d}"
