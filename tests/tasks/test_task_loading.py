"""Finding tasks: by name as people write it, by path, and several at once."""

from importlib import resources
from pathlib import Path

import pytest

from specvet.tasks import Task, TaskError, builtin_tasks, load_task, resolve_tasks, task_text, template_text, yaml_text
from specvet.tasks.yaml_text import read_yaml

NAMES = {
    "cv": ["cv", "CV", "CVs", "cataclysmic variable", "Cataclysmic Variables", "cataclysmic-variable"],
    "cc": ["cc", "C", "c", "C star", "carbon", "Carbon", "carbon star", "carbon_stars", "CarbonStar", "C-type star"],
    "ss": ["ss", "SS", "S", "s", "S star", "S stars", "S-type", "S-type star", "s type star"],
    "gm": ["gm", "gM", "GM", "M giant", "m-giant", "M_giants", "M-type giant", "MGIANT", "M III"],
    "wd": ["wd", "WD", "WDs", "white dwarf", "White Dwarf", "white-dwarfs", "white dwarves", " wd "],
}


@pytest.mark.parametrize(("key", "name"), [(key, name) for key, names in NAMES.items() for name in names])
def test_a_class_is_found_by_any_name_people_write(key: str, name: str) -> None:
    assert load_task(name).key == key


def test_no_two_tasks_share_a_name() -> None:
    owner: dict[str, str] = {}
    for key, task in builtin_tasks().items():
        for name in {n.casefold() for n in (key, task.name, task.data_source, *task.aliases)}:
            assert owner.setdefault(name, key) == key


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("carbom star", "did you mean `cc` (carbon star)?"),
        ("whitedwraf", "did you mean `wd` (white dwarf)?"),
        (
            "quasar",
            "known are cv (cataclysmic variable), cc (carbon star), ss (S-type star), gm (M giant), wd (white dwarf)",
        ),
        ("", "there is no task ``"),
        ("M dwarf", "there is no task `M dwarf`"),
    ],
)
def test_an_unknown_name_lists_the_known_ones_and_the_nearest(name: str, expected: str) -> None:
    with pytest.raises(TaskError) as caught:
        load_task(name)
    assert expected in str(caught.value)


def test_a_copy_of_a_builtin_file_is_the_same_task(tmp_path: Path) -> None:
    for key, task in builtin_tasks().items():
        raw = resources.files("specvet.tasks").joinpath("stars").joinpath(f"{key}.yaml").read_bytes()
        copy = tmp_path / f"my {key}.yml"
        copy.write_bytes(raw)
        assert load_task(copy) == task
        assert load_task(str(copy)) == task


def test_a_bare_file_name_without_suffix_is_read_when_no_class_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text(template_text(), encoding="utf-8")
    (tmp_path / "cv").mkdir()
    assert load_task("mine").key == "li_giant"
    assert load_task("cv").key == "cv"


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + template_text().replace("\n", "\r\n").encode())
    assert load_task(file) == load_task(_written(tmp_path / "b.yaml", template_text()))


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        ("cv", ["cv"]),
        ("cv,wd", ["cv", "wd"]),
        (" WD , cv ,, white dwarf", ["wd", "cv"]),
        (["cv", "carbon,C", "gM"], ["cv", "cc", "gm"]),
        ("S,C,cv", ["ss", "cc", "cv"]),
    ],
)
def test_tasks_come_once_each_in_the_order_given(names: str | list[str], keys: list[str]) -> None:
    assert [task.key for task in resolve_tasks(names)] == keys


def test_names_paths_and_tasks_mix_in_one_list(tmp_path: Path) -> None:
    mine = _written(tmp_path / "mine.yaml", template_text())
    tasks = resolve_tasks(["cv", mine, str(mine), load_task(mine), builtin_tasks()["cv"]])
    assert [task.key for task in tasks] == ["cv", "li_giant"]
    assert resolve_tasks(mine) == [load_task(mine)]


def test_a_path_with_a_comma_stays_one_path(tmp_path: Path) -> None:
    mine = _written(tmp_path / "a,b.yaml", template_text())
    assert [task.key for task in resolve_tasks(str(mine))] == ["li_giant"]


def test_two_tasks_with_one_key_and_different_contents_are_refused(tmp_path: Path) -> None:
    mine = _written(tmp_path / "mine.yaml", template_text().replace("key: li_giant", "key: cv"))
    with pytest.raises(TaskError) as caught:
        resolve_tasks(["cv", mine])
    assert f"`cv` and `{mine}` both have the key `cv`, but different contents" in str(caught.value)


@pytest.mark.parametrize("names", ["", " , ", []])
def test_naming_no_task_is_an_error_that_lists_the_known_ones(names: str | list[str]) -> None:
    with pytest.raises(TaskError, match=r"no task is named; known are cv \(cataclysmic variable\)"):
        resolve_tasks(names)


def test_the_template_loads_and_uses_every_field_of_the_schema(tmp_path: Path) -> None:
    task = load_task(_written(tmp_path / "t.yaml", template_text()))
    assert task.name == "lithium-rich giant"
    assert {index.kind for index in task.indices.values()} == {"line", "ratio", "formula"}
    assert task.evidence[1].given
    assert task.rivals
    assert task.undecidable
    for name in Task.model_fields:
        if name != "answers":
            assert f"\n{name}:" in template_text() or f"# {name}:" in template_text(), name


def test_the_template_explains_itself_line_by_line() -> None:
    lines = [line for line in template_text().splitlines() if line.strip()]
    assert sum("#" in line for line in lines) > 45


def test_evidence_of_the_template_names_indices_that_exist(tmp_path: Path) -> None:
    task = load_task(_written(tmp_path / "t.yaml", template_text()))
    conditions = [c for e in task.evidence for c in e.given] + [c for u in task.undecidable for c in u.given]
    named = {e.index for e in task.evidence} | {c.index for c in conditions}
    assert named <= set(task.indices)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("key", ["cv", "cc", "ss", "gm", "wd"])
def test_a_task_written_out_loads_as_the_same_task(key: str, tmp_path: Path) -> None:
    file = tmp_path / "kept.yaml"
    file.write_text(task_text(load_task(key)), encoding="utf-8")
    assert load_task(file) == load_task(key)


def test_the_quick_reader_gives_what_the_thorough_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(resources.files("specvet.tasks").joinpath("stars").iterdir(), key=str)
    texts = [f.read_text(encoding="utf-8") for f in files if f.name.endswith(".yaml")] + [template_text()]
    odd = ["a: yes\nb: [no, true, off]\nc: 1e3\n2: 0x1F\n", "t: 2026-01-01\n'<<': {a: 1}\ns: |\n  x\n  y\n", "é: '—'\n"]
    quick = [read_yaml(text.encode(), "x") for text in (*texts, *odd)]
    assert len(texts) == 6
    monkeypatch.setattr(yaml_text, "_QUICK", None)
    for text, found in zip((*texts, *odd), quick, strict=True):
        thorough = read_yaml(text.encode(), "x")
        assert found.data == thorough.data
        paths: list[yaml_text.Path] = [(key,) for key in found.data] + [("windows", 0, "range"), ("evidence", "yes", 1)]
        assert [found.line(path) for path in paths] == [thorough.line(path) for path in paths]
