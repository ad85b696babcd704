"""Objects: which spectra are of one star, what it is called, and what its epochs amount to.

In come `Sighting`s (and what catalogues matched), out come `Group`s; in come the votes of one group's epochs, out comes
one `Combined` verdict. How a run is read into both, and how a table comes of it, is `specvet.vetting.objects`.
"""

from __future__ import annotations

from specvet.catalogue.objects.combining import Combined, Vote, combine
from specvet.catalogue.objects.grouping import RADIUS_ARCSEC, Group, group

__all__ = ["RADIUS_ARCSEC", "Combined", "Group", "Vote", "combine", "group"]
