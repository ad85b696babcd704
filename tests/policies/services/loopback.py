"""A service on 127.0.0.1, in a thread, for as long as a `with` lasts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp


@contextlib.contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """The address of `app`, which answers until the block ends."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    started = threading.Event()

    async def run() -> None:
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.001)
        started.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True, name="loopback")
    thread.start()
    try:
        assert started.wait(30)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
