"""What browser tests of the review page share: the real server in a thread, Debian's Chromium, and a page that is held
to ask nothing of any network and to raise no error."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from specvet.review.app import create_app
from specvet.review.desk import Desk
from specvet.review.guard import Access
from specvet.review.serving import bound_socket

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-site-isolation-trials",
    "--disable-extensions",
    "--mute-audio",
)

VIEWPORT: Any = {"width": 1000, "height": 640}
"""Small, since every pixel is drawn by the processor."""

Opens = Callable[..., Page]


def chromium() -> str | None:
    """Where Chromium is, or None."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ended with its module: while it lives, no other test of the process can run an event loop."""
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield launched
        launched.close()


@dataclass
class _Tab:
    """A page with what it asked for and what went wrong in it."""

    page: Page
    asked: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(20_000)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._console)

    def _console(self, message: ConsoleMessage) -> None:
        # Violations of the security policy are told on the console; requests that are refused are part of some tests.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.troubles.append(message.text)


@pytest.fixture(scope="module")
def usual_tab(browser: Browser) -> _Tab:
    """One that tests share, each with empty cookies: a new one costs half a second."""
    return _Tab(browser.new_context(viewport=VIEWPORT).new_page())


@pytest.fixture
def opens(browser: Browser, usual_tab: _Tab) -> Iterator[Opens]:
    """Opens an address, the second one of a test as another person's browser. Afterwards nothing may have been asked of
    another machine, and no script may have failed."""
    usual_tab.page.context.clear_cookies()
    tabs = [usual_tab]

    def open_page(address: str, *, name: str | None = None) -> Page:
        if usual_tab.asked:
            tabs.append(_Tab(browser.new_context(viewport=VIEWPORT).new_page()))
        page = tabs[-1].page
        page.goto(address)
        if name is not None:
            page.locator("#ask-name[open]").wait_for()
            page.fill("#name", name)
            page.keyboard.press("Enter")
            page.locator("body[data-ready=yes]").wait_for()
        return page

    yield open_page
    asked = [url for tab in tabs for url in tab.asked]
    troubles = [text for tab in tabs for text in tab.troubles]
    for tab in tabs[1:]:
        tab.page.context.close()
    usual_tab.asked.clear()
    usual_tab.troubles.clear()
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "file:///"))] == []
    assert troubles == []


@contextmanager
def served(desk: Desk) -> Iterator[str]:
    """The address of the review server over a desk, for the length of a block."""
    bound = bound_socket("127.0.0.1", 0)
    bound.listen()  # who comes before the server answers waits
    port = bound.getsockname()[1]
    access = Access("127.0.0.1", port, None, desk.store.secret)
    server = uvicorn.Server(
        uvicorn.Config(create_app(desk, access), log_level="error", ws="none", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def said(page: Page, text: str) -> None:
    """Waits until the page says this to those who listen."""
    page.locator("#status", has_text=text).wait_for(state="attached")


def shown(page: Page, id: str) -> None:
    """Waits until this spectrum is on."""
    page.locator("#object-id", has_text=id).wait_for()
