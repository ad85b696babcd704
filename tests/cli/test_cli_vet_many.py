"""`specvet vet` on long lists, and the checks of `specvet triage`: what they say and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_lab import SCRIPT, Specvet

from specvet.cli.failure import CommandError
from specvet.cli.vet_many import opened_prefilter, prefilter_told, shard_named
from specvet.records import RunFolder
from specvet.tasks import load_task
from specvet.vetting.prefilter import Recall, write_recalls
from specvet.vetting.screen import recalls


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


def test_blank_goes_on_after_a_kill_and_is_shared_by_processes(tmp_path: Path, specvet: Specvet) -> None:
    names = write_stars(tmp_path / "stars", 24)
    (tmp_path / "list.csv").write_text("path\n" + "\n".join(names))
    assert specvet("vet", "list.csv", "--task", "cv", "--policy", "line-indices", "--out", "RUN").returncode == 0
    command = [SCRIPT, "triage", "blank", "RUN", "--share", "--json", "--quiet"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # It dies when the second run is begun: whatever is done by then stays.
    code = f"import os, signal, sys; sys.argv = {[str(part) for part in command]!r}\n" + DIES_AT_THE_SECOND_RUN
    died = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, timeout=120, **pipes)
    assert died.returncode == -signal.SIGKILL, died.stderr
    both = [subprocess.Popen(command, cwd=tmp_path, **pipes) for _ in range(2)]
    told = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    counts = [(c["way"], c["finds"], c["flagged"]) for c in json.loads(told[0][0])["counts"]]
    assert counts == [("smooth", 8, 0), ("level", 8, 0)]
    assert json.loads(told[1][0])["counts"] == json.loads(told[0][0])["counts"]
    with RunFolder.read(tmp_path / "RUN" / "blank" / "smooth") as smooth:
        assert smooth.count()["cv"]["NO"] + smooth.count()["cv"].get("UNSURE", 0) == 8
        assert smooth.receipt().sessions[0].decided == 8  # by the one that was killed
    with RunFolder.read(tmp_path / "RUN") as run:
        assert len([e for e in run.events() if e.kind == "blank"]) == 2  # each count once, whoever noted it


DIES_AT_THE_SECOND_RUN = """
from specvet.records import RunFolder
opened, n = RunFolder.open, []

def dying(*given, **named):
    n.append(1)
    if len(n) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return opened(*given, **named)

RunFolder.open = dying
from specvet.cli.main import main
main()
"""


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
    write_recalls(tmp_path / "p.json", 0.1, [Recall("cv", 9, 8, 9, 5)], "l", {"cv": cv})
    with pytest.raises(CommandError, match=r"states the recall at 0\.1"):
        opened_prefilter(str(tmp_path / "p.json"), 0.2, [cv], True)
    write_recalls(tmp_path / "s.json", None, [Recall("cv", 9, 8, 9, 5)], "l", {"cv": cv})
    with pytest.raises(CommandError, match="states the recall by screens"):
        opened_prefilter(str(tmp_path / "s.json"), 0.2, [cv], True)
    prefilter, about = opened_prefilter(str(tmp_path / "p.json"), None, [cv], True)
    assert prefilter is not None
    assert (prefilter.below, about["labels"]) == (0.1, "l")


def test_a_recall_that_was_measured_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By other thresholds or screens, or for a task that weighs other evidence."""
    cv, wd = load_task("cv"), load_task("wd")
    file = str(tmp_path / "p.json")
    write_recalls(file, None, [Recall("cv", 9, 8, 9, 5)], "l", {"cv": cv})
    assert opened_prefilter(file, None, [cv, wd], True)[1]["recalls"][0]["kept"] == 8
    other = cv.model_copy(update={"prior": cv.prior - 1.0})
    with pytest.raises(CommandError, match="run specvet triage prefilter again"):
        opened_prefilter(file, None, [other], True)
    monkeypatch.setattr("specvet.vetting.prefilter.fingerprint", lambda: "other screens")
    with pytest.raises(CommandError, match="run specvet triage prefilter again"):
        opened_prefilter(file, None, [cv], True)


def test_a_prefilter_by_screens_tells_what_they_keep_of_simulated_members_and_nothing_of_other_evidence(
    tmp_path: Path,
) -> None:
    cv = load_task("cv")
    other = load_task("wd").model_copy(update={"prior": 0.5})
    prefilter, about = opened_prefilter("indices", None, [cv, other], True)
    assert prefilter is not None
    assert prefilter.below is None
    prefilter.asked, prefilter.left_out = 200, 150
    with RunFolder.open(tmp_path / "RUN") as run:
        lines = prefilter_told(run, prefilter, about, ["cv", "wd"])
        assert [e.text for e in run.events() if e.kind == "prefilter"] == [line[11:] for line in lines]
    (told,) = (r for r in recalls() if r["task"] == "cv")
    assert lines[0].startswith("prefilter: 150 of 200 questions (75 %) are screened out and are a NO")
    assert f"keeps {told['kept']} of {told['positives']} labelled cv" in lines[1]
    assert lines[1].endswith("of SIMULATED members, S/N from 5 on, all kinds alike")
    assert "what it costs in wd is not known" in lines[2]
