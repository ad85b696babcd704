"""Reading documents: what they hold follows from their number, stands in their pictures, and judges nothing."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from PIL import Image as Pillow

from specvet.chat import Message
from specvet.data.reading import ReadingDocument, corpus, read_documents
from specvet.data.reading.scenes import DOCUMENTS_AN_EXPOSURE, Scenes, scenes_of
from specvet.tasks import SHORT_SYSTEM_TEXT, builtin_tasks
from specvet.tools import TOOL_NAME, ZoomTool

SEED, FIRST, N = 7, 42, 16
DOCUMENTS = list(read_documents(SEED, FIRST, N))
CLASSES = re.compile(r"carbon|catacl|\bCVs?\b|S-type|[Gg]iant|\bWDs?\b|\b[Ss]tars?\b|[Dd]warf|YES|NO\b|answer|boxed")


def replies(document: ReadingDocument) -> list[Message]:
    return [m for m in document.messages if m.role == "assistant"]


def same(a: ReadingDocument, b: ReadingDocument) -> bool:
    return a.messages == b.messages and a.kinds == b.kinds


def test_a_document_follows_from_seed_and_number_alone() -> None:
    scenes_of.cache_clear()
    for document, again in zip(DOCUMENTS[5:8], read_documents(SEED, FIRST + 5, 3), strict=True):
        assert same(document, again)
    assert not same(DOCUMENTS[0], next(read_documents(SEED + 1, FIRST, 1)))


def test_two_documents_about_one_exposure_ask_other_things() -> None:
    first, second = DOCUMENTS[0], DOCUMENTS[1]
    assert FIRST % DOCUMENTS_AN_EXPOSURE == 0
    assert first.messages[1].images == second.messages[1].images
    assert first.messages[2:] != second.messages[2:]


def test_a_document_is_a_system_text_pictures_with_requests_and_replies() -> None:
    for document in DOCUMENTS:
        first, *others = document.messages
        assert first.text == SHORT_SYSTEM_TEXT
        assert [m.role for m in others[::2]] == ["user" if m.role == "user" else "tool" for m in others[::2]]
        assert all(m.role == "assistant" for m in others[1::2])
        assert len(document.kinds) == len(replies(document))
        assert others[0].text.startswith("\nFull spectrum, ")
        assert 2 <= len(document.pictures) <= 5


def test_pictures_are_those_that_the_tool_draws_and_stand_in_the_messages() -> None:
    shown = [image for document in DOCUMENTS for m in document.messages for image in m.images]
    pixels = [p for document in DOCUMENTS for p in document.pictures]
    for image, grey in zip(shown, pixels, strict=True):
        assert (image.height, image.width) == grey.shape
        assert grey.shape in ((168, 224), (196, 252))
        np.testing.assert_array_equal(np.asarray(Pillow.open(io.BytesIO(image.png))), grey)
    tool = ZoomTool(Scenes(SEED).spectrum(FIRST // DOCUMENTS_AN_EXPOSURE), style="compact", size="tiny")
    window = next(m.text for m in DOCUMENTS[0].messages[2:] if m.images)
    low, high = map(float, re.findall(r"range \((\d+), (\d+)\)", window)[0])
    asked = tool({"wavelength_range": [int(low), int(high)]})
    for observation, grey in ((tool.opening(), pixels[0]), (asked, pixels[1])):
        assert observation.view is not None
        drawn = np.asarray(Pillow.open(io.BytesIO(observation.view.png)).convert("L"))
        np.testing.assert_array_equal(drawn, grey)
    assert window.startswith(asked.text)


def test_a_call_is_followed_by_what_it_asked_for() -> None:
    calls = [
        (call, after)
        for document in DOCUMENTS
        for message, after in zip(document.messages, document.messages[1:], strict=False)
        for call in message.calls
    ]
    assert calls
    for call, after in calls:
        assert call.name == TOOL_NAME
        low, high = call.arguments["wavelength_range"]
        assert after.role == "tool"
        assert f"range ({low}, {high}) Å" in after.text
        assert len(after.images) == 1
        assert set(call.arguments) == {"wavelength_range"}


def test_no_reply_names_a_class_or_decides_anything() -> None:
    for document in DOCUMENTS:
        for message in replies(document):
            assert not CLASSES.search(f"{message.text} {message.reasoning}"), message
            assert not any(task.name in message.text for task in builtin_tasks().values())


def test_replies_are_short_and_say_something() -> None:
    for document in DOCUMENTS:
        for message in replies(document):
            assert message.calls or message.text.endswith(".")
            assert len(f"{message.text}{message.reasoning}") < 400
            assert not re.search("  |[{}]", message.text)


def test_the_corpus_has_the_words_of_the_documents() -> None:
    texts = [t for d in read_documents(3, 0, 3) for m in d.messages for t in (m.text, m.reasoning) if t]
    assert list(corpus(3, 3)) == texts


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seeds start at 0"):
        next(read_documents(-1, 0, 1))
