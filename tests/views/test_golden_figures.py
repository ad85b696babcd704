"""The reference figure against what the published plotting function drew (shared/golden/figure)."""

from __future__ import annotations

import importlib.metadata
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from specvet.views import draw, reference

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "figure"
NOT_COMPARED = ("4861-4861.9", "3600-3700")
"""Windows of one point: thousands of ticks in the published figure, a ValueError here (golden/README.md)."""


def _index() -> dict[str, Any]:
    path = GOLDEN / "index.json"
    return json.loads(path.read_text()) if path.is_file() else {"matplotlib": "", "rows": []}


INDEX = _index()
ROWS = [row for row in INDEX["rows"] if not any(window in row["file"] for window in NOT_COMPARED)]
ONE_POINT_ROWS = [row for row in INDEX["rows"] if row not in ROWS]

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not INDEX["rows"], reason=f"no golden figures at {GOLDEN}"),
    pytest.mark.skipif(
        bool(INDEX["rows"]) and importlib.metadata.version("matplotlib") != INDEX["matplotlib"],
        reason=f"golden figures are of matplotlib {INDEX['matplotlib']}; pixels depend on its version",
    ),
]


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "spectra.npz") as file:
        return dict(file)


def _draw(arrays: dict[str, np.ndarray], row: dict[str, Any], drawing: Any = draw) -> bytes:
    window = None if row["window"] is None else tuple(row["window"])
    return drawing(arrays["wavelength"], arrays[row["spectrum"]], window=window, title=row["title"])


@pytest.mark.parametrize("drawing", [draw, reference.draw], ids=["exact", "matplotlib"])
@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_every_pixel_equals_the_published_figure(
    arrays: dict[str, np.ndarray], row: dict[str, Any], drawing: Any
) -> None:
    ours = Image.open(io.BytesIO(_draw(arrays, row, drawing)))
    assert ours.mode == "RGB"
    assert ours.size == tuple(row["size"])
    with Image.open(GOLDEN / row["file"]) as golden:
        difference = np.asarray(ours).astype(int) - np.asarray(golden).astype(int)
    assert np.abs(difference).max() == 0


@pytest.mark.parametrize("row", ONE_POINT_ROWS, ids=[row["file"] for row in ONE_POINT_ROWS])
def test_a_golden_window_of_one_point_is_refused(arrays: dict[str, np.ndarray], row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        _draw(arrays, row)
