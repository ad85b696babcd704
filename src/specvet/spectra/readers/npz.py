"""NPZ archives with named arrays: wavelength and flux, optionally ivar, mask, redshift (`npz`), as in SpecVI-Bench."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import MAX_BYTES, Opened
from specvet.spectra.readers.building import as_float, build, ivar_from_sigma
from specvet.spectra.readers.columns import from_log10, in_angstrom, medium_in, roles, unit_in_name
from specvet.spectra.readers.values import identifier, identifiers, redshift, stem, text
from specvet.spectra.spectrum import Spectrum


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
    flux = np.atleast_2d(by_role["flux"])
    if flux.ndim != 2 or flux.dtype.kind not in "fiu":
        raise SpectrumReadError(
            plain.file, f"flux has shape {flux.shape} and type {flux.dtype}; numbers (n_pix,) expected"
        )
    if "wavelength" in by_role:
        name = names[found["wavelength"]]
        wavelength = in_angstrom(as_float(by_role["wavelength"]), unit_in_name(name), plain.file)
        medium = medium_in(name.replace("_", " "))
    else:
        wavelength, medium = from_log10(by_role["loglam"], plain.file), "unknown"
    said = arrays.get("medium")
    if said is not None and said.dtype.kind == "U":
        medium = medium_in(str(said.reshape(-1)[0]))
    ivar = by_role.get("ivar")
    if ivar is None and "sigma" in by_role:
        ivar = ivar_from_sigma(by_role["sigma"])
    elif ivar is None and "variance" in by_role:
        ivar = ivar_from_sigma(np.sqrt(np.maximum(as_float(by_role["variance"]), 0.0)))

    def of_row(values: Any, row: int) -> Any:
        return None if values is None else values[row] if np.ndim(values) == 2 else values

    z_name = next((n for n in ("redshift", "z") if n in arrays), "")
    id_name = next((n for n in ("id", "object", "targetid", "obsid", "name") if n in arrays), "")
    out = []
    for row in range(flux.shape[0]):
        own_id = identifier(_scalar(arrays.get(id_name), row))
        out.append(
            build(
                plain.file,
                of_row(wavelength, row),
                flux[row],
                ivar=of_row(ivar, row),
                mask=of_row(by_role.get("mask"), row),
                keep_dead=flux.shape[0] > 1,
                layout="npz",
                row=row,
                medium=medium,
                redshift=redshift(_scalar(arrays.get(z_name), row), None, z_name),
                id=own_id or stem(plain.file),
                ids=identifiers(**{id_name: own_id} if id_name else {}),
            )
        )
    return out


def _scalar(values: Any, row: int) -> Any:
    """The value of a row: element `row`, or the only one."""
    if values is None:
        return None
    flat = np.asarray(values).reshape(-1)
    return flat[0] if flat.size == 1 else flat[row] if row < flat.size else None


def _arrays(plain: Opened) -> dict[str, Any]:
    """All arrays, keys in lower case; pickled objects are never loaded."""
    data = plain.everything(MAX_BYTES, "an NPZ archive")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
        if not any(member.filename.endswith(".npy") for member in members):
            inside = text(", ".join(member.filename for member in members)[:120]) or "nothing"
            raise SpectrumReadError(plain.file, f"a zip archive of {inside}, not an NPZ file; unpack it first")
        if sum(member.file_size for member in members) > MAX_BYTES:
            raise SpectrumReadError(plain.file, f"the archive unpacks to more than {MAX_BYTES} bytes; split it")
        with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
            return {name.lower(): loaded[name] for name in loaded.files}
    except SpectrumReadError:
        raise
    except ValueError as error:
        if "pickle" in str(error).lower() or "object" in str(error).lower():
            problem = "the archive holds Python objects (object arrays), which are not loaded; save plain arrays"
            raise SpectrumReadError(plain.file, problem) from None
        raise SpectrumReadError(plain.file, f"the NPZ archive is damaged ({error}); save it again") from None
    except (OSError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise SpectrumReadError(plain.file, f"the NPZ archive is damaged ({error}); save it again") from None
