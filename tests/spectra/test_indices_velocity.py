"""The velocity of a line: where the middle of its half-maximum crossings lies."""

from __future__ import annotations

import numpy as np
import pytest

from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import measure
from specvet.spectra.lines import air_to_vacuum

C = 299_792.458


def emission(lines: list[tuple[float, float]], fwhm: float = 1200.0, height: float = 3.0) -> Spectrum:
    """Gaussians (air Å, velocity km/s) on a flat continuum, in vacuum, without noise."""
    w = 10 ** np.arange(np.log10(4000.0), np.log10(7000.0), 1e-4)
    flux = np.ones_like(w)
    for line, velocity in lines:
        centre = float(air_to_vacuum(line)) * (1 + velocity / C)
        flux += height * np.exp(-4 * np.log(2) * ((w - centre) / (centre * fwhm / C)) ** 2)
    return Spectrum(w, flux, np.full(w.size, 1e4), medium="vacuum")


@pytest.mark.parametrize("velocity", [-400.0, 0.0, 250.0])
def test_the_velocity_of_a_line_is_where_it_was_put(velocity: float) -> None:
    found = measure(
        ["ha_velocity", "hb_velocity"], emission([(6562.80, velocity), (4861.35, velocity)]), BUILTIN_INDICES
    )
    assert found["ha_velocity"].value == pytest.approx(velocity, abs=5)
    assert found["hb_velocity"].value == pytest.approx(velocity, abs=5)


def test_two_peaks_of_a_disc_have_the_velocity_of_their_middle() -> None:
    disc = emission([(6562.80, -500.0), (6562.80, 500.0)], fwhm=400.0)
    assert measure(["ha_velocity"], disc, BUILTIN_INDICES)["ha_velocity"].value == pytest.approx(0.0, abs=10)


def test_lines_of_a_galaxy_that_fall_near_the_balmer_lines_disagree_in_velocity() -> None:
    """[O III] 5007 and [O II] 3727 at z = 0.311 fall beside Hα and Hβ."""
    z = 0.311
    galaxy = emission([(5006.84 * (1 + z), 0.0), (3728.8 * (1 + z), 0.0)], fwhm=300.0)
    found = measure(["ha", "hb", "balmer_shift"], galaxy, BUILTIN_INDICES)
    assert found["ha"].value is not None
    assert found["ha"].value < -10
    assert found["balmer_shift"].value is not None
    assert found["balmer_shift"].value > 1000


@pytest.mark.parametrize("velocity", [-200.0, 0.0, 600.0, 1000.0])
def test_oxygen_of_a_nebula_is_found_beside_hb_at_any_velocity_of_a_star_or_near_galaxy(velocity: float) -> None:
    """A band of ±8 Å lost [O III] 5007 between itself and its continuum at 600 km/s."""
    nebula = emission([(6562.80, velocity), (4861.35, velocity), (5006.84, velocity)], fwhm=250.0)
    assert measure(["oiii_over_hb"], nebula, BUILTIN_INDICES)["oiii_over_hb"].value == pytest.approx(1.03, abs=0.08)


@pytest.mark.parametrize("velocity", [-240.0, 0.0, 700.0, 1250.0])
@pytest.mark.parametrize("fwhm", [250.0, 500.0])
def test_forbidden_lines_are_looked_for_at_the_velocity_of_the_balmer_lines(velocity: float, fwhm: float) -> None:
    nebula = emission([(x, velocity) for x in (6562.80, 4861.35, 5006.84, 6716.44, 6730.82)], fwhm=fwhm)
    found = measure(["oiii_over_hb_at_ha", "sii_over_ha"], nebula, BUILTIN_INDICES)
    assert found["oiii_over_hb_at_ha"].value == pytest.approx(1.06, abs=0.1)
    assert found["sii_over_ha"].value == pytest.approx(2.1, abs=0.25)


def test_without_a_velocity_forbidden_lines_are_looked_for_at_rest() -> None:
    only = emission([(5006.84, 0.0)], fwhm=250.0)
    found = measure(["ha_velocity", "oiii5007_at_ha"], only, BUILTIN_INDICES)
    assert found["ha_velocity"].value is None
    assert found["oiii5007_at_ha"].value is not None
    assert found["oiii5007_at_ha"].value < -10


def test_helium_beside_a_broad_hb_is_no_oxygen() -> None:
    """He I 5016 lies 10 Å from [O III] 5007; in a disc both helium and hydrogen are 1,200 km/s wide."""
    nova = emission([(6562.80, 60.0), (4861.35, 60.0), (4921.93, 60.0)], fwhm=1200.0)
    weak = emission([(5015.68, 60.0), (6678.15, 60.0)], fwhm=1200.0, height=0.45)
    both = nova.replace(flux=nova.flux + weak.flux - 1.0)
    found = measure(["oiii_over_hb_at_ha", "sii_over_ha"], both, BUILTIN_INDICES)
    assert found["oiii_over_hb_at_ha"].value < 0.2
    assert found["sii_over_ha"].value < 0.05
