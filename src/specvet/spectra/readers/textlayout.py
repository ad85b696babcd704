"""Splitting a text file into header lines, column names and a table of numbers; no physics here."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.columns import column_role
from specvet.spectra.spectrum import FloatArray

_COMMENT = ("#", "%", "!", ";", "//", "\\", "|")
_MISSING = {"", "-", "--", "null", "none", "masked", "n/a", "na", "indef", "nan", "...", '""'}
_PROSE = {"and", "of", "the", "in", "is", "for", "with", "are", "to", "as", "or"}
_TOUCHING = re.compile(r"\d\.\d+\.\d")
_PICKLES = re.compile(r"\s*(\d{3,5}\.\d)\s*(-?\d{1,5}\.\d{6})(?:\s*-?\d{1,5}\.\d{6})*\s*")
_MAX_HEADER = 200
"""Most lines of words before the numbers; a longer text is prose."""


@dataclass(frozen=True)
class TextTable:
    """`comments`: header lines without their marks; `names`: one a column, empty where not stated; `values` (n, c).

    `dropped` counts further columns without names, which could not be told apart.
    """

    comments: tuple[str, ...]
    names: tuple[str, ...]
    values: FloatArray
    dropped: int = 0


def parsed(content: str, file: str) -> TextTable:
    """Header, names and numbers of a text table. Raises `SpectrumReadError` with the line that breaks it."""
    lines = content.splitlines()
    start, delimiter = _first_row(lines, file)
    header = [line for line in lines[:start] if line.strip()]
    comments = tuple(line.strip().lstrip("#%!;/\\|").strip() for line in header)
    rows = [(number, line) for number, line in enumerate(lines[start:], start + 1) if not _is_blank(line)]
    fixed = _fixed_width([line for _, line in rows])
    values = fixed if fixed is not None else _numbers(rows, delimiter, file)
    names = _names(header, values.shape[1], delimiter)
    dropped = 0 if fixed is None else len(lines[start][17:].split())
    return TextTable(comments, names, values, dropped)


def _is_blank(line: str) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith(_COMMENT)


def _fields(line: str, delimiter: str | None) -> list[str]:
    fields = [field.strip() for field in line.strip().split(delimiter)]
    return fields[:-1] if delimiter and len(fields) > 2 and fields[-1] == "" else fields


def _as_number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        pass
    if field.strip("\"'").lower() in _MISSING:
        return float("nan")
    try:
        return float(re.sub(r"(?<=\d|\.)[dD](?=[+-]?\d)", "e", field))
    except ValueError:
        return None


def _delimiter(line: str) -> str | None:
    return next((mark for mark in (",", ";", "\t") if mark in line.strip()), None)


def _is_row(line: str) -> bool:
    """Two numbers or more and nothing else; the first one stated."""
    fields = _fields(line, _delimiter(line))
    if len(fields) < 2 or not fields[0] or fields[0][0] not in "+-.0123456789":
        return False
    return fields[1] not in ("-", "--") and all(_as_number(field) is not None for field in fields)


def _first_row(lines: list[str], file: str) -> tuple[int, str | None]:
    words = 0
    for index, line in enumerate(lines):
        if _is_blank(line):
            continue
        if _is_row(line):
            return index, _delimiter(line)
        words += 1
        if words > _MAX_HEADER:
            break
    raise SpectrumReadError(file, _why_no_rows(lines))


def _why_no_rows(lines: list[str]) -> str:
    """What a text without rows of numbers is instead."""
    body = [line for line in lines if not _is_blank(line)]
    if not body:
        return "a text file with header lines only; it has no rows of numbers"
    if body[0].lstrip().lower().startswith(("<!doctype", "<html", "<?xml")):
        return "an HTML or XML page, not a spectrum (an archive's error page?); download it again"
    mixed = [line for line in body[:200] if re.match(r"\s*[-+.\d]", line) and _fields(line, _delimiter(line))[1:]]
    if len(mixed) > len(body[:200]) / 2:
        columns = Counter(field for line in mixed for field in line.split() if _as_number(field) is None)
        return f"a table with words in its columns (such as {columns.most_common(1)[0][0]!r}), not a spectrum"
    if len(mixed) == 0 and any(re.match(r"\s*[-+.\d]+\s*$", line) for line in body[:200]):
        return "a single column of numbers; a spectrum needs wavelength and flux"
    return "a text without rows of numbers, not a spectrum"


def _numbers(rows: list[tuple[int, str]], delimiter: str | None, file: str) -> FloatArray:
    width = len(_fields(rows[0][1], delimiter))
    lines = [line for _, line in rows]
    try:
        values = np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2, dtype=np.float64)
        if values.shape[1] == width:
            return values
    except ValueError:
        pass  # a missing value, a Fortran exponent or a broken line: look at every line
    out = np.empty((len(rows), width))
    for index, (number, line) in enumerate(rows):
        fields = _fields(line, delimiter)
        if len(fields) != width:
            raise SpectrumReadError(file, f"line {number} has {len(fields)} columns, {width} expected; repair it")
        for column, field in enumerate(fields):
            value = _as_number(field)
            if value is None:
                raise SpectrumReadError(file, f"line {number}, column {column + 1}: {field[:40]!r} is not a number")
            out[index, column] = value
    return out


def _fixed_width(lines: list[str]) -> FloatArray | None:
    """Pickles' format: wavelength F7.1, flux F10.6 and more columns, where large fluxes run into the wavelength.

    Wavelength and flux, or None. Split by decimals, since one of the files keeps a space and breaks the width.
    """
    if not any(_TOUCHING.search(line) for line in lines) and len(lines[0].split()) <= 4:
        return None
    found = [_PICKLES.fullmatch(line) for line in lines]
    rows = [(float(row[1]), float(row[2])) for row in found if row is not None]
    return np.array(rows) if len(rows) == len(lines) else None


def _names(header: list[str], columns: int, delimiter: str | None) -> tuple[str, ...]:
    """Column names from the last header line that has them, or from lines that describe the columns one by one."""
    for line in reversed(header):
        plain = line.strip().lstrip("#%!;/\\|").strip()
        joined = re.sub(r"\s+(?=[(\[])", "", plain)
        for mark in dict.fromkeys((delimiter, ",", "\t", None)):
            source = plain if mark else joined
            found = [field.strip().strip("\"'") for field in source.split(mark)]
            commented = mark is None and line.strip().startswith(_COMMENT)
            if 2 <= len(found) <= columns and _are_names(found, columns, commented):
                return tuple(found) + ("",) * (columns - len(found))
    described = _described(header, columns)
    return described if any(described) else ("",) * columns


def _are_names(found: list[str], columns: int, words: bool) -> bool:
    """Names of columns rather than a sentence; stricter where they are the words of a comment."""
    if any(name.lower() in _PROSE or _as_number(name or "x") is not None for name in found):
        return False
    roles = [column_role(name) for name in found]
    known = sum(role is not None for role in roles)
    if "wavelength" not in roles and "loglam" not in roles:
        return False
    if words and columns > 2:
        return known == len(found) or known >= 3
    return known >= 2 or len(found) == columns


_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}


def _described(header: list[str], columns: int) -> tuple[str, ...]:
    """Names from lines such as `# column 3: inverse variance`."""
    out = [""] * columns
    for line in header:
        found = re.search(
            r"(?:\bcol(?:umn)?\.?\s*#?\s*(\d)|\b(first|second|third|fourth)\s+column)\W+(?:is\s+|the\s+|=\s*)*(.+)",
            line,
            re.IGNORECASE,
        )
        if found:
            index = int(found[1]) if found[1] else _ORDINALS[found[2].lower()]
            words = re.split(r"[,;(\[]", found[3])[0].strip().rstrip(".")
            if 1 <= index <= columns and column_role(words):
                out[index - 1] = found[3].strip()
    return tuple(out)
