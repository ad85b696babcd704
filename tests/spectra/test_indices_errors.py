"""Errors of indices against simulated noise, formulas that share pixels above all, and bands worked out together."""

from __future__ import annotations

import numpy as np
import pytest
from index_lab import LINE, gaussian, sloped, spectrum

from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import FormulaIndex, Index, LineIndex, Meter, RatioIndex, measure
from specvet.spectra.pixels import Pixels

OVERLAP = LineIndex("over", "over", (6550.0, 6580.0), ((6500.0, 6552.0), (6578.0, 6620.0)))
"""Its sides reach into its band, as those of Mg b do."""
A = RatioIndex("a", "a", (6400.0, 6430.0), ((6500.0, 6506.0),))
B = RatioIndex("b", "b", (6450.0, 6480.0), ((6500.0, 6506.0),))
CORE = LineIndex("core", "core", (6558.0, 6568.0), LINE.sides)
INDICES: dict[str, Index] = {
    i.key: i
    for i in (
        LINE, OVERLAP, A, B, CORE,
        FormulaIndex("sum", "sum", "a + b"),
        FormulaIndex("difference", "difference", "a - b"),
        FormulaIndex("share", "share", "core / line"),
        FormulaIndex("nested", "nested", "2 * difference + sum"),
        FormulaIndex("zero", "zero", "a - a"),
    )
}  # fmt: skip


def simulated(n: int = 600) -> dict[str, tuple[float, float]]:
    """Scatter over seeds and median stated error, by index."""
    w = np.arange(6300.0, 6800.0, 1.4)
    rng = np.random.default_rng(11)
    flux = sloped(w) * (1 - gaussian(w, 6562.8, 14.0, 8.0))
    found: dict[str, list[tuple[float, float]]] = {key: [] for key in INDICES}
    for _ in range(n):
        s = Spectrum(w, flux + rng.normal(0, 0.5, w.size), np.full(w.size, 4.0), medium="air")
        for key, m in measure(INDICES, s, INDICES).items():
            assert m.value is not None
            found[key].append((m.value, m.error or 0.0))
    return {key: (float(np.std([v for v, _ in x])), float(np.median([e for _, e in x]))) for key, x in found.items()}


def test_stated_errors_are_the_scatter_that_noise_makes() -> None:
    for key, (scatter, stated) in simulated().items():
        if key == "zero":
            assert scatter == stated == 0.0
        else:
            # Medians of continua are taken to scatter by √(π/2) more than means, which few pixels do not quite do.
            assert stated == pytest.approx(scatter, rel=0.12), key


def test_parts_with_one_reference_move_together() -> None:
    """Taken as independent, the error of a sum would be as large as that of a difference."""
    w = np.arange(6300.0, 6800.0, 1.0)
    found = measure(INDICES, spectrum(w, np.ones(w.size), 20.0), INDICES)
    assert found["sum"].error > 1.5 * found["difference"].error
    a, b = found["a"].error, found["b"].error
    assert found["sum"].error > np.hypot(a, b) > found["difference"].error
    dwarf = measure(["cah_excess"], spectrum(np.arange(6000.0, 7300.0, 1.0), np.ones(1300), 20.0), BUILTIN_INDICES)
    parts = np.hypot(np.hypot(dwarf["cah2"].error, dwarf["cah3"].error), 1.19 * dwarf["tio5"].error)
    assert dwarf["cah_excess"].error < 0.8 * parts


def test_bands_worked_out_together_are_what_each_is_alone() -> None:
    w = 10 ** np.arange(np.log10(3800.0), np.log10(9000.0), 1e-4)
    rng = np.random.default_rng(5)
    flux = 5 + np.sin(w / 40) + rng.normal(0, 0.3, w.size)
    ivar = np.where(rng.random(w.size) < 0.1, 0.0, 11.0)
    uneven = np.sort(np.unique(np.concatenate([w[::7], w[1000:2200:2]])))
    for s in (
        Spectrum(w, flux, ivar, medium="vacuum"),
        Spectrum(w, flux, medium="air"),
        Spectrum(w[:2000], flux[:2000], ivar[:2000]),
        Spectrum(uneven, np.interp(uneven, w, flux), medium="air"),
    ):
        together = measure(BUILTIN_INDICES, s, BUILTIN_INDICES)
        for name in BUILTIN_INDICES:
            alone = measure([name], s, BUILTIN_INDICES)[name]
            assert (alone.value is None) == (together[name].value is None)
            assert alone.note == together[name].note
            if alone.value is not None:
                assert together[name].value == pytest.approx(alone.value, rel=1e-9, abs=1e-9)
                assert together[name].error == pytest.approx(alone.error, rel=1e-9)
        one_by_one, prepared = Pixels(s), Pixels(s)
        sides = [side for i in BUILTIN_INDICES.values() if isinstance(i, LineIndex) for side in i.sides]
        with np.errstate(all="ignore"):
            prepared.prepare([], sides)
            for side in sides:
                if one_by_one.coverage(side) < 0.4:
                    continue
                level, same = one_by_one.level(side), prepared.level(side)
                assert (level.wavelength, level.value, level.error) == pytest.approx(
                    (same.wavelength, same.value, same.error), rel=1e-12
                )


def test_a_meter_remembers_what_it_measured_and_keeps_names_of_tasks_apart() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    meter = Meter(Pixels(spectrum(w, sloped(w) * (1 - gaussian(w, 6562.8, 14.0, 8.0)), 50.0)))
    first = meter.measure(["line", "share"], INDICES)
    assert meter.measure(["line"], INDICES)["line"] is first["line"]
    other = {**INDICES, "core": A}  # another task calls another index by the same name
    assert meter.measure(["share"], other)["share"].value == pytest.approx(
        meter.measure(["a"], INDICES)["a"].value / first["line"].value
    )
    assert meter.measure(["share"], INDICES)["share"] == first["share"]


def test_windows_narrower_than_what_is_resolved_are_noted() -> None:
    w = np.arange(6900.0, 7200.0, 1.0)
    for resolution, seen in ((1000.0, True), (3000.0, False), (None, False)):
        s = spectrum(w, np.ones(w.size), 50.0, medium="vacuum", resolution=resolution)
        note = measure(["tio5"], s, BUILTIN_INDICES)["tio5"].note
        assert ("7044-7048 Å is narrower than the resolution element of 7.0 Å" in note) == seen
    coarse = np.arange(6900.0, 7200.0, 5.0)
    found = measure(["tio5"], spectrum(coarse, np.ones(coarse.size), 50.0, medium="vacuum"), BUILTIN_INDICES)["tio5"]
    assert "7044-7048 Å holds fewer than 3 pixels" in found.note


def test_every_built_in_index_names_its_source() -> None:
    for index in BUILTIN_INDICES.values():
        assert index.source
    for key, source in (("tio5", "Reid"), ("zro_6474", "Keenan"), ("c2_5165", "Barnbaum"), ("vo_a", "Kirkpatrick")):
        assert source in BUILTIN_INDICES[key].source
