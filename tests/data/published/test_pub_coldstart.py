"""The cold start, prepared: split by object, every change and reject kept, whole after any interruption."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from published_lab import bytes_of, lines_of, name_of, rows_of, write_conversations, write_rows

from specvet.chat import chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.demonstrations import load_sft, read_demonstrations
from specvet.data.errors import InputError
from specvet.data.published.coldstart import prepare_coldstart
from specvet.records import RunLockedError
from specvet.records.lock import FolderLock

N = 60


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("coldstart"), N, most=4)


@pytest.fixture(scope="module")
def prepared(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared")
    assert prepare_coldstart(source, out).made
    return out


def killed(work: Callable[[], object]) -> None:
    """Do it in a process that ends by SIGKILL; its end is waited for."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_one_tenth_is_kept_for_validation_and_all_can_be_learnt(prepared: Path) -> None:
    sft = prepared / "sft"
    format = chat_format("qwen3_5", tiny_vocabulary("qwen3_5"))
    n = {}
    for part in ("train", "val"):
        rows, rejects = load_sft(str(sft / f"sft_{part}.jsonl"), format, 100_000)
        assert not rejects
        n[part] = len(rows)
    assert n == {"train": 54, "val": 6}
    ids = [d.id for part in n for d in read_demonstrations(str(sft / f"sft_{part}.jsonl"))]
    assert len(set(ids)) == N
    assert f"0:{name_of(0)}" in ids


def test_statistics_count_what_the_files_hold(prepared: Path) -> None:
    stats = json.loads((prepared / "sft" / "sft_stats.json").read_text(encoding="utf-8"))
    changes = lines_of(prepared / "sft" / "sft_cleaning.jsonl")
    found = [d for part in ("train", "val") for d in lines_of(prepared / "sft" / f"sft_{part}.jsonl")]
    texts = [[str(m) for m in d["messages"]] for d in found]
    broken = stats["mojibake"]
    assert broken["repairs"] == len(changes)  # none here only marks
    assert broken["conversations_repaired"] == len({c["id"] for c in changes}) == 12
    assert broken["unresolved_places"] == sum(t.count("�") for d in texts for t in d) > 0
    assert broken["conversations_with_unresolved"] == sum(any("�" in t for t in d) for d in texts)
    assert stats["pictures"] == sum(str(d).count("'image'") for d in found)
    assert stats["objects_on_both_sides"] == 0
    assert set(stats["by_task"]["train"].values()) == {10, 11}
    assert stats["answer_is_the_label"] == N
    assert not (prepared / "sft" / "sft_rejects.jsonl").read_text()


def test_a_finished_set_is_left_alone_and_an_equal_call_elsewhere_gives_equal_bytes(
    source: Path, prepared: Path, tmp_path: Path
) -> None:
    before = {p: p.stat().st_mtime_ns for p in prepared.rglob("*") if p.name != "run.lock"}
    again = prepare_coldstart(source, prepared, verify=True)
    assert not again.made
    assert {p: p.stat().st_mtime_ns for p in before} == before
    shutil.copytree(source, tmp_path / "copy")
    prepare_coldstart(tmp_path / "copy", tmp_path / "out")
    assert bytes_of(tmp_path / "out") == bytes_of(prepared)


def test_the_folder_can_be_moved(source: Path, tmp_path: Path) -> None:
    prepare_coldstart(source, tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "moved")
    format = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
    rows, rejects = load_sft(str(tmp_path / "moved" / "sft" / "sft_val.jsonl"), format, 100_000)
    assert (len(rows), rejects) == (6, [])
    assert len(rows[0].datum().images) == rows[0].n_images > 0


@pytest.mark.parametrize("after", [1, N])
def test_a_killed_preparation_goes_on_and_gives_equal_bytes(
    source: Path, prepared: Path, tmp_path: Path, after: int
) -> None:
    def told(done: int, total: int) -> None:
        if done == after:
            (tmp_path / "sft" / "images" / ".specvet-0123.tmp").write_bytes(b"half a picture")
            os.kill(os.getpid(), signal.SIGKILL)

    killed(lambda: prepare_coldstart(source, tmp_path, told=told))
    assert not (tmp_path / "sft" / "sft_stats.json").exists()
    assert prepare_coldstart(source, tmp_path).made
    assert bytes_of(tmp_path) == bytes_of(prepared)


@pytest.mark.parametrize("before", ["finish", "write_atomic"])
def test_a_preparation_killed_at_its_end_goes_on_too(source: Path, prepared: Path, tmp_path: Path, before: str) -> None:
    """All files are there but the list of them, or the list is begun."""
    from specvet.data.published import outputs

    def dies() -> None:
        place = outputs.Outputs if before == "finish" else outputs
        setattr(place, before, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        prepare_coldstart(source, tmp_path)

    killed(dies)
    assert (tmp_path / "sft" / "sft_val.jsonl").is_file()
    assert prepare_coldstart(source, tmp_path).made
    assert bytes_of(tmp_path) == bytes_of(prepared)


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "lines"])
def test_damage_is_found_and_repaired(source: Path, prepared: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(prepared / "sft", tmp_path / "sft")
    picture = tmp_path / "sft" / "images" / "lf_cv_0_0.png"
    whole = picture.read_bytes()
    if damage == "missing":
        picture.unlink()
    elif damage == "cut":
        picture.write_bytes(whole[:-20])
    elif damage == "flipped":
        picture.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
        assert not prepare_coldstart(source, tmp_path).made  # the size is right: only hashes tell
    else:
        (tmp_path / "sft" / "sft_val.jsonl").write_text("")
    again = prepare_coldstart(source, tmp_path, verify=damage == "flipped")
    assert again.made
    assert again.repaired == (("sft_val.jsonl",) if damage == "lines" else ("images/lf_cv_0_0.png",))
    assert bytes_of(tmp_path) == bytes_of(prepared)


def test_another_seed_prepares_again_and_leaves_nothing_of_the_old_split(
    source: Path, prepared: Path, tmp_path: Path
) -> None:
    shutil.copytree(prepared / "sft", tmp_path / "sft")
    assert prepare_coldstart(source, tmp_path, seed=1).made
    other = bytes_of(tmp_path)
    assert other["sft/sft_val.jsonl"] != bytes_of(prepared)["sft/sft_val.jsonl"]
    assert prepare_coldstart(source, tmp_path).made
    assert bytes_of(tmp_path) == bytes_of(prepared)


def test_rows_that_cannot_be_used_are_kept_with_their_reason(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "set")
    rows = rows_of(tmp_path / "set")[:12]
    rows[0]["images"] = rows[0]["images"][:-1]
    rows[1]["conversations"] = rows[1]["conversations"][:-1]
    rows[2]["images"][0] = "images/none.png"
    (tmp_path / "set" / "images" / "lf_gm_0_0.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    assert rows[3]["images"][0] == "images/lf_gm_0_0.png"
    rows[4] = ["not", "a", "row"]  # type: ignore[call-overload]
    rows[5]["source_name"] = "a\ud800b"
    (tmp_path / "set" / "train_sharegpt.json").write_text(json.dumps(rows))
    stats = prepare_coldstart(tmp_path / "set", tmp_path).stats
    rejects = lines_of(tmp_path / "sft" / "sft_rejects.jsonl")
    assert [r["row"] for r in rejects] == [0, 1, 2, 3, 4, 5]
    assert stats["usable"] == 6
    assert stats["rejects"] == {
        "a picture is missing or damaged": 2,
        "a row that is no object": 1,
        "more <image> marks than pictures": 1,
        "no conversation that can be learnt": 2,
    }
    assert "images/none.png: there is no such picture" in rejects[2]["detail"]
    assert rejects[5]["name"] == "a?b"
    assert "the last must be an assistant's" in rejects[1]["detail"]


def test_one_star_of_many_names_is_never_on_both_sides(source: Path, tmp_path: Path) -> None:
    objects = {name_of(i): f"star {i // 3}" for i in range(N)}
    stats = prepare_coldstart(source, tmp_path, objects=objects).stats
    sides = [{d["object_id"] for d in lines_of(tmp_path / "sft" / f"sft_{part}.jsonl")} for part in ("train", "val")]
    assert not sides[0] & sides[1]
    assert stats["objects"] == 20
    assert 0 < stats["val"] <= 6


def test_what_is_no_copy_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no such folder; give a copy of the data set Maxwell-Jia/Spec-o3"):
        prepare_coldstart(tmp_path / "none", tmp_path)
    (tmp_path / "set").mkdir()
    with pytest.raises(InputError, match=r"there is no train_sharegpt.json"):
        prepare_coldstart(tmp_path / "set", tmp_path)
    (tmp_path / "set" / "train_sharegpt.json").write_text("[{")
    with pytest.raises(InputError, match=r"train_sharegpt.json: cannot be read .*; download it again"):
        prepare_coldstart(tmp_path / "set", tmp_path)
    write_rows(tmp_path / "set", [{}])
    with pytest.raises(InputError, match=r"none of its 1 conversations can be used; the first: .*no conversations"):
        prepare_coldstart(tmp_path / "set", tmp_path)


def test_two_preparations_of_one_folder_do_not_meet(source: Path, tmp_path: Path) -> None:
    (tmp_path / "sft").mkdir()
    lock = FolderLock(tmp_path / "sft")
    try:
        with pytest.raises(RunLockedError):
            prepare_coldstart(source, tmp_path)
    finally:
        lock.release()
