"""`specvet vet` on long lists, and the checks of `specvet triage`: what they say and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_lab import Specvet

from specvet.cli.failure import CommandError
from specvet.cli.vet_many import opened_prefilter, shard_named
from specvet.tasks import load_task


def write_stars(folder: Path, n: int) -> list[str]:
    """SIMULATED two-column texts: every third with strong Hα and Hβ, the others without."""
    folder.mkdir()
    grid = np.arange(3800.0, 9000.0, 3.0)
    names = []
    for i in range(n):
        flux = 1.0 + np.random.default_rng(i).normal(0.0, 0.02, grid.size)
        height = 1.5 if i % 3 == 0 else -0.4
        for at in (6562.8, 4861.3, 4340.5):
            flux += height * np.exp(-0.5 * ((grid - at) / 14.0) ** 2)
        names.append(f"{folder.name}/star{i}.txt")
        np.savetxt(folder / f"star{i}.txt", np.column_stack([grid, flux]), fmt="%.5f")
    return names


def test_shards_share_a_run_and_blank_and_prefilter_check_it(tmp_path: Path, specvet: Specvet) -> None:
    names = write_stars(tmp_path / "stars", 9)
    (tmp_path / "list.csv").write_text(
        "path,cv\n" + "".join(f"{n},{'YES' if i % 3 == 0 else 'NO'}\n" for i, n in enumerate(names))
    )
    vet = ["vet", "list.csv", "--task", "cv", "--policy", "line-indices", "--out", "RUN", "--share", "--json"]
    first, second = (json.loads(specvet(*vet, "--shard", f"{i}/2").stdout)["this_session"] for i in (1, 2))
    assert first["decided"] + second["decided"] == 9
    assert min(first["decided"], second["decided"]) >= 1
    told = specvet("triage", "prefilter", "RUN", "--labels", "list.csv", "--below", "0.1", "--out", "p.json", "--json")
    assert told.returncode == 0, told.stderr
    (cv,) = json.loads(told.stdout)["recalls"]
    assert (cv["task"], cv["positives"], cv["kept"], cv["others"], cv["left_out"]) == ("cv", 3, 3, 6, 6)
    about = json.loads((tmp_path / "p.json").read_text())
    assert (about["below"], about["labels"], about["recalls"][0]["recall"]) == (0.1, "list.csv", 1.0)
    blanked = specvet("triage", "blank", "RUN")
    assert blanked.returncode == 0, blanked.stderr
    assert "none is flagged: every find rests on features" in blanked.stdout
    counts = json.loads((tmp_path / "RUN" / "blank" / "blank.json").read_text())["counts"]
    assert [(c["way"], c["finds"], c["flagged"]) for c in counts] == [("smooth", 3, 0), ("level", 3, 0)]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", ""])
def test_a_shard_that_is_none_says_how_one_is_written(text: str) -> None:
    with pytest.raises(CommandError, match="give the part and how many there are, as in 3/16"):
        shard_named(text)
    assert shard_named("3/16") == (3, 16)


def test_a_prefilter_is_refused_where_it_makes_no_sense(tmp_path: Path) -> None:
    cv = load_task("cv")
    for given, below, model, says in (
        (None, 0.1, True, "say --prefilter indices too"),
        ("indices", None, False, "measures itself"),
        ("magic", None, True, "choose indices, or a file"),
        ("indices", 0.7, True, "above 0 and under 0.5"),
    ):
        with pytest.raises(CommandError, match=says):
            opened_prefilter(given, below, [cv], model)
    (tmp_path / "p.json").write_text('{"kind": "specvet prefilter", "below": 0.1, "recalls": [], "labels": "l"}')
    with pytest.raises(CommandError, match=r"states the recall at 0\.1"):
        opened_prefilter(str(tmp_path / "p.json"), 0.2, [cv], True)
    prefilter, about = opened_prefilter(str(tmp_path / "p.json"), None, [cv], True)
    assert prefilter is not None
    assert (prefilter.below, about["labels"]) == (0.1, "l")
