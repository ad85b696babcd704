"""Serving the page: one process, uvicorn, until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable

from specvet.review.app import create_app
from specvet.review.desk import Desk
from specvet.review.guard import Access, AccessError

USUAL_PORT = 8765
"""Tried first, so that the address stays the same from day to day."""


def bound_socket(host: str, port: int | None) -> socket.socket:
    """A socket bound to that address; without a port to the usual one, or to any that is free.

    Raises `AccessError` where it cannot be bound.
    """
    name = host.strip("[]")
    tried = [port] if port is not None else [USUAL_PORT, 0]
    trouble: OSError | None = None
    for number in tried:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(name, number, type=socket.SOCK_STREAM)[0]
            bound = socket.socket(family, kind, protocol)
        except OSError as e:
            raise AccessError(f"--host {host}: {e.strerror or e}; give an address of this machine") from e
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            return bound
        except OSError as e:
            bound.close()
            trouble = e
    what = trouble.strerror if trouble else ""
    raise AccessError(f"{host}:{port}: {what}; give another --port or --host, or leave --port out") from trouble


def serve(
    desk: Desk, access: Access, bound: socket.socket, *, reviewer: str | None, ready: Callable[[], None] | None = None
) -> None:
    """Answer on a bound socket until Ctrl-C or SIGTERM; `ready` is called when it answers."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if ready is not None and self.started:
                ready()

    config = uvicorn.Config(
        create_app(desk, access, reviewer=reviewer),
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=3,
    )
    Server(config).run(sockets=[bound])
