"""The table of stages: its plan, the answers it keeps, its numbers, and the folder that can be checked by itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import make_campaign
from outcome_lab import many, outcomes

from specvet.cli.main import main
from specvet.data.errors import InputError
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.paired import compare
from specvet.evaluation.stages import StagesPlan, gather, read_stages, remade
from specvet.evaluation.stages.answers import read_answers, write_answers, write_questions
from specvet.evaluation.stages.numbers import stage_numbers
from specvet.records import file_hash

TEXT = """
name: mine
about: "SIMULATED: a try."
campaigns: asked
sets: [examples]
seeds: [7]
stages: {base: [gambler], SFT: [careful], RL: [other]}
differences: [{of: SFT, over: base}, {of: RL, over: SFT}]
conduct: [SFT]
runs: {SFT: [seed-7/sft], GRPO: [seed-7/grpo]}
"""
CAMPAIGN = """
name: {0}
policies: {{{0}: {{policy: torch, model: {0}, revision: "1"}}}}
sets: {{examples: {{path: questions.jsonl, facts: facts.csv}}}}
settings: {{style: compact, concurrency: 8}}
replicates: 0
"""


def plan(**more: Any) -> StagesPlan:
    told = {"name": "p", "sets": ["q"], "seeds": [0, 1], "stages": {"SFT": ["s0", "s1"], "RL": ["r0", "r1"]}}
    return StagesPlan.model_validate(told | {"differences": [{"of": "RL", "over": "SFT"}]} | more)


# --- the plan


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"stages": {"SFT": ["s0", "s1", "s2"]}, "differences": []}, "give one model, or one for each of 2 seeds"),
        ({"stages": {"SFT": ["s0"], "RL": ["s0"]}}, "s0 stands there twice"),
        ({"differences": [{"of": "RL", "over": "base"}]}, "there is no stage 'base'; there are SFT, RL"),
        ({"runs": {"base": ["../other"]}}, "name a folder below that of the file"),
    ],
)
def test_a_plan_that_cannot_be_is_told(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        plan(**more)


def test_a_plan_reads_back_as_it_was_and_finds_models_by_row_and_seed(tmp_path: Path) -> None:
    told = plan(stages={"base": ["b"], "SFT": ["s0", "s1"], "RL": ["r0", "r1"]})
    (tmp_path / "p.yaml").write_text(told.text())
    assert read_stages(tmp_path / "p.yaml") == told
    assert (told.of("base", 1), told.of("RL", 1)) == ("b", "r1")
    assert told.models["b"] == ("base", None)
    assert told.models["s1"] == ("SFT", 1)
    (tmp_path / "p.yaml").write_text("name: [")
    with pytest.raises(InputError, match=r"p\.yaml: is no YAML"):
        read_stages(tmp_path / "p.yaml")


# --- answers


def test_answers_read_back_as_they_were_in_a_few_bytes_a_question(tmp_path: Path) -> None:
    told = many(2_000, seed=1)
    write_questions(tmp_path / "q.parquet", told)
    write_answers(tmp_path / "a.parquet", told)
    again = read_answers(tmp_path / "q.parquet", tmp_path / "a.parquet")
    for one, other in zip(told, again, strict=True):
        for name in ("id", "task", "truth", "said", "verdict", "object_id", "survey", "kind", "stop", "calls", "turns"):
            assert getattr(one, name) == getattr(other, name)
        assert other.snr == np.float32(one.snr)
        assert other.p_yes is None if one.p_yes is None else other.p_yes == np.float32(one.p_yes)
    assert (tmp_path / "a.parquet").stat().st_size < 5 * len(told) + 4_000
    write_answers(tmp_path / "a.parquet", told[:-1])
    with pytest.raises(InputError, match="has 1,999 answers"):
        read_answers(tmp_path / "q.parquet", tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"a\.parquet: is damaged"):
        read_answers(tmp_path / "q.parquet", tmp_path / "a.parquet")


# --- numbers


def models(n: int = 300) -> dict[str, list[Outcome]]:
    return {name: many(n, seed=4, policy=i) for i, name in enumerate(("s0", "s1", "r0", "r1"))}


def test_paired_differences_are_those_that_a_comparison_of_two_gives() -> None:
    answered = models()
    told = stage_numbers(plan(), {"q": answered}, replicates=200)["q"]
    (pair,) = told["differences"]
    for place, one in enumerate(pair["seeds"]):
        other = compare(answered[f"r{place}"], answered[f"s{place}"], replicates=200)
        for name in ("macro_f1", "accuracy", "format"):
            assert one[name] == other[name]["difference"]
        assert one["mcnemar_p"] == pytest.approx(other["mcnemar_p"], abs=1e-6)
        assert (one["only_of"], one["only_over"]) == (other["only_a"], other["only_b"])
    mean = pair["mean"]["macro_f1"]
    each = [one["macro_f1"] for one in pair["seeds"]]
    assert mean["value"] == pytest.approx(sum(one["value"] for one in each) / 2, abs=2e-6)
    assert mean["high"] - mean["low"] < max(one["high"] - one["low"] for one in each)


def test_low_signal_counts_by_itself_and_calls_by_class_truth_and_snr() -> None:
    truth, said = "YYNNYN", "YNNYYN"
    more = {"snr": [5.0, 9.0, 9.9, 10.0, 30.0, None], "task": ["cv", "cc"] * 3, "calls": [3, 2, 1, 1, 0, 2]}
    asked = outcomes(truth, said, **more)
    told = stage_numbers(plan(stages={"SFT": ["s0"]}, differences=[]), {"q": {"s0": asked}})["q"]
    assert told["low_snr"] == {"below": 10.0, "questions": 3}
    of = told["models"]["s0"]
    assert of["low_snr_accuracy"]["value"] == pytest.approx(2 / 3, abs=1e-6)
    assert of["low_snr_macro_f1"]["value"] == 0.5  # cv 1, cc 0
    by = of["calls_by"]
    snr = [(name, one["calls"]["value"]) for name, one in by["S/N"].items()]
    assert snr == [("5-10", 2.0), ("10-20", 1.0), ("20-40", 0.0), ("unknown", 2.0)]
    assert by["truth"]["YES"]["calls"]["value"] == pytest.approx(5 / 3, abs=1e-6)
    assert by["class"]["cc"] == {"n": 3, "calls": by["class"]["cc"]["calls"]}
    assert by["answer"]["wrong"]["n"] == 2
    assert of["correct"] == {"k": 4, "n": 6}


def test_models_that_were_asked_other_questions_are_refused_and_missing_ones_left_out() -> None:
    answered = models(50)
    answered["r1"] = many(50, seed=5)
    with pytest.raises(ValueError, match="r1 was not asked the same questions as s0"):
        stage_numbers(plan(), {"q": answered}, replicates=0)
    del answered["r1"]
    told = stage_numbers(plan(), {"q": answered}, replicates=0)["q"]
    assert [one["seed"] for one in told["differences"][0]["seeds"]] == [0]
    assert told["stages"]["RL"]["seeds"] == [0]


# --- the folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models that were asked, a run of training, and the plan. Not to be changed."""
    root = tmp_path_factory.mktemp("stages")
    for name in ("gambler", "careful"):
        make_campaign(root / "asked" / name, CAMPAIGN.format(name), 8)
    run = root / "seed-7" / "sft"
    run.mkdir(parents=True)
    steps = ({"kind": "step", "step": i, "epoch": 1, "seconds": 1.0, "loss": 3.0 / i} for i in range(1, 9))
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(step)}\n" for step in steps))
    (run / "config.yaml").write_text(f"data: {root.resolve()}/simvi/sft.jsonl\n")
    (root / "pipeline.json").write_text(json.dumps({"stages": {"sft-7": {"seconds": 90.0}}}))
    (root / "stages.yaml").write_text(TEXT)
    return root


@pytest.fixture(scope="module")
def made(root: Path) -> Path:
    out = root / "results"
    gather(root / "stages.yaml", out, replicates=50)
    return out


def test_the_folder_tells_what_there_is_and_what_is_missing(made: Path) -> None:
    told = json.loads((made / "stages.json").read_text())
    assert told["missing"] == ["other on examples"]
    assert told["minutes"] == {"sft-7": 1.5}
    numbers = told["sets"]["examples"]
    assert list(numbers["models"]) == ["gambler", "careful"]
    assert [(pair["of"], pair["over"]) for pair in numbers["differences"]] == [("SFT", "base")]
    assert "calls_by" in numbers["models"]["careful"]
    assert "calls_by" not in numbers["models"]["gambler"]
    assert (made / "runs/seed-7/sft/config.yaml").read_text() == "data: OUT/simvi/sft.jsonl\n"
    page = (made / "README.md").read_text()
    assert "SIMULATED: a try." in page
    assert "| SFT − base | 7 |" in page
    assert page.count("![") == 2
    pngs = {file.name for file in made.glob("*.png")}
    assert pngs == {"examples.png", "curve-sft.png"}
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in made.glob("*.png"))


def test_numbers_are_those_of_the_campaigns_cells(root: Path, made: Path) -> None:
    told = json.loads((made / "stages.json").read_text())["sets"]["examples"]["models"]
    for name in ("gambler", "careful"):
        (row,) = json.loads((root / "asked" / name / "metrics.json").read_text())["rows"]
        for measure in ("macro_f1", "accuracy", "format"):
            assert told[name][measure]["value"] == row[measure]["value"]
        assert told[name]["correct"] == row["correct"]
        assert told[name]["calls"]["value"] == row["calls"]["mean"]


def test_the_folder_makes_its_numbers_again_without_the_campaigns_and_tells_what_was_changed(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(made, moved)
    assert remade(moved) == []
    assert main(["eval", "stages", str(moved)]) == 0
    told = json.loads((moved / "stages.json").read_text())
    told["sets"]["examples"]["models"]["careful"]["macro_f1"]["value"] = 0.99
    (moved / "stages.json").write_text(json.dumps(told))
    assert remade(moved) == [
        "stages.json is not what the manifest names",
        "stages.json: examples.models.careful.macro_f1.value comes out differently",
    ]
    (moved / "README.md").unlink()
    assert main(["eval", "stages", str(moved)]) == 1
    assert "README.md is not there" in capsys.readouterr().err


def test_made_again_the_folder_loses_what_is_no_longer_told_and_nothing_else(root: Path, tmp_path: Path) -> None:
    for part in ("asked", "seed-7", "stages.yaml"):
        (tmp_path / part).symlink_to(root / part)
    out = tmp_path / "out"
    out.mkdir()
    (out / "BUDGET.md").write_text("before")
    gather(tmp_path / "stages.yaml", out, replicates=0)
    (tmp_path / "stages.yaml").unlink()
    (tmp_path / "stages.yaml").write_text(TEXT.replace("runs: {SFT: [seed-7/sft], ", "runs: {"))
    before = file_hash(out / "answers/examples/careful.parquet")
    gather(tmp_path / "stages.yaml", out, replicates=0)
    assert file_hash(out / "answers/examples/careful.parquet") == before
    assert not (out / "curve-sft.png").exists()
    assert not (out / "runs/seed-7/sft/metrics.jsonl").exists()
    assert (out / "BUDGET.md").read_text() == "before"
    assert remade(out) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["stages.yaml"], "--out is missing"),
        (["stages.yaml", "--out", "r"], "none of its models was asked anything yet"),
        (["."], "was not made by specvet eval stages"),
        ([".", "--out", "r"], "--out is of a STAGES.yaml"),
        (["none.yaml", "--out", "r"], "cannot be read as text"),
    ],
)
def test_what_cannot_be_done_is_told(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stages.yaml").write_text(TEXT)
    assert main(["eval", "stages", *arguments]) == 2
    assert says in capsys.readouterr().err
