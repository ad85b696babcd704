"""The benchmark, prepared: questions whose spectra are there, dev apart from the cold start, leaks counted."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from published_lab import (
    TEST,
    TRAIN,
    bench_row,
    bytes_of,
    coldstart_rows,
    lines_of,
    name_of,
    picture,
    write_conversations,
    write_set,
)

from specvet.data.asking import load_questions
from specvet.data.errors import InputError
from specvet.data.published.bench import dev_targets, names_in_sft, prepare_bench
from specvet.data.published.coldstart import prepare_coldstart
from specvet.data.published.layout import BENCH_DEV, BENCH_TRAIN, TOOL_NAME
from specvet.data.published.naming import Names, safe_name
from specvet.data.published.writing import BenchRow, write_bench
from specvet.spectra import read

SEEN = frozenset(name_of(i) for i in range(0, 131, 4))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("bench"), {"train": TRAIN, "test": TEST})


@pytest.fixture(scope="module")
def prepared(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared")
    assert prepare_bench(source, out, coldstart=SEEN).made
    return out


def questions_of(out: Path, part: str) -> list[dict[str, Any]]:
    return lines_of(out / "rl" / f"bench_{part}.jsonl")


def one_file(folder: Path, rows: list[BenchRow], name: str = "train_cv") -> Path:
    write_bench(folder / f"{name}.parquet", rows)
    return folder


def rewritten(file: Path, change: Callable[[dict[str, Any]], None], schema: Any = None) -> None:
    """A Parquet file with each row changed."""
    rows = pq.read_table(file).to_pylist()
    for row in rows:
        change(row)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)


def test_dev_has_its_share_of_each_task_and_nothing_of_the_cold_start(source: Path, prepared: Path) -> None:
    stats = json.loads((prepared / "rl" / "bench_stats.json").read_text())
    dev = questions_of(prepared, "dev")
    assert Counter(q["task"] for q in dev) == dict.fromkeys(TRAIN, 2) == stats["dev_wanted"]
    assert Counter(q["answer"] for q in dev) == {"YES": 5, "NO": 5}
    assert not {q["name"] for q in dev} & SEEN
    assert len(questions_of(prepared, "rl_train")) == stats["rl_train"] == 121
    assert len(questions_of(prepared, "test")) == stats["test"] == sum(TEST.values())
    assert stats["dev_missing"] == stats["dev_in_cold_start"] == 0
    train = questions_of(prepared, "rl_train")
    assert not {q["object_id"] for q in dev} & {q["object_id"] for q in train}
    assert {q["task"] for q in train} == {"cc", "cv", "gm", "ss", "wd"}
    assert {q["split"] for q in train + dev} == {"rl_train", "dev"}


def test_questions_keep_what_was_published(source: Path, prepared: Path) -> None:
    rows = pq.read_table(source / "benchmark" / "data" / "train_cc.parquet").to_pylist()
    by_id = {q["id"]: q for part in ("rl_train", "dev") for q in questions_of(prepared, part)}
    for row in rows:
        question = by_id[row["extra_info"]["index"]]
        arguments = row["extra_info"]["tools_kwargs"][TOOL_NAME]["create_kwargs"]
        assert question["task"] == "cc"
        assert question["name"] == row["extra_info"]["name"]
        assert question["answer"] == row["reward_model"]["ground_truth"]
        assert [question["system"], question["prompt"]] == [m["content"] for m in row["prompt"]]
        assert (prepared / "rl" / question["image"]).read_bytes() == row["images"][0]["bytes"]
        (spectrum,) = read(str(prepared / "rl" / question["spectrum"]["array_file"]))
        assert np.array_equal(spectrum.wavelength, arguments["wavelength"])
        assert np.array_equal(spectrum.flux, arguments["flux"])
        assert spectrum.redshift.value == arguments["redshift"]
        assert (spectrum.medium, spectrum.id) == ("vacuum", question["name"])


def test_the_folder_can_be_moved_and_every_question_asked(source: Path, tmp_path: Path) -> None:
    prepare_bench(source, tmp_path / "out", coldstart=SEEN)
    (tmp_path / "out").rename(tmp_path / "moved")
    asked = load_questions(str(tmp_path / "moved" / "rl" / "bench_test.jsonl"))
    assert (len(asked.asked), asked.rejects) == (sum(TEST.values()), [])
    posed = asked.pose(asked.asked[0])
    seen = posed.tool({"wavelength_range": [4000, 9000], "label": "all"})
    assert seen.text.startswith("Generated spectral visualization focused on wavelength range (4000, 9000) Å for all.")
    assert posed.question.prompt is not None
    assert posed.question.prompt.startswith("<image>\n")


def test_the_names_of_the_cold_start_are_taken_from_beside(source: Path, tmp_path: Path) -> None:
    assert names_in_sft(tmp_path) is None
    assert prepare_bench(source, tmp_path).stats["cold_start_spectra"] is None
    prepare_coldstart(write_conversations(tmp_path / "set", 30, step=4), tmp_path)
    assert names_in_sft(tmp_path) == {name_of(4 * i) for i in range(30)}
    again = prepare_bench(source, tmp_path)
    assert (again.made, again.stats["cold_start_spectra"]) == (True, 30)
    assert not {q["name"] for q in questions_of(tmp_path, "dev")} & {name_of(4 * i) for i in range(30)}
    assert prepare_bench(source, tmp_path, ignore_coldstart=True).stats["cold_start_spectra"] is None


def test_a_finished_set_is_left_alone_and_an_equal_call_elsewhere_gives_equal_bytes(
    source: Path, prepared: Path, tmp_path: Path
) -> None:
    assert not prepare_bench(source, prepared, coldstart=SEEN, verify=True).made
    flat = tmp_path / "flat"
    flat.mkdir()
    for file in source.rglob("*.parquet"):
        shutil.copy(file, flat)
    prepare_bench(flat, tmp_path / "out", coldstart=SEEN)
    assert bytes_of(tmp_path / "out") == bytes_of(prepared)


@pytest.mark.parametrize("after", [1, 152])
def test_a_killed_preparation_goes_on_and_gives_equal_bytes(
    source: Path, prepared: Path, tmp_path: Path, after: int
) -> None:
    def told(done: int, total: int) -> None:
        if done == after:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if not pid:
        try:
            prepare_bench(source, tmp_path, coldstart=SEEN, told=told)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert prepare_bench(source, tmp_path, coldstart=SEEN).made
    assert bytes_of(tmp_path) == bytes_of(prepared)


@pytest.mark.parametrize("damage", ["cut archive", "no picture", "flipped archive"])
def test_damage_is_found_and_repaired(source: Path, prepared: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(prepared / "rl", tmp_path / "rl")
    archive = next((tmp_path / "rl" / "spectra").iterdir())
    image = next((tmp_path / "rl" / "images").iterdir())
    if damage == "cut archive":
        os.truncate(archive, 100)
    elif damage == "no picture":
        image.unlink()
    else:
        data = archive.read_bytes()
        archive.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    again = prepare_bench(source, tmp_path, coldstart=SEEN, verify=damage == "flipped archive")
    broken = f"images/{image.name}" if damage == "no picture" else f"spectra/{archive.name}"
    assert (again.made, again.repaired) == (True, (broken,))
    assert bytes_of(tmp_path) == bytes_of(prepared)


def test_other_published_spellings_give_the_same_questions(source: Path, prepared: Path, tmp_path: Path) -> None:
    """Tool arguments as JSON text, labels in small letters, pictures beside the file, arrays of 32 bits."""
    shutil.copytree(source, tmp_path / "set")
    data = tmp_path / "set" / "benchmark" / "data"

    def as_text(row: dict[str, Any]) -> None:
        row["extra_info"]["tools_kwargs"] = json.dumps(row["extra_info"]["tools_kwargs"])
        row["reward_model"]["ground_truth"] = row["reward_model"]["ground_truth"].capitalize()

    def beside(row: dict[str, Any]) -> None:
        name = f"pictures/{row['extra_info']['index']}.png"
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(row["images"][0]["bytes"])
        row["images"] = [{"bytes": None, "path": name}]

    rewritten(data / "train_cc.parquet", as_text)
    rewritten(data / "test_cv.parquet", beside)
    schema = pq.read_schema(data / "train_wd.parquet")
    place = schema.get_field_index("extra_info")
    short = pa.list_(pa.float32())
    arguments = pa.struct([("wavelength", pa.list_(pa.float64())), ("flux", short), ("redshift", pa.float64())])
    kwargs = pa.struct([(TOOL_NAME, pa.struct([("create_kwargs", arguments)]))])
    extra = pa.struct([("index", pa.string()), ("name", pa.string()), ("tools_kwargs", kwargs)])
    rewritten(data / "train_wd.parquet", lambda row: None, schema.set(place, pa.field("extra_info", extra)))
    prepare_bench(tmp_path / "set", tmp_path / "out", coldstart=SEEN)
    found, wanted = bytes_of(tmp_path / "out"), bytes_of(prepared)
    assert found.keys() == wanted.keys()
    assert [name for name in found if found[name] != wanted[name]] == ["rl/bench_stats.json"]  # hashes of the source


def test_rows_that_cannot_be_used_are_kept_with_their_reason(tmp_path: Path) -> None:
    rows = [
        bench_row("cv", 0, "YES"),
        bench_row("cv", 0, "YES", index="again"),
        bench_row("cv", 0, "NO", index="otherwise"),
        bench_row("cv", 1, "YES", flux=np.full(24, np.nan)),
        bench_row("cv", 2, "YES", image=b""),
        bench_row("cv", 3, "YES", image=b"GIF89a"),
        bench_row("agn", 4, "YES"),
        bench_row("cv", 5, "MAYBE"),
        bench_row("cv", 6, "YES", name=" "),
        bench_row("cv", 7, "YES", user=""),
        bench_row("cv", 8, "YES", flux=np.arange(4.0)),
        bench_row("cv", 9, "YES", redshift=float("nan")),
        bench_row("wd", 0, "NO"),
    ]
    stats = prepare_bench(one_file(tmp_path / "set", rows), tmp_path).stats
    rejects = lines_of(tmp_path / "rl" / "bench_rejects.jsonl")
    assert [(r["row"], r["reason"], r["detail"]) for r in rejects] == [
        (1, "asked before of the same spectrum", "with the same answer"),
        (2, "asked before of the same spectrum", "with another answer"),
        (3, "too few finite points", "0 of 24"),
        (4, "no picture", "neither bytes nor path"),
        (5, "a picture that is no whole PNG or JPEG", "neither PNG nor JPEG"),
        (6, "an unknown data_source", "agn"),
        (7, "a label that is neither YES nor NO", "MAYBE"),
        (8, "no name", ""),
        (9, "a prompt without one user's text", ""),
        (10, "too few finite points", "4 of 4"),
    ]
    assert stats["rejects"]["too few finite points"] == 2
    assert stats["without_redshift"] == 1
    kept = [q for part in ("rl_train", "dev") for q in questions_of(tmp_path, part)]
    assert Counter((q["name"], q["task"]) for q in kept) == {
        (name_of(0), "cv"): 1, (name_of(9), "cv"): 1, (name_of(0), "wd"): 1
    }  # fmt: skip
    assert len(list((tmp_path / "rl" / "spectra").iterdir())) == 2  # one of name_of(0), though two questions ask
    (spectrum,) = read(str(tmp_path / "rl" / "spectra" / f"{name_of(9)}.npz"))
    assert spectrum.redshift.value is None


def test_a_spectrum_of_one_name_and_other_numbers_is_another_one(tmp_path: Path) -> None:
    rows = [bench_row("cv", 0, "YES"), bench_row("cv", 1, "NO", name=name_of(0))]
    prepare_bench(one_file(tmp_path / "set", rows), tmp_path)
    found = questions_of(tmp_path, "rl_train")
    assert len({q["name"] for q in found}) == len({q["spectrum"]["array_file"] for q in found}) == 2
    assert found[0]["name"] == name_of(0)
    assert found[1]["name"].startswith(f"{name_of(0)}#")


def test_equal_flux_under_two_names_is_one_object(tmp_path: Path) -> None:
    flux = np.arange(24.0)
    one_file(tmp_path / "set", [bench_row("cv", i, "NO", flux=flux if i in (3, 5) else None) for i in range(30)])
    one_file(tmp_path / "set", [bench_row("wd", 90, "NO", flux=flux), bench_row("wd", 4, "NO")], "test_wd")
    stats = prepare_bench(tmp_path / "set", tmp_path, coldstart=[name_of(5)]).stats
    assert stats["same_flux_under_several_names"] == [[name_of(3), name_of(5)], [name_of(3), name_of(90)]]
    train = questions_of(tmp_path, "rl_train")
    assert {name_of(3), name_of(5)} <= {q["name"] for q in train}  # neither is in dev, as one is in the cold start
    assert len({q["object_id"] for q in train if q["name"] in (name_of(3), name_of(5))}) == 1
    assert stats["shared_with_train"]["test"] == {
        "questions": 2,
        "objects": sorted((name_of(3), name_of(4))),
        "of_the_same_spectrum": 1,
        "of_the_same_flux": 1,
        "questions_in_cold_start": 0,
    }


def test_one_star_of_many_names_is_never_in_train_and_dev(source: Path, tmp_path: Path) -> None:
    objects = {name_of(i): f"star {i // 2}" for i in range(200)}
    stats = prepare_bench(source, tmp_path, objects=objects, coldstart=SEEN).stats
    dev, train = questions_of(tmp_path, "dev"), questions_of(tmp_path, "rl_train")
    assert not {q["object_id"] for q in dev} & {q["object_id"] for q in train}
    assert not {q["object_id"] for q in dev} & {objects[name] for name in SEEN}
    assert stats["dev"] == stats["rows"] - stats["rl_train"] - stats["test"] > 0


def test_prompts_are_repaired_and_a_validation_set_is_kept_whole(tmp_path: Path) -> None:
    rows = [bench_row("cv", i, "NO", user="<image>\nHÎ± at 6563 Ã…, T � 4") for i in range(3)]
    one_file(tmp_path / "set", rows)
    one_file(tmp_path / "set", [bench_row("cv", 50, "YES")], "validation_cv")
    stats = prepare_bench(tmp_path / "set", tmp_path, label_source="simulated").stats
    assert questions_of(tmp_path, "rl_train")[0]["prompt"] == "<image>\nHα at 6563 Å, T � 4"
    assert stats["mojibake"] == {
        "repairs": 6,
        "questions_repaired": 3,
        "questions_with_unresolved": 3,
        "unresolved_places": 3,
    }
    changes = lines_of(tmp_path / "rl" / "bench_cleaning.jsonl")
    assert [(c["message"], c["offset"], c["after"]) for c in changes[:2]] == [(1, 9, "α"), (1, 20, "Å")]
    (val,) = questions_of(tmp_path, "val")
    assert (val["split"], val["label_source"], stats["val"]) == ("val", "simulated", 1)


def test_the_published_sizes_have_the_published_dev() -> None:
    assert dev_targets(BENCH_TRAIN) == BENCH_DEV
    assert sum(BENCH_DEV.values()) == 256
    assert dev_targets({"cv": 100, "cc": 3}) == {"cc": 0, "cv": 8}


def test_what_is_no_copy_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no train_cc.parquet or the like; give a copy of the data set"):
        prepare_bench(tmp_path, tmp_path)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train_cv.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"train_cv.parquet: cannot be read as Parquet .*; get it again"):
        prepare_bench(tmp_path / "set", tmp_path)
    pq.write_table(pa.table({"images": [1]}), tmp_path / "set" / "train_cv.parquet")
    with pytest.raises(InputError, match=r"train_cv.parquet: has no column 'data_source'"):
        prepare_bench(tmp_path / "set", tmp_path)
    one_file(tmp_path / "set", [bench_row("cv", 0, "?")])
    with pytest.raises(InputError, match=r"none of the rows of train can be used; the first: .*neither YES nor NO"):
        prepare_bench(tmp_path / "set", tmp_path)
    one_file(tmp_path / "set" / "again", [bench_row("cv", 0, "YES")])
    with pytest.raises(InputError, match=r"is the same part; give a folder that holds one copy"):
        prepare_bench(tmp_path / "set", tmp_path)


def test_file_names_are_safe_and_never_two_contents_one() -> None:
    assert safe_name(name_of(0)) == name_of(0)
    for name in ("../../etc/passwd", "a b", "con", "NUL.fits", "", "…", "a/b", ".hidden", "x" * 300, "光谱"):
        plain = safe_name(name)
        assert plain != name
        assert 1 < len(plain) <= 130
        assert plain.isascii()
        assert not plain.startswith(".")
        assert not set(plain) & set('/\\ :*?"<>|')
    assert safe_name("a b") != safe_name("a/b")
    names = Names()
    given = [
        names.given(name, content) for name, content in (("A", "1"), ("a", "2"), ("A", "3"), ("A", "1"), ("a", "2"))
    ]
    assert given[0] == given[3] == "A"
    assert given[1] == given[4] != "a"
    assert len({g.casefold() for g in given}) == 3


def test_equal_sets_are_written_in_equal_bytes(source: Path, tmp_path: Path) -> None:
    again = write_set(tmp_path / "again", {"train": TRAIN, "test": TEST})
    assert bytes_of(again) == bytes_of(source)
    with pytest.raises(ValueError, match=r"wavelength has shape \(24,\) and flux \(4,\)"):
        write_bench(
            tmp_path / "train_cv.parquet", [bench_row("cv", 0, "YES", flux=np.arange(4.0), wavelength=np.arange(24.0))]
        )
    assert not (tmp_path / "train_cv.parquet").exists()
    assert picture(1) != picture(2)


def test_the_python_of_the_page_on_data_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    section = page.partition("### Your own set in this layout\n")[2].partition("\n#")[0]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    names = {"conversations": coldstart_rows(12), "rows": [bench_row("cv", i, "NO") for i in range(30)]}
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/data.md", "exec"), names)
    dev = questions_of(tmp_path / "data", "dev")
    assert len(dev) == 2
    assert not {q["name"] for q in dev} & {name_of(i) for i in range(12)}
    assert dev[0]["label_source"] == "mine"
