"""The golden table of assistant turns: texts, and what parser, format, answers and reward make of them.

`golden_turns.jsonl`, one case a line. `why` says what decides; `turns` are assistant texts with their prefix; `parse`
is the parser's word on the last one: a kind of fault, `call`, `truncated`, or the answer; `default` are the rewards
where the truth is YES and where it is NO; `ended` false says that the last turn lacks its end token; `published` is
what the public reward reads (prediction, whether it likes the format).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORD = "Hα "
MEGABYTE = WORD * (2**20 // len(WORD.encode()))
GROWN = {"@MEGABYTE@": MEGABYTE, "@DEEP@": "[" * 100_000, "@DIGITS@": "9" * 100_000}
"""What would be too long for a table."""


def golden_turns() -> list[dict[str, Any]]:
    """All cases, grown to their size."""
    lines = (Path(__file__).parent / "golden_turns.jsonl").read_text(encoding="utf-8").splitlines()
    return [_grown(json.loads(line)) for line in lines]


def _grown(case: dict[str, Any]) -> dict[str, Any]:
    for mark, text in GROWN.items():
        case["turns"] = [turn.replace(mark, text) for turn in case["turns"]]
    return case
