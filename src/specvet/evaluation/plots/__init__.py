"""Figures of a campaign. In comes a campaign folder, of which only the numbers are read; out come figures that look the
same wherever they are drawn, as PNG, PDF or SVG.

Policies differ by hatch, marker and kind of line besides colour, so every figure reads in black and white, and a policy
looks the same in all of them. Axes start where they start: nothing is cut to make a difference look larger.
"""

from specvet.evaluation.plots.make import Drawn, figures, plot_campaign
from specvet.evaluation.plots.page import FORMATS, figure_bytes
from specvet.evaluation.plots.shown import KINDS

__all__ = ["FORMATS", "KINDS", "Drawn", "figure_bytes", "figures", "plot_campaign"]
