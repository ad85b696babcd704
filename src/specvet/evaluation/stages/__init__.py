"""What each stage of a training brought: base, SFT, RL, of several seeds, side by side on the same questions.

Campaigns come in, one a model; out goes a folder with tables, figures and the answers that all of its numbers are made
of, small enough for a repository (`gathering`). Anybody makes the numbers again from it, without the models.
"""

from specvet.evaluation.stages.gathering import gather, remade
from specvet.evaluation.stages.plan import StagesPlan, read_stages

__all__ = ["StagesPlan", "gather", "read_stages", "remade"]
