"""NPZ archives with named arrays: wavelength and flux, optionally ivar, mask, redshift (`npz`), as in SpecVI-Bench.

An array `about` may tell the rest, see `specvet.spectra.readers.npz_about`.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import Opened
from specvet.spectra.readers.building import as_float, build, ivar_of
from specvet.spectra.readers.columns import from_log10, in_angstrom, medium_in, roles, unit_in_name
from specvet.spectra.readers.npz_about import told as told_of
from specvet.spectra.readers.tidy import ID_NAMES, spectra_by_id
from specvet.spectra.readers.values import identifier, identifiers, is_magnitude, redshift, stem, text
from specvet.spectra.spectrum import Spectrum

MAX_NPZ_BYTES = 512 * 1024**2
"""Most bytes of all arrays of one archive: 8,000 LAMOST spectra with wavelengths and errors."""


_NO_HEADER = (SyntaxError, tokenize.TokenError)
"""What numpy raises for the header of an array that is no Python literal."""


def read_npz(plain: Opened) -> list[Spectrum]:
    """One entry a row of a 2-D flux, or one for a 1-D flux; wavelength is shared or has the shape of flux."""
    arrays = _arrays(plain)
    names = list(arrays)
    found = roles(names)
    if "flux" not in found or not ("wavelength" in found or "loglam" in found):
        raise SpectrumReadError(
            plain.file, f"needs arrays named wavelength and flux; it has: {', '.join(names)[:200] or 'none'}"
        )
    by_role: dict[str, Any] = {role: arrays[names[index]] for role, index in found.items()}
    notes: list[str] = []
    flux = np.atleast_2d(by_role["flux"])
    if flux.ndim != 2 or 0 in flux.shape or flux.dtype.kind not in "fiu":
        raise SpectrumReadError(
            plain.file, f"flux has shape {flux.shape} and type {flux.dtype}; numbers (n_pix,) expected"
        )
    if "wavelength" in by_role:
        name = names[found["wavelength"]]
        wavelength = in_angstrom(as_float(by_role["wavelength"]), unit_in_name(name), plain.file, notes)
        medium = medium_in(name.replace("_", " "))
    else:
        wavelength, medium = from_log10(by_role["loglam"], plain.file), "unknown"
    said = arrays.get("medium")
    if said is not None and said.dtype.kind == "U":
        medium = medium_in(str(said.reshape(-1)[0]))
    ivar = ivar_of(by_role)

    for role, values in by_role.items():
        if np.ndim(values) == 2 and len(values) != len(flux):
            raise SpectrumReadError(plain.file, f"{role} has {len(values)} rows, flux {len(flux)}; give each its own")

    def of_row(values: Any, row: int) -> Any:
        return None if values is None else values[row] if np.ndim(values) == 2 else values

    axis = by_role.get("wavelength", by_role.get("loglam"))
    told = {name: arrays[name] for name in ID_NAMES if name in arrays and arrays[name].ndim == 1}
    if flux.shape[0] == 1 and axis is not None and axis.ndim == 1 and (parts := spectra_by_id(told, axis)) is not None:
        return [
            build(
                plain.file,
                wavelength[rows],
                flux[0][rows],
                ivar=None if ivar is None else np.reshape(ivar, -1)[rows],
                mask=None if (mask := by_role.get("mask")) is None else np.reshape(mask, -1)[rows],
                warnings=notes,
                keep_dead=True,
                layout="npz",
                row=place,
                medium=medium,
                id=own,
                ids=identifiers(**{parts[0]: own}),
            )
            for place, (own, rows) in enumerate(parts[1])
        ]
    z_name = next((n for n in ("redshift", "z") if n in arrays and not is_magnitude(n, arrays)), "")
    id_name = next((n for n in ("id", "object", "targetid", "obsid", "name") if n in arrays), "")
    out = []
    for row in range(flux.shape[0]):
        own_id = identifier(_scalar(arrays.get(id_name), row))
        more = told_of(arrays.get("about"), row, flux.shape[0], plain.file)
        scale = 1.0 if more is None else more.pop("scale")
        errors = of_row(ivar, row)
        out.append(
            build(
                plain.file,
                of_row(wavelength, row),
                as_float(flux[row]) * scale if scale != 1.0 else flux[row],
                ivar=errors / scale**2 if errors is not None and scale != 1.0 else errors,
                mask=of_row(by_role.get("mask"), row),
                warnings=notes,
                keep_dead=flux.shape[0] > 1,
                layout="npz",
                row=row,
                medium=medium,
                redshift=redshift(_scalar(arrays.get(z_name), row), None, z_name),
                id=own_id or stem(plain.file),
                ids=identifiers(**{id_name: own_id} if id_name else {}),
            )
        )
        if more is not None:
            out[-1] = _with(out[-1], more)
    return out


def _with(spectrum: Spectrum, told: dict[str, Any]) -> Spectrum:
    """With what `about` tells; what the reader noticed itself stays, joins beyond the data do not."""
    notes = (*told.pop("warnings", ()), *spectrum.warnings)
    joins = tuple(j for j in told.pop("joins", ()) if j.high >= spectrum.wave_min and j.low <= spectrum.wave_max)
    return spectrum.replace(**told, joins=joins, warnings=tuple(dict.fromkeys(notes)))


def _scalar(values: Any, row: int) -> Any:
    """The value of a row: element `row`, or the only one."""
    if values is None:
        return None
    flat = np.asarray(values).reshape(-1)
    return flat[0] if flat.size == 1 else flat[row] if row < flat.size else None


def _arrays(plain: Opened) -> dict[str, Any]:
    """The arrays, keys in lower case; pickled objects are never loaded, and no more than `MAX_NPZ_BYTES` in all."""
    try:
        with zipfile.ZipFile(plain.stream) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            if not members:
                inside = text(", ".join(member.filename for member in archive.infolist())[:120]) or "nothing"
                raise SpectrumReadError(plain.file, f"a zip archive of {inside}, not an NPZ file; unpack it first")
            out: dict[str, Any] = {}
            total = 0
            for member in members:
                with archive.open(member) as stream:
                    total += _claimed_bytes(stream, member.filename)
                if total > MAX_NPZ_BYTES:
                    raise SpectrumReadError(plain.file, f"its arrays take more than {MAX_NPZ_BYTES} bytes; split it")
                with archive.open(member) as stream:
                    array = np.lib.format.read_array(stream, allow_pickle=False)
                out[member.filename.removesuffix(".npy").lower()] = array
            return out
    except SpectrumReadError:
        raise
    except ValueError as error:
        if "pickle" in str(error).lower() or "object" in str(error).lower():
            problem = "the archive holds Python objects (object arrays), which are not loaded; save plain arrays"
            raise SpectrumReadError(plain.file, problem) from None
        raise SpectrumReadError(plain.file, f"the NPZ archive is damaged ({error}); save it again") from None
    except (OSError, EOFError, zipfile.BadZipFile, KeyError, NotImplementedError, zlib.error, *_NO_HEADER) as error:
        raise SpectrumReadError(plain.file, f"the NPZ archive is damaged ({error}); save it again") from None


def _claimed_bytes(stream: IO[bytes], name: str) -> int:
    """What the header of an array claims: numpy asks for that much memory before it reads the first value."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"{name} has the unknown NPY version {version}")
    if dtype.hasobject:
        raise ValueError("object arrays")
    return int(np.prod(shape, dtype=object)) * max(1, dtype.itemsize)
