"""The `renderers` package as a second oracle: its ids for Qwen3-VL and Qwen3.5 are ours, on the real vocabularies.

It is written independently of any template, and is what other training stacks prompt these models with.
"""

from __future__ import annotations

import io
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from conversation_lab import TOOL, conversations, golden_cases, golden_messages, picture
from hypothesis import HealthCheck, given, settings
from PIL import Image as Pillow
from vocabulary_lab import real_tokenizer, real_vocabulary

from specvet.chat import Image, ImageSegment, Message, ToolCall, chat_format, ledger_of
from specvet.chat.messages import assistant, system, tool, user

pytest.importorskip("renderers", reason="pip install -e '.[dev]' brings it")
transformers = pytest.importorskip("transformers")

NAMES = ("qwen3_vl", "qwen3_5")


@cache
def renderer(name: str) -> Any:
    """Its renderer on a local tokenizer and picture processor: nothing is downloaded."""
    from renderers.qwen3_vl import Qwen3VLRenderer
    from renderers.qwen36 import Qwen36Renderer

    geometry = chat_format(name, real_vocabulary(name)).geometry
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=real_tokenizer(name))
    pictures = transformers.models.qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil(
        size={"shortest_edge": geometry.min_pixels, "longest_edge": geometry.max_pixels},
        patch_size=geometry.patch,
        merge_size=geometry.merge,
    )
    processor = SimpleNamespace(image_processor=pictures)
    if name == "qwen3_vl":
        return Qwen3VLRenderer(tokenizer, processor=processor)
    # Qwen3.6 is Qwen3.5 with the choice to keep every turn's thought, as our template does. It prints true for True.
    config = Qwen36Renderer._config_cls(preserve_thinking=True)
    return Qwen36Renderer(tokenizer, config, processor=processor)


def theirs(messages: list[Message], name: str) -> list[dict[str, Any]]:
    """Our messages as the package takes them."""
    plain = []
    for m in messages:
        parts: list[dict[str, Any]] = [
            {"type": "image", "image": Pillow.open(io.BytesIO(p.png))}
            if isinstance(p, Image)
            else {"type": "text", "text": p}
            for p in m.content
        ]
        entry: dict[str, Any] = {"role": m.role, "content": parts if m.images else m.text}
        if m.reasoning and name == "qwen3_5":
            entry["reasoning_content"] = m.reasoning
        elif m.reasoning:
            entry["content"] = f"<think>{m.reasoning}</think>{m.text}"
        if m.calls:
            calls = [{"name": c.name, "arguments": dict(c.arguments)} for c in m.calls]
            entry["tool_calls"] = [{"type": "function", "function": c} for c in calls]
        plain.append(entry)
    return plain


def check(messages: list[Message], tools: list[dict[str, Any]], name: str) -> None:
    """Whole conversation, then each bridge from a sampled turn to the next prompt, id by id."""
    ours = chat_format(name, real_vocabulary(name))
    ledger = ledger_of(messages, tools, ours)
    asks = messages[-1].role != "assistant"
    rendered = renderer(name).render(theirs(messages, name), tools=tools or None, add_generation_prompt=asks)
    ids = list(ledger.ids())
    assert ids == (rendered.token_ids if asks else rendered.token_ids[:-1])
    spans = ledger.ends
    pictures = [(a, s.n_tokens) for a, s in zip(spans, ledger, strict=False) if isinstance(s, ImageSegment)]
    told = rendered.multi_modal_data.mm_placeholders["image"] if pictures else []
    assert pictures == [(p.offset, p.length) for p in told]
    turns = [i for i, m in enumerate(messages) if m.role == "assistant"]
    for turn in turns:
        following = next((t for t in turns if t > turn), len(messages))
        if following == turn + 1:
            continue
        partial = ledger_of(messages[: turn + 1], tools, ours)
        said = partial.sampled[-1]
        prompt = list(partial.ids()[: -said.n_tokens])
        bridged = renderer(name).bridge_to_next_turn(
            prompt, list(said.ids), theirs(messages[turn + 1 : following], name)
        )
        partial.append(ours.between(partial, messages[turn + 1 : following]))
        assert list(partial.ids()) == bridged.token_ids


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", golden_cases())
def test_golden_conversations_have_the_ids_of_the_other_renderer(name: str, case: str) -> None:
    told = golden_cases()[case]
    messages = golden_messages(told["messages"], [picture(800 - 40 * i, 480 + 24 * i, i) for i in range(4)])
    if name == "qwen3_5":  # true for True, null for None is the one thing in which Qwen3.6 differs
        plain = {"wide": "yes", "note": "no"}
        messages = [
            Message(m.role, m.content, m.reasoning, tuple(ToolCall(c.name, _with(c.arguments, plain)) for c in m.calls))
            for m in messages
        ]
        if not messages[-1].reasoning and messages[-1].role == "assistant":
            messages = messages[:-1]  # an empty thought: its two newlines are encoded apart, as they are sampled
    check(messages, told["tools"], name)


def _with(arguments: Any, plain: dict[str, str]) -> dict[str, Any]:
    return {k: plain.get(k, v) for k, v in arguments.items()}


def test_arguments_that_are_no_text_are_printed_as_in_the_other_renderer_of_qwen3_5() -> None:
    from renderers.qwen35 import Qwen35Renderer

    ours = chat_format("qwen3_5", real_vocabulary("qwen3_5"))
    arguments = {
        "a": True,
        "b": None,
        "c": 1e-7,
        "d": -0.0,
        "e": 10**20,
        "f": [1, None, True],
        "g": {"x": "Å<&>"},
        "h": "",
    }
    messages = [user("Q"), assistant("", "T", [ToolCall("look", arguments)])]
    rendered = Qwen35Renderer(renderer("qwen3_5")._tokenizer).render(theirs(messages, "qwen3_5"))
    assert list(ledger_of(messages, [], ours).ids()) == rendered.token_ids[:-1]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(messages=conversations())
def test_random_conversations_have_the_ids_of_the_other_renderer(name: str, messages: list[Message]) -> None:
    honest = []
    for m in messages:
        words = tuple(p if isinstance(p, Image) else _honest(p) for p in m.content)
        if name == "qwen3_5" and m.images:  # the one thing in which it is not its template: it does not trim
            words = tuple(p if isinstance(p, Image) else f"\n{p.strip()}." for p in words)
        thought = _honest(m.reasoning).strip() or "-" if m.reasoning else ""
        calls = tuple(ToolCall(c.name, {_honest(k): _value(v) for k, v in c.arguments.items()}) for c in m.calls)
        honest.append(Message(m.role, words, thought, calls))
    check(honest, [TOOL], name)


def _honest(text: str) -> str:
    """Without what ours would disarm, and what a tag of the protocol would be."""
    return text.replace("<", "(")


def _value(value: Any) -> Any:
    return _honest(value) if isinstance(value, str) else value


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_cut_at_its_limit_is_ended_as_in_the_other_renderer(name: str) -> None:
    ours = chat_format(name, real_vocabulary(name))
    ledger = ours.new_ledger()
    ledger.append(ours.opening([system("S"), user(picture(), "Q")]))
    prompt = list(ledger.ids())
    said = ours.vocabulary.encode("Closed.\n</think>\n\nNot fin")
    ledger.append_sampled(said, [-0.5] * len(said), "length")
    ledger.append(ours.observation(ledger, tool("O")))
    bridged = renderer(name).bridge_to_next_turn(prompt, said, theirs([tool("O")], name))
    assert list(ledger.ids()) == bridged.token_ids
