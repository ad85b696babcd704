"""specvet: vet rare-star candidates from their spectra with an agent that looks, zooms and gives its evidence.

    import specvet

    for spectrum in specvet.read("spec-0266-51602-0031.fits"):
        print(spectrum)

The names below are loaded when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specvet.spectra import Spectrum, SpectrumReadError, exposures, from_record, read

__version__ = "0.1.0"

__all__ = ["Spectrum", "SpectrumReadError", "__version__", "exposures", "from_record", "read"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from specvet import spectra

        return getattr(spectra, name)
    raise AttributeError(f"module 'specvet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
