"""Splitting a text file into header lines, column names and a table of numbers; no physics here."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.columns import (
    angstroms_per,
    column_role,
    flux_rank,
    other_quantity,
    says_nothing,
)
from specvet.spectra.readers.tidy import ID_NAMES
from specvet.spectra.spectrum import FloatArray

_COMMENT = ("#", "%", "!", ";", "//", "\\", "|")
_MISSING = {"", "-", "--", "null", "none", "masked", "n/a", "na", "indef", "nan", "...", '""'}
_PROSE = {"and", "of", "the", "in", "is", "for", "with", "are", "to", "as", "or"}
_DONE = re.compile(r"(?:flux_?)?(?:calibrated|corrected|normali[sz]ed|reduced|resolved|rectified|extracted|subtracted)")
"""What is done to a spectrum, in sentences such as `Wavelength calibrated spectrum`."""

_TITLE = re.compile(r"(?:columns?|col(?:umn)? names|names|fields)\s*[:=]\s*", re.IGNORECASE)
_COMMAS = re.compile(r"[+-]?\d+(?:,\d+)+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_POINT = re.compile(r"[+-]?\d*\.\d*(?:[eEdD][+-]?\d+)?")
_TOUCHING = re.compile(r"\d\.\d+\.\d")
_PICKLES = re.compile(r"\s*(\d{3,5}\.\d)\s*(-?\d{1,5}\.\d{6})(?:\s*-?\d{1,5}\.\d{6})*\s*")
_MAX_HEADER = 200
"""Most lines of words before the numbers; a longer text is prose."""

_MAX_LINE = 100_000
"""Characters; a line of more takes long to split, and has columns that nobody could name."""


@dataclass(frozen=True)
class TextTable:
    """`comments`: header lines without their marks; `names`: one a column, empty where not stated; `values` (n, c).

    `ids` holds the words of columns that are named for identifiers, which as numbers would lose digits. `dropped`
    counts further columns without names, which could not be told apart; `left_out` names columns that hold no numbers.
    `units`: one a column where the file states them, else empty. `notes` say what else was left out.
    """

    comments: tuple[str, ...]
    names: tuple[str, ...]
    values: FloatArray
    dropped: int = 0
    units: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    ids: dict[str, NDArray[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def parsed(content: str, file: str) -> TextTable:
    """Header, names and numbers of a text table. Raises `SpectrumReadError` with the line that breaks it."""
    lines = content.splitlines()
    longest = max(map(len, lines), default=0)
    if longest > _MAX_LINE:
        raise SpectrumReadError(file, f"a line of {longest} characters is no row of a spectrum; one pixel a line")
    start, delimiter = _first_row(lines, file)
    header = [line for line in lines[:start] if line.strip()]
    comments = tuple(line.strip().lstrip("#%!;/\\|").strip() for line in header)
    rows = [(number, line) for number, line in enumerate(lines[start:], start + 1) if not _is_blank(line)]
    fixed = _fixed_width([line for _, line in rows])
    values = fixed if fixed is not None else _numbers(rows, delimiter, file)
    names, units = _names(header, values.shape[1], delimiter)
    if not any(names):
        _check_names(header, values.shape[1], delimiter, file)
    elif delimiter == "," and names[-1] == "" and len(names) > 2 and not _is_comment(header[-1]):
        named = sum(bool(name) for name in names)
        problem = f"rows of {len(names)} fields under {named} names (decimal commas between commas?)"
        raise SpectrumReadError(file, f"{problem}; part the columns with semicolons, or name all")
    dropped = 0 if fixed is None else len(lines[start][17:].split())
    ids = {} if fixed is not None else _ids(names, rows, delimiter)
    return TextTable(comments, names, values, dropped, units, ids=ids)


def _ids(names: tuple[str, ...], rows: list[tuple[int, str]], delimiter: str | None) -> dict[str, NDArray[Any]]:
    wanted = {name.lower(): index for index, name in enumerate(names) if name.lower() in ID_NAMES}
    if not wanted:
        return {}
    words = [_fields(line, delimiter) for _, line in rows]
    return {name: np.array([row[index] for row in words], dtype=np.str_) for name, index in wanted.items()}


def _is_comment(line: str) -> bool:
    return line.strip().startswith(_COMMENT)


def _is_blank(line: str) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith(_COMMENT)


def _fields(line: str, delimiter: str | None) -> list[str]:
    plain = line.strip()
    if delimiter and '"' in plain:
        fields = [field.strip() for field in next(csv.reader([plain], delimiter=delimiter, skipinitialspace=True))]
    else:
        fields = [field.strip() for field in plain.split(delimiter)]
    return fields[:-1] if delimiter and len(fields) > 2 and fields[-1] == "" else fields


def _as_number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        pass
    plain = field.strip("\"'")
    if plain.lower() in _MISSING:
        return float("nan")
    if plain != field:
        return _as_number(plain)
    if _THOUSANDS.fullmatch(plain) and "." in plain:
        return _as_number(plain.replace(",", ""))
    if re.fullmatch(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?", plain):
        return _as_number(plain.replace(",", "."))
    try:
        return float(re.sub(r"(?<=\d|\.)[dD](?=[+-]?\d)", "e", field))
    except ValueError:
        return None


def _delimiter(line: str) -> str | None:
    """The first mark that leaves nothing but numbers, else the first that is there, else None: blanks.

    `4000,5;1,2` is how half of Europe writes two numbers.
    """
    plain = line.strip()
    there = [mark for mark in (",", ";", "\t", "|") if mark in plain]
    if len(there) > 1 or there == [","]:
        numbers = (mark for mark in (*there, None) if all(_as_number(f) is not None for f in _fields(plain, mark)))
        return next((mark for mark in numbers if len(_fields(plain, mark)) > 1), there[0])
    return there[0] if there else None


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
        example = f" (such as {columns.most_common(1)[0][0][:40]!r})" if columns else ""
        return f"a table with words in its columns{example}, not a spectrum"
    if len(mixed) == 0 and any(re.match(r"\s*[-+.\d]+\s*$", line) for line in body[:200]):
        return "a single column of numbers; a spectrum needs wavelength and flux"
    return "a text without rows of numbers, not a spectrum"


def _numbers(rows: list[tuple[int, str]], delimiter: str | None, file: str) -> FloatArray:
    width = len(_fields(rows[0][1], delimiter))
    lines = [line for _, line in rows]
    try:
        values = np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2, dtype=np.float64)
    except ValueError:
        values = np.empty((0, 0))  # a missing value, a Fortran exponent or a broken line: look at every line
    if values.shape[1] == width:
        _refuse_decimals_after_commas(lines, delimiter, file)
        return values
    out = np.empty((len(rows), width))
    thousands = _commas_part_thousands(rows, delimiter, file)
    for index, (number, line) in enumerate(rows):
        fields = _fields(line, delimiter)
        if len(fields) != width:
            raise SpectrumReadError(file, f"line {number} has {len(fields)} columns, {width} expected; repair it")
        for column, word in enumerate(fields):
            value = _as_number(word.replace(",", "") if thousands else word)
            if value is None:
                raise SpectrumReadError(file, f"line {number}, column {column + 1}: {word[:40]!r} is not a number")
            out[index, column] = value
    return out


def _commas_part_thousands(rows: list[tuple[int, str]], delimiter: str | None, file: str) -> bool:
    """Whether commas inside numbers part thousands (`1,500.3`) rather than decimals (`1,5`).

    Raises `SpectrumReadError` for what may be either.
    """
    commas, points = [], False
    for number, line in rows:
        for word in _fields(line, delimiter):
            plain = word.strip("\"'")
            if "," in plain and _COMMAS.fullmatch(plain):
                commas.append((number, plain))
            points = points or ("," not in plain and "." in plain and _POINT.fullmatch(plain) is not None)
    if not commas:
        return False
    grouped = all(_THOUSANDS.fullmatch(plain) for _, plain in commas)
    if grouped and any("." in plain for _, plain in commas):
        return True
    if points or grouped or any(plain.count(",") > 1 or "." in plain for _, plain in commas):
        number, plain = commas[0]
        problem = f"line {number}: {plain!r} may be a decimal or thousands"
        raise SpectrumReadError(file, f"{problem}; write decimals with a point, and no marks between thousands")
    return False


def _refuse_decimals_after_commas(lines: list[str], delimiter: str | None, file: str) -> None:
    """`4000,1,045`: whole numbers between commas, some with a zero in front, are halves of decimals."""
    if delimiter != "," or "." in lines[0] or "." in lines[-1]:
        return
    if any(re.search(r",\s*0\d", line) for line in lines) and not any("." in line for line in lines):
        problem = "whole numbers with zeros in front between commas (decimal commas?)"
        raise SpectrumReadError(file, f"{problem}; part the columns with semicolons, or write decimals with a point")


def _fixed_width(lines: list[str]) -> FloatArray | None:
    """Pickles' format: wavelength F7.1, flux F10.6 and more columns, where large fluxes run into the wavelength.

    Wavelength and flux, or None. Split by decimals, since one of the files keeps a space and breaks the width.
    """
    if not any(_TOUCHING.search(line) for line in lines) and len(lines[0].split()) <= 4:
        return None
    found = [_PICKLES.fullmatch(line) for line in lines]
    rows = [(float(row[1]), float(row[2])) for row in found if row is not None]
    return np.array(rows) if len(rows) == len(lines) else None


_Names = tuple[tuple[str, ...], tuple[str, ...]]


def _names(header: list[str], columns: int, delimiter: str | None) -> _Names:
    """Names and units of the columns (empty where not stated): names from the last header line that has them, or from
    lines that describe the columns one by one; units from a line below the names."""
    for place in range(len(header) - 1, -1, -1):
        for mark, found in _split(header[place], delimiter):
            commented = mark is None and _is_comment(header[place])
            if 2 <= len(found) <= columns and _are_names(found, columns, commented):
                above = _over_units(header[place - 1], found, columns, delimiter) if place else None
                if above is not None:
                    return above
                units = _units(header[place + 1], found, mark) if place + 1 < len(header) else []
                filled = tuple(found) + ("",) * (columns - len(found))
                return filled, tuple(units) + ("",) * (columns - len(units)) if units else ()
    described = _described(header, columns)
    return (described if any(described) else ("",) * columns), ()


def _split(line: str, delimiter: str | None) -> list[tuple[str | None, list[str]]]:
    """(mark, fields) of a header line by the marks that may part its names."""
    plain = _TITLE.sub("", line.strip().lstrip("#%!;/\\|").strip(), count=1)
    joined = re.sub(r"\s+(?=[(\[])", "", plain)
    marks = dict.fromkeys((delimiter, ",", "\t", None))
    return [(m, [word.strip().strip("\"'") for word in (plain if m else joined).split(m)]) for m in marks]


def _over_units(line: str, units: list[str], columns: int, delimiter: str | None) -> _Names | None:
    """The names in `line`, where what stands below them are their units (`Angstrom` is both)."""
    for mark, found in _split(line, delimiter):
        if len(found) == len(units) and _are_names(found, columns, mark is None and _is_comment(line)):
            roles = [column_role(name) for name in found]
            if "wavelength" in roles and _is_unit(_bare(units[roles.index("wavelength")])):
                empty = ("",) * (columns - len(found))
                return tuple(found) + empty, tuple(map(_bare, units)) + empty
    return None


def _units(line: str, names: list[str], mark: str | None) -> list[str]:
    """The units in the line below the names, where the wavelength's is one; else nothing."""
    roles = [column_role(name) for name in names]
    if "wavelength" not in roles:
        return []
    place = roles.index("wavelength")
    words = [_bare(word) for word in line.strip().lstrip("#%!;/\\|").strip().split(mark)]
    if place < len(words) and (len(words) == len(names) or place == 0) and _is_unit(words[place]):
        return words if len(words) == len(names) else words[:1]
    return []


def _is_unit(word: str) -> bool:
    """A unit of wavelength; `M dwarf` below the names says nothing of metres."""
    return word.lower() not in ("m", "mm", "cm") and angstroms_per(word) is not None


def _bare(unit: str) -> str:
    return "" if unit.strip(" -\"'") == "" else unit.strip().strip("\"'()[]").strip()


def _check_names(header: list[str], columns: int, delimiter: str | None, file: str) -> None:
    """Refuse a table whose columns have names, none of them that of a wavelength: its first column is none."""
    for line in reversed(header):
        for mark, found in _split(line, delimiter):
            if len(found) != columns or columns < 2 or not all(found):
                continue
            if any(
                name.lower() in _PROSE or _DONE.fullmatch(name.lower()) or _as_number(name) is not None
                for name in found
            ):
                continue
            told = [other_quantity(name) or (column_role(name) not in (None, "wavelength", "loglam")) for name in found]
            words = all(re.fullmatch(r"\S+(?:\s*[(\[].*)?", name) for name in found)
            plain = mark is not None and not _is_comment(line) and words
            sure = other_quantity(found[0]) and sum(told) >= 2
            if sure or (plain and not any(says_nothing(name) for name in found) and column_role(found[0]) != "loglam"):
                given = ", ".join(found)[:200]
                raise SpectrumReadError(
                    file, f"no column is named as a wavelength (columns: {given}); name it wavelength"
                )


def _are_names(found: list[str], columns: int, words: bool) -> bool:
    """Names of columns rather than a sentence; stricter where they are the words of a comment."""
    if any(name.lower() in _PROSE or _as_number(name or "x") is not None for name in found):
        return False
    roles = [column_role(name) for name in found]
    known = sum(role is not None for role in roles)
    if "wavelength" not in roles and "loglam" not in roles:
        return False
    if words and columns > 2:
        if known == len(found) or known >= 3:
            return True
        # One word that is not known makes no sentence: `wavelength sky flux`.
        spoken = any(_DONE.fullmatch(name.lower()) for name in found)
        return not spoken and len(found) >= 3 and any(flux_rank(name) < _COUNTS for name in found)
    return known >= 2 or len(found) == columns


_COUNTS = 5
"""`columns.flux_rank` of what is no flux, or one in counts."""


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
