"""The `embedded` policy: a small vision-language model with ONNX Runtime, numpy and tokenizers, without torch.

In the package lie graphs without weights (`graphs/`, written by `building.py`) and, in a release, the model `nano`
(`models/nano`, a folder as transformers has it), whose weights are given to the graphs when a policy opens. Nothing
here imports onnxruntime until then. Thread, requests and rows are those of `policies/serving`; positions and pixel
rules are the torch policy's, in those of its modules that import no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specvet.policies.embedded.policy import EmbeddedPolicy
    from specvet.policies.options import ModelOptions

__all__ = ["open_policy"]


def open_policy(options: ModelOptions) -> EmbeddedPolicy:
    """The policy of the packaged `nano` (without a model named), of a fetched model by name, or of a model folder.

    Raises PolicyError for a folder that is missing, damaged or of another shape, and for an option that it cannot use.
    """
    from specvet.policies.embedded.policy import EmbeddedPolicy

    return EmbeddedPolicy.open(options)
