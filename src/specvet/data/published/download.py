"""Downloads a published set or model from the Hugging Face hub, by `huggingface_hub`, over plain HTTP.

The list of files is asked for once, at a revision that `main` is resolved to, and kept beside them; each file grows as
`NAME.part`, piece by piece as the line brings them, and is renamed when its size and hash are right. An interrupted
download goes on by Range where it stopped, at the same revision, though `main` may have moved. `HF_ENDPOINT`,
`HF_TOKEN` and `HF_HUB_OFFLINE` are honoured.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Event, Lock
from typing import Any, BinaryIO, Literal

from specvet.data.errors import InputError
from specvet.data.published.pins import Known, Pin, checked, write_pin
from specvet.data.published.streaming import Answer, answered
from specvet.records import write_atomic
from specvet.records.lock import FolderLock

LISTING, PIN = "listing.json", "pin.json"
WORKERS = 8
"""Files at once; a cold start has some 4,000 small ones."""
TRIES = 6
"""In a row without a byte, before a file is given up."""
_NO_HUB_SAYS = (ValueError, TypeError, LookupError, AttributeError)
"""What a library does with an answer that it cannot read."""
_NO_ADDRESS = ("TooManyRedirects", "InvalidURL", "UnsupportedProtocol")
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)

Kind = Literal["dataset", "model"]
_CALLED: dict[Kind, str] = {"dataset": "data set", "model": "model"}
_ELSEWHERE: dict[Kind, str] = {
    "dataset": "get a copy elsewhere (hf download --repo-type dataset …) and give its folder: --from FOLDER; or make a "
    "simulated set like it: specvet data simvi",
    "model": "get a copy elsewhere (hf download … --local-dir FOLDER) and give its folder: specvet models fetch FOLDER",
}

Told = Callable[[int, int], None]
"""Hears (bytes there, bytes in all)."""


class DownloadError(InputError):
    """A file that cannot be had; the message says why and what to do."""


def downloaded(
    dataset: str,
    folder: Path,
    wanted: Callable[[str], bool],
    *,
    pin: Pin | None = None,
    revision: str | None = None,
    verify: bool = False,
    told: Told | None = None,
    wait: Callable[[float], None] | None = None,
    kind: Kind = "dataset",
) -> str:
    """Get the files of a data set or model that are `wanted` (by path) into `folder`; returns the revision.

    Without `revision` it is the pin's, or that of a download begun here before, or what `main` is now. Files of the
    right size that were downloaded before are left; with `verify` only where their hash is right too. A pin is written
    to `pin.json` for files of which there is none. One process downloads into a folder at a time. `wait` waits so many
    seconds before the hub is asked again. Raises DownloadError, and RunLockedError where another process is at it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        return _downloaded(dataset, folder, wanted, pin, revision, verify, told, wait, kind)
    finally:
        lock.release()


def _downloaded(
    dataset: str,
    folder: Path,
    wanted: Callable[[str], bool],
    pin: Pin | None,
    revision: str | None,
    verify: bool,
    told: Told | None,
    wait: Callable[[float], None] | None,
    kind: Kind,
) -> str:
    if pin is not None and revision in (None, pin.revision):
        listing = pin
    else:
        pin = None
        listing = _listing(dataset, folder, revision, wait or time.sleep, kind)
    files = {path: known for path, known in listing.files.items() if wanted(path)}
    if not files:
        raise DownloadError(f"{dataset} at {listing.revision} holds none of the files that are expected of it")
    missing = [path for path, known in files.items() if not _is_there(folder / path, known, verify)]
    if missing:
        _get_all(dataset, listing.revision, folder, {path: files[path] for path in missing}, told, wait, kind)
    if pin is None and (missing or not (folder / PIN).is_file()):
        write_pin(folder / PIN, dataset, listing.revision, folder, list(files))
    return listing.revision


def kept_revision(folder: Path) -> str | None:
    """The revision of a download in a folder, finished or not; None where there is none."""
    listing = _kept(folder)
    return None if listing is None else listing.revision


def endpoint() -> str:
    """Where the hub is."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _hub(kind: Kind) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import huggingface_hub.utils
    except ModuleNotFoundError:
        raise DownloadError(
            f"downloading needs huggingface_hub: pip install 'specvet[data]'. Without it, {_ELSEWHERE[kind]}"
        ) from None
    hub: Any = huggingface_hub
    hub.utils.disable_progress_bars()  # ours tells of all files together
    hub.utils.logging.set_verbosity_error()
    return hub


def _listing(dataset: str, folder: Path, revision: str | None, wait: Callable[[float], None], kind: Kind) -> Pin:
    kept = _kept(folder)
    if kept is not None and revision in (None, kept.revision):
        return kept
    hub = _hub(kind)
    api = hub.HfApi(endpoint=endpoint())

    def ask() -> Pin:
        sha = api.repo_info(dataset, revision=revision or "main", repo_type=kind).sha
        checked(Pin(str(sha), {}), f"{dataset} at {endpoint()}")
        tree = api.list_repo_tree(dataset, repo_type=kind, revision=sha, recursive=True)
        files = {entry.path: _known(entry) for entry in tree if hasattr(entry, "blob_id")}
        return checked(Pin(str(sha), files), f"the list of files of {dataset} at {endpoint()}")

    found: Pin = _insisting(ask, f"{dataset} at {revision or 'main'}", wait, kind)
    fields = {path: asdict(known) for path, known in sorted(found.files.items())}
    content = {"dataset": dataset, "revision": found.revision, "files": fields}
    write_atomic(folder / LISTING, json.dumps(content, indent=1) + "\n")
    (folder / PIN).unlink(missing_ok=True)  # of another revision
    return found


def _known(entry: Any) -> Known:
    lfs = entry.lfs
    return Known(int(entry.size), None if lfs is None else str(lfs.sha256), None if lfs is not None else entry.blob_id)


def _kept(folder: Path) -> Pin | None:
    try:
        fields = json.loads((folder / LISTING).read_text(encoding="utf-8"))
        pin = Pin(str(fields["revision"]), {path: Known(**own) for path, own in fields["files"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return checked(pin, str(folder / LISTING))


def _is_there(file: Path, known: Known, verify: bool) -> bool:
    try:
        return file.stat().st_size == known.size and not (verify and known.problem_of(file))
    except OSError:
        return False


class _StoppedError(BaseException):
    """Another file has failed, or somebody has pressed Ctrl-C: files under way end where they are."""


class _Count:
    """Bytes that have come, of all files together."""

    def __init__(self, total: int, told: Told | None) -> None:
        self.done, self.total, self._told, self._lock = 0, total, told, Lock()
        self.stop = Event()

    def wait(self, seconds: float) -> None:
        """Wait, unless all is to stop."""
        if self.stop.wait(seconds):
            raise _StoppedError

    def add(self, n: int) -> None:
        if self.stop.is_set():
            raise _StoppedError
        with self._lock:
            self.done += n
            if self._told is not None:
                self._told(self.done, self.total)


def _get_all(
    dataset: str,
    revision: str,
    folder: Path,
    files: Mapping[str, Known],
    told: Told | None,
    wait: Callable[[float], None] | None,
    kind: Kind,
) -> None:
    hub = _hub(kind)
    count = _Count(sum(known.size for known in files.values()), told)
    with ThreadPoolExecutor(WORKERS) as pool:
        under_way = [
            pool.submit(_get, hub, dataset, revision, folder / path, path, known, count, wait or count.wait, kind)
            for path, known in files.items()
        ]
        try:
            for one in under_way:
                one.result()
        except BaseException:
            count.stop.set()
            for one in under_way:
                one.cancel()
            raise


def _get(
    hub: Any,
    dataset: str,
    revision: str,
    file: Path,
    path: str,
    known: Known,
    count: _Count,
    wait: Callable[[float], None],
    kind: Kind,
) -> None:
    """Get one file; what is there of it already is kept if all of it turns out right."""
    url = hub.hf_hub_url(dataset, path, repo_type=kind, revision=revision, endpoint=endpoint())
    headers = hub.utils.build_hf_headers(library_name="specvet")
    part = file.with_name(f"{file.name}.part")
    file.parent.mkdir(parents=True, exist_ok=True)
    if part.exists():
        if part.stat().st_size > known.size:
            part.unlink()
        else:
            count.add(part.stat().st_size)

    def go_on() -> None:
        with open(part, "ab", buffering=0) as stream:
            start = stream.seek(0, 2)
            if start < known.size or known.size == 0:
                with answered(hub, url, headers, start) as answer:
                    _append(stream, start, answer, known, count)

    problem = ""
    for _ in range(2):  # a part of something else may have lain there
        try:
            _insisting(go_on, f"{path} of {dataset}", wait, kind, lambda: part.stat().st_size if part.exists() else 0)
            problem = known.problem_of(part)
        except _OtherSizeError as e:
            problem = str(e)
        if not problem:
            os.replace(part, file)
            return
        count.add(-part.stat().st_size)
        part.unlink()
    raise DownloadError(
        f"{path} of {dataset} at {revision}: what {endpoint()} sends {problem}, twice; "
        f"try again later, or {_ELSEWHERE[kind]}"
    )


class _OtherSizeError(ValueError):
    """The hub's file is of another size than its list says."""


def _append(stream: BinaryIO, start: int, answer: Answer, known: Known, count: _Count) -> None:
    """Write the pieces as they come, each handed to the system at once."""
    if answer.total is not None and answer.total != known.size:
        raise _OtherSizeError(f"has {answer.total:,} bytes, {known.size:,} expected")
    at = answer.begins
    if at < start:  # all of it is sent again
        stream.truncate(at)
        count.add(at - start)
    for piece in answer.pieces:
        if at + len(piece) > known.size:
            raise _OtherSizeError(f"has more than the {known.size:,} bytes expected")
        stream.write(piece)
        at += len(piece)
        count.add(len(piece))
    if at < known.size:
        raise ConnectionError(f"the line ended after {at:,} of {known.size:,} bytes")


def _insisting(
    ask: Callable[[], Any],
    what: str,
    wait: Callable[[float], None],
    kind: Kind,
    so_far: Callable[[], int] = lambda: 0,
) -> Any:
    """What `ask` gives; asked again while the hub is busy or the line fails, up to `TRIES` times without progress."""
    tries, had = 0, so_far()
    while True:
        try:
            return ask()
        except (InputError, _OtherSizeError):
            raise
        except Exception as e:  # each version of the library has its own exceptions of the network
            status = getattr(getattr(e, "response", None), "status_code", None)
            if status is not None and status not in _TRANSIENT:
                raise _refused(what, status, e, kind) from e
            if type(e).__name__ == "OfflineModeIsEnabled":
                raise _unreachable(what, "HF_HUB_OFFLINE is set", kind) from e
            if isinstance(e, OSError) and e.filename is not None:
                raise  # of the disk, not of the line
            if isinstance(e, _NO_HUB_SAYS) or type(e).__name__ in _NO_ADDRESS:
                raise DownloadError(
                    f"{what}: {endpoint()} answers with what no hub says ({_first_line(e)}); is HF_ENDPOINT right, and "
                    "is no login page in between?"
                ) from e
            now = so_far()
            tries, had = (0, now) if now > had else (tries + 1, had)
            if tries >= TRIES or _no_hub(e):
                raise _unreachable(what, _first_line(e), kind) from e
            wait(min(2.0**tries, 30.0))


def _no_hub(error: Exception) -> bool:
    """Whether there is no way to the hub at all: no such host, or nobody listens."""
    said = str(error).lower()
    return any(
        words in said
        for words in ("name or service not known", "name resolution", "nodename nor servname", "connection refused")
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _unreachable(what: str, why: str, kind: Kind) -> DownloadError:
    return DownloadError(
        f"{what}: cannot be reached at {endpoint()} ({why}). The same command goes on where it stopped. Without a "
        f"network, {_ELSEWHERE[kind]}"
    )


def _refused(what: str, status: int, error: Exception, kind: Kind) -> DownloadError:
    if status in (401, 403):
        return DownloadError(f"{what}: {endpoint()} wants a token that may read it (HTTP {status}); set HF_TOKEN")
    if status == 404:
        return DownloadError(f"{what}: {endpoint()} has no such {_CALLED[kind]}, revision or file (HTTP 404)")
    if 300 <= status < 400:
        return DownloadError(f"{what}: {endpoint()} answered HTTP {status} without saying where; is HF_ENDPOINT right?")
    return DownloadError(f"{what}: {endpoint()} answered HTTP {status}: {_first_line(error)}")
