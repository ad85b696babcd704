"""Triage: how far a run's verdicts can be trusted, and which spectra a person must look at.

In come a run's decisions, and labels where it is to be calibrated; out come a `Calibration` (a JSON file), and a run's
`triage/` folder: for every spectrum and task a calibrated probability and a band, with what is promised of it.
"""

from specvet.vetting.triage.calibration import Calibration, TriageError, read_calibration
from specvet.vetting.triage.cases import Case, cases_of
from specvet.vetting.triage.folder import Told, read_about, read_told, write_triage
from specvet.vetting.triage.run import calibrate_run, sort_run
from specvet.vetting.triage.settings import Settings
from specvet.vetting.triage.sorting import Sorted, Triage, sort

__all__ = [
    "Calibration",
    "Case",
    "Settings",
    "Sorted",
    "Told",
    "Triage",
    "TriageError",
    "calibrate_run",
    "cases_of",
    "read_about",
    "read_calibration",
    "read_told",
    "sort",
    "sort_run",
    "write_triage",
]
