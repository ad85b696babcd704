"""DESI spectra from SPARCL: found by TARGETID, taken by sparcl_id, and compared with what was asked for.

TARGETIDs repeat: one may have several spectra, and `specid` need not be unique; so every record is joined by its
`sparcl_id`, whatever the order in which it comes. Each spectrum becomes a file of its own in specvet's layout,
`sparcl/DESI-DR1/ab/<sparcl_id>.fits`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, TypeVar

from specvet.catalogue.getting.asks import Ask, AskError, whole, word
from specvet.catalogue.getting.folder import Folder, Got, not_got, now
from specvet.catalogue.getting.line import Kind, NotGotError
from specvet.catalogue.getting.running import Outcome, Told
from specvet.catalogue.getting.sparcl_client import TIMEOUT, SparclClient
from specvet.records import file_hash
from specvet.spectra import SpectrumReadError, from_record, read, write

RELEASE = "DESI-DR1"
ASKED_AT_ONCE, TAKEN_AT_ONCE = 200, 50
"""TARGETIDs in one question; spectra in one answer, some 25 MB."""
T = TypeVar("T")


def from_text(text: str, release: str = RELEASE) -> Ask:
    """The ask of a TARGETID. Raises `AskError`."""
    target = str(whole(text.rsplit("/", 1)[-1], "targetid"))
    return Ask("sparcl", target, text, (("targetid", target),), release=release)


def get_sparcl(
    asks: Sequence[Ask],
    folder: Folder,
    url: str,
    *,
    timeout: float = TIMEOUT,
    tell: Told = lambda done, total: None,
    stop: threading.Event | None = None,
    wait: Callable[[float], object] | None = None,
) -> Outcome:
    """Get all spectra that SPARCL has of these targets (of one data set) into `folder`, and write its list.

    `timeout` in seconds; `wait` waits so many seconds before the service is asked again. Raises OSError for the disk.
    """
    earlier: dict[str, list[Got]] = {}
    for got in folder.known.values():
        if got.survey == "sparcl" and got.there:
            earlier.setdefault(got.key.rsplit(" ", 1)[0], []).append(got)
    found: dict[str, list[Got]] = {}
    fetched = size = 0
    given_up = ""
    try:
        with SparclClient(url, timeout=timeout, stop=stop, wait=wait) as client:
            for batch in _batches(asks, ASKED_AT_ONCE):
                for page in _pages(client, folder, batch, found):
                    taken = client.take(list(page), batch[0].release)
                    made = folder.record(_written(folder, page[key], key, taken.get(key), url) for key in page)
                    for got in made:
                        of_ask = found[got.key.rsplit(" ", 1)[0]]
                        of_ask[:] = [got if old.key == got.key else old for old in of_ask]
                    fetched, size = fetched + len(taken), size + sum(got.bytes for got in made)
                tell(len(found), len(asks))
    except NotGotError as error:
        given_up = str(error)
        for ask in asks:
            settled = [got for got in found.get(ask.key) or earlier.get(ask.key, []) if got.there or got.problem]
            found[ask.key] = settled or folder.record([not_got(ask, error.kind, given_up)])
    finally:
        folder.write_list()
    return Outcome(tuple(got for ask in asks for got in found[ask.key]), fetched, size, given_up)


def _pages(
    client: SparclClient, folder: Folder, batch: Sequence[Ask], found: dict[str, list[Got]]
) -> Iterator[dict[str, Ask]]:
    """What of a batch is not in the folder, by sparcl_id, in pages; fills `found` with what is known of all of it."""
    records = client.find([int(ask.id) for ask in batch], batch[0].release)
    of_target: dict[str, list[str]] = {}
    for key, record in records.items():
        of_target.setdefault(str(record["targetid"]), []).append(key)
    folder.expect(f"{ask.key} {key}".strip() for ask in batch for key in of_target.get(ask.id, [""]))
    missing: dict[str, Ask] = {}
    for ask in batch:
        keys = of_target.get(ask.id, [])
        found[ask.key] = [_known(folder, ask, key) for key in keys]
        if keys:
            folder.forget(ask.key)  # that there was none, of an earlier session
        else:
            problem = f"{client.url} has no spectrum of TARGETID {ask.id} in {ask.release}"
            found[ask.key] = folder.record([not_got(ask, Kind.ABSENT, problem)])
        missing |= {key: ask for key, got in zip(keys, found[ask.key], strict=False) if not folder.same(got)}
    for page in _batches(missing.items(), TAKEN_AT_ONCE):
        yield dict(page)


def _batches(items: Iterable[T], n: int) -> Iterator[list[T]]:
    every = list(items)
    yield from (every[i : i + n] for i in range(0, len(every), n))


def _known(folder: Folder, ask: Ask, sparcl_id: str) -> Got:
    key = f"{ask.key} {sparcl_id}"
    return folder.known.get(key) or Got(key, ask.id, ask.asked, ask.survey, ask.release)


def _written(folder: Folder, ask: Ask, sparcl_id: str, record: Mapping[str, Any] | None, url: str) -> Got:
    """Write one record as a file and read it back; what is wrong with it becomes its problem."""
    base = replace(_known(folder, ask, sparcl_id), when=now(), address=f"{url}/api/spectras/", file="", problem="")
    if record is None:
        problem = f"SPARCL lists sparcl_id {sparcl_id} and does not hand it out, asked twice"
        return replace(base, kind=Kind.ABSENT, problem=problem)
    try:
        # What a service calls its spectra becomes the name of a file here.
        name = word(sparcl_id, "sparcl_id")
        place = f"sparcl/{word(ask.release, 'release')}/{name[:2]}/{name}.fits"
    except AskError as error:
        return replace(base, kind=Kind.WRONG, problem=f"{url} sent what is no id of a spectrum: {error}")
    file = folder.path / PurePosixPath(place)
    try:
        spectrum = from_record(record, file=place)
        if (own := spectrum.ids.get("targetid")) != ask.id:
            return replace(base, kind=Kind.WRONG, problem=f"sparcl_id {sparcl_id} is TARGETID {own}, not {ask.id}")
        file.parent.mkdir(parents=True, exist_ok=True)
        write(spectrum, file)
        (back,) = read(file)
    except (SpectrumReadError, ValueError, TypeError) as error:
        return replace(base, kind=Kind.DAMAGED, problem=f"sparcl_id {sparcl_id}: {error}")
    size = file.stat().st_size
    return replace(base, kind="", file=place, row=back.row, bytes=size, sha256=file_hash(file))
