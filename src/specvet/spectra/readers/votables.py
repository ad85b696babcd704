"""VOTables as files and services give them, read without asking any other file or address.

A VOTable may say that its rows lie elsewhere (`<STREAM href="…">`), and astropy would open that: any address, and any
file of this machine. Tables of strangers must not decide what is opened, so such a table is refused.
"""

from __future__ import annotations

import io
from os import PathLike
from typing import Any, BinaryIO


class DataElsewhereError(ValueError):
    """A VOTable whose rows are not in it."""


def parsed_votable(source: str | PathLike[str] | bytes | BinaryIO, **options: Any) -> Any:
    """`astropy.io.votable.parse` with its options, of a path, the bytes, or a stream that can be rewound.

    Raises `DataElsewhereError`, what astropy raises for damaged files (almost anything), `OSError`.
    """
    from astropy.io.votable import parse

    sure = isinstance(source, bytes) and not any(word in source for word in (b"STREAM", b"<!DOCTYPE", b"\0"))
    opened = io.BytesIO(source) if isinstance(source, bytes) else source
    if not sure:  # an entity of a DOCTYPE, or UTF-16, may spell the word otherwise
        _check_streams(opened)
    return parse(opened, **options)


def _check_streams(source: str | PathLike[str] | BinaryIO) -> None:
    from astropy.utils.xml.iterparser import get_xml_iterator

    with get_xml_iterator(source) as events:
        for start, tag, told, _ in events:
            if start and tag == "STREAM" and "href" in told:
                raise DataElsewhereError(
                    f"its rows lie elsewhere (STREAM href={told['href'][:100]!r}), which is not opened; save the table "
                    "with its rows in it"
                )
    if not isinstance(source, str | PathLike):
        source.seek(0)
