"""How fast `specvet.read` is, beside specutils and beside astropy alone.

    python benchmarks/read.py --json --out results/read     side by side in one run, one core

`ratio_specutils_sdss` and `ratio_specutils_desi`: specutils' time over ours for the files that both read. specutils is
told the format (`Spectrum.read(path, format="SDSS-III/IV spec")`, `SpectrumList.read(path, format="DESI coadd")`),
which is its fastest; for the `_guessed` ratios it is not. Ours finds out the layout, joins the arms and reads class,
redshift and identifiers as well. `ratio_astropy_lamost`: our time over that of `astropy.io.fits` for the same arrays
(flux, ivar, wavelength and masks as native float64) and the same header cards, with nothing checked or built; the worst
layout.

Each pair is timed one after the other, in CPU seconds of this process; ratios are medians over rounds and files. We
remember the column layouts of tables, the same in all files of a release; the `_first` ratios are those without that.
`gz_floor_ms` is what zlib alone takes to unpack the LAMOST files: no reader can be faster.
Files: those of a folder `shared/spectra` beside the checkout, or else synthetic ones of the same layouts and sizes.
The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astropy
import numpy as np
from astropy.io import fits

import specvet
from specvet.records import write_atomic
from specvet.spectra.readers import bintable

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "spectra"
CARDS = (
    "SIMULATE TELESCOP OBSID DESIG PLANID LMJD MJD SPID FIBERID OBJNAME GP_ID UID CLASS SUBCLASS Z Z_ERR HELIO VACUUM "
    "DATA_V BUNIT RA DEC VERSPIPE COEFF0 COEFF1"
)
"""What we take out of a LAMOST header."""

FILES = {
    "lamost_image": "lamost/dr1/*.fits",
    "lamost_image_gz": "lamost/dr8/*.fits.gz",
    "lamost_table_gz": "lamost/dr9/*.fits.gz",
    "lamost_mrs": "lamost/mrs*/*",
    "sdss": "sdss/spec/*.fits",
    "desi": "desi/coadd-*.fits",
    "desi_spectra": "desi/spectra-*.fits",
    "text": "sdss/cv_ascii/*",
    "miles": "templates/miles/*.fits",
}
PER_LAYOUT = 6
LAMOST = ("lamost_image", "lamost_image_gz", "lamost_table_gz")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, help="folder for metrics.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the others, on what is not standard in these files
    with tempfile.TemporaryDirectory(prefix="specvet-read-") as folder:
        result = measured(files(Path(folder)), options.rounds)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        write_atomic(options.out / "metrics.json", json.dumps(result, indent=1) + "\n")
    if not options.json:
        for key, value in result.items():
            print(f"{key:32} {value}", file=sys.stderr)
    print(json.dumps(result))
    return 0


def measured(paths: dict[str, list[Path]], rounds: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    lamost = {layout: pair(paths[layout], bare_astropy, specvet.read, rounds) for layout in LAMOST}
    result["ratio_astropy_lamost"] = round(max(1 / ratio for ratio, _, _ in lamost.values()), 2)
    for layout, (ratio, theirs, ours) in lamost.items():
        result |= {
            f"ratio_astropy_{layout}": round(1 / ratio, 2),
            f"astropy_{layout}_ms": theirs,
            f"ours_{layout}_ms": ours,
        }
    for layout, named, guessed in (
        ("sdss", specutils_sdss, specutils_guess),
        ("desi", specutils_desi, specutils_guess_list),
        ("desi_spectra", specutils_desi_spectra, specutils_guess_list),
    ):
        ratio, theirs, ours = pair(paths[layout], named, specvet.read, rounds)
        result |= {
            f"ratio_specutils_{layout}": round(ratio, 1),
            f"ratio_specutils_{layout}_first": round(pair(paths[layout], named, first_read, rounds)[0], 1),
            f"ratio_specutils_{layout}_guessed": round(pair(paths[layout], guessed, specvet.read, 3)[0], 1),
            f"specutils_{layout}_ms": theirs,
            f"ours_{layout}_ms": ours,
        }
    packed = [path.read_bytes() for path in paths["lamost_image_gz"]]
    result["gz_floor_ms"] = milliseconds([cpu(lambda: gzip.decompress(p)) for p in packed * rounds])  # noqa: B023
    for layout in ("lamost_mrs", "text", "miles"):
        times = [cpu(lambda: specvet.read(path)) for path in paths[layout] * rounds]  # noqa: B023
        result[f"ours_{layout}_ms"] = milliseconds(times)
    import specutils

    return result | {
        "files": {layout: len(found) for layout, found in paths.items()},
        "simulated": not SHARED.is_dir(),
        "rounds": rounds,
        "specvet": specvet.__version__,
        "specutils": specutils.__version__,
        "astropy": astropy.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def pair(
    paths: list[Path], theirs: Callable[[Path], object], ours: Callable[[Path], object], rounds: int
) -> tuple[float, float, float]:
    """Median of their time over ours, and both medians in ms."""
    slow, fast, ratios = [], [], []
    for path in paths:
        theirs(path)
        ours(path)
    for path in paths * rounds:
        slow.append(cpu(lambda: theirs(path)))  # noqa: B023
        fast.append(cpu(lambda: ours(path)))  # noqa: B023
        ratios.append(slow[-1] / fast[-1])
    return statistics.median(ratios), milliseconds(slow), milliseconds(fast)


def cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def milliseconds(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1e3, 2)


def first_read(path: Path) -> object:
    """As for a file whose tables have headers that were not seen before."""
    bintable._layout.cache_clear()
    return specvet.read(path)


def bare_astropy(path: Path) -> object:
    """A LAMOST file's header cards and arrays, as native float64."""
    with fits.open(path, memmap=False) as hdus:
        header = hdus[0].header
        cards = {key: header.get(key) for key in CARDS.split()}
        if hdus[0].data is not None:
            return cards, [row.astype(np.float64) for row in hdus[0].data]
        table = hdus[1].data
        names = ("FLUX", "IVAR", "WAVELENGTH", "ANDMASK", "ORMASK")
        return cards, [table[name][0].astype(np.float64) for name in names]


def specutils_sdss(path: Path) -> object:
    from specutils import Spectrum

    return Spectrum.read(str(path), format="SDSS-III/IV spec")


def specutils_desi(path: Path) -> object:
    from specutils import SpectrumList

    return SpectrumList.read(str(path), format="DESI coadd")


def specutils_desi_spectra(path: Path) -> object:
    from specutils import SpectrumList

    return SpectrumList.read(str(path), format="DESI spectra")


def specutils_guess(path: Path) -> object:
    from specutils import Spectrum

    return Spectrum.read(str(path))


def specutils_guess_list(path: Path) -> object:
    from specutils import SpectrumList

    return SpectrumList.read(str(path))


def files(folder: Path) -> dict[str, list[Path]]:
    """Some files of each layout."""
    if SHARED.is_dir():
        return {layout: sorted(SHARED.glob(pattern))[:PER_LAYOUT] for layout, pattern in FILES.items()}
    sys.path.insert(0, str(ROOT / "tests" / "spectra"))
    import spectrum_files as make

    n = 3909
    arm = np.array([10.0 ** (3.58 + 1e-4 * i) for i in range(n)])
    coadds = make.as_bytes(fits.PrimaryHDU(), *(make.mrs_table(f"COADD_{name}", arm, old=False) for name in "BR"))
    made = {
        "lamost_image": make.lamost_image(make.lamost_rows(n)),
        "lamost_image_gz": gzip.compress(make.lamost_image(make.lamost_rows(n))),
        "lamost_table_gz": gzip.compress(make.lamost_table(n)),
        "lamost_mrs": coadds,
        "sdss": make.sdss(n, target=make.SPECOBJ),
        "desi": make.desi(list(range(1, 6))),
        "desi_spectra": make.desi(list(range(1, 6))),
        "text": b"".join(b"%.2f %.5f\n" % (4000 + i, np.sin(i / 50)) for i in range(n)),
        "miles": make.image(n, CRVAL1=4000.0, CDELT1=1.0, CTYPE1="WAVE"),
    }
    out: dict[str, list[Path]] = {}
    for layout, data in made.items():
        out[layout] = [folder / f"{layout}.fits"]
        out[layout][0].write_bytes(data)
    return out


if __name__ == "__main__":
    raise SystemExit(main())
