"""Real files of the surveys, served on the loopback: their own identifiers and names are those that are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import get_services as services
import pytest
from get_services import archive
from get_spectra import HEALPIX

import specvet
from specvet.catalogue.getting import Ask, Folder, Outcome, desi, get, lamost, sdss
from specvet.catalogue.getting.checking import plain

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the real spectra beside the checkout are not here"),
]


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    undo = services.only_loopback()
    yield
    undo()


def fetch(asks: list[Ask], out: Path, url: str) -> Outcome:
    with closing(Folder(out)) as folder:
        return get(asks, folder, url, wait=lambda _: None)


def test_real_sdss_files_are_what_their_names_ask_for(tmp_path: Path) -> None:
    files = {p.name: p.read_bytes() for p in sorted((SHARED / "sdss" / "spec").glob("spec-*.fits"))}
    asks = [sdss.from_text(name, run2d="26") for name in files]
    with archive({ask.paths[0]: content for ask, content in zip(asks, files.values(), strict=True)}) as served:
        outcome = fetch(asks, tmp_path, served.url)
    assert outcome.there == len(files) == 3
    assert [Path(got.file).name for got in outcome.found] == list(files)


def real_lamost() -> list[Path]:
    """A file of each release and layout."""
    folders = sorted(p for p in (SHARED / "lamost").iterdir() if p.is_dir())
    return [next(p for p in sorted(folder.rglob("*.fits*")) if p.is_file()) for folder in folders]


@pytest.mark.parametrize("file", real_lamost() if SHARED.is_dir() else [], ids=lambda file: file.parent.name)
def test_real_lamost_files_get_the_names_that_lamost_gave_them(file: Path, tmp_path: Path) -> None:
    spectrum = specvet.read(file)[0]
    medium = spectrum.layout == "lamost-mrs"
    obsid = spectrum.ids.get("obsid", "")
    asks = [lamost.from_text(obsid or "123", medium=medium)]
    with archive({asks[0].paths[0]: file.read_bytes()}) as served:
        (got,) = fetch(asks, tmp_path, served.url).found
    assert Path(got.file).name == re.sub(r"_dr\d+(?=\.fits)", "", file.name)
    assert ("states no OBSID" in got.problem) == (obsid == "")


def test_a_file_without_an_obsid_is_compared_by_night_plan_spectrograph_and_fibre(tmp_path: Path) -> None:
    file = next(p for p in real_lamost() if "obsid" not in specvet.read(p)[0].ids)
    ids = specvet.read(file)[0].ids
    row = {name: plain(ids[name]) for name in ("lmjd", "planid", "spid", "fiberid")} | {"obsid": "123"}
    right, wrong = lamost.from_row(row), lamost.from_row(row | {"fiberid": "251"})
    with archive({right.paths[0]: file.read_bytes()}) as served:
        assert [got.problem for got in fetch([right], tmp_path / "right", served.url).found] == [""]
        assert [str(got.kind) for got in fetch([wrong], tmp_path / "wrong", served.url).found] == ["wrong"]


def test_a_real_coadd_is_joined_by_targetid(tmp_path: Path) -> None:
    file = SHARED / "desi" / "coadd-sv3-dark-26065.fits"
    targets = [s.id for s in specvet.read(file) if not s.id.startswith("-")]
    asks = [a for t in targets[::-1] for a in desi.from_text(f"sv3/dark/26065/{t}", {}, redrock=False)]
    path = f"{HEALPIX}/sv3/dark/260/26065/coadd-sv3-dark-26065.fits"
    with archive({path: file.read_bytes()}) as served:
        outcome = fetch(asks, tmp_path, served.url)
        assert served.asked == [path]
    assert [got.id for got in outcome.found] == targets[::-1]
    assert [specvet.read(tmp_path / got.file)[got.row].id for got in outcome.found] == targets[::-1]
