"""Files of solved problems: read with a reason for each row that is none, and audited with the real tool."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specvet.data.errors import InputError
from specvet.data.physics.audit import REASONS, audit, audit_file
from specvet.data.physics.near import contaminated, duplicates
from specvet.data.physics.rows import load_problems, picture_of, split_transcript, write_problems
from specvet.data.physics.solving import patient_tool
from specvet.records.problems import Figure, Gold, Problem
from specvet.views.png import encode_png

Row = dict[str, Any]
PNG = encode_png(np.zeros((2, 3), dtype=np.uint8))


def row(**changed: Any) -> Row:
    solved = {
        "id": "a",
        "problem": "A stone falls from rest for 2 s with g = 9.81 m/s². How fast is it then?",
        "gold": {"kind": "numeric", "value": 19.62, "unit": "m/s"},
        "segments": [
            {"kind": "model", "text": "v = g t. <tool>sympy: N(9.81*2, 6)</tool>"},
            {
                "kind": "tool",
                "text": "<tool_result>19.62</tool_result>",
                "call": {"name": "sympy", "argument": "N(9.81*2, 6)"},
                "result": {"status": "ok", "text": "19.62"},
            },
            {"kind": "model", "text": "<answer>\\boxed{19.6 \\text{ m/s}}</answer>"},
        ],
    }
    return json.loads(json.dumps(solved | changed))


def written(folder: Path, *rows: Row | str) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in rows))
    return path


def dropped(path: Path) -> list[str]:
    found = audit(load_problems(path), patient_tool)
    return [one.reason for one in found.dropped]


def test_a_true_row_is_kept_and_says_what_was_checked(tmp_path: Path) -> None:
    found = audit(load_problems(written(tmp_path, row())), patient_tool)
    assert found.dropped == ()
    assert found.calls == 1
    told = found.kept[0].audit
    assert told is not None
    assert told.result_reexecuted is told.answer_matches is True
    assert told.contamination is None


def _tampered_result(one: Row) -> None:
    one["segments"][1]["result"]["text"] = "19.63"
    one["segments"][1]["text"] = "<tool_result>19.63</tool_result>"


def _tampered_text(one: Row) -> None:
    one["segments"][1]["text"] = "<tool_result>42</tool_result>"


def _tampered_status(one: Row) -> None:
    one["segments"][1]["result"]["status"] = "error"


def _other_call(one: Row) -> None:
    one["segments"][1]["call"]["argument"] = "N(9.81*1, 6)"


def _other_tool(one: Row) -> None:
    one["segments"][1]["call"]["name"] = "python"


def _no_call(one: Row) -> None:
    one["segments"][0]["text"] = "I do not ask."


def _fabricated(one: Row) -> None:
    one["segments"][2]["text"] = "< Tool_Result>5</tool_result>" + one["segments"][2]["text"]


def _wrong(one: Row) -> None:
    one["segments"][2]["text"] = "<answer>\\boxed{19.6 \\text{ km/s}}</answer>"


def _silent(one: Row) -> None:
    one["segments"][2]["text"] = "I give up."


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (_tampered_result, "result_differs"),
        (_tampered_text, "result_differs"),
        (_tampered_status, "result_differs"),
        (_other_call, "call_differs"),
        (_other_tool, "call_differs"),
        (_no_call, "call_differs"),
        (_fabricated, "fabricated"),
        (_wrong, "answer_wrong"),
        (_silent, "answer_wrong"),
    ],
)
def test_a_tampered_row_is_dropped_for_its_reason(tmp_path: Path, tamper: Callable[[Row], None], reason: str) -> None:
    one = row()
    tamper(one)
    (why,) = dropped(written(tmp_path, one))
    assert why.startswith(f"{reason}:")


def test_every_digit_of_a_stored_result_counts(tmp_path: Path) -> None:
    rows = []
    for place, digit in enumerate("19.62"):
        if digit != ".":
            one = row(id=f"r{place}", problem=f"Question {place} about {'xyzuv'[place] * 3} falling")
            text = "19.62"[:place] + str((int(digit) + 1) % 10) + "19.62"[place + 1 :]
            one["segments"][1]["result"]["text"] = text
            one["segments"][1]["text"] = f"<tool_result>{text}</tool_result>"
            rows.append(one)
    reasons = dropped(written(tmp_path, *rows))
    assert [reason.partition(":")[0] for reason in reasons] == ["result_differs"] * 4


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{broken", "is no JSON"),
        ("[1]", "holds a list"),
        (row(gold={"kind": "numeric", "value": "19"}), "gold: gold of kind numeric: `value` must be a finite number"),
        (row(gold={"kind": "numeric", "value": True}), "gold.value: true and false are no numbers"),
        (row(gold="{"), "gold: is no JSON"),
        (row(gold={"kind": "mcq", "value": "D", "choices": ["1", "2"]}), "one letter of AB"),
        (row(segments=[{"kind": "tool", "text": "x"}]), "has both `call` and `result`"),
        (row(images=["missing.png"]), "picture missing.png: cannot be read"),
        (row(images=["../outside.png"]), "lies outside"),
        (row(images=["rows.jsonl"]), "neither PNG nor JPEG"),
        (row(images=[{"data": "***"}]), "is no base64"),
        (row(problem=""), "problem: "),
    ],
)
def test_a_row_that_is_no_problem_is_rejected_with_its_line_and_reason(
    tmp_path: Path, line: Row | str, says: str
) -> None:
    (tmp_path / "outside.png").write_bytes(PNG)
    folder = tmp_path / "data"
    folder.mkdir()
    loaded = load_problems(written(folder, row(), "", line, row(id="b")))
    assert [p.id for p in loaded.problems] == ["a", "b"]
    (reject,) = loaded.rejects
    assert reject.where.endswith("rows.jsonl line 3")
    assert says in reject.reason


def test_an_id_that_repeats_is_rejected(tmp_path: Path) -> None:
    loaded = load_problems(written(tmp_path, row(), row()))
    assert [one.reason for one in loaded.rejects] == ["id 'a' stands in an earlier row"]


def test_parquet_rows_with_json_columns_pictures_and_unknown_columns_read_as_jsonl_rows(tmp_path: Path) -> None:
    plain = row()
    columns = {
        "id": ["a", "b"],
        "problem": [plain["problem"]] * 2,
        "gold": [json.dumps(plain["gold"])] * 2,
        "segments": [json.dumps(plain["segments"]), None],
        "images": [[{"bytes": PNG, "path": None}], []],
        "trace_ref": [1, 2],
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    structs = {**columns, "gold": [plain["gold"]] * 2, "segments": [plain["segments"]] * 2}
    pq.write_table(pa.table(structs), tmp_path / "structs.parquet")
    found = load_problems(tmp_path / "rows.parquet")
    assert not found.rejects
    assert found.problems[0].segments == load_problems(written(tmp_path, row())).problems[0].segments
    assert picture_of(found.problems[0].images[0]) == PNG
    assert found.problems[1].segments == ()
    assert load_problems(tmp_path / "structs.parquet").problems[0] == found.problems[0]


def test_a_written_file_reads_back_also_from_another_folder_with_its_pictures(tmp_path: Path) -> None:
    (tmp_path / "in" / "images").mkdir(parents=True)
    (tmp_path / "in" / "images" / "a.png").write_bytes(PNG)
    first = load_problems(written(tmp_path / "in", row(images=["images/a.png"]))).problems
    write_problems(tmp_path / "in" / "again.jsonl", first)
    assert load_problems(tmp_path / "in" / "again.jsonl").problems == first
    assert '"images/a.png"' in (tmp_path / "in" / "again.jsonl").read_text()
    bare = Problem(id="p", problem="?", gold=Gold(kind="text", value="x"), images=(Figure(data=PNG),))
    write_problems(tmp_path / "bytes.jsonl", [bare])
    assert picture_of(load_problems(tmp_path / "bytes.jsonl").problems[0].images[0]) == PNG


def test_a_transcript_in_one_text_becomes_segments_and_is_audited_like_others(tmp_path: Path) -> None:
    one = row()
    text = "".join(segment["text"] for segment in one.pop("segments"))
    assert [s["kind"] for s in split_transcript(text)] == ["model", "tool", "model"]
    false = text.replace("<tool_result>19.62<", "<tool_result>20.1<")
    path = written(tmp_path, one | {"solution": text}, one | {"id": "b", "solution": false})
    assert [reason.partition(":")[0] for reason in dropped(path)] == ["result_differs"]


def test_copies_are_found_at_the_limit_that_an_exact_count_gives() -> None:
    a = [f"w{i}" for i in range(24)]  # 20 grams
    near = [*a[:17], *(f"x{i}" for i in range(7))]  # 13 grams in common, 27 in all
    far = [*a[:15], *(f"y{i}" for i in range(9))]  # 11 in common, 29 in all
    assert duplicates([a, near, far], 0.4) == {1: 0}
    assert duplicates([a, near, far], 11 / 29) == {1: 0, 2: 0}
    assert duplicates([a, near], 13 / 27) == {1: 0}
    assert duplicates([a, near], 13 / 27 + 1e-9) == {}
    assert contaminated([near, far], [far, a], 0.4) == {0: 1, 1: 0}
    assert duplicates([["a", "b"], ["a", "b"], [], []]) == {1: 0}
    assert contaminated([], [a]) == {} == contaminated([a], [])


def test_a_chain_of_copies_drops_those_near_a_kept_one_only() -> None:
    grams = [f"w{i}" for i in range(40)]
    chain = [grams[:24], grams[8:32], grams[16:40]]  # neighbours share 12 of 28 grams, ends 4 of 36
    assert duplicates(chain, 0.4) == {1: 0}


def test_ten_thousand_questions_are_compared_as_pairs_by_brute_force_would_be() -> None:
    random = np.random.default_rng(1)
    texts = [[f"w{w}" for w in random.integers(0, 40, 12)] for _ in range(300)]
    for i in range(100, 140):
        texts[i] = [*texts[i - 100][:9], "z", "z", "z"]
    sets = [{tuple(t[k : k + 5]) for k in range(8)} for t in texts]
    kept: list[int] = []
    expected = {}
    for i, grams in enumerate(sets):
        near = [j for j in kept if len(grams & sets[j]) >= 0.4 * len(grams | sets[j])]
        if near:
            expected[i] = near[0]
        else:
            kept.append(i)
    assert duplicates(texts, 0.4) == expected
    assert len(expected) == 40
    many = [[*(f"w{w}" for w in random.integers(0, 3000, 30))] for _ in range(9_990)]
    assert duplicates([*many, *many[:10]]) == {9_990 + k: k for k in range(10)}


def test_the_same_words_under_another_picture_are_no_copy(tmp_path: Path) -> None:
    other = encode_png(np.full((2, 3), 9, dtype=np.uint8))
    for name, png in (("a", PNG), ("b", other), ("c", PNG)):
        (tmp_path / f"{name}.png").write_bytes(png)
    rows = [row(id=name, images=[f"{name}.png"]) for name in "abc"]
    found = audit(load_problems(written(tmp_path, *rows)), patient_tool)
    assert [p.id for p in found.kept] == ["a", "b"]
    assert [one.reason for one in found.dropped] == ["duplicate: near a"]


def test_the_command_writes_kept_rows_rejects_and_a_receipt_whose_counts_add_up(tmp_path: Path) -> None:
    bad = row(id="bad", problem="Something else is asked in this row altogether, is it not?")
    _tampered_result(bad)
    leak = row(id="leak", problem="What was in the test set must not be learnt from by anybody here.")
    path = written(tmp_path, row(), "{", bad, leak, row(id="copy"))
    (tmp_path / "test.jsonl").write_text(json.dumps({k: leak[k] for k in ("id", "problem", "gold")}) + "\n")
    script = Path(sys.executable).parent / "specvet"
    command = [script, "data", "physics-audit", path, "--against", tmp_path / "test.jsonl", "--out", tmp_path / "out"]
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, cwd=tmp_path)
    counts = json.loads(told.stdout)["counts"]
    assert counts == {"kept": 1, "calls": 4} | dict.fromkeys(REASONS, 0) | {
        "unreadable": 1, "result_differs": 1, "duplicate": 1, "contaminated": 1,
    }  # fmt: skip
    receipt = json.loads((tmp_path / "out/audit.json").read_text())
    assert receipt["counts"] == counts
    assert receipt["versions"]["sympy"]
    assert [p.id for p in load_problems(tmp_path / "out/problems.jsonl").problems] == ["a"]
    rejects = [json.loads(line) for line in (tmp_path / "out/rejects.jsonl").read_text().splitlines()]
    assert len(rejects) == 4
    assert {one["where"].rpartition("line ")[2] for one in rejects} == {"2", "3", "4", "5"}
    again = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    with pytest.raises(InputError, match="cannot be read"):
        audit_file(tmp_path / "none.jsonl", tmp_path / "out2")
    assert not (tmp_path / "out2").exists()
