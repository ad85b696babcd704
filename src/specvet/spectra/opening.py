"""Opens what a caller hands in: a path, bytes or an open file become one seekable stream of plain bytes.

Nothing here knows a survey. It refuses what cannot be a file (folders, pipes, devices), reads no more than
`MAX_BYTES`, and unpacks gzip, bzip2 and xz by their magic bytes, never by suffix.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from specvet.spectra.errors import SpectrumReadError

MAX_BYTES = 2 * 1024**3
"""Most bytes that are read into memory from a compressed file, bytes or an open file."""

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


def _bounded(stream: IO[Any], file: str, what: str) -> io.BytesIO:
    """All that `stream` gives, in memory, up to `MAX_BYTES`."""
    out = io.BytesIO()
    while True:
        block = stream.read(_CHUNK)
        if isinstance(block, str):
            raise SpectrumReadError(file, "the file is open as text; open it in binary mode ('rb')")
        if not block:
            break
        out.write(block)
        if out.tell() > MAX_BYTES:
            raise SpectrumReadError(file, f"{what} gives more than {MAX_BYTES} bytes; unpack or cut the file first")
    out.seek(0)
    return out


def _unpacked(opened: Opened, depth: int = 0) -> Opened:
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
            plain = _bounded(packed, opened.file, kind)
    except EOFError:
        raise SpectrumReadError(opened.file, f"the {kind} stream is truncated; download it again") from None
    except (OSError, zlib.error, lzma.LZMAError) as error:
        raise SpectrumReadError(opened.file, f"the {kind} stream is damaged ({error}); download it again") from None
    size = plain.getbuffer().nbytes
    if size == 0:
        raise SpectrumReadError(opened.file, f"empty: the {kind} stream holds 0 bytes; download it again")
    return _unpacked(Opened(plain, size, opened.file, opened.path), depth + 1)


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
    if isinstance(source, bytes | bytearray | memoryview):
        stream: BinaryIO = io.BytesIO(source)
        size = memoryview(source).nbytes
        if size == 0:
            raise SpectrumReadError(file, "empty: 0 bytes; download it again")
        yield _unpacked(Opened(stream, size, file, None))
    elif isinstance(source, str | os.PathLike):
        size = _checked_size(source, file)
        if size == 0:
            raise SpectrumReadError(file, "empty file (0 bytes); download it again")
        with _open(source, file) as stream:
            yield _unpacked(Opened(stream, size, file, Path(os.fsdecode(source))))
    elif hasattr(source, "read"):
        try:
            buffer = _bounded(cast(BinaryIO, source), file, "the open file")
        except (OSError, ValueError) as error:
            if isinstance(error, SpectrumReadError):
                raise
            raise SpectrumReadError(file, f"cannot be read ({_reason(error)}); is it closed?") from None
        size = buffer.getbuffer().nbytes
        if size == 0:
            raise SpectrumReadError(file, "empty: 0 bytes left to read; seek(0) first")
        yield _unpacked(Opened(buffer, size, file, _origin(source)))
    else:
        raise SpectrumReadError(
            file, f"cannot read a {type(source).__name__}; give a path, bytes, an open binary file or an HDUList"
        )
