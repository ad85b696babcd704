"""The page of a triage in a real browser: light, dark, and on a small screen."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")

from browser_lab import VIEWPORT, browser, opens, usual_tab  # noqa: F401 - fixtures
from PIL import Image

from specvet.records.schema import Answer
from specvet.vetting.triage import Settings, sort
from specvet.vetting.triage.page import write_page

sys.path.append(os.fspath(Path(__file__).parents[1] / "vetting"))

from triage_lab import case, drawn, exact


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log_odds, _ = drawn(300, 30, 21)
    cases = [*(case(i, "cv", x) for i, x in enumerate(log_odds)), case(900, "cv", 0.0, Answer.NO_DATA)]
    calibration = exact(simulated=2_000)
    settings = Settings(prevalence={"*": 0.02})
    path = tmp_path_factory.mktemp("triage") / "page.html"
    write_page(path, "RUN", sort(cases, calibration, settings), settings, calibration)
    return path


def test_page_and_drawing_are_dark_where_the_system_is_and_light_where_not(page_file: Path, opens) -> None:  # noqa: F811
    page = opens(page_file.as_uri())
    for scheme, ground, is_dark in (("light", (255, 255, 255), False), ("dark", (20, 23, 27), True)):
        page.emulate_media(color_scheme=scheme)
        drawing = np.asarray(Image.open(io.BytesIO(page.locator("svg").first.screenshot())).convert("RGB"), int)
        colours, number = np.unique(drawing.reshape(-1, 3), axis=0, return_counts=True)
        commonest = colours[number.argmax()]
        assert tuple(commonest) == ground  # the drawing stands on the page's ground
        grey = drawing.mean(2)
        ink = (grey > 200) if is_dark else (grey < 55)
        assert 0.002 < ink.mean() < 0.2  # and its words and axes can be told from it
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb{ground}"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size(VIEWPORT)
    page.emulate_media(color_scheme="light")
