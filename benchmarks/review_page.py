"""What the review page takes in a browser: from a key to the next spectrum, zoom and pan, a queue of 100,000.

    python benchmarks/review_page.py [--rows 100000] [--decisions 100] [--json]

The server of `specvet review` over the run that `benchmarks/review_server.py` makes (SIMULATED spectra of examples/),
Debian's Chromium without a graphics card, so that every pixel is drawn by the processor. Milliseconds are taken in the
page: from the keydown of a verdict (half a second after the last one, then at once) until the next spectrum has been
painted, the decision's write to disk included; for zoom and pan the time of one change, and the time between frames,
16.7 ms at 60 a second. On a machine that is busy with other things they are too long. The last line of the output is
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from review_server import long_run

PAUSE_MS = 500
"""Between two decisions of somebody who is quick; without a pause the page waits for spectra that are still read."""

WATCH = """() => {
  globalThis.watched = [];
  let at = 0;
  addEventListener('keydown', () => { at = performance.now(); }, true);
  const painted = () => requestAnimationFrame(() => setTimeout(() => globalThis.watched.push(performance.now() - at)));
  new MutationObserver(painted).observe(document.body, { attributes: true, attributeFilter: ['data-item'] });
}"""

ZOOM = """async (n) => {
  const over = document.querySelector('#plot .u-over');
  const box = over.getBoundingClientRect();
  const frames = [], work = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < n; i++) {
    const how = { bubbles: true, cancelable: true, clientX: box.left + box.width * 0.4, clientY: box.top + 100 };
    over.dispatchEvent(new WheelEvent('wheel', { ...how, deltaY: i % 40 < 20 ? -30 : 30, shiftKey: i % 3 === 0 }));
    // The drawing stands in this frame's queue before this callback, so the next one tells when it was over.
    const begun = await new Promise(requestAnimationFrame);
    work.push(performance.now() - begun);
    frames.push(begun - last);
    last = begun;
  }
  return { frames, work };
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--decisions", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        print("Chromium is not installed (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="specvet-review-") as folder, sync_playwright() as playwright:
        run = long_run(Path(folder), options.rows)
        command = [
            sys.executable,
            "-m",
            "specvet",
            "review",
            str(run),
            "--reviewer",
            "Ann",
            "--port",
            "0",
            "--no-browser",
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().strip()  # type: ignore[union-attr]
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_context(viewport={"width": 1366, "height": 768}).new_page()
            result = {"rows": options.rows, "chromium": browser.version} | measured(
                page, address, options.rows, options.decisions
            )
            browser.close()
        finally:
            server.terminate()
            server.wait()
    if not options.json:
        print(json.dumps(result, indent=2))
    print(json.dumps(result))
    return 0


def measured(page: Page, address: str, rows: int, decisions: int) -> dict[str, Any]:
    """Milliseconds of opening, deciding, zooming and filtering."""
    opened = []
    for _ in range(5):
        begun = time.perf_counter()
        page.goto(address)
        page.locator("body[data-ready=yes]").wait_for()
        opened.append(1e3 * (time.perf_counter() - begun))
    page.evaluate(WATCH)
    paced, rushed = (walked(page, decisions, pause) for pause in (PAUSE_MS, 0))
    moved = page.evaluate(ZOOM, 120)
    page.keyboard.press("q")
    page.locator("#queue tbody tr").first.wait_for()
    filtered = []
    for text in (f"s{int(rows * share):06d}" for share in (0.9, 0.5, 0.1)):
        begun = time.perf_counter()
        page.fill("#queue input[name=text]", text)
        page.keyboard.press("Tab")
        page.locator("#queue td.id", has_text=text).first.wait_for()
        filtered.append(1e3 * (time.perf_counter() - begun))
        page.focus("#queue input[name=text]")
    return {
        "points": 3_909,
        "page_open_ms": spread(opened),
        "key_to_next_ms": spread(paced),
        "key_to_next_rushed_ms": spread(rushed),
        "zoom_work_ms": spread(moved["work"]),
        "zoom_frame_ms": spread(moved["frames"]),
        "filter_ms": spread(filtered),
    }


def walked(page: Page, decisions: int, pause: int) -> list[float]:
    """Milliseconds from each verdict's key until the next spectrum was painted, with a pause before the next key."""
    page.evaluate("globalThis.watched.length = 0")
    for n in range(decisions):
        page.wait_for_timeout(pause)
        before = page.get_attribute("body", "data-item")
        page.keyboard.press("yn"[n % 2])
        page.locator(f"body:not([data-item='{before}'])").wait_for()
    page.wait_for_timeout(300)
    found: list[float] = page.evaluate("globalThis.watched")
    return found


def spread(values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and how many."""
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {"median": round(statistics.median(ordered), 1), "p95": round(p95, 1), "n": len(ordered)}


if __name__ == "__main__":
    raise SystemExit(main())
