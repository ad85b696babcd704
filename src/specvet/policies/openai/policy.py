"""The policy that asks an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeVar

from specvet.chat import Message
from specvet.policies.base import Capability
from specvet.policies.openai.answers import Choice, choices_in, counts_in
from specvet.policies.openai.errors import ServerError, context_in, no_such_model
from specvet.policies.openai.patience import PREFLIGHT
from specvet.policies.openai.pool import ServerPool
from specvet.policies.openai.requests import Dialect, branch_seed, request_body, sends_n
from specvet.policies.openai.server import Server
from specvet.policies.openai.turns import PlainManner, TextManner, ToolsManner
from specvet.policies.text import Replies, Reply
from specvet.policies.tokens import ContextLengthError, PolicyError, SamplingParams
from specvet.records import text_hash

Manner = ToolsManner | TextManner | PlainManner
T = TypeVar("T")
ToolImagesChoice = Literal["auto", "tool", "user"]

TOOL_IMAGES: dict[str, ToolImagesChoice] = {"auto": "auto", "tool": "tool", "user": "user"}

_SLACK = 16
"""Tokens beyond the limit that a server may count for a turn: some count the end token, or a whole last step."""


_LEARNT = {
    "max_tokens": "max_completion_tokens",
    "seed": "seed_not_honoured",
    "many": "n_not_honoured",
    "tool_images": "tool_images_as_user",
}
"""What `usage.notes` calls each thing learnt."""


class OpenAIPolicy:
    """Asks `server` for replies of `model`.

    `manner` says how the server is told of the tool and how its words are read. `tool_images` says where a tool's
    pictures are sent: `tool` in its message, `user` in a message after it, `auto` in its message until the server
    refuses one. A server that takes them and shows its model nothing is found by the probe `later_image`.

    What the server does not honour is learnt from its answers, once, and counted in `usage.notes`: `n` (the rest of a
    group is then asked one by one), `seed`, the name of `max_tokens`, pictures in `tool` messages.
    """

    name = "openai"

    def __init__(
        self, server: Server | ServerPool, model: str, manner: Manner, tool_images: ToolImagesChoice = "auto"
    ) -> None:
        self.server = server
        self.model = model
        self.manner = manner
        self.usage = server.usage
        self.capabilities: frozenset[Capability] = frozenset({"n", "images"})
        self.context: int | None = None
        """As the server's list of models or its errors say; None until they do."""
        self._tool_images = tool_images
        self._dialect = Dialect(tool_images="user" if tool_images == "user" else "tool")
        self._met = False

    @property
    def dialect(self) -> Dialect:
        """What has been learnt of the server."""
        return self._dialect

    @property
    def fingerprint(self) -> str:
        """Hash of the server's address (not of several), the model's name and the manner; what stands behind a name is
        the server's."""
        return text_hash(f"openai/{self.server.identity}/{self.model}/{self.manner.name}/{self._tool_images}")

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], n: int, params: SamplingParams
    ) -> Replies:
        """n replies. Raises PolicyError (ContextLengthError where the conversation is too long) or TimeoutError."""
        if n < 1:
            raise ValueError(f"n is {n}; ask for at least one reply")
        await self._meet()
        asked = self.manner.messages(messages, tools)
        offered = self.manner.tools(tools)
        images = sum(len(m.images) for m in asked)
        clock = self.server.clock
        started = clock.now()
        choices, prompt, sampled = await self._completion(asked, offered, n, params)
        missing = range(len(choices), n)
        if missing:
            if sends_n(params, self._dialect):
                self._learn({"many": False})
            # Each of the rest has a seed of its own, or all would be the same.
            rest = [dataclasses.replace(params, seed=branch_seed(params.seed, i)) for i in missing]
            for more, _, counted in await _all([self._completion(asked, offered, 1, p) for p in rest]):
                choices += more
                sampled += counted
        self.usage.images += images * (1 + len(missing))
        self.usage.seconds += clock.now() - started
        replies = tuple(self._reply(c, s) for c, s in zip(choices[:n], sampled[:n], strict=True))
        return Replies(replies, prompt)

    async def models(self) -> list[dict[str, Any]]:
        """What the server says it has: one entry a model, with its `id`; empty where it has no such list."""
        return await self.server.models()

    async def preflight(self) -> None:
        """Whether anybody answers, in a few seconds: the list of models, then one token.

        For whoever waits at a terminal. A server without such a list passes, and so does one that is slow with its
        first token: it may be loading the model. Raises PolicyError, TimeoutError.
        """
        patience, self.server.patience = self.server.patience, PREFLIGHT
        asked = {"model": self.model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        try:
            try:
                await self.server.models(needed=True)
            except ServerError as e:
                if e.kind == "unreachable":
                    raise
            except TimeoutError as e:
                within = f"did not list its models within {PREFLIGHT.attempt_s:.0f} s"
                raise TimeoutError(f"{self.server.address} {within}: does a model server listen there?") from e
            with contextlib.suppress(TimeoutError):
                await self.server.post("chat/completions", asked, self.model, lambda answer: answer)
        except ContextLengthError:
            return
        except ServerError as e:
            # What is refused may be how it was asked, which the policy learns.
            if e.fatal or e.kind in ("broken", "unreachable", "web_page", "bad_json"):
                raise
        finally:
            self.server.patience = patience
            await self.server.aclose()  # connections with little patience

    async def aclose(self) -> None:
        """Close the connections."""
        await self.server.aclose()

    async def _meet(self) -> None:
        """Before the first request: what the server's list of models says of the context."""
        if self._met:
            return
        self._met = True
        for entry in await self.models():
            length = entry.get("max_model_len")  # vLLM and SGLang state it
            if entry["id"] == self.model and isinstance(length, int) and length > 0:
                self.context = length

    async def _completion(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        n: int,
        params: SamplingParams,
    ) -> tuple[list[Choice], int | None, list[int | None]]:
        """(choices, tokens of the prompt, tokens of each choice) of one request, in a dialect that is understood."""

        def read(answer: Any) -> tuple[list[Choice], Any]:
            return choices_in(answer, self.server.address, self.usage), answer

        changes: dict[str, Any] = {}
        while True:
            dialect = dataclasses.replace(self._dialect, **changes)
            body = request_body(self.model, messages, tools, n, params, dialect)
            try:
                choices, answer = await self.server.post("chat/completions", body, self.model, read)
                break
            except ContextLengthError as e:
                self.context = self.context or context_in(str(e))
                raise
            except ServerError as e:
                if e.status == 404 or e.kind == "no_such_model":
                    raise await self._not_found(e) from e
                change = self._change(e.said, body, messages, dialect) if e.kind == "refused" else {}
                if not change:
                    raise
                changes |= change  # each changes what was not changed before, so this ends
        asked = n if sends_n(params, dialect) else 1
        counts = counts_in(answer, self.usage, most_sampled=(params.max_tokens + _SLACK) * max(asked, len(choices)))
        self._learn(changes)  # only what the server then understood
        if len(choices) > asked:
            self._note("more_choices_than_asked")
            choices = choices[:asked]
        field = next((c.reasoning_field for c in choices if c.reasoning_field), None)
        if field:
            self._dialect = dataclasses.replace(self._dialect, reasoning=field)
        # A choice without a reason to have ended has ended at the limit, if it is as long.
        full = counts.sampled is not None and len(choices) == 1 and counts.sampled >= params.max_tokens
        choices = [
            dataclasses.replace(c, finish="length" if full else "stop") if c.finish == "unknown" else c for c in choices
        ]
        each = [counts.sampled if len(choices) == 1 else None] * len(choices)
        return choices, counts.prompt, each

    def _change(
        self, said: str, body: Mapping[str, Any], messages: Sequence[Message], dialect: Dialect
    ) -> dict[str, Any]:
        """How to put a refused request otherwise, by what the server says; nothing where there is no other way."""
        lower = said.lower()
        if "max_tokens" in body and re.search(r"max_completion_tokens|(?:un|not )\w*.{0,40}\bmax_tokens", lower):
            return {"max_tokens": "max_completion_tokens"}
        if "seed" in body and re.search(r"\bseed\b", lower):
            return {"seed": False}
        if "n" in body and re.search(r"(?:^|[\s'\"`{(])n(?:$|[\s'\"`}):,=])", lower):
            return {"many": False}
        pictured = any(m.role == "tool" and m.images for m in messages)
        if pictured and self._tool_images == "auto" and dialect.tool_images == "tool":
            return {"tool_images": "user"}
        return {}

    def _learn(self, changes: Mapping[str, Any]) -> None:
        """Remember what the server does not understand, and count it once."""
        for name, value in changes.items():
            if getattr(self._dialect, name) != value:
                self._dialect = dataclasses.replace(self._dialect, **{name: value})
                self._note(_LEARNT[name])
                if name == "many":
                    self.capabilities -= {"n"}

    def _note(self, name: str) -> None:
        self.usage.notes[name] = self.usage.notes.get(name, 0.0) + 1.0

    async def _not_found(self, error: ServerError) -> ServerError:
        """A 404 may mean the model or the address: the server's list of models tells them apart."""
        names = [entry["id"] for entry in await self.models()]
        if names and self.model not in names:
            return no_such_model(self.server.address, self.model, names, error.said, error.status)
        return error

    def _reply(self, choice: Choice, sampled: int | None) -> Reply:
        turn, message, text = self.manner.read(choice)
        if message.calls and not choice.calls:
            self._note("calls_left_in_text")
        stop: Literal["end", "length", "tool"] = "tool" if choice.calls else "end"
        return Reply(turn, message, text, "length" if choice.finish == "length" else stop, sampled)


async def _all(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, all at once; the first that fails ends the others and is raised."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def only_model(server: Server | ServerPool) -> str:
    """The name of the one model that a server has. Raises PolicyError where it has none or several."""
    try:
        names = [str(entry["id"]) for entry in await server.models(needed=True)]
    finally:
        await server.aclose()
    if len(names) != 1:
        listed = f": {', '.join(names[:20])}" if names else ""
        raise PolicyError(f"{server.address}: name one of its models with --model{listed}", fatal=True)
    return names[0]
