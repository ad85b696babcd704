"""`specvet eval plot` on a campaign that the real runner made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specvet.cli.main import main
from specvet.data.errors import InputError
from specvet.evaluation.folder import CampaignFolder, open_campaign
from specvet.evaluation.plots import KINDS, figures
from specvet.evaluation.plots.shown import shown


@pytest.fixture
def campaign(example: CampaignFolder, tmp_path: Path) -> CampaignFolder:
    """A copy, since its figures lie in it by default."""
    return open_campaign(Path(shutil.copytree(example.path, tmp_path / "campaign")))


def test_what_is_shown_is_what_the_campaign_s_own_summary_says(campaign: CampaignFolder) -> None:
    found = shown(campaign, "examples")
    assert [(e.label, e.seeds) for e in found.entries] == [
        ("Line indices", (None,)),
        ("Gambler", (42, 43)),
        ("Careful", (42, 43)),
    ]
    assert found.simulated  # the questions say so themselves
    means = {mean["policy"]: mean for mean in campaign.summary()["means"]}
    for entry in found.entries:
        for key in ("accuracy", "macro_f1", "format"):
            ours = entry.share(lambda m, key=key: m["headline"][key])
            theirs = means[entry.slug][key]
            assert ours.value == pytest.approx(100 * theirs["mean"], abs=1e-3)
            if theirs["std"] is not None:
                assert ours.high is not None
                assert ours.high - 100 * theirs["mean"] == pytest.approx(100 * theirs["std"], abs=1e-3)


def test_all_kinds_are_drawn_once_each_and_nothing_else_in_the_campaign_changes(
    campaign: CampaignFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p: p.read_bytes() for p in campaign.path.rglob("*.json")}
    out = tmp_path / "figures"
    assert main(["eval", "plot", str(campaign.path), "--out", str(out), "--format", "svg", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in told["drawn"]] == list(KINDS)
    assert told["not_drawn"] == []
    assert sorted(p.name for p in out.iterdir()) == sorted(f"examples-{kind}.svg" for kind in KINDS)
    assert {p: p.read_bytes() for p in campaign.path.rglob("*.json")} == before


def test_a_kind_and_formats_can_be_chosen_and_lie_in_the_campaign_by_default(
    campaign: CampaignFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "plot", str(campaign.path), "--kind", "risk", "--format", "png,pdf", "--set", "examples"]) == 0
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert files == [campaign.path / "plots" / f"examples-risk.{form}" for form in ("png", "pdf")]
    assert [file.read_bytes()[:4] for file in files] == [b"\x89PNG", b"%PDF"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--kind", "pie"], "--kind pie: choose comparison, tasks, confusers, reliability, risk or windows"),
        (["--format", "gif"], "--format gif: choose png, pdf or svg"),
        (["--set", "other"], "--set other: the campaign has examples"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_ones(
    campaign: CampaignFolder, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert main(["eval", "plot", str(campaign.path), *flags]) == 2
    assert says in capsys.readouterr().err


def test_a_folder_that_is_no_campaign_or_has_no_finished_cell_is_said_to_be_so(
    campaign: CampaignFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "plot", str(tmp_path)]) == 2
    assert "is no campaign" in capsys.readouterr().err
    shutil.copy(campaign.path / "campaign.yaml", tmp_path)
    assert main(["eval", "plot", str(tmp_path)]) == 2
    assert "no cell of this campaign is finished; see specvet eval status" in capsys.readouterr().err


def test_numbers_that_cannot_be_read_are_named(campaign: CampaignFolder, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(campaign.path, moved)
    broken = next((moved / "cells").glob("gambler*")) / "metrics.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"gambler.*its numbers cannot be read"):
        list(figures(open_campaign(moved), kinds=["comparison"]))
