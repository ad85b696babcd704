"""Downloads with the real huggingface_hub from a hub on the loopback: what is cut, busy, wrong, moved or pinned."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from hub_lab import Hub, hub
from published_lab import write_conversations, write_set

from specvet.data.errors import InputError
from specvet.data.published import pins
from specvet.data.published.download import LISTING, PIN, DownloadError, downloaded, kept_revision
from specvet.data.published.layout import BENCH, COLDSTART
from specvet.data.published.pins import Pin, check_copy, pin_of, read_pin
from specvet.records import file_hash

CV = "benchmark/data/train_cv.parquet"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("published")
    bench = write_set(folder / "bench", {"train": {"cv": 40, "wd": 4}, "test": {"cv": 4}}, n_pix=100)
    (bench / "README.md").write_text("A data set.\n")
    return {BENCH: bench, COLDSTART: write_conversations(folder / "coldstart", 4)}


@pytest.fixture
def served(sets: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as made:
        made.sets = dict(sets)
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield made


def get(folder: Path, wanted: Callable[[str], bool] = lambda path: path.endswith(".parquet"), **options: object) -> str:
    return downloaded(BENCH, folder, wanted, wait=lambda seconds: None, **options)  # type: ignore[arg-type]


def parts(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.part*") if p.suffix != ".parquet")


def same(folder: Path, source: Path) -> bool:
    files = [p.relative_to(source) for p in source.rglob("*.parquet")]
    return all((folder / p).read_bytes() == (source / p).read_bytes() for p in files) and not parts(folder)


def test_a_set_is_downloaded_at_the_revision_that_main_is_and_pinned(served: Hub, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    revision = get(tmp_path, told=lambda done, total: heard.append((done, total)))
    source = served.sets[BENCH]
    assert revision == served.commit(BENCH)
    assert same(tmp_path, source)
    assert not (tmp_path / "README.md").exists()
    size = sum(p.stat().st_size for p in source.rglob("*.parquet"))
    assert heard[-1] == (size, size)
    pinned = json.loads((tmp_path / PIN).read_text())
    assert "pins.json" in pinned["what_to_do"]
    assert pinned["pin"][BENCH]["revision"] == revision
    assert pinned["pin"][BENCH]["files"][CV] == {
        "size": (source / CV).stat().st_size,
        "sha256": file_hash(source / CV),
    }
    assert not any("HEAD" in method for method, *_ in served.asked)


def test_what_is_there_is_not_asked_for_again(served: Hub, tmp_path: Path) -> None:
    get(tmp_path)
    served.asked.clear()
    assert get(tmp_path) == kept_revision(tmp_path) == served.commit(BENCH)
    assert served.asked == []


def test_a_line_that_is_cut_goes_on_by_range(served: Hub, tmp_path: Path) -> None:
    served.cut = {CV: 5000}
    get(tmp_path)
    assert same(tmp_path, served.sets[BENCH])
    assert served.ranges(CV) == [None, "bytes=5000-"]  # not a byte twice


def test_a_killed_download_goes_on_by_range_at_the_same_revision_though_main_has_moved(
    served: Hub, sets: dict[str, Path], tmp_path: Path
) -> None:
    program = f"""
import os, signal, sys
from pathlib import Path
from specvet.data.published.download import downloaded
def told(done, total):
    if done >= 10_240:
        os.kill(os.getpid(), signal.SIGKILL)
downloaded({BENCH!r}, Path(sys.argv[1]), lambda path: path == {CV!r}, told=told)
"""
    served.cut = {CV: 10_240}
    command = [sys.executable, "-c", program, str(tmp_path / "got")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    part = tmp_path / "got" / f"{CV}.part"
    assert part.stat().st_size == 10_240
    old = served.commit(BENCH)
    shutil.copytree(sets[BENCH], tmp_path / "moved")
    (tmp_path / "moved" / CV).write_bytes((sets[BENCH] / CV).read_bytes() + b"more")
    served.sets[BENCH] = tmp_path / "moved"
    served.old = {old: sets[BENCH]}
    served.asked.clear()
    assert get(tmp_path / "got", lambda path: path == CV) == old
    assert (tmp_path / "got" / CV).read_bytes() == (sets[BENCH] / CV).read_bytes()
    assert served.ranges(CV) == ["bytes=10240-"]
    new = get(tmp_path / "got", lambda path: path == CV, revision="main")
    assert new == served.commit(BENCH) != old
    assert (tmp_path / "got" / CV).read_bytes().endswith(b"more")


def test_a_busy_hub_is_asked_again(served: Hub, tmp_path: Path) -> None:
    served.busy = {CV: [503, 502], "/revision/": [503]}
    waited: list[float] = []
    downloaded(BENCH, tmp_path, lambda path: path == CV, wait=waited.append)
    assert (tmp_path / CV).is_file()
    assert waited == [2.0, 2.0, 4.0]


def test_a_hub_that_stays_busy_is_given_up_with_words(served: Hub, tmp_path: Path) -> None:
    served.busy = {CV: [503] * 99}
    with pytest.raises(
        DownloadError, match=r"train_cv.parquet .* cannot be reached .* goes on where it stopped.*--from"
    ):
        get(tmp_path, lambda path: path == CV)
    assert served.busy[CV] == [503] * 93


def test_wrong_bytes_are_got_once_more_and_then_refused(served: Hub, tmp_path: Path) -> None:
    served.wrong = {CV: 1}
    get(tmp_path, lambda path: path == CV)
    assert (tmp_path / CV).read_bytes() == (served.sets[BENCH] / CV).read_bytes()
    served.wrong = {CV: 9}
    with pytest.raises(DownloadError, match=r"train_cv.parquet of .*SHA-256 .* expected, twice"):
        get(tmp_path / "again", lambda path: path == CV)
    assert not (tmp_path / "again" / CV).exists()


def test_a_part_of_something_else_is_thrown_away(served: Hub, tmp_path: Path) -> None:
    part = tmp_path / f"{CV}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"something else")
    get(tmp_path, lambda path: path == CV)
    assert (tmp_path / CV).read_bytes() == (served.sets[BENCH] / CV).read_bytes()
    assert served.ranges(CV) == ["bytes=14-", None]


def test_files_that_were_damaged_since_are_got_again(served: Hub, tmp_path: Path) -> None:
    get(tmp_path)
    os.truncate(tmp_path / CV, 100)
    get(tmp_path)
    assert same(tmp_path, served.sets[BENCH])
    data = (tmp_path / CV).read_bytes()
    (tmp_path / CV).write_bytes(data[:-1] + b"x")
    get(tmp_path)
    assert not same(tmp_path, served.sets[BENCH])  # of the right size: only hashes tell
    get(tmp_path, verify=True)
    assert same(tmp_path, served.sets[BENCH])


def test_small_files_of_git_itself_are_checked_too(served: Hub, tmp_path: Path) -> None:
    served.wrong = {"README.md": 1}
    get(tmp_path, lambda path: path == "README.md")
    assert (tmp_path / "README.md").read_text() == "A data set.\n"
    assert json.loads((tmp_path / LISTING).read_text())["files"]["README.md"]["sha256"] is None


def test_a_pin_is_kept_to_without_asking_for_the_list(served: Hub, tmp_path: Path) -> None:
    get(tmp_path / "first")
    pin = read_pin(json.loads((tmp_path / "first" / PIN).read_text())["pin"][BENCH])
    served.asked.clear()
    assert get(tmp_path / "second", pin=pin) == pin.revision
    assert same(tmp_path / "second", served.sets[BENCH])
    assert not (tmp_path / "second" / PIN).exists()
    assert not any("/api/" in path for _, path, *_ in served.asked)
    other = Pin(pin.revision, {**pin.files, CV: pins.Known(pin.files[CV].size, "0" * 64)})
    with pytest.raises(DownloadError, match=r"train_cv.parquet .* has the SHA-256 .* expected, twice"):
        get(tmp_path / "third", pin=other)


def test_a_copy_is_held_to_a_pin(served: Hub, tmp_path: Path) -> None:
    get(tmp_path)
    pin = read_pin(json.loads((tmp_path / PIN).read_text())["pin"][BENCH])
    flat = tmp_path / "flat"
    flat.mkdir()
    shutil.copy(tmp_path / CV, flat)
    check_copy([tmp_path / CV], tmp_path, BENCH, pin)
    check_copy([flat / "train_cv.parquet"], flat, BENCH, pin)
    (flat / "notes.txt").write_text("mine")
    check_copy([flat / "notes.txt"], flat, BENCH, pin)
    with open(flat / "train_cv.parquet", "r+b") as file:
        file.write(b"?")
    with pytest.raises(InputError, match=r"flat/train_cv.parquet: has the SHA-256 .* by the pin of .*get this"):
        check_copy([flat / "train_cv.parquet"], flat, BENCH, pin)


def test_a_token_is_sent_to_the_hub_and_not_to_where_it_sends_us(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.token = "hf_secret"
    with pytest.raises(DownloadError, match=r"wants a token that may read it \(HTTP 401\); set HF_TOKEN"):
        get(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    served.asked.clear()
    get(tmp_path)
    said = {path.startswith("/store/"): auth for _, path, _, auth in served.asked}
    assert said == {False: "Bearer hf_secret", True: None}


def test_what_is_not_there_is_said_so(served: Hub, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"at none: .*has no such data set, revision or file"):
        get(tmp_path, revision="none")
    with pytest.raises(DownloadError, match=r"holds none of the files that are expected of it"):
        get(tmp_path, lambda path: False)


def test_without_a_network_the_way_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens
    with pytest.raises(DownloadError, match=r"cannot be reached at http://127.0.0.1:9 .*--from FOLDER"):
        get(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match=r"HF_HUB_OFFLINE is set.*--from FOLDER"):
        get(tmp_path)


def test_without_the_library_the_command_to_install_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DownloadError, match=r"pip install 'specvet\[data\]'"):
        get(tmp_path)


def test_the_package_s_pins_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert pin_of("nobody/nothing") is None
    for dataset in (BENCH, COLDSTART):
        assert (found := pin_of(dataset)) is None or len(found.revision) == 40
