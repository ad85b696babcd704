"""Fixtures of the trainers on the two services: one loopback service of each kind for a module's tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

LEAVES_CONNECTIONS = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
"""tinker never closes the connection that fetched its settings."""


@pytest.fixture(scope="module", params=["trio", pytest.param("tinker", marks=LEAVES_CONNECTIONS)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A `service_lab.Services`: a running loopback service of one kind."""
    from service_lab import services  # imports torch, which most tests here do without

    with services(request.param, tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def there(running: Any) -> Iterator[Any]:
    """The same without faults, and asked nothing yet."""
    running.service.asked.clear()
    yield running
    running.faults.__dict__.update(type(running.faults)().__dict__)


@pytest.fixture
def trainer(there: Any) -> Iterator[Any]:
    """A new adapter at the service."""
    made = there.open()
    yield made
    there.faults.training_stalls = False
    asyncio.run(made.aclose())
