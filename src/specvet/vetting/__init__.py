"""Vetting: a list becomes verdicts. In come files, folders, globs and candidate lists; out come a run folder, tables of
it (`export`) and a page of it (`write_report`)."""

from specvet.vetting.export import export
from specvet.vetting.inputs import Inputs, expand_inputs
from specvet.vetting.items import Item
from specvet.vetting.report import write_report
from specvet.vetting.runner import vet
from specvet.vetting.watch import Progress, VetSummary

__all__ = ["Inputs", "Item", "Progress", "VetSummary", "expand_inputs", "export", "vet", "write_report"]
