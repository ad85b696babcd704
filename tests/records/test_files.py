"""Files that are there in full or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from specvet.records import DiskFullError, ImageStore, bytes_hash, write_atomic
from specvet.records import files as files_module


def test_a_written_file_holds_the_bytes_or_the_utf_8_text(tmp_path):
    write_atomic(tmp_path / "a", b"\x00\xff")
    write_atomic(str(tmp_path / "b"), "Hα")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_text(encoding="utf-8") == "Hα"


def test_writing_leaves_no_temporary_file(tmp_path):
    write_atomic(tmp_path / "a", b"1")
    write_atomic(tmp_path / "a", b"2")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_failure_leaves_the_old_file_and_no_temporary_file(tmp_path, monkeypatch):
    write_atomic(tmp_path / "a", b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files_module.os, "replace", fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write_atomic(tmp_path / "a", b"new")
    assert caught.value.filename == str(tmp_path / "a")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_name_as_long_as_the_file_system_allows_can_be_written(tmp_path):
    name = "n" * 255
    write_atomic(tmp_path / name, b"1")
    assert (tmp_path / name).read_bytes() == b"1"


def test_a_new_file_has_the_rights_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/a"):
        write_atomic(tmp_path / "nowhere" / "a", b"1")


def test_a_file_that_may_not_grow_is_a_full_disk_that_names_the_file(tmp_path):
    script = (
        "import resource, sys; from specvet.records import DiskFullError, write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_atomic(sys.argv[1], b'x' * 100000)\n"
        "except DiskFullError as e: print(e)"
    )
    out = subprocess.run([sys.executable, "-c", script, tmp_path / "big"], capture_output=True, text=True, check=True)
    assert str(tmp_path / "big") in out.stdout
    assert "free some space" in out.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_error_is_an_os_error_with_its_number():
    error = DiskFullError("/data/run")
    assert isinstance(error, OSError)
    assert error.errno == errno.ENOSPC
    assert str(error).startswith("/data/run: the disk is full")


def test_a_picture_lies_under_its_hash(tmp_path):
    store = ImageStore(tmp_path / "images")
    sha = store.put(b"png")
    assert sha == bytes_hash(b"png")
    assert store.path(sha) == tmp_path / "images" / sha[:2] / f"{sha}.png"
    assert store.path(sha).read_bytes() == b"png"


def test_a_picture_that_is_there_is_not_written_again(tmp_path):
    store = ImageStore(tmp_path)
    path = store.path(store.put(b"png"))
    before = path.stat().st_ino, path.stat().st_mtime_ns
    assert store.put(b"png") == path.stem
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize("left", [b"", b"PNG of ha"])
def test_a_picture_that_a_power_cut_has_left_short_is_repaired_when_it_is_stored_again(tmp_path, left):
    store = ImageStore(tmp_path / "images")
    sha = store.put(b"PNG of half an hour")
    store.path(sha).write_bytes(left)
    assert store.put(b"PNG of half an hour") == sha
    assert store.path(sha).read_bytes() == b"PNG of half an hour"
    assert sorted(p.name for p in store.path(sha).parent.iterdir()) == [f"{sha}.png"]
