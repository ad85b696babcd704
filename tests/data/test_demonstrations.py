"""Files of demonstrations: what they hold, what is wrong with them, and what of them can be learnt."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.chat import ChatFormat, Image, chat_format, sft_datum
from specvet.chat.formats import FAMILIES
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.demonstrations import (
    Demonstration,
    Picture,
    Said,
    load_sft,
    read_demonstrations,
    sft_ledger,
    write_demonstrations,
)
from specvet.data.errors import InputError
from specvet.views.png import encode_png

TOOL = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object", "properties": {}}}}
WIDTHS = (448, 308)


def png(width: int, height: int = 224, shade: int = 0) -> bytes:
    return encode_png(np.full((height, width, 3), shade, dtype=np.uint8), 1)


def line(id: str, looks: int = 1, **more: Any) -> dict[str, Any]:
    """A demonstration of `looks` calls, in the published shape."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"text": "You vet."}]},
        {"role": "user", "content": [{"image": f"images/{id}_0.png"}, {"text": "\nIs it?"}]},
    ]
    for i in range(1, looks + 1):
        call = {"name": "zoom", "arguments": {"wavelength_range": [6400 + i, 6700]}}
        messages += [
            {"role": "assistant", "reasoning": f"Look {i}.", "calls": [call]},
            {"role": "tool", "content": [{"image": f"images/{id}_{i}.png"}, {"text": "Generated."}]},
        ]
    answer = r"<answer>\boxed{YES} A bump.</answer>"
    messages.append({"role": "assistant", "reasoning": "It is.", "content": [{"text": answer}]})
    return {"id": id, "tools": [TOOL], "messages": messages} | more


def write(folder: Path, *lines: Any, name: str = "sft.jsonl") -> str:
    """The file with these lines, and a picture wherever one is named."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for given in lines:
        for m in given.get("messages", []) if isinstance(given, dict) else []:
            for i, part in enumerate(p for p in m.get("content", []) if "image" in p):
                (folder / part["image"]).write_bytes(png(WIDTHS[0 if m["role"] == "user" else 1], shade=i))
    path = folder / name
    path.write_text("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines), encoding="utf-8")
    return str(path)


def tiny(format: str) -> ChatFormat:
    return chat_format(format, tiny_vocabulary(format))


def test_a_demonstration_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path / "set", line("a", object_id="Gaia DR3 1", name="spec-1.fits"), "", line("b", looks=2))
    first, second = read_demonstrations(path)
    assert (first.id, first.object_id, first.name, first.tools) == ("a", "Gaia DR3 1", "spec-1.fits", (TOOL,))
    assert [m.role for m in first.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert first.messages[1].content == (Picture("images/a_0.png"), "\nIs it?")
    assert first.messages[2].calls[0].arguments == {"wavelength_range": [6401, 6700]}
    assert (first.where, second.where) == (f"{path} line 1", f"{path} line 3")
    assert second.pictures == tuple(str(tmp_path / "set" / "images" / f"b_{i}.png") for i in range(3))
    again = str(tmp_path / "set" / "again.jsonl")
    write_demonstrations(again, [first, second])
    assert [d.line() for d in read_demonstrations(again)] == [first.line(), second.line()]
    assert json.loads(first.line()) == line("a", object_id="Gaia DR3 1", name="spec-1.fits")


def _without(field: str) -> dict[str, Any]:
    return {k: v for k, v in line("a").items() if k != field}


def _messages(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"id": "a", "messages": list(messages)}


SAID = {"role": "assistant", "content": [{"text": "x"}]}
ASKED = {"role": "user", "content": [{"text": "?"}]}
CALLS = {"role": "assistant", "calls": [{"name": "zoom", "arguments": {}}]}
SAW = {"role": "tool", "content": [{"text": "Seen."}]}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["{"], r"sft\.jsonl line 1: is no JSON .*a file of demonstrations has one object a line"),
        ([line("a"), "[1]"], "line 2: holds a list, not an object"),
        ([_without("id")], "line 1: id is missing"),
        ([_without("messages")], "line 1: messages is missing"),
        ([line("a") | {"id": 7}], 'line 1: id: write it in quotation marks: "7"'),
        ([line("a"), line("a")], "line 2: the id 'a' stands at .*line 1 already"),
        ([line("a", mesages=[])], "line 1: mesages: there is no such field; known are id, messages, tools, object_id"),
        (
            [_messages(ASKED, SAID | {"thought": "x"})],
            r"messages\[1\]\.thought: there is no such field; known are role",
        ),
        ([_messages(ASKED | {"role": "human"}, SAID)], r"messages\[0\]\.role: .*'system', 'user'"),
        ([_messages(ASKED, {"role": "assistant", "calls": [{"name": "zoom"}]})], r"calls\[0\]\.arguments is missing"),
        ([_messages({"role": "user", "content": [{}]}, SAID)], r'messages\[0\]\.content\[0\]: give either {"text"'),
        ([_messages({"role": "user", "content": [{"text": "a", "image": "b"}]}, SAID)], "give either"),
        ([_messages({"role": "user", "content": [{"image": ""}]}, SAID)], "the path of a picture is empty"),
        ([_messages(ASKED, {"role": "assistant", "content": [{"image": "a.png"}]})], "only a user and a tool show"),
        ([_messages(ASKED | {"reasoning": "x"}, SAID)], "a user message has neither reasoning nor calls"),
        ([_messages({"role": "user"}, SAID)], r"messages\[0\]: the message is empty"),
        ([_messages(ASKED)], "messages: the last must be an assistant's"),
        ([_messages()], "messages: the last must be an assistant's"),
        ([_messages(SAID)], "messages: the conversation begins with an assistant's"),
        ([_messages(ASKED, {"role": "system", "content": [{"text": "x"}]}, SAID)], "a system message stands first"),
        ([_messages(ASKED, CALLS, SAID)], r"messages\[1\]: it calls a tool, but messages\[2\] is no tool's message"),
        ([_messages(ASKED, CALLS, ASKED, SAID)], r"messages\[1\]: it calls a tool, but messages\[2\] is no tool's"),
        ([_messages(ASKED, SAW, SAID)], r"line 1: messages\[1\]: a tool's message that follows no call"),
        ([_messages(ASKED, SAID, SAW, SAID)], r"messages\[2\]: a tool's message that follows no call"),
        (
            [_messages(ASKED, SAID | {"content": [{"text": " "}], "reasoning": ""})],
            r"messages\[1\]: the message is empty",
        ),
        (
            [_messages(ASKED, CALLS, SAW, SAID) | {"tools": [{"type": "function", "function": {"name": "look"}}]}],
            r"messages\[1\]: it calls 'zoom', which is not among the tools \(look\)",
        ),
        (
            [
                '{"id": "a", "messages": [' + json.dumps(ASKED) + ', {"role": "assistant", "calls": [{"name": "zoom", '
                '"arguments": {"range": [NaN, 1e999]}}]}, ' + json.dumps(SAW) + ", " + json.dumps(SAID) + "]}"
            ],
            r"messages\[1\]\.calls\[0\]\.arguments: they hold NaN or an infinite number",
        ),
        ([line("a", name="\udcff")], "line 1: holds half a character"),
        ([""], "holds no demonstration"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_field(tmp_path: Path, lines: list[Any], says: str) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines), encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_demonstrations(str(path))


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_are_counted_exactly_without_a_pixel_and_all_that_was_said_is_learnt(tmp_path: Path, name: str) -> None:
    format = tiny(name)
    rows, rejects = load_sft(write(tmp_path, line("a", looks=0), line("b", looks=9)), format, 16_384)
    assert not rejects
    for row, looks in zip(rows, (0, 9), strict=True):
        datum = row.datum()
        assert (row.n_tokens, row.n_active, row.n_images) == (datum.n_tokens, datum.n_learnt, 1 + looks)
        assert [image.png is not None and len(image.png) > 100 for image in datum.images] == [True] * (1 + looks)
        ledger = sft_ledger(row.demonstration, format)
        turns = [format.parse(said.ids, said.stop) for said in ledger.sampled]
        assert [type(turn).__name__ for turn in turns] == ["CallTurn"] * looks + ["AnswerTurn"]
        assert datum.n_learnt == ledger.n_sampled
        assert np.array_equal(datum.targets, sft_datum(ledger).targets)


def test_a_picture_is_neither_decoded_to_count_it_nor_read_before_it_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path, line("a"))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 448, 224, 8, 2, 0, 0, 0)
    whole_but_undecodable = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"?") + chunk(b"IEND", b"")
    (tmp_path / "images" / "a_0.png").write_bytes(whole_but_undecodable)
    (row,), rejects = load_sft(path, tiny("qwen2_5_vl"), 16_384)
    assert not rejects
    assert [(image.rows, image.columns) for image in row.datum().images] == [(8, 16), (8, 11)]


def _cut(content: bytes) -> bytes:
    return content[:-20]


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (None, "there is no such picture"),
        (_cut, "cut off after"),
        (_flipped, "checksum"),
        (lambda _: b"", "not a PNG"),
        (lambda _: b"\xff\xd8\xff\xe0 JFIF", "not a PNG"),
    ],
)
def test_a_demonstration_whose_picture_is_missing_or_damaged_is_a_reject(tmp_path: Path, spoil: Any, says: str) -> None:
    path = write(tmp_path, line("a"), line("b"), line("c"))
    picture = tmp_path / "images" / "b_1.png"
    if spoil is None:
        picture.unlink()
    else:
        picture.write_bytes(spoil(picture.read_bytes()))
    rows, rejects = load_sft(path, tiny("qwen2_5_vl"), 16_384)
    assert [row.id for row in rows] == ["a", "c"]
    (reject,) = rejects
    assert (reject.id, reject.where, reject.n_tokens) == ("b", f"{path} line 2", None)
    assert str(picture) in reject.reason
    assert says in reject.reason


def test_a_picture_that_no_model_of_the_family_takes_is_a_reject_too(tmp_path: Path) -> None:
    path = write(tmp_path, line("a"), line("b"))
    (tmp_path / "images" / "a_0.png").write_bytes(png(1000, 2))
    rows, (reject,) = load_sft(path, tiny("qwen2_5_vl"), 16_384)
    assert [row.id for row in rows] == ["b"]
    assert "one side is more than 200 times the other" in reject.reason


def test_what_is_too_long_is_listed_with_its_tokens_and_never_cut(tmp_path: Path) -> None:
    path = write(tmp_path, line("a", looks=0), line("b", looks=3))
    format = tiny("qwen2_5_vl")
    (short, long), _ = load_sft(path, format, 16_384)
    rows, (reject,) = load_sft(path, format, long.n_tokens - 1)
    assert [row.n_tokens for row in rows] == [short.n_tokens]
    assert (reject.id, reject.n_tokens) == ("b", long.n_tokens)
    assert f"more than max_tokens = {long.n_tokens - 1:,}" in reject.reason
    assert len(load_sft(path, format, long.n_tokens)[0]) == 2


def test_a_file_of_which_nothing_is_left_is_an_error_that_says_why(tmp_path: Path) -> None:
    path = write(tmp_path, line("a"), line("b"))
    with pytest.raises(InputError, match=r"none of its 2 demonstrations can be learnt; .*line 1: .* tokens, more than"):
        load_sft(path, tiny("qwen2_5_vl"), 100)


def test_a_picture_that_goes_or_changes_size_later_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    (row,), _ = load_sft(write(tmp_path, line("a")), tiny("qwen2_5_vl"), 16_384)
    picture = tmp_path / "images" / "a_1.png"
    picture.write_bytes(png(616))
    with pytest.raises(InputError, match=r"line 1: has \d+ tokens, and had \d+ .*a picture has changed"):
        row.datum()
    picture.unlink()
    with pytest.raises(InputError, match=r"line 1: .*a_1\.png: there is no such picture"):
        row.datum()


def test_a_set_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    format = tiny("qwen3_5")
    (before,), _ = load_sft(write(tmp_path / "here", line("a")), format, 16_384)
    shutil.move(tmp_path / "here", tmp_path / "there")
    (after,), _ = load_sft(str(tmp_path / "there" / "sft.jsonl"), format, 16_384)
    assert after.n_tokens == before.n_tokens
    monkeypatch.chdir(tmp_path / "there")
    (beside,), _ = load_sft("sft.jsonl", format, 16_384)
    assert [i.sha256 for i in beside.datum().images] == [i.sha256 for i in after.datum().images]


def test_a_picture_with_alpha_counts_as_the_white_one_that_is_shown(tmp_path: Path) -> None:
    import io

    from PIL import Image as Pillow

    path = write(tmp_path, line("a"))
    out = io.BytesIO()
    Pillow.new("RGBA", (448, 224), (10, 20, 30, 0)).save(out, "PNG")
    (tmp_path / "images" / "a_0.png").write_bytes(out.getvalue())
    (row,), _ = load_sft(path, tiny("qwen2_5_vl"), 16_384)
    first = row.datum().images[0]
    assert first.png is not None
    assert Image.of(first.png).sha256 == first.sha256
    assert set(np.asarray(Pillow.open(io.BytesIO(first.png))).reshape(-1, 3)[0]) == {255}


def test_a_demonstration_can_be_made_without_a_file() -> None:
    said = (Said("user", ("Is it?",)), Said("assistant", (r"<answer>\boxed{NO}</answer>",), "Hm."))
    ledger = sft_ledger(Demonstration("x", said), tiny("qwen3_5"))
    (turn,) = ledger.sampled
    assert tiny("qwen3_5").turn_text(turn.ids) == "<think>\nHm.\n</think>\n\n<answer>\\boxed{NO}</answer>"


def test_what_a_row_holds_is_told_by_its_words_and_pictures_and_not_by_their_names(tmp_path: Path) -> None:
    def content(folder: str, *, shade: int = 0, **more: Any) -> str:
        given = line("a") | more
        path = write(tmp_path / folder, given)
        (tmp_path / folder / "images" / "a_1.png").write_bytes(png(308, shade=shade))
        (row,), _ = load_sft(path, tiny("qwen2_5_vl"), 16_384)
        return row.content()

    first = content("one")
    assert content("two") == first == content("three", name="elsewhere.fits")
    assert content("four", shade=1) != first
    said = line("a")["messages"]
    said[-1] = said[-1] | {"reasoning": "Is it?"}  # as many tokens
    assert content("five", messages=said) != first
    moved = line("a")["messages"]
    moved[1]["content"][0]["image"] = "images/other.png"
    assert content("six", messages=moved) == first
