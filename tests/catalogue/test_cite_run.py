"""`specvet cite` of real runs over the SIMULATED example spectra: every number of the text, worked out anew."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import sqlite3
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specvet.catalogue.citing import citation
from specvet.cli.cite import facts_of
from specvet.cli.main import main
from specvet.records import RunFolder
from specvet.review.desk import Desk
from specvet.review.events import Draft
from specvet.review.source import of_run
from specvet.review.store import SqliteStore
from specvet.vetting.origin import DIGITS

ROOT = Path(__file__).parents[2]
LIST = ROOT / "examples" / "list.csv"
TASKS = ("cv", "wd")
REVIEWERS = ("SIMULATED Ann", "SIMULATED Bo")


@pytest.fixture(scope="module")
def vetted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples and a file that cannot be read, vetted for two tasks. Not to be changed."""
    folder = tmp_path_factory.mktemp("cite")
    (folder / "broken.fits").write_bytes(b"SIMPLE  = nonsense")
    run = folder / "RUN"
    assert main(["vet", str(LIST), str(folder / "broken.fits"), "--task", "cv,wd", "--policy", "line-indices",
                 "--out", str(run), "--quiet"]) == 0  # fmt: skip
    return run


@pytest.fixture(scope="module")
def reviewed(vetted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it that was sorted, matched and reviewed by SIMULATED people, who differ now and then."""
    run = tmp_path_factory.mktemp("reviewed") / "RUN"
    shutil.copytree(vetted, run)
    assert main(["triage", str(run), "--audit", "0.5", "--quiet"]) == 0
    rows = {(d["file"], d["row"]): d for d in decisions(run) if d["task"] != "*"}
    gaia, known = run.parent / "gaia.csv", run.parent / "vsx.csv"
    places = [(d["ra"], d["dec"]) for d in rows.values() if d["ra"] is not None]
    columns = "source_id,ra,dec,pmra,pmdec,parallax,parallax_error,phot_g_mean_mag,bp_rp,ruwe,ref_epoch"
    lines = [f"{1000 + i},{ra},{dec},0,0,{2 + i},0.05,15,{0.1 * i},1,2016" for i, (ra, dec) in enumerate(places[:10])]
    gaia.write_text("\n".join([columns, *lines]) + "\n")
    known.write_text(
        "\n".join(["name,ra,dec,type", *(f"V{i},{ra},{dec},UGSS" for i, (ra, dec) in enumerate(places[:3]))]) + "\n"
    )
    assert (
        main(["match", str(run), "--table", str(gaia), "--as", "gaia", "--table", str(known), "--as", "vsx", "--quiet"])
        == 0
    )
    review(run)
    return run


def review(run: Path) -> None:
    """Two SIMULATED people decide: mostly as the policy, every fifth otherwise; a third settles one conflict."""
    desk = Desk(of_run(run), SqliteStore(run / "review.db"))
    try:
        for task in TASKS:
            said = desk.listing.verdicts[task]
            for i, item in enumerate(desk.listing.items[:14]):  # behind them stands the file that cannot be read
                for who in REVIEWERS:
                    word = said.word(i) if said.word(i) in ("YES", "NO") else "UNSURE"
                    if who == REVIEWERS[1] and i % 5 == 0:
                        word = {"YES": "NO", "NO": "YES", "UNSURE": "NO"}[word]
                    if who == REVIEWERS[1] and i == 3:
                        continue
                    decide(desk, who, item, task, word, hidden=i % 2 == 0)
        decide(desk, "SIMULATED Chen", desk.listing.items[0], "cv", "NO", hidden=False)
    finally:
        desk.store.close()


def decide(desk: Desk, who: str, item: str, task: str, verdict: str, *, hidden: bool) -> None:
    told = {"key": f"{who}-{task}-{item}".replace(" ", "-"), "item": item, "task": task, "verdict": verdict}
    desk.decide(who, Draft.model_validate(told | {"shown": {"agent_hidden": hidden}}))


def decisions(run: Path) -> list[dict[str, Any]]:
    """The rows of a run's database, read with SQL alone."""
    with sqlite3.connect(run / "run.db") as db:
        rows = db.execute("SELECT coalesce(file, key), row, task, answer, rest FROM decisions").fetchall()
    fields = ("ra", "dec", "snr", "mjd", "survey", "release")
    return [
        {"file": file, "row": row, "task": task, "answer": answer} | {f: json.loads(rest).get(f) for f in fields}
        for file, row, task, answer, rest in rows
    ]


def plain(run: Path) -> str:
    """The text of a run without citations, hashes, dates and names that hold digits."""
    folder = RunFolder.read(run)
    try:
        text = " ".join(citation(facts_of(folder)).paragraphs)
    finally:
        folder.close()
    for gone in (
        "⟦[^⟧]*⟧",
        "[0-9a-f]{12}…",
        r"\d{4}-\d\d-\d\d",
        r"\d+\.\d+\.\d+",
        "Spec-o3",
        "SHA-256",
        "Gaia DR3",
        r"release DR\d+",
    ):
        text = re.sub(gone, "", text)
    return text


def numbers(text: str) -> list[str]:
    return [n.replace(",", "") for n in re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)]


def counted(run: Path, gaia: int = 0) -> list[str]:
    """The numbers of the first paragraph, in its order; `gaia` of the objects have a source there."""
    rows = decisions(run)
    spectra = {(r["file"], r["row"]): r for r in rows if r["task"] != "*"}
    files = {r["file"] for r in rows}
    surveys: dict[str, Counter[str]] = {}
    for r in spectra.values():
        surveys.setdefault(r["survey"], Counter())[r["release"] or ""] += 1
    nameless = surveys.pop("unknown").total()
    parts = [(name, release, n) for name, of in surveys.items() for release, n in of.items()]
    first = {name: min((-n, nm, rel) for nm, rel, n in parts if nm == name) for name in surveys}
    ordered = [str(n) for name, _, n in sorted(parts, key=lambda p: (first[p[0]], -p[2], p[1]))]
    mjd = [r["mjd"] for r in spectra.values() if r["mjd"] is not None]
    snr = statistics.median(r["snr"] for r in spectra.values() if r["snr"] is not None)
    # The SIMULATED stars lie degrees apart, so that each place is an object, and each spectrum without a place is one.
    places = {(r["ra"], r["dec"]) if r["ra"] is not None else (r["file"], r["row"]) for r in spectra.values()}
    found = [
        str(len(spectra)),
        str(len(files)),
        str(len(places)),
        *([str(gaia)] if gaia else []),
        "2",
        *ordered,
        str(nameless),
        f"{snr:.1f}",
    ]
    found += [f"{min(mjd):.0f}", f"{max(mjd):.0f}", str(len(mjd)), str(sum(r["task"] == "*" for r in rows))]
    found.append(str(len(TASKS)))
    for task in TASKS:
        answers = Counter(r["answer"] for r in rows if r["task"] == task)
        found.append(str(answers.total()))
        found += [str(answers[word]) for word in ("YES", "NO", "UNSURE", "NO_DATA", "FAILED") if answers[word]]
    return found


def test_every_number_of_an_unreviewed_run_is_the_runs_own(vetted: Path) -> None:
    assert numbers(plain(vetted)) == counted(vetted)
    assert len(counted(vetted)) > 20


def exported(run: Path) -> list[dict[str, str]]:
    out = run.parent / "reviewed.csv"
    assert main(["export", str(run), "--reviewed", "--out", str(out)]) == 0
    return list(csv.DictReader(out.open(encoding="utf-8")))


def kappa(pairs: list[tuple[str, str]]) -> float:
    """Cohen's, from its definition."""
    n = len(pairs)
    a, b = Counter(x for x, _ in pairs), Counter(y for _, y in pairs)
    chance = sum(a[w] * b[w] for w in a) / n**2
    return (sum(x == y for x, y in pairs) / n - chance) / (1 - chance)


def alpha(pairs: list[tuple[str, str]]) -> float:
    """Krippendorff's for two nominal votes each, from the coincidence matrix."""
    n = 2 * len(pairs)
    votes = Counter(v for pair in pairs for v in pair)
    observed = sum(x != y for x, y in pairs) * 2 / n
    expected = sum(votes[v] * (n - votes[v]) for v in votes) / (n * (n - 1))
    return 1 - observed / expected


def test_every_number_of_a_reviewed_run_is_the_runs_own(reviewed: Path) -> None:
    text = plain(reviewed)
    rows = exported(reviewed)
    assert numbers(text)[: len(counted(reviewed, 10))] == counted(reviewed, 10)
    import pyarrow.parquet as pq

    triaged = pq.read_table(reviewed / "triage" / "rows.parquet").to_pylist()
    votes = [vote for row in rows for vote in row["votes"].split("; ")]
    for task in TASKS:
        bands = Counter(r["band"] for r in triaged if r["task"] == task)
        drawn = {(r["file"], r["row"]) for r in triaged if r["task"] == task and r["audit"]}
        assert (
            f"For {task}, {bands['look']} left to a person and {bands['reject']} rejected, "
            f"of which {len(drawn)} were drawn" in text
        )
        of = [r for r in rows if r["task"] == task]
        said = Counter(r["decision"] for r in of)
        standing = Counter(r["standing"] for r in of)
        people = {name for r in of for name in r["reviewers"].split(", ")}
        third = f" ({standing['settled']} of these by a third look)" if standing["settled"] else ""
        left = f"; {standing['conflict']} were left in conflict" if standing["conflict"] else ""
        assert (
            f"For {task}, of {len(of)} spectra that {len(people)} people reviewed, "
            f"{said['YES']} were accepted as members, {said['NO']} rejected and {said['UNSURE']} left unsure"
            f"{third}{left}." in text
        )
        pairs = []
        for r in of:
            two = [v.rsplit(" ", 1)[1] for v in r["votes"].split("; ") if "third look" not in v]
            if len(two) == 2:
                pairs.append((two[0], two[1]))
        assert (
            f"Over {len(pairs)} spectra with two votes or more, Cohen's kappa is {kappa(pairs):.2f} (95% interval"
            in text
        )
        assert f"Krippendorff's alpha is {alpha(pairs):.2f}" in text
        checked = [r for r in of if (r["file"], int(r["row"])) in drawn and r["decision"] in ("YES", "NO")]
        members = sum(r["decision"] == "YES" for r in checked)
        assert checked
        assert (
            f"Of {len(drawn)} that were rejected for {task} and drawn, {len(checked)} were checked "
            f"and {members} found to be" in text
        )
    assert f"3 people looked at spectra and cast {len(votes)} votes." in text
    hidden = sum(
        1 for task in TASKS for i in range(14) if i % 2 == 0 for who in REVIEWERS if (who, i) != (REVIEWERS[1], 3)
    )
    assert f"hidden from them for {hidden} of the votes and in sight for {len(votes) - hidden}." in text
    matches = pq.read_table(reviewed / "match" / "matches.parquet").to_pylist()
    asked = [m for m in matches if "gaia" in m["asked"]]
    vsx = [m for m in matches if "vsx" in m["asked"]]
    answers = pq.read_table(reviewed / "match" / "answers.parquet").to_pylist()
    found = sum(m["gaia_source_id"] is not None for m in matches)
    assert f"within 2 arcsec of {found} of {len(asked)} spectra." in text
    differ = sum(a["answer"] != a["answer_with_gaia"] for a in answers)
    assert f"stand beside {len(answers)} from the spectrum, and differ from {differ} of these." in text
    new = sum(m["known"] is None for m in vsx)
    assert f"VSX knows 3 of {len(vsx)}; the object is known to none of those that were asked for {new} spectr" in text


def test_hashes_versions_and_the_receipt_are_the_runs_own(vetted: Path) -> None:
    run = RunFolder.read(vetted)
    try:
        text, settings, config = citation(facts_of(run)).methods(), run.settings, run.config
    finally:
        run.close()
    for task in TASKS:
        assert f"(task {task}, version {settings[f'tasks.{task}'][:DIGITS]}…)" in text
    assert f"line-indices (fingerprint {settings['policy_fingerprint'][:DIGITS]}…)" in text
    receipt = hashlib.sha256((vetted / "receipt.json").read_bytes()).hexdigest()
    assert f"has the SHA-256 {receipt[:DIGITS]}…." in text
    assert f"Python {config['versions']['python']}" in text
    assert f"specvet {json.loads((vetted / 'receipt.json').read_text())['sessions'][0]['specvet']} " in text


def test_the_indices_of_a_task_are_cited_where_they_were_measured(vetted: Path) -> None:
    run = RunFolder.read(vetted)
    try:
        facts = facts_of(run)
    finally:
        run.close()
    by_task = {t.key: t.indices for t in facts.tasks}
    assert any("Reid, Hawley & Gizis 1995" in source for source in by_task["cv"])  # TiO5 by way of the formula `tio`
    assert any("C2" in source for source in by_task["wd"])


def test_a_rollout_is_told_by_its_trajectories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "R"
    assert main(["rollout", str(LIST), "--task", "cv", "--policy", "line-indices", "--group", "2", "--limit", "4",
                 "--out", str(run), "--quiet"]) == 0  # fmt: skip
    text = plain(run)
    answers = Counter(r["answer"] for r in decisions(run))
    assert answers.total() == 8
    assert "Each question was asked 2 times." in text
    told = ", ".join(f"{answers[w]} {w}" for w in ("YES", "NO") if answers[w]).replace(", ", " and ")
    assert f"for cv, of 8 trajectories, {told}." in text
    assert text.startswith("4 spectra were vetted")


def test_cells_of_a_campaign_are_told_by_their_set_seed_and_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "evaluation"))
    try:
        from made import make_campaign
    finally:
        sys.path.pop(0)
    text = (
        "name: cite\npolicies:\n  line-indices: {policy: line-indices, label: L}\n"
        '  gambler: {policy: torch, model: gambler, revision: "1", label: Gambler}\n'
        "sets:\n  examples: {path: questions.jsonl, facts: facts.csv}\nseeds: [42]\n"
        "settings: {style: compact, concurrency: 8}\nreplicates: 10\n"
    )
    folder = make_campaign(tmp_path / "E", text, 6)
    said = {}
    for cell in folder.cells:
        said[cell.record.policy] = plain(cell.path)
        for task, n in Counter(r["task"] for r in decisions(cell.path)).items():
            assert f"for {task}, of {n} question" in said[cell.record.policy]
    assert "The questions are those of the set examples, with the seed 42." in said["gambler"]
    assert "vision-language model gambler" in said["gambler"]
    assert "The questions are those of the set examples." in said["line-indices"]
    assert main(["cite", str(tmp_path / "E")]) == 2
    assert "is a campaign; name one of its cells, such as" in capsys.readouterr().err


def test_an_empty_run_and_a_part_of_a_list_are_cited(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "EMPTY", config={}):
        pass
    assert "holds no decision." in plain(tmp_path / "EMPTY")
    main(
        [
            "vet",
            str(LIST),
            "--task",
            "cv",
            "--policy",
            "line-indices",
            "--out",
            str(tmp_path / "PART"),
            "--shard",
            "1/2",
            "--quiet",
        ]
    )
    assert "The run is part 1/2 of a divided list, and the numbers are of this part alone." in plain(tmp_path / "PART")


def test_a_run_of_an_older_specvet_is_cited_without_what_it_did_not_keep(vetted: Path, tmp_path: Path) -> None:
    run = tmp_path / "OLD"
    shutil.copytree(vetted, run)
    (run / "receipt.json").unlink()
    shutil.rmtree(run / "tasks")
    with sqlite3.connect(run / "run.db") as db:
        for n, rest in db.execute("SELECT n, rest FROM decisions").fetchall():
            told = {k: v for k, v in json.loads(rest).items() if k not in ("mjd", "ids", "release", "reduction")}
            db.execute("UPDATE decisions SET rest = ? WHERE n = ?", (json.dumps(told), n))
    text = plain(run)
    assert "MJD" not in text
    assert "receipt" not in text
    assert "a cv (task cv, version" in text
    assert "rests on published work" not in text


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_files_are_written_for_a_paper(vetted: Path, tmp_path: Path, said: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = said("cite", vetted, "--format", "latex", "--out", tmp_path / "paper")
    assert code == 0
    names = ["methods.tex", "acknowledgements.tex", "references.bib", "verify.txt"]
    assert [Path(line).name for line in out.split()] == names
    assert "things to verify" in err
    methods = (tmp_path / "paper" / "methods.tex").read_text(encoding="utf-8")
    keys = {k for several in re.findall(r"\\citep\{([^}]*)\}", methods) for k in several.split(",")}
    entries = re.findall(r"^@\w+\{([^,]+),", (tmp_path / "paper" / "references.bib").read_text("utf-8"), re.MULTILINE)
    assert keys == set(entries)
    assert len(entries) == len(set(entries))
    verify = (tmp_path / "paper" / "verify.txt").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("Hou2020: add the title") for line in verify)


def test_json_holds_the_texts_and_the_facts_they_rest_on(
    vetted: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, _ = said("cite", vetted, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["methods"].startswith(f"{told['facts']['spectra']} spectra in {told['facts']['files']} files")
    assert {r["key"] for r in told["references"]} >= {"specvet", "Jia2026", "Hou2020"}
    assert told["acknowledgements"] == []  # SIMULATED spectra owe none
    assert told["facts"]["tasks"][0]["answers"] == dict(
        Counter(r["answer"] for r in decisions(vetted) if r["task"] == "cv")
    )


def test_a_wrong_command_ends_with_what_to_do(
    vetted: Path, tmp_path: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "file").write_text("")
    with RunFolder.open(tmp_path / "T", kind="train", config={}):
        pass
    for arguments, code, wanted in (
        (("cite", vetted, "--format", "html"), 2, "choose text, latex, markdown"),
        (("cite", tmp_path / "nowhere"), 2, "not a specvet run"),
        (("cite", tmp_path / "T"), 2, "a run of vet, rollout or eval is cited"),
        (("cite", vetted, "--out", tmp_path / "file"), 4, "file"),
        (("cite", vetted, "--store", tmp_path / "typo.db"), 2, "there is no such file"),
    ):
        got, _, err = said(*arguments)
        assert (got, wanted in err) == (code, True), (arguments, err)
    assert not (tmp_path / "typo.db").exists()
