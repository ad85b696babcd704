"""Opens what a caller hands in: a path, bytes or an open file become one seekable stream of plain bytes.

Nothing here knows a survey. It refuses what cannot be a file (folders, pipes, devices), reads no more than
`MAX_BYTES`, and unpacks gzip, bzip2 and xz by their magic bytes, never by suffix. What grows beyond `MAX_IN_MEMORY`
lies in a temporary file, so that a packed file costs disk, not memory.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from specvet.spectra.errors import SpectrumReadError

MAX_BYTES = 2 * 1024**3
"""Most bytes that a compressed or an open file may give."""

MAX_IN_MEMORY = 64 * 1024**2
"""Bytes of a compressed or an open file that are held in memory; more go to a temporary file."""

MAX_TEXT_BYTES = 64 * 1024**2
"""A text spectrum of more bytes is something else; its lines and numbers cost some ten times as much memory."""

_BINARY = (b"SIMPLE  =", b"PK", b"PAR1", b"\x89HDF", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
"""What may be larger than a text: FITS, zip, Parquet, HDF5, and what is packed once more."""

_CHUNK = 1 << 20
_PACKED: tuple[tuple[bytes, str, Callable[[BinaryIO], Any]], ...] = (
    (b"\x1f\x8b", "gzip", lambda stream: gzip.GzipFile(fileobj=stream)),
    (b"BZh", "bzip2", bz2.BZ2File),
    (b"\xfd7zXZ", "xz", lzma.LZMAFile),
)


@dataclass(frozen=True)
class Opened:
    """A seekable stream with its length in bytes and, where it lies on disk, its path."""

    stream: BinaryIO
    size: int
    file: str
    path: Path | None

    def head(self, n: int) -> bytes:
        """The first `n` bytes."""
        self.stream.seek(0)
        out = self.stream.read(n)
        self.stream.seek(0)
        return out

    def everything(self, limit: int, what: str) -> bytes:
        """All bytes, or an error where there are more than `limit`."""
        if self.size > limit:
            raise SpectrumReadError(self.file, f"{self.size} bytes are too many for {what} (limit {limit})")
        self.stream.seek(0)
        return self.stream.read(limit + 1)


def _checked_size(path: str | os.PathLike[str], file: str) -> int:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise SpectrumReadError(file, "no such file; check the path") from None
    except NotADirectoryError:
        raise SpectrumReadError(file, "no such file: a part of the path is not a folder") from None
    except (OSError, ValueError) as error:
        raise SpectrumReadError(file, f"cannot be opened ({_reason(error)}); check the path") from None
    if stat.S_ISDIR(status.st_mode):
        raise SpectrumReadError(file, "is a directory; give one of the files in it")
    if not stat.S_ISREG(status.st_mode):
        raise SpectrumReadError(file, "is not a regular file (a pipe, socket or device); save it to a file first")
    return status.st_size


def _open(path: str | os.PathLike[str], file: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except PermissionError:
        raise SpectrumReadError(file, "permission denied; make it readable (chmod u+r)") from None
    except OSError as error:
        raise SpectrumReadError(file, f"cannot be opened ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _bounded(stream: IO[Any], file: str, what: str, stack: ExitStack) -> tuple[BinaryIO, int]:
    """All that `stream` gives, and how many bytes; in a file that ends with `stack` where it is much.

    A stream that is neither FITS nor another binary format ends at the size of a text, `MAX_TEXT_BYTES`.
    """
    out: BinaryIO = io.BytesIO()
    size, limit = 0, MAX_BYTES
    while True:
        block = stream.read(_CHUNK)
        if isinstance(block, str):
            raise SpectrumReadError(file, "the file is open as text; open it in binary mode ('rb')")
        if not block:
            break
        if size == 0 and not block.startswith(_BINARY):
            limit = min(MAX_BYTES, MAX_TEXT_BYTES)
        size += len(block)
        if size > limit:
            kind = "" if limit == MAX_BYTES else " of what is no FITS, NPZ or Parquet file"
            raise SpectrumReadError(file, f"{what} gives more than {limit} bytes{kind}; unpack or cut the file first")
        if size > MAX_IN_MEMORY and isinstance(out, io.BytesIO):
            out = _on_disk(out, stack)
        out.write(block)
    if not isinstance(out, io.BytesIO):
        out.flush()
        # astropy wants a file that is open for reading only.
        out = stack.enter_context(open(out.name, "rb"))  # noqa: SIM115
    out.seek(0)
    return out, size


def _on_disk(memory: io.BytesIO, stack: ExitStack) -> BinaryIO:
    """A temporary file with what is in memory so far; it goes when `stack` ends."""
    handle, name = tempfile.mkstemp(prefix="specvet-")
    stack.callback(_removed, name)
    os.close(handle)
    out = stack.enter_context(open(name, "wb"))  # noqa: SIM115
    out.write(memory.getbuffer())
    return out


def _removed(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)


def _unpacked(opened: Opened, stack: ExitStack, depth: int = 0) -> Opened:
    """The same stream, unpacked while its magic bytes say that it is packed (twice at most)."""
    head = opened.head(8)
    packing = next(((name, opener) for magic, name, opener in _PACKED if head.startswith(magic)), None)
    if packing is None:
        return opened
    kind, opener = packing
    if depth == 2:
        raise SpectrumReadError(opened.file, "packed more than twice; unpack it first")
    try:
        with opener(opened.stream) as packed:
            plain, size = _bounded(packed, opened.file, kind, stack)
    except EOFError:
        raise SpectrumReadError(opened.file, f"the {kind} stream is truncated; download it again") from None
    except (OSError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            problem = f"no room in {tempfile.gettempdir()} to unpack it; unpack it yourself, or set TMPDIR"
            raise SpectrumReadError(opened.file, problem) from None
        raise SpectrumReadError(opened.file, f"the {kind} stream is damaged ({error}); download it again") from None
    if size == 0:
        raise SpectrumReadError(opened.file, f"empty: the {kind} stream holds 0 bytes; download it again")
    return _unpacked(Opened(plain, size, opened.file, opened.path), stack, depth + 1)


def _origin(source: object) -> Path | None:
    """Where an open file lies on disk, if it says so."""
    name = getattr(source, "name", None)
    return Path(name) if isinstance(name, str) and name and os.path.isfile(name) else None


def label(source: object, name: str | None) -> str:
    """What messages and `Spectrum.file` call the source: `name`, the path as written, or the open file's own name."""
    if name is not None:
        return name
    if isinstance(source, str | os.PathLike):
        return os.fsdecode(source)
    own = getattr(source, "name", "")
    return own if isinstance(own, str) else ""


@contextmanager
def opened(source: object, name: str | None = None) -> Iterator[Opened]:
    """Yield the plain bytes of a path, bytes or open binary file; closes only what it opened itself.

    Raises `SpectrumReadError` for everything that is not a readable, non-empty file.
    """
    file = label(source, name)
    with ExitStack() as stack:
        if isinstance(source, bytes | bytearray | memoryview):
            stream: BinaryIO = io.BytesIO(source)
            size = memoryview(source).nbytes
            if size == 0:
                raise SpectrumReadError(file, "empty: 0 bytes; download it again")
            yield _unpacked(Opened(stream, size, file, None), stack)
        elif isinstance(source, str | os.PathLike):
            size = _checked_size(source, file)
            if size == 0:
                raise SpectrumReadError(file, "empty file (0 bytes); download it again")
            stream = stack.enter_context(_open(source, file))
            yield _unpacked(Opened(stream, size, file, Path(os.fsdecode(source))), stack)
        elif hasattr(source, "read"):
            try:
                stream, size = _bounded(cast(BinaryIO, source), file, "the open file", stack)
            except (OSError, ValueError) as error:
                if isinstance(error, SpectrumReadError):
                    raise
                raise SpectrumReadError(file, f"cannot be read ({_reason(error)}); is it closed?") from None
            if size == 0:
                raise SpectrumReadError(file, "empty: 0 bytes left to read; seek(0) first")
            yield _unpacked(Opened(stream, size, file, _origin(source)), stack)
        else:
            raise SpectrumReadError(
                file, f"cannot read a {type(source).__name__}; give a path, bytes, an open binary file or an HDUList"
            )
