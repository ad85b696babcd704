"""A rerun: what is tried again when asked, and what is said of entries that are not what they were."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from pathlib import Path

import pytest
import runner_lab as lab

from specvet.policies import Malformed
from specvet.records import RunFolder, RunMismatchError
from specvet.records.schema import Answer
from specvet.vetting.items import Item
from specvet.vetting.runner import vet
from specvet.vetting.watch import VetSummary
from specvet.views import COMPACT_STYLE, REFERENCE_STYLE


def vetted(out: Path, items: list[Item], policy: lab.Steady | None = None, retry: Answer | None = None) -> VetSummary:
    with RunFolder.open(out) as run:
        if retry:
            run.retry(retry)
        return vet(items, lab.TASKS, policy or lab.Steady(), run)


def answers(out: Path) -> dict[tuple[str, str], str]:
    with RunFolder.read(out) as run:
        return {(Path(d.file).name, d.task): str(d.verdict.answer) for d in run.decisions()}


@pytest.mark.parametrize("kind", ["files", "rows"])
def test_failed_rows_are_made_again_when_asked_and_nothing_else_is(tmp_path: Path, kind: str) -> None:
    if kind == "files":
        items = lab.files_of(lab.write_spectra(tmp_path / "data", 3))
    else:
        name = lab.write_rows(tmp_path / "rows.npz", 3)
        items = [Item(name, row=i) for i in range(3)]
    second = lab.Counting(lambda t: Malformed("gibberish") if t.task.key == "wd" else None)
    first = vetted(tmp_path / "run", items, second)
    assert first.counts["wd"] == {"FAILED": 3}
    before = answers(tmp_path / "run")
    for retry in (None, Answer.ERROR):
        assert vetted(tmp_path / "run", items, retry=retry).decided == 0
    policy = lab.Counting()
    again = vetted(tmp_path / "run", items, policy, retry=Answer.FAILED)
    assert (again.decided, again.skipped) == (3, 3)
    assert all(id.endswith("/wd") for id in policy.asked)
    after = answers(tmp_path / "run")
    assert {k: v for k, v in after.items() if k[1] == "cv"} == {k: v for k, v in before.items() if k[1] == "cv"}
    assert "FAILED" not in after.values()


def test_retried_rows_leave_the_run_as_an_uninterrupted_one_would_be(tmp_path: Path) -> None:
    items = lab.files_of(lab.write_spectra(tmp_path / "data", 4))
    vetted(tmp_path / "plain", items)
    vetted(tmp_path / "run", items, lab.Counting(lambda _: Malformed("gibberish")))
    vetted(tmp_path / "run", items, retry=Answer.FAILED)
    assert lab.results(tmp_path / "run") == lab.results(tmp_path / "plain")


@pytest.mark.parametrize("answer", [Answer.YES, Answer.NO, Answer.UNSURE, Answer.NO_DATA])
def test_a_verdict_cannot_be_tried_again(tmp_path: Path, answer: Answer) -> None:
    with RunFolder.open(tmp_path / "run") as run, pytest.raises(ValueError, match="is a verdict and stands"):
        run.retry(answer)


def test_a_file_that_has_changed_keeps_its_verdict_and_is_named(tmp_path: Path) -> None:
    names = lab.write_spectra(tmp_path / "data", 6)
    items = lab.files_of(names)
    assert vetted(tmp_path / "run", items).n_changed == 0
    before = lab.results(tmp_path / "run")
    same = vetted(tmp_path / "run", items)
    assert (same.n_changed, same.changed, same.skipped) == (0, (), 12)
    for name in names[:5]:
        with open(name, "a", encoding="utf-8") as f:
            f.write("7001.0 1.0\n")
    os.unlink(names[5])  # gone is not changed
    again = vetted(tmp_path / "run", items)
    assert (again.decided, again.skipped, again.n_changed) == (0, 12, 5)
    assert again.changed == tuple(f"{n} has another size or date than when it was vetted" for n in names[:3])
    assert lab.results(tmp_path / "run") == before


def test_a_changed_file_is_named_also_where_another_task_reads_it_again(tmp_path: Path) -> None:
    (name,) = lab.write_spectra(tmp_path / "data", 1)
    with RunFolder.open(tmp_path / "run") as run:
        vet([Item(name)], lab.TASKS[:1], lab.Steady(), run)
    os.utime(name, ns=(1, 1))
    for decided in (1, 0):
        summary = vetted(tmp_path / "run", [Item(name)])
        assert (summary.decided, summary.n_changed) == (decided, 1)


def test_a_z_of_the_list_that_has_changed_keeps_the_verdict_and_is_named(tmp_path: Path) -> None:
    names = lab.write_spectra(tmp_path / "data", 4)
    first = [Item(names[0], z=0.001), Item(names[1]), Item(names[2], z=0.0), Item(names[3], row=0, z=0.1)]
    assert vetted(tmp_path / "run", first).n_changed == 0
    assert vetted(tmp_path / "run", first).n_changed == 0
    then = [Item(names[0], z=0.002), Item(names[1], z=0.5), Item(names[2]), Item(names[3], row=0, z=0.1)]
    again = vetted(tmp_path / "run", then)
    assert again.decided == 0
    assert again.changed == (
        f"{names[0]}: vetted with the list's z = 0.001, now z = 0.002",
        f"{names[1]}: vetted with the list's z = none, now z = 0.5",
        f"{names[2]}: vetted with the list's z = 0, now z = none",
    )


def test_a_run_of_the_first_layout_goes_on_and_says_nothing_of_files_it_never_noted(tmp_path: Path) -> None:
    items = lab.files_of(lab.write_spectra(tmp_path / "data", 2))
    vetted(tmp_path / "run", items[:1])
    db = sqlite3.connect(tmp_path / "run" / "run.db")
    db.executescript(
        "DROP TABLE leases; DROP TABLE files; DROP INDEX one_decision; ALTER TABLE decisions DROP COLUMN sample;"
        "CREATE UNIQUE INDEX one_decision ON decisions(key, row, task, CASE task WHEN '*' THEN id ELSE '' END);"
        "PRAGMA user_version = 1"
    )
    db.close()
    os.utime(items[0].file, ns=(1, 1))
    summary = vetted(tmp_path / "run", items)
    assert (summary.decided, summary.skipped, summary.n_changed) == (2, 2, 0)
    os.utime(items[1].file, ns=(1, 1))
    assert vetted(tmp_path / "run", items).n_changed == 1


class Looking(lab.Steady):
    """Says that it looks at pixels."""

    name = "looking"
    capabilities = frozenset({"images"})


def test_the_style_counts_among_the_settings_for_who_looks_at_pictures_only(tmp_path: Path) -> None:
    items = lab.files_of(lab.write_spectra(tmp_path / "data", 1))
    for policy, strict in ((lab.Steady(), False), (Looking(), True)):
        out = tmp_path / policy.name
        with RunFolder.open(out) as run:
            vet(items, lab.TASKS, policy, run, style=COMPACT_STYLE)
            assert ("style" in run.receipt().settings) == strict
        with RunFolder.open(out) as run:
            if strict:
                with pytest.raises(RunMismatchError, match="style = compact-1, but now style = spec-o3-reference-1"):
                    vet(items, lab.TASKS, policy, run, style=REFERENCE_STYLE)
                with pytest.raises(RunMismatchError, match="size"):
                    vet(items, lab.TASKS, policy, run, style=COMPACT_STYLE, size=(448, 280))
            else:
                assert vet(items, lab.TASKS, policy, run, style=REFERENCE_STYLE).decided == 0


def test_compact_pictures_are_kept_and_drawn_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.vetting import runner

    monkeypatch.setattr(runner, "RenderPool", None)
    items = lab.files_of(lab.write_spectra(tmp_path / "data", 1))
    with RunFolder.open(tmp_path / "run") as run:
        vet(items, lab.TASKS, lab.Steady(), run, images=True, style=COMPACT_STYLE)
        (cv, _) = run.decisions(with_trajectories=True)
        assert cv.trajectory
        seen = [cv.trajectory.opening, *(t.observation for t in cv.trajectory.turns)]
        pictures = [run.images.path(o.image).read_bytes() for o in seen if o and o.image]
    assert [struct.unpack(">II", png[16:24]) for png in pictures] == [(448, 280), (308, 224)]


def test_an_unknown_style_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    items = lab.files_of(lab.write_spectra(tmp_path / "data", 1))
    with RunFolder.open(tmp_path / "run") as run:
        with pytest.raises(ValueError, match="style 'oil' is unknown"):
            vet(items, lab.TASKS, lab.Steady(), run, style="oil")
        assert run.count() == {}
    assert json.loads((tmp_path / "run" / "receipt.json").read_text())["decisions"] == 0
