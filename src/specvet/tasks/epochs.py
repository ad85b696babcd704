"""What the epochs of one star amount to, as a task says it. It alters no verdict of a single spectrum."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from specvet.tasks.evidence import Strict, Text

Rule = Literal["any_yes", "weighed"]

RULES: dict[Rule, str] = {
    "any_yes": "one epoch with a trusted YES makes the object a YES; p(YES) is the highest of the epochs that vote",
    "weighed": (
        "p(YES) is 1 / (1 + exp(-L)), L the mean of the epochs' log-odds, each within ±4.6 and weighed by its S/N "
        "within 1-50; where epochs conflict, YES from 0.7, NO up to 0.3, else UNSURE"
    ),
}
"""In words, with the formula of the object's p(YES). `specvet.catalogue.objects.combining` does what they say."""


class Epochs(Strict):
    """How verdicts on several spectra of one star are combined."""

    rule: Rule
    """`any_yes` where the star changes its state, `weighed` where what the question asks for does not change."""
    why: Text
    """Why this rule fits the class."""
    trusted: Annotated[float, Field(ge=0.5, le=1)] = 0.6
    """`any_yes`: least p(YES) of a policy's YES that counts alone. A YES without a probability, a person's, and one
    that triage accepted, is trusted."""


DEFAULT = Epochs(rule="weighed", why="the task does not say that the star changes; each epoch counts by its S/N")
"""Of a task without the section."""
