"""How fast the exact figure is against matplotlib's own drawing of it, and that no pixel differs.

    python benchmarks/render.py --json                     side by side in one run, one core
    python benchmarks/render.py --windows 3000 --out results/render

Inputs: the real spectra of a folder `shared/spectra` beside the checkout, or else the SIMULATED ones of `examples/`.
Each timed pair is one figure drawn both ways, one after the other, from a spectrum, window and title that come once, in
CPU seconds of this process; a figure counts with its PNG. `ratio_full` and `ratio_zoom` are medians of the ratios, in a
process that has drawn some hundred figures, as in a batch; the `_cold` ones are those of the process's first figures,
whose glyphs and texts come for the first time.
Pixels are compared for `--windows` random windows of random spectra, real and of pure noise on odd scales.
The floor of a full view is the data line in Agg plus the PNG: what no drawing with these pixels can leave out.
The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.progress import track

import specvet
from compact_rate import compact_per_second
from specvet.records import write_atomic
from specvet.views import exact, reference
from specvet.views.png import encode_png

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "spectra"

WARM = 300
"""Different figures between the cold timing and the warm one."""

Case = tuple[np.ndarray, np.ndarray, tuple[float, float] | None, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--windows", type=int, default=200, help="figures whose pixels are compared")
    parser.add_argument("--timed", type=int, default=31, help="pairs that are timed, of full views and of zooms each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for metrics.json")
    options = parser.parse_args()

    spectra = list(read_spectra())
    rng = np.random.default_rng(options.seed)
    reference.draw(*spectra[0][1:])  # imports and caches of both
    exact.draw(*spectra[0][1:])
    cold = speed(spectra, rng, options.timed)
    for i in range(WARM):
        x, y, window, title = real_case(spectra, rng, zoom=i % 4 != 0)
        exact.draw(x, y, window=window, title=title)
    result: dict[str, Any] = {
        **speed(spectra, rng, options.timed),
        **{f"{key}_cold": value for key, value in cold.items() if key.startswith("ratio")},
        **floor(spectra),
        **differences(spectra, rng, options.windows),
        **memory(spectra, rng),
        **compact(),
        "spectra": len(spectra),
        "simulated": not SHARED.is_dir(),
        "seed": options.seed,
        "specvet": specvet.__version__,
        "matplotlib": sys.modules["matplotlib"].__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        write_atomic(options.out / "metrics.json", json.dumps(result, indent=1) + "\n")
    if not options.json:
        for key, value in result.items():
            print(f"{key:28} {value}", file=sys.stderr)
    print(json.dumps(result))
    return 0


def read_spectra() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(file name, wavelength in Å, flux) of every spectrum that can be read."""
    folder = SHARED if SHARED.is_dir() else ROOT / "examples" / "spectra"
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            found = specvet.read(path)
        except specvet.SpectrumReadError:
            continue
        for spectrum in found[:3]:
            if int(np.isfinite(spectrum.flux).sum()) > 50:
                yield path.name, spectrum.wavelength, spectrum.flux


def real_case(spectra: list[tuple[str, np.ndarray, np.ndarray]], rng: np.random.Generator, *, zoom: bool) -> Case:
    """A spectrum of 1,000 points or more, whole, or a window of 50 to 1,000 Å that holds 10 points or more."""
    while True:
        name, x, y = spectra[rng.integers(len(spectra))]
        title = f"Spectrum: {rng.integers(1e6)}-{name}"
        if x.size < 1000:
            continue
        if not zoom:
            return x, y, None, title
        low = float(rng.uniform(x[0], x[-1]))
        window = (round(low, 1), round(low + float(np.exp(rng.uniform(np.log(50), np.log(1000)))), 1))
        if reference.drawable(x, y, window)[0].size >= 10:
            return x, y, window, title


def noise_case(rng: np.random.Generator) -> Case:
    """Noise of any number of points, span, scale and offset, and a title of any characters."""
    n, low, span = int(10 ** rng.uniform(0.5, 4.3)), rng.uniform(1000, 9000), 10 ** rng.uniform(0, 4)
    x = np.sort(rng.uniform(low, low + span, n))
    y = rng.normal(size=n) * 10 ** rng.uniform(-20, 5) + rng.choice([0, 1, -1, 1e3]) * 10 ** rng.uniform(-20, 5)
    start = rng.uniform(low, low + span / 2)
    window = (round(start, 1), round(start + span * rng.uniform(0.1, 1), 2)) if rng.random() < 0.75 else None
    return x, y, window, "".join(rng.choice(list("abcfilXY 0197-_.$^é−α"), rng.integers(0, 130)))


def differences(spectra: list[Any], rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Figures drawn both ways: the largest difference of a channel, in levels of 255, and how many figures differ."""
    largest, differing, compared, fallen_back = 0, 0, 0, 0
    for i in track(range(n), "comparing pixels", disable=not sys.stderr.isatty()):
        draw_it = noise_case(rng) if i % 3 == 2 else real_case(spectra, rng, zoom=i % 3 == 1 or rng.random() < 0.5)
        x, y, window, title = draw_it
        if reference.drawable(x, y, window)[0].size < 2:
            continue
        compared += 1
        ours, theirs = (_pixels(draw(x, y, window=window, title=title)) for draw in (exact.draw, reference.draw))
        points = reference.checked(x, y, window, title)
        with reference.drawing():
            fast = exact.picture(points[0], points[1], zoomed=window is not None, title=points[2])
        fallen_back += fast is None
        difference = 255 if ours.shape != theirs.shape else int(np.abs(ours - theirs).max())
        largest, differing = max(largest, difference), differing + (difference > 0)
    return {
        "max_pixel_difference": largest,
        "figures_compared": compared,
        "figures_that_differ": differing,
        "figures_left_to_matplotlib": fallen_back,
    }


def speed(spectra: list[Any], rng: np.random.Generator, n: int) -> dict[str, float]:
    """Medians over pairs of full views and of zooms."""
    result: dict[str, float] = {}
    for name, zoom in (("full", False), ("zoom", True)):
        slow, fast, ratios = [], [], []
        for _ in track(range(n), f"timing {name} views", disable=not sys.stderr.isatty()):
            x, y, window, title = real_case(spectra, rng, zoom=zoom)
            slow.append(_cpu(lambda: reference.draw(x, y, window=window, title=title)))  # noqa: B023
            fast.append(_cpu(lambda: exact.draw(x, y, window=window, title=title)))  # noqa: B023
            ratios.append(slow[-1] / fast[-1])
        result |= {
            f"ratio_{name}": round(statistics.median(ratios), 1),
            f"ratio_{name}_lowest": round(min(ratios), 1),
            f"matplotlib_{name}_ms": round(statistics.median(slow) * 1e3, 1),
            f"exact_{name}_ms": round(statistics.median(fast) * 1e3, 2),
        }
    return result


def floor(spectra: list[Any]) -> dict[str, float]:
    """What a full view costs at least: its line in Agg, and its PNG by our encoder and by Pillow's default."""
    name, x, y = max(spectra, key=lambda s: (3500 < s[1].size < 4500, s[0]))
    points = reference.checked(x, y, None, name)
    with reference.drawing():
        figure = exact._Figure(points[0], points[1], zoomed=False, title=points[2])
        picture = figure.pixels()
        page = exact.lay.page(figure.size, exact.lay.tight_margins(figure.size, figure), figure, figure._info_box)
        placed, _ = exact.lay.place(page.figure, page.position, figure)
        canvas = exact._Canvas(page.width, page.height)
        pens, path = exact._pens(), exact._path(figure.points)
        transform = exact._affine(placed.data)
        line = _median(lambda: canvas.agg.draw_path(pens.data, path, transform, None))
    image = Image.fromarray(picture)
    return {
        "floor_line_ms": round(line * 1e3, 2),
        "floor_png_ms": round(_median(lambda: encode_png(picture)) * 1e3, 2),
        "floor_png_pillow_ms": round(_median(lambda: image.save(io.BytesIO(), "PNG")) * 1e3, 2),
        "png_kb": round(len(encode_png(picture)) / 1e3, 1),
        "png_kb_pillow": round(_size(image) / 1e3, 1),
    }


def memory(spectra: list[Any], rng: np.random.Generator, n: int = 2000) -> dict[str, float]:
    """Resident memory after 500 and after `n` different figures."""
    marks = {}
    for i in track(range(1, n + 1), "memory", disable=not sys.stderr.isatty()):
        x, y, window, title = real_case(spectra, rng, zoom=i % 4 != 0)
        exact.draw(x, y, window=window, title=title)
        if i in (500, n):
            marks[i] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"peak_mb_at_500": round(marks[500], 1), f"peak_mb_at_{n}": round(marks[n], 1)}


def compact() -> dict[str, Any]:
    """Compact drawings a second; the two plain numbers are full views of 448 x 280 pixels."""
    rates = compact_per_second()
    full = rates["full_448x280"]
    return {
        "compact_per_second": round(full["arrays"]),
        "compact_png_per_second": round(full["pngs"]),
        "compact_rates": {case: {k: round(v) for k, v in of.items()} for case, of in rates.items()},
    }


def _pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def _size(image: Image.Image) -> int:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.tell()


def _cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _median(call: Callable[[], object], n: int = 15) -> float:
    return statistics.median(_cpu(call) for _ in range(n))


if __name__ == "__main__":
    raise SystemExit(main())
