"""Sets and hubs that are hostile or broken: told in words, never followed out of the folder, never counted twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_lab import Hub, hub
from published_lab import (
    SYSTEM,
    TOOL,
    bench_row,
    bytes_of,
    lines_of,
    name_of,
    picture,
    rows_of,
    write_conversations,
    write_rows,
)

from specvet.data.errors import InputError
from specvet.data.mojibake import repaired
from specvet.data.published import download
from specvet.data.published.bench import check_whole, dev_targets, prepare_bench
from specvet.data.published.coldstart import prepare_coldstart
from specvet.data.published.download import LISTING, DownloadError, downloaded
from specvet.data.published.layout import BENCH_DEV, BENCH_FILES, BENCH_TRAIN, COLDSTART, TOOL_NAME
from specvet.data.published.naming import Ids
from specvet.data.published.objects import read_objects
from specvet.data.published.pins import check_copy, read_pin
from specvet.data.published.sharegpt import trajectory
from specvet.data.published.toolblock import tool_block, without_tool_block
from specvet.data.published.whole import picture_problem
from specvet.data.published.writing import write_bench
from specvet.records import RunLockedError
from specvet.records.lock import FolderLock


def prepared(tmp_path: Path, rows: list[Any], **options: Any) -> dict[str, Any]:
    write_bench(tmp_path / "set" / "train_cv.parquet", rows)
    return prepare_bench(tmp_path / "set", tmp_path, **options).stats


def asked(out: Path) -> list[dict[str, Any]]:
    return [q for part in ("rl_train", "dev") for q in lines_of(out / "rl" / f"bench_{part}.jsonl")]


def one_picture(folder: Path) -> Path:
    """A hub's data set of one file of 5,000 bytes."""
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "a.png").write_bytes(bytes(range(250)) * 20)
    return folder


def got(folder: Path, **options: Any) -> str:
    return downloaded(COLDSTART, folder, lambda path: True, **{"wait": lambda seconds: None} | options)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with hub() as made:
        made.sets = {COLDSTART: one_picture(tmp_path / "hub")}
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield made


def test_one_published_name_is_one_object_whatever_its_numbers(tmp_path: Path) -> None:
    rows = [bench_row("cv" if i % 2 else "wd", i, "NO", name=name_of(i // 4), redshift=0.1 * i) for i in range(120)]
    seen = [name_of(i) for i in range(20)]
    stats = prepared(tmp_path, rows, coldstart=seen)
    found = asked(tmp_path)
    assert len({q["name"] for q in found}) == 120  # each its own
    assert {q["object_id"] for q in found} == {name_of(i) for i in range(30)}
    assert all(q["name"].partition("#")[0] == q["object_id"] for q in found)
    dev = lines_of(tmp_path / "rl" / "bench_dev.jsonl")
    assert len(dev) == stats["dev"] == 8
    assert not {q["object_id"] for q in dev} & set(seen)
    assert stats["dev_in_cold_start"] == 0
    write_bench(tmp_path / "set" / "test_cv.parquet", [bench_row("cv", 500, "NO", name=name_of(3))])
    shared = prepare_bench(tmp_path / "set", tmp_path, coldstart=seen).stats["shared_with_train"]["test"]
    assert shared == {
        "questions": 1,
        "objects": [name_of(3)],
        "of_the_same_spectrum": 1,
        "of_the_same_flux": 0,
        "questions_in_cold_start": 1,
    }


OUTSIDE = ["/etc/x", "../x", "a/../../x", "a\\..\\x", "C:/x", "c:x", "a\0b", "a//b", "./a", "", "a/"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_file_outside_the_folder_is_refused_wherever_a_list_names_it(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    own = {"size": 1, "sha256": "0" * 64}
    with pytest.raises(InputError, match=r"is no file inside a data set; nothing was written"):
        read_pin({"revision": "a" * 40, "files": {path: own}})
    folder = tmp_path / "got"
    folder.mkdir()
    (folder / LISTING).write_text(json.dumps({"revision": "a" * 40, "files": {path: own}}))
    with pytest.raises(InputError, match=r"listing.json: .* is no file inside a data set"):
        got(folder)
    monkeypatch.setattr(Hub, "paths", lambda self, name: ["images/a.png"])
    entry = {"type": "file", "oid": "0" * 40, "size": 5, "path": path}
    monkeypatch.setattr("hub_lab._Handler._entry", lambda self, name, _: entry)
    (folder / LISTING).unlink()
    with pytest.raises(InputError, match=r"the list of files of .* is no file inside a data set"):
        got(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["run.lock"]


@pytest.mark.parametrize("revision", ["../../x", "None", "a" * 39, ""])
def test_a_revision_that_is_no_commit_is_refused(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    monkeypatch.setattr(Hub, "commit", lambda self, name: revision)
    with pytest.raises(InputError, match=r"is no revision \(40 hexadecimal digits\)"):
        got(tmp_path / "got")


def test_a_hub_that_cuts_each_answer_is_asked_on_while_bytes_come(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Always(dict[str, int]):
        def pop(self, key: str, *default: Any) -> int:  # type: ignore[override]
            return 300

    served.cut = Always()
    got(tmp_path / "got")
    assert (tmp_path / "got" / "images" / "a.png").read_bytes() == bytes(range(250)) * 20
    assert served.ranges("a.png") == [None, *(f"bytes={300 * i}-" for i in range(1, 17))]


def test_what_no_hub_says_is_told_at_once(served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(seconds: float) -> None:
        raise AssertionError("waits")

    entry = {"type": "file", "oid": "0" * 40, "size": 4_000, "path": "images/a.png"}
    monkeypatch.setattr("hub_lab._Handler._entry", lambda self, name, _: entry)
    with pytest.raises(DownloadError, match=r"sends has 5,000 bytes, 4,000 expected, twice"):
        got(tmp_path / "a", wait=never)
    monkeypatch.setattr("hub_lab._Handler._info", lambda self, *_: self._send(200, b"<html>", {}))
    with pytest.raises(DownloadError, match=r"answers with what no hub says .*login page"):
        got(tmp_path / "b", wait=never)
    monkeypatch.setattr("hub_lab._Handler._info", lambda self, *_: self._error(301))
    with pytest.raises(DownloadError, match=r"is HF_ENDPOINT right"):
        got(tmp_path / "c", wait=never)


def test_ctrl_c_ends_the_waits_of_all_files(served: Hub, tmp_path: Path) -> None:
    served.busy = {"/resolve/": [503] * 99}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where tests run in the background
    pressed = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            downloaded(COLDSTART, tmp_path / "got", lambda path: True)
    finally:
        pressed.cancel()
        signal.signal(signal.SIGINT, before)
    assert len(served.ranges("a.png")) < download.TRIES  # it did not wait for its last try


def test_two_downloads_into_one_folder_do_not_meet(served: Hub, tmp_path: Path) -> None:
    (tmp_path / "got").mkdir()
    lock = FolderLock(tmp_path / "got")
    with pytest.raises(RunLockedError):
        got(tmp_path / "got")
    lock.release()
    got(tmp_path / "got")


def test_a_copy_that_lacks_parts_says_which(tmp_path: Path) -> None:
    stats = prepared(tmp_path, [bench_row("cv", i, "NO") for i in range(3)])
    missing = [name for name in BENCH_FILES if name != "train_cv.parquet"]
    assert stats["missing_parts"] == missing
    with pytest.raises(InputError, match=r"it lacks train_cc.parquet, train_gm.parquet.*--partial"):
        check_whole(tmp_path / "set")
    for name in missing:
        write_bench(tmp_path / "set" / name, [])
    check_whole(tmp_path / "set")
    pin = read_pin({"revision": "a" * 40, "files": {"x/none.parquet": {"size": 1, "sha256": "0" * 64}}})
    check_copy([], tmp_path, "set", pin)
    with pytest.raises(InputError, match=r"lacks x/none.parquet of set at a+ \(1 of its files\)"):
        check_copy([], tmp_path, "set", pin, lambda path: True)


def test_another_source_that_was_interrupted_leaves_nothing(tmp_path: Path) -> None:
    first, other = [bench_row("cv", i, "NO") for i in range(4)], [bench_row("cv", i, "NO") for i in range(50, 60)]

    def dies(done: int, total: int) -> None:
        if done == 7:
            os.kill(os.getpid(), signal.SIGKILL)

    prepared(tmp_path, first)
    fresh = bytes_of(tmp_path / "rl")
    if not (pid := os.fork()):
        try:
            prepared(tmp_path, other, told=dies)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert len(list((tmp_path / "rl" / "spectra").iterdir())) > 4
    write_bench(tmp_path / "set" / "train_cv.parquet", first)
    again = prepare_bench(tmp_path / "set", tmp_path)
    assert (again.made, again.repaired) == (True, ())
    assert bytes_of(tmp_path / "rl") == fresh
    assert prepare_bench(tmp_path / "set", tmp_path, seed=1).repaired == ()  # another split is no damage


def test_ids_are_their_own_whatever_they_look_like(tmp_path: Path) -> None:
    ids = Ids()
    given = [ids.unique(wanted) for wanted in ("a", "a", "a:2", "a", "a:2", "b")]
    assert given == ["a", "a:2", "a:2:2", "a:3", "a:2:3", "b"]
    prepared(tmp_path, [bench_row("cv", i, "NO", index=index) for i, index in enumerate(("x", "x", "x:2", "", ""))])
    assert len({q["id"] for q in asked(tmp_path)}) == 5
    rows = rows_of(write_conversations(tmp_path / "said", 12, most=2))
    for row, name in zip(rows, ("a", "a", "a:2"), strict=False):
        row |= {"source_name": f" {name} ", "sample_index": 0}
    write_rows(tmp_path / "said", rows)
    stats = prepare_coldstart(tmp_path / "said", tmp_path).stats
    found = [d for part in ("train", "val") for d in lines_of(tmp_path / "sft" / f"sft_{part}.jsonl")]
    assert len({d["id"] for d in found}) == 12
    assert {"a", "a:2"} < {d["name"] for d in found}  # without blanks around them
    assert sum(stats["val_wanted"].values()) == 1
    assert stats["val_missing"] == 1 - stats["val"]


def test_changes_are_where_the_published_text_has_them() -> None:
    system = f"HÎ± first.{tool_block([TOOL])}\n\n  Then HÎ² and Ã…. "
    own = without_tool_block(system)
    assert own.text == "HÎ± first.\n\nThen HÎ² and Ã…."
    escaped = r"{\"x\"} H\u00ce\u00b1 \\u00ce \ud83d\ude00 \u0048 \u00ce\u00b2"
    call = f'{{"name": "{TOOL_NAME}", "arguments": {{"wavelength_range": [6400.10, 67e2], "label": "{escaped}"}}}}'
    broken = r'{"name": "H\u00ce\u00b1'
    turns = [
        ("system", system),
        ("human", "HÎ±?"),
        ("gpt", f"<think>HÎ±</think>Ã… <tool_call>\n{call}\n</tool_call> Ã…"),
        ("human", "HÎ±"),
        ("gpt", f"<tool_call>\n{broken}\n</tool_call>"),
        ("human", "no"),
        ("gpt", r"<answer>\boxed{NO}</answer>"),
    ]
    row = {"conversations": [{"from": who, "value": text} for who, text in turns], "source_name": "a"}
    found = trajectory(row, "id", "a")
    assert [c.message for c in found.changes] == [0, 0, 0, 1, 2, 2, 2, 2, 2, 3]
    for cleaned in found.changes:
        assert turns[cleaned.message][1][cleaned.change.offset :].startswith(cleaned.change.before)
    assert [c.change.before for c in found.changes if "u00" in c.change.before] == [r"\u00ce\u00b1", r"\u00ce\u00b2"]
    arguments = found.demonstration.messages[2].calls[0].arguments
    assert arguments == {"wavelength_range": [6400.1, 6700.0], "label": r'{"x"} Hα \u00ce 😀 H β'}
    assert broken in str(found.demonstration.messages[4].content[0])  # as it stands


@pytest.mark.parametrize(
    "path", ["sft_train.jsonl", "run.lock", "images", "images/../x.png", "x/images/a.png", "./a.png"]
)
def test_a_picture_elsewhere_than_among_the_pictures_is_a_reject(tmp_path: Path, path: str) -> None:
    rows = rows_of(write_conversations(tmp_path / "set", 4, most=1))
    rows[0]["images"][0] = path
    write_rows(tmp_path / "set", rows)
    shutil.copy(tmp_path / "set" / rows[1]["images"][0], tmp_path / "set" / "sft_train.jsonl")
    stats = prepare_coldstart(tmp_path / "set", tmp_path).stats
    assert stats["usable"] == 3
    (reject,) = lines_of(tmp_path / "sft" / "sft_rejects.jsonl")
    assert (reject["name"], reject["reason"].startswith("a picture outside ")) == (name_of(0), True)
    assert len(lines_of(tmp_path / "sft" / "sft_train.jsonl")) == stats["train"]


def test_pictures_are_whole_to_their_end() -> None:
    png = picture(1)
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xda\x00\x04cdpixels\xff\xd9"
    assert picture_problem(png) == picture_problem(jpeg) == picture_problem(png + b"more") == ""
    assert all(picture_problem(png[:n]) for n in range(len(png)))
    assert all(picture_problem(jpeg[:n]) for n in range(len(jpeg)))
    assert "checksum" in picture_problem(png[:45] + bytes([png[45] ^ 1]) + png[46:])


def text(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    """The same change, of a row whose extra_info is JSON text."""

    def changed(row: dict[str, Any]) -> None:
        change(row)
        row["extra_info"] = json.dumps(row["extra_info"])

    return changed


def arguments(row: dict[str, Any]) -> dict[str, Any]:
    return row["extra_info"]["tools_kwargs"][TOOL_NAME]["create_kwargs"]


ODD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "flux in a list": (lambda r: arguments(r).update(flux=[arguments(r)["flux"]]), "no spectrum"),
    "flux a struct": (lambda r: arguments(r).update(flux={"a": 1.0}), "no spectrum"),
    "flux a text": (lambda r: arguments(r).update(flux="x"), "no spectrum"),
    "400 digits": (text(lambda r: arguments(r).update(flux=[10**400] * 24)), "no spectrum"),
    "nested": (text(lambda r: arguments(r).update(flux=[[1.0]] * 24)), "no spectrum"),
    "half a character": (text(lambda r: r["extra_info"].update(name="a\ud800")), "half a character in its name"),
    "no path": (lambda r: r.update(images=[{"x": 1}]), "no picture"),
    "pictures without bytes": (lambda r: r.update(images={"x": 1}), "no picture"),
    "pictures a text": (lambda r: r.update(images="x"), "not one picture"),
    "pictures of bytes": (lambda r: r.update(images=[b"x"]), "not one picture"),
    "zero byte in a path": (lambda r: r.update(images=[{"bytes": None, "path": "a\0b"}]), "no picture"),
    "a number for a path": (lambda r: r.update(images=[{"bytes": None, "path": 5}]), "no picture"),
    "cut PNG": (lambda r: r.update(images=[{"bytes": picture(1)[:-9], "path": None}]), "a picture that is no whole"),
}


@pytest.mark.parametrize("odd", ODD)
def test_types_that_no_published_row_has_are_rejects_with_the_row_s_name(tmp_path: Path, odd: str) -> None:
    change, reason = ODD[odd]
    prepared(tmp_path, [bench_row("cv", i, "NO") for i in range(2)])
    rows = pq.read_table(tmp_path / "set" / "train_cv.parquet").to_pylist()
    names = [row["extra_info"]["name"] for row in rows]
    for row in rows:
        change(row)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "set" / "train_cv.parquet")
    write_bench(tmp_path / "set" / "train_wd.parquet", [bench_row("wd", 9, "NO")])
    prepare_bench(tmp_path / "set", tmp_path)
    rejects = lines_of(tmp_path / "rl" / "bench_rejects.jsonl")
    assert [r["reason"].startswith(reason) for r in rejects] == [True, True]
    assert [r["name"] for r in rejects] == (["a?", "a?"] if odd == "half a character" else names)


def test_text_that_is_no_utf_8_is_a_reject(tmp_path: Path) -> None:
    prepared(tmp_path, [bench_row("cv", i, "NO") for i in range(2)])
    table = pq.read_table(tmp_path / "set" / "train_cv.parquet")
    raw = pa.array([b"c\xff", b"cv"], pa.binary()).buffers()
    table = table.set_column(1, "data_source", pa.Array.from_buffers(pa.string(), 2, raw))
    pq.write_table(table, tmp_path / "set" / "train_cv.parquet")
    prepare_bench(tmp_path / "set", tmp_path)
    (reject,) = lines_of(tmp_path / "rl" / "bench_rejects.jsonl")
    assert (reject["reason"], reject["name"]) == ("a row that cannot be read", name_of(0))


def test_a_redshift_may_be_text_and_a_name_has_no_blanks_around_it(tmp_path: Path) -> None:
    prepared(tmp_path, [bench_row("cv", 0, "NO", name=f" {name_of(0)}\n")])
    rows = pq.read_table(tmp_path / "set" / "train_cv.parquet").to_pylist()
    arguments(rows[0])["redshift"] = " 0.25"
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "set" / "train_cv.parquet")
    assert prepare_bench(tmp_path / "set", tmp_path).stats["without_redshift"] == 0
    with np.load(tmp_path / "rl" / "spectra" / f"{name_of(0)}.npz") as archive:
        assert (float(archive["redshift"]), str(archive["id"])) == (0.25, name_of(0))


def test_rejects_count_for_the_published_development_set() -> None:
    usable = dict(BENCH_TRAIN) | {"cc": 600, "wd": 3}
    assert dev_targets(usable, BENCH_TRAIN) == BENCH_DEV
    assert dev_targets(usable) == {"cc": 46, "cv": 54, "gm": 50, "ss": 54, "wd": 0}


def test_conversations_that_nobody_can_keep_are_rejects_or_said_so(tmp_path: Path) -> None:
    rows = rows_of(write_conversations(tmp_path / "set", 6, most=1))
    rows[0]["ground_truth"] = "\ud800"
    deep = "# Tools\n<tools>\n" + "[" * 100_000 + "\n</tools>"
    rows[1]["conversations"][0]["value"] = deep
    file = tmp_path / "set" / "train_sharegpt.json"
    file.write_text(json.dumps(rows))
    stats = prepare_coldstart(tmp_path / "set", tmp_path).stats
    assert stats["rejects"] == {"half a character, which no file can keep": 1}
    file.write_text("[]")
    with pytest.raises(InputError, match=r"holds no conversation \(an empty list\)"):
        prepare_coldstart(tmp_path / "set", tmp_path)
    file.write_text('{"a": 1}\n{"a": 2}\n')
    with pytest.raises(InputError, match=r"has a row a line \(JSON Lines\)"):
        prepare_coldstart(tmp_path / "set", tmp_path)
    with pytest.raises(InputError, match=r"train_sharegpt.json: is a file; give the folder"):
        prepare_coldstart(file, tmp_path)
    assert SYSTEM not in deep


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (" name , object_id \na,x\n", {"a": "x"}),
        ("name;object_id\na;x\n\nb;y\n", {"a": "x", "b": "y"}),
        ("name\tobject_id\tz\na\tx\n", {"a": "x"}),
        ("\ufeffname,object_id\na,NaN\nb,nan\nc,\nd,x\n", {"d": "x"}),
        ("name,object_id\na,x\na,y\n", r"row 2: a is 'y' here and 'x' before"),
        ("name,object_id\na," + "x" * 200_000, r"cannot be read: field larger"),
        ("name,name,object_id\na,b,x\n", r"two columns of one name"),
        ("", r"has no column 'name'; it has none"),
    ],
)
def test_tables_of_objects(tmp_path: Path, table: str, found: Any) -> None:
    file = tmp_path / "objects.csv"
    file.write_text(table, encoding="utf-8")
    if isinstance(found, dict):
        assert read_objects(str(file)) == found
    else:
        with pytest.raises(InputError, match=found):
            read_objects(str(file))


def test_an_object_that_is_no_number_is_missing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a", "b", "c"], "object_id": [1.0, float("nan"), None]}), tmp_path / "o.parquet")
    assert read_objects(str(tmp_path / "o.parquet")) == {"a": "1.0"}


@pytest.mark.parametrize(
    "said",
    [
        "T=5000�, hot",
        "T ~ 5000 �.",
        "a temperature of 4500 �, and",
        "R=1800�, z",
        "in 3000�, 5000 K",
        "4500 �) K",
        "hot (9000 �)",
    ],
)
def test_what_may_be_a_temperature_is_no_wavelength(said: str) -> None:
    assert repaired(said).text == said


def test_a_text_of_many_broken_symbols_is_repaired_in_time_that_grows_with_it() -> None:
    done = repaired("HÎ± x " * 30_000)  # took minutes when each repair looked at all others
    assert len(done.changes) == 30_000
    assert done.text == "Hα x " * 30_000
