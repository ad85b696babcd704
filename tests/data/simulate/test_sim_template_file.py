"""One small file of real templates: what it keeps, and that a fold's objects seed nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from specvet.cli.main import main
from specvet.data.simulate.companions import pooled
from specvet.data.simulate.kinds import make
from specvet.data.simulate.physics import add_gaussian, normalised, power_law, zeros
from specvet.data.simulate.source import GRID
from specvet.data.simulate.templates import (
    ENOUGH,
    Fold,
    Template,
    Templates,
    load_templates,
    make_seeded,
    read_fold,
)
from specvet.data.simulate.templates_file import read_template_file, write_template_file

N = 12
INSIDE = slice(*np.searchsorted(GRID, (3700.0, 9000.0)))


def template(i: int, *kinds: str) -> Template:
    """A smooth star with one line of its own."""
    lines = zeros()
    add_gaussian(lines, 5000.0 + 100.0 * i, 0.5, 900.0)
    flux = normalised(power_law(-1.0) * np.exp(-lines))[INSIDE].astype(np.float32)
    seen = np.ones(flux.size, dtype=bool)
    seen[:5] = False
    return Template(INSIDE.start, flux, seen, kinds, "A3V", f"{i}.fits", f"star {i}", "A star", "LAMOST")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy stars in NPZ files, three spectra of each of four."""
    place = tmp_path_factory.mktemp("real")
    rows = ["path,class_label,subclass,object_id,medium"]
    for i in range(N):
        rng = np.random.default_rng(i)
        flux = template(i).flux + rng.normal(0.0, 0.01, GRID[INSIDE].size)
        np.savez(place / f"{i}.npz", wavelength=GRID[INSIDE], flux=flux, ivar=np.full(flux.size, 1e4), medium="vacuum")
        rows.append(f"{i}.npz,A star,A3V,star {i % 4},vacuum")
    (place / "manifest.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return place


def test_a_file_holds_every_object_and_gives_back_what_the_folder_gives(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    written, refused = write_template_file(folder, tmp_path / "seeds.npz")
    assert not refused
    assert len(written) == N
    found = read_template_file(tmp_path / "seeds.npz")
    for one, other in zip(written, found, strict=True):
        assert (one.start, one.kinds, one.subtype, one.file, one.object_id) == (
            other.start, other.kinds, other.subtype, other.file, other.object_id,
        )  # fmt: skip
        assert (other.label, other.survey) == ("A star", "unknown")
        assert np.abs(other.flux / one.flux - 1.0).max() < 3e-4
        assert np.array_equal(one.seen, other.seen)
    assert (tmp_path / "seeds.npz").stat().st_size < N * 20_000
    again = tmp_path / "again.npz"
    write_template_file(folder, again)
    assert again.read_bytes() == (tmp_path / "seeds.npz").read_bytes()
    kept = load_templates(tmp_path / "seeds.npz", fold=Fold(1, 2)).templates
    assert kept
    assert {t.object_id for t in kept} == {f"star {i}" for i in range(4) if not Fold(1, 2).holds(f"star {i}")}


def test_the_command_counts_objects_a_fold(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = ["data", "templates", str(folder), "--out", str(tmp_path / "seeds.npz"), "--folds", "2"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "12 real spectra of 4 objects" in said.out
    assert "Not to be published" in said.err
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(told["objects"]["a_star"]) == 4
    assert told["spectra"] == {"a_star": 12}
    assert main(["data", "templates", str(tmp_path), "--out", str(tmp_path / "no.npz")]) == 2
    assert "manifest.csv" in capsys.readouterr().err


def test_a_file_that_holds_no_templates_says_how_to_make_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", flux=np.ones(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(ValueError, match=r"is no file of templates .* specvet data templates FOLDER"):
            load_templates(tmp_path / name)


def test_each_object_is_kept_back_by_just_one_fold() -> None:
    names = [f"star {i}" for i in range(2_000)]
    held = [[Fold(k, 5).holds(name) for name in names] for k in range(1, 6)]
    assert np.sum(held, axis=0).tolist() == [1] * len(names)
    assert all(0.17 < np.mean(one) < 0.23 for one in held)
    assert not any(Fold(0, 1).holds(name) for name in names)
    assert [Fold(2, 5).holds(name) for name in ("U Gem", "HD 148783")] == [False, False]


@pytest.mark.parametrize("text", ["6/5", "0/5", "1/1", "2", "half", "-1/5", ""])
def test_a_fold_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="as in 2/5"):
        read_fold(text)


def test_folds_read_as_they_are_written() -> None:
    assert read_fold(" 2/5 ") == Fold(2, 5)
    assert str(read_fold("2/5")) == "2/5"
    assert read_fold("none") == Fold(0, 1)


def test_sources_and_what_composites_hold_are_seeded_by_the_templates_that_there_are() -> None:
    templates = Templates([template(i, "a_star") for i in range(ENOUGH)])
    stars = [make_seeded("a_star", np.random.default_rng(i), templates, 1.0) for i in range(8)]
    assert all(star.template for star in stars)
    assert len({star.template for star in stars}) > 1
    assert all(star.kind == "a_star" for star in stars)
    like = [make_seeded("bhb", np.random.default_rng(i), templates, 1.0) for i in range(3)]
    assert all(star.kind == "bhb" and star.template for star in like)
    parts = [make_seeded("nebular_sky", np.random.default_rng(i), templates, 1.0) for i in range(8)]
    assert {star.kind for star in parts} == {"nebular_sky"}
    assert 0 < sum(bool(star.template) for star in parts) < 8
    assert not make_seeded("qso", np.random.default_rng(0), templates, 1.0).template


def test_one_real_star_does_not_stand_for_half_of_its_kind() -> None:
    few = Templates([template(0, "wd.DB")])
    seeded = [bool(make_seeded("wd.DB", np.random.default_rng(i), few, 0.5).template) for i in range(60)]
    assert 0 < sum(seeded) < 12


def test_a_star_may_keep_the_slope_and_the_dust_that_it_was_seen_with() -> None:
    templates = Templates([template(0, "a_star")])
    source = make("a_star", np.random.default_rng(3))
    as_seen = templates.seed(source, np.random.default_rng(1), 1.0, own_slope=1.0)
    assert as_seen.ebv == 0.0
    blue, red = np.searchsorted(GRID, (4000.0, 8500.0))
    assert as_seen.flux[blue] / as_seen.flux[red] == pytest.approx(8500.0 / 4000.0, rel=0.02)
    assert templates.seed(source, np.random.default_rng(1), 1.0).ebv == source.ebv


def test_what_is_made_without_templates_does_not_change_by_them() -> None:
    templates = Templates([template(i, "m_dwarf.quiet", "wd.DA") for i in range(ENOUGH)])
    before = make("wd_ms", np.random.default_rng(5))
    make_seeded("wd_ms", np.random.default_rng(5), templates, 1.0)
    assert np.array_equal(make("wd_ms", np.random.default_rng(5)).flux, before.flux)
    star = pooled("m_dwarf.quiet", np.random.default_rng(8))
    assert not star.template
