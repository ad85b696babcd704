"""Tables for other people's programs: FITS, VOTable and ECSV, written as they stream, with all that a format can hold.

In come a `Sheet` (columns with units and words, and facts for the header) and its cells; out come a file and `notices`
of what the format, or its usual readers, cannot hold. A null is a null in each format, as far as it has one.

| | FITS | VOTable | ECSV |
|---|---|---|---|
| null text, empty text | a null begins with NUL, an empty text is blanks; both read as empty | both are kept; astropy \
shows both as empty | both are kept, in a mask column |
| null number, NaN | both are NaN | both are kept; astropy masks both | both are kept |
| null integer | TNULL, the smallest 64-bit integer | null flag, and VALUES null | empty field |
| text beyond ASCII | escaped, see `escaped` | as it is | as it is |
| blanks at the ends of a text | kept, the last one escaped | kept | in the file; astropy's reader strips them |
"""

from specvet.records.tables.cells import Cells, Spool, cells_of
from specvet.records.tables.sheet import Column, Fact, Sheet, escaped, unescaped
from specvet.records.tables.writing import FORMATS, TableFormat, table_format, write_table

__all__ = [
    "FORMATS",
    "Cells",
    "Column",
    "Fact",
    "Sheet",
    "Spool",
    "TableFormat",
    "cells_of",
    "escaped",
    "table_format",
    "unescaped",
    "write_table",
]
