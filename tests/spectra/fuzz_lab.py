"""What `read` and `exposures` promise of any bytes whatever, checked on one file. For tests and the fuzzer."""

from __future__ import annotations

import dataclasses
import re
import traceback
import warnings
from collections.abc import Callable

import numpy as np

from specvet.spectra import Spectrum, SpectrumReadError, exposures, read
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import measure
from specvet.views import COMPACT_STYLE, full_view

LONGEST_MESSAGE = 2000
"""Characters; a message is read by a person."""

LOOKED_AT = 3
"""Spectra of one file that are measured and drawn."""


class BrokenPromiseError(AssertionError):
    """A promise that a file broke; `signature` is the same for the same fault."""

    def __init__(self, signature: str, details: str = "") -> None:
        super().__init__(f"{signature}\n{details}" if details else signature)
        self.signature = signature


def outcome(data: bytes) -> str:
    """What becomes of a file: `N spectra, layout …`, or `refused: …` with the message.

    Raises `BrokenPromiseError` where `read` or `exposures` raise anything but `SpectrumReadError`, warn, give something
    else when asked again, or give spectra that cannot be measured and drawn.
    """
    said = _said(read, data)
    _said(exposures, data)
    return said


def unforeseen(message: str) -> str:
    """The kind of exception behind a message of last resort, `IndexError: …`; empty for any other message."""
    found = re.search(r"cannot be read \((\w+: .*)\); the file is probably damaged", message, re.DOTALL)
    return found[1] if found else ""


def _said(reader: Callable[..., list[Spectrum]], data: bytes) -> str:
    name = reader.__name__
    first, message = _once(reader, data)
    second, again = _once(reader, data)
    if message != again or len(first) != len(second):
        raise BrokenPromiseError(f"{name} gives something else the second time", f"{message!r}\n{again!r}")
    if message:
        if not 10 < len(message) < LONGEST_MESSAGE:
            what = f"{name}: a message that is too {'long' if len(message) > 10 else 'short'}: {message[:12]}"
            raise BrokenPromiseError(what, message[:3000])
        return f"refused: {message}"
    for number, (spectrum, other) in enumerate(zip(first, second, strict=True)):
        if name == "read" and spectrum.row != number:
            raise BrokenPromiseError("row is not the place in the file", f"{spectrum.row} at {number}")
        check(spectrum)
        if not same(spectrum, other):
            raise BrokenPromiseError(f"{name} gives something else the second time", repr(spectrum))
    for spectrum in first[:LOOKED_AT]:
        looked_at(spectrum)
    if name == "read" and not first:
        raise BrokenPromiseError("read gives no spectrum and no error")
    return f"{len(first)} spectra, layout {first[0].layout}" if first else "nothing"


def _once(reader: Callable[..., list[Spectrum]], data: bytes) -> tuple[list[Spectrum], str]:
    kept = bytes(data)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found, message = reader(data), ""
        except SpectrumReadError as error:
            found, message = [], str(error)
        except BaseException as error:
            raise BrokenPromiseError(where(error), traceback.format_exc()) from None
    if heard:
        first = heard[0]
        raise BrokenPromiseError(f"a warning leaks: {first.category.__name__} at {first.filename}:{first.lineno}")
    if kept != data:
        raise BrokenPromiseError("the bytes of the file were changed")
    return found, message


def check(s: Spectrum) -> None:
    """The promises of `Spectrum`, field by field."""

    def promise(kept: bool, what: str) -> None:
        if not kept:
            raise BrokenPromiseError(f"{s.layout}: {what}", repr(s))

    for name in ("wavelength", "flux", "ivar", "mask"):
        array = getattr(s, name)
        if array is None:
            continue
        promise(type(array) is np.ndarray, f"{name} is a {type(array).__name__}")
        wanted = np.dtype(np.int64 if name == "mask" else np.float64)
        promise(array.dtype == wanted and array.dtype.isnative, f"{name} has dtype {array.dtype}")
        promise(array.shape == (s.n_pix,), f"{name} has shape {array.shape}")
    promise(s.n_pix >= 2, "fewer than two pixels")
    promise(bool(np.isfinite(s.wavelength).all() and (s.wavelength > 0).all()), "wavelengths not finite or not > 0")
    promise(bool((np.diff(s.wavelength) > 0).all()), "wavelengths do not increase strictly")
    if s.ivar is not None:
        promise(bool((np.isfinite(s.ivar) & (s.ivar >= 0)).all()), "ivar is not finite or negative")
        promise(not bool(s.ivar[~np.isfinite(s.flux)].any()), "ivar is not 0 where the flux is not finite")
    texts = ("flux_unit", "frame", "pipeline_class", "pipeline_subclass", "id", "survey", "release", "reduction")
    for name in (*texts, "layout", "file"):
        promise(type(getattr(s, name)) is str, f"{name} is a {type(getattr(s, name)).__name__}")
    promise(s.medium in ("air", "vacuum", "unknown"), f"medium is {s.medium!r}")
    promise(s.calibration in ("absolute", "relative", "normalised", "unknown"), f"calibration is {s.calibration!r}")
    promise(all(type(k) is str and type(v) is str for k, v in s.ids.items()), "ids are not all strings")
    numbers = [("redshift", s.redshift.value), ("redshift error", s.redshift.error)]
    numbers += [(name, getattr(s, name)) for name in ("mjd", "ra", "dec", "resolution")]
    for name, value in numbers:
        promise(value is None or (type(value) is float and bool(np.isfinite(value))), f"{name} is no finite number")
    promise(type(s.row) is int and type(s.n_exposures) is int, "row or n_exposures is no int")
    promise(all(type(w) is str and w for w in s.warnings), "a warning is no text")
    promise(all(j.low <= j.high for j in s.joins), "a join ends before it begins")


def looked_at(s: Spectrum) -> None:
    """Measures every built-in index of a spectrum and draws it; anything but a `ValueError` breaks the promise."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for what, use in _USES.items():
            try:
                use(s)
            except ValueError:
                continue
            except Exception as error:
                raise BrokenPromiseError(f"{what}: {where(error)}", traceback.format_exc()) from None
    if heard:
        first = heard[0]
        place = f"{first.filename}:{first.lineno}"
        raise BrokenPromiseError(f"a warning leaks: {first.category.__name__} at {place}", str(first.message))


_USES: dict[str, Callable[[Spectrum], object]] = {
    "repr": repr,
    "snr": lambda s: s.snr,
    "good": lambda s: s.good,
    "sigma": lambda s: s.sigma,
    "hash": lambda s: s.content_hash,
    "measure": lambda s: measure(BUILTIN_INDICES, s, BUILTIN_INDICES),
    "view": lambda s: full_view(s, style=COMPACT_STYLE).png,
}


def same(a: object, b: object) -> bool:
    """Whether two arrays, spectra or other things are the same, NaN where NaN is."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, Spectrum) and isinstance(b, Spectrum):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return bool(a == b)


def where(error: BaseException) -> str:
    """The kind of an exception and the last line of ours that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "specvet" in f.filename] or list(frames)
    last = ours[-1]
    return f"{type(error).__name__} at {last.filename.rpartition('specvet/')[2]}:{last.name}"
