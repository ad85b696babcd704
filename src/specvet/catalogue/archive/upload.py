"""The list of places as archives take it: a VOTable of a number and a position, nothing else of the user's."""

from __future__ import annotations

from collections.abc import Sequence

from specvet.catalogue.archive.found import DEC, ID, RA, Place

VOTABLE_TYPE = "application/x-votable+xml"


def votable_of(places: Sequence[Place]) -> str:
    """A VOTable 1.3 of `places`, one row each, positions to 1e-9 degrees (4 µas)."""
    rows = "\n".join(f"<TR><TD>{p.number}</TD><TD>{p.ra:.9f}</TD><TD>{p.dec:.9f}</TD></TR>" for p in places)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<VOTABLE version="1.3" xmlns="http://www.ivoa.net/xml/VOTable/v1.3">
<RESOURCE><TABLE name="places" nrows="{len(places)}">
<FIELD name="{ID}" datatype="long" ucd="meta.id"/>
<FIELD name="{RA}" datatype="double" ucd="pos.eq.ra" unit="deg"/>
<FIELD name="{DEC}" datatype="double" ucd="pos.eq.dec" unit="deg"/>
<DATA><TABLEDATA>
{rows}
</TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>
"""
