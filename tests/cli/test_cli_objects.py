"""`specvet objects`, `specvet export --objects` and single exposures, with runs that vet made."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from astropy.io import fits
from astropy.table import Table
from cli_lab import Specvet

from specvet.catalogue.astrometry import carried
from specvet.cli.main import main
from specvet.records import RunFolder
from specvet.spectra import Spectrum, write

HEADER = "path,id,ra,dec,gaia_dr3\n"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def in_folder(folder: Path, *arguments: object) -> Done:
    """What `specvet` does in a folder, without a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as e:
            code = int(e.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def disc(x: np.ndarray, lines: float, seed: int) -> np.ndarray:
    flux = (x / 5500.0) ** -1.5 + np.random.default_rng(seed).normal(0, 0.02, x.size)
    for centre, strength in ((6562.8, 1.0), (4861.3, 0.8), (4340.5, 0.6), (4101.7, 0.4), (5875.6, 0.3), (6678.2, 0.2)):
        flux += lines * strength * np.exp(-(((x - centre) / (0.002 * centre)) ** 2) / 2)
    return flux


def write_star(path: Path, lines: float) -> None:
    """A SIMULATED text spectrum, S/N 50, blue, with Balmer lines and He I of that height and 1,400 km/s wide."""
    x = np.arange(3800.0, 9200.0, 2.0)
    flux = disc(x, lines, seed=sum(map(ord, path.name)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{a:.1f} {b:.5f} 0.02\n" for a, b in zip(x, flux, strict=True)))


def outbursts(folder: Path) -> None:
    """Five epochs of one star, of which one shows broad Hα; a second star with two; a third without a place."""
    rows = []
    for n in range(5):
        write_star(folder / "stars" / f"a{n}.txt", 2.0 if n == 2 else 0.0)
        rows.append(f"stars/a{n}.txt,a{n},10.0000{n},20.0,")
    for n in range(2):
        write_star(folder / "stars" / f"b{n}.txt", 0.0)
        rows.append(f"stars/b{n}.txt,twice,{200 + n},-5.0,4472832130942575872")
    write_star(folder / "stars" / "c.txt", 0.0)
    rows.append("stars/c.txt,twice,,,")
    (folder / "list.csv").write_text(HEADER + "\n".join(rows) + "\n")
    (folder / "turned.csv").write_text(HEADER + "\n".join(reversed(rows)) + "\n")


VET = ("--task", "cv,wd", "--policy", "line-indices", "--quiet")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    outbursts(folder)
    done = in_folder(folder, "vet", "list.csv", *VET, "--out", "RUN")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "RUN"


@pytest.fixture
def specvet(tmp_path: Path) -> Specvet:
    return functools.partial(in_folder, tmp_path)


def listed(specvet: Specvet, *arguments: str) -> list[dict]:
    done = specvet("objects", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_outburst_of_five_epochs_makes_the_object_a_cv(specvet: Specvet, run: Path) -> None:
    by_name = {one["object"]: one for one in listed(specvet, "RUN")}
    assert set(by_name) == {"J004000.00+200000.0", "Gaia DR3 4472832130942575872", "stars/c.txt:0"}
    star = by_name["J004000.00+200000.0"]
    assert [s["id"] for s in star["spectra"]] == ["a0", "a1", "a2", "a3", "a4"]
    assert [s["answers"]["cv"] for s in star["spectra"]] == ["NO", "NO", "YES", "NO", "NO"]
    verdict = star["verdicts"]["cv"]
    assert (verdict["answer"], verdict["rule"], verdict["conflict"], verdict["by"]) == (
        "YES",
        "any_yes",
        True,
        "policy",
    )
    assert verdict["yes"] == [["stars/a2.txt", 0]]
    assert star["verdicts"]["wd"]["rule"] == "weighed"
    assert len(by_name["Gaia DR3 4472832130942575872"]["spectra"]) == 2


def test_the_order_of_the_list_alters_no_object(specvet: Specvet, run: Path) -> None:
    done = specvet("vet", "turned.csv", *VET, "--out", "OTHER")
    assert done.returncode == 0
    assert listed(specvet, "RUN") == listed(specvet, "OTHER")


def test_the_listing_is_short_and_says_what_it_leaves_out(specvet: Specvet, run: Path) -> None:
    done = specvet("objects", "RUN", "--limit", "1")
    assert done.returncode == 0
    assert "8 spectra of 3 objects (2 of them not shown; --limit 0 shows all); 2 with several spectra, 1" in done.stdout
    only = specvet("objects", "RUN", "--task", "cv", "--answer", "YES")
    assert "YES 1/5" in only.stdout
    assert "5 spectra of 1 objects" in only.stdout
    assert "0 spectra of 0 objects" in specvet("objects", "RUN", "--answer", "NO_DATA").stdout


def test_the_radius_is_the_users(specvet: Specvet, run: Path) -> None:
    assert len(listed(specvet, "RUN", "--radius", "0.01")) == 7
    assert len(listed(specvet, "RUN", "--radius", "10")) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("objects", "RUN", "--radius", "0"), "--radius 0: give arcseconds above 0"),
        (("objects", "RUN", "--radius", "nan"), "--radius nan: give arcseconds above 0"),
        (("objects", "RUN", "--task", "gm"), "RUN asked cv, wd"),
        (("objects", "RUN", "--answer", "PERHAPS"), "--answer PERHAPS: choose from"),
        (("objects", "RUN", "--store", "x"), "--store belongs to --reviewed"),
        (("objects", "list.csv"), "list.csv"),
        (("objects", "list.csv", "--reviewed"), "is no run folder"),
        (("export", "RUN", "--objects", "--row", "1", "--out", "t.fits"), "--row and --decision choose no objects"),
        (("export", "stars/c.txt", "--radius", "3", "--out", "t.fits"), "--radius its objects"),
        (("export", "RUN", "--objects", "--out", "t.docx"), "t.docx: name it .csv"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(
    specvet: Specvet, run: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = specvet(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_objects_go_to_every_format_alike(specvet: Specvet, run: Path, tmp_path: Path) -> None:
    tables = {}
    for name, kind in (("t.fits", "fits"), ("t.vot", "votable"), ("t.ecsv", "ascii.ecsv")):
        done = specvet("export", "RUN", "--objects", "--out", name)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.splitlines()[-1] == f"specvet: wrote 3 objects to {name}"
        tables[name] = Table.read(tmp_path / name, format=kind)
    assert specvet("export", "RUN", "--objects", "--out", "t.parquet").returncode == 0
    assert pq.read_table(tmp_path / "t.parquet")["cv_epochs"].to_pylist() == ["NO; NO; YES; NO; NO", "NO; NO", "NO"]
    for table in tables.values():
        assert [str(x).strip() for x in table["object"]] == [
            "J004000.00+200000.0",
            "Gaia DR3 4472832130942575872",
            "stars/c.txt:0",
        ]
        assert [int(n) for n in table["n_spectra"]] == [5, 2, 1]
        assert str(table["cv_answer"][0]).strip() == "YES"
        assert str(table["cv_epochs"][0]).strip() == "NO; NO; YES; NO; NO"
        assert str(table["members"][0]).split("; ")[2] == "stars/a2.txt:0"
        assert float(table["ra"][0]) == pytest.approx(10.00002, abs=1e-9)
    header = fits.getheader(tmp_path / "t.fits", 1)
    assert (header["EXTNAME"], header["OBJRAD"], header["AUTHORIT"]) == ("OBJECTS", 2.0, "person, triage, policy")
    assert "one epoch with a trusted YES" in tables["t.vot"]["cv_p_yes"].description
    assert "log-odds" in tables["t.vot"]["wd_p_yes"].description


def test_the_table_of_spectra_names_the_object_of_each(specvet: Specvet, run: Path, tmp_path: Path) -> None:
    assert specvet("export", "RUN", "--task", "cv", "--out", "s.csv").returncode == 0
    with open(tmp_path / "s.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert {(r["id"], r["object"]) for r in rows if r["id"] != "twice"} == {
        (f"a{n}", "J004000.00+200000.0") for n in range(5)
    }
    assert [r["object"] for r in rows if r["file"].startswith("stars/b")] == ["Gaia DR3 4472832130942575872"] * 2


def test_what_people_decided_goes_before_the_policy(specvet: Specvet, run: Path, tmp_path: Path) -> None:
    from specvet.review.desk import Desk
    from specvet.review.events import Draft
    from specvet.review.source import open_source
    from specvet.review.store import open_store

    listing = open_source([str(run)], tasks=None)
    store = open_store(str(tmp_path / "people.db"))
    desk = Desk(listing, store)
    item = listing.items[listing.files.index("stars/a2.txt")]
    desk.decide("Ada", Draft(key="key-0001", item=item, task="cv", verdict="NO", likelier="Be star"))
    store.close()
    before, after = (
        next(o for o in listed(specvet, "RUN", *more) if len(o["spectra"]) == 5)["verdicts"]["cv"]
        for more in ((), ("--reviewed", "--store", "people.db"))
    )
    assert (before["answer"], before["by"]) == ("YES", "policy")
    assert (after["answer"], after["by"]) == ("NO", "person")
    assert after["reason"] == "NO in all 5 epochs"
    done = specvet("export", "RUN", "--objects", "--reviewed", "--store", "people.db", "--out", "t.ecsv")
    assert done.returncode == 0
    assert Table.read(tmp_path / "t.ecsv")["cv_by"][0] == "person"


def test_triage_goes_before_the_policy(specvet: Specvet, run: Path, tmp_path: Path) -> None:
    import pyarrow as pa

    assert specvet("triage", "RUN").returncode == 0
    file = run / "triage" / "rows.parquet"
    rows = pq.read_table(file).to_pylist()
    for row in rows:
        if row["task"] == "cv":
            row["band"], row["probability"] = (
                ("reject", 0.01) if "a2" in row["file"] else (row["band"], row["probability"])
            )
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(file)), file)
    star = next(o for o in listed(specvet, "RUN") if len(o["spectra"]) == 5)
    assert (star["verdicts"]["cv"]["answer"], star["verdicts"]["cv"]["by"]) == ("NO", "triage")


def test_an_unreadable_file_is_an_epoch_that_does_not_vote(specvet: Specvet, tmp_path: Path) -> None:
    outbursts(tmp_path)
    (tmp_path / "stars" / "a1.txt").write_bytes(b"\x00\x01")
    assert (
        specvet("vet", "list.csv", "--task", "cv", "--policy", "line-indices", "--out", "RUN", "--quiet").returncode
        == 0
    )
    star = next(o for o in listed(specvet, "RUN") if len(o["spectra"]) == 5)
    assert [s["answers"]["cv"] for s in star["spectra"]] == ["NO", "ERROR", "YES", "NO", "NO"]
    assert star["verdicts"]["cv"]["reason"].endswith("not counted: 1 ERROR")


def sdss_with_exposures(path: Path) -> Path:
    """A full SDSS spec file by its layout, SIMULATED: a coadd, SPALL, and two exposures of one camera each."""
    loglam = np.linspace(np.log10(3800), np.log10(9200), 3000)

    def table(name: str, span: slice, lines: float) -> fits.BinTableHDU:
        x = 10 ** loglam[span]
        flux = disc(x / 1.00028, lines, seed=len(name))  # vacuum
        columns = [("loglam", "E", loglam[span]), ("flux", "E", flux), ("ivar", "E", np.full(x.size, 2500.0))]
        if name == "COADD":
            columns += [("and_mask", "J", np.zeros(x.size, int)), ("or_mask", "J", np.zeros(x.size, int))]
        made = [fits.Column(n, f, array=a) for n, f, a in columns]
        hdu = fits.BinTableHDU.from_columns(made, name=name)
        hdu.header["TAI-BEG"] = 4.6e9 + (900 if name.endswith("79") else 0)
        return hdu

    about = {"PLATE": 332, "MJD": 53000, "FIBERID": 639, "Z": 0.0, "PLUG_RA": 180.0, "PLUG_DEC": 2.0}
    kinds = {"PLATE": "J", "MJD": "J", "FIBERID": "J", "Z": "E", "PLUG_RA": "D", "PLUG_DEC": "D"}
    cells = [fits.Column(k, kinds[k], array=[v]) for k, v in about.items()]
    cells.append(fits.Column("CLASS", "6A", array=["STAR"]))
    everything = slice(None)
    hdus = [
        fits.PrimaryHDU(),
        table("COADD", everything, 2.0),
        fits.BinTableHDU.from_columns(cells, name="SPALL"),
        table("R2-00014178", slice(1200, None), 2.0),
        table("R2-00014179", slice(1200, None), 0.0),
    ]
    path.parent.mkdir(exist_ok=True)
    fits.HDUList(hdus).writeto(path)
    return path


def test_single_exposures_are_vetted_as_rows_of_the_same_object(specvet: Specvet, tmp_path: Path) -> None:
    sdss_with_exposures(tmp_path / "files" / "spec.fits")
    plain = specvet("vet", "files", "--task", "cv", "--policy", "line-indices", "--out", "COADD", "--quiet")
    assert plain.returncode == 0, plain.stderr
    (coadd,) = listed(specvet, "COADD")
    assert (len(coadd["spectra"]), coadd["n_exposures"]) == (1, 2)
    for _ in range(2):  # again, so that what is there is found
        done = specvet(
            "vet", "files", "--exposures", "--task", "cv", "--policy", "line-indices", "--out", "RUN", "--quiet"
        )
        assert done.returncode == 0, done.stderr
    (star,) = listed(specvet, "RUN")
    answers = {s["id"]: s["answers"]["cv"] for s in star["spectra"]}
    assert answers == {
        "0332-53000-0639": "YES",
        "0332-53000-0639 00014178 r2": "YES",
        "0332-53000-0639 00014179 r2": "UNSURE",
    }
    assert sorted(Path(s["file"]).parent.name for s in star["spectra"]) == ["exposures", "exposures", "files"]
    first = next(s for s in star["spectra"] if s["id"].endswith("14178 r2"))
    assert first["ids"]["exposure"] == "00014178"
    assert first["mjd"] == pytest.approx(4.6e9 / 86400 - 37 / 86400)


def test_shards_part_files_with_their_exposures_wherever_each_run_lies(specvet: Specvet, tmp_path: Path) -> None:
    for n in range(5):
        sdss_with_exposures(tmp_path / "files" / f"spec-{n}.fits")
    seen = []
    for part in ("1/2", "2/2"):
        run = f"PART{part[0]}"
        done = specvet("vet", "files", "--exposures", "--shard", part, "--task", "cv", "--out", run, "--quiet")
        assert done.returncode == 0, done.stderr
        with RunFolder.read(tmp_path / run) as folder:
            files = [Path(d.file) for d in folder.decisions()]
        written = {file.name for file in (tmp_path / run / "exposures").iterdir()}
        assert written == {file.name for file in files if file.parent.name == "exposures"}
        assert 0 < len(files) < 15
        seen += [file.name for file in files]
    assert (len(seen), len(set(seen))) == (15, 15)


def test_real_exposures_of_lamost_and_sdss_join_their_coadd(specvet: Specvet, shared: Path, tmp_path: Path) -> None:
    names = ("lamost/mrs_dr7/med-58625-TD192102N424113K01_sp12-076.fits.gz", "sdss/spec/spec-0332-52367-0639.fits")
    files = [str(shared / name) for name in names]
    done = specvet("vet", *files, "--exposures", "--task", "cv", "--policy", "line-indices", "--out", "RUN", "--quiet")
    assert done.returncode == 0, done.stderr
    found = listed(specvet, "RUN")
    assert sorted((len(o["spectra"]), o["n_exposures"]) for o in found) == [(7, 6), (7, 6)]
    assert all(s["mjd"] is not None for o in found for s in o["spectra"])


def test_a_fast_star_is_one_object_once_a_match_gives_its_motion(specvet: Specvet, tmp_path: Path) -> None:
    """1″ a year, seen 20 years apart, matched with a table that has Gaia's columns."""
    x = np.arange(3800.0, 9200.0, 2.0)
    (tmp_path / "stars").mkdir()
    for n, (year, mjd) in enumerate(((2000.0, 51544.5), (2020.0, 58849.5))):
        ra, dec = carried(10.0, 30.0, 600.0, 800.0, 2016.0, year)
        star = Spectrum(
            x, disc(x, 2.0, n), np.full(x.size, 2500.0), ra=float(ra), dec=float(dec), mjd=mjd, id="SIMULATED"
        )
        write(star, tmp_path / "stars" / f"{n}.fits")
    columns = "source_id,ra,dec,ref_epoch,pmra,pmdec,parallax,parallax_error,ruwe,phot_g_mean_mag,bp_rp"
    (tmp_path / "gaia.csv").write_text(
        f"{columns}\n4472832130942575872,10.0,30.0,2016.0,600,800,50,0.05,1.0,12.1,1.9\n"
    )
    assert (
        specvet("vet", "stars", "--task", "cv", "--policy", "line-indices", "--out", "RUN", "--quiet").returncode == 0
    )
    assert len(listed(specvet, "RUN")) == 2
    assert specvet("match", "RUN", "--table", "gaia.csv").returncode == 0
    (star,) = listed(specvet, "RUN")
    assert star["object"] == "Gaia DR3 4472832130942575872"
    assert [s["mjd"] for s in star["spectra"]] == [51544.5, 58849.5]


def test_a_task_tells_its_rule_and_one_without_the_section_the_default(specvet: Specvet, tmp_path: Path) -> None:
    told = specvet("tasks", "cv").stdout
    assert "any_yes: one epoch with a trusted YES makes the object a YES" in told
    assert "trusted from p(YES) 0.6" in told
    template = specvet("tasks", "--template").stdout
    own = template[: template.index("epochs:\n")] + template[template.index("reward: default") :]
    (tmp_path / "own.yaml").write_text(own)
    assert "weighed (the default): p(YES) is 1 / (1 + exp(-L))" in specvet("tasks", "own.yaml").stdout
    (tmp_path / "own.yaml").write_text(own + "epochs: {rule: majority, why: x}\n")
    assert specvet("tasks", "own.yaml").returncode == 2
