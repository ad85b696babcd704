"""The data that settings name: where a disk fills while the toy set is made."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest
from menu_lab import FORMAT

from specvet.records import DiskFullError
from specvet.training.config import SftConfig
from specvet.training.inputs import sft_data


def test_a_disk_that_fills_while_the_toy_set_is_made_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(DiskFullError) as caught:
            sft_data(SftConfig(data="toy"), FORMAT, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(caught.value).startswith(f"{tmp_path / 'data'}: the disk is full or a quota is reached; free some space")
    assert list(tmp_path.iterdir()) == []
