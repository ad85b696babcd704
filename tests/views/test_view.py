"""The lazy `View`: what it describes before anything is drawn."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from specvet.spectra.spectrum import Spectrum
from specvet.views import COMPACT_STYLE, REFERENCE_STYLE, View, draw, full_view, zoom_view
from specvet.views import view as module

WAVELENGTH = np.linspace(3700.0, 9100.0, 3000)
FLUX = 5.0 + np.sin(WAVELENGTH / 40.0)
SPECTRUM = Spectrum(wavelength=WAVELENGTH, flux=FLUX, file="/data/dr9/spec-55859-F5902_sp01-001.fits.gz", id="101001")


def test_a_full_view_is_the_figure_of_all_points() -> None:
    view = full_view(SPECTRUM)
    assert view.png == draw(WAVELENGTH, FLUX, title="Spectrum: spec-55859-F5902_sp01-001.fits.gz")
    assert view.size == (792, 472)
    assert view.window is None
    assert view.n_points == 3000
    assert view.style == "spec-o3-reference-1"


def test_a_zoom_is_the_figure_of_its_window_at_rest_wavelengths() -> None:
    z = 0.01
    view = zoom_view(SPECTRUM, (6400, 6700), z=z)
    rest = WAVELENGTH / (1 + z)
    assert view.png == draw(rest, FLUX, window=(6400, 6700), title="Spectrum: spec-55859-F5902_sp01-001.fits.gz")
    assert view.n_points == int(((rest >= 6400) & (rest <= 6700)).sum())
    assert view.frame == "rest frame, z = 0.010000"


def test_without_a_redshift_wavelengths_stay_bit_for_bit() -> None:
    view = full_view(SPECTRUM.replace(frame="heliocentric"))
    np.testing.assert_array_equal(view.wavelength, WAVELENGTH)
    assert view.frame == "as observed, heliocentric"
    assert full_view(SPECTRUM).frame == "as observed"
    assert full_view(SPECTRUM.replace(frame="rest")).frame == "rest frame"


@pytest.mark.parametrize("z", [-1.0, -2.0, float("nan"), float("inf")])
def test_a_redshift_that_is_none_is_refused(z: float) -> None:
    with pytest.raises(ValueError, match="is no redshift"):
        full_view(SPECTRUM, z=z)


def test_the_title_is_the_file_name_then_spectrum_unless_one_is_given() -> None:
    assert full_view(SPECTRUM).title == "Spectrum: spec-55859-F5902_sp01-001.fits.gz"
    assert full_view(SPECTRUM.replace(file="")).title == "Spectrum"
    assert zoom_view(SPECTRUM, (5000, 6000), title="Candidate 7").title == "Candidate 7"


def test_the_caption_says_which_spectrum_which_window_and_how_many_points() -> None:
    assert full_view(SPECTRUM).caption == "101001, all wavelengths, 3000 points"
    assert zoom_view(SPECTRUM, (6400, 6700.5), z=0.0).caption.startswith("101001, 6400-6700.5 Å, ")


def test_nothing_is_drawn_before_somebody_looks_and_then_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawings = []

    def counting(*args: object, **settings: object) -> bytes:
        drawings.append(settings)
        return draw(*args, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "draw", counting)
    view = zoom_view(SPECTRUM, (6400, 6700))
    _ = (view.n_points, view.content_hash, view.caption, repr(view))
    assert not view.drawn
    assert drawings == []
    assert view.png is view.png
    assert view.size == (632, 392)
    assert len(drawings) == 1


def test_the_hash_is_of_what_the_figure_shows() -> None:
    view = zoom_view(SPECTRUM, (6400, 6700))
    same = [
        zoom_view(SPECTRUM, (6400, 6700)),
        zoom_view(SPECTRUM.replace(flux=FLUX * (1 + 1e-12)), (6400, 6700)),
        zoom_view(SPECTRUM, (6399.9999, 6700.0001)),
    ]
    other = [
        zoom_view(SPECTRUM, (6400, 6710)),
        zoom_view(SPECTRUM, (6400, 6700), z=0.001),
        zoom_view(SPECTRUM, (6400, 6700), title="Spectrum"),
        zoom_view(SPECTRUM.replace(flux=FLUX + 1), (6400, 6700)),
        full_view(SPECTRUM),
        zoom_view(SPECTRUM, (0, 20_000)),
    ]
    assert {v.content_hash for v in same} == {view.content_hash}
    assert len({v.content_hash for v in [view, *other]}) == 7


def test_a_window_without_points_is_a_view_that_cannot_be_drawn() -> None:
    view = zoom_view(SPECTRUM, (100, 200))
    assert view.n_points == 0
    assert len(view.content_hash) == 64
    with pytest.raises(ValueError, match="0 finite points in 100-200 Å"):
        _ = view.png


def test_a_view_cannot_be_changed_by_its_owner_or_through_its_source() -> None:
    flux = FLUX.copy()
    view = full_view(SPECTRUM.replace(flux=flux))
    flux[:] = 0
    assert view.flux[0] == FLUX[0]
    with pytest.raises(ValueError, match="read-only"):
        view.flux[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.title = "other"  # type: ignore[misc]


def test_a_view_survives_pickling_with_and_without_its_picture() -> None:
    view = zoom_view(SPECTRUM, (6400, 6700))
    copy: View = pickle.loads(pickle.dumps(view))
    assert not copy.drawn
    assert copy.content_hash == view.content_hash
    assert copy.png == view.png
    assert not copy.flux.flags.writeable
    assert pickle.loads(pickle.dumps(view)).drawn


def test_a_style_has_a_short_name() -> None:
    assert full_view(SPECTRUM, style="compact").style == COMPACT_STYLE
    assert full_view(SPECTRUM, style="reference").style == REFERENCE_STYLE
    assert full_view(SPECTRUM, style="compact").png == full_view(SPECTRUM, style=COMPACT_STYLE).png
