"""What the templates render, byte for byte: the published renderings, and the repository's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conversation_lab import FORMATS, GOLDEN, golden_cases, golden_messages

from specvet.chat import chat_format
from specvet.chat.templating import render
from specvet.chat.tiny import tiny_vocabulary

SHARED = Path(__file__).parents[2].parent / "shared" / "golden" / "chat"
FOLDERS = {"qwen3_5_official": "qwen3_5", "qwen2_5_vl_published": "qwen2_5_vl"}
PUBLISHED = sorted(p for folder in FOLDERS for p in (SHARED / folder).glob("*.json"))
KEPT_THOUGHT = {
    "<tool_call>": "<think>\nThe full view shows a spike near 6563 Å. Look closer.\n</think>\n\n<tool_call>",
    "<answer>": "<think>\nOne broad emission line is enough.\n</think>\n\n<answer>",
}
"""What `later_user_turn` lacks in the official rendering: each assistant turn's thought, which ours keeps."""

shared = pytest.mark.skipif(not PUBLISHED, reason=f"no golden renderings at {SHARED}")


def _wanted(path: Path) -> str:
    text = path.with_suffix(".txt").read_bytes().decode()
    if (path.parent.name, path.stem) == ("qwen3_5_official", "later_user_turn"):
        for start, kept in KEPT_THOUGHT.items():
            text = text.replace(f"<|im_start|>assistant\n{start}", f"<|im_start|>assistant\n{kept}")
    return text


@pytest.mark.shared
@shared
def test_all_published_renderings_are_compared() -> None:
    assert len(PUBLISHED) == 14


@pytest.mark.shared
@shared
@pytest.mark.parametrize("path", PUBLISHED, ids=[f"{p.parent.name}-{p.stem}" for p in PUBLISHED])
def test_rendered_bytes_equal_the_published_ones(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    name = FOLDERS[path.parent.name]
    tools, generation = case.get("tools") or [], case["add_generation_prompt"]
    text, _ = render(name, case["messages"], tools, add_generation_prompt=generation)
    assert text.encode() == _wanted(path).encode()
    ours = chat_format(name, tiny_vocabulary(name))
    assert ours.text(golden_messages(case["messages"]), tools, generation=generation) == text


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", golden_cases())
def test_rendered_bytes_equal_the_repository_s_own(format: str, case: str) -> None:
    told = golden_cases()[case]
    ours = chat_format(format, tiny_vocabulary(format))
    text = ours.text(golden_messages(told["messages"]), told["tools"], generation=told["generation"])
    assert text.encode() == (GOLDEN / f"{format}__{case}.txt").read_bytes()


def test_every_golden_rendering_in_the_repository_is_compared() -> None:
    assert {p.name for p in GOLDEN.glob("*.txt")} == {f"{f}__{c}.txt" for f in FORMATS for c in golden_cases()}


@pytest.mark.parametrize("format", ["qwen3_5", "qwen3_vl_thinking"])
def test_a_thought_in_the_content_is_moved_to_where_the_format_has_it(format: str) -> None:
    ours = chat_format(format, tiny_vocabulary(format))
    told = golden_cases()["whole_conversation"]
    messages = told["messages"]
    inside = [
        {**m, "content": f"<think>\n{m['reasoning_content']}\n</think>\n\n{m['content']}", "reasoning_content": ""}
        if m["role"] == "assistant"
        else m
        for m in messages
    ]
    assert ours.text(golden_messages(inside), told["tools"], generation=False) == (
        ours.text(golden_messages(messages), told["tools"], generation=False)
    )


@pytest.mark.parametrize("format", FORMATS)
def test_transformers_renders_our_templates_to_the_same_text_and_learning_mask(format: str) -> None:
    transformers = pytest.importorskip("transformers")
    from specvet.chat.formats import FAMILIES
    from specvet.chat.templating import template_source
    from specvet.chat.tiny import tiny_tokenizer

    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer(format))
    theirs.chat_template = template_source(FAMILIES[format].template)
    ours = chat_format(format, tiny_vocabulary(format))
    for case, told in golden_cases().items():
        messages = golden_messages(told["messages"])
        plain = [ours._plain(m) for m in messages]
        options = {"tools": told["tools"] or None, "thinking": ours.thinking}
        text = theirs.apply_chat_template(plain, tokenize=False, add_generation_prompt=told["generation"], **options)
        assert text == ours.text(messages, told["tools"], generation=told["generation"]), case
        whole, spans = ours.learnt(messages, told["tools"])
        masked = theirs.apply_chat_template(
            plain, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **options
        )
        offsets = theirs(whole, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
        assert masked["assistant_masks"] == [int(any(s < e2 and s2 < e for s, e in spans)) for s2, e2 in offsets], case
