"""Who may ask the server what: loopback unless there is a token, only under its own name, and no page but its own.

| threat | what stands against it |
|---|---|
| another machine | bound to loopback; any other address needs a token of 16 letters or more |
| a name that is pointed at this machine (DNS rebinding) | the Host header must be one of the server's own |
| a page of another site | Origin, `Sec-Fetch-Site`, a CSRF token on every write; SameSite=Strict; CORP same-origin |
| injected script | CSP `default-src 'self'`: nothing inline, nothing from elsewhere |
| a path in a request | items are looked up in a table, static files too; nothing of a request reaches the file system |
| large bodies | 64 KiB |
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 65_536
"""Of a request's body."""

LEAST_TOKEN = 16

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


class AccessError(ValueError):
    """An address that may not be served so; the message says what to do."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """Under which names the server answers, and to whom."""

    host: str
    port: int
    token: str | None
    secret: bytes
    """Signs cookies."""
    origin: str | None = None
    """The address by which a proxy makes the server known: `https://vi.example.org`."""

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < LEAST_TOKEN or not self.token.isprintable()):
            raise AccessError(f"a token needs {LEAST_TOKEN} printable letters or more")
        if self.token is None and not is_loopback(self.host):
            raise AccessError(
                f"--host {self.host}: other machines could reach the page; set --token-file FILE (or --token) with it"
            )
        if self.origin is not None:
            parts = urlsplit(self.origin)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
                raise AccessError(f"--origin {self.origin}: give scheme and name only, as in https://vi.example.org")
            usual = ":443" if parts.scheme == "https" else ":80"
            # As browsers write it: small letters, no usual port, no slash at the end.
            object.__setattr__(self, "origin", f"{parts.scheme}://{parts.netloc.lower().removesuffix(usual)}")

    @property
    def cookie(self) -> str:
        """Name of the cookie: browsers share cookies between ports, so the port is in it."""
        return f"specvet_{self.port}"

    def url(self) -> str:
        """The address for the person who starts the server."""
        name = self.host.strip("[]")
        name = "127.0.0.1" if name == "0.0.0.0" else "::1" if name == "::" else name
        base = self.origin or f"http://{f'[{name}]' if ':' in name else name}:{self.port}"
        return f"{base}/" + (f"?token={quote(self.token, safe='')}" if self.token else "")

    def names_us(self, host: str) -> bool:
        """Whether a Host header is one of ours."""
        if self.origin is not None and host.lower() == urlsplit(self.origin).netloc:
            return True
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.username is not None or parts.path:
            return False
        own = self.host.strip("[]").lower()
        if name == own or (is_loopback(own) and is_loopback(name)):
            return True
        # Bound to every address: a number cannot be pointed elsewhere, and a name needs the token's cookie anyway.
        return own in ("0.0.0.0", "::", "") and (self.token is not None or is_loopback(name))

    def is_ours(self, origin: str, host: str) -> bool:
        """Whether an Origin header is a page of this server, asked under `host`."""
        return origin in (f"http://{host}", f"http://{host.lower()}", self.origin)

    # --- cookies

    def sign(self, *parts: str) -> str:
        return hmac.digest(self.secret, "\0".join(parts).encode(), "sha256").hex()[:40]

    def admits(self, token: str) -> bool:
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())


@dataclass(frozen=True, slots=True)
class Session:
    """One browser: a random id, who uses it, and whether it showed the token. Kept by the browser, signed by us."""

    id: str
    reviewer: str | None = None
    admitted: bool = False

    @classmethod
    def new(cls) -> Session:
        return cls(secrets.token_hex(16))

    def text(self, access: Access) -> str:
        """For the cookie."""
        name = base64.urlsafe_b64encode((self.reviewer or "").encode()).decode().rstrip("=")
        # A session that was admitted by one token is not by another.
        admitted = access.sign("token", access.token or "")[:16] if self.admitted else "-"
        body = f"{self.id}.{name}.{admitted}"
        return f"{body}.{access.sign('session', body)}"

    @classmethod
    def read(cls, text: str, access: Access) -> Session | None:
        """From the cookie; None unless it is ours."""
        body, _, signature = text.rpartition(".")
        if not hmac.compare_digest(signature.encode(), access.sign("session", body).encode()):
            return None
        id, name, admitted = body.split(".")
        reviewer = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        fits = admitted != "-" and hmac.compare_digest(admitted, access.sign("token", access.token or "")[:16])
        return cls(id, reviewer or None, fits)

    def csrf(self, access: Access) -> str:
        return access.sign("csrf", self.id)


class Guard:
    """ASGI middleware: lets through what may be asked, with `scope["state"]["session"]` set, and adds the headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        session = self._session(headers)
        scope.setdefault("state", {})["session"] = session

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    out[name] = value
                if "cache-control" not in out:
                    out["cache-control"] = "no-store"
            await send(message)

        refused = self._refusal(scope, headers, session)
        if refused is None:
            await self._app(scope, receive, guarded)
        else:
            await _refuse(guarded, *refused)

    def _session(self, headers: Headers) -> Session | None:
        # Other programs of this machine set cookies of any form, since browsers share them between ports.
        text = cookie_parser(headers.get("cookie", "")).get(self._access.cookie)
        try:
            return Session.read(text, self._access) if text is not None else None
        except ValueError:
            return None

    def _refusal(self, scope: Scope, headers: Headers, session: Session | None) -> tuple[int, str, str] | None:
        access, host = self._access, headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not access.names_us(host):
            return 403, "this server is not known by that name", f"open {access.host}:{access.port}"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and scope["path"] != "/":
            return 403, "another site's page asked", "open the review page itself"
        if scope["method"] not in ("GET", "HEAD"):
            if (origin := headers.get("origin")) is not None and not access.is_ours(origin, host):
                return 403, "another site's page asked", "open the review page itself"
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return 415, "the body is not JSON", "send Content-Type: application/json"
            if _length(headers) > MOST_BYTES:
                return 413, f"more than {MOST_BYTES:,} bytes", "send less"
        if access.token is not None and not self._admitted(scope, headers, session):
            return 401, "the token is missing or wrong", "open the address with ?token=… that specvet review printed"
        if scope["method"] not in ("GET", "HEAD"):
            given = headers.get("x-csrf-token", "")
            if session is None or not hmac.compare_digest(given.encode(), session.csrf(access).encode()):
                return 403, "the request does not carry this page's token", "reload the page"
        return None

    def _admitted(self, scope: Scope, headers: Headers, session: Session | None) -> bool:
        if session is not None and session.admitted:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._access.admits(given.strip()):
            return True
        # The page itself takes the token from its address and puts it into the cookie.
        return bool(scope["path"] == "/" and self._access.admits(token_of(scope)))


def token_of(scope: Scope) -> str:
    """The token in the address, empty without one."""
    query: dict[str, list[str]] = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return query.get("token", [""])[0]


def _length(headers: Headers) -> int:
    try:
        return int(headers.get("content-length", "0"))
    except ValueError:
        return MOST_BYTES + 1


async def _refuse(send: Send, status: int, error: str, do: str) -> None:
    body = json.dumps({"error": error, "do": do}).encode()
    headers: Iterable[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})
