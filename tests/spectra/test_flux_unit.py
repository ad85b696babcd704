"""Units as surveys write them: one function reads them all, `A` is Å and never the ampere."""

from __future__ import annotations

import pytest
from astropy import units as u

from specvet.spectra.units import flux_unit

F_LAMBDA = u.erg / u.s / u.cm**2 / u.AA


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1E-17 erg/cm^2/s/Ang", 1e-17 * F_LAMBDA),
        ("10**-17 erg/(s cm2 Angstrom)", 1e-17 * F_LAMBDA),
        ("10^-17 erg/s/cm^2/A", 1e-17 * F_LAMBDA),
        ("Flux (10^-17 erg/s/cm^2/Ang)", 1e-17 * F_LAMBDA),
        ("1e-17 erg / (Angstrom cm2 s)", 1e-17 * F_LAMBDA),
        ("10(-17) erg/cm2/s/A", 1e-17 * F_LAMBDA),
        ("10-17 ergs/cm2/s/A", 1e-17 * F_LAMBDA),
        ("10⁻¹⁷ erg s⁻¹ cm⁻² Å⁻¹", 1e-17 * F_LAMBDA),
        ("erg /s /cm2 /angstroms", F_LAMBDA),
        ("erg/s/cm**2/Angstrom", F_LAMBDA),
        ("erg.cm-2.s-1.Angstrom-1", F_LAMBDA),
        ("erg/cm^{2}/s/A", F_LAMBDA),
        ("W m-2 um-1", u.W / u.m**2 / u.um),
        ("erg/cm^2/s/Hz", u.erg / u.cm**2 / u.s / u.Hz),
        ("ergs", u.erg),
        ("ADU", u.adu),
        ("counts", u.ct),
        ("Counts/s", u.ct / u.s),
        ("Jy", u.Jy),
        ("mJy", u.mJy),
    ],
)
def test_a_unit_is_what_its_writer_meant(text, unit):
    found = flux_unit(text)
    assert (1 * found).to_value(unit) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "relative flux",
        "DU/PIXEL",
        "unknown",
        "1",
        "erg/s/cm2/(",
        "(((((((",
        "erg^9999",
        "1e400 erg",
        "0 erg",
        "erg **",
        "flux" * 90,
    ],
)
def test_what_is_no_unit_is_none(text):
    assert flux_unit(text) is None


@pytest.mark.parametrize("text", ["10^-17 erg/s/cm^2/A", "erg s-1 cm-2 A-1"])
def test_a_is_never_the_ampere(text):
    assert u.A not in flux_unit(text).decompose().bases
    assert flux_unit(text).is_equivalent(F_LAMBDA)
