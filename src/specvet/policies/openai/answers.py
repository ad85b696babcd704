"""A chat completion's JSON → choices and counts, every field doubted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specvet.policies.openai.errors import ServerError
from specvet.policies.tokens import Usage

Finish = Literal["stop", "length", "tool_calls", "content_filter", "unknown"]

MAX_PROMPT = 10_000_000
"""No model has a context of as many tokens; a server that counts more counts wrongly."""

MAX_COST = 1_000.0
"""US dollars that no single request costs."""

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
"""The API's words, and what other servers say for them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One assistant message as the server gave it."""

    content: str
    reasoning: str | None
    """None where the server gives no such field; the thought may then stand in `content`."""
    reasoning_field: str | None
    calls: tuple[tuple[str, Any], ...]
    """(name, arguments) of each call; arguments as they came, a JSON text as a rule."""
    finish: Finish


@dataclass(frozen=True, slots=True)
class Counts:
    """What the server counted; None for what it does not say, or says in a way that cannot be true."""

    prompt: int | None
    cached: int | None
    sampled: int | None


def choices_in(answer: Any, address: str, usage: Usage) -> list[Choice]:
    """The choices of an answer. Raises ServerError, which names the field that is missing or of the wrong type."""

    def wrong(what: str) -> ServerError:
        shown = json.dumps(answer, ensure_ascii=False, default=str)[:200]
        return ServerError(f"{address} answers without a usable completion: {what}; it sent {shown}", "bad_reply")

    if not isinstance(answer, Mapping):
        raise wrong("the answer is no object")
    if answer.get("error") and not answer.get("choices"):  # some gateways wrap an error into status 200
        raise ServerError(f"{address} answers with an error: {str(answer['error'])[:300]}", "bad_reply", again=True)
    listed = answer.get("choices")
    if not isinstance(listed, list):
        raise wrong("`choices` is missing or no list")
    if not listed:
        raise ServerError(f"{address} answers with no choices at all", "no_choices", again=True)
    choices = []
    for i, entry in enumerate(listed):
        message = entry.get("message") if isinstance(entry, Mapping) else None
        if not isinstance(message, Mapping):
            raise wrong(f"`choices[{i}].message` is missing or no object")
        content = _text(message.get("content"))
        if content is None:
            raise wrong(f"`choices[{i}].message.content` is neither text nor null")
        field, thought = _reasoning(message)
        if thought is None and field:
            raise wrong(f"`choices[{i}].message.{field}` is no text")
        calls = _calls(message)
        if calls is None:
            raise wrong(f"`choices[{i}].message.tool_calls` is no list of calls")
        said = entry.get("finish_reason")
        finish: Finish = _FINISHES.get(said, "unknown") if isinstance(said, str) else "unknown"
        if finish == "unknown":
            _note(usage, "finish_reason_unknown")
        choices.append(Choice(content, thought, field, calls, finish))
    return choices


def counts_in(answer: Any, usage: Usage, *, most_sampled: int) -> Counts:
    """The tokens the server counted, added to `usage`. What cannot be true is left out and counted in `usage.notes`."""
    told = answer.get("usage") if isinstance(answer, Mapping) else None
    if not isinstance(told, Mapping):
        _note(usage, "usage_missing")
        return Counts(None, None, None)
    prompt = _count(told.get("prompt_tokens"), MAX_PROMPT, usage)
    sampled = _count(told.get("completion_tokens"), most_sampled, usage)
    details = told.get("prompt_tokens_details")
    cached = None
    if isinstance(details, Mapping) and details.get("cached_tokens") is not None:
        cached = _count(details["cached_tokens"], MAX_PROMPT if prompt is None else prompt, usage)
    details = told.get("completion_tokens_details")
    if isinstance(details, Mapping) and details.get("reasoning_tokens") is not None:
        usage.notes["reasoning_tokens"] = usage.notes.get("reasoning_tokens", 0.0) + (
            _count(details["reasoning_tokens"], most_sampled, usage) or 0
        )
    usage.prompt_tokens += prompt or 0
    usage.prefilled_tokens += max(0, (prompt or 0) - (cached or 0))
    usage.sampled_tokens += sampled or 0
    cost = told.get("cost")  # OpenRouter states it
    if isinstance(cost, int | float) and not isinstance(cost, bool) and math.isfinite(cost) and 0 <= cost < MAX_COST:
        usage.cost += cost
    return Counts(prompt, cached, sampled)


def _count(value: Any, most: int, usage: Usage) -> int | None:
    if value is None:
        _note(usage, "usage_missing")
    elif isinstance(value, bool) or not isinstance(value, int):
        _note(usage, "usage_no_number")
    elif value < 0:
        _note(usage, "usage_negative")
    elif value > most:
        _note(usage, "usage_too_large")
    else:
        return value
    return None


def _note(usage: Usage, name: str) -> None:
    usage.notes[name] = usage.notes.get(name, 0.0) + 1.0


def _text(value: Any) -> str | None:
    """The text of `content`: a string, null, or a list of text parts; None for anything else."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(p, Mapping) and isinstance(p.get("text", ""), str) for p in value):
        return "".join(p.get("text", "") for p in value)
    return None


def _reasoning(message: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(field, thought): vLLM and OpenRouter say `reasoning`; DeepSeek, SGLang and older vLLM `reasoning_content`."""
    for field in ("reasoning_content", "reasoning"):
        value = message.get(field)
        if value is not None and value != "":
            return field, value if isinstance(value, str) else None
    return None, None


def _calls(message: Mapping[str, Any]) -> tuple[tuple[str, Any], ...] | None:
    listed = message.get("tool_calls")
    if listed is None and isinstance(message.get("function_call"), Mapping):  # the API's older form
        listed = [{"function": message["function_call"]}]
    if listed is None:
        return ()
    if not isinstance(listed, list):
        return None
    calls = []
    for entry in listed:
        function = entry.get("function") if isinstance(entry, Mapping) else None
        if not isinstance(function, Mapping):
            return None
        name = function.get("name")
        calls.append((name if isinstance(name, str) else "", function.get("arguments")))
    return tuple(calls)
