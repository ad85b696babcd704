"""Our Jinja templates, rendered as `transformers` renders chat templates, with the learning spans that they mark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_START, _END = "\ufdd0", "\ufdd1"
"""Noncharacters (Unicode 23.7) around a learning span while a template renders; `harmless` keeps them out of words."""


class Generation(Extension):
    """`{% generation %} … {% endgeneration %}`: what a model says, and learns to say, in a template.

    `transformers` knows the same tag, so that our templates work there with `return_assistant_tokens_mask`.
    """

    tags = {"generation"}  # noqa: RUF012  (jinja2's own declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    @staticmethod
    def _marked(caller: Callable[[], str]) -> str:
        return f"{_START}{caller()}{_END}"


def render(
    template: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), **options: Any
) -> tuple[str, list[tuple[int, int]]]:
    """The text of a template of ours (by its file name, without `.jinja`) and its learning spans.

    Messages and tools are as OpenAI's API has them. A span is (start, end) in characters of the text.
    """
    marked = _template(template).render(messages=list(messages), tools=list(tools), **options)
    pieces, spans, at, start = [], [], 0, 0
    for piece in re.split(f"([{_START}{_END}])", marked):
        if piece == _START:
            start = at
        elif piece == _END:
            spans.append((start, at))
        else:
            pieces.append(piece)
            at += len(piece)
    return "".join(pieces), spans


@cache
def template_source(template: str) -> str:
    """The Jinja source, to be saved as a model's `chat_template.jinja`."""
    return (files("specvet.chat") / "templates" / f"{template}.jinja").read_text(encoding="utf-8")


@cache
def _template(name: str) -> Any:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation])
    environment.filters["tojson"] = _json
    return environment.from_string(template_source(name))


def _json(value: Any) -> str:
    """As people read it: no ASCII or HTML escapes."""
    return json.dumps(value, ensure_ascii=False)
