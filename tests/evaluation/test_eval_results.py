"""The results that come with the code hold: what is published here can be made again, and a flipped byte is found.

All of it is checked by `specvet eval verify results/eval/NAME`; here the hashes of all, and every number of the
smallest, without spectra.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specvet.evaluation.folder import MANIFEST, open_campaign
from specvet.evaluation.verify import verify
from specvet.records import file_hash

RESULTS = Path(__file__).parents[2] / "results"
CAMPAIGNS = sorted(file.parent for file in (RESULTS / "eval").glob(f"*/{MANIFEST}"))
SMALLEST = min(CAMPAIGNS, key=lambda c: sum(f.stat().st_size for f in c.rglob("*.parquet")))


def test_published_files_are_those_that_the_manifests_name_and_no_others() -> None:
    assert {c.name for c in CAMPAIGNS} == {"baselines", "suites", "tiny", "unseen"}
    for campaign in CAMPAIGNS:
        named = json.loads((campaign / MANIFEST).read_text(encoding="utf-8"))["files"]
        there = {p.relative_to(campaign).as_posix(): file_hash(p) for p in campaign.rglob("*") if p.is_file()}
        assert there.pop(MANIFEST)
        assert there == named


def test_results_stay_small() -> None:
    assert sum(p.stat().st_size for p in RESULTS.rglob("*") if p.is_file()) < 40e6


def test_the_smallest_results_verify_from_their_rows_alone() -> None:
    found = verify(open_campaign(SMALLEST), inputs="skip")
    assert found.ok
    assert not [check for check in found.checks if check.state == "failed"]
    assert {check.name for check in found.checks if check.state == "ok"} >= {"manifest", "rows", "numbers", "receipt"}


@pytest.mark.parametrize("where", [0.25, 0.5])
def test_one_flipped_byte_in_a_trajectory_is_found_and_named(where: float, tmp_path: Path) -> None:
    copy = tmp_path / "campaign"
    shutil.copytree(SMALLEST, copy)
    rows = next(copy.glob("cells/*/rows.parquet"))
    data = bytearray(rows.read_bytes())
    data[int(where * len(data))] ^= 1
    rows.write_bytes(data)
    found = verify(open_campaign(copy), inputs="skip")
    assert not found.ok
    assert any("rows.parquet" in f"{c.where} {c.detail}" for c in found.checks if c.state == "failed")
