"""Fixtures of the command line's tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cli_lab import SCRIPT, SHARED, Specvet


@pytest.fixture
def specvet(tmp_path: Path) -> Specvet:
    """Runs the installed script in `tmp_path`; `env` adds to or (None) takes from the environment."""

    def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
        return subprocess.run(
            [SCRIPT, *map(str, arguments)],
            cwd=tmp_path,
            env=environment | (env or {}),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=300,
        )

    return run


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the real spectra are not there: {SHARED}")
    return SHARED
