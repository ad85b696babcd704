"""Results that were changed are found out: each change is really made to a real finished campaign (SIMULATED spectra).

The changes come as whoever would hide them leaves them: `rehash` makes every recorded hash fit, `remake` all numbers as
well. Run databases are left out, as in published results.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from verify_lab import (
    Row,
    cell_of,
    change_json,
    change_record,
    change_rows,
    copied,
    failed,
    inputs_of,
    read_cell,
    rehash,
    remake,
    told,
    verified,
    wrong_in,
    wrong_rows,
)

from specvet.evaluation.folder import MANIFEST, open_campaign
from specvet.evaluation.recipes import code_hash
from specvet.evaluation.rows import ROWS, read_rows
from specvet.evaluation.verify import check_at, check_cell
from specvet.evaluation.verify.checks import Findings
from specvet.evaluation.verify.files import _told, check_coverage, check_manifest
from specvet.evaluation.verify.inputs import _other_making
from specvet.evaluation.verify.numbers import _excuse, hold
from specvet.records import Decision
from specvet.records.receipt import versions
from specvet.records.schema import Answer

GAMBLER, INDICES = "gambler--examples--s42", "line-indices"


@pytest.fixture
def campaign(small: Path, tmp_path: Path) -> Path:
    return copied(small, tmp_path)


def test_a_finished_campaign_holds_with_every_observation_and_picture_made_again(small: Path) -> None:
    found = verified(small, "require")
    assert found.ok, told(found.of("failed"))
    assert {check.state for check in found.checks} == {"ok"}
    names = {check.name for check in found.checks}
    assert {"manifest", "coverage", "rows", "ledgers", "turns", "receipt", "numbers", "summary"} <= names
    assert {"question file", "facts", "spectra", "descriptions", "views", "pictures", "asked again"} <= names
    drawn = next(c for c in found.checks if c.name == "pictures" and c.where.startswith(GAMBLER))
    shown = [segment for _, _, d in read_cell(small, GAMBLER).rows() for segment in _pictures(d)]
    assert drawn.detail == f"{len(shown)} drawn again"
    assert len(shown) > 10
    assert len(found.manifest) == 64


def test_one_flipped_byte_in_any_file_of_the_manifest_is_found_and_the_file_is_named(campaign: Path) -> None:
    files = json.loads((campaign / MANIFEST).read_text(encoding="utf-8"))["files"]
    assert {"campaign.yaml", "metrics.json", "sets/examples.parquet", "policies/gambler.json"} <= files.keys()
    for name in files:
        file = campaign / name
        data = file.read_bytes()
        middle = len(data) // 2
        file.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        assert [check.where for check in check_manifest(campaign) if check.state == "failed"] == [name]
        file.write_bytes(data)
    assert [check.state for check in check_manifest(campaign)] == ["ok"]


def test_one_flipped_byte_of_the_rows_is_found_also_where_the_hashes_were_made_to_fit(campaign: Path) -> None:
    """Pages carry checksums; a byte of the footer that changes nothing that is read changes no result."""
    file = cell_of(campaign, GAMBLER) / ROWS
    data, rows = file.read_bytes(), [d.model_dump_json() for _, _, d in read_rows(file)]
    unread = []
    for place in range(4, len(data), len(data) // 60):
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        try:
            same = [d.model_dump_json() for _, _, d in read_rows(file)] == rows
        except Exception:  # whatever its reader says of it
            unread.append(place)
            continue
        assert same, place
    assert len(unread) > 50
    file.write_bytes(data[: unread[9]] + bytes([data[unread[9]] ^ 0x10]) + data[unread[9] + 1 :])
    rehash(campaign)
    wrong = failed(campaign)
    assert {check.name for check in wrong} >= {"rows", "numbers"}
    assert "cannot be read" in told(wrong)
    assert all(check.where.startswith(GAMBLER) for check in wrong if check.name == "rows")


def _pictures(decision: Decision) -> list[str]:
    assert decision.trajectory is not None
    assert decision.trajectory.ledger is not None
    return [s["image"]["sha256"] for s in decision.trajectory.ledger["segments"] if "image" in s]


def _answered(campaign: Path, name: str, word: str | None = None) -> int:
    """The number of the first row that was answered (with `word`)."""
    rows = read_rows(cell_of(campaign, name) / ROWS)
    return next(
        n
        for n, (_, _, d) in enumerate(rows)
        if (str(d.verdict.answer) in ("YES", "NO") if word is None else str(d.verdict.answer) == word)
    )


def _other(word: str) -> str:
    return "NO" if word == "YES" else "YES"


# --- rows


def test_a_swapped_answer_is_found_by_the_words_of_the_turn(campaign: Path) -> None:
    n = _answered(campaign, GAMBLER)

    def swap(record: dict[str, Any]) -> None:
        record["verdict"]["answer"] = _other(record["verdict"]["answer"])

    change_record(campaign, GAMBLER, n, swap)
    remake(campaign, GAMBLER)
    wrong = wrong_in(campaign, GAMBLER)
    assert {"turns", "receipt"} <= {check.name for check in wrong}
    assert f"row {n} (" in next(check.detail for check in wrong if check.name == "turns")


def test_an_answer_that_is_swapped_in_the_table_alone_contradicts_its_trajectory(campaign: Path) -> None:
    n = _answered(campaign, GAMBLER)

    def swap(rows: list[Row]) -> None:
        place, id, d = rows[n]
        verdict = d.verdict.model_copy(update={"answer": Answer(_other(str(d.verdict.answer)))})
        rows[n] = place, id, d.model_copy(update={"verdict": verdict})

    change_rows(campaign, GAMBLER, swap)
    remake(campaign, GAMBLER)
    assert "verdict answer, here and in its trajectory" in told(
        [c for c in wrong_in(campaign, GAMBLER) if c.name == "verdicts"]
    )


def test_a_dropped_row_is_named_and_missed_by_the_receipt(campaign: Path) -> None:
    change_rows(campaign, GAMBLER, lambda rows: rows[:3] + rows[4:])
    remake(campaign, GAMBLER)
    wrong = wrong_in(campaign, GAMBLER)
    assert "has no row" in told([c for c in wrong if c.name == "rows"])
    assert "decisions: 6 is recorded, 5 is found" in told([c for c in wrong if c.name == "receipt"])


def test_a_row_that_stands_twice_in_place_of_another_is_named(campaign: Path) -> None:
    change_rows(campaign, GAMBLER, lambda rows: [*rows[:4], rows[3], *rows[5:]])
    rehash(campaign)
    wrong = told([c for c in wrong_in(campaign, GAMBLER) if c.name == "rows"])
    assert "has 2 rows" in wrong
    assert "has no row" in wrong


def test_a_trajectory_under_another_question_is_found(campaign: Path) -> None:
    def swap(rows: list[Row]) -> None:
        (p, i, a), (q, j, b) = rows[1], rows[4]
        keep = {"id", "file", "row", "task", "trajectory", "verdict"}
        rows[1] = p, i, a.model_copy(update={"trajectory": b.trajectory, "verdict": b.verdict})
        rows[4] = q, j, b.model_copy(update={"trajectory": a.trajectory, "verdict": a.verdict})
        assert keep <= Decision.model_fields.keys()

    change_rows(campaign, GAMBLER, swap)
    remake(campaign, GAMBLER)
    wrong = told([c for c in wrong_in(campaign, GAMBLER) if c.name == "questions"])
    assert "row 1 (" in wrong
    assert "row 4 (" in wrong
    assert "another question" in wrong


@pytest.mark.parametrize(
    ("name", "change", "check", "words"),
    [
        ("call", lambda r: r["turns"][0]["action"]["arguments"].update(wavelength_range=[1, 2]), "turns", "the call"),
        ("stop", lambda r: r.update(stop="policy_error"), "turns", "it ended as policy_error"),
        ("tokens", lambda r: r["tokens"].update(sampled=1), "counts", "tokens sampled: 1 is recorded"),
        ("turn tokens", lambda r: r["turns"][0]["tokens"].update(prompt=1), "ledgers", "turn 1: tokens of the prompt"),
        ("calls", lambda r: r["calls"].update(succeeded=99), "counts", "calls succeeded: 99 is recorded"),
        ("reward", lambda r: r.update(reward={"score": 1.0, "correct": 1.0, "format_ok": 0.0}), "counts", "reward"),
        ("task", lambda r: r.update(task_hash="0" * 64), "verdicts", "hash of its task"),
        ("spectrum", lambda r: r.update(spectrum_hash="0" * 64), "receipt", "hash of all spectra"),
        ("policy", lambda r: r.update(policy="somebody else"), "receipt", "somebody else"),
        ("window", lambda r: r["turns"][0]["observation"].update(window=[1.0, 2.0]), "turns", "window of its view"),
        ("p(YES)", lambda r: r["verdict"].update(p_yes=0.999), "turns", "verdict p_yes: 0.999 is recorded"),
        ("opening", lambda r: r["opening"].update(text="Something else was shown."), "ledgers", "the first prompt"),
    ],
)
def test_a_changed_field_of_a_trajectory_is_found(
    campaign: Path, name: str, change: Callable[[dict[str, Any]], None], check: str, words: str
) -> None:
    rows = list(read_rows(cell_of(campaign, GAMBLER) / ROWS))
    n = next(
        n
        for n, (_, _, d) in enumerate(rows)
        if d.trajectory is not None
        and len(d.trajectory.turns) > 1
        and d.trajectory.turns[0].action.kind == "call"
        and d.trajectory.stop == "answered"
    )
    change_record(campaign, GAMBLER, n, change)
    assert words in told([c for c in wrong_rows(campaign, GAMBLER) if c.name == check]), name


def test_a_token_id_that_was_changed_contradicts_its_bytes(campaign: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        sampled = next(s for s in record["ledger"]["segments"] if "sampled" in s)
        sampled["sampled"][0] += 1

    change_record(campaign, GAMBLER, 2, change)
    remake(campaign, GAMBLER)
    assert "stands for" in told([c for c in wrong_in(campaign, GAMBLER) if c.name == "ledgers"])


def test_words_that_do_not_fit_their_tokens_are_found(campaign: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        sampled = next(s for s in record["ledger"]["segments"] if "sampled" in s)
        sampled["text"] += " and more"

    change_record(campaign, GAMBLER, 2, change)
    rehash(campaign)
    assert "row 2 (" in told([c for c in wrong_in(campaign, GAMBLER) if c.name == "ledgers"])


def test_a_changed_log_prob_of_an_answer_is_found_by_the_numbers(campaign: Path) -> None:
    n = _answered(campaign, GAMBLER)

    def change(record: dict[str, Any]) -> None:
        last = [s for s in record["ledger"]["segments"] if "sampled" in s][-1]
        last["logprobs"] = [x - 1.0 for x in last["logprobs"]]

    change_record(campaign, GAMBLER, n, change)
    rehash(campaign)
    wrong = wrong_in(campaign, GAMBLER)
    assert {check.name for check in wrong} == {"numbers"}
    assert "ranking.all.brier" in told(wrong) or "more" in told(wrong)


def test_a_changed_probability_of_a_policy_that_measures_is_found(campaign: Path) -> None:
    n = _answered(campaign, INDICES)
    change_record(campaign, INDICES, n, lambda record: record["verdict"].update(p_yes=0.42))
    remake(campaign, INDICES)
    assert "p(YES) is 0.42" in told([c for c in wrong_in(campaign, INDICES) if c.name == "turns"])
    seen_again = [c for c in inputs_of(campaign, name=INDICES) if c.name == "asked again"]
    assert "0.42 is recorded" in told(seen_again)


def test_verdicts_that_two_rows_exchanged_are_not_what_was_measured(campaign: Path) -> None:
    def swap(rows: list[Row]) -> None:
        for n, other in ((0, rows[3]), (3, rows[0])):
            place, id, d = rows[n]
            assert d.trajectory is not None
            record = d.trajectory.model_copy(update={"verdict": other[2].verdict})
            rows[n] = place, id, d.model_copy(update={"verdict": other[2].verdict, "trajectory": record})

    change_rows(campaign, INDICES, swap)
    remake(campaign, INDICES)
    assert "is not what was measured" in told([c for c in wrong_in(campaign, INDICES) if c.name == "turns"])


# --- what the rows rest on


def test_a_changed_question_of_the_set_is_found_also_with_its_hash(campaign: Path) -> None:
    from specvet.evaluation.sets import SetQuestion, _parquet, questions_hash, read_set

    kept = read_set(campaign / "sets", "examples")
    first = kept.questions[0]
    answer = _other(str(first.question.answer))
    questions = (SetQuestion(first.question.model_copy(update={"answer": answer}), first.facts), *kept.questions[1:])
    (campaign / "sets" / "examples.parquet").write_bytes(_parquet(questions))
    rehash(campaign)
    assert "SHA-256 of the questions" in told(failed(campaign))
    sha = questions_hash(q.question for q in questions)
    change_json(campaign / "sets" / "examples.json", lambda fields: fields.update(questions_sha256=sha))
    remake(campaign)
    names = {check.name for check in failed(campaign)}
    assert {"questions", "cell", "config", "coverage"} <= names


def test_the_receipt_of_another_cell_is_found(campaign: Path) -> None:
    other = cell_of(campaign, "gambler--examples--s43")
    shutil.copyfile(other / "receipt.json", cell_of(campaign, GAMBLER) / "receipt.json")
    rehash(campaign)
    wrong = wrong_in(campaign, GAMBLER)
    assert {"receipt", "config"} <= {check.name for check in wrong}
    assert "sampling.seed: 43 is recorded, 42 is found" in told(wrong)


def test_another_config_is_not_that_of_the_receipt(campaign: Path) -> None:
    file = cell_of(campaign, GAMBLER) / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["sampling"]["temperature"] = 0.0
    file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    rehash(campaign)
    assert "what the receipt calls settings" in told([c for c in wrong_in(campaign, GAMBLER) if c.name == "config"])


def test_other_settings_in_a_cells_record_are_not_its_contract(campaign: Path) -> None:
    change_json(cell_of(campaign, GAMBLER) / "cell.json", lambda fields: fields["settings"].update(temperature=0.1))
    rehash(campaign)
    assert {"cell", "config", "receipt"} <= {check.name for check in wrong_in(campaign, GAMBLER)}


def test_a_changed_task_is_not_the_one_that_was_asked(campaign: Path) -> None:
    file = cell_of(campaign, GAMBLER) / "tasks" / "cv.yaml"
    task = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump(task | {"name": "Another"}), encoding="utf-8")
    rehash(campaign)
    assert "hash of cv.yaml" in told([c for c in wrong_in(campaign, GAMBLER) if c.name == "tasks"])


def test_a_descriptor_that_says_something_else_now_is_found(campaign: Path) -> None:
    change_json(campaign / "policies" / "gambler.json", lambda fields: fields.update(label="Champion"))
    remake(campaign, GAMBLER)
    assert "descriptor label: Gambler is recorded, Champion is found" in told(wrong_in(campaign, GAMBLER))


def test_a_receipt_that_says_less_time_or_cost_than_its_sessions_is_found(campaign: Path) -> None:
    def cheaper(fields: dict[str, Any]) -> None:
        fields["seconds"] += 0.5
        fields["usage"]["cost"] = fields["usage"]["cost"] + 0.25

    cell = cell_of(campaign, GAMBLER)
    change_json(cell / "receipt.json", cheaper)
    change_json(cell / "cell.json", cheaper)
    change_json(cell / "cell.json", lambda fields: fields.update(cost_usd=fields["usage"]["cost"]))
    remake(campaign, GAMBLER)
    wrong = told(wrong_in(campaign, GAMBLER))
    assert "seconds of its sessions" in wrong
    assert "cost of its sessions: 0.25 is recorded, 0.0 is found" in wrong


def test_results_of_a_source_tree_that_was_not_installed_hold(campaign: Path) -> None:
    """`versions` has no specvet then; its sessions know it."""

    def uninstalled(fields: dict[str, Any]) -> None:
        del fields["versions"]["specvet"]

    cell = cell_of(campaign, GAMBLER)
    change_json(cell / "receipt.json", uninstalled)
    change_json(cell / "cell.json", uninstalled)
    rehash(campaign)
    assert not wrong_in(campaign, GAMBLER)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["policies"]["gambler"].update(label="Champion"), "policies.gambler.label: Gambler is recorded"),
        (lambda c: c["policies"]["gambler"].update(policy="trio"), "policies.gambler.policy: torch"),
        (lambda c: c["sets"]["examples"].update(unseen=["cv"]), "sets.examples.unseen"),
        (lambda c: c["sets"]["examples"].update(reference="LAMOST"), "sets.examples.reference"),
        (lambda c: c["sets"]["examples"].update(limit=3), "sets.examples.origin"),
        (lambda c: c["sets"]["examples"].update(path="other.jsonl"), "sets.examples.origin"),
    ],
)
def test_a_campaign_file_that_tells_of_other_policies_or_sets_than_were_kept_is_found(
    campaign: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    file = campaign / "campaign.yaml"
    fields = yaml.safe_load(file.read_text(encoding="utf-8"))
    change(fields)
    file.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    folder = open_campaign(campaign)
    (check,) = check_coverage(folder, folder.cells)
    assert check.state == "failed"
    assert words in " ".join(_told(folder))


def test_a_set_that_no_longer_says_that_it_is_simulated_is_found(campaign: Path) -> None:
    file = cell_of(campaign, GAMBLER) / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["question_set"]["about"] = {"simulated": True}
    file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    rehash(campaign)
    assert "simulated: True is recorded, None is found" in told(wrong_in(campaign, GAMBLER))


# --- numbers


def test_a_changed_number_is_found_and_told(campaign: Path) -> None:
    def better(fields: dict[str, Any]) -> None:
        fields["headline"]["accuracy"]["value"] += 0.01

    change_json(cell_of(campaign, GAMBLER) / "metrics.json", better)
    rehash(campaign)
    wrong = told([c for c in wrong_in(campaign, GAMBLER) if c.name == "numbers"])
    assert "headline.accuracy.value" in wrong
    assert "the rows give" in wrong


def test_a_changed_number_of_the_campaign_is_found(campaign: Path) -> None:
    change_json(campaign / "metrics.json", lambda fields: fields["means"][0]["accuracy"].update(mean=0.99))
    rehash(campaign)
    assert "means[0].accuracy.mean: 0.99 is recorded" in told([c for c in failed(campaign) if c.name == "summary"])


@pytest.mark.parametrize(
    ("path", "excused"),
    [
        ("rows[0].correct.k", False),
        ("rows[3].label", False),
        ("comparisons[0].seeds[1].only_a", False),
        ("means[0].accuracy.mean", True),
        ("rows[0].objects_of_another_kind", True),
        ("headline.correct.n", False),
        ("reliability[0].n", True),
    ],
)
def test_counts_of_a_cell_and_of_the_campaign_are_excused_by_no_version(path: str, excused: bool) -> None:
    assert bool(_excuse(path, versions() | {"specvet": "0.0.1"})) is excused
    assert _excuse(path, versions()) == ""


def test_a_seed_that_was_left_out_is_missed(campaign: Path) -> None:
    shutil.rmtree(cell_of(campaign, "gambler--examples--s43"))
    change_json(campaign / MANIFEST, lambda m: m.update(current=[n for n in m["current"] if "--s43--" not in n]))
    remake(campaign)
    assert "gambler on examples, seed 43" in told([c for c in failed(campaign) if c.name == "coverage"])


def test_a_file_that_the_manifest_leaves_out_is_told(campaign: Path) -> None:
    (cell_of(campaign, GAMBLER) / "metrics.best-1.json").write_text('{"rule": "best/1"}', encoding="utf-8")
    wrong = failed(campaign)
    assert "the manifest does not name it" in told(wrong)
    assert wrong[0].where.endswith("metrics.best-1.json")


def test_numbers_by_another_scikit_learn_are_told_and_no_failure() -> None:
    then = {"metadata_only": {"sklearn": "0.24.0", "accuracy": 0.5}, "answers": {"YES": 3}}
    now = {"metadata_only": {"sklearn": "1.7.0", "accuracy": 0.6}, "answers": {"YES": 3}}
    found = Findings("a cell", ("numbers",))
    assert hold(found, then, now, versions()) == 1
    (check,) = found.checks()
    assert check.state == "not checked"
    assert check.detail == "metadata_only (made by scikit-learn 0.24.0, this is 1.7.0)"
    same = {"metadata_only": {"sklearn": "1.7.0", "accuracy": 0.5}, "answers": {"YES": 3}}
    hold(found, same, now, versions())
    (check,) = found.checks()
    assert check.state == "failed"
    assert check.detail == "metadata_only.accuracy: 0.5 is recorded, the rows give 0.6"


def test_a_last_digit_that_another_machine_rounds_otherwise_is_no_difference_and_a_type_is() -> None:
    found = Findings("a cell", ("numbers",))
    hold(found, {"a": 0.123456, "b": [1, None]}, {"a": 0.123457, "b": [1, None]}, versions())
    assert found.checks()[0].state == "ok"
    hold(found, {"a": True, "b": [1]}, {"a": 1, "b": [1, 2]}, versions())
    detail = found.checks()[0].detail
    assert detail == "a: true is recorded, the rows give 1; b: [1] is recorded, the rows give [1, 2]"


def test_results_of_another_version_still_verify_and_their_scores_cannot_hide_behind_it(campaign: Path) -> None:
    def older(fields: dict[str, Any]) -> None:
        fields["versions"]["specvet"] = "0.0.1"
        for session in fields.get("sessions", ()):
            session["specvet"] = "0.0.1"

    cell = cell_of(campaign, GAMBLER)
    change_json(cell / "cell.json", older)
    rehash(campaign)
    assert "versions: " in told([c for c in wrong_in(campaign, GAMBLER) if c.name == "receipt"])
    change_json(cell / "receipt.json", older)
    rehash(campaign)
    assert not wrong_in(campaign, GAMBLER)
    change_json(cell / "metrics.json", lambda fields: fields["reliability"][0].update(accuracy=0.123))
    rehash(campaign)
    found = list(check_cell(read_cell(campaign, GAMBLER)))
    assert {check.name for check in found if check.state != "ok"} == {"numbers"}
    assert "made by specvet 0.0.1" in told(found)
    change_json(cell / "metrics.json", lambda fields: fields["headline"]["correct"].update(k=10))
    rehash(campaign)
    assert "headline.correct.k" in told(wrong_in(campaign, GAMBLER))


# --- inputs


def test_spectra_and_questions_that_are_not_here_are_told_and_fail_nothing(campaign: Path) -> None:
    source = campaign.parent / "input"
    _, _, first = next(read_cell(campaign, GAMBLER).rows())
    (source / first.file).unlink()
    told_of = {check.name: check.state for check in inputs_of(campaign) if check.where == "sets/examples"}
    assert told_of == {"question file": "ok", "facts": "ok", "spectra": "not present"}
    assert [c.name for c in inputs_of(campaign, "require") if c.state == "failed"] == ["spectra"]
    shutil.rmtree(source)
    found = verified(campaign, "try")
    assert found.ok
    assert {c.name for c in found.of("not present")} == {"inputs"}
    assert [c.state for c in inputs_of(campaign, "require")] == ["failed"]


def test_another_spectrum_in_the_place_of_one_is_found(campaign: Path) -> None:
    cell = read_cell(campaign, GAMBLER)
    files = sorted({d.file for _, _, d in cell.rows()})
    here = campaign.parent / "input"
    others = sorted(p for p in (here / "spectra").iterdir() if p.suffix == Path(files[0]).suffix)
    other = next(p for p in others if p.name != Path(files[0]).name)
    shutil.copyfile(other, here / files[0])
    wrong = [c for c in inputs_of(campaign) if c.name == "spectra" and c.state == "failed"]
    assert len(wrong) == 3
    assert "the spectrum here is another one" in told(wrong)


def test_an_observation_that_was_made_up_is_not_what_the_spectrum_shows(campaign: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        for seen in (record["opening"],):
            seen["text"] = seen["text"].replace("Full spectrum", "Fine spectrum")
        for segment in record["ledger"]["segments"]:
            if "Full spectrum" in segment.get("text", ""):
                segment["text"] = segment["text"].replace("Full spectrum", "Fine spectrum")

    change_record(campaign, GAMBLER, 0, change)
    remake(campaign, GAMBLER)
    assert "the opening: the spectrum gives another observation (text)" in told(inputs_of(campaign, name=GAMBLER))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("survey", "SDSS"), ("layout", "sdss-1"), ("snr", 99.0), ("z", 1.5), ("n_pix", 12), ("warnings", ("odd",)),
        ("wave_max", 9_999.0),
    ],
)  # fmt: skip
def test_what_a_row_says_of_its_spectrum_is_what_the_spectrum_says(campaign: Path, name: str, value: Any) -> None:
    """Groups, surveys and the classifier of metadata rest on it."""

    def change(rows: list[Row]) -> None:
        place, id, d = rows[0]
        rows[0] = place, id, d.model_copy(update={name: value})

    change_rows(campaign, INDICES, change)
    wrong = [check for check in inputs_of(campaign, name=INDICES) if check.state == "failed"]
    assert [check.name for check in wrong] == ["descriptions"]
    assert f"{name}: {value} is recorded, the spectrum says" in told(wrong)


def test_a_recipe_that_cannot_be_made_here_is_not_present(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.evaluation import recipes

    recipe = {"recipe": {"simvi": "tiny", "part": "val"}}
    change_json(campaign / "sets" / "examples.json", lambda fields: fields.update(origin=recipe))
    blocked = campaign.parent / "a-file"
    blocked.write_text("", encoding="utf-8")
    monkeypatch.setattr(recipes, "cache_folder", lambda: blocked)
    (check,) = inputs_of(campaign)
    assert check.state == "not present"
    assert "it cannot be made here: " in check.detail
    assert [check.state for check in inputs_of(campaign, "require")] == ["failed"]


def test_a_set_that_other_code_of_the_same_version_made_otherwise_is_told_and_no_failure(campaign: Path) -> None:
    kept = open_campaign(campaign).sets["examples"]
    versions_then = {name: version for name, version in versions().items() if name in ("specvet", "numpy", "scipy")}

    def made_by(code: str | None) -> str:
        about = {"versions": versions_then} | ({} if code is None else {"code": code})
        return _other_making(replace(kept, record=kept.record.model_copy(update={"about": about})))

    assert made_by("0" * 64).startswith("made by other code, 000000000000…, than that here")
    assert made_by(code_hash()) == made_by(None) == ""


def test_a_picture_that_was_not_shown_is_drawn_again_otherwise(campaign: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        image = next(s["image"] for s in record["ledger"]["segments"] if "image" in s)
        image["sha256"] = record["opening"]["image"] = "f" * 64

    change_record(campaign, GAMBLER, 0, change)
    remake(campaign, GAMBLER)
    assert not wrong_in(campaign, GAMBLER)
    wrong = [c for c in inputs_of(campaign, name=GAMBLER) if c.name == "pictures"]
    assert "the opening: drawn again it is" in told(wrong)
    assert "ffffffffffff… was shown" in told(wrong)


def test_a_question_file_that_has_changed_is_told(campaign: Path) -> None:
    file = campaign.parent / "input" / "questions.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"NO"', '"YES"', 1), encoding="utf-8")
    wrong = [check for check in inputs_of(campaign) if check.state == "failed"]
    assert {c.name for c in wrong} == {"question file"}
    assert "questions_sha256" in told(wrong)


# --- damage


def test_a_cell_that_another_process_checks_is_checked_alike(campaign: Path) -> None:
    cell = read_cell(campaign, GAMBLER)
    assert check_at(cell.path) == list(check_cell(cell))
    assert {check.state for check in check_at(cell.path)} == {"ok"}


def test_a_file_that_cannot_be_read_fails_and_keeps_nothing_else_from_being_checked(campaign: Path) -> None:
    (campaign / "policies" / "line-indices.json").write_text("{", encoding="utf-8")
    (cell_of(campaign, GAMBLER) / "cell.json").write_text('{"policy": 1}', encoding="utf-8")
    found = verified(campaign)
    assert {"policies/line-indices.json", "readable"} <= {*(c.where for c in found.of("failed")), "readable"}
    assert "cannot be read" in told(found.of("failed"))
    assert [c for c in found.of("ok") if c.where.startswith("gambler--examples--s43")]


def test_a_manifest_that_is_gone_or_names_files_elsewhere_fails(campaign: Path) -> None:
    change_json(campaign / MANIFEST, lambda m: m["files"].update({"../input/questions.jsonl": "0" * 64}))
    assert "outside the campaign" in told(failed(campaign))
    (campaign / MANIFEST).unlink()
    found = verified(campaign)
    assert not found.ok
    assert found.manifest == ""
    assert "no cell is complete yet, or somebody removed it" in told(found.of("failed"))
    assert open_campaign(campaign).cells
