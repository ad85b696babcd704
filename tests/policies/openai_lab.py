"""A chat server on a loopback socket that does what a script says, faults included; and a clock that tests hold."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from specvet.chat import Image, Message
from specvet.chat.messages import tool, user
from specvet.policies.openai import OpenAIPolicy, open_policy
from specvet.policies.openai.patience import Patience
from specvet.policies.options import ModelOptions
from specvet.policies.text import Replies
from specvet.policies.tokens import SamplingParams
from specvet.views.png import encode_png

PARAMS = SamplingParams(max_tokens=32, temperature=0.6, seed=2**62 + 5)
ANSWER = "<answer>\\boxed{YES}Broad Hα.</answer>"
SCHEMA = {"type": "function", "function": {"name": "zoom", "description": "Zoom.", "parameters": {"type": "object"}}}


@dataclass
class Asked:
    """One request as the server got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Said:
    """One answer. `fault`: `stall` (never answers), `cut` (half of the body), `drop` (no byte)."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    kind: str = "application/json"


Step = Said | Callable[[Asked], Said]


def completion(
    *contents: str | None,
    finish: str | None = "stop",
    usage: Any = "honest",
    calls: Any = None,
    **message: Any,
) -> Said:
    """A well-formed chat completion with a choice for each text."""
    if usage == "honest":
        usage = {"prompt_tokens": 10, "completion_tokens": 3 * len(contents), "total_tokens": 0}
    choices = []
    for i, content in enumerate(contents):
        said: dict[str, Any] = {"role": "assistant", "content": content, **message}
        if calls is not None:
            said["tool_calls"] = calls
        choices.append({"index": i, "message": said, "finish_reason": finish})
    return Said({"id": "x", "object": "chat.completion", "choices": choices, "usage": usage})


def call(arguments: Any, name: str = "zoom") -> dict[str, Any]:
    return {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}


def error(status: int, message: Any, headers: Mapping[str, str] | None = None, **more: Any) -> Said:
    return Said({"error": {"message": message, **more}}, status, headers or {})


class LoopbackServer:
    """Answers POSTs by `steps`, one each; the last goes on for ever. GETs of `models` answer with `models`."""

    def __init__(self, *steps: Step, models: Any = ("tiny",)) -> None:
        self.steps = list(steps)
        self.models = {"object": "list", "data": [{"id": m} for m in models]} if isinstance(models, tuple) else models
        self.asked: list[Asked] = []
        self.open_now = self.open_most = 0
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        assert self._started.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def posts(self) -> list[Asked]:
        return [a for a in self.asked if a.method == "POST"]

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task, writer in self._clients.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await asyncio.sleep(0)  # lets the transports close

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients[asyncio.ensure_future(self._client(reader, writer))] = writer

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(method, path, headers, json.loads(body) if body else None)
            self.asked.append(asked)
            await self._answer(asked, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open_now -= 1
            writer.close()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method == "GET":
            said = self.models if isinstance(self.models, Said) else Said(self.models)
        else:
            step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
            said = step if isinstance(step, Said) else step(asked)
        if said.fault == "stall":
            await asyncio.Event().wait()
        if said.fault == "drop":
            writer.transport.abort()
            return
        body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        headers = {"content-type": said.kind, "content-length": str(len(body)), "connection": "close", **said.headers}
        lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        writer.write(f"HTTP/1.1 {said.status} X\r\n{lines}\r\n".encode())
        writer.write(body[: len(body) // 2] if said.fault == "cut" else body)
        await writer.drain()


class HeldClock:
    """Time passes only by sleeping, and by limits that are reached; every wait is written down."""

    def __init__(self, real_limit: float = 30.0, today: float = 1_800_000_000.0) -> None:
        self.time = 0.0
        self.slept: list[float] = []
        self._real, self._today = real_limit, today

    def now(self) -> float:
        return self.time

    def today(self) -> float:
        return self._today + self.time

    def chance(self) -> float:
        return 0.5

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    @asynccontextmanager
    async def limit(self, seconds: float):  # type: ignore[no-untyped-def]
        try:
            async with asyncio.timeout(self._real):
                yield
        except TimeoutError:
            self.time += seconds
            raise


def policy_for(
    server: LoopbackServer,
    *,
    clock: HeldClock | None = None,
    environment: Mapping[str, str] | None = None,
    patience: Patience | None = None,
    **options: Any,
) -> OpenAIPolicy:
    """The policy, opened as the command line does, on a clock that tests hold."""
    given = {"base_url": server.url, "model": "tiny", **options}
    opened = open_policy(ModelOptions(**given), environment=environment or {}, clock=clock or HeldClock())
    if patience:
        opened.server.patience = patience
    return opened


def asked(
    policy: OpenAIPolicy,
    messages: Sequence[Message] = (user("Is it?"),),
    tools: Sequence[Mapping[str, Any]] = (),
    n: int = 1,
    params: SamplingParams = PARAMS,
) -> Replies:
    """The replies, in an event loop of their own."""

    async def once() -> Replies:
        try:
            return await policy.reply(messages, tools, n, params)
        finally:
            await policy.aclose()

    return asyncio.run(once())


def picture(shade: int = 0) -> Image:
    import numpy as np

    return Image.of(encode_png(np.full((28, 28, 3), shade, np.uint8)))


__all__ = ["Message", "tool", "user"]
