"""More features of a model's decisions: what the indices of the same spectrum say, and whether its claims hold.

A policy that measures has its evidence in its own verdict; for a model it is measured again from the file, or taken
from a run of `line-indices` over the same list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from specvet.vetting.triage.cases import cases_of, index_features

if TYPE_CHECKING:
    from specvet.records import Decision, RunFolder
    from specvet.records.schema import Question
    from specvet.spectra import Spectrum
    from specvet.tasks import Task
    from specvet.tools import ZoomTool

MEASURED = ("index", "index_sn")


class RunIndices:
    """Index evidence out of a run of `line-indices`, by file, row and task."""

    def __init__(self, indices: RunFolder, run: RunFolder) -> None:
        """`indices` holds the evidence, `run` is the one whose decisions are asked about."""
        self._run = run
        self._found = {
            (indices.own_key(case.file), case.row, case.task): {
                n: case.features[n] for n in MEASURED if n in case.features
            }
            for case in cases_of(indices.decisions(with_trajectories=True))
        }

    def __call__(self, decision: Decision) -> Mapping[str, float]:
        return self._found.get((self._run.own_key(decision.file), decision.row, decision.task), {})


class Measuring:
    """Reads each spectrum again and measures it; samples and tasks of one spectrum share the reading."""

    def __init__(self, run: RunFolder, *, indices: bool = True, claims: bool = True) -> None:
        from specvet.policies.line_indices import LineIndices
        from specvet.vetting.report.run import Spectra, definitions

        self._tasks = definitions(run)
        self._mode = str(run.settings.get("frame_mode", "careful"))
        self._spectra = Spectra(Path(run.path))
        self._policy = LineIndices()
        self._indices, self._claims = indices, claims
        self._last: tuple[str, int] | None = None
        self._spectrum: Spectrum | None = None
        self._known: dict[str, Mapping[str, float]] = {}
        self.readable = True
        """Whether the last decision's could be read, and is what the policy saw."""

    def __call__(self, decision: Decision) -> Mapping[str, float]:
        task, trajectory = self._tasks.get(decision.task), decision.trajectory
        self.readable = True
        if task is None or trajectory is None:
            return {}
        if (decision.file, decision.row) != self._last:
            self._last, self._known = (decision.file, decision.row), {}
            self._spectrum = self._read(decision)
        if self._spectrum is None:
            self.readable = False
            return {}
        found: dict[str, float] = {}
        if self._indices and not decision.verdict.evidence:
            if decision.task not in self._known:
                self._known[decision.task] = self._measured(decision, self._spectrum, task, trajectory.question)
            found |= self._known[decision.task]
        if self._claims and trajectory.ledger is not None:
            found |= self._claimed(decision, self._spectrum, task)
        return found

    def _read(self, decision: Decision) -> Spectrum | None:
        """None where it is gone, cannot be read, or has changed since the policy saw it."""
        try:
            spectrum = self._spectra(decision.file, decision.row)
        except (OSError, ValueError):
            return None
        seen = decision.trajectory.spectrum_hash if decision.trajectory else None
        same = spectrum is not None and seen in (None, "", spectrum.content_hash)
        return spectrum if same else None

    def _tool(self, decision: Decision, spectrum: Spectrum) -> ZoomTool:
        from specvet.tools import ZoomTool
        from specvet.vetting.rows import is_users_z

        z = decision.z if is_users_z(decision.frame) else None
        return ZoomTool(spectrum, z=z, mode=self._mode)  # type: ignore[arg-type]

    def _measured(self, decision: Decision, spectrum: Spectrum, task: Task, question: Question) -> Mapping[str, float]:
        from specvet.agent import run_agent

        if not task.evidence:
            return {}
        verdict = run_agent(question, task, self._tool(decision, spectrum), self._policy).verdict
        return index_features(verdict) if verdict.evidence else {}

    def _claimed(self, decision: Decision, spectrum: Spectrum, task: Task) -> Mapping[str, float]:
        from specvet.vetting.claims import check_decision

        states = [claim.state for claim in check_decision(decision, spectrum, task)]
        return {name: math.log1p(states.count(name)) for name in ("supported", "contradicted")}
