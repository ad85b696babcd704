"""Old trajectories under another rule: both scores stand, and nothing else changes (SIMULATED spectra)."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify_lab import change_json, copied, rehash, told, verified

from specvet.data.errors import InputError
from specvet.evaluation.folder import MANIFEST, open_campaign
from specvet.evaluation.rescore import rescore
from specvet.evaluation.rules import UnknownRuleError
from specvet.evaluation.sealing import metrics_of


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_rescoring_writes_new_numbers_beside_the_old_and_changes_nothing_else(small: Path, tmp_path: Path) -> None:
    folder = copied(small, tmp_path)
    before = contents(folder)
    done = rescore(open_campaign(folder), "lenient")
    after = contents(folder)
    cells = sorted(cell.name for cell in open_campaign(folder).cells)
    files = {*(f"cells/{name}/metrics.lenient-1.json" for name in cells), "metrics.lenient-1.json"}
    assert after.keys() - before.keys() == files == set(done.files)
    assert [name for name in before if before[name] != after[name]] == [MANIFEST]
    assert (done.before["rule"], done.after["rule"]) == ("strict/1", "lenient/1")
    assert [row["cell"] for row in done.before["rows"]] == [row["cell"] for row in done.after["rows"]]
    for cell in open_campaign(folder).cells:
        assert cell.metrics("lenient/1") == metrics_of(cell, "lenient/1")
        assert cell.metrics()["rule"] == "strict/1"
        if cell.record.policy == "line-indices":  # no turns: the same under every rule
            same = {k: v for k, v in cell.metrics().items() if k != "rule"}
            assert {k: v for k, v in cell.metrics("lenient/1").items() if k != "rule"} == same

    assert verified(folder).ok
    assert rescore(open_campaign(folder), "lenient/1").after == done.after
    change_json(folder / "metrics.lenient-1.json", lambda fields: fields["rows"][0].update(questions=9))
    change_json(
        folder / "cells" / cells[0] / "metrics.lenient-1.json",
        lambda fields: fields["headline"]["correct"].update(k=99),
    )
    rehash(folder)
    wrong = told(verified(folder).of("failed"))
    assert "rows[0].questions: 9 is recorded, the rows give 6" in wrong
    assert f"{cells[0]}/metrics.lenient-1.json | headline.correct.k: 99 is recorded" in wrong

    with pytest.raises(UnknownRuleError, match="there is no rule 'kind'"):
        rescore(open_campaign(folder), "kind")
    with pytest.raises(InputError, match="is scored by strict/1 already"):
        rescore(open_campaign(folder), "strict")
    (folder / MANIFEST).unlink()
    with pytest.raises(InputError, match="no cell is complete yet"):
        rescore(open_campaign(folder), "lenient")
