"""Views of the compact style: what they carry, what their hash counts, and how they travel."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from PIL import Image

from specvet.spectra.spectrum import Join, Spectrum
from specvet.views import (
    COMPACT_STYLE,
    REFERENCE_STYLE,
    RenderPool,
    View,
    compact_array,
    draw_compact,
    full_view,
    zoom_view,
)

WAVELENGTH = np.linspace(3700.0, 9100.0, 3000)
FLUX = 5.0 + np.sin(WAVELENGTH / 40.0)
IVAR = np.where(np.arange(3000) % 100 == 7, 0.0, 25.0)
SPECTRUM = Spectrum(
    wavelength=WAVELENGTH,
    flux=FLUX,
    ivar=IVAR,
    medium="air",
    frame="heliocentric",
    joins=(Join(5700.0, 5900.0, "LAMOST blue/red"),),
    file="/data/spec-55859-F5902_sp01-001.fits.gz",
    id="101001",
)


def test_the_reference_style_is_the_default_and_carries_only_what_it_draws() -> None:
    view = full_view(SPECTRUM)
    assert view.style == REFERENCE_STYLE == "spec-o3-reference-1"
    assert (view.pixels, view.sigma, view.bad, view.doubtful) == (None, None, None, ())


@pytest.mark.parametrize("style", [REFERENCE_STYLE, COMPACT_STYLE])
@pytest.mark.parametrize("wild", [1e300, -1e300, 1.1e150, np.inf, np.nan])
def test_a_flux_that_nobody_can_have_measured_is_a_missing_point(style: str, wild: float) -> None:
    flux = FLUX.copy()
    flux[1500] = wild
    alone, gap = SPECTRUM.replace(flux=flux), SPECTRUM.replace(flux=np.where(flux == FLUX, FLUX, np.nan))
    assert full_view(alone, style=style).png == full_view(gap, style=style).png
    assert full_view(alone, style=style).n_points == 2999
    with pytest.raises(ValueError, match="flux holds values beyond 1e\\+150"):
        _ = full_view(SPECTRUM.replace(flux=np.full(3000, 1e300)), style=style).png


def test_a_compact_view_carries_errors_and_bad_pixels_and_where_to_doubt() -> None:
    z = 0.01
    view = zoom_view(SPECTRUM, (5500, 7000), z=z, style=COMPACT_STYLE)
    assert view.style == "compact-1"
    inside = (WAVELENGTH / (1 + z) >= 5500) & (WAVELENGTH / (1 + z) <= 7000)
    assert view.sigma is not None
    assert view.bad is not None
    np.testing.assert_array_equal(view.bad, IVAR[inside] == 0)
    np.testing.assert_array_equal(view.sigma, np.where(IVAR[inside] > 0, 0.2, np.inf))
    assert view.doubtful[0] == (5700 / 1.01, 5900 / 1.01)
    assert view.doubtful[1] == (6867 / 1.01, 6944 / 1.01)  # telluric O2 B, in air
    assert view.caption == f"101001, 5500-7000 Å, {inside.sum()} points"
    assert view.title == ""  # a file's name is no evidence


def test_a_spectrum_at_rest_has_no_place_for_the_air_of_the_earth() -> None:
    assert full_view(SPECTRUM.replace(frame="rest"), style=COMPACT_STYLE).doubtful == ((5700.0, 5900.0),)


def test_its_picture_is_the_compact_drawing_as_rgb() -> None:
    view = zoom_view(SPECTRUM, (6400, 6700), style=COMPACT_STYLE, size="published", title="7")
    expected = draw_compact(
        view.wavelength,
        view.flux,
        window=(6400, 6700),
        sigma=view.sigma,
        bad=view.bad,
        doubtful=view.doubtful,
        size=(672, 448),
        title="7",
    )
    assert view.png == expected
    with Image.open(io.BytesIO(view.png)) as image:
        assert (image.mode, image.size) == ("RGB", (672, 448))
        grey = compact_array(
            view.wavelength,
            view.flux,
            sigma=view.sigma,
            bad=view.bad,
            doubtful=view.doubtful,
            size=(672, 448),
            title="7",
        )
        np.testing.assert_array_equal(np.asarray(image)[:, :, 1], grey)


@pytest.mark.parametrize(
    ("size", "full", "zoom"),
    [
        (None, (448, 280), (308, 224)),
        ("small", (448, 280), (308, 224)),
        ("published", (896, 448), (672, 448)),
        ((560, 280), (560, 280), (560, 280)),
    ],
)
def test_sizes_have_names_and_are_known_before_drawing(
    size: str | tuple[int, int] | None, full: tuple[int, int], zoom: tuple[int, int]
) -> None:
    views = (
        full_view(SPECTRUM, style=COMPACT_STYLE, size=size),
        zoom_view(SPECTRUM, (6400, 6700), 0, "", "compact-1", size),
    )
    assert tuple(view.size for view in views) == (full, zoom)
    assert not any(view.drawn for view in views)
    with Image.open(io.BytesIO(views[1].png)) as image:
        assert image.size == zoom


def test_a_view_made_by_hand_gets_the_small_size() -> None:
    assert View(WAVELENGTH, FLUX, style=COMPACT_STYLE).size == (448, 280)
    assert View(WAVELENGTH, FLUX, window=(6400, 6700), style=COMPACT_STYLE).size == (308, 224)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"style": "fine"}, "style 'fine' is unknown; choose reference or compact"),
        ({"size": (448, 280)}, "only compact-1 has a size to choose"),
        ({"style": "compact-1", "size": "huge"}, "size 'huge' is unknown; choose small or published"),
        ({"style": "compact-1", "size": (10, 10)}, "size 10 x 10 pixels"),
    ],
)
def test_a_style_or_size_that_is_none_is_refused_by_name(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        full_view(SPECTRUM, **arguments)  # type: ignore[arg-type]


def test_the_hash_counts_all_that_the_drawing_shows() -> None:
    def zoom(s: Spectrum = SPECTRUM, window: tuple[float, float] = (6400, 6700), **more: object) -> View:
        return zoom_view(s, window, **{"style": COMPACT_STYLE, **more})  # type: ignore[arg-type]

    view = zoom()
    same = [
        zoom(),
        zoom(SPECTRUM.replace(flux=FLUX * (1 + 1e-12))),
        zoom(window=(6399.9999, 6700.0001)),
        zoom(SPECTRUM.replace(joins=(Join(4000.0, 4100.0, "far"),))),
        zoom(SPECTRUM.replace(file="other.fits")),
    ]
    other = [
        zoom_view(SPECTRUM, (6400, 6700)),
        zoom_view(SPECTRUM, (6400, 6700), title=""),
        zoom(size="published"),
        zoom(size=(448, 280)),
        zoom(title="x"),
        zoom(z=0.001),
        zoom(SPECTRUM.replace(ivar=None)),
        zoom(SPECTRUM.replace(ivar=IVAR * 2)),
        zoom(SPECTRUM.replace(ivar=np.where(np.arange(3000) == 1550, 0.0, IVAR))),
        zoom(SPECTRUM.replace(joins=(Join(6500.0, 6510.0, "here"),))),
        full_view(SPECTRUM, style=COMPACT_STYLE, size=(308, 224)),
    ]
    assert {v.content_hash for v in same} == {view.content_hash}
    assert len({v.content_hash for v in [view, *other]}) == 1 + len(other)
    assert not view.drawn


def test_the_reference_hash_does_not_count_what_the_published_figure_does_not_show() -> None:
    bare = SPECTRUM.replace(ivar=None, joins=())
    assert full_view(SPECTRUM).content_hash == full_view(bare).content_hash


def test_a_compact_view_without_points_has_a_hash_and_says_why_it_cannot_be_drawn() -> None:
    view = zoom_view(SPECTRUM, (100, 200), style=COMPACT_STYLE)
    assert (view.n_points, view.size, len(view.content_hash)) == (0, (308, 224), 64)
    with pytest.raises(ValueError, match="0 finite points in 100-200 Å"):
        _ = view.png


def test_a_compact_view_is_frozen_and_survives_pickling() -> None:
    view = zoom_view(SPECTRUM, (6400, 6700), style=COMPACT_STYLE)
    copy: View = pickle.loads(pickle.dumps(view))
    assert not copy.drawn
    assert (copy.content_hash, copy.png) == (view.content_hash, view.png)
    for one in (view, copy):
        assert one.sigma is not None
        assert one.bad is not None
        assert not any(a.flags.writeable for a in (one.wavelength, one.flux, one.sigma, one.bad))


def test_a_pool_of_processes_draws_the_same_bytes_in_both_styles() -> None:
    here = zoom_view(SPECTRUM, (6400, 6700), style=COMPACT_STYLE, size="published")
    there = zoom_view(SPECTRUM, (6400, 6700), style=COMPACT_STYLE, size="published")
    with RenderPool(processes=1, deadline_s=60.0) as pool:
        assert pool.png(there) == here.png
        assert there.drawn
        with pytest.raises(ValueError, match="0 finite points"):
            pool.png(zoom_view(SPECTRUM, (100, 200), style=COMPACT_STYLE))
        assert pool.png(full_view(SPECTRUM)) == full_view(SPECTRUM).png
