"""What surveys, archives and services ask to be acknowledged with.

A text stands here only where its words are certain; for the others stands the address where the survey states them, to
be copied from there, since they differ by data release.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Of one survey or service."""

    of: str
    text: str
    """The words that it asks for; empty where they must be copied from `address`."""
    address: str
    """Where it states them."""


LAMOST = Acknowledgement(
    "LAMOST",
    "Guoshoujing Telescope (the Large Sky Area Multi-Object Fiber Spectroscopic Telescope LAMOST) is a National Major "
    "Scientific Project built by the Chinese Academy of Sciences. Funding for the project has been provided by the "
    "National Development and Reform Commission. LAMOST is operated and managed by the National Astronomical "
    "Observatories, Chinese Academy of Sciences.",
    "http://www.lamost.org/policies/data_policy.html",
)
SDSS = Acknowledgement("SDSS", "", "https://www.sdss.org/collaboration/citing-sdss/")
DESI = Acknowledgement("DESI", "", "https://data.desi.lbl.gov/doc/acknowledgments/")
GAIA = Acknowledgement(
    "Gaia",
    "This work has made use of data from the European Space Agency (ESA) mission Gaia "
    "(https://www.cosmos.esa.int/gaia), processed by the Gaia Data Processing and Analysis Consortium (DPAC, "
    "https://www.cosmos.esa.int/web/gaia/dpac/consortium). Funding for the DPAC has been provided by national "
    "institutions, in particular the institutions participating in the Gaia Multilateral Agreement.",
    "https://www.cosmos.esa.int/web/gaia-users/credits",
)
SIMBAD = Acknowledgement(
    "SIMBAD",
    "This research has made use of the SIMBAD database, operated at CDS, Strasbourg, France.",
    "https://simbad.cds.unistra.fr/simbad/",
)
VSX = Acknowledgement(
    "VSX",
    "This research has made use of the International Variable Star Index (VSX) database, operated at AAVSO, Cambridge, "
    "Massachusetts, USA.",
    "https://www.aavso.org/vsx/",
)

SURVEYS = {"LAMOST": LAMOST, "SDSS": SDSS, "DESI": DESI, "MaStar": SDSS}
"""By the name that a spectrum's survey has."""

CATALOGUES = {"gaia": GAIA, "simbad": SIMBAD, "vsx": VSX}
"""By the name that a match has."""
