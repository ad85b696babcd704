"""Receipts: whether what a run says of itself is what its rows sum up to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from specvet.evaluation.cells import Cell, CellRecord
from specvet.evaluation.sealing import receipt_of
from specvet.evaluation.verify.checks import Check, Findings, differing
from specvet.evaluation.verify.rows import Summed
from specvet.records import text_hash
from specvet.records.receipt import Receipt

_SAMPLING = ("temperature", "top_p", "top_k")
_BUDGET = {"max_turns": "max_turns", "max_malformed": "max_malformed", "max_seconds": "max_seconds",
           "turn_tokens": "max_tokens", "context": "context"}  # fmt: skip
"""Names in a receipt → in a cell's settings."""


def check_receipt(cell: Cell, summed: Summed) -> Iterator[Check]:
    """Whether a receipt belongs to these rows and these settings."""
    receipt = receipt_of(cell.path)
    found = Findings(cell.name, ("receipt",), f"{receipt.decisions:,} decisions in {len(receipt.sessions)} sessions")
    found.add("receipt", _settings(receipt, cell.record))
    found.add("receipt", _counts(receipt, summed))
    found.add("receipt", _record(receipt, cell.record, summed))
    yield from found.checks()


def _counts(receipt: Receipt, summed: Summed) -> Iterator[str]:
    yield from differing("kind", receipt.kind, "eval")
    yield from differing("decisions", receipt.decisions, summed.decisions)
    yield from _tables("answers", receipt.answers, summed.answers)
    yield from _tables("stops", receipt.stops, summed.stops)
    yield from differing("policies", {receipt.policy}, summed.policies or {receipt.policy})
    if receipt.inputs is not None:
        digest = hashlib.sha256()
        for sha in sorted(summed.spectra):
            digest.update(bytes.fromhex(sha))
        yield from differing("hash of all spectra", receipt.inputs.hash, digest.hexdigest())
    # Rows that were removed to be tried again count in sums, since they were made.
    removed = sum(session.decided for session in receipt.sessions) - receipt.decisions
    for task in sorted(receipt.sums.keys() | summed.sums.keys()):
        then, now = receipt.sums.get(task, {}), summed.sums.get(task, {})
        for name in sorted(then.keys() | now.keys()):
            if then.get(name, 0) < now.get(name, 0) or (removed <= 0 and then.get(name, 0) != now.get(name, 0)):
                yield from differing(f"{name} of {task}", then.get(name, 0), now.get(name, 0))
    sampled = sum(numbers.get("tokens.sampled", 0) for numbers in summed.sums.values())
    if "sampled_tokens" in receipt.usage and receipt.tokens_out < sampled:
        yield f"{receipt.tokens_out:,} tokens are recorded as sampled, and the rows hold {sampled:,}"
    yield from _sessions(receipt)


def _sessions(receipt: Receipt) -> Iterator[str]:
    """Whether what a receipt says of time, tokens and cost is the sum over its sessions."""
    sessions = receipt.sessions
    yield from differing("tokens_in", receipt.tokens_in, sum(s.tokens_in for s in sessions))
    yield from differing("tokens_out", receipt.tokens_out, sum(s.tokens_out for s in sessions))
    yield from _near("seconds of its sessions", receipt.seconds, sum(s.seconds for s in sessions))
    yield from _near("cost of its sessions", receipt.cost, sum(s.cost for s in sessions))
    for name in sorted({*receipt.usage, *(name for s in sessions for name in s.usage)}):
        used = sum(s.usage.get(name, 0.0) for s in sessions)
        yield from _near(f"{name} of its sessions", receipt.usage.get(name, 0.0), used)


def _near(name: str, then: float, now: float) -> Iterator[str]:
    """Sums are rounded: seconds to a thousandth, usage to a millionth after each session."""
    if abs(then - now) > 1e-3:
        yield from differing(name, then, now)


def _tables(name: str, then: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for task in sorted(then.keys() | now.keys()):
        yield from differing(f"{name} of {task}", dict(then.get(task, {})), dict(now.get(task, {})))


def _settings(receipt: Receipt, record: CellRecord) -> Iterator[str]:
    settings = receipt.settings
    written = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    yield from differing("hash of its settings", receipt.settings_hash, text_hash(written))
    asked = record.settings.model_dump()
    wanted = {f"budget.{there}": asked[here] for there, here in _BUDGET.items()}
    wanted |= {f"sampling.{name}": asked[name] for name in _SAMPLING}
    wanted |= {"sampling.seed": record.seed, "frame_mode": asked["frame"], "style": asked["style"], "group": 1}
    for name, value in wanted.items():
        if name in settings:
            yield from differing(name, settings[name], value)
    if record.seed is not None and "sampling.seed" not in settings:
        yield f"the cell has the seed {record.seed}, and the receipt none"


def _record(receipt: Receipt, record: CellRecord, summed: Summed) -> Iterator[str]:
    """What `cell.json` says otherwise than the receipt."""
    yield from differing("machinery", record.machinery, summed.machinery)
    yield from differing("seconds", record.seconds, receipt.seconds)
    yield from differing("tokens_in of cell.json", record.tokens_in, receipt.tokens_in)
    yield from differing("tokens_out of cell.json", record.tokens_out, receipt.tokens_out)
    yield from differing("cost", record.cost_usd, receipt.usage.get("cost") or None)
    yield from differing("usage", record.usage, receipt.usage)
    yield from differing("versions", record.versions, receipt.versions)
    installed = record.versions.get("specvet")  # None where it ran from its source alone
    if receipt.sessions and installed is not None:
        yield from differing("specvet of the last session", receipt.sessions[-1].specvet, installed)
