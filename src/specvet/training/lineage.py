"""How a model came about: the receipts of the runs that made it, from the first to the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specvet.policies.catalogue import ModelError, read_manifest
from specvet.records import file_hash
from specvet.training.checkpoints import resolve_start
from specvet.training.config import ConfigError, TrainConfig
from specvet.training.profiles import read_config


def lineage(run: str | Path) -> list[dict[str, Any]]:
    """One object a stage, `{"stage": "grpo", "run": "grpo", "receipt_sha256": …, …}`, as manifests keep them.

    The run's own comes last; before it those of the run that its `--from` names, and so on to the model that the first
    began from, whose manifest tells its own. What has gone since is left out. Raises ConfigError for what is no run.
    """
    found: list[dict[str, Any]] = []
    place: Path | None = Path(run)
    config: TrainConfig | None = None
    while place is not None and (place / "run.db").is_file():
        config = read_config(str(place))
        told: dict[str, Any] = {
            "stage": config.stage,
            "run": place.name,
            "profile": config.profile,
            "seed": config.seed,
        }
        if (place / "receipt.json").is_file():
            told["receipt_sha256"] = file_hash(place / "receipt.json")
        found.insert(0, told)
        place = None if config.start is None or "://" in config.start else Path(config.start).parents[1]
    if config is None:
        raise ConfigError(f"{run}: is no training run; give the folder that --out named")
    return found if config.model.name is None else _told_by(config.model.name) + found


def made_by(given: str) -> tuple[str, list[dict[str, Any]]]:
    """(model folder, or a service's address; its lineage) of a run, a checkpoint or a model folder.

    Raises CheckpointError, ConfigError.
    """
    if (Path(given) / "config.json").is_file():
        return given, _told_by(given)
    start = resolve_start(given)
    assert start.sampler is not None
    return start.sampler, [] if start.checkpoint is None else lineage(start.checkpoint.folder.parents[1])


def _told_by(model: str) -> list[dict[str, Any]]:
    """The receipts in a model's own manifest; none of a model of others."""
    try:
        return [dict(receipt) for receipt in read_manifest(model).receipts]
    except ModelError:
        return []
