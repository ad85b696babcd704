"""A campaign for people: in come its numbers; out come one HTML page, and the results table of the README."""

from specvet.evaluation.report.page import page
from specvet.evaluation.report.readme import put_table, results_table

__all__ = ["page", "put_table", "results_table"]
