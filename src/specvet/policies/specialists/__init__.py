"""Specialists: classifiers trained on the questions of a set, as peers to be measured beside an agent.

In comes an opening, of which they see what an agent sees; out comes YES or NO at once, with its probability.
`specvet train specialist` makes their folders.
"""

from specvet.policies.specialists.card import CARD, Card, SpecialistError, read_card
from specvet.policies.specialists.policy import Specialist, open_specialist

__all__ = ["CARD", "Card", "Specialist", "SpecialistError", "open_specialist", "read_card"]
