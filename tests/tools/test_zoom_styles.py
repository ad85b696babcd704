"""The zoom tool in the compact style: another figure, the same words and numbers."""

from __future__ import annotations

import numpy as np
import pytest

from specvet.spectra import Redshift, Spectrum
from specvet.tools import ZoomTool

WAVELENGTH = np.arange(3700.0, 9000.5, 2.0)
FLUX = np.random.default_rng(0).normal(10, 1, WAVELENGTH.size)
SPECTRUM = Spectrum(WAVELENGTH, FLUX, ivar=np.ones(WAVELENGTH.size), medium="vacuum", redshift=Redshift(-9999.0))
ASKED = {"wavelength_range": [6400, 6700], "label": "Hα"}


@pytest.mark.parametrize("mode", ["careful", "published", "observed"])
def test_only_the_figure_differs_between_styles(mode: str) -> None:
    reference = ZoomTool(SPECTRUM, mode)  # type: ignore[arg-type]
    compact = ZoomTool(SPECTRUM, mode, style="compact-1")  # type: ignore[arg-type]
    for a, b in ((reference.opening(), compact.opening()), (reference(ASKED), compact(ASKED))):
        assert a.text == b.text
        assert (a.view is None) == (b.view is None)
        if a.view is not None and b.view is not None:
            assert (a.view.style, b.view.style) == ("spec-o3-reference-1", "compact-1")
            np.testing.assert_array_equal(a.view.wavelength, b.view.wavelength)
            assert b.view.png.startswith(b"\x89PNG")


def test_sizes_follow_the_kind_of_view() -> None:
    tool = ZoomTool(SPECTRUM, style="compact-1", size="published")
    opening, zoom = tool.opening().view, tool(ASKED).view
    assert opening is not None
    assert zoom is not None
    assert (opening.size, zoom.size) == ((896, 448), (672, 448))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"style": "small"}, "style 'small' is unknown"), ({"size": "small"}, "only compact-1 has a size to choose")],
)
def test_a_style_that_is_none_is_refused_before_any_drawing(arguments: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ZoomTool(SPECTRUM, **arguments)  # type: ignore[arg-type]
