"""The vocabulary of a run: given, of the model that it goes on from, or learnt from documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from specvet.chat import Vocabulary, chat_format
from specvet.chat.learning import MACROS, learn_vocabulary
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.processes import worker_pool
from specvet.data.teacher import terse_wholes
from specvet.tasks import builtin_tasks, question_text
from specvet.training.base.source import Source

FORMAT = "qwen2_5_vl"
STRETCH = 50
"""Documents that a worker reads at a time."""
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def vocabulary_of(path: str) -> Vocabulary:
    """Of a `tokenizer.json` or a folder that holds one. Raises VocabularyError."""
    return Vocabulary.load(Path(path).expanduser())


def learnt_vocabulary(source: Source, documents: int, workers: int) -> Vocabulary:
    """Learnt from the first documents, and from what a model will be asked and say later on: the questions of all
    tasks, and the teacher's phrases. The same for any number of workers."""
    starts = range(0, documents, STRETCH)
    texts = list(words_of_tasks())
    with worker_pool(min(workers, len(starts))) as pool:
        for made in pool.map(partial(_texts, source, documents), starts):
            texts += made
    return Vocabulary(learn_vocabulary(texts, macros=(*MACROS, *terse_wholes())))


def words_of_tasks() -> Iterator[str]:
    """What stands in prompts and answers and not in documents that only read."""
    for task in builtin_tasks().values():
        yield question_text(task, 8, "short")
    for file in sorted((files("specvet.data.teacher")).iterdir(), key=lambda f: f.name):
        if file.name.startswith("phrases") and "terse" in file.name:
            import yaml

            yield from (_PLACEHOLDER.sub(" ", text) for text in _strings(yaml.safe_load(file.read_text("utf-8"))))


def _texts(source: Source, documents: int, start: int) -> list[str]:
    format = chat_format(FORMAT, tiny_vocabulary(FORMAT))
    n = min(STRETCH, documents - start)
    return [format.learnt(document.messages)[0] for document in source.documents(start, n)]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)
