"""The policy: look once, answer at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import expit

from specvet.policies.base import Action, Answered, Capability, Trajectory
from specvet.policies.specialists.card import (
    NETWORK_FILE,
    TREES_FILE,
    Card,
    SpecialistError,
    fingerprint,
    marks,
    read_card,
    read_marks,
)
from specvet.policies.specialists.forest import read_forests
from specvet.policies.specialists.sight import INDICES, NAMES, index_values, indices_hash, seen
from specvet.records.schema import Answer, Verdict
from specvet.spectra import Spectrum
from specvet.tasks import Task, TaskError


@dataclass(frozen=True, slots=True)
class Look:
    """What a specialist makes of one spectrum."""

    said: str
    """On what it rests, in words."""
    p_yes: dict[str, float] = field(default_factory=dict)
    """By task; empty where there is nothing to judge by."""


Judge = Callable[[Spectrum], Look]


class Specialist:
    """A trained classifier. It says YES or NO with a probability, and UNSURE only where it sees nothing it measures."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, folder: str | Path) -> None:
        """Raises SpecialistError: what is wrong with the folder, or what must be installed to run it."""
        self.folder = Path(folder)
        self.card: Card = read_card(self.folder)
        self.name: str = self.card.kind
        self._fingerprint = fingerprint(self.folder, self.card)
        self._marks = read_marks(self.folder)
        self._judge = _JUDGES[self.card.kind](self.folder, self.card)
        self._last: tuple[Spectrum, float, Look] | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of its card and weights."""
        return self._fingerprint

    def learnt(self, spectrum_hash: str) -> bool | None:
        """Whether it learnt from a spectrum, or was stopped by it; None where its folder does not tell.

        `spectrum_hash` is a trajectory's. Another exposure of the same star is another spectrum.
        """
        return None if self._marks is None else not self._marks.isdisjoint(marks([spectrum_hash]))

    def act(self, trajectory: Trajectory) -> Action:
        """The answer."""
        data, key = trajectory.opening.data, trajectory.task.key
        assert data is not None  # an opening without data is no trajectory
        last = self._last
        if last is None or last[0] is not data.spectrum or last[1] != data.frame.z:
            last = self._last = data.spectrum, data.frame.z, self._judge(seen(data))
        look = last[2]
        if not look.p_yes:
            return Answered(Verdict(answer=Answer.UNSURE, confidence=0.5, p_yes=0.5, reason=look.said))
        p = round(look.p_yes[key], 6)
        answer, confidence = (Answer.YES, p) if p > 0.5 else (Answer.NO, round(1.0 - p, 6))
        reason = f"{answer} with a probability of {100 * confidence:.1f} %, {look.said}"
        return Answered(Verdict(answer=answer, confidence=confidence, p_yes=p, reason=reason))

    def check(self, task: Task) -> None:
        """Whether it was trained on this task. Raises TaskError."""
        if task.key not in self.card.tasks:
            raise TaskError(
                f"{self.folder}: {self.name} was never trained on the task {task.key!r}, only on "
                f"{', '.join(self.card.tasks)}; ask those, or train one with questions about it"
            )


def open_specialist(kind: str, folder: str | Path) -> Specialist:
    """The specialist in `folder`, which must be of that kind. Raises SpecialistError."""
    found = read_card(Path(folder)).kind
    if found != kind:
        raise SpecialistError(f"{folder}: holds {found}, not {kind}; say --policy {found}, or name another folder")
    return Specialist(folder)


def _majority(_folder: Path, card: Card) -> Judge:
    shares = {key: task.share for key, task in card.tasks.items()}
    look = Look("the commonest answer of the training questions, whatever the spectrum shows", shares)
    return lambda _spectrum: look


def _trees(folder: Path, card: Card) -> Judge:
    if card.sees.get("hash") != indices_hash():
        raise SpecialistError(
            f"{folder}: its trees were trained on other line indices than this specvet measures; train them again, "
            f"or use specvet {card.versions.get('specvet', 'as it was then')}"
        )
    forests = read_forests(folder / TREES_FILE, card.tasks, len(INDICES))

    def judge(spectrum: Spectrum) -> Look:
        values = index_values(spectrum)
        n = int(np.isfinite(values).sum())
        if not n:
            return Look(f"none of the {len(NAMES)} line indices could be measured")
        log_odds = [float(forest.log_odds(values[None])[0]) for forest in forests.values()]
        said = f"by boosted trees on {n} of {len(NAMES)} line indices"
        return Look(said, dict(zip(forests, _probabilities(log_odds, card), strict=True)))

    return judge


def _cnn(folder: Path, card: Card) -> Judge:
    from specvet.policies.specialists.grid import HIGH, LOW, grid_settings, on_grid

    if card.sees != grid_settings():
        raise SpecialistError(f"{folder}: its network was trained on another grid than this specvet makes; train again")
    try:
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from specvet.policies.specialists.network import Network
    except ModuleNotFoundError as e:
        raise SpecialistError(f"the cnn needs {e.name}, which is not installed: pip install 'specvet[train]'") from None
    network = Network(len(card.sees["channels"]), tuple(card.tasks))
    try:
        network.load_state_dict(load_file(folder / NETWORK_FILE))
    except (SafetensorError, RuntimeError, OSError) as e:
        raise SpecialistError(f"{folder / NETWORK_FILE}: are not this network's weights ({e})") from None
    if not all(torch.isfinite(tensor).all() for tensor in network.state_dict().values()):
        raise SpecialistError(f"{folder / NETWORK_FILE}: holds weights that are no finite numbers; train it again")
    network.eval()

    def judge(spectrum: Spectrum) -> Look:
        channels = on_grid(spectrum)
        if channels is None:
            return Look(f"less than a tenth of {LOW:.0f}-{HIGH:.0f} Å holds flux, on which the network looks")
        with torch.inference_mode():
            log_odds = network(torch.from_numpy(channels)[None])[0].tolist()
        share = 100.0 * float(channels[1].mean())
        said = f"by a convolutional network on {share:.0f} % of {LOW:.0f}-{HIGH:.0f} Å"
        return Look(said, dict(zip(network.tasks, _probabilities(log_odds, card), strict=True)))

    return judge


def _probabilities(log_odds: list[float], card: Card) -> list[float]:
    told: list[float] = expit(np.array(log_odds) / card.temperature).tolist()
    return told


_JUDGES: dict[str, Callable[[Path, Card], Judge]] = {"majority": _majority, "trees": _trees, "cnn": _cnn}
