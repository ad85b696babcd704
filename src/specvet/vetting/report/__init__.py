"""The report: in comes a run; out comes one self-contained HTML page with every spectrum, zoom, measurement and reason.

`write_report` takes a run folder; `render` takes decisions and a way to read spectra again.
"""

from specvet.vetting.report.page import About, render
from specvet.vetting.report.run import write_report

__all__ = ["About", "render", "write_report"]
