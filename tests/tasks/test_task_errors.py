"""What people read when a task file is wrong: the file, the field, the trouble, the cure."""

from pathlib import Path

import pytest

from specvet.tasks import TaskError, load_task
from specvet.tasks.load import task_from_bytes
from specvet.tasks.yaml_text import MAX_BYTES

GOOD = """\
key: li_giant
name: lithium-rich giant
question: Is it?
include:
  - one kind
exclude: []
guidance: Look at 6708.
windows:
  - key: lithium
    name: Li I 6708
    range: [6660, 6760]
    why: the line
  - key: halpha
    name: Hα
    range: [6480, 6640]
    why: activity
sources:
  - a paper
"""

WRONG_FIELDS = [
    ("range: [6480, 6640]", "range: [6640, 6480]", "windows[1].range: [6640, 6480] must be [low, high] in Å with 0 <"),
    (
        "range: [6480, 6640]",
        "range: 6480-6640",
        "windows[1].range: should be two numbers, [low, high] in Å, not `6480-6",
    ),
    (
        "range: [6480, 6640]",
        "range: [6480]",
        "windows[1].range[1]: is missing; a range is two numbers, [low, high] in Å",
    ),
    ("range: [6480, 6640]", "range: [1, 2, 3]", "windows[1].range: holds 3 numbers; a range is two, [low, high] in Å"),
    ("range: [6480, 6640]", "range: [red, 6640]", "windows[1].range[0]: should be a number, not `red` (line 15)"),
    ("range: [6480, 6640]", "range: [6480, .inf]", "windows[1].range[1]: should be a number, not `inf` (line 15)"),
    (
        "    name: Hα\n",
        "",
        "windows[1].name: is missing; add it, `specvet tasks --template` shows an example (line 13)",
    ),
    ("guidance:", "guidanse:", "guidanse: there is no such field; did you mean `guidance`? (line 7)"),
    ("    why: activity", "    whi: activity", "windows[1].whi: there is no such field; did you mean `why`? (line 16)"),
    ("guidance: Look at 6708.", "guidance:", "guidance: is left empty; fill it in or remove the line (line 7)"),
    ("guidance: Look at 6708.", "guidance: ''", "guidance: is an empty text; fill it in or remove the line (line 7)"),
    (
        "include:\n  - one kind",
        "include: one kind",
        "include: should be a list, each entry on a line of its own that st",
    ),
    ("include:\n  - one kind", "include: []", "include: holds no entries; at least 1 is needed (line 4)"),
    ("- a paper", "- 1995", 'sources[0]: should be a text, not `1995`; put it in quotes: "1995" (line 18)'),
    ("key: li_giant", "key: Li giant", "key: `Li giant` should be made of small letters, digits and `_`"),
    ("key: halpha", "key: lithium", "windows: the key lithium stands more than once; give each window its own"),
    ("sources:", "windoes: 3\nsources:", "windoes: there is no such field; did you mean `windows`? (line 17)"),
    (
        "sources:",
        "borderline: [{kind: k, answer: maybe, why: w}]\nsources:",
        "borderline[0].answer: `maybe` is not `YES` or",
    ),
    ("sources:", "borderline: [text]\nsources:", "borderline[0]: should be made of `field: value` lines, not `text`"),
    ("sources:", "requires: {min_snr: high}\nsources:", "requires.min_snr: should be a number, not `high` (line 17)"),
    ("sources:", "requires: {min_snr: -1}\nsources:", "requires.min_snr: `-1` should be at least 0 (line 17)"),
    (
        "sources:",
        "requires: {coverage: [{range: [1, 2]}], at_least: 2}\nsources:",
        "requires: at_least is 2, but only 1 ranges are listed",
    ),
    (
        "sources:",
        "requires: {coverage: [{range: [1, 2], fraction: 1.5}]}\nsources:",
        "requires.coverage[0].fraction: `1.5` should be at most 1",
    ),
    (
        "    why: activity",
        "    why: w\n    features: [{name: Hβ, wavelength: 4861}]",
        "windows[1]: features[0]: Hβ at 4861 Å lies outside range [6480, 6640]",
    ),
    (
        "    why: activity",
        "    why: w\n    contaminants: [{name: sky, range: [1, 2], effect: e}]",
        "windows[1]: contaminants[0]: sky at [1, 2] lies outside range [6480, 6640]",
    ),
    (
        "sources:",
        "indices: {li: {kind: line, band: [1, 2]}}\nsources:",
        "indices.li: band, reference: a `line` index needs both",
    ),
    (
        "sources:",
        "indices: {li: {kind: lines}}\nsources:",
        "indices.li.kind: `lines` is not `line`, `width`, `ratio` or `formula`",
    ),
    (
        "sources:",
        "indices: {li: {kind: line, bandd: 1}}\nsources:",
        "indices.li.bandd: there is no such field; did you mea",
    ),
    (
        "sources:",
        "evidence: [{index: a, side: above, at: 1, soft: 0, yes: 1}]\nsources:",
        "evidence[0].soft: `0` should be greater than 0 (line 17)",
    ),
    ("sources:", "rivals: [{name: dwarf}]\nsources:", "rivals[0].evidence: is missing; add it"),
    ("sources:", "rivals: [3]\nsources:", 'rivals[0]: should be a text, not `3`; put it in quotes: "3"'),
    ("sources:", "answers: [NO, YES]\nsources:", "answers[0]: `NO` is not `YES`"),
    ("sources:", "1: x\nsources:", "1: names of fields are words; put this one in quotes or correct it"),
]


@pytest.mark.parametrize(("right", "wrong", "expected"), WRONG_FIELDS, ids=[case[2][:40] for case in WRONG_FIELDS])
def test_a_wrong_field_is_named_with_what_to_do(tmp_path: Path, right: str, wrong: str, expected: str) -> None:
    message = _message(tmp_path, _changed(right, wrong).encode())
    assert f"my.yaml: {expected}" in message
    assert "pydantic" not in message
    assert "http" not in message
    assert "Input should" not in message


BROKEN_YAML = [
    (b"", "the file is empty; `specvet tasks --template` prints an example"),
    (b"# only a comment\n", "the file is empty"),
    (b"- cv\n- wd\n", "a task file is made of `field: value` lines, but this one holds a list"),
    (b"cataclysmic", "a task file is made of `field: value` lines, but this one holds a single text"),
    (
        b"key: a\nname: b\nkey: c\n",
        "line 3, column 1: the key `key` stands twice in one place, first in line 1; keep one",
    ),
    (b"requires: {min_snr: 1, min_snr: 2}\n", "line 1, column 24: the key `min_snr` stands twice in one place"),
    (
        b"key: a\nname: it: is\n",
        "line 2, column 9: not valid YAML: mapping values are not allowed here; a text that hol",
    ),
    (
        b"key: a\n\tname: b\n",
        "line 2, column 1: not valid YAML: found character '\\t' that cannot start any token; indent",
    ),
    (b"key: [a\n", "line 2, column 1: not valid YAML: expected ',' or ']'"),
    (b'key: "a\n', "line 2, column 1: not valid YAML: found unexpected end of stream; a quotation mark is not"),
    (
        b"key: @a\n",
        "line 1, column 6: not valid YAML: found character '@' that cannot start any token; put a text that",
    ),
    (
        b"key: a\n---\nkey: b\n",
        "line 2, column 1: not valid YAML: expected a single document in the stream but found an",
    ),
    (b"key: !!python/object:os.system x\n", "line 1, column 6: not valid YAML: could not determine a constructor for"),
    (b"key: !!int abc\n", "not valid YAML: invalid literal for int() with base 10: 'abc'; write plain values without"),
    (b"a: &x [1]\nb: *x\n", "line 2, column 4: `*name` aliases are not read here; repeat the text"),
    (b"? [a]\n: b\n", "line 1, column 3: not valid YAML: found unhashable key"),
    (b"[" * 5000, "lists or mappings are nested too deeply for a task file"),
    (b"key: a\nname: \x07\n", "line 2: holds a control character; this is no plain text file"),
    (b"SIMPLE  =\0\0\0", "this is a binary file, or text in UTF-16; a task file is YAML in UTF-8"),
    ("key: é\n".encode("latin-1"), "line 1: not UTF-8 text; save the file as UTF-8"),
    (b"x: " + b"y" * MAX_BYTES, "larger than 256 kB, too large for a task file; is it the right one?"),
]


@pytest.mark.parametrize(("raw", "expected"), BROKEN_YAML, ids=[case[1][:40] for case in BROKEN_YAML])
def test_broken_yaml_is_placed_and_explained(tmp_path: Path, raw: bytes, expected: str) -> None:
    assert f"my.yaml: {expected}" in _message(tmp_path, raw)


def test_the_good_file_behind_these_tables_loads(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(GOOD, encoding="utf-8")
    assert load_task(file).key == "li_giant"


def test_unquoted_yes_and_no_are_words_as_answers_and_as_fields(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    extra = (
        "borderline:\n  - {kind: k, answer: NO, why: w}\n  - {kind: l, answer: YES, why: on}\n"
        "answers: [YES, NO]\nevidence:\n  - {index: a, side: above, at: 1, soft: 1, yes: 2, no: -2}\n"
    )
    file.write_text(GOOD + extra, encoding="utf-8")
    task = load_task(file)
    assert [(b.answer, b.why) for b in task.borderline] == [("NO", "w"), ("YES", "on")]
    assert (task.evidence[0].yes, task.evidence[0].no) == (2.0, -2.0)


def test_a_feature_may_pass_the_edge_of_its_window_by_the_step_from_air_to_vacuum(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    edge = "    why: w\n    features: [{name: x, wavelength: 6641.8, medium: vacuum}]"
    file.write_text(_changed("    why: activity", edge), encoding="utf-8")
    assert load_task(file).windows[1].features[0].wavelength == 6641.8


def test_several_errors_are_told_at_once_and_the_rest_counted(tmp_path: Path) -> None:
    lines = _message(tmp_path, b"kye: a\n").splitlines()
    assert len(lines) == 6
    assert lines[0] == f"{tmp_path / 'my.yaml'}: kye: there is no such field; did you mean `key`? (line 1)"
    assert lines[5].endswith("my.yaml: and 4 more")


def test_a_long_wrong_value_is_shortened(tmp_path: Path) -> None:
    message = _message(tmp_path, _changed("key: halpha", "key: " + "H" * 5000).encode())
    assert len(message) < 250


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none.yaml", "none.yaml: there is no such file; check the path, or name a built-in task"),
        ("folder.yaml", "folder.yaml: this is a directory; name the task file in it"),
        ("nul\0.yaml", "cannot be read: "),
    ],
)
def test_a_path_that_cannot_be_read_says_why(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(TaskError) as caught:
        load_task(f"{tmp_path}/{name}")
    assert expected in str(caught.value)


@pytest.mark.parametrize("junk", ["", ":", "- ", "\t", "[", "{", "'", "*a", "&a ", "!!x ", "? ", "null\n", "<<: "])
def test_junk_anywhere_in_a_file_is_a_task_error_or_harmless(junk: str) -> None:
    messages = []
    for place in range(0, len(GOOD), 3):
        for text in (GOOD[:place] + junk, GOOD[:place] + junk + GOOD[place:]):
            try:
                task_from_bytes(text.encode(), "my.yaml")
            except TaskError as error:
                messages.append(str(error))
    assert messages
    assert all(message.startswith("my.yaml: ") for message in messages)


def _changed(right: str, wrong: str) -> str:
    assert GOOD.count(right) == 1
    return GOOD.replace(right, wrong)


def _message(folder: Path, raw: bytes) -> str:
    file = folder / "my.yaml"
    file.write_bytes(raw)
    with pytest.raises(TaskError) as caught:
        load_task(file)
    return str(caught.value)
