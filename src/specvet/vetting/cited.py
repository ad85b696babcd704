"""What a run says for its citation: `specvet.catalogue.citing.RunFacts`, from its decisions and what triage wrote.

Decisions are gone through once, without trajectories. What people decided is no matter of this room: whoever knows
reviews adds it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from specvet.catalogue.citing import PolicyFacts, RunFacts, SurveyFacts, TaskFacts, TriageFacts
from specvet.catalogue.objects import RADIUS_ARCSEC
from specvet.policies import MODELS
from specvet.records import WHOLE_FILE, Decision, RunError, RunFolder
from specvet.tasks import Task, TaskError, load_task
from specvet.vetting.objects import groups_of
from specvet.vetting.origin import MEASURING, Origin, origin_of
from specvet.vetting.prefilter import PREFIX

SIMULATED = "SIMULATED"
"""What simulated spectra carry in their warnings, releases and identifiers."""

KINDS = ("vet", "rollout", "eval")


def run_facts(run: RunFolder) -> RunFacts:
    """The facts of a run of vet, rollout or eval; also of one without decisions, or that is still going on.

    Raises `RunError` for a training run, `specvet.vetting.triage.TriageError` where what triage wrote is damaged,
    `specvet.data.errors.InputError` where what matching wrote is.
    """
    if run.kind not in KINDS:
        raise RunError(
            f"{run.path}: is a run of {run.kind}; a run of vet, rollout or eval is cited, or a cell of a campaign"
        )
    config, origin, sessions = run.config, origin_of(run), run.sessions()
    seen = _Seen()
    for decision in run.decisions():
        seen.take(decision)
    objects = [found for found in groups_of(run) if any(s.key in seen.spectra for s in found.members)]
    days = [s.started for s in sessions] + [s.ended for s in sessions if s.ended]
    asked = [s.asked for s in sessions]
    return RunFacts(
        name=run.path.resolve().name,
        kind=run.kind,
        receipt=_receipt_hash(run.path),
        began=min(days)[:10] if days else None,
        ended=max(days)[:10] if days else None,
        specvet=origin.versions,
        versions={k: str(v) for k, v in (config.get("versions") or {}).items()},
        files=len(seen.files),
        unreadable=seen.unreadable,
        spectra=len(seen.spectra),
        objects=len(objects),
        gaia_objects=sum(bool(found.gaia_id) for found in objects),
        radius_arcsec=RADIUS_ARCSEC,
        simulated=sum(s.simulated for s in seen.spectra.values()),
        decisions=seen.decisions,
        snr=median(snr) if (snr := [s.snr for s in seen.spectra.values() if s.snr is not None]) else None,
        snr_of=len(snr),
        mjd=(min(mjd), max(mjd)) if (mjd := [s.mjd for s in seen.spectra.values() if s.mjd is not None]) else None,
        mjd_of=len(mjd),
        surveys=seen.surveys(),
        tasks=_tasks(run, origin, seen.answers),
        policy=_policy(config, run.settings, origin, seen.prefiltered),
        group=int(config.get("group") or 1),
        questions=str((config.get("cell") or {}).get("set") or ""),
        seed=(config.get("cell") or {}).get("seed"),
        shards=tuple(dict.fromkeys(str(a["shard"]) for a in asked if a.get("shard"))),
        interrupted=bool(sessions) and (sessions[-1].interrupted or sessions[-1].ended is None),
        triage=_triage(run.path),
    )


class _Spectrum:
    """What is kept of one (file, row)."""

    __slots__ = ("mjd", "simulated", "snr", "source")

    def __init__(self, d: Decision) -> None:
        self.snr, self.mjd = d.snr, d.mjd
        self.source = d.survey or "unknown", d.release, d.reduction
        words = (*d.warnings, d.release, d.reduction, d.id, *d.ids.values())
        self.simulated = any(SIMULATED in word for word in words)


class _Seen:
    """Counts, as decisions go by."""

    def __init__(self) -> None:
        self.spectra: dict[tuple[str, int], _Spectrum] = {}
        self.files: set[str] = set()
        self.answers: dict[str, Counter[str]] = {}
        self.decisions = self.unreadable = self.prefiltered = 0

    def take(self, d: Decision) -> None:
        self.decisions += 1
        self.files.add(d.file)
        if d.task == WHOLE_FILE:
            self.unreadable += 1
            return
        if (d.file, d.row) not in self.spectra:
            self.spectra[d.file, d.row] = _Spectrum(d)
        self.answers.setdefault(d.task, Counter())[str(d.verdict.answer)] += 1
        self.prefiltered += d.verdict.reason.startswith(PREFIX)

    def surveys(self) -> tuple[SurveyFacts, ...]:
        """The commonest first."""
        n = Counter(s.source for s in self.spectra.values())
        simulated = Counter(s.source for s in self.spectra.values() if s.simulated)
        ordered = sorted(n, key=lambda source: (-n[source], source))
        return tuple(SurveyFacts(*source, n[source], simulated[source]) for source in ordered)


def _tasks(run: RunFolder, origin: Origin, answers: Mapping[str, Counter[str]]) -> tuple[TaskFacts, ...]:
    kept: dict[str, Task] = {}
    for file in sorted((run.path / "tasks").glob("*.yaml")):
        try:
            task = load_task(file)
        except (TaskError, OSError):
            continue
        kept[task.key] = task
    found = []
    for key in dict.fromkeys((*origin.tasks, *kept, *answers)):
        known = kept.get(key)
        name, sources = (key, ()) if known is None else (known.name, known.sources)
        indices = () if known is None or MEASURING not in origin.models else tuple(_measured(known))
        found.append(TaskFacts(key, name, origin.tasks.get(key), dict(answers.get(key, {})), sources, indices))
    return tuple(found)


def _measured(task: Task) -> Iterable[str]:
    """The sources of the indices that `line-indices` weighs for a task."""
    from specvet.policies.line_indices import task_indices
    from specvet.spectra.formulas import formula_names
    from specvet.spectra.indices import FormulaIndex

    indices = task_indices(task)
    names = [e.index for e in task.evidence] + [c.index for e in task.evidence for c in e.given]
    said: dict[str, None] = {}
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in indices:
            continue
        seen.add(name)
        index = indices[name]
        said.setdefault(index.source)
        if isinstance(index, FormulaIndex):
            waiting += formula_names(index.formula)
    return [source for source in said if source]


def _policy(
    config: Mapping[str, Any], settings: Mapping[str, Any], origin: Origin, prefiltered: int
) -> PolicyFacts | None:
    model = origin.model
    if origin.policy is None or model is None:
        return None
    temperature = settings.get("sampling.temperature")
    prefilter = str(settings.get("prefilter") or "none")
    return PolicyFacts(
        policy=origin.policy,
        name=model.name,
        hash=model.hash,
        of=model.of,
        measures=origin.policy not in MODELS and "wording" not in settings,
        turns=settings.get("budget.max_turns"),
        temperature=None if temperature is None else float(temperature),
        style=str(settings.get("style") or ""),
        wording=str(settings.get("wording") or ""),
        guarded=bool(settings.get("guard")),
        prefilter="" if prefilter == "none" else prefilter,
        prefiltered=prefiltered,
    )


def _triage(run: Path) -> tuple[TriageFacts, ...]:
    from specvet.vetting.triage.folder import read_about

    about = read_about(run)
    if about is None:
        return ()
    settings, calibration = about.get("settings") or {}, about.get("calibration")
    found = []
    for task, told in (about.get("tasks") or {}).items():
        if task == WHOLE_FILE:
            continue
        bands, share, promise = told["bands"], told.get("prevalence") or {}, told.get("promise") or {}
        found.append(
            TriageFacts(
                task=task,
                **{band: int(bands[band]["n"]) for band in ("accept", "look", "reject")},
                audit=int(told.get("audit") or 0),
                calibrated=calibration is not None,
                prevalence=share.get("value"),
                low=share.get("low"),
                high=share.get("high"),
                source=share.get("source", ""),
                promised=bool(promise),
                rejects=promise.get("reject_below") is not None,
                accepts=promise.get("accept_from") is not None,
                scope=promise.get("scope", ""),
                members=int(promise.get("members") or 0),
                max_lost=settings.get("max_lost", 0.0),
                max_false=settings.get("max_false", 0.0),
                confidence=settings.get("confidence", 0.0),
                calibration=(calibration or {}).get("sha256") or "",
                cases=_number((calibration or {}).get("cases")),
                simulated_cases=_number((calibration or {}).get("simulated")),
            )
        )
    return tuple(found)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _receipt_hash(run: Path) -> str | None:
    try:
        content = (run / "receipt.json").read_bytes()
        json.loads(content)
    except (OSError, ValueError):
        return None
    return hashlib.sha256(content).hexdigest()
