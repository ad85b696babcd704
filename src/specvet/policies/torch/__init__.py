"""The `torch` policy: transformers models on this machine, sampled token by token with a kept KV cache.

Nothing here imports torch until a policy is opened, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specvet.policies.options import ModelOptions
    from specvet.policies.torch.policy import TorchPolicy

__all__ = ["open_policy"]


def open_policy(options: ModelOptions) -> TorchPolicy:
    """The policy of a model folder, a hub id, or (without either) of a tiny random model.

    Raises PolicyError where torch or transformers are missing, where there is no such model, or for an option that this
    policy cannot use.
    """
    from specvet.policies.tokens import PolicyError

    try:
        from specvet.policies.torch.policy import TorchPolicy
    except ModuleNotFoundError as e:
        raise PolicyError(
            f"the torch policy needs {e.name}, which is not installed: pip install 'specvet[train]'", fatal=True
        ) from e
    return TorchPolicy.open(options)
