"""How a run is cited: a methods paragraph with its own numbers, BibTeX, and what surveys ask to be acknowledged with.

In come `RunFacts`, collected by whoever can read a run; out comes a `Citation`. No number in a text is from anywhere
else.
"""

from __future__ import annotations

from specvet.catalogue.citing.citation import Citation, citation
from specvet.catalogue.citing.facts import (
    AuditFacts,
    MatchFacts,
    PolicyFacts,
    ReviewFacts,
    RunFacts,
    SurveyFacts,
    TaskFacts,
    TriageFacts,
)
from specvet.catalogue.citing.matched import match_facts
from specvet.catalogue.citing.rendering import FORMATS, Format

__all__ = [
    "FORMATS",
    "AuditFacts",
    "Citation",
    "Format",
    "MatchFacts",
    "PolicyFacts",
    "ReviewFacts",
    "RunFacts",
    "SurveyFacts",
    "TaskFacts",
    "TriageFacts",
    "citation",
    "match_facts",
]
