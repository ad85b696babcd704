"""The two manners of asking a chat server: with its own tool calls, or in the words of one of our chat formats."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from specvet.chat import (
    AnswerTurn,
    CallTurn,
    ChatFormat,
    Image,
    MalformedTurn,
    Message,
    ParsedTurn,
    ToolCall,
    TruncatedTurn,
)
from specvet.chat.vocabulary import harmless
from specvet.policies.openai.answers import Choice
from specvet.tasks.turns import CONTROL, Answer, Call, Fault, read_act, read_call

Tools = Sequence[Mapping[str, Any]]
Read = tuple[ParsedTurn, Message, str]
"""What a turn is, as it goes back to the server, and all its words."""

_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
_FILTERED = "the server's content filter stopped the turn"


class ToolsManner:
    """The server is given the tool's schema and gives calls back as `tool_calls`; the answer is text.

    Thoughts may come in a field of their own or as `<think>…</think>`; words beside them are no fault here, since
    models without a mode of thinking think aloud. Whether a server's template shows earlier thoughts to its model is
    the server's business: `transformers serve` drops all words of a turn that called a tool.
    """

    name = "tools"

    def messages(self, messages: Sequence[Message], tools: Tools) -> list[Message]:
        """The messages as they are, with nothing in their words that a server would take for a control token."""
        return [
            dataclasses.replace(
                m,
                content=tuple(harmless(part) if isinstance(part, str) else part for part in m.content),
                reasoning=harmless(m.reasoning),
                calls=tuple(ToolCall(harmless(c.name), _harmless(dict(c.arguments))) for c in m.calls),
            )
            for m in messages
        ]

    def tools(self, tools: Tools) -> Tools:
        return tools

    def read(self, choice: Choice) -> Read:
        """What the choice is."""
        thought, body, trouble = _split(choice)
        turn = self._turn(choice, thought, body, trouble)
        text = f"<think>\n{thought}\n</think>\n\n{body}" if thought else body
        if isinstance(turn, TruncatedTurn) and turn.open_thought:
            text = f"<think>\n{choice.reasoning or choice.content.strip().removeprefix('<think>')}"
        for name, arguments in choice.calls:
            text = f"{text}\n<tool_call>\n{_written(name, arguments)}\n</tool_call>".lstrip("\n")
        calls = (ToolCall(turn.name, turn.arguments),) if isinstance(turn, CallTurn) else ()
        if calls and not choice.calls:
            body = body[: body.find("<tool_call>")].rstrip()
        message = Message("assistant", (body,) if body else (), thought, calls)
        if isinstance(turn, MalformedTurn | TruncatedTurn):
            turn = dataclasses.replace(turn, text=text)
        return turn, message, text

    def _turn(self, choice: Choice, thought: str, body: str, trouble: MalformedTurn | None) -> ParsedTurn:
        if choice.finish == "content_filter":
            return MalformedTurn("filtered", _FILTERED)
        if choice.finish == "length":
            return TruncatedTurn(open_thought=_is_open(choice, body))
        if CONTROL.search(body) or any(CONTROL.search(_written(*c)) for c in choice.calls):
            return MalformedTurn("control_ids", "a control token inside the turn")
        call = _single_call(choice.calls)
        if trouble or isinstance(call, MalformedTurn):
            return trouble or cast(MalformedTurn, call)
        if call is None:
            # A server without a parser for its model's calls leaves them in the text.
            return _turn_of(read_act(body, words_before=True), thought)
        if "<answer>" in body:
            return MalformedTurn("call_and_answer", "a call and an answer in one turn")
        if "<tool_call>" in body:
            return MalformedTurn("many_calls", "a call in the text beside the one that the server gives")
        return dataclasses.replace(call, reasoning=thought)


class TextManner:
    """The server is given plain words in the manner of `format`, tools in the system text, and gives plain words back.

    For servers that know no tools, and for models trained on our format. Turns are read by the format's own parser.
    """

    def __init__(self, format: ChatFormat) -> None:
        self.format = format
        self.name = f"text/{format.name}"

    def messages(self, messages: Sequence[Message], tools: Tools) -> list[Message]:
        """The messages with the tools told in the system text and each tool's reply as the user's."""
        first, rest = ([messages[0]], messages[1:]) if messages and messages[0].role == "system" else ([], messages)
        said = [self._system(first, tools)]
        for message in rest:
            if message.role == "assistant" and not message.calls and not message.reasoning:
                parts = tuple(harmless(p, tags=False) if isinstance(p, str) else p for p in message.content)
                said.append(dataclasses.replace(message, content=parts))
            else:
                said.append(self._one(message))
        return [m for m in said if m.content]

    def tools(self, tools: Tools) -> Tools:
        return ()

    def read(self, choice: Choice) -> Read:
        """What the choice is, by the format's parser."""
        text, prefix = choice.content, self.format.prefix
        if choice.reasoning is not None:
            opening = prefix or "<think>\n"
            closing = "" if choice.finish == "length" and not text.strip() else f"\n</think>\n\n{text.lstrip()}"
            text = f"{opening}{choice.reasoning.strip()}{closing}"
        elif prefix and not text.lstrip().startswith(prefix.strip()):
            text = prefix + text
        message = Message("assistant", (text,))
        if choice.finish == "content_filter":
            return MalformedTurn("filtered", _FILTERED, text), message, text
        if choice.calls:  # though it was told of no tool
            return (
                MalformedTurn("bad_call", "the server took the call out of the text; use --tools tools", text),
                message,
                text,
            )
        begun = text.lstrip()[len(prefix.strip()) :].removeprefix("\n") if prefix else text
        turn = self.format.parse_text(begun, "length" if choice.finish == "length" else "end")
        return turn, message, text

    def _system(self, first: Sequence[Message], tools: Tools) -> Message:
        rendered = self.format.text([*first, Message("user", ("?",))], tools, generation=False)
        block = rendered.removeprefix("<|im_start|>system\n").rpartition("<|im_end|>\n<|im_start|>user\n")[0]
        return Message("system", (block,) if rendered.startswith("<|im_start|>system\n") else ())

    def _one(self, message: Message) -> Message:
        """One message as the format writes it, without its header and end."""
        user = Message("user", ("?",))
        before = self.format.text([user], generation=False)
        rendered = self.format.text([user, message], generation=False).removeprefix(before)
        header, _, block = rendered.partition("\n")
        block = block.rstrip("\n").removesuffix("<|im_end|>")
        pictures = iter(message.images)
        parts: list[str | Image] = []
        for i, words in enumerate(block.split(_PICTURE)):
            if i:
                parts.append(next(pictures))
            if words:
                parts.append(words)
        return Message("assistant" if header.endswith("assistant") else "user", tuple(parts))


class PlainManner:
    """Words in and words out, read by whoever asked: for turns that stop and go on in the middle."""

    name = "plain"

    def messages(self, messages: Sequence[Message], tools: Tools) -> list[Message]:
        """The messages as they are, their control tokens disarmed."""
        parts = ((m, (harmless(p, tags=False) if isinstance(p, str) else p for p in m.content)) for m in messages)
        return [dataclasses.replace(m, content=tuple(content)) for m, content in parts]

    def tools(self, tools: Tools) -> Tools:
        return ()

    def read(self, choice: Choice) -> Read:
        """The words, with a thought that the server took out of them."""
        text = choice.content if choice.reasoning is None else f"<think>\n{choice.reasoning}</think>{choice.content}"
        turn = TruncatedTurn(text) if choice.finish == "length" else MalformedTurn("nothing", "plain words", text)
        return turn, Message("assistant", (text,)), text


def _harmless(value: Any) -> Any:
    """JSON whose texts cannot act: a call may spell a control token in escapes."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, Mapping):
        return {_harmless(k): _harmless(v) for k, v in value.items()}
    return [_harmless(v) for v in value] if isinstance(value, list | tuple) else value


def _split(choice: Choice) -> tuple[str, str, MalformedTurn | None]:
    """(thought, the words after it, what is wrong with the thought)."""
    content = choice.content.strip()
    if choice.reasoning is not None:
        return choice.reasoning.strip(), content, None
    thought, closed, body = content.removeprefix("<think>").partition("</think>")
    if not closed:
        if not content.startswith("<think>"):
            return "", content, None
        return thought.strip(), "", MalformedTurn("unclosed_thinking", "the thought never ends")
    if "<think>" in thought or "<think>" in body or "</think>" in body:
        return thought.strip(), body.strip(), MalformedTurn("bad_thinking", "more than one thought in a turn")
    return thought.strip(), body.strip(), None


def _is_open(choice: Choice, body: str) -> bool:
    if choice.reasoning is not None:
        return not body
    return "<think>" in choice.content and "</think>" not in choice.content


def _single_call(calls: Sequence[tuple[str, Any]]) -> CallTurn | MalformedTurn | None:
    if not calls:
        return None
    if len(calls) > 1:
        return MalformedTurn("many_calls", f"{len(calls)} calls in one turn; one is allowed")
    name, given = calls[0]
    call = read_call(_written(name, given), "json")
    return MalformedTurn(call.kind, call.detail) if isinstance(call, Fault) else CallTurn(call.name, call.arguments)


def _written(name: str, arguments: Any) -> str:
    """A call as the JSON of our formats; arguments stand as they came, so that what is wrong with them stays wrong."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {given}}}'


def _turn_of(act: Call | Answer | Fault, thought: str) -> CallTurn | AnswerTurn | MalformedTurn:
    match act:
        case Call():
            return CallTurn(act.name, act.arguments, thought)
        case Answer():
            return AnswerTurn(act.word, act.explanation, thought)
        case Fault():
            return MalformedTurn(act.kind, act.detail)
