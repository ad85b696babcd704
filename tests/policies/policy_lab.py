"""What tests of policies share: small tasks, measurements out of the air, and spectra with lines of known width."""

from __future__ import annotations

from typing import Any

import numpy as np

from specvet.agent import run_agent
from specvet.policies import policy
from specvet.records.schema import Measurement, Question, SpectrumRef, TrajectoryRecord
from specvet.spectra import FrameMode, Spectrum
from specvet.tasks import Condition, Evidence, Task
from specvet.tools import ZoomTool


def m(value: float | None, error: float | None = None, quality: float = 1.0, name: str = "x") -> Measurement:
    return Measurement(index=name, name=name.upper(), value=value, error=error, quality=quality)


def e(index: str = "x", **more: Any) -> Evidence:
    return Evidence(**{"index": index, "side": "above", "at": 0.0, "soft": 1.0, "yes": 3.0, "no": -2.0, **more})


def c(index: str, at: float = 0.0, side: str = "above", soft: float = 1.0) -> Condition:
    return Condition(index=index, side=side, at=at, soft=soft)  # type: ignore[arg-type]


def task(**more: Any) -> Task:
    given: dict[str, Any] = {
        "key": "t",
        "name": "Hα emitter",
        "question": "Is it?",
        "include": ["it"],
        "exclude": ["not it"],
        "guidance": "Look.",
        "windows": [
            {"key": "ha", "name": "Hα", "range": [6400, 6700], "why": "emission"},
            {"key": "hb", "name": "Hβ", "range": [4700, 5050], "why": "emission"},
        ],
        "sources": ["a test"],
        **more,
    }
    return Task.model_validate(given)


HA = {"index": "ha", "side": "below", "at": -5.0, "soft": 1.0, "yes": 4.0, "no": -4.0, "when": "Hα in emission",
      "otherwise": "no Hα emission"}  # fmt: skip
HB = {"index": "hb", "side": "below", "at": -3.0, "soft": 1.0, "yes": 1.0, "no": 0.0, "when": "Hβ in emission"}


def star(ha: float = 0.0, hb: float = 0.0, low: float = 4000.0, high: float = 7000.0, **more: Any) -> Spectrum:
    """A flat continuum with Gaussians of 10 Å FWHM and the given equivalent widths, S/N 100."""
    w = np.arange(low, high, 1.0)
    rng = np.random.default_rng(7)
    sigma = 10 / 2.3548
    flux = 1 + rng.normal(0, 0.01, w.size)
    for centre, ew in ((6562.8, ha), (4861.35, hb)):
        flux -= ew / (sigma * np.sqrt(2 * np.pi)) * np.exp(-0.5 * ((w - centre) / sigma) ** 2)
    return Spectrum(w, flux, **{"ivar": np.full(w.size, 1e4), "medium": "air", **more})


def vetted(t: Task, s: Spectrum, mode: FrameMode = "careful") -> TrajectoryRecord:
    question = Question(id="q", task=t.key, spectrum=SpectrumRef(path="x"))
    return run_agent(question, t, ZoomTool(s, mode), policy("line-indices"))
