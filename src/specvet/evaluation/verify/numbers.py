"""Numbers: every `metrics.json` made again from the rows and held against what is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specvet.evaluation.cells import METRICS, Cell
from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.rules import RULES, rule
from specvet.evaluation.sealing import metrics_of
from specvet.evaluation.summary import summarise
from specvet.evaluation.verify.checks import Check, Findings, drift

LAST_DIGIT = 2e-6
"""Numbers are rounded to the sixth digit, and vector instructions differ in the last bits: another machine may round to
the neighbour."""

_CORE = (
    "questions",
    "objects",
    "headline.correct",
    "answers",
    "stops",
    "machinery",
    "seen_in_training",
    "rule",
    "policy",
    "set",
    "seed",
)
_CORE_OF_CAMPAIGN = re.compile(
    r"rows\[\d+\]\.(questions|objects|correct|machinery|policy|label|set|seed|cell)\b"
    r"|comparisons\[\d+\]\.seeds\[\d+\]\.(seed|of_cell|over_cell|n|both_right|only_a|only_b|neither)$"
)
"""What follows from the rows and the rule's version alone, whatever version of specvet counts."""


def check_numbers(cell: Cell) -> Iterator[Check]:
    """Whether a cell's numbers, under each rule that it was scored by, are those of its rows."""
    for file in sorted(cell.path.glob("metrics*.json")):
        then = json.loads(file.read_text(encoding="utf-8"))
        name = then["rule"]
        where = f"{cell.name}/{file.name}"
        found = Findings(where, ("numbers",))
        found.add("numbers", _misnamed(file, name, cell.record.rule))
        if name not in RULES:
            found.add("numbers", [f"rule {name}"], "this version of specvet does not have it")
        else:
            made = metrics_of(cell, name)
            found.looked = f"{hold(found, then, made, cell.record.versions):,} numbers made again"
        yield from found.checks()


def check_summary(folder: CampaignFolder, versions: Mapping[str, str]) -> Iterator[Check]:
    """Whether the campaign's numbers, under each rule that it was scored by, are those of its cells. `versions` are
    those that made it."""
    for file in sorted(folder.path.glob("metrics*.json")):
        then = json.loads(file.read_text(encoding="utf-8"))
        found = Findings(file.name, ("summary",))
        main = rule(folder.campaign.rule).name
        found.add("summary", _misnamed(file, then["rule"], main))
        if then["rule"] not in RULES:
            found.add("summary", [f"rule {then['rule']}"], "this version of specvet does not have it")
        else:
            made = json.loads(json.dumps(summarise(folder, then["rule"])))
            found.looked = f"{hold(found, then, made, versions, 'summary'):,} numbers made again"
        yield from found.checks()


def _misnamed(file: Path, name: str, main: str) -> Iterator[str]:
    wanted = METRICS if name == main else f"metrics.{name.replace('/', '-')}.json"
    if file.name != wanted:
        yield f"says that it was made by {name}, whose file is called {wanted}"


def hold(
    found: Findings, then: Any, now: Any, versions: Mapping[str, str], name: str = "numbers", path: str = ""
) -> int:
    """Note where `then` (recorded) and `now` differ; returns how many numbers were compared."""
    if path.endswith("metadata_only") and isinstance(then, dict) and isinstance(now, dict):
        other = _learner(then, now, versions)
        if other:
            found.add(name, [path] if then != now else [], other)
            return 0
    if isinstance(then, dict) and isinstance(now, dict):
        return sum(
            hold(found, then.get(key), now.get(key), versions, name, f"{path}.{key}" if path else str(key))
            for key in sorted(then.keys() | now.keys(), key=str)
        )
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return sum(
            hold(found, a, b, versions, name, f"{path}[{i}]") for i, (a, b) in enumerate(zip(then, now, strict=True))
        )
    if not _same(then, now):
        found.add(name, [f"{path}: {_told(then)} is recorded, the rows give {_told(now)}"], _excuse(path, versions))
    return 1


def _same(then: Any, now: Any) -> bool:
    if isinstance(then, float) or isinstance(now, float):
        numbers = isinstance(then, float | int) and isinstance(now, float | int)
        return numbers and abs(then - now) <= LAST_DIGIT
    return type(then) is type(now) and then == now


def _excuse(path: str, versions: Mapping[str, str]) -> str:
    """Why a difference there proves nothing; empty where it does."""
    if path.startswith(_CORE) or ".counts." in path or _CORE_OF_CAMPAIGN.match(path):
        return ""
    if path.endswith((".low", ".high")) and (other := drift(versions, "specvet", "numpy", "scipy")):
        return other
    return drift(versions, "specvet")


def _learner(then: Mapping[str, Any], now: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Why what a classifier learnt cannot be held against what it learns here; empty where it can."""
    if "note" in now and "note" not in then:
        return str(now["note"])
    if "note" in then and "note" not in now:
        return "it was not computed then, for want of scikit-learn"
    if then.get("sklearn") != now.get("sklearn"):
        return f"made by scikit-learn {then.get('sklearn')}, this is {now.get('sklearn')}"
    return drift(versions, "specvet", "numpy", "scipy")


def _told(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
