"""`measure_line` where other lines crowd the continuum: which dip is the line, what errors hold, what is refused."""

from __future__ import annotations

import csv
import functools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from index_lab import C, gaussian
from numpy.typing import NDArray

import specvet
from specvet.spectra import LineMeasurement, Medium, Spectrum, lines_of, measure_line
from specvet.spectra.lines import air_to_vacuum

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"
shared = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}"),
]
HA = 6562.80
W = 10 ** np.arange(math.log10(6350.0), math.log10(6780.0), 1e-4)


def spectrum(flux: NDArray[np.float64], snr: float = 200.0, seed: int = 0, medium: Medium = "air") -> Spectrum:
    noise = np.random.default_rng(seed).normal(0, 1 / snr, W.size)
    return Spectrum(W, flux + noise, np.full(W.size, snr**2), medium=medium, resolution=1800.0)


def crowd(seed: int, depth: float, away: float = 12.0) -> NDArray[np.float64]:
    """Metal lines at random places that keep `away` Å from Hα: 1 is the continuum between them."""
    rng = np.random.default_rng(seed)
    flux = np.ones(W.size)
    for at in rng.uniform(6350.0, 6780.0, 45):
        if abs(at - HA) > away:
            flux -= gaussian(W, at, 4.5, float(rng.uniform(0.2, 1.0)) * depth * 4.8)
    return flux


@pytest.mark.parametrize("z", [0.0, 0.0003, -0.0003])
def test_a_dip_is_measured_without_its_neighbours(z: float) -> None:
    at = HA * (1 + z)
    flux = 1 - gaussian(W, at, 6.0, 3.0) - gaussian(W, at + 17.0, 5.0, 2.0) - gaussian(W, at - 21.0, 5.0, 2.2)
    m = measure_line(spectrum(flux), "Hα")
    assert m.kind == "absorption"
    assert m.velocity.value == pytest.approx(C * z, abs=8.0)
    assert m.fwhm.value == pytest.approx(6.0, rel=0.1)


def test_a_deeper_neighbour_farther_away_is_not_the_line() -> None:
    flux = 1 - gaussian(W, HA, 6.0, 2.0) - gaussian(W, HA + 26.0, 6.0, 3.2)
    assert measure_line(spectrum(flux), "Hα").velocity.value == pytest.approx(0.0, abs=8.0)


def test_a_neighbour_that_merges_above_half_depth_makes_the_width_a_lower_limit() -> None:
    flux = 1 - gaussian(W, HA, 6.0, 3.0) - gaussian(W, HA + 7.5, 6.0, 2.6)
    m = measure_line(spectrum(flux, 400.0), "Hα")
    assert "a lower limit: a neighbour merges below" in m.fwhm.note
    assert 2.0 < m.fwhm.value < 6.5
    assert m.velocity.value == pytest.approx(0.0, abs=40.0)


def test_velocities_among_metal_lines_are_right_within_their_errors() -> None:
    pulls = []
    for seed in range(60):
        m = measure_line(spectrum(crowd(seed, 0.15) - gaussian(W, HA, 6.0, 2.6), 100.0, seed), "Hα")
        if m.velocity.value is not None:
            pulls.append(m.velocity.value / m.velocity.error)
    assert len(pulls) > 30
    assert np.mean(np.abs(pulls) < 3) > 0.95


def test_equivalent_widths_among_metal_lines_hold_what_the_crowd_adds() -> None:
    """Without a line there, what is found is the crowd alone: its error must cover it."""
    pulls, shares, kinds = [], [], []
    for seed in range(80):
        m = measure_line(spectrum(crowd(seed, 0.15, 0.0), 150.0, seed), "Hα")
        pulls.append(m.equivalent_width.value / m.equivalent_width.error)
        shares.append("crowded continuum: ±" in m.equivalent_width.note)
        kinds.append(m.kind)
    assert np.mean(np.abs(pulls) < 3) > 0.95
    assert np.mean(shares) > 0.9
    assert kinds.count("emission") <= 2


def test_a_bent_pseudo_continuum_is_no_emission() -> None:
    """Between two bands of molecules the flux bulges by a tenth of what the side bands hold; Hα absorbs in it."""
    bulge = 0.12 * np.exp(-0.5 * ((W - HA + 6.0) / 22.0) ** 2)
    teeth = 0.06 * np.sign(np.sin((W - 6350.0) / 9.0)) * (np.abs(W - HA) > 35.0)
    bare = measure_line(spectrum(1 + bulge + teeth), "Hα")
    assert (bare.kind, bare.velocity.value) == ("", None)
    assert "not clear of its surroundings" in bare.velocity.note
    m = measure_line(spectrum(1 + bulge + teeth - gaussian(W, HA, 5.0, 2.2)), "Hα")
    assert m.kind == "absorption"
    assert m.velocity.value == pytest.approx(0.0, abs=25.0)


def test_a_sloping_continuum_moves_no_line() -> None:
    slope = 1.0 + 1.2 * (W - HA) / 400.0
    for ew in (3.0, -3.0):
        m = measure_line(spectrum(slope * (1 - gaussian(W, HA, 8.0, ew))), "Hα")
        assert m.velocity.value == pytest.approx(0.0, abs=6.0)
        assert m.equivalent_width.value == pytest.approx(ew, abs=3 * m.equivalent_width.error)


def test_an_emission_core_on_the_flank_of_a_molecular_band_is_seen_with_windows_close_by() -> None:
    """A flank in a side band is no structure that could pass for a narrow core; a sharp head within it would be."""
    flank = 1.0 + 0.3 * np.clip((6556.0 - W) / 12.0, 0, 1)
    m = measure_line(
        spectrum(flank + gaussian(W, HA, 4.0, 1.8)),
        "Hα",
        band=(6554.0, 6572.0),
        sides=((6544.0, 6553.0), (6573.0, 6582.0)),
    )
    assert m.kind == "emission"
    assert m.velocity.value == pytest.approx(0.0, abs=25.0)


def test_weak_lines_have_the_velocity_errors_that_noise_makes() -> None:
    found = []
    for seed in range(400):
        m = measure_line(spectrum(1 - gaussian(W, HA, 5.0, 1.4), 10.0, seed), "Hα")
        if m.velocity.value is not None:
            found.append((m.velocity.value, m.velocity.error))
    values, errors = np.array(found).T
    assert values.size > 100
    assert np.mean(np.abs(values / errors) < 3) > 0.97


def test_what_is_not_detected_has_neither_kind_nor_velocity() -> None:
    found = [measure_line(spectrum(np.ones(W.size), 50.0, seed), "Hα") for seed in range(100)]
    assert sum(m.kind != "" for m in found) <= 1
    assert all(m.velocity.value is None for m in found if not m.kind)


def test_a_single_hot_pixel_is_no_line() -> None:
    flux = np.ones(W.size)
    flux[int(np.abs(W - HA).argmin())] = 4.0
    m = measure_line(spectrum(flux), "Hα")
    assert m.velocity.value is None
    assert "narrower than the resolution element" in m.velocity.note


@pytest.mark.parametrize("truth", ["air", "vacuum"])
def test_an_unknown_medium_is_in_the_velocity_and_can_be_settled(truth: Medium) -> None:
    at = HA if truth == "air" else float(air_to_vacuum(HA))
    flux = 1 - gaussian(W, at, 8.0, 4.0)
    known = measure_line(spectrum(flux, medium=truth), "Hα")
    unknown = measure_line(spectrum(flux, medium="unknown"), "Hα")
    half = 0.5 * (float(air_to_vacuum(HA)) - HA)
    assert unknown.centre.error == pytest.approx(math.hypot(half, known.centre.error), rel=0.1)
    assert abs(unknown.velocity.value) == pytest.approx(41.0, abs=6.0)
    assert abs(unknown.velocity.value) < 1.3 * unknown.velocity.error
    assert "air or vacuum unknown" in unknown.velocity.note
    assert "air or vacuum unknown" in str(unknown)
    settled = measure_line(spectrum(flux, medium="unknown"), "Hα", medium=truth)
    assert settled.velocity == known.velocity
    assert "unknown" not in settled.note


def test_a_line_too_near_to_one_of_its_species_has_no_velocity_of_its_own() -> None:
    w = np.arange(5700.0, 6100.0, 1.0)
    flux = 1 - gaussian(w, 5889.95, 4.0, 1.5) - gaussian(w, 5895.92, 4.0, 1.2)
    s = Spectrum(w, flux, np.full(w.size, 1e4), medium="air", resolution=1800.0)
    assert "not parted from Na D1 5896" in measure_line(s, "Na D2").velocity.note
    fine = np.arange(5700.0, 6100.0, 0.2)
    flux = 1 - gaussian(fine, 5889.95, 1.2, 0.7) - gaussian(fine, 5895.92, 1.2, 0.6)
    sharp = Spectrum(fine, flux, np.full(fine.size, 1e4), medium="air", resolution=8000.0)
    for name in ("Na D2", "Na D1"):
        assert measure_line(sharp, name).velocity.value == pytest.approx(0.0, abs=3.0)


def test_lines_come_by_group() -> None:
    assert [line.name for line in lines_of("CaT")] == ["Ca II 8498", "Ca II 8542", "Ca II 8662"]
    assert [line.name for line in lines_of("Na D")] == ["Na D2 5890", "Na D1 5896"]
    assert {line.species for line in lines_of("[O I]")} == {"[O I]"}
    with pytest.raises(ValueError, match="is no group of lines"):
        lines_of("foo")


@functools.cache
def lamost() -> list[tuple[str, float, Spectrum]]:
    """Type (A to M), velocity of the header (km/s) and spectrum of each LAMOST star above S/N 10."""
    found = []
    with open(SHARED / "manifest.csv", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if not row["path"].startswith("lamost/") or "mrs" in row["path"] or not float(row["snr_median"] or 0) > 10:
                continue
            s = specvet.read(SHARED / row["path"])[0]
            kind = re.match(r"[dg]?([AFGKM])", s.pipeline_subclass or row["subclass"])
            if kind and s.redshift.value is not None and abs(s.redshift.value) < 0.01:
                found.append((kind[1], s.redshift.velocity_km_s or 0.0, s))
    return found


def differences(kind: str, line: str) -> NDArray[np.float64]:
    """Velocity less that of the header, and its error, shape (n_measured, 2)."""
    found = [(cz, measure_line(s, line).velocity) for k, cz, s in lamost() if k == kind]
    return np.array([(v.value - cz, v.error) for cz, v in found if v.value is not None]).reshape(-1, 2)


@pytest.mark.parametrize(
    ("kind", "line", "least", "median", "share"),
    [
        ("F", "Hα", 30, 12.0, 0.85), ("G", "Hα", 33, 10.0, 0.90), ("K", "Hα", 9, 20.0, 0.90),
        ("A", "Hβ", 24, 12.0, 0.85), ("F", "Hβ", 30, 8.0, 0.95), ("G", "Hβ", 30, 8.0, 0.95), ("K", "Hβ", 8, 15.0, 0.90),
        ("F", "Ca II 8542", 25, 15.0, 0.80), ("G", "Ca II 8542", 30, 12.0, 0.85), ("K", "Ca II 8542", 18, 10.0, 0.95),
        # In A stars Pa15 is mixed into 8542, and half depth of Hα lies redward of its core: real, and larger.
        ("A", "Hα", 25, 35.0, 0.70), ("A", "Ca II 8542", 15, 35.0, 0.70),
    ],
)  # fmt: skip
@pytest.mark.parametrize("_", [pytest.param(None, marks=shared, id="lamost")])
def test_velocities_of_survey_stars_are_those_of_their_headers(
    kind: str, line: str, least: int, median: float, share: float, _: None
) -> None:
    """Limits of `line_shape` were set on these stars; MILES, below, was not used for it, but for one M dwarf."""
    found = differences(kind, line)
    assert len(found) >= least
    assert abs(float(np.median(found[:, 0]))) < median
    assert np.mean(np.abs(found[:, 0] / found[:, 1]) < 3) >= share


@pytest.mark.parametrize("_", [pytest.param(None, marks=shared, id="lamost")])
def test_normal_stars_show_no_helium_emission_beyond_4_sigma(_: None) -> None:
    found = [measure_line(s, "He II 4686").equivalent_width for _, _, s in lamost()]
    assert len(found) > 130
    assert sum(m.value < -4 * m.error for m in found if m.value is not None) <= 2


@pytest.mark.parametrize("_", [pytest.param(None, marks=shared, id="miles")])
def test_library_stars_at_rest_are_at_rest(_: None) -> None:
    stars = [specvet.read(path)[0] for path in sorted((SHARED / "templates" / "miles").glob("*V.fits"))]
    for line in ("Hα", "Na D2"):
        found: list[LineMeasurement] = [measure_line(s, line) for s in stars]
        rows = np.array([(m.velocity.value, m.velocity.error) for m in found if m.velocity.value is not None])
        assert len(rows) > 25
        assert abs(float(np.median(rows[:, 0]))) < 8.0
        assert np.mean(np.abs(rows[:, 0] / rows[:, 1]) < 3) > 0.95


@pytest.mark.parametrize("_", [pytest.param(None, marks=shared, id="cv")])
def test_wide_lines_of_cataclysmic_variables_keep_the_width_of_all_their_peaks(_: None) -> None:
    """The line indices take the outermost crossings in any case: both must agree for lines of a disc."""
    from specvet.spectra.index_table import BUILTIN_INDICES
    from specvet.spectra.indices import measure

    ratios = []
    for path in sorted((SHARED / "sdss" / "cv_ascii").glob("*.dat")):
        s = specvet.read(path)[0]
        m, index = measure_line(s, "Hα"), measure(["ha_width"], s, BUILTIN_INDICES)["ha_width"]
        if m.kind == "emission" and index.value is not None:
            ratios.append(m.fwhm_km_s.value / index.value)
    assert len(ratios) > 95
    assert np.mean(np.abs(np.array(ratios) - 1) < 0.03) > 0.97
