"""`expand_inputs`: what a user points at (files, folders, globs, lists) becomes one `Item` a spectrum file or list row.

    spectra/                   every file below it, sorted; folders that loop through links are walked once
    'spectra/**/*.fits.gz'     a quoted glob
    star.fits                  one file
    candidates.csv             a list, recognised by its columns (see `specvet.vetting.inputs_columns`)
    @candidates.txt            a list, whatever it looks like

Whether a named file is a list or a spectrum is decided by its content; what could be both is a spectrum. Files found by
walking a folder or a glob are never taken for lists, so nothing is vetted twice. Hidden files and folders (leading dot)
and the run folders of specvet itself are passed over, and DESI's redrock catalogues beside the coadds that they are of,
which are read with them; everything else becomes an `Item`, if only to say what is wrong.
"""

from __future__ import annotations

import glob
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specvet.data.errors import InputError
from specvet.vetting.inputs_columns import RowReader
from specvet.vetting.inputs_listed import ListTable, Unrecognised
from specvet.vetting.inputs_tables import open_list
from specvet.vetting.items import Item


def one_line(error: Exception) -> str:
    """An exception's words on one line."""
    return " ".join(str(error).split()) or type(error).__name__


__all__ = ["InputError", "Inputs", "expand_inputs"]


def expand_inputs(
    inputs: Sequence[str],
    *,
    root: str | None = None,
    path_column: str | None = None,
    z_column: str | None = None,
    lists: bool = True,
) -> Inputs:
    """The items that `inputs` ask for; iterate over it as often as you like, always in the same order.

    Args:
        inputs: files, folders, globs and lists, as the user wrote them.
        root: folder that a list's relative paths and the paths built from survey columns start from; None tries the
            list's own folder, then the working directory.
        path_column: the list's column that holds paths; None looks for a usual name.
        z_column: the list's column that holds a redshift to be applied as given; None looks for a usual name.
        lists: whether lists are looked into; otherwise they are files like any other.

    Raises:
        InputError: nothing that could be vetted, or a list whose columns do not say where spectra are.
    """
    return Inputs(inputs, root=root, path_column=path_column, z_column=z_column, lists=lists)


class Inputs:
    """Items in a fixed order, and how many, where that is cheap to know. Made by `expand_inputs`."""

    def __init__(
        self,
        inputs: Sequence[str],
        *,
        root: str | None = None,
        path_column: str | None = None,
        z_column: str | None = None,
        lists: bool = True,
    ) -> None:
        if root is not None and not os.path.isdir(root):
            raise InputError(f"--root {root}: no such folder")
        self.notices: list[str] = []
        """What the user should be told, without its being an error."""
        self._root, self._path_column, self._z_column, self._lists = root, path_column, z_column, lists
        alone = len(inputs) == 1
        self._sources = [self._source(name, alone) for name in inputs]
        ones = [s.item for s in self._sources if isinstance(s, _One)]
        problems = [f"{item.file}: {item.problem}" for item in ones if item.problem]
        if len(problems) == len(inputs):
            raise InputError("\n".join(problems[:5]) or "no input: give files, folders, globs or lists")
        if path_column and not any(isinstance(s, _List) for s in self._sources):
            raise InputError(f"--path-column {path_column}: none of the inputs is a list with a column of that name")

    def __iter__(self) -> Iterator[Item]:
        for source in self._sources:
            yield from source

    @property
    def total(self) -> int | None:
        """How many items there are; None when only reading it all would tell."""
        counts = [source.count() for source in self._sources]
        known = [c for c in counts if c is not None]
        return sum(known) if len(known) == len(counts) else None

    def _source(self, name: str, alone: bool) -> _One | _Many | _List:
        forced = self._lists and name.startswith("@") and not os.path.lexists(name)
        path = name[1:] if forced else name
        if os.path.isdir(path):
            return _Many(path, self._found_in_folder(path))
        if not os.path.lexists(path):
            if not forced and glob.has_magic(path):
                found = self._found_by_glob(path)
                return _Many(path, found) if found else _One(Item(path, problem="no file matches this pattern"))
            if forced:
                raise InputError(f"{path}: no such list")
            return _One(Item(path, problem="no such file or folder"))
        item = file_item(path)
        if item.problem or not self._lists:
            return _One(item)
        table = open_list(path, path_column=self._path_column, root=self._root, forced=forced)
        if isinstance(table, ListTable):
            reader = RowReader(table.path, table.columns, self._root, self._path_column, self._z_column)
            self.notices += reader.notices
            reader.notices = self.notices  # so that what it notices in later rows is told too
            return _List(table, reader)
        if isinstance(table, Unrecognised) and (forced or (alone and not _reads_as_spectrum(path))):
            raise InputError(table.message)
        return _One(item)

    def _found_by_glob(self, pattern: str) -> list[Item]:
        items: dict[str, Item] = {}
        for path in sorted(glob.glob(pattern, recursive=True)):
            if not os.path.isdir(path):
                items[path] = file_item(path)
            elif "**" not in pattern:  # as the shell would have handed it over
                items.update((item.file, item) for item in self._found_in_folder(path))
        return list(items.values())

    def _found_in_folder(self, path: str) -> list[Item]:
        return list(_walk(path, set(), self.notices))


@dataclass(frozen=True)
class _One:
    item: Item

    def __iter__(self) -> Iterator[Item]:
        yield self.item

    def count(self) -> int:
        return 1


@dataclass(frozen=True)
class _Many:
    name: str
    items: list[Item]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def count(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class _List:
    table: ListTable
    reader: RowReader

    def __iter__(self) -> Iterator[Item]:
        n = 0
        try:
            for where, values in self.table.rows(self.reader.needed):
                yield self.reader.problem(where, values) if isinstance(values, str) else self.reader.item(where, values)
                n += 1
        except (EOFError, OSError, ValueError, TypeError, zlib.error) as e:  # truncated, or a page that was overwritten
            raise InputError(
                f"{self.table.path}: damaged after row {n:,} ({one_line(e)}); save the list again"
            ) from None

    def count(self) -> int | None:
        try:
            return self.table.count()
        except (EOFError, OSError, ValueError, TypeError, zlib.error):  # told when its rows are asked for
            return None


def file_item(path: str) -> Item:
    """One file as an item; what is no regular file, or has a name that cannot be kept as text, gets a problem."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        return Item(shown, problem="the file's name is not UTF-8; rename it")
    try:
        mode = os.stat(path).st_mode
    except OSError as e:
        what = "a link that leads nowhere" if os.path.islink(path) else (e.strerror or str(e))
        return Item(path, problem=what)
    # Opening a named pipe would wait for ever.
    return Item(path, problem="" if stat.S_ISREG(mode) else "a pipe, socket or device, not a file")


def _walk(folder: str, seen: set[tuple[int, int]], notices: list[str]) -> Iterator[Item]:
    try:
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda e: e.name)
    except OSError as e:
        yield Item(folder, problem=f"the folder cannot be read: {e.strerror}")
        return
    if {"run.db", "config.yaml"} <= {e.name for e in found}:
        notices.append(f"{folder}: passed over, it is a run folder of specvet")
        return
    beside = _catalogues_beside({e.name for e in found})
    if beside:
        notices.append(f"{folder}: redrock files passed over, {len(beside):,}: they are read with their coadds")
    for entry in found:
        if entry.name.startswith(".") or entry.name in beside:
            continue
        try:
            is_folder = entry.is_dir()
        except OSError:  # a link to itself, or into a folder that may not be read
            is_folder = False
        if is_folder:
            yield from _walk(entry.path, seen, notices)
        else:
            yield file_item(entry.path)


def _catalogues_beside(names: set[str]) -> set[str]:
    """Names of DESI's redrock (before: zbest) catalogues whose coadd or spectra have that name but for its start."""
    found = set()
    for name in names:
        kind, dash, rest = name.partition("-")
        if kind in ("redrock", "zbest") and any(f"{of}{dash}{rest}" in names for of in ("coadd", "spectra")):
            found.add(name)
    return found


def _reads_as_spectrum(path: str) -> bool:
    from specvet.spectra import SpectrumReadError, read

    try:
        return bool(read(path))
    except SpectrumReadError:
        return False
