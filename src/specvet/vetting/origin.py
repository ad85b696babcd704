"""Where the decisions of a run come from: which model by name and hash, which tasks, which specvet.

All of it stands in the run (`config.yaml`, settings, receipt). What a run of an older specvet does not hold is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from specvet.records.settings import TASK

if TYPE_CHECKING:
    from specvet.records import Decision, RunFolder

DIGITS = 12
"""Of a SHA-256, in a cell: as many as `specvet models` shows. Receipts and headers have all 64."""

MEASURING = "line-indices"
"""Decides by itself, and before a model with `--prefilter`."""


class Model(NamedTuple):
    """Who decided."""

    name: str
    """`nano 1.0`, a server's name for its model, `line-indices`."""
    hash: str | None
    """SHA-256."""
    of: Literal["weights", "policy"]
    """What the hash is of: the model's files, as `specvet models` shows it; or all that makes a policy decide as it
    does, where there are no files or the run does not name them."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Of one run."""

    policy: str | None
    models: Mapping[str, Model] = field(default_factory=dict)
    """By policy: that of the run, and what measured before it was asked."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """Key → SHA-256 of all that the task says, as it was asked (`tasks/*.yaml` holds its words)."""
    versions: tuple[str, ...] = ()
    """Of specvet, of the sessions that worked on the run, in time."""

    @property
    def model(self) -> Model | None:
        """That of the run's policy."""
        return None if self.policy is None else self.models.get(self.policy)

    @property
    def version(self) -> str | None:
        return ", ".join(self.versions) or None

    def cells(self, decision: Decision) -> dict[str, Any]:
        """The cells of `specvet.vetting.columns.PROVENANCE` for one decision."""
        made = decision.trajectory
        model = self.models.get(made.policy) if made else None
        task = (made.task_hash if made else None) or self.tasks.get(decision.task)
        return {
            "model": model.name if model else None,
            "model_hash": _short(model.hash) if model else None,
            "task_hash": _short(task),
            "specvet": self.version,
            "decided": made.started if made else None,
            "release": decision.release or None,
            "reduction": decision.reduction or None,
            "mjd": decision.mjd,
            "ids": "; ".join(f"{name}={value}" for name, value in decision.ids.items()) or None,
        }


def origin_of(run: RunFolder) -> Origin:
    """What a run says of itself; reads its settings and sessions, no decisions."""
    config, settings = run.config, run.settings
    policy = settings.get("policy") or config.get("policy")
    policy = policy if isinstance(policy, str) else None
    models = {}
    measured = settings.get("prefilter_fingerprint")
    if measured:
        models[MEASURING] = Model(MEASURING, str(measured), "policy")
    if policy is not None:
        models[policy] = _model(policy, config, settings.get("policy_fingerprint"))
    tasks = {key.removeprefix(TASK): str(value) for key, value in settings.items() if key.startswith(TASK)}
    return Origin(policy, models, tasks, versions_of(s.specvet for s in run.sessions()))


def versions_of(said: Iterable[str]) -> tuple[str, ...]:
    """Each once, in the order in which they came."""
    return tuple(dict.fromkeys(version for version in said if version))


def _model(policy: str, config: Mapping[str, Any], fingerprint: object) -> Model:
    from specvet.policies.identity import described_identity

    told, descriptor = config.get("model_identity"), config.get("descriptor")
    if isinstance(descriptor, Mapping):
        told = described_identity(descriptor)
    told = told if isinstance(told, Mapping) else {}
    name = str(told.get("name") or _base(config.get("model")) or policy)
    weights = told.get("sha256")
    if weights:
        return Model(name, str(weights), "weights")
    return Model(name, str(fingerprint) if fingerprint else None, "policy")


def _base(model: object) -> str:
    """The name in a config of an older run, without the folders of the machine that it was on."""
    if not isinstance(model, str):
        return ""
    outside = model.startswith(("/", "~", ".")) or "\\" in model
    return model.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] if outside else model


def _short(digest: str | None) -> str | None:
    return digest[:DIGITS] if digest else None
