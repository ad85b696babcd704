"""Spectra: any survey's file goes in, `Spectrum` objects come out, native as released, one a target.

`read` recognises LAMOST, SDSS, DESI, text, image, table and NPZ files by structure; `SpectrumReadError` says what is
wrong with the others. `choose_frame` says in which frame to look; line indices (`specvet.spectra.indices`) measure.
"""

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.frame import Frame, FrameMode, choose_frame
from specvet.spectra.reading import read
from specvet.spectra.spectrum import Join, Medium, Redshift, Spectrum

__all__ = [
    "Frame",
    "FrameMode",
    "Join",
    "Medium",
    "Redshift",
    "Spectrum",
    "SpectrumReadError",
    "choose_frame",
    "read",
]
