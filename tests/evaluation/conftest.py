"""Finished campaigns about SIMULATED spectra, run once a process; a test that changes one takes a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from specvet.evaluation.folder import CampaignFolder


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> CampaignFolder:
    """`made.CAMPAIGN_TEXT` on 14 questions: five cells of three policies. Not to be changed."""
    from made import CAMPAIGN_TEXT, make_campaign

    return make_campaign(tmp_path_factory.mktemp("example") / "campaign", CAMPAIGN_TEXT, 14)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cells of six questions, as published: without run databases. Not to be changed."""
    from verify_lab import made

    return made(tmp_path_factory.mktemp("small"))
