"""The band heads of the task files, checked on real stars: flux drops across each head on the stated side."""

from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits
from numpy.typing import NDArray

from specvet.tasks import builtin_tasks

TEMPLATES = Path(__file__).parents[3] / "shared" / "spectra" / "templates"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not TEMPLATES.is_dir(), reason="the real spectra do not lie beside the checkout"),
]

S_STARS = ["m0053V", "m0177V"]
CARBON_STAR = "Carbon"
Array = NDArray[np.float64]


@pytest.mark.parametrize("star", S_STARS)
@pytest.mark.parametrize("name", ["ZrO γ (0,0) 6474", "ZrO γ 6345", "ZrO β 5552", "ZrO β 5718", "ZrO α 4641"])
def test_s_stars_drop_to_the_red_at_their_zro_heads(star: str, name: str) -> None:
    assert _fall(_miles(star), _head("ss", name)) > 0.05


@pytest.mark.parametrize("name", ["C2 Swan (0,0)", "C2 Swan (1,0)", "C2 Swan (0,1)"])
def test_carbon_stars_drop_to_the_blue_at_their_swan_heads(name: str) -> None:
    assert _fall(_sdss_template(CARBON_STAR), _head("cc", name)) < -0.08


@pytest.mark.parametrize("name", ["CN red 6925", "CN red 7065", "CN red (2,0) 7873", "CN red (3,1) 8067"])
def test_carbon_stars_drop_to_the_red_at_their_red_cn_heads(name: str) -> None:
    assert _fall(_sdss_template(CARBON_STAR), _head("cc", name), step=30.0) > 0.05


@pytest.mark.parametrize("name", ["TiO 4954", "TiO 5167", "TiO 5448", "TiO 7053", "TiO 8432"])
def test_m_stars_drop_to_the_red_at_their_tio_heads(name: str) -> None:
    assert _fall(_sdss_template("M5"), _head("gm", name)) > 0.08


def _head(task: str, name: str) -> float:
    (found,) = {f.wavelength for w in builtin_tasks()[task].windows for f in w.features if f.name == name}
    return found


def _fall(spectrum: tuple[Array, Array], head: float, step: float = 12.0) -> float:
    """Relative fall of flux across a band head, positive when the red side is lower. `step` in Å."""
    wavelength, flux = spectrum
    blue = flux[(wavelength > head - step) & (wavelength < head - 1)].mean()
    red = flux[(wavelength > head + 2) & (wavelength < head + step + 3)].mean()
    return float((blue - red) / max(blue, red))


def _miles(star: str) -> tuple[Array, Array]:
    """A MILES star: Å in air, relative flux."""
    with fits.open(TEMPLATES / "miles" / f"MILES_res2.50_star_{star}.fits") as hdus:
        flux = np.asarray(hdus[0].data, float).squeeze()
        header = hdus[0].header
        return header["CRVAL1"] + header["CDELT1"] * np.arange(flux.size), flux


def _sdss_template(name: str) -> tuple[Array, Array]:
    """A star of the SDSS templates: Å, turned from vacuum to air by the mean refraction of the red; relative flux."""
    with fits.open(TEMPLATES / "sdss_idlspec2d" / "spEigenStar-53054.fits") as hdus:
        header, images = hdus[0].header, np.asarray(hdus[0].data, float)
    names = [header.get(f"NAME{i}") for i in range(len(images))]
    vacuum = 10 ** (header["COEFF0"] + header["COEFF1"] * np.arange(images.shape[1]))
    return vacuum / 1.000277, images[names.index(name)]
