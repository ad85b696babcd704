"""How far a campaign is, looked at while the real runner writes it, from its first moment on (SIMULATED spectra)."""

from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from made import opener, write_questions

from specvet.evaluation.descriptors import describe, keep_descriptor
from specvet.evaluation.folder import CAMPAIGN, POLICIES, SETS, CampaignFolder, open_campaign
from specvet.evaluation.plan import Campaign, parse_campaign
from specvet.evaluation.running import campaign_text, cell_plans, run_cell
from specvet.evaluation.sets import QuestionSet, keep_set, load_set
from specvet.evaluation.status import CampaignStatus, status
from specvet.policies.tokens import PolicyError
from specvet.records import RunFolder, write_atomic
from specvet.vetting.watch import RolloutProgress

TEXT = """
name: on-its-way
policies:
  line-indices: {policy: line-indices}
  gambler: {policy: torch, model: gambler, revision: "1"}
sets:
  examples: {path: ../input/questions.jsonl, facts: ../input/facts.csv}
seeds: [42, 43]
settings: {style: compact, concurrency: 2}
replicates: 0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A campaign of which nothing but its file is there."""
    return folder_of(tmp_path, 6)


def folder_of(tmp_path: Path, questions: int) -> Path:
    write_questions(tmp_path / "input", questions)
    campaign = tmp_path / "campaign"
    campaign.mkdir()
    write_atomic(campaign / CAMPAIGN, campaign_text(parse_campaign(TEXT, "campaign.yaml")))
    return campaign


def begun(folder: Path) -> tuple[Campaign, QuestionSet, list[Any]]:
    """Its set and descriptors are kept, as before the first cell."""
    campaign = open_campaign(folder).campaign
    plan = campaign.sets["examples"]
    asked = load_set("examples", plan, str(folder / str(plan.path)), str(folder / str(plan.facts)))
    keep_set(folder / SETS, asked)
    policies = {
        slug: keep_descriptor(folder / POLICIES, describe(slug, one, slug, folder))
        for slug, one in campaign.policies.items()
    }
    return campaign, asked, list(cell_plans(campaign, policies, {"examples": asked}))


def looked(folder: Path, now: datetime | None = None) -> CampaignStatus:
    return status(open_campaign(folder), now)


def test_a_campaign_of_which_only_the_file_is_there_knows_its_cells_and_no_questions(folder: Path) -> None:
    found = looked(folder)
    assert [(c.policy, c.seed, c.questions, c.rows, c.folder) for c in found.cells] == [
        ("line-indices", None, None, 0, ""),
        ("gambler", 42, None, 0, ""),
        ("gambler", 43, None, 0, ""),
    ]
    assert not found.complete
    assert (found.questions, found.seconds_left) == (None, None)
    begun(folder)
    assert [cell.questions for cell in looked(folder).cells] == [6, 6, 6]


def test_rows_are_counted_while_they_are_written_and_a_stopped_cell_is_not_complete(tmp_path: Path) -> None:
    n = 40  # more than are under way when it is asked to stop
    folder = folder_of(tmp_path, n)
    campaign, asked, plans = begun(folder)
    stop, seen = threading.Event(), []

    def progress(p: RolloutProgress) -> None:
        cell = looked(folder).cells[1]
        seen.append((p.recorded, cell.rows, cell.sealed))
        if p.recorded >= 3:
            stop.set()

    path, summary = run_cell(folder, plans[1], asked, campaign, opener, progress=progress, stop=stop)
    assert summary is not None
    assert summary.interrupted
    assert all(rows == recorded and not sealed for recorded, rows, sealed in seen)
    found = looked(folder)
    assert found.cells[1].rows == summary.recorded >= 3
    assert found.cells[1].folder == path.name
    assert [cell.sealed for cell in found.cells] == [False] * 3
    run_cell(folder, plans[1], asked, campaign, opener)
    cell = looked(folder).cells[1]
    assert (cell.rows, cell.questions, cell.sealed, cell.left) == (n, n, True, 0)
    assert not looked(folder).complete


def test_the_rate_is_that_of_the_last_five_minutes_and_tells_what_is_left(folder: Path) -> None:
    campaign, asked, plans = begun(folder)
    stop = threading.Event()

    def progress(p: RolloutProgress) -> None:
        if p.recorded >= 2:
            stop.set()

    path, _ = run_cell(folder, plans[0], asked, campaign, opener, progress=progress, stop=stop)
    with RunFolder.read(path) as run:
        ends, began = run.newest_ends(), datetime.fromisoformat(run.receipt().sessions[-1].started)
    n = len(ends)
    assert 2 <= n < 6
    assert all(began.timestamp() - 1 < end < began.timestamp() + 600 for end in ends)
    found = looked(folder, began + timedelta(seconds=100))
    assert found.cells[0].rate == pytest.approx(n / 100, abs=1e-6)
    assert found.seconds_left == pytest.approx((18 - n) / (n / 100), rel=1e-3)
    found = looked(folder, datetime.fromtimestamp(max(ends), UTC) + timedelta(seconds=301))
    assert (found.rate, found.seconds_left) == (0.0, None)
    assert abs(datetime.fromisoformat(found.cells[0].newest).timestamp() - max(ends)) <= 1


def test_rows_that_machinery_ended_are_told_apart(folder: Path) -> None:
    campaign, asked, plans = begun(folder)

    def failing(plan: Any, stack: Any) -> Any:
        opened = opener(plan, stack)
        sample = opened.policy.sample

        async def now_and_then(ledger: Any, n: int, params: Any) -> Any:
            if params.seed % 2:
                raise PolicyError("the server has gone to lunch")
            return await sample(ledger, n, params)

        opened.policy.sample = now_and_then  # type: ignore[union-attr,method-assign]
        return opened

    spectrum = asked.questions[5].file
    shutil.move(spectrum, spectrum + ".gone")
    path, _ = run_cell(folder, plans[1], asked, campaign, failing)
    sealed = looked(folder).cells[1]
    assert sealed.machinery > 1
    (path / "cell.json").unlink()
    again = looked(folder).cells[1]
    assert (again.rows, again.machinery, again.sealed) == (6, sealed.machinery, False)


def test_a_run_that_cannot_be_read_is_told_and_the_others_are_shown(folder: Path) -> None:
    campaign, asked, plans = begun(folder)
    path, _ = run_cell(folder, plans[0], asked, campaign, opener)
    (path / "cell.json").unlink()
    (path / "run.db").write_bytes(b"this is no database, whatever its name says" * 100)
    found = looked(folder)
    assert "run.db" in found.cells[0].problem
    assert not any(cell.problem for cell in found.cells[1:])


def test_a_campaign_is_what_an_object_of_it_says(folder: Path) -> None:
    opened = open_campaign(folder)
    assert isinstance(opened, CampaignFolder)
    assert status(opened).name == "on-its-way"
