"""Watching a training run: metrics in, out go trackers, alarms, summaries. `specvet.training.plot` draws them."""

from specvet.training.watch.alarms import RULES, Alarm, Alarms
from specvet.training.watch.metrics import METRICS, MetricsError, read_metrics, summary
from specvet.training.watch.trackers import TrackerError, Trackers, check_trackers, open_trackers
from specvet.training.watch.watch import RunWatch

__all__ = [
    "METRICS",
    "RULES",
    "Alarm",
    "Alarms",
    "MetricsError",
    "RunWatch",
    "TrackerError",
    "Trackers",
    "check_trackers",
    "open_trackers",
    "read_metrics",
    "summary",
]
