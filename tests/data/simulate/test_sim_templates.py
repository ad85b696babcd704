"""Real spectra as seeds: what is read of a folder, how it is cleaned, and what a seeded source keeps."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specvet.data.simulate.kinds import KINDS
from specvet.data.simulate.physics import add_gaussian, broadened, normalised, power_law, vacuum, zeros
from specvet.data.simulate.source import GRID, KM_S_PER_PIXEL, Source
from specvet.data.simulate.templates import NAMES, Templates, held_out, load_templates
from specvet.data.simulate.templates_cleaning import denoised, scatter, sharpened
from specvet.data.simulate.templates_kinds import kinds_of, kinds_of_row
from specvet.data.simulate.templates_manifest import object_name, read_manifest
from specvet.data.simulate.templates_reading import read_templates

SHARED = Path(__file__).parents[3].parent / "shared" / "spectra"
HA = 6562.80
"""Å in air."""
SEEDS = ("star c", "star d", "star e", "star f")
HELD = "star b"


def star(slope: float = -1.0, depth: float = 0.8, width: float = 900.0) -> NDArray[np.float64]:
    """A continuum with Balmer lines on `GRID`."""
    lines = zeros()
    for air in (HA, 4861.35, 4340.47, 4101.74):
        add_gaussian(lines, vacuum(air), depth, width)
    return normalised(power_law(slope) * np.exp(-lines))


def folder_of(
    path: Path, rows: dict[str, tuple[str, str]], z: float = 0.0, ends: tuple[float, float] = (3700.0, 9100.0)
) -> Path:
    """A folder of noisy stars: file → (class label, object id), in vacuum, moved by `z`."""
    path.mkdir(exist_ok=True)
    inside = slice(*np.searchsorted(GRID, ends))
    for i, name in enumerate(rows):
        rng = np.random.default_rng(i)
        flux = broadened(star(depth=0.6 + 0.1 * i), 150.0)[inside]
        flux = flux + rng.normal(0.0, 0.02, flux.size)
        ivar = np.full(flux.size, 0.02**-2)
        np.savez(path / name, wavelength=GRID[inside] * (1 + z), flux=flux, ivar=ivar, redshift=z, medium="vacuum")
    with (path / "manifest.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["path", "class_label", "subclass", "object_id", "medium"])
        out.writerows([name, label, "A3V", object_id, "vacuum"] for name, (label, object_id) in rows.items())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = {f"{name[-1]}.npz": ("A star", name) for name in (*SEEDS, HELD)}
    return folder_of(tmp_path / "real", rows)


@pytest.fixture
def templates(folder: Path, tmp_path: Path) -> Templates:
    return load_templates(folder, cache=tmp_path / "cache")


def source(kind: str = "a_star", slope: float = -2.0) -> Source:
    return Source(star(slope, depth=0.7), kind, "A2", {"teff_k": 9000.0}, velocity_km_s=33.0, ebv=0.1)


# --- what is held out, and what an object is


def test_one_object_in_three_is_held_out_whoever_asks() -> None:
    kept = [held_out(f"star {i}") for i in range(3000)]
    assert 0.31 < np.mean(kept) < 0.36
    assert [held_out(name) for name in (*SEEDS, HELD)] == [False] * len(SEEDS) + [True]
    assert held_out("U Gem") is True


@pytest.mark.parametrize(
    ("written", "one"),
    [
        ("HD001326B", "HD 1326B"),
        ("hd93521", "HD 93521"),
        ("HD 148783", "HD 148783"),
        ("G_165-39", "G 165-39"),
        ("G171-010", "G 171-10"),
        ("SDSS J163722.21-001957.1 / 0348-51671-0103", "SDSS J163722.21-001957.1"),
        ("U Gem", "U Gem"),
    ],
)
def test_libraries_that_spell_a_star_differently_mean_one_object(written: str, one: str) -> None:
    assert object_name(written) == one


def test_epochs_of_a_star_whose_names_differ_by_its_position_are_one_object(tmp_path: Path) -> None:
    (tmp_path / "manifest.csv").write_text(
        "path,class_label,object_id,ra_deg,dec_deg\n"
        "a.fits,G star,LAMOST J025854.73+010142.6,44.728045,1.028527\n"
        "b.fits,G star,LAMOST J025854.72+010142.7,44.728020,1.028531\n"
        "c.fits,G star,LAMOST J025854.72+010202.7,44.728020,1.034087\n"
        "d.fits,G star,,,\n",
        encoding="utf-8",
    )
    ids = [file.object_id for file in read_manifest(tmp_path)]
    assert ids == ["LAMOST J025854.72+010142.7"] * 2 + ["LAMOST J025854.72+010202.7", "d.fits"]


def test_a_folder_without_a_manifest_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no manifest\.csv; give a folder with one: .* path and class_label"):
        load_templates(tmp_path)
    (tmp_path / "manifest.csv").write_text("file,class_label\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no column 'path'; it has file, class_label"):
        load_templates(tmp_path)


# --- kinds


@pytest.mark.parametrize(
    ("label", "subclass", "kinds"),
    [
        ("WD", "DA4", ("wd.DA",)),
        ("WD", "DQ (header: DC:)", ("wd.DQ",)),
        ("WD", "DAO (planetary nebula nucleus)", ()),
        ("WD model (DA)", "Teff=8000 logg=8.0", ("wd.DA",)),
        ("WD", "WD", ()),
        ("hot subdwarf", "sdB", ("sdb",)),
        ("K star", "K5V", ("k_dwarf",)),
        ("K star", "K3", ("k_dwarf", "k_giant")),
        ("M giant, possibly MS", "M?", ()),
        ("unknown", "Non", ()),
    ],
)
def test_a_label_says_which_kinds_a_spectrum_seeds(label: str, subclass: str, kinds: tuple[str, ...]) -> None:
    assert kinds_of(label, subclass, lambda _: None) == kinds


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("M5III (221615)", ("gm.giant",)),
        ("M8IIIe (84748)", ("gm.mira",)),
        ("M5Iab: (197812)", ()),
        ("M1 (204445)", ()),
        ("M4", ("m_dwarf.quiet",)),
        ("B2Vne (58343)", ("be_star",)),
        ("K3III (101673)", ("k_giant",)),
        ("sdF3 (140283)", ("f_star",)),
        ("Carbon", ("cc.CH", "cc.R", "cc.dwarf")),
        ("Ldwarf", ()),
        ("L5.5", ()),
    ],
)
def test_a_row_of_a_template_set_is_told_by_its_name(name: str, kinds: tuple[str, ...]) -> None:
    assert kinds_of_row(name, lambda _: None) == kinds


def test_the_state_of_a_cataclysmic_variable_is_measured() -> None:
    def kinds(**widths: float) -> tuple[str, ...]:
        return kinds_of("CV", "", widths.get)

    assert kinds(ha=-80.0, hb=-60.0, heii4686=-3.0) == ("cv.quiescence", "cv.double_peaked")
    assert kinds(ha=-60.0, hb=-50.0, heii4686=-30.0) == ("cv.magnetic",)
    assert kinds(ha=-3.0, hb=8.0, heii4686=0.0) == ("cv.outburst",)
    assert kinds(ha=-8.0, hb=-2.0, heii4686=-2.0) == ("cv.nova_like",)


# --- cleaning


def test_noise_goes_and_a_band_head_stays() -> None:
    x = np.arange(3000.0)
    clean = 1.0 - 0.3 * ((x > 1500) & (x < 1800)) * np.exp(-(x - 1500) / 80)
    noisy = clean + np.random.default_rng(0).normal(0.0, 0.03, x.size)
    out = denoised(noisy, np.full(x.size, 0.03))
    assert np.std((out - clean)[:1400]) < 0.008
    assert out[1495:1499].mean() - out[1503:1507].mean() > 0.2  # of 0.28
    assert np.median(scatter(noisy)) == pytest.approx(0.03, rel=0.06)


def test_what_was_sharpened_looks_as_before_once_blurred_again() -> None:
    seen = broadened(star(width=150.0), 150.0)
    sharp = sharpened(seen, 150.0)
    core = slice(*np.searchsorted(GRID, (6500.0, 6630.0)))
    assert sharp[core].min() < seen[core].min() - 0.08
    np.testing.assert_allclose(broadened(sharp, 150.0)[core], seen[core], atol=0.01)


def test_a_template_is_at_rest_in_vacuum_without_its_noise(tmp_path: Path) -> None:
    moved = folder_of(tmp_path / "moved", {"x.npz": ("A star", "star x")}, z=500.0 / 299_792.458)
    (one,), refused = read_templates(moved, cache=tmp_path / "cache")
    assert refused == {}
    at = np.arange(one.flux.size) + one.start
    near = np.abs(GRID[at] - vacuum(HA)) < 12.0
    centre = np.average(GRID[at][near], weights=np.maximum(one.flux[near].max() - one.flux[near], 0))
    assert centre == pytest.approx(vacuum(HA), abs=0.3)
    line = (GRID[at] > 7000) & (GRID[at] < 7500)
    fast = np.diff(one.flux[line])
    assert np.std(fast) / one.flux[line].mean() < 0.004  # 0.028 with its noise


def test_air_wavelengths_of_a_library_are_turned_into_vacuum(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "air", {"x.txt": ("A star", "x"), "y.npz": ("A star", "y")})
    inside = slice(*np.searchsorted(GRID, (3700.0, 9100.0)))
    from specvet.spectra.lines import vacuum_to_air

    np.savetxt(folder / "x.txt", np.column_stack([vacuum_to_air(GRID[inside]), star()[inside]]))
    manifest = folder / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("A3V,x,vacuum", "A3V,x,air"))
    one = next(t for t in read_templates(folder, cache=tmp_path / "cache")[0] if t.file == "x.txt")
    at = np.arange(one.flux.size) + one.start
    near = np.abs(GRID[at] - vacuum(HA)) < 15
    assert GRID[at][near][np.argmin(one.flux[near])] == pytest.approx(vacuum(HA), abs=1.0)


def test_what_is_too_noisy_or_too_short_makes_no_template_and_is_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "real", {"a.npz": ("A star", "a"), "b.npz": ("A star", "b")}, ends=(6000.0, 9000.0))
    kept = dict(np.load(folder / "a.npz"))
    np.savez(folder / "a.npz", **(kept | {"ivar": np.full(kept["flux"].size, 0.3**-2)}))
    templates, refused = read_templates(folder, cache=tmp_path / "cache")
    assert templates == []
    assert "S/N" in refused["a.npz"]
    assert refused["b.npz"] == "covers 6001-8999 Å, 5200-7000 needed"


# --- the cache


def test_a_second_reading_comes_from_the_cache_and_a_changed_file_does_not(folder: Path, tmp_path: Path) -> None:
    first, _ = read_templates(folder, cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 1
    again, _ = read_templates(folder, cache=tmp_path / "cache")
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.flux, two.flux)
        np.testing.assert_array_equal(one.seen, two.seen)
        assert (one.start, one.kinds, one.file, one.object_id) == (two.start, two.kinds, two.file, two.object_id)
    (folder / "c.npz").write_bytes((folder / "b.npz").read_bytes())
    changed, _ = read_templates(folder, cache=tmp_path / "cache")
    assert not np.array_equal(changed[0].flux, first[0].flux)


def test_a_cache_that_is_damaged_or_cannot_be_written_costs_only_time(folder: Path, tmp_path: Path) -> None:
    first, _ = read_templates(folder, cache=tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(b"PK no archive")
    assert len(read_templates(folder, cache=tmp_path / "cache")[0]) == len(first)
    (tmp_path / "file").write_text("no folder")
    assert len(read_templates(folder, cache=tmp_path / "file")[0]) == len(first)


# --- seeding


def test_a_held_out_star_never_seeds(folder: Path, tmp_path: Path, templates: Templates) -> None:
    assert {t.object_id for t in read_templates(folder, cache=tmp_path / "cache")[0]} == {*SEEDS, HELD}
    assert {t.object_id for t in templates.templates} == set(SEEDS)
    seeded = [templates.seed(source(), np.random.default_rng(i), 1.0).template.split(NAMES) for i in range(40)]
    assert {stars[0] for stars in seeded} == {"c.npz", "d.npz", "e.npz", "f.npz"}
    assert {len(stars) for stars in seeded} == {1, 2}  # a neighbour that was mixed in is named as well


def test_the_share_decides_and_kinds_without_templates_stay_parametric(templates: Templates) -> None:
    one = source()
    assert templates.seed(one, np.random.default_rng(0), 0.0) is one
    other = source("wd.DA")
    assert templates.seed(other, np.random.default_rng(0), 1.0) is other
    seeded = [bool(templates.seed(one, np.random.default_rng(i), 0.5).template) for i in range(200)]
    assert 0.4 < np.mean(seeded) < 0.6


def test_a_seeded_source_keeps_motion_dust_and_slope_and_says_what_it_is(templates: Templates) -> None:
    one = source(slope=-2.0)  # the templates have a slope of −1
    seeded = templates.seed(one, np.random.default_rng(1), 1.0)
    assert (seeded.velocity_km_s, seeded.ebv, seeded.redshift, seeded.kind) == (33.0, 0.1, 0.0, "a_star")
    assert seeded.subtype == "A3V"
    assert seeded.template.endswith(".npz")
    assert "teff_k" not in seeded.parameters
    assert np.isfinite(seeded.flux).all()
    assert np.median(seeded.flux) == pytest.approx(1.0)
    blue, red = (slice(*np.searchsorted(GRID, band)) for band in ((5200.0, 5400.0), (8000.0, 8200.0)))
    assert np.mean(seeded.flux[blue]) / np.mean(seeded.flux[red]) == pytest.approx((5300 / 8100) ** -2.0, rel=0.03)


def test_beyond_its_coverage_a_template_goes_on_as_the_parametric_source(tmp_path: Path) -> None:
    rows = {"c.npz": ("A star", "star c")}
    short = load_templates(folder_of(tmp_path / "short", rows, ends=(3700.0, 7300.0)), cache=tmp_path / "cache")
    lines = zeros()
    add_gaussian(lines, 8500.0, 0.9, 900.0)
    one = Source(normalised(star(-1.5) * np.exp(-lines)), "a_star")
    seeded = short.seed(one, np.random.default_rng(2), 1.0)
    beyond = slice(*np.searchsorted(GRID, (7600.0, 10_000.0)))
    ratio = np.log(seeded.flux[beyond] / one.flux[beyond])
    assert np.ptp(ratio) < 0.25  # the line at 8500 Å is there, made a little weaker or stronger
    seam = slice(*np.searchsorted(GRID, (7250.0, 7350.0)))
    assert np.abs(np.diff(np.log(seeded.flux[seam]))).max() < 0.02


def test_the_same_draw_gives_the_same_star_in_another_process_too(templates: Templates) -> None:
    sent = pickle.loads(pickle.dumps(templates))
    ours = templates.seed(source(), np.random.default_rng(5), 1.0)
    theirs = sent.seed(source(), np.random.default_rng(5), 1.0)
    np.testing.assert_array_equal(ours.flux, theirs.flux)
    assert ours.template == theirs.template


def test_a_template_of_a_distant_object_is_seen_at_the_redshift_of_the_source(tmp_path: Path) -> None:
    rows = {"q.npz": ("QSO template", "q")}
    folder = folder_of(tmp_path / "far", rows, ends=(3450.0, 10_600.0))
    templates = load_templates(folder, cache=tmp_path / "cache")
    assert templates.counts == {"qso": 1}
    z = 0.2
    flux = np.interp(GRID / (1 + z), GRID, star())
    seeded = templates.seed(Source(normalised(flux), "qso", redshift=z), np.random.default_rng(0), 1.0)
    near = np.abs(GRID - vacuum(HA) * (1 + z)) < 20.0
    assert GRID[near][np.argmin(seeded.flux[near])] == pytest.approx(vacuum(HA) * (1 + z), abs=2 * KM_S_PER_PIXEL / 40)
    assert seeded.redshift == z


# --- the real folder


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}")
def test_the_real_templates_answer_the_tasks_as_their_labels_do(tmp_path: Path) -> None:
    templates = load_templates(SHARED, cache=tmp_path)
    assert len(templates.templates) > 250
    assert {"cv.quiescence", "gm.giant", "ss.S", "cc.N", "wd.DA", "m_dwarf.quiet", "sdo", "qso"} <= set(
        templates.counts
    )
    assert not any(held_out(t.object_id) for t in templates.templates)
    with (SHARED / "labels.csv").open(encoding="utf-8") as file:
        labels = {row["path"]: row for row in csv.DictReader(file)}
    wrong = [
        (t.file, kind, task)
        for t in templates.templates
        if t.file in labels
        for kind in t.kinds
        for task in ("cv", "cc", "ss", "gm", "wd")
        if labels[t.file][task] in ("YES", "NO") and labels[t.file][task] != KINDS[kind].answer(task)
    ]
    assert wrong == []
