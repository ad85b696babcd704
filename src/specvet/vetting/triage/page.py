"""`page.html` of a triage: how far its probabilities can be believed, what looks buy, and where this list lies."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet import __version__
from specvet.records import write_atomic
from specvet.vetting.triage.drawing import figure
from specvet.vetting.triage.sorting import grouped, percent

if TYPE_CHECKING:
    from specvet.vetting.triage.calibration import Calibration
    from specvet.vetting.triage.settings import Settings
    from specvet.vetting.triage.sorting import TaskCount, Triage


def write_page(path: Path, name: str, triage: Triage, settings: Settings, calibration: Calibration | None) -> None:
    """Write the page; it needs no network. Raises `OSError`."""
    from specvet.vetting.templates import page_template

    page = {
        "name": name,
        "version": __version__,
        "tasks": [_task(key, count) for key, count in triage.tasks.items()],
        "rows": len(triage.rows),
        "looks": triage.looks,
        "fewer": f"{len(triage.rows) / triage.looks:.1f}" if triage.looks else "",
        "settings": settings,
        "calibration": calibration,
        "notices": [*triage.notices, *_said((t, d) for t, c in triage.tasks.items() for d in c.drift)],
        "promises": _said((t, c.promise.text) for t, c in triage.tasks.items() if c.promise is not None),
        "figure": _svg(figure(triage, settings, calibration)),
    }
    write_atomic(path, page_template("specvet.vetting.triage", "page.html").render(page=page))


def _said(said: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{', '.join(tasks)}: {text}." for text, tasks in grouped(said).items()]


def _task(key: str, count: TaskCount) -> dict[str, Any]:
    p = count.prevalence
    return {
        "key": "unreadable" if key == "*" else key,
        "n": count.n,
        "prevalence": "" if p is None else f"{percent(p.value)} %",
        "interval": "" if p is None or p.source == "given" else f"{percent(p.low)} to {percent(p.high)} %",
        "source": "" if p is None else p.source,
        "bands": [
            {
                "n": band.n,
                "members": "" if band.members is None or not band.n else f"{band.members:.1f}",
                "interval": ""
                if band.low is None or band.high is None or not band.n
                else f"{band.low:.1f} to {band.high:.1f}",
            }
            for band in count.bands.values()
        ],
        "audit": count.audit,
        "looks": count.looks,
    }


def _svg(drawn: Any) -> Any:
    from markupsafe import Markup
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "specvet", "svg.fonttype": "none"}):
        # Without a ground of its own, so that it stands on the page's, light or dark.
        drawn.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # drawn here: no text of strangers but task keys, escaped by matplotlib
