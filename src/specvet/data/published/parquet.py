"""Rows of a published benchmark, read a few at a time, whichever of the published spellings they have.

`tools_kwargs` may be a struct or JSON text; arrays may be lists of 32- or 64-bit floats; a picture may have bytes or
a path; the system text may be missing; labels come in any case. What cannot be used is a `RowError`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specvet.data.errors import InputError
from specvet.data.published.layout import TASK_OF, TOOL_NAME
from specvet.data.published.sharegpt import RowError
from specvet.data.published.whole import picture_problem, suffix_of
from specvet.tools.zoom import MIN_POINTS

BATCH = 32
"""Rows held at once: some 4 MB of arrays and pictures."""

_COLUMNS = ("images", "data_source", "prompt", "reward_model", "extra_info")


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """One row that can be used."""

    task: str
    index: str
    name: str
    system: str | None
    prompt: str
    answer: Literal["YES", "NO"]
    wavelength: NDArray[np.float64]
    flux: NDArray[np.float64]
    redshift: float | None
    image: bytes
    suffix: str
    """Of the picture: `png` or `jpg`."""


def n_rows(file: Path) -> int:
    """How many rows a Parquet file has. Raises InputError for one that is none, or lacks columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            missing = [name for name in _COLUMNS if name not in opened.schema_arrow.names]
            count = int(opened.metadata.num_rows)
    except (OSError, pa.ArrowException) as e:
        raise InputError(f"{file}: cannot be read as Parquet ({e}); get it again") from None
    if missing:
        raise InputError(f"{file}: has no column {missing[0]!r}; the published ones have {', '.join(_COLUMNS)}")
    return count


def published_rows(file: Path) -> Iterator[Published | RowError]:
    """The rows of a file in their order; of one that cannot be used, why. Raises InputError for a damaged file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        # A buffer, so that a file of one row group is read in pieces and not whole.
        with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as opened:
            for batch in opened.iter_batches(batch_size=BATCH, columns=list(_COLUMNS), use_threads=False):
                columns = {name: batch.column(name) for name in _COLUMNS}
                for i in range(batch.num_rows):
                    try:
                        yield _row({name: column[i] for name, column in columns.items()}, file)
                    except RowError as e:
                        yield e
                    number += 1
    except (OSError, pa.ArrowException) as e:
        raise InputError(f"{file}: damaged after row {number:,} ({e}); get it again") from None


def _row(fields: Mapping[str, Any], file: Path) -> Published:
    name = ""
    try:
        extra = _members(fields["extra_info"])
        name = _text(extra.get("name")).strip()
        return _used(fields, extra, name, file)
    except RowError as e:
        e.name = name
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        NotImplementedError,
        RecursionError,
    ) as e:
        # of types that no published row has; Arrow's own errors are of these kinds, too
        problem = RowError(f"a row that cannot be read: {type(e).__name__}: {e}")
        problem.name = name
        raise problem from None


def _used(fields: Mapping[str, Any], extra: Mapping[str, Any], name: str, file: Path) -> Published:
    source = fields["data_source"].as_py()
    task = TASK_OF.get(str(source).lower())
    if task is None:
        raise RowError(f"an unknown data_source: {source}")
    index = _text(extra.get("index"))
    if not name:
        raise RowError("no name")
    try:
        f"{name}{index}".encode()
    except UnicodeEncodeError:
        raise RowError("half a character in its name or index, which no file can keep") from None
    system, prompt = _chat(fields["prompt"].as_py())
    reward = _members(fields["reward_model"])
    answer = _text(reward.get("ground_truth")).strip().upper()
    if answer not in ("YES", "NO"):
        raise RowError(f"a label that is neither YES nor NO: {answer}")
    wavelength, flux, redshift = _spectrum(extra.get("tools_kwargs"))
    image, suffix = _picture(fields["images"], file)
    word: Literal["YES", "NO"] = "YES" if answer == "YES" else "NO"
    return Published(task, index, name, system, prompt, word, wavelength, flux, redshift, image, suffix)


def _members(value: Any) -> dict[str, Any]:
    """The members of a struct, its arrays not yet turned into Python's lists; of JSON text, what it spells."""
    if value is None or isinstance(value, Mapping):
        return dict(value or {})
    if isinstance(value, str):
        return _json(value)
    if not value.is_valid:
        return {}
    if hasattr(value, "keys"):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118 - a struct iterates over its values
    return _json(value.as_py())


def _json(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _python(value: Any) -> Any:
    return value.as_py() if hasattr(value, "as_py") else value


def _text(value: Any) -> str:
    value = _python(value)
    return "" if value is None else str(value)


def _chat(messages: Any) -> tuple[str | None, str]:
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except ValueError:
            messages = None
    if not isinstance(messages, list) or not all(isinstance(m, Mapping) for m in messages):
        raise RowError("no prompt")
    said = [(m.get("role"), m.get("content")) for m in messages]
    user = [content for role, content in said if role == "user" and isinstance(content, str)]
    system = next((content for role, content in said if role == "system" and isinstance(content, str)), None)
    if len(user) != 1 or not user[0].strip():
        raise RowError("a prompt without one user's text")
    return system, user[0]


def _spectrum(tools: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], float | None]:
    arguments = _members(_members(_members(tools).get(TOOL_NAME)).get("create_kwargs"))
    wavelength, flux = (_array(arguments.get(key)) for key in ("wavelength", "flux"))
    if wavelength is None or flux is None:
        raise RowError("no spectrum")
    if wavelength.shape != flux.shape:
        raise RowError(f"wavelength and flux of different lengths: {wavelength.size} and {flux.size}")
    good = int(np.count_nonzero(np.isfinite(wavelength) & np.isfinite(flux)))
    if good < MIN_POINTS:
        raise RowError(f"too few finite points: {good} of {flux.size}")
    return wavelength, flux, _number(_python(arguments.get("redshift")))


def _number(value: Any) -> float | None:
    """A finite number, or text that spells one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None


def _array(value: Any) -> NDArray[np.float64] | None:
    values = getattr(value, "values", None)
    try:
        if values is not None and hasattr(values, "to_numpy"):  # of Arrow: no Python number is made of it
            array = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
        elif isinstance(value := _python(value), list):
            array = np.array([np.nan if x is None else x for x in value], dtype=np.float64)
        else:
            return None
    except (TypeError, ValueError, OverflowError):
        return None
    return array if array.ndim == 1 else None


def _picture(images: Any, file: Path) -> tuple[bytes, str]:
    found = images.as_py() or []
    if isinstance(found, Mapping):
        found = [found]
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], Mapping):
        raise RowError(f"not one picture: {len(found)}")
    data, path = found[0].get("bytes"), found[0].get("path")
    if not data and isinstance(path, str) and path:
        data = _beside(file, path)
    if not data or not isinstance(data, bytes):
        raise RowError(f"no picture: {path or 'neither bytes nor path'}")
    if problem := picture_problem(data):
        raise RowError(f"a picture that is no whole PNG or JPEG: {problem}")
    return data, suffix_of(data)


def _beside(file: Path, path: str) -> bytes:
    """The picture at a path that starts from the file's folder, or from one of the two above it."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        return b""
    for folder in (file.parent, *file.parent.parents[:2]):
        try:
            return (folder / path).read_bytes()
        except (OSError, ValueError):  # a zero byte in it is a ValueError
            continue
    return b""
