"""Fifty SIMULATED stars with two epochs each, from spectra to objects by commands alone: vet, match, triage, review,
export, cite, completeness, SAMP, notebook. No file is touched between them; later tests read what the commands left."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from astropy.io.votable import validate
from astropy.samp import SAMPHubServer, SAMPIntegratedClient, conf
from astropy.table import Table
from whole_way_lab import MISSING, TWICE, VARIABLES, stars, write_gaia, write_spectra, write_vsx

import specvet
from specvet.cli.main import main

STARS = stars()
SUFFIXES = ("csv", "fits", "vot", "ecsv", "parquet")


def done(*arguments: object) -> None:
    assert main([str(a) for a in arguments]) == 0, arguments


class Person:
    """One who reviews at the server's interface, as the page does."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name, self.cookie, self.n = address, name, "", 0
        self.csrf = ""
        self.csrf = self.asked("session")["csrf"]
        self.asked("session", {"reviewer": name})

    def asked(self, path: str, body: object = None) -> Any:
        headers = {"Content-Type": "application/json", "X-CSRF-Token": self.csrf if body else "", "Cookie": self.cookie}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}api/{path}", data, headers)) as reply:
            self.cookie = reply.headers.get("set-cookie", self.cookie).partition(";")[0]
            content = reply.read()
        return json.loads(content) if content[:1] == b"{" else content

    def decides(self, item: str, task: str, verdict: str) -> dict[str, Any]:
        self.n += 1
        body = {"key": f"{self.name}-{self.n:06d}", "item": item, "task": task, "verdict": verdict, "quality": 3}
        return self.asked("decisions", body)["vote"]


@contextmanager
def served(run: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "specvet", "review", str(run), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def reviewed(run: Path) -> dict[str, Any]:
    """Ann looks at twenty spectra, star after star; Bo at six of them, and once says otherwise."""
    with served(run) as address:
        ann, bo = Person(address, "Ann"), Person(address, "Bo")
        first = ann.asked("next?task=cv&order=object&several=1&n=20")["items"]
        objects = {}
        for item in first:
            about = ann.asked(f"object/{item}?task=cv")
            objects[item] = about
            places = [e["item"] for e in about["epochs"]]
            other = places[1 - places.index(item)]
            assert len(ann.asked(f"spectrum/{other}")) > 10_000  # stepped to, and drawn over it
            ann.decides(item, "cv", truth_of(about))
        for n, item in enumerate(first[:6]):
            said = truth_of(objects[item])
            bo.decides(item, "cv", ("NO" if said == "YES" else "YES") if n == 5 else said)
        return {"items": first, "objects": objects, "agreement": ann.asked("agreement?task=cv")}


def star_of(object_id: str) -> Any:
    """By its Gaia id, else by the right ascension in its name: there is one every 2.5°."""
    if object_id.startswith("Gaia DR3 "):
        return STARS[(int(object_id.removeprefix("Gaia DR3 ")) - int(STARS[0].source_id)) // 7]
    hours, minutes, seconds = int(object_id[1:3]), int(object_id[3:5]), float(object_id[5:10])
    return STARS[round(((hours + minutes / 60 + seconds / 3600) * 15 - 120) / 2.5)]


def truth_of(about: dict[str, Any]) -> str:
    """Whether the object is a cataclysmic variable."""
    return "YES" if star_of(about["id"]).kind.startswith("cv.") else "NO"


def broadcast(run: Path, folder: Path) -> Table:
    """What a program that takes tables gets over SAMP."""
    taken: list[str] = []
    with pytest.MonkeyPatch.context() as patch, conf.set_temp("use_internet", False):
        patch.setenv("HOME", str(folder))
        patch.setenv("SAMP_HUB", f"std-lockurl:{(folder / 'lock').as_uri()}")
        hub = SAMPHubServer(addr="127.0.0.1", lockfile=str(folder / "lock"), web_profile=False)
        hub.start()
        topcat = SAMPIntegratedClient(name="topcat", addr="127.0.0.1")
        topcat.connect(hub=hub)
        try:

            def take(key: str, sender: str, message: str, mtype: str, params: dict[str, Any], extra: Any) -> None:
                taken.append(params["url"])
                topcat.ereply(message, "samp.ok", result={})

            topcat.bind_receive_call("table.load.votable", take)
            done("samp", run, "--quiet")
        finally:
            topcat.disconnect()
            hub.stop()
    return Table.read(taken[0].removeprefix("file://"), format="votable")


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The commands, one after the other."""
    folder = tmp_path_factory.mktemp("way")
    run, out = folder / "RUN", folder / "out"
    out.mkdir()
    write_spectra(folder / "spectra", STARS)
    gaia, vsx = write_gaia(folder / "gaia.csv", STARS), write_vsx(folder / "vsx.vot", STARS)
    done("vet", folder / "spectra", "--task", "cv,gm,wd", "--policy", "line-indices", "--out", run, "--quiet")
    done("export", run, "--objects", "--out", out / "before.csv")
    done("match", run, "--table", vsx, "--table", gaia, "--quiet")
    done("triage", run, "--quiet")
    done("export", run, "--objects", "--out", out / "unreviewed.csv")
    review = reviewed(run)
    for suffix in SUFFIXES:
        done("export", run, "--out", out / f"spectra.{suffix}")
        done("export", run, "--objects", "--reviewed", "--out", out / f"objects.{suffix}")
    done("export", run, "--reviewed", "--out", out / "reviewed.csv")
    done("cite", run, "--format", "latex", "--out", out / "paper")
    done("report", run, "--answer", "YES,UNSURE", "--limit", 5)
    done("completeness", run, "--task", "cv", "--snr", "5,20", "--each", 4, "--processes", 1, "--quiet")
    return {"folder": folder, "run": run, "out": out, "review": review, "sent": broadcast(run, folder)}


def rows(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def by_star(file: Path) -> dict[int, dict[str, str]]:
    """The object of each star; those whose epochs are apart are left out."""
    found: dict[int, list[dict[str, str]]] = {}
    for row in rows(file):
        found.setdefault(star_of(row["object"]).number, []).append(row)
    return {number: of[0] for number, of in found.items() if len(of) == 1}


def test_every_star_is_one_object_of_two_epochs_once_gaia_gave_the_motion_of_the_fast_ones(way: dict[str, Any]) -> None:
    before, after = rows(way["out"] / "before.csv"), rows(way["out"] / "objects.csv")
    apart = Counter(star_of(row["object"]).number for row in before)
    assert [number for number, n in apart.items() if n == 2] == [17]  # 0.7″ a year, seen twice in eight years
    assert len(after) == 50
    assert {row["n_spectra"] for row in after} == {"2"}
    named = {star_of(row["object"]).number for row in after if row["gaia_id"]}
    assert sorted(set(range(50)) - named) == sorted(MISSING)
    assert all(row["gaia_id"] == STARS[star_of(row["object"]).number].source_id for row in after if row["gaia_id"])
    assert [r["surveys"] for r in after].count("DESI; DESI") == 12
    assert {row["notes"] for row in after} == {""}


def test_ids_are_those_of_the_truth_though_the_table_is_in_no_order_and_has_some_twice(way: dict[str, Any]) -> None:
    spectra = [row for row in rows(way["out"] / "spectra.csv") if row["task"] == "wd"]
    assert len(spectra) == 100
    for row in spectra:
        star = star_of(row["object"])
        assert row["gaia_source_id"] == ("" if star.number in MISSING else star.source_id)
        assert row["gaia_separation"] == "" or float(row["gaia_separation"]) < 0.01
        assert ("stands 2 times in gaia" in row["match_notes"]) == (star.number in TWICE)
        if row["m_g"]:
            assert float(row["m_g"]) == pytest.approx(star.m_g, abs=0.002)


def test_the_one_epoch_in_outburst_decides_and_is_not_outvoted(way: dict[str, Any]) -> None:
    nova = by_star(way["out"] / "unreviewed.csv")[0]
    assert dict(zip(nova["mjds"].split("; "), nova["cv_epochs"].split("; "), strict=True)) == {
        "51699": "NO", "52168": "YES"
    }  # fmt: skip
    assert (nova["cv_answer"], nova["cv_rule"], nova["cv_conflict"]) == ("YES", "any_yes", "yes")
    assert (nova["cv_n_yes"], nova["cv_n_no"]) == ("1", "1")
    assert [float(s) > 30 for s in nova["snrs"].split("; ")] == [False, True]


def test_gaia_makes_a_white_dwarf_of_what_the_spectrum_leaves_open_and_does_not_touch_the_first_verdict(way) -> None:
    dc = by_star(way["out"] / "unreviewed.csv")[17]
    assert (dc["wd_epochs"], dc["wd_answer"], dc["wd_with_gaia"]) == ("UNSURE; UNSURE", "UNSURE", "YES")
    assert "on the white-dwarf sequence; without lines in its spectrum it is a DC" in dc["wd_why_with_gaia"]
    assert (dc["g_mag"], dc["bp_rp"], dc["parallax"]) == ("15.695", "0.1", "20.0")
    blazar = by_star(way["out"] / "unreviewed.csv")[49]
    assert (blazar["wd_answer"], blazar["wd_with_gaia"], blazar["m_g"]) == ("UNSURE", "UNSURE", "")
    assert "Gaia changes nothing: the parallax is 0.7 of its errors" in blazar["wd_why_with_gaia"]
    open_ones = [r for r in rows(way["out"] / "spectra.csv") if r["task"] == "wd" and r["answer"] == "UNSURE"]
    assert {star_of(r["object"]).kind: r["answer_with_gaia"] for r in open_ones} == {"wd.DC": "YES", "bl_lac": "UNSURE"}


def test_known_variables_are_named_also_the_one_that_moved_a_minute_of_arc_and_the_rest_is_new(way) -> None:
    known = {number: row["known_as"] for number, row in by_star(way["out"] / "objects.csv").items()}
    assert {n for n, name in known.items() if name != "new"} == set(VARIABLES)
    assert known[0] == "vsx: SIM V0000 (UG)"
    assert known[10] == "vsx: SIM V0010 (ZZ)"
    moved = by_star(way["out"] / "objects.csv")[10]["match_notes"]
    assert moved == "vsx has it where it was in 2000 by Gaia's motion"


def test_twenty_spectra_were_decided_by_two_people_and_count_before_triage_and_policy(way: dict[str, Any]) -> None:
    decided = rows(way["out"] / "reviewed.csv")
    assert Counter(row["standing"] for row in decided) == {"single": 14, "agreed": 5, "conflict": 1}
    assert {row["reviewers"] for row in decided} == {"Ann", "Ann, Bo"}
    agreement = way["review"]["agreement"]
    assert (agreement["n_voted"], agreement["n_two"], agreement["conflicts"]) == (20, 6, 1)
    objects = by_star(way["out"] / "objects.csv")
    looked = {star_of(row["object"]).number for row in decided if row["decision"]}
    assert {n for n, row in objects.items() if row["cv_by"] == "person"} == looked
    for n in looked:
        if all(row["decision"] for row in decided if star_of(row["object"]).number == n):
            assert objects[n]["cv_answer"] == ("YES" if STARS[n].kind.startswith("cv.") else "NO")


@pytest.mark.parametrize("what", ["spectra", "objects"])
def test_other_programs_read_the_same_table_from_every_format(way: dict[str, Any], what: str) -> None:
    file = way["out"] / what
    frame = pd.read_csv(f"{file}.csv", dtype=str, keep_default_na=False)
    parquet = pq.read_table(f"{file}.parquet").to_pandas()
    tables = [Table.read(f"{file}.{suffix}") for suffix in ("fits", "ecsv")]
    tables.append(Table.read(f"{file}.vot", format="votable"))
    name = "gaia_source_id" if what == "spectra" else "gaia_id"
    assert list(parquet.columns) == list(frame.columns)
    for table in tables:
        assert table.colnames == list(frame.columns)
        assert len(table) == len(frame) == len(parquet) == {"spectra": 300, "objects": 50}[what]
        cells = np.ma.filled(np.ma.asarray(table[name].astype(str)), "")
        assert [str(cell) for cell in cells] == list(frame[name]) == list(parquet[name].fillna(""))
        assert np.allclose(np.asarray(table["ra"], float), frame["ra"].astype(float))
        assert (str(table["ra"].unit), str(table["parallax"].unit), str(table["g_mag"].unit)) == ("deg", "mas", "mag")
    report = way["folder"] / "validated.txt"
    with open(report, "w") as told:
        assert validate(f"{file}.vot", told), report.read_text()


def test_the_numbers_of_the_methods_paragraph_are_those_of_the_tables(way: dict[str, Any]) -> None:
    methods = (way["out"] / "paper" / "methods.tex").read_text().replace("\\,", " ").replace("~", " ")
    counts = {
        task: Counter(row["answer"] for row in rows(way["out"] / "spectra.csv") if row["task"] == task)
        for task in ("cv", "gm", "wd")
    }
    assert "100 spectra in 78 files" in methods
    assert "They are of 50 objects, grouped 46 by their Gaia source" in methods
    assert "SIMULATED: no telescope has observed them" in methods
    for task, of in counts.items():
        told = [f"{of[answer]} {answer}" for answer in ("YES", "NO", "UNSURE") if of[answer]]
        assert f"for {task}, of 100 spectra, {', '.join(told[:-1])} and {told[-1]}" in methods
    assert "has a source within 2 arcsec of 92 of 100 spectra" in methods
    changed = sum(r["answer"] != r["answer_with_gaia"] for r in rows(way["out"] / "spectra.csv"))
    assert f"differ from {changed} of these" in methods
    assert "knows 16 of 100; the object is known to none of those that were asked for 84 spectra" in methods
    assert "Two people" in methods or "2 people" in methods
    assert {f.name for f in (way["out"] / "paper").iterdir()} == {
        "methods.tex", "acknowledgements.tex", "references.bib", "verify.txt"
    }  # fmt: skip


def test_completeness_samp_report_and_a_notebook_take_the_same_run(way: dict[str, Any]) -> None:
    told = json.loads((way["run"] / "completeness" / "completeness.json").read_text())
    assert len(rows(way["run"] / "completeness" / "injections.csv")) == 8
    assert "SIMULATED" in json.dumps(told)
    spectra = rows(way["out"] / "spectra.csv")
    assert [str(c) for c in way["sent"]["answer"]] == [row["answer"] for row in spectra]
    assert len(specvet.show(way["run"]).table(tasks=["wd"], answers=["UNSURE"])) == 6
    page = (way["run"] / "report.html").read_text(encoding="utf-8")
    assert page.count("SIMULATED") >= 5
