"""Simulated spectra as the surveys lay out their files; `specvet.read` gives back what `observing.spectrum` says.

    paths = write(list(survey.draw(100, 0, "lamost")), "spectra")

Every name contains SIMULATED, every primary header has SIMULATE = T, and nothing in a file tells what the object truly
is: class, subclass and redshift are the pipeline's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from specvet.data.simulate.layouts import desi, lamost, sdss
from specvet.data.simulate.layouts.lamost import RELEASES
from specvet.data.simulate.observed import Observed

__all__ = ["RELEASES", "file_name", "write"]


def file_name(observed: Observed) -> str:
    """The name of its file."""
    namers = {"lamost": lamost.file_name, "sdss": sdss.file_name, "boss": sdss.file_name, "desi": desi.file_name}
    return namers[observed.survey](observed)


def write(observed: Observed | Sequence[Observed], folder: str | PathLike[str], *, release: str = "dr9") -> list[Path]:
    """Write spectra into a folder, which is made, and give the file of each, in their order.

    LAMOST, SDSS and BOSS have one spectrum a file. A DESI coadd has those that share their tile (`desi.ROWS` objects,
    one epoch), rows in the order given, so targets that share one must come in one call; its redrock catalogue lies
    beside it. `release` is the layout of LAMOST: an image for `dr2` to `dr8`, a table from `dr9`. Files of the same
    name are replaced. Raises ValueError for an unknown release, OSError.
    """
    given = [observed] if isinstance(observed, Observed) else list(observed)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / file_name(one) for one in given]
    coadds: dict[Path, list[Observed]] = {}
    for one, path in zip(given, paths, strict=True):
        if one.survey == "desi":
            coadds.setdefault(path, []).append(one)
        else:
            path.write_bytes(lamost.content(one, release) if one.survey == "lamost" else sdss.content(one))
    for path, targets in coadds.items():
        path.write_bytes(desi.coadd(targets))
        (place / desi.redrock_name(targets[0])).write_bytes(desi.redrock(targets))
    return paths
