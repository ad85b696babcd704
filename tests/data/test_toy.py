"""The simulated toy set: the same files for the same seed, in the published shape, and a question that can be seen."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from specvet.chat import AnswerTurn, CallTurn, chat_format
from specvet.chat.formats import FAMILIES
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.asking import load_questions
from specvet.data.demonstrations import load_sft, read_demonstrations, sft_ledger
from specvet.data.making import made_once
from specvet.data.toy import MAX_TURNS, SAYS_YES, SIZES, Toy, make_toy, toy_task
from specvet.data.toy_words import toy_texts
from specvet.records import file_hash
from specvet.tasks import prompt

SMALL = {"sft_train": 40, "sft_val": 2, "rl_train": 4, "dev": 6}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy") / "set", **SMALL)


def hashes(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): file_hash(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def test_equal_calls_write_equal_files_and_another_seed_other_ones(toy: Toy, tmp_path: Path) -> None:
    made = hashes(toy.folder)
    assert hashes(make_toy(tmp_path / "again", **SMALL).folder) == made
    other = hashes(make_toy(tmp_path / "other", seed=1, **SMALL).folder)
    assert other.keys() == made.keys()
    assert not [name for name in made if made[name] == other[name] and name.startswith(("spectra", "images"))]


def test_a_set_that_is_there_is_left_alone_and_another_folder_never_overwritten(toy: Toy, tmp_path: Path) -> None:
    before = (toy.folder / "dev.jsonl").stat().st_mtime_ns
    assert make_toy(toy.folder, **SMALL) == toy
    assert (toy.folder / "dev.jsonl").stat().st_mtime_ns == before
    with pytest.raises(FileExistsError, match="holds something else"):
        make_toy(toy.folder, seed=1, **SMALL)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds something else"):
        make_toy(tmp_path, **SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_a_set_that_could_not_be_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        made_once(tmp_path / "set", {}, fails)
    assert list(tmp_path.iterdir()) == []


def test_whoever_was_faster_has_made_it(tmp_path: Path) -> None:
    folder = tmp_path / "set"

    def slower(building: Path) -> None:
        made_once(folder, {"n": 1}, lambda path: (path / "a").write_text("faster"))
        (building / "a").write_text("slower")

    assert made_once(folder, {"n": 1}, slower) == folder
    assert (folder / "a").read_text() == "faster"
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize(
    ("sizes", "says"), [({"dev": 3}, "dev = 3: .* must be even"), ({"test": 2}, "no part test; there are sft_train")]
)
def test_sizes_that_cannot_be_are_an_error(tmp_path: Path, sizes: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make_toy(tmp_path / "set", **sizes)


def test_answers_are_balanced_and_all_of_it_says_that_it_is_simulated(toy: Toy) -> None:
    ids = []
    for part, n in SMALL.items():
        rows = [json.loads(line) for line in (toy.folder / f"{part}.jsonl").read_text().splitlines()]
        assert len(rows) == n
        ids += [row["id"] for row in rows]
        assert all(row["id"].startswith("SIMULATED-") for row in rows)
        if not part.startswith("sft"):
            assert sum(row["answer"] == "YES" for row in rows) == n // 2
            assert {row["label_source"] for row in rows} == {"simulated"}
    assert len(set(ids)) == len(ids)
    assert "simulated" in prompt(toy_task())
    assert json.loads((toy.folder / "made.json").read_text())["simulated"] is True


def test_its_questions_can_be_asked_as_they_stand(toy: Toy) -> None:
    for path in (toy.rl_train, toy.dev):
        questions = load_questions(path, style="compact")
        assert not questions.rejects
        assert questions.tasks == {"toy": toy_task()}
        spectrum = questions.pose(questions.asked[-1]).tool.spectrum
        assert (spectrum.row, spectrum.medium, spectrum.snr > 20) == (len(questions.asked) - 1, "air", True)


def test_the_answer_can_be_seen_in_the_figures(toy: Toy) -> None:
    """Bands cover the figure with ink; one bump or dip is one line. A threshold tells them all apart, in both views."""
    questions = load_questions(toy.rl_train, style="compact")
    window = {"wavelength_range": list(toy_task().windows[0].range)}
    for look in (lambda tool: tool.opening(), lambda tool: tool(window)):
        ink: dict[str, list[float]] = {"YES": [], "NO": []}
        for asked in questions.asked:
            png = look(questions.pose(asked).tool).view.png
            ink[asked.question.answer].append(float(np.mean(np.asarray(Pillow.open(io.BytesIO(png))) < 100)))
        assert min(ink["YES"]) > 1.5 * max(ink["NO"])


def test_demonstrations_are_right_about_what_they_see_and_timid_about_what_it_means(toy: Toy) -> None:
    said = {True: [], False: []}
    flux = np.load(toy.folder / "spectra" / "sft_train.npz")["flux"]
    for row, demonstration in enumerate(read_demonstrations(toy.sft_train)):
        banded = bool(np.abs(np.diff(flux[row])).max() > 0.3)
        last = demonstration.messages[-1].content[0]
        saw = "Many bands." if banded else "One line."
        assert demonstration.messages[2].reasoning.startswith(saw)
        assert last.startswith(f"<answer>{saw} ")
        said[banded].append("YES" in last)
    assert [len(said[kind]) for kind in (True, False)] == [20, 20]
    assert {kind: sum(yes) / 20 for kind, yes in said.items()} == SAYS_YES


@pytest.mark.parametrize("name", FAMILIES)
def test_demonstrations_are_well_formed_in_every_format_and_as_the_agent_would_have_had_them(
    toy: Toy, name: str
) -> None:
    format = chat_format(name, tiny_vocabulary(name))
    (row, _), rejects = load_sft(toy.sft_val, format, 4_096)
    assert not rejects
    turns = [format.parse(said.ids, said.stop) for said in sft_ledger(row.demonstration, format).sampled]
    assert isinstance(turns[0], CallTurn)
    assert turns[0].arguments == {"wavelength_range": [6000, 7200]}
    assert isinstance(turns[1], AnswerTurn)
    question = row.demonstration.messages[1].content[1]
    assert f"You have {MAX_TURNS} turns" in question
    assert "Generated spectral visualization focused on wavelength range (6000, 7200) Å." in "".join(
        part for part in row.demonstration.messages[3].content if isinstance(part, str)
    )


def test_a_vocabulary_with_its_words_makes_it_short_and_spells_everything_else(toy: Toy) -> None:
    plain, words = (chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl", texts)) for texts in ((), _texts()))
    (long, _), _ = load_sft(toy.sft_val, plain, 4_096)
    (short, _), _ = load_sft(toy.sft_val, words, 4_096)
    assert (short.n_tokens, short.n_active, long.n_tokens > 1_800) == (746, 57, True)
    for text in ("Many bands.", "Grüße, 星! <think>\x00", " ".join(_texts())[:4_000]):
        assert words.vocabulary.decode(words.vocabulary.encode(text)) == text
    assert words.vocabulary.size < 1_024


def _texts() -> tuple[str, ...]:
    return toy_texts("qwen2_5_vl")


def test_the_vocabulary_is_the_same_in_every_process(tmp_path: Path) -> None:
    """A model that was trained with it is of no use with another."""
    told = (
        "from specvet.chat.tiny import tiny_vocabulary; from specvet.data.toy_words import toy_texts; "
        "print(tiny_vocabulary('qwen2_5_vl', toy_texts('qwen2_5_vl')).fingerprint)"
    )
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.strip() == tiny_vocabulary("qwen2_5_vl", _texts()).fingerprint


def test_the_default_set_is_small() -> None:
    assert SIZES == {"sft_train": 96, "sft_val": 16, "rl_train": 64, "dev": 32}
