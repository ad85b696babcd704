"""A spectrum as the page takes it: a JSON header, then Float32 arrays of wavelength, flux and error.

    uint32 LE length of the header · header, UTF-8 · zeros to a multiple of 4 bytes · wave[n] · flux[n] · sigma[n]

Native as read: observed frame, the file's own medium, nothing smoothed, bad pixels kept and said to be bad. Float32
places a wavelength to 0.0005 Å. A thumbnail is the same with at most 200 points: medians, so that spikes go.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from specvet.data.files import SelectionError, SpectrumFiles, failure
from specvet.review.listing import Listing
from specvet.spectra import Spectrum, choose_frame, says_simulated
from specvet.spectra.spectrum import zero_runs

THUMBNAIL_POINTS = 200

MOST_RANGES = 2_000
"""Masked stretches that a header lists; what has more is noisy in its mask, and the rest goes unshaded with a word."""

PARENTS = 3
"""Folders above a run in which a relative file is looked for, when run and data have moved together."""

_KEPT_FILES, _KEPT_BYTES = 4, 96 << 20

T = TypeVar("T")


class UnreadableError(RuntimeError):
    """A spectrum that cannot be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What is sent, and its ETag."""

    body: bytes
    packed: bytes
    """The same, gzip."""
    etag: str


class Spectra:
    """Spectra of a listing by place; keeps the last few hundred as they are sent. Any thread may use it."""

    def __init__(self, listing: Listing, kept: int = 256) -> None:
        self._listing = listing
        self._files = SpectrumFiles(kept=_KEPT_FILES, kept_bytes=_KEPT_BYTES)
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._payloads: OrderedDict[int, Payload] = OrderedDict()
        self._thumbnails: OrderedDict[int, tuple[dict[str, Any], bytes]] = OrderedDict()
        self._kept = kept

    def spectrum(self, i: int) -> Spectrum:
        """The spectrum of one place. Raises `UnreadableError`."""
        listing = self._listing
        file, row = listing.files[i], listing.rows[i]
        if listing.kind == "list" and i in listing.problems:
            raise UnreadableError(listing.problems[i])
        found = self._find(file)
        with self._reading:
            try:
                if i in listing.selections:
                    spectrum = _selected(found, listing.selections[i])
                else:
                    spectrum = self._files.row(found, row)
                    held = len(self._files.spectra(found))
            except (SelectionError, MemoryError) as e:
                raise UnreadableError(str(e)) from e
            except Exception as e:  # a reader may fail on anything that a file may hold
                raise UnreadableError(failure(e)) from e
        if listing.kind == "list":
            listing.learn(i, spectrum)
            listed = i in listing.selections or held == 1 or listing.files.count(file) > 1
            if not listed:
                more = f"the file holds {held} targets, and the list names one; a column row asks for the others"
                spectrum = spectrum.replace(warnings=(*spectrum.warnings, more))
        return spectrum

    def simulated(self, i: int) -> bool:
        """Whether a spectrum is SIMULATED, as far as the run, its file's head or a look at it say so."""
        listing = self._listing
        if listing.simulated[i] < 0:
            listing.simulated[i] = i not in listing.problems and says_simulated(self._find(listing.files[i]))
        return bool(listing.simulated[i])

    def payload(self, i: int) -> Payload:
        """One spectrum as it is sent. Raises `UnreadableError`."""
        return self._remembered(self._payloads, i, self._payload, self._kept)

    def thumbnails(self, places: Sequence[int]) -> bytes:
        """Several as they are sent; one that cannot be read has no points and says why."""
        made = [self._remembered(self._thumbnails, i, self._thumbnail, 20 * self._kept) for i in places]
        return _packed_header({"items": [header for header, _ in made]}) + b"".join(body for _, body in made)

    def _payload(self, i: int) -> Payload:
        return _payload(self._listing, i, self.spectrum(i))

    def _thumbnail(self, i: int) -> tuple[dict[str, Any], bytes]:
        header: dict[str, Any] = {"item": self._listing.items[i], "id": self._listing.ids[i], "n": 0}
        try:
            wave, flux = decimated(self.spectrum(i), THUMBNAIL_POINTS)
        except UnreadableError as e:
            return header | {"error": str(e)}, b""
        told = {"id": self._listing.ids[i], "n": wave.size, "simulated": self.simulated(i)}
        return header | told, _float32(wave) + _float32(flux)

    def _remembered(self, kept: OrderedDict[int, T], i: int, make: Callable[[int], T], most: int) -> T:
        with self._lock:
            if i in kept:
                kept.move_to_end(i)
                return kept[i]
        made = make(i)
        with self._lock:
            kept[i] = made
            while len(kept) > most:
                kept.popitem(last=False)
        return made

    def _find(self, file: str) -> str:
        run = self._listing.run
        if run is None or os.path.isabs(file):
            return file
        bases = [Path(), *run.resolve().parents[:PARENTS]]
        return next((str(p) for p in (base / file for base in bases) if p.is_file()), file)


def _selected(file: str, ids: tuple[tuple[str, str], ...]) -> Spectrum:
    """The target that a list chooses by its identifiers. Raises `SelectionError`."""
    from specvet.vetting.items import Item
    from specvet.vetting.source import Source

    return Source().select(Item(file, ids=ids))[0]


def _payload(listing: Listing, i: int, spectrum: Spectrum) -> Payload:
    sigma = spectrum.sigma
    if sigma is None:
        sigma = np.full(spectrum.n_pix, np.nan)
    arrays = b"".join(map(_float32, (spectrum.wavelength, spectrum.flux, sigma)))
    body = _packed_header(header(listing, i, spectrum)) + arrays
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return Payload(body, packer.compress(body) + packer.flush(), f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def header(listing: Listing, i: int, spectrum: Spectrum) -> dict[str, Any]:
    """What is said of one spectrum; see docs/review.md."""
    masked, warnings = _masked(spectrum), list(spectrum.warnings)
    if len(masked) > MOST_RANGES:
        warnings.append(f"only the first {MOST_RANGES:,} of {len(masked):,} masked stretches are shaded")
    given, looked = float(listing.z_given[i]), float(listing.look_z[i])
    stated = spectrum.redshift
    frame = choose_frame(spectrum, z=None if math.isnan(given) else given)
    if math.isnan(looked):
        looked = frame.z
    ra, dec = float(listing.ra[i]), float(listing.dec[i])
    return {
        "item": listing.items[i],
        "id": listing.ids[i] or spectrum.id,
        "file": listing.files[i],
        "row": listing.rows[i],
        "n": spectrum.n_pix,
        "medium": spectrum.medium,
        "unit": spectrum.flux_unit,
        "z": _finite(given if not math.isnan(given) else stated.value),
        "z_source": "the list" if not math.isnan(given) else stated.source,
        "z_warning": stated.warning if math.isnan(given) else "",
        "frame": spectrum.frame,
        "look_z": looked,
        "look_frame": frame.text,
        "snr": _finite(spectrum.snr),
        "survey": spectrum.survey,
        "ra": _finite(ra if not math.isnan(ra) else spectrum.ra),
        "dec": _finite(dec if not math.isnan(dec) else spectrum.dec),
        "joins": [[join.low, join.high, join.label] for join in spectrum.joins],
        "masked": masked[:MOST_RANGES],
        "meta": [list(pair) for pair in _meta(spectrum)],
        "warnings": warnings,
    }


def _meta(s: Spectrum) -> list[tuple[str, str]]:
    pairs = [
        ("survey", " ".join(filter(None, (s.survey, s.release)))),
        ("pipeline", " ".join(filter(None, (s.pipeline_class, s.pipeline_subclass)))),
        ("redshift error", "" if s.redshift.error is None else f"{s.redshift.error:.2g}"),
        ("flux", s.calibration),
        ("resolution", "" if s.resolution is None else f"{s.resolution:.0f}"),
        ("MJD", "" if s.mjd is None else f"{s.mjd:.1f}"),
        ("exposures", str(s.n_exposures) if s.n_exposures else ""),
        ("reduction", s.reduction),
        ("layout", s.layout),
        *s.ids.items(),
    ]
    return [(label, value) for label, value in pairs if value and value != "unknown"]


def _masked(spectrum: Spectrum) -> list[list[Any]]:
    """Stretches of pixels [first, last + 1, why] that are bad, and those that the survey flags and we trust."""
    finite = np.isfinite(spectrum.flux)
    found = _stretches(~finite, "no flux")
    if spectrum.ivar is not None:
        found += _stretches(finite & ~spectrum.good, "no weight (ivar 0)")
    else:
        found += _stretches(finite & zero_runs(spectrum.flux), "a gap filled with zeros")
    if spectrum.mask is not None:
        found += _stretches(spectrum.good & (spectrum.mask != 0), "flagged by the survey")
    return sorted(found)


def _stretches(where: NDArray[np.bool_], why: str) -> list[list[Any]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(np.int8)))
    return [[int(a), int(b), why] for a, b in edges.reshape(-1, 2)]


def decimated(spectrum: Spectrum, points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wavelength and median flux of at most `points` groups of good pixels that follow each other."""
    good = spectrum.good
    wave, flux = spectrum.wavelength[good], spectrum.flux[good]
    if wave.size <= points:
        return wave, flux
    size = math.ceil(wave.size / points)
    whole = wave.size // size * size
    w, f = wave[:whole].reshape(-1, size).mean(1), np.median(flux[:whole].reshape(-1, size), axis=1)
    if whole < wave.size:
        w, f = np.append(w, wave[whole:].mean()), np.append(f, np.median(flux[whole:]))
    return w, f


def _float32(values: NDArray[np.float64]) -> bytes:
    """Little-endian; what Float32 cannot hold is NaN."""
    with np.errstate(over="ignore"):
        out = values.astype("<f4")
    out[~np.isfinite(out)] = np.nan
    return out.tobytes()


def _packed_header(header: dict[str, Any]) -> bytes:
    text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
    head = struct.pack("<I", len(text)) + text
    return head + bytes(-len(head) % 4)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
