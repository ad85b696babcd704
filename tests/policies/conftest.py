"""Fixtures of the remote policies: a loopback service of each kind, and a guard against reaching anything else."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LEAVES_CONNECTIONS = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
"""tinker never closes the connection that fetched its settings."""


@pytest.fixture(params=["trio", pytest.param("tinker", marks=LEAVES_CONNECTIONS)])
def here(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only_loopback: list[str]
) -> Iterator[Any]:
    """A `remote_lab.Lab`: a running loopback service of one kind."""
    from remote_lab import lab  # imports torch, which most tests here do without

    with lab(request.param, tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Fails a test that looks up or connects to anything but this machine; proxies are switched off.

    It sees what Python's own sockets do; the loopback service keeps tinker from using another transport.
    """
    elsewhere: list[str] = []

    def checked(host: Any) -> None:
        name = host.decode() if isinstance(host, bytes) else str(host)
        try:
            here = ipaddress.ip_address(name).is_loopback
        except ValueError:
            here = name in {"localhost", "None", ""}
        if not here:
            elsewhere.append(name)
            raise OSError(f"this test wanted to reach {name}")

    look_up, connect = socket.getaddrinfo, socket.socket.connect

    def looked_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        checked(host)
        return look_up(host, *args, **kwargs)

    def connected(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            checked(address[0])
        return connect(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    monkeypatch.setattr(socket.socket, "connect", connected)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield elsewhere
    assert elsewhere == []
