"""Spectra: any survey's file goes in, `Spectrum` objects come out, native as released, one a target.

`read` recognises LAMOST, SDSS, DESI, IRAF, text, image, table, NPZ and Parquet files by structure; `exposures` reads
the single exposures behind them, `from_record` one record of an archive; `SpectrumReadError` says what is wrong.
`choose_frame` says in which frame to look. `LINES` lists spectral lines, `measure_line` measures one; line indices
(`specvet.spectra.indices`) measure what tasks ask for.
"""

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.frame import Frame, FrameMode, choose_frame
from specvet.spectra.line_list import LINES, SpectralLine, lines_between, lines_of, spectral_line
from specvet.spectra.line_measure import LineMeasurement, measure_line
from specvet.spectra.reading import SIMULATED, exposures, read, says_simulated
from specvet.spectra.record import from_record
from specvet.spectra.spectrum import Join, Medium, Redshift, Spectrum
from specvet.spectra.writing import write

__all__ = [
    "LINES",
    "SIMULATED",
    "Frame",
    "FrameMode",
    "Join",
    "LineMeasurement",
    "Medium",
    "Redshift",
    "SpectralLine",
    "Spectrum",
    "SpectrumReadError",
    "choose_frame",
    "exposures",
    "from_record",
    "lines_between",
    "lines_of",
    "measure_line",
    "read",
    "says_simulated",
    "spectral_line",
    "write",
]
