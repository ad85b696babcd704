"""One random model of nano's shape a session, and both policies of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from specvet.policies.embedded.policy import EmbeddedPolicy
    from specvet.policies.torch.policy import TorchPolicy


@pytest.fixture(scope="session")
def nano_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder. Not to be changed."""
    from embedded_lab import write_nano  # imports torch

    return write_nano(tmp_path_factory.mktemp("nano") / "random")


@pytest.fixture(scope="session")
def embedded(nano_folder: Path) -> Iterator[EmbeddedPolicy]:
    from embedded_lab import options

    from specvet.policies.embedded.policy import EmbeddedPolicy

    policy = EmbeddedPolicy.open(options(nano_folder))
    yield policy
    asyncio.run(policy.aclose())


@pytest.fixture(scope="session")
def stock(nano_folder: Path) -> Iterator[TorchPolicy]:
    """The same weights with torch."""
    from embedded_lab import options

    from specvet.policies.torch.policy import TorchPolicy

    policy = TorchPolicy.open(options(nano_folder, dtype="float32"))
    yield policy
    asyncio.run(policy.aclose())
