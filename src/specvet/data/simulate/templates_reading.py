"""Reads a folder of real spectra into templates; once, and from then on from a cache in the user's own folder."""

from __future__ import annotations

import hashlib
import os
import secrets
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from specvet.data.simulate.templates_cleaning import Template, cleaned
from specvet.data.simulate.templates_kinds import Measure, kinds_of, kinds_of_row
from specvet.data.simulate.templates_manifest import MANIFEST, RealFile, object_name, read_manifest

if TYPE_CHECKING:
    from specvet.spectra import Spectrum

_ONE_ROW = {"QSO template", "galaxy template"}
"""Sets of principal components, of which only the first is a spectrum."""


def read_templates(folder: str | Path, *, cache: str | Path | None = None) -> tuple[list[Template], dict[str, str]]:
    """The templates of all objects of a folder, held-out ones too, and those that make none (`path` → why).

    `cache` is a folder; by default `specvet` in the user's cache folder. It is keyed by the contents of the manifest,
    of all files that it names and of this code, so that nothing outdated is ever used. Raises ValueError without a
    manifest.
    """
    folder = Path(folder)
    files = read_manifest(folder)
    place = Path(cache) if cache is not None else cache_folder()
    kept = place / f"templates-{_key(folder, files)}.npz"
    with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):
        return _unpacked(kept)
    found = [one for file in files for one in _of_file(folder, file)]
    templates = [one for one in found if isinstance(one, Template)]
    refused = dict(one for one in found if not isinstance(one, Template))
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        place.mkdir(parents=True, exist_ok=True)
        _pack(kept, templates, refused)
    return templates, refused


def cache_folder() -> Path:
    """`specvet` in the user's cache folder (XDG_CACHE_HOME, or `.cache` at home)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specvet"


def _of_file(folder: Path, file: RealFile) -> Iterable[Template | tuple[str, str]]:
    from specvet.spectra import SpectrumReadError, read
    from specvet.spectra.lines import air_to_vacuum

    label = file.class_label.partition(":")[0].partition(" (")[0]
    several = label.startswith(("template set", "O, B, A"))
    if not several and not _may_seed(file):
        return
    try:
        spectra = read(folder / file.path)
    except (SpectrumReadError, OSError) as e:
        yield file.path, str(e)
        return
    if file.class_label in _ONE_ROW:
        spectra = spectra[:1]
    for spectrum in spectra:
        medium = spectrum.medium if spectrum.medium != "unknown" else file.medium or "unknown"
        if medium != "vacuum":
            vacuum = air_to_vacuum(spectrum.wavelength)
            # Half-way where nobody says: wrong by at most 0.9 Å.
            shift = 1.0 if medium == "air" else 0.5
            spectrum = spectrum.replace(  # noqa: PLW2901
                wavelength=spectrum.wavelength + shift * (vacuum - spectrum.wavelength), medium="vacuum"
            )
        z, measure = _at_rest(spectrum, file)
        if several:
            kinds, subtype = kinds_of_row(spectrum.id, measure), spectrum.id.partition(" ")[0]
        else:
            kinds, subtype = kinds_of(file.class_label, file.subclass, measure), file.subclass
        name = file.path if len(spectra) == 1 else f"{file.path}#{spectrum.id}"
        if not kinds:
            yield name, "its label does not say which kind it is"
            continue
        one = cleaned(spectrum, kinds, subtype, name, _object(file, spectrum, len(spectra)), z, file.class_label)
        yield one if isinstance(one, Template) else (name, one)


def _may_seed(file: RealFile) -> bool:
    """Whether its label can lead to a kind, however it measures; it saves reading the others."""
    labels = file.class_label, file.subclass
    return any(kinds_of(*labels, lambda _, v=value: v) for value in (-30.0, 0.5, 5.0))  # type: ignore[misc]


def _at_rest(spectrum: Spectrum, file: RealFile) -> tuple[float, Measure]:
    """The redshift that brings a spectrum to rest, and a measure of its line indices there.

    A survey's own where it states one; of a cataclysmic variable, whose lines are wide and whose catalogue states
    none, that of Hα and Hβ; 0 for a library, which is at rest, and for a standard star, whose lines are coarser than
    its velocity.
    """
    from specvet.spectra.index_table import BUILTIN_INDICES
    from specvet.spectra.indices import LineIndex, Meter
    from specvet.spectra.pixels import pixels_of

    # Windows of West et al. 2011, AJ 141, 97: those of the built-in Hα reach into the bands of an M star.
    narrow = LineIndex("ha_narrow", "Hα EW, narrow", (6557.61, 6571.61), ((6555.0, 6560.0), (6570.0, 6575.0)), "vacuum")
    indices = BUILTIN_INDICES | {"ha_narrow": narrow}

    def value(meter: Meter, key: str) -> float | None:
        return meter.measure((key,), indices)[key].value

    z = 0.0
    if spectrum.frame != "rest":
        stated = spectrum.redshift.value
        if stated is not None and not spectrum.redshift.warning and abs(stated) < 1.0:
            z = stated
        elif file.class_label == "CV":
            meter = Meter(pixels_of(spectrum, 0.0))
            shifts = [v for key in ("ha_velocity", "hb_velocity") if (v := value(meter, key)) is not None]
            shift = float(np.mean(shifts)) if shifts else 0.0
            z = shift / 299_792.458 if abs(shift) < 800.0 else 0.0
    meter = Meter(pixels_of(spectrum, z))
    return z, lambda key: value(meter, key)


def _object(file: RealFile, spectrum: Spectrum, rows: int) -> str:
    """The id of one star: its own name in a set that names its rows `K5III (120933)`, HD numbers being bare there."""
    if rows == 1:
        return file.object_id
    inside = spectrum.id.partition("(")[2].partition(")")[0]
    if inside:
        return object_name(f"HD {inside}" if inside.isdigit() else inside)
    return f"{file.path}#{spectrum.row}"


def _key(folder: Path, files: list[RealFile]) -> str:
    digest = hashlib.sha256()
    for code in sorted(Path(__file__).parent.glob("templates_*.py")):  # what made it, too: no version to forget
        digest.update(code.read_bytes())
    digest.update((folder / MANIFEST).read_bytes())
    for file in files:
        with suppress(OSError):
            digest.update(hashlib.sha256((folder / file.path).read_bytes()).digest())
    return digest.hexdigest()[:32]


def _pack(path: Path, templates: list[Template], refused: dict[str, str]) -> None:
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with temporary.open("wb") as file:
            np.savez(
                file,
                start=np.array([t.start for t in templates]),
                size=np.array([t.flux.size for t in templates]),
                flux=np.concatenate([np.zeros(0, np.float32), *(t.flux for t in templates)]),
                seen=np.concatenate([np.zeros(0, bool), *(t.seen for t in templates)]),
                words=words_of(templates),
                refused=np.array([[path, why] for path, why in refused.items()]).reshape(-1, 2),
            )
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _unpacked(path: Path) -> tuple[list[Template], dict[str, str]]:
    with np.load(path, allow_pickle=False) as kept:
        start, size, flux, seen = (kept[name] for name in ("start", "size", "flux", "seen"))
        words, refused = kept["words"].tolist(), kept["refused"].tolist()
    ends = np.cumsum(size)
    templates = [
        Template(int(start[i]), flux[end - n : end], seen[end - n : end], tuple(kinds.split()), *told)
        for i, (end, n, (kinds, *told)) in enumerate(zip(ends, size, words, strict=True))
    ]
    return templates, dict(refused)


def words_of(templates: Sequence[Template]) -> NDArray[np.str_]:
    """What a template is told in words, in the order of its fields; shape (n_templates, 6)."""
    told = [[" ".join(t.kinds), t.subtype, t.file, t.object_id, t.label, t.survey] for t in templates]
    return np.array(told, dtype=np.str_).reshape(-1, 6)
