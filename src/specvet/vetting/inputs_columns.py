"""What the columns of a list mean, and how one of its rows becomes an `Item`.

Names count without regard to case. A list says where its spectra are by a column of paths, or by a survey's own
identifiers (see `specvet.vetting.inputs_surveys`); the rest is optional:

| meaning | names |
|---|---|
| path | path, file, filename, filepath, file_path, file_name, spec_path, spec_file, spectrum, fits, fits_file |
| id | id, object_id, objid, name, object, designation, obsid, specobjid, specid, targetid, source_id, catalogid |
| row | row, row_index: which target of the file, counted from 0 |
| ra, dec | ra, raj2000, ra_deg, target_ra, plug_ra, ra_obs (dec likewise): degrees |
| z | z, redshift: a redshift of your own, applied as given |
| Gaia | gaia_dr3, gaia_dr3_source_id, dr3_source_id, gaia_source_id, gaia_id, source_id: Gaia DR3 source id |

A `z` that comes with z_err, zerr, zwarn or zwarning beside it is a pipeline's, not yours: it is left to the rule that
protects against a pipeline calling a cataclysmic variable a quasar, unless `--z-column` names it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice

from specvet.data.errors import InputError
from specvet.vetting.inputs_surveys import SURVEYS, Places, RowError, Survey, Tree
from specvet.vetting.items import Item

PATH = (
    "path", "file", "filename", "filepath", "file_path", "file_name", "spec_path", "spec_file", "spectrum", "fits",
    "fits_file",
)  # fmt: skip
ID = (
    "id", "object_id", "objid", "name", "object", "designation", "obsid", "specobjid", "specid", "targetid",
    "source_id", "catalogid",
)  # fmt: skip
ROW = ("row", "row_index")
RA = ("ra", "raj2000", "_raj2000", "ra_deg", "target_ra", "plug_ra", "ra_obs")
DEC = ("dec", "dej2000", "_dej2000", "dec_deg", "target_dec", "plug_dec", "dec_obs")
Z = ("z", "redshift")
GAIA = ("gaia_dr3", "gaia_dr3_source_id", "dr3_source_id", "gaia_source_id", "gaia_id", "source_id")
PIPELINE_Z = ("z_err", "zerr", "zwarn", "zwarning")

NULLS = frozenset({"", "nan", "null", "none", "--", "n/a", "na", "<na>", "masked", "-"})


def where_spectra_are(columns: Sequence[str], path_column: str | None) -> int | Survey | None:
    """Index of the column of paths, or the survey whose identifiers are there, or None."""
    names = [c.strip().lower() for c in columns]
    if path_column is not None:
        wanted = path_column.strip().lower()
        return names.index(wanted) if wanted in names else None
    path = _first(names, PATH)
    if path is not None:
        return path
    return next((s for s in SURVEYS if all(_first(names, alias) is not None for alias in s.needs.values())), None)


def no_columns_message(path: str, columns: Sequence[str], path_column: str | None) -> str:
    """What to tell the user of a list that does not say where its spectra are."""
    found = ", ".join(columns[:30]) + (", …" if len(columns) > 30 else "")
    if path_column is not None:
        return f"{path}: there is no column {path_column!r} (--path-column); columns found: {found}"
    surveys = "; ".join(f"{'/'.join(s.needs)} ({s.name})" for s in SURVEYS)
    return (
        f"{path}: neither a spectrum nor a list of spectra. Columns found: {found}. A list needs a column path "
        f"(or file, filename, …; name another with --path-column), or one of: {surveys}"
    )


class RowReader:
    """Turns the rows of one list into items."""

    def __init__(
        self, path: str, columns: Sequence[str], root: str | None, path_column: str | None, z_column: str | None
    ) -> None:
        """Raises `InputError` when the columns do not say where spectra are, or repeat."""
        self.path = path
        self.notices: list[str] = []
        names = [c.strip().lower() for c in columns]
        where = where_spectra_are(columns, path_column)
        if where is None:
            raise InputError(no_columns_message(path, columns, path_column))
        _refuse_repeats(path, columns)
        roots = [root] if root is not None else list(dict.fromkeys([os.path.dirname(path), ""]))
        self._trees = [Tree(r) for r in roots]
        self.needed: list[int] = []
        """Indices of the columns that rows must bring, in the order of their values."""
        self._path: int | None = None
        self._survey: Survey | None = None
        self._survey_columns: dict[str, int] = {}
        if isinstance(where, Survey):
            self._survey = where
            for name, alias in {**where.needs, **where.may}.items():
                index = _first(names, alias)
                if index is not None:
                    self._survey_columns[name] = self._need(index)
        else:
            self._path = self._need(where)
        self._id = self._find(names, ID, exclude=where)
        self._row = self._find(names, ROW)
        self._ra, self._dec = self._find(names, RA), self._find(names, DEC)
        self._gaia = self._find(names, GAIA)
        self._surely_gaia = any(name in names for name in GAIA if name != "source_id")
        self._z = self._z_index(names, columns, z_column)

    def item(self, where: str, values: Sequence[str]) -> Item:
        """The item that one row asks for; `values` in the order of `needed`, `where` such as `line 17`."""
        try:
            file, problem = self._built(values) if self._survey else self._found(values)
            row, z = _row(self._value(values, self._row)), _redshift(self._value(values, self._z))
        except RowError as e:
            return self.problem(where, str(e), self._value(values, self._id))
        survey = self._survey
        id = self._value(values, self._id)
        if re.fullmatch(r"\d(\.\d+)?e\+\d+", id):
            self._notice(
                f"{self.path}: ids such as {id!r} are floating-point numbers and have lost digits; save as text"
            )
        return Item(
            file,
            row=row,
            id=id or None,
            ra=self._position(values, self._ra, hours=True),
            dec=self._position(values, self._dec, hours=False),
            z=z,
            problem=f"{self.path} {where}: {problem}" if problem else "",
            gaia=self._gaia_id(values),
            ids=tuple((name, values[self._survey_columns[name]]) for name in survey.ids) if survey else (),
        )

    def _position(self, values: Sequence[str], index: int | None, *, hours: bool) -> float | None:
        """Degrees; what is written but cannot be understood is left out with a notice."""
        text = self._value(values, index)
        degrees = _degrees(text, hours)
        if text and degrees is None:
            column = "ra" if hours else "dec"
            self._notice(f"{self.path}: {column} {text!r} is no position (degrees, or sexagesimal); left out")
        return degrees

    def _gaia_id(self, values: Sequence[str]) -> str:
        """Digits; what is none (a name of DR2, a number that has lost digits) is left out, with a notice unless the
        column is a mere source_id, which may be anybody's."""
        text = self._value(values, self._gaia)
        found = _GAIA_ID.fullmatch(text)
        if text and found is None and self._surely_gaia:
            self._notice(f"{self.path}: {text!r} is no Gaia DR3 source id (10 to 19 digits, saved as text); left out")
        return found[1] if found else ""

    def _notice(self, text: str) -> None:
        """Say a thing once; a long list may have it in every row."""
        kind = text.split("'", maxsplit=1)[0]
        if not any(notice.startswith(kind) for notice in self.notices):
            self.notices.append(text)

    def problem(self, where: str, what: str, id: str = "") -> Item:
        """The item of a row that cannot be used; its `file` is the place in the list, so that no two are one."""
        return Item(f"{self.path} {where}", id=id or None, problem=f"{self.path} {where}: {what}")

    def _built(self, values: Sequence[str]) -> tuple[str, str]:
        assert self._survey is not None
        row = {name: values[index] for name, index in self._survey_columns.items()}
        return _existing([(tree, self._survey.places(row, tree)) for tree in self._trees])

    def _found(self, values: Sequence[str]) -> tuple[str, str]:
        assert self._path is not None
        path = values[self._path]
        if path.lower() in NULLS:
            raise RowError("the path is empty")
        if "\0" in path or not _is_text(path):
            raise RowError("the path is not UTF-8 text; save the list as UTF-8")
        if re.match(r"(?i)(https?|ftp|s3)://", path):
            raise RowError(f"{path} is an address on the net; download it and list the file")
        path = os.path.expanduser(path)
        if os.path.isabs(path):
            return path, ""
        return _existing([(tree, [("", (path,))]) for tree in self._trees])

    def _need(self, index: int) -> int:
        if index not in self.needed:
            self.needed.append(index)
        return self.needed.index(index)

    def _find(self, names: list[str], alias: Iterable[str], exclude: object = None) -> int | None:
        index = _first([n if i != exclude else "" for i, n in enumerate(names)], alias)
        return None if index is None else self._need(index)

    def _z_index(self, names: list[str], columns: Sequence[str], z_column: str | None) -> int | None:
        if z_column is not None:
            if z_column.strip().lower() not in names:
                raise InputError(f"{self.path}: no column {z_column!r} (--z-column); found: {', '.join(columns)}")
            return self._need(names.index(z_column.strip().lower()))
        index = _first(names, Z)
        pipeline = _first(names, PIPELINE_Z)
        if index is not None and pipeline is not None:
            self.notices.append(
                f"{self.path}: column {columns[index]} is left out; {columns[pipeline]} makes it a pipeline's "
                f"redshift; --z-column {columns[index]} applies it as your own"
            )
            return None
        return None if index is None else self._need(index)

    @staticmethod
    def _value(values: Sequence[str], index: int | None) -> str:
        if index is None or values[index].lower() in NULLS:
            return ""
        text = values[index]
        return text if _is_text(text) else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _first(names: Sequence[str], alias: Iterable[str]) -> int | None:
    return next((names.index(a) for a in alias if a in names), None)


def _refuse_repeats(path: str, columns: Sequence[str]) -> None:
    names = [c.strip().lower() for c in columns]
    repeated = sorted({c.strip() for c, n in zip(columns, names, strict=True) if n and names.count(n) > 1})
    if repeated:
        raise InputError(f"{path}: column names repeat: {', '.join(repeated)}; rename one of each")


def _existing(candidates: list[tuple[Tree, Places]]) -> tuple[str, str]:
    """The first file that exists, else the most canonical place and what was tried."""
    for tree, places in candidates:
        if path := tree.find(places):
            return path, ""
    count = sum(len(names) for _, places in candidates for _, names in places)
    every = (t.path(folder, name) for t, places in candidates for folder, names in places for name in names)
    first, *others = islice(every, 4)
    tried = ", ".join(others) + (f" and {count - 4} more" if count > 4 else "")
    return first, f"no such file: {first}" + (f" (also tried {tried})" if tried else "")


def _row(text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"\d+(\.0*)?", text):
        raise RowError(f"row is {text!r}, a whole number counted from 0 is needed")
    return int(text.split(".", maxsplit=1)[0])


def _redshift(text: str) -> float | None:
    if not text:
        return None
    try:
        z = float(text)
    except ValueError:
        raise RowError(f"z is {text!r}, which is no number") from None
    if math.isnan(z) or z in (-9999.0, -999.0, -99.0):
        return None
    if not -1 < z < math.inf:
        raise RowError(f"z is {text}; a redshift is a finite number above -1")
    return z


_GAIA_ID = re.compile(r"(?:Gaia E?DR3 )?([1-9]\d{9,18})")
"""The smallest source ids have 10 digits, those of most stars 18 or 19."""

_SEXAGESIMAL = re.compile(r"\s*([+-]?)(\d{1,3})[:\shd°]+(\d{1,2})[:\sm'′]+(\d{1,2}(?:\.\d*)?)\s*(?:s|\"|″)?\s*")


def _degrees(text: str, hours: bool) -> float | None:
    """Degrees from a number in degrees, or from sexagesimal text (right ascension in hours)."""
    if found := _SEXAGESIMAL.fullmatch(text):
        sign, whole, minutes, seconds = found.groups()
        value = (int(whole) + int(minutes) / 60 + float(seconds) / 3600) * (15 if hours else 1)
        value = -value if sign == "-" else value
    else:
        try:
            value = float(text)
        except ValueError:
            return None
    return value if math.isfinite(value) and abs(value) <= 360 else None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
