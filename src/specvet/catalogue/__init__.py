"""From spectra to objects: which spectra are of one star, what catalogues say of it, and how a table is cited.

In come `Sighting`s, the places and times of spectra; out come groups of them, matches with tables and archives, texts.
Whoever asks about a run hands over its rows: this room knows nothing of how they were decided.
"""

from __future__ import annotations

from specvet.catalogue.sighting import Gaia, Known, Match, Sighting

__all__ = ["Gaia", "Known", "Match", "Sighting"]
