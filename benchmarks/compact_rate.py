"""How many compact drawings one core makes a second, on real spectra, with errors, bad pixels and shaded ranges.

    python benchmarks/compact_rate.py [FILE …] [--json]

Files are by default those of `../shared/spectra/lamost` and `sdss`, else the simulated ones of `examples/spectra`. Each
drawing is timed by itself in CPU time of this process; the rate is one over the median of all drawings of all spectra
of 3,000 to 5,000 pixels. `arrays` are uint8 pixels, `pngs` are RGB files, `grey_pngs` grey ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from specvet import read
from specvet.spectra import Spectrum
from specvet.views import COMPACT_STYLE, View, compact_array, draw_compact, full_view, zoom_view

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "spectra"
CASES: dict[str, tuple[tuple[float, float] | None, tuple[int, int]]] = {
    "full_448x280": (None, (448, 280)),
    "zoom_308x224": ((6400.0, 6700.0), (308, 224)),
    "full_896x448": (None, (896, 448)),
    "zoom_672x448": ((6400.0, 6700.0), (672, 448)),
}
AIM = {"arrays": 800, "pngs": 250}
"""A second and core, of full views of 448 x 280."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=15, help="drawings of each spectrum and case")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    result = compact_per_second(spectra(args.files or default_files()), args.repeat)
    for case, rates in result.items():
        print(f"{case:16} " + "  ".join(f"{name} {rate:8.0f}/s" for name, rate in rates.items()))
    if args.json:
        simulated = not args.files and not SHARED.is_dir()
        print(json.dumps({"compact_per_second": result, "aim_at_full_448x280": AIM, "simulated": simulated}))
    return 0


def compact_per_second(chosen: Sequence[Spectrum] | None = None, repeat: int = 15) -> dict[str, dict[str, float]]:
    """Case → {"arrays", "pngs", "grey_pngs"} → drawings a second of CPU time, one process.

    Args:
        chosen: spectra to draw; None for those of `default_files`.
        repeat: drawings of each spectrum in each case, after one that is not counted.
    """
    chosen = spectra(default_files()) if chosen is None else chosen
    result = {}
    for case, (window, size) in CASES.items():
        views = [
            full_view(s, style=COMPACT_STYLE, size=size)
            if window is None
            else zoom_view(s, window, style=COMPACT_STYLE, size=size)
            for s in chosen
        ]
        views = [view for view in views if view.n_points >= 5]
        result[case] = {
            "arrays": rate(views, repeat, lambda view: compact_array(**arguments(view))),
            "pngs": rate(views, repeat, lambda view: draw_compact(**arguments(view))),
            "grey_pngs": rate(views, repeat, lambda view: draw_compact(**arguments(view), rgb=False)),
        }
    return result


def arguments(view: View) -> dict[str, object]:
    """What `View.png` gives to `draw_compact`."""
    names = ("wavelength", "flux", "window", "sigma", "bad", "doubtful", "title")
    return {name: getattr(view, name) for name in names} | {"size": view.pixels}


def rate(views: Sequence[View], repeat: int, draw: Callable[[View], object]) -> float:
    """One over the median CPU seconds of a drawing."""
    seconds = []
    for i in range(repeat + 1):
        for view in views:
            start = time.process_time()
            draw(view)
            if i:
                seconds.append(time.process_time() - start)
    return round(1 / statistics.median(seconds), 1)


def default_files() -> list[Path]:
    """Up to 20 real files, or the simulated ones."""
    found = [
        *sorted((SHARED / "lamost" / "dr1").glob("*.fits"))[:8],
        *sorted((SHARED / "lamost").glob("dr[5-9]/*"))[:4],
    ]
    found += sorted((SHARED / "sdss").glob("*/spec-*"))[:8]
    return found or sorted((ROOT / "examples" / "spectra").glob("spec-*"))


def spectra(files: Sequence[Path]) -> list[Spectrum]:
    """The spectra of 3,000 to 5,000 pixels in the files."""
    found = [s for file in files for s in read(str(file)) if 3000 <= s.n_pix <= 5000]
    if not found:
        raise SystemExit("no spectrum of 3,000 to 5,000 pixels in the files; name others")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
