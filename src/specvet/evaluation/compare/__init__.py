"""Two cells side by side: in come their rows; out come the questions that flipped, both ways, the worst errors first.

meet(a, b) → Meeting (pairs, numbers) → page, or a table in the terminal
"""

from specvet.evaluation.compare.meeting import Meeting, Pair, Side, meet
from specvet.evaluation.compare.page import page

__all__ = ["Meeting", "Pair", "Side", "meet", "page"]
