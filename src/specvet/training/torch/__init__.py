"""The `torch` trainer: a transformers model on this machine, LoRA or whole, sampled with the very weights it trains.

Nothing here imports torch until a trainer is opened, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specvet.training.trainer import TrainerError, TrainerOptions

if TYPE_CHECKING:
    from specvet.training.torch.sharded import ShardedTrainer
    from specvet.training.torch.trainer import TorchTrainer

__all__ = ["open_trainer"]


def open_trainer(options: TrainerOptions) -> TorchTrainer | ShardedTrainer:
    """The trainer of a model folder, a hub id, or (without either) of a tiny random model.

    Raises TrainerError where torch, transformers or peft are missing, where there is no such model or state, for a
    state of another model, and for an option that this trainer cannot use.
    """
    try:
        import peft  # noqa: F401

        from specvet.training.torch.sharded import ShardedTrainer
        from specvet.training.torch.trainer import TorchTrainer
    except ModuleNotFoundError as e:
        raise TrainerError(
            f"the torch trainer needs {e.name}, which is not installed: pip install 'specvet[train]'"
        ) from e
    return ShardedTrainer.open(options) if options.processes > 1 else TorchTrainer.open(options)
