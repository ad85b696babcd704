"""What a specialist sees of an opening: what an agent is shown in its figure, and nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specvet.records import text_hash
from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import Meter, WidthIndex
from specvet.spectra.pixels import Pixels
from specvet.tools import WindowData

INDICES = {
    key: index
    for key, index in BUILTIN_INDICES.items()
    # Without a resolution the instrument's width cannot be taken out, and these would repeat the plain widths.
    if not (isinstance(index, WidthIndex) and index.of == "intrinsic")
}
"""The built-in line indices that need flux alone."""

NAMES = tuple(INDICES)


def seen(data: WindowData) -> Spectrum:
    """Wavelengths and fluxes in the opening's frame; no errors, mask, class, redshift, id or file.

    The medium is not drawn either, so bands are placed half-way between air and vacuum, wrong by at most 0.9 Å.
    """
    return Spectrum(wavelength=data.spectrum.wavelength, flux=data.spectrum.flux, frame=data.frame.name)


def index_values(spectrum: Spectrum) -> NDArray[np.float64]:
    """The values of `NAMES` in their own units, shape (n_indices,); NaN where one is not measurable."""
    measured = Meter(Pixels(spectrum)).measure(NAMES, INDICES)
    values = (measured[name].value for name in NAMES)
    return np.array([np.nan if value is None else value for value in values])


def indices_hash() -> str:
    """Of the definitions: values of other definitions are other numbers."""
    return text_hash("\n".join(map(repr, INDICES.values())))
