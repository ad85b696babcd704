"""Messages and parameters → the JSON of a chat completion request."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specvet.chat import Image, Message
from specvet.policies.tokens import SamplingParams

ToolImages = Literal["tool", "user"]

SEED_BITS = 31
"""Bits of a seed that are sent: some servers read it into a 32-bit signed integer."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one server understands, learnt from its refusals."""

    tool_images: ToolImages = "tool"
    """Where the pictures of a tool's reply stand. The API's own documentation allows text only in `tool` messages;
    vLLM, SGLang and `transformers serve` take pictures there, and so the model sees them as the tool's."""
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """OpenAI's reasoning models refuse the older name, many other servers do not know the newer one."""
    seed: bool = True
    many: bool = True
    """`n` is understood."""
    reasoning: str | None = None
    """The field in which the server gives a thought, and so is given it back."""


def request_body(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    n: int,
    params: SamplingParams,
    dialect: Dialect,
) -> dict[str, Any]:
    """The body of `POST /chat/completions`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": wire_messages(messages, dialect),
        dialect.max_tokens: params.max_tokens,
        "temperature": params.temperature,
        "stream": False,
    }
    if params.top_p != 1.0:
        body["top_p"] = params.top_p
    if params.top_k:
        body["top_k"] = params.top_k  # no part of OpenAI's API; vLLM, SGLang and llama.cpp have it
    if dialect.seed:
        body["seed"] = params.seed & ((1 << SEED_BITS) - 1)
    if messages and messages[-1].role == "assistant":  # a turn that was begun and goes on, as vLLM and SGLang do it
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    if params.stop:
        body["stop"] = list(params.stop)
    if n > 1 and sends_n(params, dialect):
        body["n"] = n
    if tools:
        body["tools"] = [dict(t) for t in tools]
    return body


def sends_n(params: SamplingParams, dialect: Dialect) -> bool:
    """Whether a group is one request. A greedy one is not: vLLM refuses `n` beside temperature 0."""
    return dialect.many and params.temperature > 0


def branch_seed(seed: int, i: int) -> int:
    """The seed of sequence `i` of a group, where each is a request of its own."""
    if i == 0:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}/{i}".encode()).digest()[:8], "little") >> 1


def wire_messages(messages: Sequence[Message], dialect: Dialect) -> list[dict[str, Any]]:
    """The messages as the API knows them. A tool's reply carries the id of the call before it."""
    wire: list[dict[str, Any]] = []
    calls = 0
    waiting: list[str] = []
    for message in messages:
        if message.role == "assistant":
            ids = [f"call{calls + i:05d}" for i in range(len(message.calls))]  # nine letters: Mistral takes no others
            calls += len(ids)
            waiting = ids[:]
            wire.append(_assistant(message, ids, dialect))
        elif message.role == "tool" and waiting:
            wire += _tool(message, waiting.pop(0), dialect)
        else:
            # A reply to a turn that called nothing (a malformed one) is the user's word.
            role = "user" if message.role == "tool" else message.role
            wire.append({"role": role, "content": _content(message)})
    return wire


def _assistant(message: Message, ids: Sequence[str], dialect: Dialect) -> dict[str, Any]:
    text = message.text
    if message.reasoning and not dialect.reasoning:
        text = f"<think>\n{message.reasoning}\n</think>\n\n{text}"
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if message.reasoning and dialect.reasoning:
        said[dialect.reasoning] = message.reasoning
    if message.calls:
        said["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
            }
            for call_id, call in zip(ids, message.calls, strict=True)
        ]
    return said


def _tool(message: Message, call_id: str, dialect: Dialect) -> list[dict[str, Any]]:
    said = {"role": "tool", "tool_call_id": call_id}
    if not message.images:
        return [said | {"content": message.text}]
    if dialect.tool_images == "tool":
        return [said | {"content": _content(message)}]
    pictures = [_part(image) for image in message.images]
    return [said | {"content": message.text}, {"role": "user", "content": pictures}]


def _content(message: Message) -> str | list[dict[str, Any]]:
    """Plain text where there are no pictures: every server takes it, some take nothing else for `system`."""
    return [_part(part) for part in message.content] if message.images else message.text


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    png = Image.of(part.png).png  # what has alpha is laid on white here: a server may lay it on black
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}
