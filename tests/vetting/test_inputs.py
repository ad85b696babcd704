"""Files, folders and globs become items; each of them once, in a fixed order, whatever is wrong with it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.table import Table

from specvet.vetting.inputs import InputError, expand_inputs

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"


def spectrum_file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{4000 + i} {1 + i % 3}\n" for i in range(50)))
    return path


def files(*inputs: object, **options: str) -> list[str]:
    return [item.file for item in expand_inputs([str(i) for i in inputs], **options)]


def test_a_file_is_one_item(tmp_path: Path) -> None:
    star = spectrum_file(tmp_path / "star.txt")
    inputs = expand_inputs([str(star)])
    assert [(i.file, i.problem) for i in inputs] == [(str(star), "")]
    assert inputs.total == 1


def test_a_folder_is_walked_in_sorted_order_and_hidden_files_are_passed_over(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "a.txt", "c.fits", ".hidden.txt", ".git/x.txt", "b/.DS_Store"):
        spectrum_file(tmp_path / name)
    inputs = expand_inputs([str(tmp_path)])
    assert [os.path.relpath(i.file, tmp_path) for i in inputs] == ["a.txt", "b/1.txt", "b/2.txt", "c.fits"]
    assert inputs.total == 4
    assert list(inputs) == list(inputs)


def test_a_folder_that_loops_through_links_is_walked_once(tmp_path: Path) -> None:
    spectrum_file(tmp_path / "a" / "star.txt")
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a", target_is_directory=True)
    assert files(tmp_path) == [str(tmp_path / "a" / "star.txt")]


def test_links_that_lead_nowhere_and_pipes_are_items_with_a_problem(tmp_path: Path) -> None:
    spectrum_file(tmp_path / "star.txt")
    (tmp_path / "gone.fits").symlink_to(tmp_path / "nowhere.fits")
    os.mkfifo(tmp_path / "pipe")
    problems = {Path(i.file).name: i.problem for i in expand_inputs([str(tmp_path)])}
    assert problems["star.txt"] == ""
    assert problems["gone.fits"] == "a link that leads nowhere"
    assert problems["pipe"] == "a pipe, socket or device, not a file"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_an_item_with_a_problem(tmp_path: Path) -> None:
    spectrum_file(tmp_path / "open" / "star.txt")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    try:
        problems = {i.file: i.problem for i in expand_inputs([str(tmp_path)])}
    finally:
        closed.chmod(0o700)
    assert problems[str(closed)] == "the folder cannot be read: Permission denied"
    assert problems[str(tmp_path / "open" / "star.txt")] == ""


def test_a_file_name_that_is_not_utf_8_is_an_item_with_a_problem(tmp_path: Path) -> None:
    spectrum_file(tmp_path / "star.txt")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9toile.txt")).write_text("4000 1\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    items = list(expand_inputs([str(tmp_path)]))
    assert len(items) == 2
    assert items[1].file.endswith("\\xe9toile.txt")
    assert "not UTF-8; rename it" in items[1].problem


def test_run_folders_are_passed_over_and_said(tmp_path: Path) -> None:
    spectrum_file(tmp_path / "star.txt")
    run = tmp_path / "RUN"
    for name in ("run.db", "config.yaml", "receipt.json"):
        spectrum_file(run / name)
    inputs = expand_inputs([str(tmp_path)])
    assert [i.file for i in inputs] == [str(tmp_path / "star.txt")]
    assert inputs.notices == [f"{run}: passed over, it is a run folder of specvet"]


def test_redrock_catalogues_beside_their_coadds_are_passed_over_and_said(tmp_path: Path) -> None:
    kept = ["coadd-sv3-1.fits", "spectra-2.fits", "redrock-3.fits", "redrock-template.fits", "zbest-sv3-1.fits.gz"]
    for name in [*kept, "redrock-sv3-1.fits", "zbest-2.fits"]:
        spectrum_file(tmp_path / "desi" / name)
    inputs = expand_inputs([str(tmp_path)])
    assert [Path(i.file).name for i in inputs] == sorted(kept)
    assert inputs.notices == [f"{tmp_path / 'desi'}: redrock files passed over, 2: they are read with their coadds"]
    named = expand_inputs([str(tmp_path / "desi" / "redrock-sv3-1.fits")])  # who names one is told what it is
    assert len(list(named)) == 1


def test_a_quoted_glob_finds_files_recursively_and_each_once(tmp_path: Path) -> None:
    for name in ("a.txt", "x/b.txt", "x/y/c.txt", "x/y/d.dat"):
        spectrum_file(tmp_path / name)
    found = files(f"{tmp_path}/**/*.txt")
    assert [os.path.relpath(f, tmp_path) for f in found] == ["a.txt", "x/b.txt", "x/y/c.txt"]
    assert len(files(f"{tmp_path}/**")) == 4
    assert [os.path.relpath(f, tmp_path) for f in files(f"{tmp_path}/x/*")] == ["x/b.txt", "x/y/c.txt", "x/y/d.dat"]


def test_a_file_whose_name_holds_glob_characters_is_that_file(tmp_path: Path) -> None:
    star = spectrum_file(tmp_path / "star[1].txt")
    assert files(star) == [str(star)]


def test_lists_inside_a_folder_are_files_to_account_for_not_lists(tmp_path: Path) -> None:
    star = spectrum_file(tmp_path / "star.txt")
    (tmp_path / "list.csv").write_text("path\nstar.txt\n")
    assert files(tmp_path) == [str(tmp_path / "list.csv"), str(star)]


def test_nothing_but_missing_inputs_is_an_error_and_one_of_several_is_an_item(tmp_path: Path) -> None:
    star = spectrum_file(tmp_path / "star.txt")
    missing = tmp_path / "missing.fits"
    with pytest.raises(InputError, match=r"missing\.fits: no such file or folder"):
        expand_inputs([str(missing)])
    with pytest.raises(InputError, match=r"\*\.fits: no file matches this pattern"):
        expand_inputs([f"{tmp_path}/*.fits"])
    items = list(expand_inputs([str(missing), str(star)]))
    assert [i.problem for i in items] == ["no such file or folder", ""]
    with pytest.raises(InputError, match="no input"):
        expand_inputs([])


def test_an_empty_folder_holds_no_items(tmp_path: Path) -> None:
    inputs = expand_inputs([str(tmp_path)])
    assert list(inputs) == []
    assert inputs.total == 0


def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    star = spectrum_file(tmp_path / "star.txt")
    with pytest.raises(InputError, match=r"--root .*nowhere: no such folder"):
        expand_inputs([str(star)], root=str(tmp_path / "nowhere"))


def test_every_shared_file_is_one_item_but_redrock_catalogues_beside_their_coadds() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    expected = sorted(str(p) for p in SHARED.rglob("*") if p.is_file() and not p.name.startswith("."))
    inputs = expand_inputs([str(SHARED)])
    found = sorted(i.file for i in inputs)
    passed = {*expected} - {*found}
    assert sorted({*expected} - passed) == found
    assert all(Path(file).name.startswith("redrock-") for file in passed)
    assert inputs.total == len(found)
    assert not [i for i in inputs if i.problem]


def test_no_shared_spectrum_is_taken_for_a_list_when_named_alone() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    spectra = [p for p in sorted(SHARED.rglob("*")) if p.is_file() and p.suffix not in {".csv", ".md"}]
    inputs = expand_inputs([str(p) for p in spectra])
    assert [i.file for i in inputs] == [str(p) for p in spectra]


def test_the_shared_manifest_is_a_list_of_every_spectrum_beside_it() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    items = list(expand_inputs([str(SHARED / "manifest.csv")]))
    assert len(items) > 300
    assert not [i for i in items if i.problem]
    assert all(os.path.isfile(i.file) for i in items)


@pytest.mark.parametrize(
    ("ra", "dec", "expected"),
    [
        ("12:30:00", "-45:30:00", (187.5, -45.5)),
        ("12 30 00.0", "+45 30 36", (187.5, 45.51)),
        ("12h30m00s", "-00d30m00s", (187.5, -0.5)),
        ("187.5", "-45.5", (187.5, -45.5)),
        ("north", "up", (None, None)),
    ],
)
def test_positions_may_be_degrees_or_sexagesimal(
    tmp_path: Path, ra: str, dec: str, expected: tuple[float | None, float | None]
) -> None:
    file = tmp_path / "list.csv"
    file.write_text(f"path;ra;dec\na.fits;{ra};{dec}\n", encoding="utf-8")
    inputs = expand_inputs([str(file)])
    (item,) = list(inputs)
    assert (item.ra, item.dec) == (pytest.approx(expected[0]), pytest.approx(expected[1]))
    assert len(inputs.notices) == (2 if expected[0] is None else 0)


def test_ids_that_a_float_column_damaged_are_told_and_whole_numbers_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "list.parquet"
    pq.write_table(pa.table({"path": ["a.fits", "b.fits"], "objid": [1.2376564951151e18, 42.0]}), file)
    inputs = expand_inputs([str(file)])
    assert [item.id for item in inputs] == ["1.2376564951151e+18", "42"]
    assert len(inputs.notices) == 1
    assert "lost digits" in inputs.notices[0]


def test_links_that_lead_to_themselves_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "star.txt").write_text("4000 1\n4001 1\n", encoding="utf-8")
    items = {os.path.basename(i.file): i.problem for i in expand_inputs([str(tmp_path)])}
    assert items["star.txt"] == ""
    assert items["a"]
    assert items["b"]


def test_a_quotation_mark_that_is_never_closed_is_told(tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text('path,id\na.fits,"x\nb.fits,b\nc.fits,c\n', encoding="utf-8")
    (item,) = expand_inputs([str(file)])
    assert "never closed" in item.problem


def test_a_list_that_was_cut_off_is_told_by_name(tmp_path: Path) -> None:
    file = tmp_path / "list.csv.gz"
    whole = gzip.compress("\n".join(["path,id", *(f"{i}.fits,{i * 7919 % 104729}" for i in range(20_000))]).encode())
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"list\.csv\.gz: damaged after row"):
        list(expand_inputs([str(file)]))


def test_a_fits_list_may_have_columns_of_fluxes_beside_its_ids(tmp_path: Path) -> None:
    file = tmp_path / "targets.fits"
    Table({"TARGETID": [39627866878511337], "HEALPIX": [26065], "FLUX_G": [1.5]}).write(file)
    (item,) = expand_inputs([str(file)], root=str(tmp_path))
    assert item.ids == (("targetid", "39627866878511337"),)
