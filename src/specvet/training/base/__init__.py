"""Base training: a small model from nothing (or from another), on documents that processes make while it learns.

    source (documents) → producers (processes: ids, pictures) → feed (a thread: batches) → loop (a GPU) → model folder

Each batch is new, or shown once more where processes make fewer than the GPU takes. The network is the stock module of
`policies.torch.nano`; only its forward is written out here (`network.py`), for batches of pictures of few sizes.
"""

from specvet.training.base.config import BaseConfig
from specvet.training.base.source import DemonstrationSource, ReadingSource, Source

__all__ = ["BaseConfig", "DemonstrationSource", "ReadingSource", "Source"]
