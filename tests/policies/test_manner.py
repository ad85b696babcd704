"""How a model is asked: what its folder says, and what goes before that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specvet.policies import default_policy
from specvet.policies.manner import NANO, PUBLISHED, Manner, manner_of, settled
from specvet.policies.tokens import PolicyError


def write(folder: Path, told: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "specvet.json").write_text(told if isinstance(told, str) else json.dumps(told))
    return folder


def test_a_folder_says_how_its_model_is_asked_or_nothing(tmp_path: Path) -> None:
    assert manner_of(write(tmp_path / "nano", {"manner": NANO.model_dump(mode="json")})) == NANO
    assert manner_of(write(tmp_path / "bare", {"name": "x"})) is None
    assert manner_of(tmp_path) is None
    assert manner_of(None) is None


@pytest.mark.parametrize(
    "told",
    [
        "{",
        "[]",
        "[" * 200_000,
        {"manner": []},
        {"manner": {"wording": "long"}},
        {"manner": {"style": "compact", "size": "huge"}},
        {"manner": {"max_turns": 0}},
        {"manner": {"colour": "red"}},
    ],
)
def test_a_damaged_file_is_named_and_never_guessed_at(tmp_path: Path, told: object) -> None:
    with pytest.raises(PolicyError, match=r"specvet\.json: says nothing that can be read of how the model is asked"):
        manner_of(write(tmp_path, told))


def test_what_is_given_goes_before_the_folder_and_that_before_what_is_usual() -> None:
    usual = Manner(turn_tokens=6_144)
    assert settled(None, {}) == PUBLISHED
    assert settled(None, {"context": None, "max_turns": 3}, usual) == usual.model_copy(update={"max_turns": 3})
    assert settled(NANO, {"wording": None, "style": None}, usual) == NANO
    assert settled(NANO, {"turn_tokens": 90, "wording": "full"}).turn_tokens == 90
    assert settled(NANO, {"turn_tokens": 90, "wording": "full"}).size == "tiny"


def test_a_size_belongs_to_its_style() -> None:
    assert settled(NANO, {"style": "compact"}).size == "tiny"
    assert (settled(NANO, {"style": "reference"}).style, settled(NANO, {"style": "reference"}).size) == (
        "spec-o3-reference-1",
        None,
    )
    assert settled(NANO, {"size": "448x280"}).pixels == (448, 280)
    with pytest.raises(ValueError, match="only compact-1 has a size"):
        settled(NANO, {"style": "reference", "size": "tiny"})


def test_the_packaged_model_decides_by_default_where_there_is_one_for_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specvet.policies.catalogue.PACKAGED", tmp_path)
    assert default_policy(["cv"]) == "line-indices"
    write(tmp_path / "nano", {"manner": NANO.model_dump(mode="json")})
    assert default_policy(["cv"]) == "embedded"
    assert default_policy(["cv", "wd", "gm", "ss", "cc"]) == "embedded"
    assert default_policy(["cv", "li"]) == "line-indices"
    write(tmp_path / "nano", {"name": "nano"})
    assert default_policy(["cv"]) == "line-indices"
