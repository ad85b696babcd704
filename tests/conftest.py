"""One thread a test process, as there are as many as cores, and names of tests that each process makes alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from specvet.evaluation.recipes import Made

os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes that no one can read, which may hold a clock (gzip's header does), are numbered instead of shown."""
    return argname if isinstance(val, bytes) and not (val.isascii() and val.decode("ascii").isprintable()) else None


@pytest.fixture(scope="session")
def simvi_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of recipes that all test processes share; whoever comes second waits for the first."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "recipes"
    cache.mkdir(exist_ok=True)
    return cache


@pytest.fixture(scope="session")
def tiny_simvi(simvi_cache: Path) -> Made:
    """SimVI (SIMULATED) of seed 1 in its smallest size, made once. Not to be changed."""
    from specvet.evaluation.plan import Recipe
    from specvet.evaluation.recipes import make

    return make(Recipe(simvi="tiny", part="val", seed=1, style="compact"), simvi_cache, workers=1)
