"""Measuring a run again for triage: in several processes, once and for all, whoever is killed on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import measuring_lab
import numpy as np
import pytest
from runner_lab import Steady
from triage_lab import exact

from specvet.records import RunFolder
from specvet.tasks import load_task
from specvet.vetting.items import Item
from specvet.vetting.runner import vet
from specvet.vetting.triage import Settings, sort_run
from specvet.vetting.triage.calibration import Feature
from specvet.vetting.triage.looks import Measuring
from specvet.vetting.triage.measuring import AT_ONCE, Remeasuring

STARS = 2 * AT_ONCE + 5
WEIGHED = (Feature(name="index", mean=0.0, scale=1.0, missing=False),)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a policy that does not measure, over SIMULATED spectra with more and more Hα; one file is gone."""
    folder = tmp_path_factory.mktemp("measuring")
    wavelength = np.arange(3_800.0, 8_500.0, 3.0)
    files = [folder / f"{i}.txt" for i in range(STARS)]
    for i, file in enumerate(files):
        flux = 1.0 + 0.02 * np.random.default_rng(i).normal(size=wavelength.size)
        for line in (6562.8, 4861.3, 4340.5):
            flux += (i / STARS) * np.exp(-0.5 * ((wavelength - line) / 8.0) ** 2)
        np.savetxt(file, np.column_stack([wavelength, flux]), fmt="%.5f")
    with RunFolder.open(folder / "RUN", config={"policy": "steady"}) as made:
        vet([Item(str(file)) for file in files], [load_task("cv"), load_task("wd")], Steady(), made)
    files[7].unlink()
    return folder / "RUN"


@pytest.fixture(scope="module")
def plain(run: Path) -> list[dict[str, float]]:
    """What is measured of each decision, without keeping anything."""
    with RunFolder.read(run) as folder:
        look = Measuring(folder)
        return [dict(look(d)) for d in folder.decisions(with_trajectories=True)]


def measured(run: Path, **more: Any) -> tuple[list[dict[str, float]], Remeasuring]:
    with RunFolder.read(run) as folder:
        look = Remeasuring(folder, **more)
        return [dict(look(d)) for d in look.through(folder.decisions(with_trajectories=True))], look


@pytest.fixture
def own(run: Path, tmp_path: Path) -> Path:
    """The run without what was measured of it before."""
    for file in (run / "triage").glob("measured.db*"):
        file.unlink()
    return run


@pytest.mark.parametrize("processes", [1, 2])
def test_each_decision_is_measured_once_and_a_second_session_measures_nothing(
    own: Path, plain: list[dict[str, float]], processes: int
) -> None:
    found, look = measured(own, processes=processes)
    assert found == plain
    assert [bool(f) for f in found].count(False) == 2  # both tasks of the file that is gone
    assert (look.measured, look.unreadable > 0) == (2 * STARS - 2, True)
    again, look = measured(own, processes=processes)
    assert again == plain
    assert look.measured == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_what_was_measured_before_a_kill_is_kept_and_the_rest_is_measured(
    own: Path, plain: list[dict[str, float]], processes: int
) -> None:
    at = 3 * AT_ONCE
    died = subprocess.run(
        [sys.executable, measuring_lab.__file__, str(own), str(processes), str(at)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    found, look = measured(own)
    assert found == plain
    # What came through was on disk, but for the file that is gone; workers may have been further.
    assert 0 < look.measured <= 2 * STARS - 2 - (at - 2)


def test_closing_early_keeps_what_was_measured(own: Path) -> None:
    with RunFolder.read(own) as folder:
        look = Remeasuring(folder)
        through = look.through(folder.decisions(with_trajectories=True))
        for _ in range(AT_ONCE + 1):
            next(through)
        through.close()
    assert look.measured == 2 * AT_ONCE - 2
    assert measured(own)[1].measured == 2 * STARS - 2 * AT_ONCE


def test_what_was_made_otherwise_or_asked_anew_is_measured_anew(own: Path, plain: list[dict[str, float]]) -> None:
    assert measured(own)[1].measured == 2 * STARS - 2
    assert measured(own, claims=False)[0] == plain  # a policy without words claims nothing
    assert measured(own)[1].measured == 0
    with RunFolder.read(own) as folder:
        look = Remeasuring(folder)
        first = next(iter(folder.decisions(with_trajectories=True)))
        assert first.trajectory is not None
        anew = first.model_copy(
            update={"trajectory": first.trajectory.model_copy(update={"started": "2026-12-31T00:00:00Z"})}
        )
        assert list(look.through([anew])) == [anew]
    assert look.measured == 1


def test_a_run_that_cannot_be_written_is_measured_all_the_same(own: Path, plain: list[dict[str, float]]) -> None:
    for file in sorted((own / "triage").glob("*")):
        file.unlink()
    (own / "triage").rmdir()
    (own / "triage").write_text("in the way")
    try:
        assert measured(own)[0] == plain
    finally:
        (own / "triage").unlink()


@pytest.mark.parametrize("damage", [b"", b"no database", b"SQLite format 3\0" + 200 * b"x"])
def test_damaged_measurements_are_made_anew_and_kept(own: Path, plain: list[dict[str, float]], damage: bytes) -> None:
    measured(own)
    file = own / "triage" / "measured.db"
    file.write_bytes(damage)
    assert measured(own)[0] == plain
    assert measured(own)[1].measured == 0


def test_measurements_damaged_in_their_middle_are_made_anew(own: Path, plain: list[dict[str, float]]) -> None:
    measured(own)
    file = own / "triage" / "measured.db"
    content = bytearray(file.read_bytes())
    content[4_096:] = os.urandom(len(content) - 4_096)
    file.write_bytes(content)
    assert measured(own)[0] == plain
    assert measured(own)[1].measured == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_a_spectrum_that_changed_since_the_policy_saw_it_is_not_measured_and_that_is_told(
    own: Path, processes: int
) -> None:
    file = own.parent / "3.txt"
    before = file.read_bytes()
    wavelength, flux = np.loadtxt(file).T
    np.savetxt(file, np.column_stack([wavelength, flux + 0.01]), fmt="%.5f")
    try:
        found, look = measured(own, processes=processes)
        assert (look.unreadable, found[6:8]) == (4, [{}, {}])  # two tasks of this file, and of the one that is gone
        with RunFolder.read(own) as folder:
            told = sort_run(folder, exact(policy="steady", features=WEIGHED), Settings(prevalence={"*": 0.1}))
        assert "4 answers could not be measured again: their spectra are gone, cannot be read, or" in told.notices[-2]
    finally:
        file.write_bytes(before)


def test_one_process_measures_a_run_that_was_made_anew_in_the_same_folder_as_it_is(own: Path, tmp_path: Path) -> None:
    """A notebook that vets and sorts, changes a spectrum, and vets and sorts again."""
    spectrum, folder = tmp_path / "s.txt", tmp_path / "RUN"
    found = []
    for peak in (0.0, 1.0):
        wavelength, flux = np.loadtxt(own.parent / "0.txt").T
        np.savetxt(spectrum, np.column_stack([wavelength, flux + peak * np.exp(-(((wavelength - 6_563) / 8.0) ** 2))]))
        with RunFolder.open(folder, config={"policy": "steady"}) as made:
            vet([Item(str(spectrum))], [load_task("cv")], Steady(), made)
        found.append(measured(folder)[0][0]["index"])
        shutil.rmtree(folder)
    assert found[1] > found[0] + 1.0
