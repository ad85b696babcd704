"""One server over HTTP: keys, attempts, deadlines and errors; it knows nothing of chats."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import httpx

from specvet import __version__
from specvet.policies.openai.errors import ServerError, explained, is_web_page, web_page
from specvet.policies.openai.patience import RETRIED, Clock, Patience, RealClock, retry_after
from specvet.policies.tokens import PolicyError, Usage

MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer that are read; no chat completion comes near, and a server may send for ever."""

KEY_NAMES = ("SPECVET_API_KEY", "OPENAI_API_KEY")
"""Environment variables that hold a key, the first that is set counts."""

MODELS_S = 20.0
"""Seconds for a list of models that would only be good to have."""

T = TypeVar("T")

GIVE_UP_AFTER = 10
"""Requests in a row that failed for the server's sake, after which the next such failure is every question's."""


class Server:
    """An OpenAI-compatible server at `base_url`. Its key never shows in a message, a log line or a receipt."""

    def __init__(
        self,
        base_url: str,
        usage: Usage,
        *,
        patience: Patience | None = None,
        concurrent: int = 16,
        clock: Clock | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        url = _checked(base_url)
        self._login = (url.username, url.password) if url.userinfo else None
        self._url = url.copy_with(userinfo=b"")  # or httpx would write the password into its log
        self.address = f"{url.scheme}://{url.netloc.decode()}{url.path}".rstrip("/")
        """The base URL as it may be shown: no user, password or query."""
        self.identity = self.address
        """What a run knows it by."""
        self.usage = usage
        self.patience = patience or Patience()
        self.concurrent = max(1, concurrent)
        self.clock: Clock = clock or RealClock()
        self._key, self.key_said = _key(self._url, environment)
        self._client: httpx.AsyncClient | None = None
        self._gate = asyncio.Semaphore(self.concurrent)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failures = 0

    async def post(self, path: str, body: Mapping[str, Any], model: str, read: Callable[[Any], T]) -> T:
        """What `read` makes of the JSON that answers a POST. Raises PolicyError, ServerError or TimeoutError.

        A ServerError of `read` with `again` is another reason to try again.
        """
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        return await self._asked("POST", path, content, model, read)

    async def models(self, *, needed: bool = False) -> list[dict[str, Any]]:
        """The entries of the server's list of models, each with its `id`.

        Empty where there is none to be had; with `needed`, why not is raised, after as many attempts as others have.
        """
        try:
            if needed:
                answer = await self._asked("GET", "models", None, None, _as_it_is)
            else:
                answer = await self._once("GET", "models", None, None, min(MODELS_S, self.patience.attempt_s))
        except (PolicyError, TimeoutError, httpx.HTTPError):
            if needed:
                raise
            return []
        entries = answer.get("data") if isinstance(answer, Mapping) else None
        listed = entries if isinstance(entries, list) else []
        return [e for e in listed if isinstance(e, dict) and isinstance(e.get("id"), str)]

    async def aclose(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client:
            with suppress(RuntimeError):  # its event loop has ended, and the connections with it
                await client.aclose()

    async def _asked(
        self, method: str, path: str, content: bytes | None, model: str | None, read: Callable[[Any], T]
    ) -> T:
        """One answer, with as many attempts as patience allows. A request that waits keeps its place in the gate, so
        that a server in trouble is asked less."""
        self._ready()
        started = self.clock.now()
        attempt = 0
        async with self._gate:
            while True:
                left = self.patience.total_s - (self.clock.now() - started)
                asked: float | None = None
                try:
                    answer = read(await self._once(method, path, content, model, min(self.patience.attempt_s, left)))
                    self._failures = 0
                    return answer
                except ServerError as e:
                    problem: Exception = e
                    if not e.again:
                        raise
                    asked = e.wait_s
                except TimeoutError:
                    problem = TimeoutError(
                        f"{self.address} gave no whole answer within {min(self.patience.attempt_s, left):.0f} s; a "
                        "slow server needs a longer --timeout or fewer --branches"
                    )
                except httpx.HTTPError as e:
                    problem = self._unreachable(e)
                wait = self.patience.wait(attempt, asked, self.clock.chance())
                attempt += 1
                inside = isinstance(problem, ServerError) and problem.status == 500
                attempts = self.patience.attempts_at_500 if inside else self.patience.attempts
                left = self.patience.total_s - (self.clock.now() - started)
                if attempt >= attempts or wait >= left:
                    raise self._last(problem, attempt, self.clock.now() - started)
                self.usage.retries += 1
                await self.clock.sleep(wait)

    async def _once(self, method: str, path: str, content: bytes | None, model: str | None, seconds: float) -> Any:
        client = self._ready()
        url = self._url.copy_with(raw_path=_joined(self._url, path))
        if method == "POST":
            self.usage.requests += 1
        async with self.clock.limit(max(0.0, seconds)), client.stream(method, url, content=content) as response:
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_BODY:
                    raise self._too_much()
            plain = self._unpacked(bytes(body), response.headers.get("content-encoding", ""))
            return self._understood(response, self._hidden(plain), model)

    def _unpacked(self, body: bytes, encoding: str) -> bytes:
        """The body without its compression, and never more than `MAX_BODY` of it: a small one may hold gigabytes."""
        if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
            return body
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            plain = unpacker.decompress(body, MAX_BODY + 1)
        except zlib.error as e:
            raise ServerError(f"{self.address} answers with a damaged {encoding}: {e}", "bad_reply", again=True) from e
        if len(plain) > MAX_BODY:
            raise self._too_much()
        if not unpacker.eof:
            raise ServerError(f"{self.address} answers with half a {encoding}", "bad_reply", again=True)
        return plain

    def _too_much(self) -> ServerError:
        return ServerError(f"{self.address} answers with more than {MAX_BODY >> 20} MiB", "bad_reply")

    def _understood(self, response: httpx.Response, body: bytes, model: str | None) -> Any:
        status = response.status_code
        page = is_web_page(response.headers.get("content-type", ""), body)
        if status != 200 or page:
            error = (
                web_page(self.address, status, body)
                if page and status not in (401, 403, 404)
                else explained(status, body, address=self.address, model=model, key=self.key_said)
            )
            if isinstance(error, ServerError) and status in RETRIED:
                error.wait_s = retry_after(response.headers, self.clock.today())
            raise error
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as e:
            shown = body[:80].decode("utf-8", "replace")
            raise ServerError(
                f"{self.address} answers with what is no whole JSON ({len(body)} bytes, {shown!r} …): cut on the way?",
                "bad_json",
                status=status,
                again=True,
            ) from e

    def _ready(self) -> httpx.AsyncClient:
        """The client of the running event loop; connections and gates cannot outlive the loop they were made in."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            headers = {"user-agent": f"specvet/{__version__}", "accept": "application/json"}
            headers["content-type"] = "application/json"
            headers["accept-encoding"] = "gzip, deflate"  # what `_unpacked` undoes
            if self._key:
                headers["authorization"] = f"Bearer {self._key}"
            # The limit on a whole attempt is `Clock.limit`; httpx's own limits know only single reads and writes.
            self._client = httpx.AsyncClient(
                headers=headers,
                timeout=httpx.Timeout(None, connect=self.patience.connect_s),
                limits=httpx.Limits(max_connections=self.concurrent + 2, max_keepalive_connections=self.concurrent),
                follow_redirects=False,
                # Reading the list of authorities takes longer than a request; plain http, never redirected, needs none.
                verify=self._url.scheme == "https",
                auth=httpx.BasicAuth(*self._login) if self._login and not self._key else None,
            )
            self._gate = asyncio.Semaphore(self.concurrent)
            self._loop = loop
        return self._client

    def _unreachable(self, error: httpx.HTTPError) -> ServerError:
        words = self._hidden(str(error).encode()).decode() or type(error).__name__
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            text = f"{self.address} cannot be reached ({words}): is the server running, and --base-url right?"
            return ServerError(text, "unreachable", fatal=True, again=True)
        return ServerError(f"{self.address} broke the connection ({words})", "unreachable", again=True)

    def _last(self, problem: Exception, attempts: int, seconds: float) -> Exception:
        """The error after the last attempt; a server that fails time after time fails for every question."""
        self._failures += 1
        tried = f" (tried {attempts} times in {seconds:.0f} s)" if attempts > 1 else ""
        if isinstance(problem, ServerError):
            return ServerError(
                f"{problem}{tried}",
                problem.kind,
                status=problem.status,
                fatal=problem.fatal or self._failures >= GIVE_UP_AFTER,
                said=problem.said,
            )
        if self._failures >= GIVE_UP_AFTER:
            return PolicyError(f"{problem}{tried}", fatal=True)
        return TimeoutError(f"{problem}{tried}")

    def _hidden(self, body: bytes) -> bytes:
        """The server's words without the key and password, which some repeat."""
        secrets = [self._key, self._login[1] if self._login else ""]
        for secret in filter(None, secrets):
            body = body.replace(secret.encode(), b"[key]")
        return body


def _as_it_is(answer: Any) -> Any:
    return answer


def _checked(base_url: str) -> httpx.URL:
    shown = re.sub(r"//[^/@]*@", "//", base_url)
    try:
        url = httpx.URL(base_url.strip())
    except (httpx.InvalidURL, ValueError) as e:
        raise PolicyError(f"--base-url {shown!r} is no URL: {e}", fatal=True) from e
    if url.scheme not in ("http", "https") or not url.host:
        raise PolicyError(
            f"--base-url {shown!r} is no http(s) address; it looks like http://localhost:8000/v1", fatal=True
        )
    return url


def _joined(url: httpx.URL, path: str) -> bytes:
    base, mark, query = url.raw_path.partition(b"?")
    base = base.rstrip(b"/").removesuffix(b"/chat/completions")
    return base + b"/" + path.encode() + mark + query


def _key(url: httpx.URL, environment: Mapping[str, str]) -> tuple[str, str]:
    """The key to send and what to call it. An OpenAI account's key does not go unencrypted over a network."""
    for name in KEY_NAMES:
        key = environment.get(name, "").strip()
        if not key:
            continue
        if not key.isascii() or not key.isprintable() or " " in key:
            raise PolicyError(f"{name} holds characters that no key has; was more than the key copied?", fatal=True)
        if name == "OPENAI_API_KEY" and url.scheme != "https" and not _is_here(url.host):
            return "", "no key (OPENAI_API_KEY is not sent over plain http; use SPECVET_API_KEY)"
        return key, f"the key in {name}"
    return "", ""


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
