"""Write the example spectra: SIMULATED stars in the file layouts of LAMOST, SDSS, BOSS and DESI, and one as text.

    python examples/simulate.py [--out FOLDER]

Each is made as `specvet data simulate` makes them: physics, spectrograph, noise, pipeline, file. Which of the
simulator's stars are shown was chosen: at least one of each class, what is taken for it, and a few traps. Seeds are
fixed: a second run gives the same arrays and headers. Every file says that it is SIMULATED, in its name and in its
header (SIMULATE = T).
"""

from __future__ import annotations

import argparse
import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import specvet
from specvet.data.simulate import layouts
from specvet.data.simulate.kinds import KINDS, TASKS, make
from specvet.data.simulate.observed import Observed, SurveyName
from specvet.data.simulate.observing import observe, spectrum

NOTE = "SIMULATED"
SEED = 8


@dataclass(frozen=True)
class Example:
    """One spectrum."""

    survey: SurveyName
    kind: str
    """Of `specvet.data.simulate.kinds`."""
    star: int
    """Which of that kind: the second half of its seed."""
    snr: float
    """Aimed at, in the median over a pixel."""
    layout: str = ""
    """LAMOST: the release whose layout it has. `text`: two columns."""
    said: str = ""
    """What it is, where its kind does not say it."""
    truth: tuple[tuple[str, str], ...] = ()
    """Task → right answer, where it is not that of its kind."""


EXAMPLES = (
    Example("lamost", "cc.N", 1, 28.0, "dr9", "carbon star of type N"),
    Example("lamost", "gm.giant", 2, 30.0, "dr9"),
    Example("lamost", "wd.DA", 1, 16.0, "dr9", "DA white dwarf that the pipeline calls a galaxy"),
    Example("lamost", "ss.S", 2, 32.0, "dr5"),
    Example("lamost", "f_star", 0, 35.0, "dr5"),
    Example("sdss", "cv.quiescence", 2, 18.0),
    # A featureless spectrum may be a DC white dwarf or a BL Lac object: without a parallax nobody can say.
    Example("sdss", "wd.DC", 2, 24.0, said="DC white dwarf or BL Lac object", truth=(("wd", "UNSURE"),)),
    Example("boss", "cv.nova_like", 1, 25.0, said="nova-like CV that the pipeline calls a QSO"),
    Example("boss", "sdb", 1, 25.0),
    Example("desi", "qso", 2, 12.0),
    Example("desi", "m_dwarf.active", 3, 20.0),
    Example("desi", "wd.DA", 3, 14.0),
    Example("desi", "g_star", 0, 0.05, said="nothing but noise", truth=tuple((task, "NO_DATA") for task in TASKS)),
    Example("sdss", "cv.double_peaked", 3, 22.0, "text"),
)


def observed(number: int, example: Example) -> Observed:
    """What its survey's telescope and pipeline make of it."""
    rng = np.random.default_rng([SEED, example.star])
    return observe(make(example.kind, rng), example.survey, rng, snr=example.snr, object_number=number)


def written(folder: Path) -> list[Path]:
    """Write all spectra into `folder`; the file of each, in the order of `EXAMPLES`."""
    seen = [observed(number, example) for number, example in enumerate(EXAMPLES)]
    paths: dict[int, Path] = {}
    for layout in dict.fromkeys(example.layout for example in EXAMPLES):
        members = [i for i, example in enumerate(EXAMPLES) if example.layout == layout]
        if layout == "text":
            files = [as_text(seen[i], folder) for i in members]
        else:
            files = layouts.write([seen[i] for i in members], folder, release=layout or "dr9")
        if layout.startswith("dr"):
            files = [zipped(file) for file in files]
        paths |= dict(zip(members, files, strict=True))
    return [paths[i] for i in range(len(EXAMPLES))]


def zipped(file: Path) -> Path:
    """As LAMOST releases its files; without the time, so that a second run gives the same bytes."""
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    file.unlink()
    return packed


def as_text(one: Observed, folder: Path) -> Path:
    """Wavelength and flux in two columns, as papers attach them: no errors, little header."""
    s = spectrum(one)
    file = folder / "SIMULATED-dwarf-nova.txt"
    lines = ["# SIMULATED dwarf nova: made by examples/simulate.py of specvet, not an observation",
             "# OBJECT: SIMULATED dwarf nova", f"# RA: {one.ra}", f"# DEC: {one.dec}", "# MEDIUM: vacuum",
             "# BUNIT: 1e-17 erg/s/cm2/A", "# WAVELENGTH FLUX"]  # fmt: skip
    # Two pixels at a time, so that the file stays small.
    half = 2 * (s.n_pix // 2)
    pairs = zip(s.wavelength[:half].reshape(-1, 2).mean(1), s.flux[:half].reshape(-1, 2).mean(1), strict=True)
    file.write_text("\n".join([*lines, *(f"{w:.2f} {f:.4f}" for w, f in pairs)]) + "\n", encoding="utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write into")
    out: Path = parser.parse_args().out
    (out / "spectra").mkdir(parents=True, exist_ok=True)
    listed: list[tuple[object, ...]] = [("note", "path", "row", "id", "ra", "dec")]
    truth: list[tuple[object, ...]] = [("note", "file", "row", "class", *TASKS)]
    rows: dict[Path, int] = {}
    for example, path in zip(EXAMPLES, written(out / "spectra"), strict=True):
        row = rows[path] = rows.get(path, -1) + 1
        s, kind = specvet.read(path)[row], KINDS[example.kind]
        place = f"spectra/{path.name}"
        listed.append((NOTE, place, row, s.id, s.ra, s.dec))
        answers = {task: kind.answer(task) for task in TASKS} | dict(example.truth)
        truth.append((NOTE, place, row, example.said or kind.name, *answers.values()))
    for name, lines in (("list.csv", listed), ("truth.csv", truth)):
        with open(out / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    size = sum(path.stat().st_size for path in (out / "spectra").iterdir())
    print(f"{len(EXAMPLES)} simulated spectra in {out / 'spectra'}, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
