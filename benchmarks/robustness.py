"""How `line-indices` bears noise, and how often it says YES to what is no star of any class (simulated).

    python benchmarks/robustness.py --spectra ../shared/spectra [--json]

Two tables. *Noise*: the labelled real positives with S/N above 15, resampled to 69 km/s pixels and given Gaussian
noise; the share that is still YES. *Nulls*: simulated power laws with noise alone, with a quasar's broad lines at z of
0.02-4, and with a galaxy's narrow lines at z of 0-0.4 or near rest; the share that is YES. Seeds are fixed. Everything
here is a stress test on simulated noise and simulated nulls: it says where the policy gives way, not how it does in a
survey.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np

from line_indices import TASKS, answer, load
from specvet.spectra import Spectrum
from specvet.tasks import Task, resolve_tasks

C = 299_792.458
GRID = 10 ** np.arange(np.log10(3750.0), np.log10(9100.0), 1e-4)
QSO = ((1215.7, 80, 5000), (1549.1, 40, 5000), (1908.7, 25, 6000), (2798.8, 35, 5000), (3728.8, 8, 500),
       (4341.7, 15, 4000), (4862.7, 40, 4000), (4960.3, 8, 500), (5008.2, 25, 500), (6564.6, 150, 4000))  # fmt: skip
GALAXY = ((3728.8, 20, 250), (4341.7, 3, 250), (4862.7, 8, 250), (4960.3, 6, 250), (5008.2, 18, 250), (6549.9, 4, 250),
          (6564.6, 30, 250), (6585.3, 12, 250), (6718.3, 6, 250), (6732.7, 5, 250))  # fmt: skip
"""Rest vacuum wavelength (Å), equivalent width (Å) and FWHM (km/s), typical of the class."""
WIDE = tuple((rest, width, 500) for rest, width, _ in GALAXY)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spectra", type=Path, default=Path(__file__).parents[1].parent / "shared" / "spectra")
    parser.add_argument("--nulls", type=int, default=200, help="simulated spectra of each kind")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    tasks = resolve_tasks(list(TASKS))
    rng = np.random.default_rng(20261129)
    report: dict[str, object] = {"nulls_each": args.nulls, "noise": {}, "nulls": {}}
    if (args.spectra / "labels.csv").is_file():
        report["noise"] = noise_table(args.spectra, tasks, rng)
    else:
        print(f"no labels at {args.spectra}: the noise table is left out", file=sys.stderr)
    report["nulls"] = null_table(tasks, args.nulls, rng)
    if args.json:
        print(json.dumps(report))
    return 0


def noise_table(root: Path, tasks: list[Task], rng: np.random.Generator) -> dict[str, dict[str, list[int]]]:
    """Task → S/N → [still YES, positives]."""
    with (root / "labels.csv").open(encoding="utf-8", newline="") as f:
        rows = [row for row in csv.DictReader(f) if "YES" in row.values()]
    spectra = [(s, row) for s, row in load(root, rows)[0] if (s.snr or 0) > 15]
    print("share of real positives that are YES with simulated noise")
    out: dict[str, dict[str, list[int]]] = {}
    for task in tasks:
        positives = [s for s, row in spectra if row[task.key] == "YES"]
        if not positives:
            continue
        found = {}
        for snr in (20, 8, 4):
            yes = sum(answer(task, noisy(s, snr, rng)) == "YES" for s in positives)
            found[str(snr)] = [yes, len(positives)]
        out[task.key] = found
        print(f"  {task.key}  " + "  ".join(f"S/N {snr}: {yes}/{n}" for snr, (yes, n) in found.items()))
    return out


def noisy(s: Spectrum, snr: float, rng: np.random.Generator) -> Spectrum:
    w, f = s.wavelength[s.good], s.flux[s.good]
    grid = GRID[(w[0] <= GRID) & (w[-1] >= GRID)]
    flux = np.interp(grid, w, f)
    sigma = float(np.median(np.abs(flux))) / snr
    return Spectrum(grid, flux + rng.normal(0, sigma, grid.size), np.full(grid.size, sigma**-2), medium=s.medium)


def null_table(tasks: list[Task], n: int, rng: np.random.Generator) -> dict[str, dict[str, int]]:
    """Kind → task → number of YES among n."""
    kinds = {
        "noise on a power law": lambda: null(rng, (), 0.0, rng.uniform(-3, 3)),
        "quasar": lambda: null(rng, QSO, rng.uniform(0.02, 4), rng.uniform(-2, 0.5)),
        "emission-line galaxy": lambda: null(rng, GALAXY, rng.uniform(0, 0.4), rng.uniform(-1, 1)),
        "nebula near rest, 250 km/s": lambda: null(rng, GALAXY, rng.uniform(-0.0008, 0.0043), rng.uniform(-1, 1)),
        "nebula near rest, 500 km/s": lambda: null(rng, WIDE, rng.uniform(-0.0008, 0.0043), rng.uniform(-1, 1)),
    }
    print(f"YES among {n} simulated spectra of each kind, S/N 3-20")
    out: dict[str, dict[str, int]] = {}
    for kind, make in kinds.items():
        spectra = [make() for _ in range(n)]
        out[kind] = {task.key: sum(answer(task, s) == "YES" for s in spectra) for task in tasks}
        print(f"  {kind:26} " + "  ".join(f"{key} {yes}" for key, yes in out[kind].items()))
    return out


def null(rng: np.random.Generator, lines: tuple[tuple[float, float, float], ...], z: float, slope: float) -> Spectrum:
    flux = (GRID / 6000) ** slope
    for rest, width, fwhm in lines:
        centre = rest * (1 + z)
        sigma = centre * fwhm / C / 2.3548
        area = width * (1 + z) * rng.uniform(0.3, 2.0)
        flux = flux * (1 + area / (sigma * np.sqrt(2 * np.pi)) * np.exp(-0.5 * ((GRID - centre) / sigma) ** 2))
    error = float(np.median(flux)) / rng.choice([3, 5, 10, 20])
    return Spectrum(GRID, flux + rng.normal(0, error, GRID.size), np.full(GRID.size, error**-2), medium="vacuum")


if __name__ == "__main__":
    sys.exit(main())
