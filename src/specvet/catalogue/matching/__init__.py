"""Matching: in come the spectra of a run and tables that the user has; out come what these say of each star, what
Gaia's numbers mean, and the verdict with Gaia beside the one from the spectrum.

`match_run` does it for a run folder with any `Source`; `read_matches` and `read_answers` give what it left there;
`cmd_svg` draws a star in the colour-magnitude diagram.
"""

from specvet.catalogue.matching.answers import WithGaia, with_gaia
from specvet.catalogue.matching.diagram import cmd_svg
from specvet.catalogue.matching.folder import Place, read_about, read_answers, read_matches, write_matches
from specvet.catalogue.matching.quantities import Luminous, luminous
from specvet.catalogue.matching.run import RADIUS_ARCSEC, Matched, match_run, run_tasks
from specvet.catalogue.matching.sources import Source, TableSource, known_as, merged
from specvet.catalogue.matching.table import Table, read_table

__all__ = [
    "RADIUS_ARCSEC",
    "Luminous",
    "Matched",
    "Place",
    "Source",
    "Table",
    "TableSource",
    "WithGaia",
    "cmd_svg",
    "known_as",
    "luminous",
    "match_run",
    "merged",
    "read_about",
    "read_answers",
    "read_matches",
    "read_table",
    "run_tasks",
    "with_gaia",
    "write_matches",
]
