"""specvet: vet rare-star candidates from their spectra with an agent that looks, zooms and gives its evidence.

    import specvet

    for spectrum in specvet.read("spec-0266-51602-0031.fits"):
        print(spectrum)

The names below are loaded when they are first used, so that the command line starts fast. In a notebook spectra, runs
and verdicts show themselves as `specvet.show(…)` shows them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specvet.spectra import Spectrum, SpectrumReadError, exposures, from_record, read

__version__ = "0.1.0"

__all__ = ["Spectrum", "SpectrumReadError", "__version__", "exposures", "from_record", "read", "show"]

_WHERE = {"show": "specvet.vetting.notebook"}
"""Of a name that is not of `specvet.spectra`."""

_SHOWN = (
    ("specvet.spectra.spectrum", "Spectrum"),
    ("specvet.records.run", "RunFolder"),
    ("specvet.records.decision", "Decision"),
    ("specvet.records.schema", "Verdict"),
)
"""Module and name of what a notebook shows richly."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_WHERE.get(name, "specvet.spectra")), name)
    raise AttributeError(f"module 'specvet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Let a shell of IPython show spectra, runs and verdicts; importing specvet in a notebook does so by itself."""
    html = shell.display_formatter.formatters["text/html"]
    for module, name in _SHOWN:
        html.for_type_by_name(module, name, lambda thing: __getattr__("show")(thing)._repr_html_())


if (_shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()) is not None:
    load_ipython_extension(_shell)
