"""Any OpenAI-compatible server as a policy. In come messages; out come replies. Its ledger is text-only.

    policy = open_policy(ModelOptions(base_url="http://localhost:8000/v1", model="Qwen/Qwen2.5-VL-3B-Instruct"))

The key is read from SPECVET_API_KEY or OPENAI_API_KEY.

What `transformers serve` (5.24) does otherwise than others, seen in its source and in tests: it ignores `n`; it samples
at all only where the model's `generation_config.json` has `do_sample`; it seeds when a request arrives and not when its
turn to be computed comes, so that seeds hold for one request at a time (`branches=1`); it refuses `top_k`; it fails on
`stop`, and with status 500 where its model writes a tool call that is no JSON, whether or not it was told of a tool; of
a turn that called a tool it shows its model the call but not the words.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from specvet.policies.openai.errors import ServerError
from specvet.policies.openai.patience import PREFLIGHT, Clock, Patience
from specvet.policies.openai.policy import TOOL_IMAGES, Manner, OpenAIPolicy, only_model
from specvet.policies.openai.pool import ServerPool
from specvet.policies.openai.server import Server
from specvet.policies.openai.turns import PlainManner, TextManner, ToolsManner
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import PolicyError, Usage

__all__ = [
    "OpenAIPolicy",
    "Patience",
    "Server",
    "ServerError",
    "ServerPool",
    "TextManner",
    "ToolsManner",
    "open_policy",
]


def open_policy(
    options: ModelOptions, *, environment: Mapping[str, str] = os.environ, clock: Clock | None = None
) -> OpenAIPolicy:
    """The policy that these options describe; asks the server nothing yet, unless for the name of its model.

    Uses `model` (None: the only one the server has), `base_url` (None: OPENAI_BASE_URL), `more_urls`, `tools`,
    `tool_images`, `format` (with `tools="text"`; None: by the model's name), `branches` (requests at a time) and
    `timeout_s` (of one attempt). Raises PolicyError for options it cannot use, and what the server raises when it is
    asked.
    """
    base_url = options.base_url or environment.get("OPENAI_BASE_URL")
    if not base_url:
        raise PolicyError(
            "the policy `openai` needs a server: --base-url http://localhost:8000/v1 (or OPENAI_BASE_URL)", fatal=True
        )
    if options.adapter:
        raise PolicyError(
            "the policy `openai` takes no --adapter: name it as the model, as the server calls it", fatal=True
        )
    tool_images = TOOL_IMAGES.get(options.tool_images)
    if tool_images is None:
        raise PolicyError(f"tool_images is {options.tool_images!r}; it can be auto, tool or user", fatal=True)
    patience = Patience(attempt_s=options.timeout_s, total_s=3 * options.timeout_s)
    urls = tuple(dict.fromkeys((base_url, *options.more_urls)))
    server = _served(urls, patience, options.branches, clock, environment)
    # In a thread of its own, since the caller may have an event loop that runs.
    first = _served(urls, PREFLIGHT, 1, clock, environment)
    model = options.model or _in_thread(lambda: asyncio.run(only_model(first)))
    return OpenAIPolicy(server, model, _manner(options, model), tool_images)


def _served(
    urls: Sequence[str], patience: Patience, concurrent: int, clock: Clock | None, environment: Mapping[str, str]
) -> Server | ServerPool:
    """One server, or several as one."""
    usage = Usage()
    servers = [
        Server(url, usage, patience=patience, concurrent=concurrent, clock=clock, environment=environment)
        for url in urls
    ]
    return servers[0] if len(servers) == 1 else ServerPool(servers, patience)


def _in_thread(work: Callable[[], str]) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def _manner(options: ModelOptions, model: str) -> Manner:
    if options.tools == "tools":
        return ToolsManner()
    if options.tools == "plain":
        return PlainManner()
    if options.tools != "text":
        raise PolicyError(f"tools is {options.tools!r}; it can be tools or text", fatal=True)
    from specvet.chat.formats import FAMILIES, chat_format
    from specvet.chat.tiny import tiny_vocabulary

    name = options.format or _format_of(model)
    if name not in FAMILIES:
        raise PolicyError(f"there is no chat format {name!r}; known are {', '.join(FAMILIES)}", fatal=True)
    # Words are all that is exchanged here, so that any vocabulary with the family's control tokens will do.
    return TextManner(chat_format(name, tiny_vocabulary(name)))


def _format_of(model: str) -> str:
    """The chat format that a model's name speaks of. Raises PolicyError where it speaks of none."""
    plain = re.sub(r"[^a-z0-9]", "", model.lower())
    if "qwen3vl" in plain:
        return "qwen3_vl_thinking" if "thinking" in plain else "qwen3_vl"
    for part, name in (
        ("qwen25vl", "qwen2_5_vl"),
        ("qwen2vl", "qwen2_5_vl"),
        ("qwen35", "qwen3_5"),
        ("speco3", "qwen2_5_vl"),
    ):
        if part in plain:
            return name
    raise PolicyError(f"no chat format is known by the name of {model!r}; name one with --format", fatal=True)
