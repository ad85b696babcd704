"""A model vets many spectra at a time, and the batch runner's promises hold: every decision on disk as soon as it is
made, a resumed run that equals an uninterrupted one, an error that is its row's own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runner_lab as lab
from test_runner import reads

sys.path.insert(0, str(Path(__file__).parents[1] / "agent"))

import rollout_lab as roll

from specvet.agent import Engine
from specvet.agent.readings import p_yes_of
from specvet.policies.tokens import PolicyError
from specvet.records import RunFolder, RunMismatchError
from specvet.records.schema import Answer, StopReason
from specvet.tasks import builtin_tasks
from specvet.vetting.items import Item
from specvet.vetting.runner import vet
from specvet.vetting.watch import Progress, VetSummary


def vetted(
    out: Path,
    items: list[Item],
    policy: roll.Scripted | None = None,
    *,
    concurrency: int = 4,
    tasks: list[Any] | None = None,
    guard: bool = False,
    **more: Any,
) -> VetSummary:
    policy = policy or roll.Scripted(roll.gambler)
    with (
        RunFolder.open(out) as run,
        Engine(policy, concurrency=concurrency, guard=guard) as engine,
    ):
        return vet(items, tasks or lab.TASKS, engine, run, concurrency=concurrency, style="compact", **more)


def rows(out: Path) -> dict[tuple[str, int, str], Any]:
    """What a run holds by (file, row, task), without times."""
    found = {(r["file"], r["row"], r["task"]): r for r in lab.results(out)}
    assert len(found) == len(lab.results(out))
    return found


def test_so_many_spectra_are_under_way_at_a_time(tmp_path: Path) -> None:
    names = lab.write_spectra(tmp_path / "data", 6)
    met, there = set[int](), asyncio.Event()

    async def meet(asked: roll.Asked) -> None:
        """Goes on when four sequences wait here: one after the other they would wait for ever."""
        met.add(asked.stream[0])
        if len(met) >= 4:
            there.set()
        await asyncio.wait_for(there.wait(), 60)

    summary = vetted(tmp_path / "run", lab.files_of(names), roll.Scripted(roll.turns(roll.answer()), before=meet))
    assert (summary.decided, summary.errors, summary.interrupted) == (12, 0, False)
    assert summary.counts == {"cv": {"YES": 6}, "wd": {"YES": 6}}


def test_every_decision_is_on_disk_when_it_is_told(tmp_path: Path) -> None:
    names, told = lab.write_spectra(tmp_path / "data", 3), []

    def look(progress: Progress) -> None:
        with RunFolder.read(tmp_path / "run") as run:
            told.append((progress.decided, sum(1 for _ in run.decisions()), progress.items))

    vetted(tmp_path / "run", lab.files_of(names), progress=look)
    assert all(decided == kept for decided, kept, _ in told)
    assert {decided for decided, _, _ in told} == set(range(1, 7))
    assert told[-1] == (6, 6, 3)  # an entry counts as done when its last decision is made
    assert [items for _, _, items in told] == sorted(items for _, _, items in told)


@pytest.mark.parametrize("after", [1, 5])
def test_stopping_finishes_what_is_under_way_and_a_resume_equals_one_run(tmp_path: Path, after: int) -> None:
    items = [*lab.files_of(lab.write_spectra(tmp_path / "data", 5)), Item(lab.write_rows(tmp_path / "many.npz", 4))]
    items.append(Item("gone.fits"))
    vetted(tmp_path / "whole", items, concurrency=3)
    stop = threading.Event()

    def ask_to_stop(progress: Progress) -> None:
        if progress.decided >= after:
            stop.set()

    first = vetted(tmp_path / "run", items, progress=ask_to_stop, stop=stop, concurrency=3)
    assert first.interrupted
    assert after <= first.decided < 19
    second = vetted(tmp_path / "run", items, concurrency=3)
    assert (second.interrupted, first.decided + second.decided) == (False, 19)
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def test_a_resume_asks_and_opens_nothing_that_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [*lab.files_of(lab.write_spectra(tmp_path / "data", 2)), Item(lab.write_rows(tmp_path / "many.npz", 3))]
    vetted(tmp_path / "run", items)
    opened, policy = reads(monkeypatch), roll.Scripted(roll.gambler)
    again = vetted(tmp_path / "run", items, policy)
    assert (again.decided, again.skipped, opened, policy.requests) == (0, 10, [], [])


def test_what_comes_twice_while_it_is_under_way_is_vetted_once(tmp_path: Path) -> None:
    name, many = lab.write_spectra(tmp_path / "data", 1)[0], lab.write_rows(tmp_path / "many.npz", 2)
    items = [Item(name), Item(name), Item(many, row=1), Item(many), Item(many, row=1)]
    gate = asyncio.Event()

    async def wait(asked: roll.Asked) -> None:
        await asyncio.wait_for(gate.wait(), 60)

    class Opening(list[Item]):
        def __iter__(self):
            yield from list.__iter__(self)
            engine.start(_set(gate)).result()

    policy = roll.Scripted(roll.turns(roll.answer()), before=wait)
    with RunFolder.open(tmp_path / "run") as run, Engine(policy, concurrency=16) as engine:
        summary = vet(Opening(items), lab.TASKS, engine, run, concurrency=16, style="compact")
    assert (summary.decided, summary.duplicates, summary.skipped) == (6, 3, 0)
    assert len(policy.requests) == 6


async def _set(gate: asyncio.Event) -> None:
    gate.set()


def test_a_file_is_not_marked_as_finished_by_an_entry_that_waits_for_another(tmp_path: Path) -> None:
    many = lab.write_rows(tmp_path / "many.npz", 3)
    stop, policy = threading.Event(), roll.Scripted(roll.gambler)
    items = [Item(many), Item(many)]

    def ask_to_stop(progress: Progress) -> None:
        stop.set()

    vetted(tmp_path / "run", items, policy, concurrency=1, progress=ask_to_stop, stop=stop)
    assert vetted(tmp_path / "run", items, concurrency=1).interrupted is False
    assert {key[1:] for key in rows(tmp_path / "run")} == {(row, task) for row in range(3) for task in ("cv", "wd")}


def test_what_one_spectrum_breaks_is_its_own_and_what_all_would_meet_ends_the_batch(tmp_path: Path) -> None:
    names = lab.write_spectra(tmp_path / "data", 4)

    def failing(error: Exception, at: int) -> Callable[[roll.Asked], Any]:
        seen: list[int] = []

        async def fail(asked: roll.Asked) -> None:
            seen.append(asked.turn)
            if len(seen) == at:
                raise error

        return fail

    broken = roll.Scripted(roll.turns(roll.answer()), before=failing(PolicyError("this one"), 3))
    summary = vetted(tmp_path / "own", lab.files_of(names), broken, concurrency=2)
    assert summary.counts["cv"].get("FAILED", 0) + summary.counts["wd"].get("FAILED", 0) == 1
    assert (summary.decided, summary.interrupted) == (8, False)
    gone = roll.Scripted(roll.turns(roll.answer()), before=failing(PolicyError("gone", fatal=True), 5))
    with pytest.raises(PolicyError, match="gone"):
        vetted(tmp_path / "all", lab.files_of(names), gone, concurrency=1)
    with RunFolder.read(tmp_path / "all") as run:
        assert [d.verdict.answer for d in run.decisions()] == [Answer.YES] * 4
    assert vetted(tmp_path / "all", lab.files_of(names), roll.Scripted(roll.turns(roll.answer()))).decided == 4


def test_confidence_is_the_raw_probability_of_the_word_and_the_trajectory_stays_as_it_was_said(tmp_path: Path) -> None:
    names = lab.write_spectra(tmp_path / "data", 1)
    for word in ("YES", "NO"):
        out = tmp_path / word
        vetted(out, lab.files_of(names), roll.Scripted(roll.turns(roll.look(), roll.answer(word))), tasks=lab.TASKS[:1])
        with RunFolder.read(out) as run:
            (made,) = run.decisions(with_trajectories=True)
        assert made.trajectory is not None
        p = p_yes_of(made.trajectory)
        assert p is not None
        assert made.verdict.answer == word
        assert made.verdict.p_yes == pytest.approx(p, abs=1e-6)
        assert made.verdict.confidence == pytest.approx(p if word == "YES" else 1 - p, abs=1e-6)
        assert (made.trajectory.verdict.p_yes, made.trajectory.verdict.confidence) == (None, None)


def test_a_policy_without_log_probs_gives_no_confidence(tmp_path: Path) -> None:
    names = lab.write_spectra(tmp_path / "data", 1)
    blind = roll.Scripted(roll.turns(roll.answer()), capabilities=frozenset({"ids", "images"}))
    vetted(tmp_path / "run", lab.files_of(names), blind)
    with RunFolder.read(tmp_path / "run") as run:
        assert {(d.verdict.answer, d.verdict.confidence) for d in run.decisions()} == {(Answer.YES, None)}


def test_the_program_says_what_a_model_need_not_be_asked(tmp_path: Path) -> None:
    w = np.arange(3800.0, 9000.0, 2.0)
    noise = 0.02 * np.random.default_rng(0).normal(size=w.size)
    spectra = {"filled": np.full(w.size, 5.0), "smooth": w / 5000 + noise, "blue-only": w / 5000 + noise}
    for name, flux in spectra.items():
        keep = w < 4200 if name == "blue-only" else w > 0
        np.savetxt(tmp_path / f"{name}.txt", np.column_stack([w, flux])[keep], fmt="%.5f")
    tasks, policy = [builtin_tasks()[key] for key in ("wd", "gm")], roll.Scripted(roll.turns(roll.answer()))
    vetted(tmp_path / "run", [Item(str(tmp_path / f"{n}.txt")) for n in spectra], policy, tasks=tasks, guard=True)
    with RunFolder.read(tmp_path / "run") as run:
        made = {(Path(d.file).stem, d.task): d for d in run.decisions(with_trajectories=True)}
        assert run.settings["guard"] == "guard-1"
    assert {key: str(d.verdict.answer) for key, d in made.items()} == {
        ("filled", "wd"): "NO_DATA",
        ("filled", "gm"): "NO_DATA",
        ("smooth", "wd"): "UNSURE",
        ("smooth", "gm"): "YES",  # this one was asked
        ("blue-only", "wd"): "NO_DATA",
        ("blue-only", "gm"): "NO_DATA",
    }
    assert made["filled", "wd"].verdict.reason == "median S/N unknown a pixel, the task asks for 2"
    assert "DC white dwarf or a BL Lac" in made["smooth", "wd"].verdict.reason
    assert made["smooth", "wd"].trajectory is not None
    assert made["smooth", "wd"].trajectory.stop is StopReason.NOT_ASKED
    assert made["smooth", "wd"].verdict.confidence is None
    assert len(policy.requests) == 1
    with pytest.raises(RunMismatchError, match="guard"), RunFolder.open(tmp_path / "run") as run:
        run.settle({"guard": "guard-0"})
