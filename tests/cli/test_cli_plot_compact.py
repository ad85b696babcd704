"""`specvet plot --style compact`: the small figure, its sizes, and what is no style."""

from __future__ import annotations

import struct
from pathlib import Path

from cli_lab import Specvet, write_star


def test_plot_draws_the_compact_style_in_the_asked_size(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    for arguments, size in (
        ((), (448, 280)),
        (("--window", "6400-6700"), (308, 224)),
        (("--size", "published"), (896, 448)),
        (("--size", "published", "--window", "6400-6700"), (672, 448)),
        (("--size", "560x280", "--window", "6400-6700"), (560, 280)),
    ):
        done = specvet("plot", "star.txt", "--style", "compact", "--out", "c.png", *arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert struct.unpack(">II", (tmp_path / "c.png").read_bytes()[16:24]) == size
        assert f"{size[0]} x {size[1]} pixels" in done.stdout


def test_plot_says_what_styles_and_sizes_there_are(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    for arguments, said in (
        (("--style", "fine"), "--style fine: choose reference or compact"),
        (("--style", "compact", "--size", "huge"), "size 'huge' is unknown; choose small or published"),
        (("--style", "compact", "--size", "9x9"), "size 9 x 9 pixels; 224 x 168 to 4096 x 4096 expected"),
        (("--size", "448x280"), "only compact-1 has a size to choose"),
    ):
        done = specvet("plot", "star.txt", *arguments)
        assert done.returncode == 2, arguments
        assert said in done.stderr
        assert done.stdout == ""


def test_windows_that_differ_in_a_thousandth_get_files_of_their_own(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    done = specvet("plot", "star.txt", "--style", "compact", "--window", "6500.001-6600", "--window", "6500.004-6600")
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "star-6500.001-6600-compact.png",
        "star-6500.004-6600-compact.png",
    ]
