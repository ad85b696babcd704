"""Spectra with their features gone, and a run's finds asked about once more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import runner_lab as lab

from specvet.agent import Budget
from specvet.policies import Action, Answered, Trajectory
from specvet.policies.line_indices import LineIndices
from specvet.records import RunFolder
from specvet.records.schema import Answer, Verdict
from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import measure
from specvet.vetting.blanking import WAYS, Blank, blanked
from specvet.vetting.blanks import Asked, blank_finds, finds_of, flagged_in, note_flags
from specvet.vetting.runner import vet
from specvet.views import REFERENCE_STYLE

GRID = np.arange(3800.0, 9000.0, 1.5)


def star(ivar: bool = True) -> Spectrum:
    """SIMULATED: a red star with TiO-like drops, strong Hα and a stretch of bad pixels; S/N 40."""
    flux = (GRID / 6000.0) ** 2.5 * np.where((GRID > 7055.0) & (GRID < 7300.0), 0.5, 1.0)
    flux *= 1.0 + 2.0 * np.exp(-0.5 * ((GRID - 6564.6) / 12.0) ** 2)
    sigma = 0.025 * flux
    errors = sigma**-2
    bad = (GRID > 5000.0) & (GRID < 5050.0)
    noisy = flux + np.random.default_rng(5).normal(size=GRID.size) * sigma
    return Spectrum(
        wavelength=GRID,
        flux=np.where(bad, 999.0, noisy) if ivar else noisy,
        ivar=np.where(bad, 0.0, errors) if ivar else None,
        medium="vacuum",
        id="SIMULATED",
    )


@pytest.mark.parametrize("way", WAYS)
def test_lines_and_bands_are_gone_and_the_noise_stays(way: Blank) -> None:
    s = star()
    b = blanked(s, way)
    for key, before in (("ha", 40.0), ("tio5", 0.3)):
        was, now = (measure((key,), one, BUILTIN_INDICES)[key] for one in (s, b))
        assert was.value is not None
        assert now.value is not None
        flat = 1.0 if key == "tio5" else 0.0
        assert abs(was.value - flat) > before
        assert abs(now.value - flat) < 5.0 * (now.error or 0.0)
    assert b.snr == pytest.approx(s.snr, rel=0.25)
    assert np.array_equal(b.flux[s.ivar == 0.0], s.flux[s.ivar == 0.0])
    assert b.warnings[-1].startswith("BLANKED")
    red, blue = (float(np.median(b.flux[np.abs(GRID - x) < 150.0])) for x in (8150.0, 4150.0))
    assert red / blue == pytest.approx(5.3 if way == "smooth" else 1.0, rel=0.1)  # (8150 / 4150)^2.5


def test_blanking_is_the_same_every_time_and_another_with_another_seed() -> None:
    s = star()
    assert np.array_equal(blanked(s, "smooth").flux, blanked(s, "smooth").flux)
    assert not np.array_equal(blanked(s, "smooth").flux, blanked(s, "smooth", seed=1).flux)


def test_without_errors_the_noise_is_that_between_pixels_and_nothing_is_made_of_nothing() -> None:
    s = star(ivar=False)
    assert blanked(s, "level").snr == pytest.approx(s.snr, rel=0.5)
    empty = s.replace(flux=np.full(GRID.size, np.nan))
    assert np.isnan(blanked(empty, "smooth").flux).all()
    assert np.isfinite(blanked(s.replace(flux=-np.abs(s.flux)), "smooth").flux).all()


class Credulous(LineIndices):
    """Says YES of everything."""

    name = "credulous"

    def act(self, trajectory: Trajectory) -> Action:
        return Answered(Verdict(answer=Answer.YES, confidence=0.9, p_yes=0.9, reason="Hα emission."))


@pytest.mark.parametrize(("policy", "flagged"), [(Credulous(), 3), (lab.Steady(), None)])
def test_who_says_yes_of_a_blank_is_flagged_in_the_run(tmp_path: Path, policy: lab.Steady, flagged: int | None) -> None:
    names = lab.write_spectra(tmp_path / "data", 3)
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), lab.TASKS[:1], policy, run)
        finds = finds_of(run)
    asked = Asked(policy, "careful", Budget(), REFERENCE_STYLE, None, None)
    counts = blank_finds(tmp_path / "run", finds, {"cv": lab.TASKS[0]}, ["smooth"], lambda _: asked)
    flags = flagged_in(tmp_path / "run")
    assert counts[0].finds == len(finds["cv"])
    assert counts[0].flagged == len(flags) == (len(flags) if flagged is None else flagged)
    assert all(ways == ("smooth",) for ways in flags.values())
    again = blank_finds(tmp_path / "run", finds, {"cv": lab.TASKS[0]}, ["smooth"], lambda _: asked)
    assert again == counts
    note_flags(tmp_path / "run", counts)
    with RunFolder.read(tmp_path / "run") as run:
        told = [e.text for e in run.events() if e.kind == "blank"]
        assert told == [f"cv: {len(flags)} of {counts[0].finds} finds are YES still with features gone (smooth)"]
    with RunFolder.read(tmp_path / "run" / "blank" / "smooth") as run:
        assert all("BLANKED (smooth)" in w for d in run.decisions() for w in d.warnings[-1:])
        assert run.settings["blank"] == "smooth, seed 0"


def test_a_run_that_was_never_checked_has_no_flags(tmp_path: Path) -> None:
    assert flagged_in(tmp_path) == {}
