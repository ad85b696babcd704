"""From question files to a specialist's folder: `specialist.json`, its weights, and the receipt of its training.

    read questions → measure what is seen → fit → stop and calibrate on validation → write

The same data, seed and versions write the same card and weights; times and losses stand in `receipt.json` alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.data.errors import InputError
from specvet.policies.specialists.card import (
    CARD,
    NETWORK_FILE,
    RECEIPT,
    TREES_FILE,
    Card,
    Kind,
    SpecialistError,
    marks,
    write_card,
)
from specvet.policies.specialists.forest import forests_bytes
from specvet.policies.specialists.grid import grid_settings, on_grid
from specvet.policies.specialists.sight import NAMES, index_values, indices_hash
from specvet.records import bytes_hash, versions, write_atomic
from specvet.spectra import FrameMode, Spectrum
from specvet.training.specialists.calibrating import fitted_temperature, log_loss, scores
from specvet.training.specialists.examples import Examples, both_answers, held_out, read_examples

Told = Callable[[str, int, int], None]
"""Called with what is going on, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was trained."""

    card: Card
    receipt: dict[str, Any]
    """As written, but for the marks of the spectra."""

    @property
    def constant(self) -> list[str]:
        """Tasks of which it says the same whatever the spectrum shows, since its trees had too little to split."""
        return list(self.receipt["constant"])


def train_specialist(
    kind: Kind,
    questions: str,
    out: Path,
    *,
    validation: str | None = None,
    seed: int = 0,
    frame_mode: FrameMode = "careful",
    told: Told = lambda what, done, total: None,
) -> Report:
    """Train a specialist on the questions of a file and write it into the folder `out`, which must not hold one.

    Without `validation`, a tenth of the objects is held out; `majority` needs none. Raises InputError for questions
    that cannot be learnt from, SpecialistError for what is in the way or not installed, OSError.
    """
    if (out / CARD).exists():
        raise SpecialistError(f"{out}: holds a specialist already; name another folder")
    started, clock = datetime.now(UTC), time.monotonic()
    measure = {"majority": _nothing, "trees": _indices, "cnn": on_grid}[kind]
    training = read_examples(questions, measure, frame_mode, lambda done, total: told("training spectra", done, total))
    held: Examples | None = None
    if kind != "majority":
        if validation:
            held = read_examples(
                validation, measure, frame_mode, lambda done, total: told("validation spectra", done, total)
            )
            held = _of_tasks(held, training, validation)
        else:
            training, held = held_out(training, seed)
            if not len(held):
                raise InputError(f"{questions}: too few objects to hold some out; give --validation a file of others")
        both_answers(training, questions)
    fitted = _Fitted({}, {}, {})
    if held is not None:
        fit = _fit_trees if kind == "trees" else _fit_cnn
        try:
            fitted = fit(training, held, seed, told)
        except ModuleNotFoundError as e:
            name = "scikit-learn" if e.name == "sklearn" else e.name
            raise SpecialistError(
                f"training {kind} needs {name}, which is not installed: pip install 'specvet[train]'"
            ) from None
    temperature, checked = 1.0, {}
    if held is not None and fitted.log_odds is not None:
        temperature = fitted_temperature(fitted.log_odds, held.yes)
        checked = scores(fitted.log_odds / temperature, held.yes, held.task, len(held.tasks))
        checked["log_loss_uncalibrated"] = round(log_loss(fitted.log_odds, held.yes), 6)
    card = Card(
        kind=kind,
        tasks=training.task_cards(),
        frame=frame_mode,
        sees=fitted.sees,
        temperature=temperature,
        seed=seed,
        settings=fitted.settings,
        training=training.data(),
        validation=None if held is None else held.data(),
        held_out=held is not None and validation is None,
        versions=_versions(),
        files={name: bytes_hash(content) for name, content in fitted.files.items()},
    )
    receipt = {
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 1),
        "questions": questions,
        "validation": validation,
        "validated": checked,
        "losses": fitted.losses,
        "constant": list(fitted.settings.get("constant", ())),
        "rejects": [asdict(r) for part in (training, held) if part is not None for r in part.rejects],
    }
    learnt = marks(sha for part in (training, held) if part is not None for sha in part.sources)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in fitted.files.items():
        write_atomic(out / name, content)
    write_atomic(out / RECEIPT, json.dumps(receipt | {"spectra": learnt}, indent=1, ensure_ascii=False) + "\n")
    write_card(out, card)  # last: a folder with a card is whole
    return Report(card, receipt)


@dataclass(frozen=True, slots=True)
class _Fitted:
    files: dict[str, bytes]
    sees: dict[str, Any]
    settings: dict[str, Any]
    losses: list[Any] | None = None
    log_odds: NDArray[np.float64] | None = None
    """Of the validation questions, before a temperature."""


def _nothing(_spectrum: Spectrum) -> NDArray[np.float64]:
    return np.empty(0)


def _indices(spectrum: Spectrum) -> NDArray[np.float64] | None:
    values = index_values(spectrum)
    return values if np.isfinite(values).any() else None


def _fit_trees(training: Examples, held: Examples, seed: int, told: Told) -> _Fitted:
    from specvet.training.specialists.trees import TreesConfig, fit_trees

    told("boosting", 0, 1)
    config = TreesConfig()
    forests, losses = fit_trees(training, held, seed, config)
    told("boosting", 1, 1)
    log_odds = np.empty(len(held))
    for key, forest in forests.items():
        mine = held.of(key)
        log_odds[mine] = forest.log_odds(held.x[mine].astype(np.float64))
    settings = asdict(config) | {"trees": int(next(iter(forests.values())).roots.size)}
    if constant := [key for key, forest in forests.items() if forest.constant]:
        settings["constant"] = constant
    return _Fitted(
        {TREES_FILE: forests_bytes(forests)},
        {"indices": list(NAMES), "hash": indices_hash()},
        settings,
        [round(loss, 6) for loss in losses],
        log_odds,
    )


def _fit_cnn(training: Examples, held: Examples, seed: int, told: Told) -> _Fitted:
    from safetensors.torch import save

    from specvet.policies.specialists.network import n_weights
    from specvet.training.specialists.cnn import CnnConfig, fit_cnn, network_log_odds

    config = CnnConfig()
    network, history = fit_cnn(training, held, seed, config, lambda done, total: told("epochs", done, total))
    log_odds = network_log_odds(network, held)
    content = save({name: tensor.contiguous() for name, tensor in network.state_dict().items()})
    settings = config.as_dict() | {"weights": n_weights(network), "epochs_done": len(history)}
    return _Fitted({NETWORK_FILE: content}, grid_settings(), settings, history, log_odds)


def _of_tasks(held: Examples, training: Examples, where: str) -> Examples:
    """The validation questions about tasks that are trained, with the training's places. Raises InputError."""
    keys, known = list(training.tasks), np.array([key in training.tasks for key in held.tasks])
    if not known.any():
        raise InputError(f"{where}: asks about {', '.join(held.tasks)}, and training about {', '.join(keys)}")
    kept = held.take(known[held.task])
    places = np.array([keys.index(key) if key in keys else -1 for key in held.tasks])
    return kept.asked(training.tasks, places[kept.task])


def _versions() -> dict[str, str]:
    """Of what makes weights; the platform is not told, so that one seed gives one card."""
    found = {name: v for name, v in versions().items() if name in ("python", "specvet", "numpy", "scipy", "torch")}
    for package in ("scikit-learn", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
