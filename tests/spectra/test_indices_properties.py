"""What holds for line indices of any spectrum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from index_lab import LINE, gaussian, sloped, spectrum, value

from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import RatioIndex, measure

W = np.arange(6300.0, 6800.0, 2.0)
RATIO = RatioIndex("r", "r", (6530.0, 6600.0), ((6450.0, 6500.0),))


@given(st.floats(1e-20, 1e20), st.floats(-30, 8), st.booleans())
def test_scaling_the_flux_changes_nothing(scale: float, ew: float, with_ivar: bool) -> None:
    rng = np.random.default_rng(6)
    flux = sloped(W) * (1 - gaussian(W, 6562.8, 12.0, ew)) + rng.normal(0, 0.1, W.size)
    one = spectrum(W, flux, 50.0 if with_ivar else None)
    ivar = None if one.ivar is None else one.ivar / scale**2
    other = Spectrum(W, flux * scale, ivar, medium="air")
    for index in (LINE, RATIO, "ha_width"):
        a, b = value(index, one), value(index, other)
        assert (a.value is None) == (b.value is None)
        if a.value is not None:
            assert b.value == pytest.approx(a.value, rel=1e-9, abs=1e-9)
            assert b.error == pytest.approx(a.error, rel=1e-6)
            assert (a.quality, a.note) == (b.quality, b.note)


ANY = st.floats(width=64) | st.floats(-10, 1000)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_arrays_give_finite_values_or_none_and_never_raise(data: st.DataObject) -> None:
    n = data.draw(st.integers(0, 120))
    steps = data.draw(hnp.arrays(float, n, elements=st.floats(0.01, 300) | st.just(1.0)))
    w = data.draw(st.floats(100, 9000)) + np.cumsum(steps)
    flux = data.draw(hnp.arrays(float, n, elements=ANY))
    ivar = data.draw(st.none() | hnp.arrays(float, n, elements=ANY))
    medium = data.draw(st.sampled_from(["air", "vacuum", "unknown"]))
    s = Spectrum(w, flux, ivar, medium=medium)
    for name, m in measure(BUILTIN_INDICES, s, BUILTIN_INDICES).items():
        assert m.value is None or math.isfinite(m.value), name
        assert m.error is None or (math.isfinite(m.error) and m.error > 0), name
        assert 0.0 <= m.quality <= 1.0
        assert (m.value is None) <= bool(m.note)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_dense_spectrum_of_wild_flux_never_raises(data: st.DataObject) -> None:
    flux = data.draw(hnp.arrays(float, W.size, elements=ANY, fill=st.just(1.0)))
    ivar = data.draw(st.none() | hnp.arrays(float, W.size, elements=ANY, fill=st.just(1.0)))
    for m in measure(["ha", "ha_width"], Spectrum(W, flux, ivar, medium="air"), BUILTIN_INDICES).values():
        assert m.value is None or math.isfinite(m.value)
