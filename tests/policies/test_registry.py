"""Policies by name."""

from __future__ import annotations

import pytest

from specvet.policies import MODELS, POLICIES, SPECIALISTS, UnknownPolicyError, open_policy, policy
from specvet.policies.options import ModelOptions


def test_every_listed_policy_that_measures_can_be_made_and_has_its_name() -> None:
    for name in POLICIES.keys() - {*MODELS, *SPECIALISTS}:
        made = policy(name)
        assert made.name == name
        assert made is not policy(name)
        assert callable(made.check)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("line_indices", "did you mean 'line-indices'?"),
        ("Line-Indices", "'line-indices'"),
        ("gpt", "known are: "),
        ("", "known are: "),
    ],
)
def test_an_unknown_name_lists_the_known_and_the_nearest(name: str, says: str) -> None:
    with pytest.raises(UnknownPolicyError) as caught:
        policy(name)
    assert says in str(caught.value)
    assert "line-indices" in str(caught.value)


def test_a_model_is_opened_with_options_and_what_measures_is_not() -> None:
    for name in MODELS:
        assert name in POLICIES
        with pytest.raises(UnknownPolicyError, match="is a model, which needs options"):
            policy(name)
    for name in ("line-indices", "torhc"):
        with pytest.raises(UnknownPolicyError, match="there is no policy named"):
            open_policy(name, ModelOptions())


def test_a_specialist_needs_the_folder_that_it_was_trained_into_and_line_indices_none() -> None:
    for name in SPECIALISTS:
        assert name in POLICIES
        with pytest.raises(ValueError, match=f"{name} needs --model, the folder"):
            policy(name)
    with pytest.raises(UnknownPolicyError, match="takes no --model"):
        policy("line-indices", "somewhere")
