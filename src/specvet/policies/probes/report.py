"""What a probe found, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Sense = Literal["", "at most", "at least", "more than", "exactly"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to a backend and what came of it."""

    name: str
    ok: bool | None
    """None where it could not be asked; `skipped` then says why."""
    value: float | None = None
    """What was measured."""
    bound: float | None = None
    """What `value` is held against, as `sense` says."""
    detail: str = ""
    """What `value` is, in words."""
    sense: Sense = ""
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As receipts and `specvet doctor --json` hold it; only a skipped probe has `skipped`."""
        told: dict[str, Any] = {"name": self.name, "ok": self.ok, "value": self.value, "bound": self.bound}
        if self.sense:
            told["sense"] = self.sense
        if self.detail:
            told["detail"] = self.detail
        if self.ok is None:
            told["skipped"] = self.skipped
        return told


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """All probes of one policy."""

    policy: str
    probes: tuple[Probe, ...]
    requests: int
    """That were sent for it."""
    seconds: float

    @property
    def ok(self) -> bool:
        """No probe failed; some may have been skipped."""
        return not self.failed

    @property
    def failed(self) -> tuple[Probe, ...]:
        return tuple(p for p in self.probes if p.ok is False)

    @property
    def skipped(self) -> tuple[Probe, ...]:
        return tuple(p for p in self.probes if p.ok is None)

    def __getitem__(self, name: str) -> Probe:
        for found in self.probes:
            if found.name == name:
                return found
        raise KeyError(name)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        return {
            "policy": self.policy,
            "ok": self.ok,
            "probes": [p.as_dict() for p in self.probes],
            "requests": self.requests,
            "seconds": round(self.seconds, 3),
        }


def within(name: str, value: float, bound: float, detail: str = "") -> Probe:
    """Passed where `value` does not exceed `bound`."""
    return Probe(name, value <= bound, value, bound, detail, "at most")


def beyond(name: str, value: float, bound: float, detail: str = "") -> Probe:
    """Passed where `value` exceeds `bound`."""
    return Probe(name, value > bound, value, bound, detail, "more than")


def reached(name: str, value: float, bound: float, detail: str = "") -> Probe:
    """Passed where `value` is no less than `bound`."""
    return Probe(name, value >= bound, value, bound, detail, "at least")


def equal(name: str, value: float, bound: float, detail: str = "") -> Probe:
    """Passed where `value` is `bound`."""
    return Probe(name, value == bound, value, bound, detail, "exactly")


def skipped(name: str, why: str) -> Probe:
    """Not asked."""
    return Probe(name, None, skipped=why)
