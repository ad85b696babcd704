"""What a model answered, a few bytes a question: enough for every number of a table, and for paired tests.

`questions.parquet` tells of each question of a set what it is about and what is true; `MODEL.parquet`, in the same
order, what the model said. Texts, windows and log-probs are left in the campaigns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specvet.data.errors import InputError
from specvet.evaluation.outcomes import Outcome
from specvet.records import write_atomic

ASKED = ("id", "task", "truth", "object_id", "survey", "snr", "kind", "subtype")
SAID = ("said", "verdict", "p_yes", "format_ok", "stop", "calls", "calls_succeeded", "turns", "sampled_tokens")
"""Fields of an `Outcome`; of a float the 32 bits nearest to it are kept."""


def write_questions(path: Path, outcomes: Sequence[Outcome]) -> None:
    """What the questions of these outcomes are."""
    _write(path, outcomes, ASKED)


def write_answers(path: Path, outcomes: Sequence[Outcome]) -> None:
    """What was said to them, in the same order."""
    _write(path, outcomes, SAID)


def read_answers(questions: Path, answers: Path) -> list[Outcome]:
    """The outcomes again, as far as they were kept. Raises InputError for files that do not go together, OSError."""
    asked, said = (_read(path, names) for path, names in ((questions, ASKED), (answers, SAID)))
    if len(asked) != len(said):
        raise InputError(f"{answers}: has {len(said):,} answers, and {questions} {len(asked):,} questions")
    return [Outcome(**of, **told) for of, told in zip(asked, said, strict=True)]


def _write(path: Path, outcomes: Sequence[Outcome], names: Sequence[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: pa.array([getattr(o, name) for o in outcomes], type=_type(name)) for name in names}
    buffer = pa.BufferOutputStream()
    words = [name for name in names if pa.types.is_string(_type(name)) and name not in ("id", "object_id")]
    pq.write_table(
        pa.table(columns), buffer, compression="zstd", compression_level=19, use_dictionary=words,
        write_page_checksum=True, write_statistics=False,
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, buffer.getvalue().to_pybytes())


def _read(path: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path, page_checksum_verification=True).select(names).to_pylist()
    except (pa.ArrowException, KeyError) as e:
        raise InputError(f"{path}: is damaged ({e}); make it again with specvet eval stages") from None
    return rows


def _type(name: str) -> Any:
    import pyarrow as pa

    kinds = {
        "snr": pa.float32(),
        "p_yes": pa.float32(),
        "format_ok": pa.bool_(),
        "calls": pa.int16(),
        "calls_succeeded": pa.int16(),
        "turns": pa.int16(),
        "sampled_tokens": pa.int32(),
    }
    return kinds.get(name, pa.string())
