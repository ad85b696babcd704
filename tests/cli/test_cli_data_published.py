"""`specvet data coldstart` and `bench`: downloaded from a hub on the loopback, or from a copy, prepared."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specvet.cli.main import main
from specvet.data.published.layout import BENCH, COLDSTART

sys.path.append(str(Path(__file__).parents[1] / "data" / "published"))
from hub_lab import Hub, hub
from published_lab import bytes_of, name_of, write_conversations, write_set


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("published")
    none = dict.fromkeys(("cc", "gm", "ss"), 0)
    sizes = {"train": {"cv": 30, "wd": 16, **none}, "test": {"cv": 4, "wd": 0, **none}}
    return {
        BENCH: write_set(folder / "bench", sizes),
        COLDSTART: write_conversations(folder / "coldstart", 10, step=4),
    }


@pytest.fixture
def served(sets: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as made:
        made.sets = dict(sets)
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield made


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network: nobody listens where the hub should be."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["data", *map(str, arguments)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_both_sets_are_downloaded_and_prepared_and_a_second_call_does_nothing(
    served: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sft = tmp_path / "sft"
    code, out, err = run(capsys, "coldstart", "--out", tmp_path)
    assert out.splitlines()[-1] == f"next: specvet data bench --out {tmp_path}"
    assert (code, out.splitlines()[0]) == (
        0, "10 of 10 conversations: 9 to learn from, 1 for validation; 55 pictures"
    )  # fmt: skip
    assert f"got {COLDSTART} at revision {served.commit(COLDSTART)}" in err
    assert "pin.json pins it" in err
    code, out, err = run(capsys, "bench", "--out", tmp_path)
    assert (code, out.splitlines()) == (
        0,
        [
            "50 questions: 43 to learn from, 3 for development, 4 to test; 50 spectra",
            "dev by task: cv 2, wd 1 (share of each task)",
            f"next: specvet train sft --profile qwen3.5-4b-chapter --data {sft}/sft_train.jsonl "
            f"--validation {sft}/sft_val.jsonl --dry-run",
        ],
    )
    served.asked.clear()
    before = bytes_of(tmp_path)
    shutil.rmtree(tmp_path / "download" / "bench" / "benchmark")  # what was prepared needs it no more
    for command, folder in (("coldstart", "sft"), ("bench", "rl")):
        code, out, err = run(capsys, command, "--out", tmp_path)
        assert (code, err) == (0, f"specvet: {tmp_path / folder} is complete already; nothing to do\n")
    assert served.asked == []
    after = bytes_of(tmp_path)
    assert {k: v for k, v in before.items() if "/benchmark/" not in k} == after


def test_a_copy_gives_the_same_files_without_a_network(
    served: Hub, sets: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    assert run(capsys, "coldstart", "--out", tmp_path / "a", "--quiet") == (0, "", "")
    assert run(capsys, "bench", "--out", tmp_path / "a", "--quiet") == (0, "", "")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for command, dataset in (("coldstart", COLDSTART), ("bench", BENCH)):
        cache = cached(tmp_path / "hub", dataset, sets[dataset], served.commit(dataset))
        assert run(capsys, command, "--out", tmp_path / "b", "--from", cache, "--quiet") == (0, "", "")
        assert run(capsys, command, "--out", tmp_path / "c", "--from", sets[dataset], "--quiet") == (0, "", "")
    for folder in ("sft", "rl"):
        downloaded = bytes_of(tmp_path / "a" / folder)
        assert bytes_of(tmp_path / "b" / folder) == downloaded
        copied = bytes_of(tmp_path / "c" / folder)
        differing = [name for name in downloaded if downloaded[name] != copied[name]]
        assert downloaded.keys() == copied.keys()
        assert all(name.endswith("_stats.json") for name in differing)  # a plain copy does not say its revision


def cached(hub_cache: Path, dataset: str, folder: Path, revision: str) -> Path:
    """The folder as the libraries of the hub keep it: blobs, and links to them under the revision."""
    place = hub_cache / f"datasets--{dataset.replace('/', '--')}"
    for i, file in enumerate(sorted(p for p in folder.rglob("*") if p.is_file())):
        blob = place / "blobs" / f"{i:040x}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blob)
        link = place / "snapshots" / revision / file.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(revision)
    return hub_cache


def test_the_benchmark_alone_fetches_the_list_of_the_cold_start_and_no_picture(
    served: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "bench", "--out", tmp_path, "--json")
    stats = json.loads(out)
    assert (code, stats["cold_start_spectra"], stats["made"]) == (0, 10, True)
    asked = [path for _, path, *_ in served.asked if "/resolve/" in path and COLDSTART in path]
    assert [path.rpartition("/")[2] for path in asked] == ["train_sharegpt.json"]
    dev = [json.loads(line) for line in (tmp_path / "rl" / "bench_dev.jsonl").read_text().splitlines()]
    assert not {q["name"] for q in dev} & {name_of(4 * i) for i in range(10)}


@pytest.mark.usefixtures("nowhere")
def test_a_copy_of_the_benchmark_needs_the_cold_start_or_the_word_to_go_on(
    sets: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = ("bench", "--out", tmp_path, "--from", sets[BENCH])
    code, _, err = run(capsys, *copy)
    assert code == 2
    assert "name a copy with --coldstart FOLDER, or go on without it: --no-coldstart" in err
    code, out, _ = run(capsys, *copy, "--no-coldstart")
    assert (code, out.splitlines()[-2]) == (
        0, "the cold start is not known: dev may hold spectra that SFT has seen"
    )  # fmt: skip
    code, out, _ = run(capsys, *copy, "--coldstart", sets[COLDSTART], "--json")
    assert (code, json.loads(out)["cold_start_spectra"]) == (0, 10)
    assert run(capsys, *copy, "--coldstart", sets[COLDSTART], "--no-coldstart")[0] == 2


@pytest.mark.usefixtures("nowhere")
def test_without_a_network_the_way_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "coldstart", "--out", tmp_path)
    assert code == 1
    assert "cannot be reached at http://127.0.0.1:9" in err
    assert "--from FOLDER" in err
    code, _, err = run(capsys, "coldstart", "--out", tmp_path, "--from", tmp_path / "none")
    assert code == 1
    assert "none: there is no such folder; give a copy of the data set" in err


def test_damage_is_said_and_repaired(sets: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = ("coldstart", "--out", tmp_path, "--from", sets[COLDSTART])
    run(capsys, *copy)
    before = bytes_of(tmp_path)
    os.truncate(tmp_path / "sft" / "images" / "lf_cv_0_0.png", 10)
    _, _, err = run(capsys, *copy)
    assert "lf_cv_0_0.png was missing or damaged, and is written again" in err
    assert bytes_of(tmp_path) == before


def test_objects_come_from_a_table(sets: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "objects.csv"
    table.write_text("name,object_id\n" + "".join(f"{name_of(i)},star {i // 8}\n" for i in range(60)))
    copy = ("coldstart", "--out", tmp_path, "--from", sets[COLDSTART], "--json")
    code, out, _ = run(capsys, *copy, "--objects", table)
    assert (code, json.loads(out)["objects"]) == (0, 5)
    assert json.loads(run(capsys, *copy)[1])["objects"] == 10
    table.write_text("file,object\n")
    code, _, err = run(capsys, *copy, "--objects", table)
    assert (code, "has no column 'name'; it has file, object" in err) == (2, True)
    table.write_text(f"name,object_id\n{name_of(0)},a\n{name_of(0)},b\n")
    assert "row 2: " in run(capsys, *copy, "--objects", table)[2]


def test_a_copy_is_held_to_the_package_s_pin(
    served: Hub, sets: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    run(capsys, "coldstart", "--out", tmp_path / "a")
    pin = json.loads((tmp_path / "a" / "download" / "coldstart" / "pin.json").read_text())["pin"]
    monkeypatch.setattr("specvet.data.published.pins._pins", lambda: pin)
    served.asked.clear()
    assert run(capsys, "coldstart", "--out", tmp_path / "b", "--quiet")[0] == 0
    assert not any("/api/" in path for _, path, *_ in served.asked)
    shutil.copytree(sets[COLDSTART], tmp_path / "copy")
    copy = ("coldstart", "--out", tmp_path / "c", "--from", tmp_path / "copy")
    assert run(capsys, *copy, "--quiet")[0] == 0
    assert bytes_of(tmp_path / "c" / "sft") == bytes_of(tmp_path / "b" / "sft")
    (tmp_path / "copy" / "images" / "lf_cv_0_0.png").write_bytes(b"x")
    code, _, err = run(capsys, *copy)
    assert code == 1
    assert "lf_cv_0_0.png: has 1 bytes" in err
    assert "get this file again at that revision" in err


def test_a_finished_set_needs_neither_the_download_nor_a_network(
    served: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    run(capsys, "bench", "--out", tmp_path, "--quiet")
    run(capsys, "coldstart", "--out", tmp_path / "b", "--quiet")
    shutil.rmtree(tmp_path / "download")
    shutil.rmtree(tmp_path / "b" / "download")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "rl is complete already" in run(capsys, "bench", "--out", tmp_path)[2]
    assert "sft is complete already" in run(capsys, "coldstart", "--out", tmp_path / "b")[2]
    assert run(capsys, "coldstart", "--out", tmp_path / "b", "--seed", "1")[0] == 1


def test_damage_in_the_download_is_found_and_mended_at_once(
    served: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "coldstart", "--out", tmp_path, "--quiet")
    before = bytes_of(tmp_path)
    file = tmp_path / "download" / "coldstart" / "train_sharegpt.json"
    file.write_bytes(b"[" * file.stat().st_size)
    shutil.rmtree(tmp_path / "sft")
    code, _, err = run(capsys, "coldstart", "--out", tmp_path)
    assert (code, "checking by hash what was downloaded" in err) == (0, True)
    assert bytes_of(tmp_path) == before
    _, _, err = run(capsys, "coldstart", "--out", tmp_path, "--seed", "1")
    assert "damaged" not in err


@pytest.mark.usefixtures("nowhere")
def test_a_part_of_the_benchmark_is_an_error_unless_it_is_meant(
    sets: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sets[BENCH], tmp_path / "copy")
    (tmp_path / "copy" / "benchmark" / "data" / "train_cc.parquet").unlink()
    copy = ("bench", "--out", tmp_path, "--from", tmp_path / "copy", "--no-coldstart")
    code, _, err = run(capsys, *copy)
    assert (code, "it lacks train_cc.parquet; get these too, or go on with the part" in err) == (1, True)
    code, out, _ = run(capsys, *copy, "--partial")
    assert (code, out.splitlines()[0]) == (0, "PARTIAL: the copy lacks train_cc.parquet")
