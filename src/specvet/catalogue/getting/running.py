"""`get`: spectra of SDSS, DESI or LAMOST, file by file, into a folder that knows what became of each.

A file is asked for once, whatever number of its targets are wanted. What lies there and is right is not asked for
again; what is damaged is. A service that does not answer several times in a row is left alone, and what was not asked
for says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

from specvet.catalogue.getting import lamost
from specvet.catalogue.getting.asks import Ask, AskError
from specvet.catalogue.getting.checking import called, check_table, is_packed, rows_of, spectra_of
from specvet.catalogue.getting.folder import Folder, Got, not_got, now
from specvet.catalogue.getting.line import Came, Kind, Line, NotGotError
from specvet.records import file_hash
from specvet.spectra import Spectrum

CONNECTIONS = 4
TIMEOUT = 30.0
"""Seconds without a byte."""
IN_A_ROW = 5
"""Files in a row for which a service does not answer, before it is left alone."""
_NO_SERVICE = (Kind.UNREACHABLE, Kind.REFUSED, Kind.PAGE)

Told = Callable[[int, int], None]
"""Hears (spectra settled, spectra asked for)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call of `get` did, in the order of its asks."""

    found: tuple[Got, ...]
    fetched: int
    """Files that came over the net."""
    bytes: int
    given_up: str = ""
    """Why the service was left alone; empty where it was not."""

    @property
    def there(self) -> int:
        return sum(got.there for got in self.found)


def files_of(asks: Sequence[Ask]) -> list[list[Ask]]:
    """The asks by file, in the order of each file's first."""
    files: dict[tuple[str, ...], list[Ask]] = {}
    for ask in asks:
        files.setdefault(ask.paths, []).append(ask)
    return list(files.values())


def get(
    asks: Sequence[Ask],
    folder: Folder,
    base: str,
    *,
    token: str = "",
    connections: int = CONNECTIONS,
    timeout: float = TIMEOUT,
    tell: Told = lambda done, total: None,
    stop: threading.Event | None = None,
    wait: Callable[[float], None] | None = None,
) -> Outcome:
    """Get what is asked for into `folder` from the service at `base`, and write its list.

    `wait` waits so many seconds before the service is asked again. Raises OSError for the disk.
    """
    stop, over = stop or threading.Event(), threading.Event()
    found: dict[str, Got] = {}
    fetched = size = failures = 0
    given_up = ""
    folder.expect(ask.key for ask in asks)
    left = iter(files_of(asks))
    try:
        with Line(base, connections=connections, timeout=timeout, stop=over, token=token, wait=wait) as line:
            job = _Job(folder, line)
            pool = ThreadPoolExecutor(connections)
            try:
                running: set[Future[_Settled]] = set()
                while True:
                    if stop.is_set():
                        over.set()
                    if not over.is_set():
                        running |= {
                            pool.submit(job.file, file) for file in islice(left, 2 * connections - len(running))
                        }
                    if not running:
                        break
                    done, running = wait_for(running, timeout=0.2, return_when=FIRST_COMPLETED)
                    for settled in (future.result() for future in done):
                        if settled.failed is not Kind.STOPPED:
                            found |= {got.key: got for got in settled.found}
                        fetched, size = fetched + (settled.bytes > 0), size + settled.bytes
                        if settled.failed in _NO_SERVICE:
                            failures += 1
                        elif settled.bytes or settled.failed not in (None, Kind.STOPPED):
                            failures = 0
                        if failures >= IN_A_ROW and not given_up:
                            given_up = settled.found[0].problem
                            over.set()
                    tell(len(found), len(asks))
            finally:
                over.set()
                line.abort()
                pool.shutdown(wait=True, cancel_futures=True)
        why = f"the service had stopped answering: {given_up}" if given_up else "the command was stopped"
        for ask in asks:
            if ask.key not in found:
                found[ask.key] = not_got(ask, Kind.STOPPED, f"not got: {why}")
    finally:
        done_now = [found[ask.key] for ask in asks if ask.key in found]
        # What was not asked for must not hide that an earlier session has it.
        folder.record(g for g in done_now if g.kind == Kind.STOPPED and not _was_there(folder, g.key))
        folder.write_list()
    return Outcome(tuple(folder.known[ask.key] for ask in asks), fetched, size, given_up)


def _was_there(folder: Folder, key: str) -> bool:
    before = folder.known.get(key)
    return before is not None and before.there


@dataclass(frozen=True, slots=True)
class _Settled:
    """What became of the asks of one file."""

    found: list[Got]
    bytes: int = 0
    failed: Kind | None = None


class _Job:
    """One file after another, in any thread."""

    def __init__(self, folder: Folder, line: Line) -> None:
        self._folder, self._line = folder, line

    def file(self, asks: list[Ask]) -> _Settled:
        if (there := self._there(asks)) is not None:
            return there
        try:
            return self._fetched(asks)
        except NotGotError as failure:
            if failure.kind is Kind.STOPPED:
                return _Settled([not_got(ask, failure.kind, str(failure)) for ask in asks], failed=failure.kind)
            problem = self._line.unsaid(str(failure))
            if asks[0].survey == "lamost" and failure.kind in (Kind.REFUSED, Kind.PAGE):
                problem += f"; {lamost.token_hint(self._line.has_token)}"
            return _Settled(
                self._folder.record(not_got(ask, failure.kind, problem) for ask in asks), failed=failure.kind
            )

    def _there(self, asks: list[Ask]) -> _Settled | None:
        """Asks whose file lies in the folder and is right; None where one is missing."""
        known = [self._folder.known.get(ask.key) for ask in asks]
        files = {got.file: got for got in known if got is not None and got.there}
        if files and not all(self._folder.same(got) for got in files.values()):
            return None
        if len(files) == 1 and all(got and (got.there or got.kind == Kind.ABSENT) for got in known):
            return self._completed(asks, [got for got in known if got is not None])
        lies = [path for path in asks[0].paths if (self._folder.path / PurePosixPath(path)).is_file()]
        for place in files or (lies if asks[0].survey != "lamost" else ()):
            file = self._folder.path / PurePosixPath(place)
            try:
                rows = rows_of(spectra_of(file, place), asks)
            except (NotGotError, OSError):
                continue
            if rows:
                came = Came(files[place].address if place in files else "", file.stat().st_size)
                return self._completed(asks, self._got(asks, rows, place, file_hash(file), came, ""))
        return None

    def _completed(self, asks: list[Ask], found: list[Got]) -> _Settled:
        """The asks of a file that lies there, once what belongs beside it has been asked for."""
        size, failed = 0, None
        if not all((self._folder.path / PurePosixPath(path)).is_file() for path in asks[0].beside):
            note, size, failed = self._beside(asks)
            found = [replace(got, problem=note) if got.there else got for got in found]
        if found != [self._folder.known.get(got.key) for got in found]:
            found = self._folder.record(found)
        return _Settled(found, size, failed)

    def _fetched(self, asks: list[Ask]) -> _Settled:
        ask = asks[0]
        part = self._folder.part(ask.paths[0])
        spectra: list[Spectrum] = []

        def look(file: Path) -> None:
            spectra[:] = spectra_of(part, ask.paths[0])

        try:
            path, came = self._first(ask, part, look)
            rows, unsure = rows_of(spectra, asks), ""
            if not rows and ask.survey == "lamost":
                one, unsure = lamost.unnumbered(spectra, ask)
                rows = {ask.key: one} if one is not None else {}
            if not rows:
                aside = self._folder.put_aside(part, path if ask.survey != "lamost" else f"{ask.id}.fits")
                raise NotGotError(Kind.WRONG, f"{came.address} is {called(spectra)}, not {ask.id}; kept as {aside}")
            place = path if ask.survey != "lamost" else self._place(ask, rows[ask.key], part)
            sha = file_hash(part)
            self._folder.put(part, place)
        finally:
            part.unlink(missing_ok=True)
        note, more, _ = self._beside(asks)
        found = self._folder.record(self._got(asks, rows, place, sha, came, note or unsure))
        return _Settled(found, came.bytes + more)

    def _first(self, ask: Ask, part: Path, look: Callable[[Path], None]) -> tuple[str, Came]:
        """The first of its paths that the archive has. Raises `NotGotError` of the last."""
        absent: list[str] = []
        for path in ask.paths:
            try:
                return path, self._line.fetch(path, part, look, raw=ask.survey == "lamost")
            except NotGotError as failure:
                if failure.kind is not Kind.ABSENT:
                    raise
                absent.append(path)
        tried = f"{self._line.base}/{absent[0]}" + (f" (nor at {len(absent) - 1} other places)" if absent[1:] else "")
        raise NotGotError(Kind.ABSENT, f"not in the archive: {tried}")

    def _beside(self, asks: list[Ask]) -> tuple[str, int, Kind | None]:
        """Get the files that belong beside it: what did not come, bytes that came, and the kind of the failure."""
        notes: list[str] = []
        size, failed = 0, None
        targets = {int(ask.id) for ask in asks if ask.beside}
        for path in asks[0].beside:
            name, part = PurePosixPath(path).name, self._folder.part(path)
            try:
                came = self._line.fetch(path, part, partial(check_table, name=name, targets=targets))
                self._folder.put(part, path)
                size += came.bytes
            except NotGotError as failure:
                failed = failure.kind
                notes.append(f"{name} did not come, so that class and redshift are unknown: {failure}")
            finally:
                part.unlink(missing_ok=True)
        return "; ".join(notes), size, failed

    def _place(self, ask: Ask, spectrum: Spectrum, part: Path) -> str:
        medium = "/medspectrum/" in ask.paths[0]
        try:
            return lamost.place(spectrum.ids, ask.release, packed=is_packed(part), medium=medium)
        except AskError as error:
            raise NotGotError(Kind.DAMAGED, f"its header does not say where it belongs: {error}") from None

    @staticmethod
    def _got(asks: list[Ask], rows: dict[str, Spectrum], place: str, sha: str, came: Came, note: str) -> list[Got]:
        """Records of the asks of one file that is there; of those that are not in it, that it has not got them."""
        made = []
        for ask in asks:
            base = Got(ask.key, ask.id, ask.asked, ask.survey, ask.release, address=came.address, when=now())
            if ask.key in rows:
                row = rows[ask.key].row
                made.append(replace(base, file=place, row=row, bytes=came.bytes, sha256=sha, problem=note))
            else:
                made.append(replace(base, kind=Kind.ABSENT, problem=f"{ask.id} is not in {place}"))
        return made
