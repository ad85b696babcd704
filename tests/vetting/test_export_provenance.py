"""Where each exported row comes from, in every format: who decided what, when, by which versions, about which release.

The tables say so in the terms that other programs know: UCDs, units, coordinate and time systems, comments.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from astropy.io import fits
from astropy.io.votable import exceptions, parse, parse_single_table, validate
from astropy.io.votable.ucd import check_ucd, parse_ucd
from astropy.table import Table

from specvet import __version__
from specvet.agent import task_hash
from specvet.cli.main import main
from specvet.policies import policy
from specvet.policies.identity import described_identity, model_identity
from specvet.records import Decision, RunFolder
from specvet.records.schema import Answer, StopReason, Verdict
from specvet.review.outputs import LIST_COLUMNS, REVIEW_COLUMNS
from specvet.tasks import load_task
from specvet.vetting import columns
from specvet.vetting.columns import COLUMNS, MATCH_COLUMNS, PROVENANCE, ROLLOUT_COLUMNS, TRIAGE_COLUMNS
from specvet.vetting.export import export
from specvet.vetting.origin import DIGITS, Model, origin_of

ROOT = Path(__file__).parents[2]
EVERY = (*COLUMNS.values(), *ROLLOUT_COLUMNS, *TRIAGE_COLUMNS, *MATCH_COLUMNS, *LIST_COLUMNS, *REVIEW_COLUMNS)
NAMES = [c.name for c in PROVENANCE]


@pytest.fixture(scope="module")
def vetted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SIMULATED examples, vetted for `cv` and `wd`. Not to be changed."""
    run = tmp_path_factory.mktemp("provenance") / "RUN"
    arguments = ["vet", str(ROOT / "examples" / "list.csv"), "--task", "cv,wd", "--policy", "line-indices"]
    assert main([*arguments, "--out", str(run), "--quiet"]) == 0
    return run


def rows(run: Path, out: Path, *more: str) -> list[dict[str, Any]]:
    assert main(["export", str(run), "--out", str(out), *more]) == 0
    return list(pq.read_table(out).to_pylist())


def test_each_row_says_who_decided_what_when_and_by_which_versions(vetted: Path, tmp_path: Path) -> None:
    found = rows(vetted, tmp_path / "t.parquet")
    assert len(found) == 28
    for row in found:
        assert row["model"] == row["policy"] == "line-indices"
        assert row["model_hash"] == policy("line-indices").fingerprint[:DIGITS]
        assert row["task_hash"] == task_hash(load_task(row["task"]))[:DIGITS]
        assert row["specvet"] == __version__
        assert row["decided"].startswith("20")
        assert row["decided"].endswith("+00:00")
    lamost, desi = found[0], next(r for r in found if r["survey"] == "DESI")
    assert (lamost["release"], lamost["reduction"], lamost["mjd"]) == ("SIMULATED DR9", "SIMULATED", 55912.0)
    assert "obsid=9000000000; " in lamost["ids"]
    assert desi["ids"].startswith("targetid=288230376151711753; ")  # 58 bits, digit by digit
    text = next(r for r in found if r["layout"] == "text")
    assert (text["release"], text["mjd"]) == (None, None)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.fits", "t.vot", "t.ecsv"])
def test_every_format_has_the_columns_of_provenance(vetted: Path, tmp_path: Path, name: str) -> None:
    assert main(["export", str(vetted), "--out", str(tmp_path / name)]) == 0
    if name.endswith(("csv", "parquet")) and "ecsv" not in name:
        read = (
            pq.read_table(tmp_path / name).to_pylist()
            if "parquet" in name
            else list(csv.DictReader((tmp_path / name).open()))
        )
        first = read[0]
        assert set(NAMES) <= first.keys()
    else:
        kind = {"t.fits": "fits", "t.vot": "votable", "t.ecsv": "ascii.ecsv"}[name]
        table = Table.read(tmp_path / name, format=kind)
        assert set(NAMES) <= set(table.colnames)
        first = {c: v.decode() if isinstance(v := table[c][0], bytes) else v for c in NAMES}
    hash = policy("line-indices").fingerprint[:DIGITS]
    assert [str(first[c]) for c in ("model", "model_hash", "specvet", "release")] == [
        "line-indices", hash, __version__, "SIMULATED DR9",
    ]  # fmt: skip
    assert float(first["mjd"]) == 55912.0


def test_rows_of_a_run_that_knew_less_have_nulls(vetted: Path, tmp_path: Path) -> None:
    old = tmp_path / "OLD"
    shutil.copytree(vetted, old)
    with sqlite3.connect(old / "run.db") as db:
        for n, rest in db.execute("SELECT n, rest FROM decisions").fetchall():
            told = {k: v for k, v in json.loads(rest).items() if k not in ("mjd", "ids", "release", "reduction")}
            db.execute("UPDATE decisions SET rest = ? WHERE n = ?", (json.dumps(told), n))
        db.execute("UPDATE meta SET value = '{}' WHERE key = 'settings'")
        db.execute("UPDATE meta SET value = '' WHERE key = 'config'")
    for row in rows(old, tmp_path / "t.parquet"):
        known = {name: row[name] for name in NAMES if row[name] is not None}
        assert known.keys() == {"task_hash", "specvet", "decided"}  # trajectories and sessions hold these
    for name in ("t.csv", "t.fits", "t.vot", "t.ecsv"):
        assert main(["export", str(old), "--out", str(tmp_path / name)]) == 0


def test_reviewed_rows_have_it_too_and_say_who_reviewed_and_when(vetted: Path, tmp_path: Path) -> None:
    from specvet.review.desk import Desk
    from specvet.review.events import Draft
    from specvet.review.source import of_run
    from specvet.review.store import SqliteStore

    run = tmp_path / "RUN"
    shutil.copytree(vetted, run)
    desk = Desk(of_run(run), SqliteStore(run / "review.db"))
    told = {"key": "key-00000001", "item": desk.listing.items[0], "task": "cv", "verdict": "NO"}
    desk.decide("SIMULATED Ann", Draft.model_validate(told))
    desk.store.close()
    [row] = rows(run, tmp_path / "t.parquet", "--reviewed")
    assert all(row[name] is not None for name in NAMES)
    assert row["reviewers"] == "SIMULATED Ann"
    assert row["reviewed"] > row["decided"]


def test_reviewed_rows_of_a_list_say_the_version_of_the_task(tmp_path: Path) -> None:
    from specvet.review.desk import Desk
    from specvet.review.events import Draft
    from specvet.review.outputs import export_reviewed
    from specvet.review.source import of_list
    from specvet.review.store import SqliteStore

    desk = Desk(of_list([str(ROOT / "examples" / "list.csv")], tasks="cv"), SqliteStore(tmp_path / "review.db"))
    told = {"key": "key-00000001", "item": desk.listing.items[0], "task": "cv", "verdict": "NO"}
    desk.decide("SIMULATED Ann", Draft.model_validate(told))
    export_reviewed(desk, tmp_path / "t.parquet")
    desk.store.close()
    [row] = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert row["task_hash"] == task_hash(load_task("cv"))[:DIGITS]


# Models --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with a manifest."""
    from specvet.policies.catalogue import write_model_manifest

    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    (folder / "README.md").write_text("a card")
    write_model_manifest(folder, name="mine", version="1.2", licence="Apache-2.0")
    return folder


def test_a_model_is_known_by_the_name_and_hash_that_specvet_models_shows(model: Path) -> None:
    from specvet.policies.catalogue import read_manifest

    told = model_identity("torch", str(model))
    assert told == {"name": "mine 1.2", "sha256": read_manifest(model).digest}
    (model / "README.md").write_text("another card")
    assert model_identity("torch", str(model)) == told
    (model / "model.safetensors").write_bytes(b"other weights")
    assert model_identity("torch", str(model))["sha256"] != told["sha256"]
    (model / "specvet.json").unlink()
    assert model_identity("torch", str(model))["name"] == "mine"  # of the folder, without where it lies


def test_an_adapter_belongs_to_the_model_and_what_is_elsewhere_has_no_hash(model: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "lora"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"small")
    both = model_identity("torch", str(model), str(adapter))
    assert both["name"] == "mine 1.2 + lora"
    assert both["sha256"] != model_identity("torch", str(model))["sha256"]
    assert model_identity("openai", "spec-o3-7b") == {"name": "spec-o3-7b"}
    assert model_identity("torch", "org/model-on-a-hub") == {"name": "org/model-on-a-hub"}
    assert model_identity("torch", "org/model-on-a-hub", str(adapter)).keys() == {"name"}
    assert model_identity("line-indices") == {}


def test_a_campaigns_descriptor_gives_the_same_hash_as_the_folder(model: Path, tmp_path: Path) -> None:
    from specvet.evaluation.descriptors import describe
    from specvet.evaluation.plan import PolicyPlan

    plan = PolicyPlan.model_validate({"policy": "torch", "model": str(model)})
    described = described_identity(describe("mine", plan, "Mine", tmp_path).model_dump(mode="json"))
    assert described == {"name": "mine", "sha256": model_identity("torch", str(model))["sha256"]}


def origin(tmp_path: Path, **config: Any) -> Any:
    with RunFolder.open(tmp_path / "RUN", config=config):
        pass
    run = RunFolder.read(tmp_path / "RUN")
    try:
        return origin_of(run)
    finally:
        run.close()


def test_a_run_that_kept_its_models_identity_gives_the_weights_hash(tmp_path: Path) -> None:
    told = {"name": "mine 1.2", "sha256": "ab" * 32}
    found = origin(tmp_path, policy="torch", policy_fingerprint="cd" * 32, model="/data/mine", model_identity=told)
    assert found.model == Model("mine 1.2", "ab" * 32, "weights")


def test_an_older_run_gives_the_policys_own_hash_and_no_folder_of_its_machine(tmp_path: Path) -> None:
    found = origin(tmp_path, policy="torch", policy_fingerprint="cd" * 32, model="/home/ann/models/mine/")
    assert found.model == Model("mine", "cd" * 32, "policy")


def test_rows_of_a_prefilter_name_what_measured_them(tmp_path: Path) -> None:
    from test_export import trajectory

    told = {"prefilter_fingerprint": "ef" * 32}
    verdict = Verdict(answer=Answer.NO, reason="prefilter: hopeless")
    measured = trajectory("a.fits", "cv", verdict)
    asked = measured.model_copy(update={"policy": "torch", "stop": StopReason.ANSWERED})
    with RunFolder.open(tmp_path / "RUN", config={"policy": "torch", "policy_fingerprint": "cd" * 32}) as run:
        run.settle(told)
        for file, kept in (("a.fits", measured), ("b.fits", asked)):
            run.record(Decision(file=file, row=0, task="cv", id="", verdict=verdict, trajectory=kept))
    one, two = rows(tmp_path / "RUN", tmp_path / "t.parquet")
    assert [one["model"], one["model_hash"]] == ["line-indices", "ef" * 6]
    assert [two["model"], two["model_hash"]] == ["torch", "cd" * 6]


# What other programs read --------------------------------------------------------------------------------------------


def test_every_column_of_every_table_has_a_valid_ucd_and_words() -> None:
    for column in EVERY:
        assert check_ucd(column.ucd, check_controlled_vocabulary=True, has_colon=False), column
        parse_ucd(column.ucd, check_controlled_vocabulary=True)
        assert column.says, column
    assert [c.name for c in EVERY if c.ucd.endswith(";meta.main")] == ["id", "ra", "dec", "id", "ra", "dec"]


def test_every_unit_is_one_of_fits_and_votable() -> None:
    from astropy import units

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # VOUnits deprecates Angstrom, without which there is no spectroscopy
        for column in EVERY:
            if column.unit:
                assert units.Unit(column.unit, format="fits") == units.Unit(column.unit, format="vounit")


@pytest.mark.parametrize("triaged", [False, True])
def test_the_votable_is_valid_to_the_letter(vetted: Path, tmp_path: Path, triaged: bool) -> None:
    run = vetted
    if triaged:
        run = tmp_path / "RUN"
        shutil.copytree(vetted, run)
        assert main(["triage", str(run), "--quiet"]) == 0
    export(run, tmp_path / "t.vot")
    with warnings.catch_warnings():
        warnings.simplefilter("error", exceptions.VOWarning)
        table = parse(tmp_path / "t.vot", verify="exception")
    said = str(validate(str(tmp_path / "t.vot"), output=None))
    assert "found no violations" in said, said
    [resource] = table.resources
    [coosys], [timesys] = resource.coordinate_systems, resource.time_systems
    assert (coosys.ID, coosys.system) == ("icrs", "ICRS")
    assert (timesys.ID, timesys.timeorigin, timesys.timescale, timesys.refposition) == (
        "mjd", "MJD-origin", "UTC", "TOPOCENTER",
    )  # fmt: skip
    fields = {f.name: f for f in parse_single_table(tmp_path / "t.vot").fields}
    assert [fields[c].ref for c in ("ra", "dec", "mjd")] == ["icrs", "icrs", "mjd"]
    assert [str(fields[c].unit) for c in ("ra", "dec", "mjd")] == ["deg", "deg", "d"]
    assert all(f.description and f.ucd for f in fields.values())


def test_the_fits_table_says_in_each_columns_comment_what_it_holds(vetted: Path, tmp_path: Path) -> None:
    export(vetted, tmp_path / "t.fits")
    with warnings.catch_warnings(), fits.open(tmp_path / "t.fits") as hdus:
        warnings.simplefilter("error")
        hdus.verify("exception")
        header = hdus[1].header
        for n, column in enumerate(COLUMNS.values(), 1):
            comment = header.comments[f"TTYPE{n}"]
            assert comment, column.name
            assert header[f"TCOMM{n}"].startswith(comment.removesuffix(" .."))
            assert len(str(header.cards[f"TTYPE{n}"])) == 80
            assert (header.get(f"TUNIT{n}") or "") == column.unit
            assert (f"TNULL{n}" in header) == (column.kind is int)
        assert (header["RADESYS"], header["TIMESYS"]) == ("ICRS", "UTC")
        assert header["MODHASH"] == policy("line-indices").fingerprint
        assert header["MODHASHO"] == columns._HASHED["policy"]


def test_ecsv_and_parquet_hold_the_same_facts(vetted: Path, tmp_path: Path) -> None:
    export(vetted, tmp_path / "t.ecsv")
    export(vetted, tmp_path / "t.parquet")
    table, schema = Table.read(tmp_path / "t.ecsv", format="ascii.ecsv"), pq.read_schema(tmp_path / "t.parquet")
    for column in COLUMNS.values():
        metadata = {k.decode(): v.decode() for k, v in schema.field(column.name).metadata.items()}
        told = {"description": column.says, "ucd": column.ucd, "unit": column.unit, "system": ""}
        told["system"] = {"icrs": "ICRS", "mjd": "MJD UTC", "": ""}[column.system]
        assert metadata == {k: v for k, v in told.items() if v}
        read = table[column.name]
        assert (read.description, read.meta["ucd"]) == (column.says, column.ucd)
        assert read.meta.get("system", "") == told["system"]
        assert str(read.unit or "") == column.unit
    for name in ("model", "model_hash", "model_hash_of", "run_version", "receipt_sha256"):
        assert schema.metadata[name.encode()].decode() == table.meta[name]


def test_the_files_facts_say_the_whole_hash_that_a_cell_cuts(vetted: Path, tmp_path: Path) -> None:
    export(vetted, tmp_path / "t.parquet")
    read = pq.read_table(tmp_path / "t.parquet")
    whole = read.schema.metadata[b"model_hash"].decode()
    assert len(whole) == 64
    assert set(read["model_hash"].to_pylist()) == {whole[:DIGITS]}
    tasks = dict(read.schema.metadata[f"task_{n}".encode()].decode().split(" ") for n in (1, 2))
    assert {row["task"]: row["task_hash"] for row in read.to_pylist()} == {k: v[:DIGITS] for k, v in tasks.items()}


def test_the_page_on_lists_names_every_column_in_its_order() -> None:
    page = (ROOT / "docs" / "lists.md").read_text(encoding="utf-8").partition("## Columns of a run's table")[2]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(COLUMNS)
