"""What the numbers rest on: sets, settings, model descriptors with their hashes, receipts; and what is not there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from specvet.evaluation.cells import Cell
from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.groups import UNKNOWN
from specvet.evaluation.plots.shown import Entry, Shown
from specvet.evaluation.report import words
from specvet.evaluation.report.tables import Table

SHOWN_HASH = 16
"""Hexadecimal digits; the whole ones are in the campaign folder."""


def sets_table(folder: CampaignFolder, names: Sequence[str], simulated: Sequence[str]) -> Table:
    """What was asked; `simulated` are the names of those that are."""
    rows = []
    for name in names:
        record = folder.sets[name].record
        origin = record.origin.get("path") or json.dumps(record.origin.get("recipe") or {})
        limits = [f"{key}: {value}" for key, value in record.origin.items() if key not in ("path", "recipe")]
        rows.append(
            (
                name + (" (SIMULATED)" if name in simulated else ""),
                "; ".join([str(origin), *limits]),
                ", ".join(record.tasks),
                f"{record.questions:,}",
                record.questions_sha256[:SHOWN_HASH],
                record.file_sha256[:SHOWN_HASH],
                record.facts_sha256[:SHOWN_HASH],
            )
        )
    head = ("set", "made from", "tasks", "questions", "questions: sha256", "question file: sha256", "facts: sha256")
    return Table("Question sets", head, tuple(rows), named=3)


def policies_table(folder: CampaignFolder) -> Table:
    """Who was asked: descriptors, whose slugs stand for these very weights."""
    rows = []
    for slug, d in folder.policies.items():
        options = ", ".join(f"{key} {value}" for key, value in d.options.items())
        model = " + ".join(filter(None, (d.model, d.adapter and f"adapter {d.adapter}")))
        trained = "not told" if d.trained_on is None else ", ".join(d.trained_on) or "none of these"
        rows.append(
            (d.label, slug, d.policy, model or words.NONE, d.revision or words.NONE, d.source or words.NONE,
             options or words.NONE, trained, d.fingerprint[:SHOWN_HASH])
        )  # fmt: skip
    head = ("label", "slug", "policy", "model", "revision", "source", "options", "trained on", "fingerprint")
    return Table(
        "Policies",
        head,
        tuple(rows),
        ("The fingerprint is over policy, format and the SHA-256 of every file of its weights, wherever they lie.",),
        named=8,
    )


def files_table(folder: CampaignFolder) -> Table | None:
    """The files of each model."""
    rows = [(d.label, name, sha) for d in folder.policies.values() for name, sha in d.files.items()]
    return Table("Model files", ("policy", "file", "SHA-256"), tuple(rows), named=3, folded=True) if rows else None


def settings_table(cells: Sequence[Cell]) -> Iterator[Table]:
    """How they were asked: what all cells share in one table, what differs in another."""
    told = [cell.record.settings.model_dump() for cell in cells]
    names = list(told[0])
    same = [name for name in names if all(one[name] == told[0][name] for one in told)]
    yield Table(
        "Settings of all cells",
        ("setting", "value"),
        tuple((n, _value(told[0][n])) for n in same),
        named=2,
        folded=True,
    )
    differ = [name for name in names if name not in same]
    if differ:
        rows = dict.fromkeys((c.label, c.record.set, *(_value(one[n]) for n in differ)) for c, one in zip(
            cells, told, strict=True))  # fmt: skip
        yield Table("Settings that differ", ("policy", "set", *differ), tuple(rows), named=2)


def receipts_table(cells: Sequence[Cell]) -> Table:
    """Each cell, with what makes its numbers checkable."""
    rows = []
    for cell in cells:
        r = cell.record
        seed = "any" if r.seed is None else str(r.seed)
        cost = words.NONE if r.cost_usd is None else f"{r.cost_usd:,.2f}"
        rows.append(
            (cell.label, r.set, seed, cell.name, r.rule, f"{r.questions:,}", f"{r.machinery:,}", f"{r.seconds:,.0f}",
             f"{r.tokens_in:,}", f"{r.tokens_out:,}", cost, r.rows_sha256[:SHOWN_HASH], r.receipt_sha256[:SHOWN_HASH],
             r.config_sha256[:SHOWN_HASH], r.metrics_sha256[:SHOWN_HASH], r.sealed,
             ", ".join(f"{name} {version}" for name, version in r.versions.items()))
        )  # fmt: skip
    head = ("policy", "set", "seed", "cell", "rule", "questions", "machinery", "s", "tokens in", "tokens out", "US$",
            "rows", "receipt", "config", "metrics", "sealed (UTC)", "versions")  # fmt: skip
    return Table(
        "Receipts",
        head,
        tuple(rows),
        ("Columns of digits are the first 16 of a SHA-256. `specvet eval verify` makes every number again from the "
         "raw trajectories, with no model.",),
        named=5,
        folded=True,
    )  # fmt: skip


def missing(shown: Shown, open_cells: Sequence[str]) -> list[str]:
    """What was not measured on a set, and why; a sentence each, with whom it concerns."""
    told: dict[str, list[str]] = {}
    for entry in shown.entries:
        for reason in _missing_of(entry):
            told.setdefault(reason, []).append(entry.label)
    lines = [f"{reason} ({', '.join(labels)})." for reason, labels in told.items()]
    if open_cells:
        lines.insert(0, f"Not complete yet: {'; '.join(open_cells)}. See specvet eval status.")
    first = shown.entries[0].numbers[0]
    if first["cross_survey"] is None:
        lines.append("No comparison across surveys: the set is of one survey, or names none as the reference.")
    if not first["confusers"]:
        lines.append("No confusers: the set does not tell what its objects are.")
    if not set(first["groups"]["snr"]) - {UNKNOWN}:
        lines.append("No bins of S/N: neither the set nor its spectra tell it.")
    if note := first["metadata_only"].get("note"):
        lines.append(f"Metadata-only classifier {note}.")
    return lines


def _missing_of(entry: Entry) -> Iterator[str]:
    """Reasons that concern a policy."""
    first = entry.numbers[0]
    if note := next((m["ranking"]["note"] for m in entry.numbers if m["ranking"]["all"] is None), None):
        yield f"No AUROC, calibration or risk-coverage: {note}"
    elif without := sum(m["ranking"]["without_p_yes"] for m in entry.numbers):
        yield f"{words.plural(without, 'trajectory', 'trajectories')} without a probability, in no ranking"
    if first["tokens"] is None:
        yield "No tokens: it measures, or its server counts none"
    if all(m["cost_usd_per_spectrum"] is None for m in entry.numbers):
        yield "No cost: nothing stated one, which is not the same as 0"
    if not first["seen_unseen"]:
        yield "No scores of classes that it was not trained on: neither the set nor its descriptor names any here"
    if left := dict.fromkeys(key for m in entry.numbers for key in m["headline"]["left_out"]):
        yield f"Not in macro F1, since YES was neither true nor said there: {', '.join(left)}"
    if machinery := sum(m["machinery"] for m in entry.numbers):
        n = words.plural(machinery, "trajectory", "trajectories")
        yield f"{n} ended by a server or a file and not by the policy, and counted as wrong"
    if first["replicates"] == 0:
        yield "No bootstrap intervals: the campaign asked for none (replicates: 0)"


def _value(value: Any) -> str:
    return words.NONE if value is None else "yes" if value is True else "no" if value is False else str(value)
