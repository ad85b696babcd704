"""Molecular bands: heads where the atlases have them, edges on the right side, strength neither lost nor won."""

import numpy as np
import pytest

from specvet.data.simulate.molecular_constants import SYSTEMS, System
from specvet.data.simulate.molecules import TEMPERATURES, cross_section, franck_condon, heads, origins, scaled
from specvet.data.simulate.physics import vacuum
from specvet.data.simulate.source import GRID, STEP


def system(molecule: str, name: str) -> System:
    return next(s for s in SYSTEMS[molecule] if s.name.startswith(name))


@pytest.mark.parametrize(
    ("molecule", "name", "band", "air", "within"),
    [
        ("C2", "Swan", (1, 0), 4737.1, 1.0),
        ("C2", "Swan", (2, 1), 4715.2, 1.0),
        ("C2", "Swan", (2, 0), 4382.5, 1.5),
        ("C2", "Swan", (0, 1), 5635.5, 1.0),
        ("C2", "Swan", (1, 2), 5585.5, 1.0),
        ("C2", "Swan", (0, 2), 6191.2, 1.0),
        ("C2", "Swan", (1, 3), 6122.1, 1.0),
        ("CN", "violet", (0, 1), 4216.0, 1.0),
        ("CN", "violet", (1, 1), 3871.4, 1.0),
        ("CN", "red", (3, 0), 6926.0, 2.0),
        ("CN", "red", (4, 1), 7089.0, 2.0),
        ("CN", "red", (2, 0), 7876.0, 5.0),
        ("TiO", "α", (1, 0), 4954.6, 1.0),
        ("TiO", "α", (2, 0), 4761.2, 1.0),
        ("TiO", "α", (0, 1), 5448.2, 1.0),
        ("TiO", "γ ", (1, 0), 6651.5, 1.0),
        ("TiO", "γ ", (0, 1), 7589.6, 1.0),
        ("TiO", "γ ", (0, 2), 8206.0, 1.0),
        ("TiO", "δ", (0, 1), 9728.0, 2.0),
        ("VO", "B", (1, 0), 7334.0, 2.0),
        ("VO", "C", (1, 0), 5469.3, 1.0),
        ("ZrO", "α", (1, 0), 4471.0, 2.0),
    ],
)
def test_heads_lie_where_pearse_and_gaydon_have_them(
    molecule: str, name: str, band: tuple[int, int], air: float, within: float
) -> None:
    """None of these was put in: only one band of each system is."""
    assert heads(system(molecule, name), *band)[0] == pytest.approx(vacuum(air), abs=within)


def test_bands_of_13c_move_as_the_isotope_makes_them() -> None:
    swan = system("C2", "Swan")
    one, two = np.sqrt(6.0 / 6.24), np.sqrt(6.0 / 6.5)
    assert heads(swan, 1, 0, one)[0] == pytest.approx(vacuum(4744.5), abs=1.0)
    assert heads(swan, 1, 0, two)[0] == pytest.approx(vacuum(4752.0), abs=1.0)
    assert heads(swan, 0, 2, one)[0] == pytest.approx(vacuum(6168.0), abs=1.0)


def edge(molecule: str, air: float, kelvin: float = 3000.0) -> float:
    """Mean cross-section over 20 Å to the red of a head over that to the blue."""
    head, sigma = vacuum(air), cross_section(molecule, kelvin)
    red, blue = (sigma[np.abs(GRID - head - side * 12.0) < 10.0].mean() for side in (1.0, -1.0))
    return float(red / blue)


@pytest.mark.parametrize(
    ("molecule", "air"),
    [("TiO", 7053.0), ("TiO", 7589.0), ("TiO", 5167.0), ("TiO", 4954.0), ("TiO", 6158.0), ("ZrO", 6474.0),
     ("LaO", 7403.0), ("VO", 7334.0), ("CN", 7875.0), ("CN", 6925.0), ("TiO", 8859.0)],
)  # fmt: skip
def test_oxides_and_red_cn_are_sharp_on_the_blue_side(molecule: str, air: float) -> None:
    assert edge(molecule, air) > 1.7


@pytest.mark.parametrize(
    ("molecule", "air"),
    [("C2", 4382.0), ("C2", 4737.0), ("C2", 5165.0), ("C2", 5635.0), ("CN", 4216.0), ("CN", 3883.0), ("MgH", 5212.0)],
)
def test_swan_bands_and_violet_cn_are_sharp_on_the_red_side(molecule: str, air: float) -> None:
    assert edge(molecule, air, 4000.0) < 0.5


def test_vibrational_overlaps_of_a_level_sum_to_one() -> None:
    swan = system("C2", "Swan")
    overlaps = franck_condon(swan.upper, swan.lower, swan.mu, 4, 12)
    assert overlaps.sum(axis=1) == pytest.approx(np.ones(4), abs=0.02)
    assert overlaps[0, 0] == pytest.approx(0.72, abs=0.03)  # Danylewych & Nicholls 1974: 0.722


def test_the_strength_of_a_system_is_its_oscillator_strength() -> None:
    """Summed over a system that lies within the grid, the cross-section gives πe²/mc² f, at every temperature."""
    wavenumbers = 1e8 / GRID
    for kelvin in TEMPERATURES:
        area = (cross_section("YO", kelvin) * wavenumbers).sum() * STEP * np.log(10.0)
        assert area == pytest.approx(8.8528e-13 * 0.08, rel=0.03)


def test_cross_sections_are_kept_and_cannot_be_changed() -> None:
    first = cross_section("TiO", 2900.0)
    assert cross_section("TiO", 3100.0) is first  # the nearest temperature is 3,000 K
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0
    with pytest.raises(KeyError):
        cross_section("H2O", 3000.0)


def test_every_system_has_heads_or_origins_and_ordinary_states() -> None:
    for molecule, systems in SYSTEMS.items():
        for s in systems:
            assert bool(s.heads) != bool(s.origins), (molecule, s.name)
            assert sum(s.branches) == pytest.approx(4.0)
            assert all(5_000.0 < origin < 35_000.0 for origin in origins(s))
            assert scaled(s.lower, 1.0) == s.lower
