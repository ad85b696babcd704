"""Sets of problems: the same bytes whoever makes them, true results of the real tool, splits that share no question."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from specvet.data.errors import InputError
from specvet.data.physics import making
from specvet.data.physics.families import FAMILIES
from specvet.data.physics.making import leave_out_near, make_physics, problem
from specvet.data.physics.near import LIMIT, contaminated, words
from specvet.data.physics.rows import load_problems
from specvet.data.physics.solving import agrees, patient_tool
from specvet.data.sliced import Made
from specvet.records.problems import Problem
from specvet.tasks.physics.matching import match
from specvet.tasks.physics.reading import read_answer, sampled, well_formed

QUICK = ("position-plot", "resistors", "snell", "grating")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_physics(tmp_path_factory.mktemp("sets") / "physics", 48, val=12, test=12, seed=3, workers=1)


@pytest.fixture(scope="module")
def rows(made: Made) -> dict[str, tuple[Problem, ...]]:
    loaded = {split: load_problems(made.folder / f"{split}.jsonl") for split in ("train", "val", "test")}
    assert not any(one.rejects for one in loaded.values())
    return {split: one.problems for split, one in loaded.items()}


def test_all_families_take_turns_and_the_folder_holds_what_its_counts_say(
    made: Made, rows: dict[str, tuple[Problem, ...]]
) -> None:
    assert made.stats["problems"] == {split: len(some) for split, some in rows.items()}
    assert {p.source for p in rows["train"]} == {f"generated:{name}" for name in FAMILIES}
    assert made.stats["simulated"] is True
    assert set(made.stats["kinds"]) == {"mcq", "multipart", "numeric", "symbolic"}
    pictures = {path.name for path in (made.folder / "images").iterdir()}
    assert pictures == {Path(p.images[0].path).name for some in rows.values() for p in some if p.images}
    assert made.stats["with_figure"] == len(pictures) > 5
    assert not (made.folder / ".slices").exists()
    assert make_physics(made.folder, 48, val=12, test=12, seed=3).made is False


def test_every_solution_ends_with_its_right_answer_and_its_last_result_holds_it(
    rows: dict[str, tuple[Problem, ...]],
) -> None:
    for one in (p for some in rows.values() for p in some):
        texts = sampled(one.segments)
        assert well_formed(texts), one.id
        assert match(read_answer(texts).text, one.gold, "strict").right, one.id
        kinds = [segment.kind for segment in one.segments]
        assert kinds == ["model", "tool"] * (len(kinds) // 2) + ["model"]
        for before, segment in zip(one.segments, one.segments[1:], strict=False):
            if segment.call is not None and segment.result is not None:
                assert before.text.endswith(f"<tool>sympy: {segment.call.argument}</tool>")
                assert len(segment.call.argument) <= 400
                assert segment.text == f"<tool_result>{segment.result.text}</tool_result>"
        if one.gold.kind == "numeric":
            last = one.segments[-2].result
            assert last is not None
            assert isinstance(one.gold.value, float)
            assert agrees(last.text, one.gold.value)


def test_no_question_of_one_split_is_near_one_of_another_even_with_numbers_made_equal(
    rows: dict[str, tuple[Problem, ...]],
) -> None:
    texts = {split: [words(p, numbers=False) for p in some] for split, some in rows.items()}
    assert not contaminated(texts["val"], texts["train"])
    assert not contaminated(texts["test"], texts["train"] + texts["val"])
    # The check can see: within a split, questions of one family differ by little else than numbers.
    assert contaminated(texts["train"][:24], texts["train"][24:])


def test_wordings_of_all_families_keep_the_splits_apart_whatever_is_asked() -> None:
    """Without the tool: thousands of questions, numbers made equal."""
    from specvet.data.physics.families import Degenerate, Draw
    from specvet.data.physics.making import SPLITS
    from specvet.data.physics.solving import asked

    texts: dict[str, list[tuple[str, ...]]] = {}
    for split, wordings in SPLITS.items():
        for name, (_, family) in FAMILIES.items():
            for i in range(60):
                draw = Draw(f"{split}:{name}:{i}")
                try:
                    question = asked(family(draw), draw, wordings)
                except Degenerate:
                    continue
                one = Problem(id="x", problem=question.text, gold=question.gold)
                texts.setdefault(split, []).append(words(one, numbers=False))
    assert min(len(some) for some in texts.values()) > 700
    assert not contaminated(texts["val"], texts["train"], LIMIT)
    assert not contaminated(texts["test"], [*texts["train"], *texts["val"]], LIMIT)


def test_a_problem_follows_from_seed_split_and_number_alone() -> None:
    first, figure, _ = problem(2, "train", 5, patient_tool(), QUICK)
    again, again_figure, _ = problem(2, "train", 5, patient_tool(), QUICK)
    assert first == again
    assert figure == again_figure
    others = [problem(2, "train", 6, patient_tool(), QUICK)[0], problem(2, "val", 5, patient_tool(), QUICK)[0]]
    assert len({first.problem, *(p.problem for p in others)}) == 3


def test_a_stopped_set_goes_on_and_two_workers_write_the_bytes_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "SLICE", 4)
    stop = threading.Event()

    def after_first(doing: str, done: int, total: int) -> None:
        if done >= 4:
            stop.set()

    halted = make_physics(tmp_path / "a", 8, val=4, test=4, families=QUICK, workers=1, progress=after_first, stop=stop)
    assert not halted.finished
    assert not (tmp_path / "a/train.jsonl").exists()
    with pytest.raises(InputError, match="begun with another seed"):
        make_physics(tmp_path / "a", 8, val=4, test=4, seed=9, families=QUICK, workers=1)
    resumed = make_physics(tmp_path / "a", 8, val=4, test=4, families=QUICK, workers=2)
    whole = make_physics(tmp_path / "b", 8, val=4, test=4, families=QUICK, workers=1)
    files = sorted(path.relative_to(tmp_path / "b") for path in (tmp_path / "b").rglob("*") if path.is_file())
    assert resumed.finished
    assert sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()) == files
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert whole.stats["problems"]["train"] == 8


def test_questions_that_leak_into_a_later_split_are_left_out_and_counted(
    rows: dict[str, tuple[Problem, ...]],
) -> None:
    leaked = rows["train"][3].model_copy(update={"id": "leak", "split": "test"})
    splits = {"train": list(rows["train"]), "test": [rows["test"][0], leaked]}
    assert leave_out_near(splits) == {"train": 0, "test": 1}
    assert splits["test"] == [rows["test"][0]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n": 0}, "at least 1"),
        ({"n": 5, "val": -1}, "at least 1"),
        ({"n": 5, "families": ["alchemy"]}, "no family alchemy"),
        ({"n": 5, "families": []}, "at least one family"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        make_physics(tmp_path / "set", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "set").exists()


def test_the_settings_file_says_what_was_made(made: Made) -> None:
    told = json.loads((made.folder / "physics.json").read_text())
    assert told["sizes"] == {"train": 48, "val": 12, "test": 12}
    assert told["families"] == list(FAMILIES)
    assert told["simulated"] is True


def test_without_sympy_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.data.physics import solving

    monkeypatch.setattr(solving, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'specvet\[physics\]'"):
        make_physics(tmp_path / "set", 3)
