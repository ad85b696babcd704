"""RealVI: the labelled real spectra of a folder as questions, to report by; never to learn from.

    make_realvi("../shared/spectra", "realvi")  →  realvi/realvi.jsonl, …, realvi/realvi_stats.json

The folder holds `manifest.csv` (see `specvet.data.simulate.templates_manifest`) and `labels.csv`: `path` and one column
a task with YES, NO, BORDERLINE (no sharp answer: reported apart), MODEL (a synthetic spectrum of the class) or nothing.

| file | what |
|---|---|
| `realvi.jsonl` | labels YES and NO |
| `realvi_borderline.jsonl` | labels BORDERLINE, without an answer |
| `realvi_model.jsonl` | labels MODEL, whose answer is YES |
| `realvi_stats.json` | counts by task, layout and split; what was left out and why |
| `spectra/` | the spectra, where they are copied or harmonised |
| `realvi_sources.csv` | which file each name is, where they are harmonised and names tell nothing |
| `facts.csv` | what each spectrum is, for those who analyse errors: name, kind, subtype, snr, survey |

`split` is `held-out` for the third of all objects that never seeds a simulation, and `seed` for the others: a model
that learnt from simulated spectra with templates has not seen the first. Epochs of one star share `object_id`. For
cross-validation, `fold` writes only the objects that simulations of that fold keep back, all as `held-out`.

In real files the class goes with the container. `harmonise` takes it away: every spectrum becomes wavelength (Å,
vacuum) and flux (median 1) of one and the same grid, without errors, redshift, position or telling name, and what does
not cover that grid is left out.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from specvet.data.making import made_once
from specvet.data.simulate.templates_manifest import MANIFEST, Fold, RealFile, held_out, read_manifest
from specvet.records import file_hash
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum, SpectrumReadError, read
from specvet.spectra.lines import air_to_vacuum

LABELS = "labels.csv"
CLASS_LABEL = "class_label"
"""Column of labels.csv for people."""

VERSION = 2
"""Of the files that are written."""

FILES = {"YES": "realvi", "NO": "realvi", "BORDERLINE": "realvi_borderline", "MODEL": "realvi_model"}
"""Label → question file, without its suffix."""

COVERAGE = (3850.0, 7400.0)
"""Å in vacuum, that harmonised spectra share: what nearly every library and survey covers."""

STEP = 1e-4
"""Of the harmonised grid in log10, as LAMOST and SDSS sample."""

GAP = 20.0
"""Å without a good pixel, from which on it is a gap and not sampling: models have a point every 10 Å between lines."""

MIN_COVERED = 0.75
"""Share of the harmonised grid that must be seen, and both of its ends; gaps inside are bridged by straight lines. In
old LAMOST spectra the whole join of the arms is missing."""

FACTS = "facts.csv"

SOURCES = "realvi_sources.csv"
"""Which file each neutral name is; only where spectra are harmonised."""

Spectra = Literal["where they are", "copied", "harmonised"]


@dataclass(slots=True)
class RealVI:
    """What was made."""

    folder: Path
    counts: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """By (task, layout, split, label)."""
    left_out: dict[str, str] = field(default_factory=dict)
    """File → why, of files with at least one label."""
    notes: list[str] = field(default_factory=list)
    """What else the tables hold that makes no question."""

    def stats(self) -> dict[str, Any]:
        """The counts as JSON: task → split → layout → label → n, and what was left out."""
        by_task: dict[str, Any] = {}
        for (task, layout, split, label), n in sorted(self.counts.items()):
            by_task.setdefault(task, {}).setdefault(split, {}).setdefault(layout, {})[label] = n
        return {"questions": self.counts.total(), "tasks": by_task, "left_out": self.left_out, "notes": self.notes}


def make_realvi(
    source: str | Path, out: str | Path, spectra: Spectra = "where they are", fold: Fold | None = None
) -> RealVI:
    """Write the question files into `out`, or find there what the same call left; then its counts are read back.

    Spectra stay where they are (paths then lead from `out` to `source`), or come along as `copied` files or
    `harmonised`, so that `out` can be moved. Files of several spectra are left out and counted: their label is of the
    file, not of a row. `fold` leaves all objects out but its own. Raises ValueError for a folder without manifest or
    labels and for a fold that keeps none back, FileExistsError where `out` holds something else.
    """
    source, out = Path(source), Path(out)
    if fold is not None and fold.held == 0:
        raise ValueError("this fold keeps no object back, so there is none to ask about; leave it out to ask about all")
    files = {file.path: file for file in read_manifest(source)}
    notes: list[str] = []
    labels = read_labels(source, notes)
    if strays := [path for path in labels if path not in files]:
        notes.append(f"{LABELS}: {len(strays)} labelled files do not stand in {MANIFEST}, such as {strays[0]}")
    if fold is not None:
        of_fold = {path: given for path, given in labels.items() if path in files and fold.holds(files[path].object_id)}
        notes.append(f"fold {fold}: {len(of_fold)} of {len(labels)} labelled files are of objects that it keeps back")
        labels = of_fold
    settings = {
        "realvi": VERSION,
        "spectra": spectra,
        "manifest_sha256": file_hash(source / MANIFEST),
        "labels_sha256": file_hash(source / LABELS),
    }
    if fold is not None:
        settings["fold"] = str(fold)
    if spectra == "where they are":
        settings["source"] = os.path.relpath(source.resolve(), out.resolve())
    made_once(out, settings, lambda folder: _write(source, folder, out, files, labels, spectra, notes, fold))
    told = json.loads((out / "realvi_stats.json").read_text(encoding="utf-8"))
    counts = Counter(
        {
            (task, layout, split, label): n
            for task, splits in told["tasks"].items()
            for split, layouts in splits.items()
            for layout, by_label in layouts.items()
            for label, n in by_label.items()
        }
    )
    return RealVI(out, counts, told["left_out"], notes)


def read_labels(folder: Path, notes: list[str] | None = None) -> dict[str, dict[str, str]]:
    """Path → task → label, labels that are empty left out. Raises ValueError: file, line and what is wrong.

    Rows that say the same of a file again, and columns that mean nothing here, are told in `notes`.
    """
    from specvet.tasks import builtin_tasks

    file = folder / LABELS
    if not file.is_file():
        raise ValueError(f"{folder}: has no {LABELS}; give a row a file: path, and a column a task with YES or NO")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file}: is not UTF-8 text; save it as CSV in UTF-8") from None
    found: dict[str, dict[str, str]] = {}
    again: list[str] = []
    reader = csv.DictReader(io.StringIO(text, newline=""))
    columns = [*(reader.fieldnames or ())]
    tasks = [name for name in columns if name in builtin_tasks()]
    if "path" not in columns or not tasks:
        known = ", ".join(builtin_tasks())
        raise ValueError(f"{file}: needs a column path and at least one column named after a task ({known})")
    if twice := [name for name in dict.fromkeys(columns) if columns.count(name) > 1]:
        raise ValueError(f"{file}: has several columns called {twice[0]!r}; keep one")
    for row in reader:
        where = f"{file} line {reader.line_num}"
        if None in row:
            raise ValueError(f"{where}: has more fields than there are columns; put text with commas in quotes")
        given = {task: label for task in tasks if (label := (row[task] or "").strip().upper())}
        if wrong := [f"{task} {label!r}" for task, label in given.items() if label not in FILES]:
            raise ValueError(f"{where}: {wrong[0]} is none of {', '.join(FILES)}")
        path = (row["path"] or "").strip()
        if not given:
            continue
        if not path:
            raise ValueError(f"{where}: has labels and no path")
        before = found.setdefault(path, {})
        if clash := [task for task in given if before.get(task, given[task]) != given[task]]:
            raise ValueError(f"{where}: {path} is {given[clash[0]]} for {clash[0]} here and {before[clash[0]]} before")
        if before:
            again.append(path)
        before.update(given)
    if notes is not None:
        if again:
            notes.append(f"{LABELS}: {len(again)} rows are about a file that has one before, such as {again[0]}")
        if others := [name for name in columns if name not in ("path", CLASS_LABEL, *tasks)]:
            notes.append(f"{LABELS}: columns without a meaning here: {', '.join(others)}")
    return found


def harmonised(spectrum: Spectrum, medium: str = "") -> tuple[np.ndarray, np.ndarray] | str:
    """Wavelength (Å, vacuum) and flux (median 1) on the common grid, shape (n_grid,), or why there is none.

    `medium` is believed where the spectrum does not state its own; where neither does, wavelengths are taken half-way
    between air and vacuum. Fine spectra are averaged over the pixels of the grid, coarse ones interpolated.
    """
    edges = np.arange(np.log10(COVERAGE[0]), np.log10(COVERAGE[1]), STEP)
    grid = 10.0 ** (0.5 * (edges[1:] + edges[:-1]))
    good = spectrum.replace(ivar=None).good  # all flux that there is: errors, and what they call bad, stay behind
    wavelength, flux = spectrum.wavelength[good], spectrum.flux[good]
    stated = spectrum.medium if spectrum.medium != "unknown" else medium
    if stated != "vacuum":
        wavelength = wavelength + (1.0 if stated == "air" else 0.5) * (air_to_vacuum(wavelength) - wavelength)
    if wavelength.size < 100:
        return "fewer than 100 good pixels"
    right = np.minimum(np.searchsorted(wavelength, grid), wavelength.size - 1)
    left = np.maximum(right - 1, 0)
    near = np.minimum(np.abs(wavelength[right] - grid), np.abs(wavelength[left] - grid)) <= GAP
    if near.mean() < MIN_COVERED or not (near[0] and near[-1]):
        return f"covers {100 * near.mean():.0f} % of {COVERAGE[0]:g}-{COVERAGE[1]:g} Å"
    pixel = np.searchsorted(edges, np.log10(wavelength)) - 1
    inside = (pixel >= 0) & (pixel < grid.size)
    count = np.bincount(pixel[inside], minlength=grid.size)
    total = np.bincount(pixel[inside], weights=flux[inside], minlength=grid.size)
    value = np.interp(grid, wavelength, flux)
    several = count > 1
    value[several] = total[several] / count[several]
    middle = float(np.median(value))
    if not np.isfinite(middle) or middle <= 0:
        return "its median flux is not positive"
    return grid, (value / middle).astype(np.float32)


def _write(
    source: Path,
    folder: Path,
    out: Path,
    files: Mapping[str, RealFile],
    labels: Mapping[str, Mapping[str, str]],
    spectra: Spectra,
    notes: list[str],
    fold: Fold | None,
) -> None:
    made = RealVI(out, notes=notes)
    sources = ["name,path,label_source"]
    facts = [_csv("name", "kind", "subtype", "snr", "survey")]
    lines: dict[str, list[str]] = {name: [] for name in dict.fromkeys(FILES.values())}
    for path, given in labels.items():
        found = _spectrum(source, files, path)
        placed = found if isinstance(found, str) else _placed(source, folder, out, files[path], found, spectra)
        if isinstance(found, str) or isinstance(placed, str):
            made.left_out[path] = found if isinstance(found, str) else str(placed)
            continue
        layout = found.layout + ("" if found.ivar is not None else " without errors")
        name = Path(str(placed.array_file)).stem if spectra == "harmonised" else path
        sources.append(",".join(f'"{text}"' for text in (name, path, files[path].label_source.replace('"', "'"))))
        snr = "" if found.snr is None or not np.isfinite(found.snr) else f"{found.snr:.2f}"
        facts.append(_csv(name, files[path].class_label, files[path].subclass, snr, found.survey))
        split = "held-out" if fold is not None or held_out(files[path].object_id) else "seed"
        for question, label in _questions(files[path], name, given, placed, split):
            lines[FILES[label]].append(question.model_dump_json(exclude_none=True))
            made.counts[question.task, layout, question.split or "", label] += 1
    for name, rows in lines.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    (folder / FACTS).write_text("".join(facts), encoding="utf-8")
    if spectra == "harmonised":
        (folder / SOURCES).write_text("\n".join(sources) + "\n", encoding="utf-8")
    text = json.dumps(made.stats(), indent=1, ensure_ascii=False)
    (folder / "realvi_stats.json").write_text(f"{text}\n", encoding="utf-8")


def _csv(*fields: str) -> str:
    """One line of a table."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def _spectrum(source: Path, files: Mapping[str, RealFile], path: str) -> Spectrum | str:
    """The one spectrum of a file, or why it is left out."""
    if path not in files:
        return f"stands in {LABELS}, but not in {MANIFEST}"
    try:
        found = read(source / path)
    except SpectrumReadError as e:
        return e.problem
    return found[0] if len(found) == 1 else f"holds {len(found)} spectra, and the label is of the file"


def _placed(
    source: Path, folder: Path, out: Path, file: RealFile, spectrum: Spectrum, spectra: Spectra
) -> SpectrumRef | str:
    """Where a question finds its spectrum, which is put there if need be; or why it cannot be."""
    if spectra == "where they are":
        path = os.path.relpath((source / file.path).resolve(), out.resolve())
        return SpectrumRef(path=Path(path).as_posix())
    if spectra == "copied":
        target = folder / "spectra" / file.path
        if ".." in Path(file.path).parts or Path(file.path).is_absolute():
            return "lies outside the folder; it cannot be copied to its place"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file.path, target)
        return SpectrumRef(path=f"spectra/{Path(file.path).as_posix()}")
    plain = harmonised(spectrum, file.medium)
    if isinstance(plain, str):
        return plain
    # The name of a file may stand over its figure, and must not tell the class.
    name = f"spectra/{hashlib.sha256(file.path.encode()).hexdigest()[:16]}.npz"
    (folder / "spectra").mkdir(exist_ok=True)
    np.savez(folder / name, wavelength=plain[0], flux=plain[1], medium=np.array("vacuum"))
    return SpectrumRef(array_file=name)


def _questions(
    file: RealFile, name: str, given: Mapping[str, str], place: SpectrumRef, split: str
) -> Iterator[tuple[Question, str]]:
    for task, label in given.items():
        answer: Literal["YES", "NO"] | None = "NO" if label == "NO" else None if label == "BORDERLINE" else "YES"
        told = file.label_source if name == file.path else ""  # it may tell the class, as some paths do
        why = f"{LABELS}: {label}" + (f"; {told}" if told else "")
        yield (
            Question(
                id=f"{task}:{name}",
                task=task,
                spectrum=place,
                name=name,
                answer=answer,
                split=split,
                object_id=file.object_id,
                label_source=why,
            ),
            label,
        )
