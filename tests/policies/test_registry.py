"""Policies by name."""

from __future__ import annotations

import pytest

from specvet.policies import POLICIES, UnknownPolicyError, policy


def test_every_listed_policy_can_be_made_and_has_its_name() -> None:
    for name in POLICIES:
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
