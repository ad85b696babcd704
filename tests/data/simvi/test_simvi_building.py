"""SimVI's files, made once in the smallest size."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from specvet.chat import chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.asking import load_questions
from specvet.data.demonstrations import load_sft
from specvet.data.errors import InputError
from specvet.data.simulate.kinds import KINDS, TASKS
from specvet.data.simvi.building import SimVI, make_simvi
from specvet.data.simvi.making import Settings, bench_rows, draft
from specvet.data.simvi.plan import PARTS, plan
from specvet.data.sliced import begin
from specvet.evaluation.recipes import Made
from specvet.records.errors import RunLockedError
from specvet.records.lock import FolderLock


@pytest.fixture(scope="module")
def made(tiny_simvi: Made, tmp_path_factory: pytest.TempPathFactory) -> SimVI:
    """A copy, whose folder may be locked."""
    folder = tmp_path_factory.mktemp("simvi") / "set"
    shutil.copytree(tiny_simvi.path.parents[1], folder)
    return make_simvi(folder, "tiny", seed=1, style="compact", workers=1)


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def truth_in_pieces(folder: Path, but: str) -> None:
    """As it is while the Parquet files are being made; the truth of one is not there yet."""
    (folder / ".truth").mkdir()
    with open(folder / "truth.csv", encoding="utf-8", newline="") as table:
        head, *rows = table.read().splitlines()
    (folder / "truth.csv").unlink()
    for part in PARTS:
        for task in TASKS:
            of_it = [row for row in rows if row.split(",")[2:4] == [part, task]]
            if f"{part}_{task}" != but:
                (folder / ".truth" / f"{part}_{task}.csv").write_text(
                    "\n".join([head, *of_it]) + "\n", encoding="utf-8"
                )


def test_the_sizes_are_a_hundredth_of_the_published_ones(made: SimVI) -> None:
    assert made.rows == {"train": 34, "test": 67, "val": 20, "coldstart": 9}
    assert len(lines(made.folder / "sft" / "sft_train.jsonl")) == 8
    assert len(lines(made.folder / "sft" / "sft_val.jsonl")) == 1
    of_train = [len(lines(made.folder / f"rl/bench_{part}.jsonl")) for part in ("rl_train", "dev")]
    assert sum(of_train) == 34
    assert [len(lines(made.folder / f"rl/bench_{part}.jsonl")) for part in ("test", "val")] == [67, 20]


def test_every_prepared_row_has_a_name_and_no_spectrum_is_in_two_parts(made: SimVI) -> None:
    names = {}
    for part in ("rl_train", "dev", "test", "val"):
        rows = lines(made.folder / f"rl/bench_{part}.jsonl")
        names[part] = {row["name"] for row in rows}
        assert len(names[part]) == len(rows)
        assert all(name.startswith("SIMULATED-lamost-") for name in names[part])
    sft = {row["name"] for part in ("train", "val") for row in lines(made.folder / f"sft/sft_{part}.jsonl")}
    assert not names["dev"] & sft
    parts = list(names.values())
    assert all(not a & b for i, a in enumerate(parts) for b in parts[i + 1 :])


def test_no_object_is_in_two_parts(made: SimVI) -> None:
    objects = {
        part: {row["object_id"] for row in lines(made.folder / f"rl/bench_{part}.jsonl")}
        for part in ("rl_train", "dev", "test", "val")
    }
    parts = list(objects.values())
    assert all(not a & b for i, a in enumerate(parts) for b in parts[i + 1 :])


def test_the_truth_knows_every_row_and_agrees_with_its_answer(made: SimVI) -> None:
    with open(made.folder / "truth.csv", encoding="utf-8", newline="") as table:
        truth = {row["name"]: row for row in csv.DictReader(table)}
    rows = [row for part in ("rl_train", "dev", "test", "val") for row in lines(made.folder / f"rl/bench_{part}.jsonl")]
    for row in rows:
        said = truth[row["name"]]
        assert (said["task"], said["answer"], said["object_id"]) == (row["task"], row["answer"], row["object_id"])
        assert KINDS[said["kind"]].answer(row["task"]) == row["answer"]
    assert {row["name"] for row in lines(made.folder / "sft/sft_train.jsonl")} <= truth.keys()
    assert not any("kind" in row or "subtype" in row for row in rows)
    assert {row["label_source"] for row in rows} == {"simulated"}


def test_questions_and_trajectories_load_as_a_trainer_loads_them(made: SimVI) -> None:
    questions = load_questions(str(made.folder / "rl" / "bench_val.jsonl"), style="compact")
    assert (len(questions.asked), questions.rejects) == (20, [])
    format = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
    rows, rejects = load_sft(str(made.folder / "sft" / "sft_train.jsonl"), format, 100_000)
    assert (len(rows), rejects) == (8, [])
    assert all(row.n_images >= 1 and row.n_active > 50 for row in rows)


def test_the_published_picture_is_what_the_agents_own_tool_draws(made: SimVI) -> None:
    row = lines(made.folder / "rl" / "bench_val.jsonl")[0]
    questions = load_questions(str(made.folder / "rl" / "bench_val.jsonl"), style="compact")
    tool = questions.pose(questions.asked[0]).tool
    assert "SIMULATED spectrum" in tool.spectrum.warnings
    opening = tool.opening()
    assert opening.view is not None
    assert (made.folder / "rl" / row["image"]).read_bytes() == opening.view.png


def test_a_row_is_the_same_whoever_makes_it(made: SimVI) -> None:
    file = pq.read_table(made.folder / "bench/benchmark/data/val_ss.parquet")
    assert file.schema.metadata[b"about"].startswith(b"SIMULATED")
    table = file.to_pylist()
    [(row, truth)] = bench_rows([plan("tiny", "val", "ss", 1)[2]], Settings(1, "compact", None))
    published = table[2]
    assert published["extra_info"]["name"] == row.name == truth["name"]
    arrays = published["extra_info"]["tools_kwargs"]["spectral_visualization_tool"]["create_kwargs"]
    np.testing.assert_allclose(arrays["flux"], row.flux, rtol=1e-6)
    np.testing.assert_array_equal(arrays["wavelength"], row.wavelength)
    assert published["images"][0]["bytes"] == row.image


def test_a_finished_set_is_not_made_again_also_after_a_move(made: SimVI, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(made.folder, moved)
    before = {file: file.stat().st_mtime_ns for file in moved.rglob("*") if file.name != "run.lock" and file.is_file()}
    again = make_simvi(moved, "tiny", seed=1, style="compact")
    assert not again.made
    assert again.refused == made.refused
    assert {
        file: file.stat().st_mtime_ns for file in moved.rglob("*") if file.name != "run.lock" and file.is_file()
    } == before
    assert load_questions(str(moved / "rl" / "bench_test.jsonl"), style="compact").rejects == []
    lost = next((moved / "rl" / "spectra").iterdir())
    was = lost.read_bytes()
    lost.unlink()
    assert make_simvi(moved, "tiny", seed=1, style="compact").made
    assert lost.read_bytes() == was


def test_a_set_that_was_interrupted_goes_on_and_is_the_same(made: SimVI, tmp_path: Path) -> None:
    part = tmp_path / "set"
    shutil.copytree(made.folder, part)
    for folder in ("sft", "rl", "coldstart"):
        shutil.rmtree(part / folder)
    (part / "bench/benchmark/data/val_wd.parquet").unlink()
    truth_in_pieces(part, but="val_wd")
    receipt = json.loads((part / "simvi.json").read_text())
    del receipt["refused"]
    (part / "simvi.json").write_text(json.dumps(receipt))
    again = make_simvi(part, "tiny", seed=1, style="compact", workers=1)
    assert again.made
    files = sorted(p.relative_to(made.folder) for p in made.folder.rglob("*") if p.is_file())
    assert sorted(p.relative_to(part) for p in part.rglob("*") if p.is_file()) == files
    assert [f for f in files if (part / f).read_bytes() != (made.folder / f).read_bytes()] == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 2}, r"another seed \(1, not 2\)"),
        ({"style": "reference"}, r"another style \(compact, not reference\)"),
        ({"voice": "terse"}, r"another voice \(full, not terse\)"),
        ({"picture_size": "tiny"}, r"another picture_size \(None, not tiny\)"),
    ],
)
def test_another_set_in_the_same_folder_is_refused(made: SimVI, change: dict, says: str) -> None:
    wanted = {"seed": 1, "style": "compact"} | change
    with pytest.raises(InputError, match=says):
        make_simvi(made.folder, "tiny", **wanted)


def test_the_receipt_names_the_voice_only_where_it_is_not_the_full_one(made: SimVI, tmp_path: Path) -> None:
    receipt = json.loads((made.folder / "simvi.json").read_text(encoding="utf-8"))
    assert not {"voice", "wording", "picture_size"} & set(receipt)
    (tmp_path / "simvi.json").write_text(json.dumps(receipt | {"voice": "terse"}), encoding="utf-8")
    with pytest.raises(InputError, match=r"another voice \(terse, not full\)"):
        make_simvi(tmp_path, "tiny", seed=1, style="compact")


def test_a_row_can_be_taught_tersely_about_the_same_spectrum() -> None:
    row = next(row for row in plan("tiny", "train", "cc", 1) if row.answer == "NO")
    full, terse = (draft(row, Settings(1, "compact", None, *more)) for more in ((), ("terse", "short", "tiny")))
    assert full.truth == terse.truth
    assert full.written is not None
    assert terse.written is not None
    assert full.written.answer == terse.written.answer
    assert full.written.tools != ()
    assert terse.written.tools == ()
    assert terse.written.messages[1].text.endswith("Is this candidate a carbon star? You have 8 turns.")


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="holds no SimVI; choose a new folder"):
        make_simvi(tmp_path, "tiny")


def test_every_part_and_task_has_its_file_in_the_published_place(made: SimVI) -> None:
    found = {file.name for file in (made.folder / "bench" / "benchmark" / "data").iterdir()}
    assert found == {f"{part}_{task}.parquet" for part in PARTS for task in TASKS}
    assert (made.folder / "coldstart" / "train_sharegpt.json").is_file()


@pytest.mark.parametrize("damaged", ['{"a"', "[1]", ""])
def test_a_damaged_receipt_is_told(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "simvi.json").write_text(damaged)
    with pytest.raises(InputError, match=r"simvi.json: is damaged; remove the folder"):
        make_simvi(tmp_path, "tiny")


def test_a_setting_that_is_not_named_is_the_usual_one(tmp_path: Path) -> None:
    begin(tmp_path / "old", "set.json", {"n": 1}, {"voice": "full"}, "set")
    begin(tmp_path / "old", "set.json", {"n": 1, "voice": "full"}, {"voice": "full"}, "set")
    begin(tmp_path / "new", "set.json", {"n": 1, "voice": "terse"}, {"voice": "full"}, "set")
    with pytest.raises(InputError, match=r"another voice \(terse, not full\)"):
        begin(tmp_path / "new", "set.json", {"n": 1}, {"voice": "full"}, "set")


def test_templates_that_are_none_bind_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        make_simvi(tmp_path / "set", "tiny", templates=str(tmp_path / "nowhere"))
    assert not (tmp_path / "set").exists()


def test_one_set_is_made_by_one_process_at_a_time(made: SimVI) -> None:
    lock = FolderLock(made.folder)
    try:
        with pytest.raises(RunLockedError):
            make_simvi(made.folder, "tiny", seed=1, style="compact")
    finally:
        lock.release()
