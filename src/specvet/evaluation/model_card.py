"""The model card: what a released model is, what it was made from, how good it is and where it fails.

Every number comes from the campaigns and receipts below a folder of results; the words that no number says (what it is
for, what it learnt from, where it must not be trusted) are read from `card.yaml` there:

    policy: nano                 slug of the model in the campaigns
    summary: …
    uses: […]
    training_data: […]
    recipe: […]
    limits: […]
    citation: …                  may be left out
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from specvet.data.errors import InputError
from specvet.evaluation.cells import Cell
from specvet.evaluation.failures import Failure, drawn, failures
from specvet.evaluation.folder import CELLS, CampaignFolder
from specvet.evaluation.plan import Part, problem
from specvet.evaluation.plots.shown import Shown, measured_sets, shown
from specvet.evaluation.report import words
from specvet.evaluation.report.conduct import comparisons
from specvet.evaluation.report.readme import campaigns, plain
from specvet.evaluation.report.tables import Table, by_task, headline
from specvet.policies.catalogue import CARD, PICTURE, Manifest, read_manifest, write_model_manifest
from specvet.records import file_hash, write_atomic

WORDS, RECEIPT = "card.yaml", "receipt.json"
SHOWN_FAILURES = 12
_COLUMNS = 7
"""Of a headline table, from the left: the chapter's, without seconds, cost and machinery."""


class CardWords(Part):
    """`card.yaml`."""

    policy: str
    summary: str
    uses: tuple[str, ...] = Field(min_length=1)
    training_data: tuple[str, ...] = Field(min_length=1)
    recipe: tuple[str, ...] = Field(min_length=1)
    limits: tuple[str, ...] = Field(min_length=1)
    citation: str = ""


def write_model_card(model: Path, results: Path, spectra: Iterable[Path] = ()) -> Manifest:
    """Write `README.md`, and `failures.png` where spectra are here, into a model folder; renew its manifest.

    `spectra` are folders in which question files lie, looked in first. Real spectra are told of in words and never
    drawn. Raises ModelError for a folder without a manifest, InputError for words or campaigns that are missing or
    damaged, OSError.
    """
    manifest = read_manifest(model)
    told = read_words(results / WORDS)
    text, picture = card(model, manifest, told, results, tuple(spectra))
    (model / PICTURE).unlink(missing_ok=True)
    if picture is not None:
        write_atomic(model / PICTURE, picture)
    write_atomic(model / CARD, text)
    return write_model_manifest(
        model,
        name=manifest.name,
        version=manifest.version,
        licence=manifest.licence,
        manner=manifest.manner,
        receipts=manifest.receipts,
        source=manifest.source,
    )


def read_words(file: Path) -> CardWords:
    """Raises InputError."""
    try:
        return CardWords.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as e:
        raise InputError(f"{file}: {e.strerror}; a card needs its words, see specvet.evaluation.model_card") from None
    except ValidationError as e:
        raise InputError(f"{file}: {problem(e)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise InputError(f"{file}: is no YAML ({str(e).splitlines()[0]})") from None


def card(
    model: Path, manifest: Manifest, told: CardWords, results: Path, spectra: tuple[Path, ...] = ()
) -> tuple[str, bytes | None]:
    """The card in Markdown, and the sheet of failures that it shows."""
    chapters = list(_chapters(results, told.policy))
    if not chapters:
        raise InputError(f"{results}: no campaign there has measured {told.policy!r}; specvet eval publish puts one")
    gallery, picture = _gallery(chapters, told.policy, spectra)
    parts = [
        _front(manifest),
        f"# {manifest.name} {manifest.version}",
        told.summary.strip(),
        _facts(model, manifest),
        "## What it is for",
        _list(told.uses),
        *_use(manifest),
        "## What it learnt from",
        _list(told.training_data),
        "## How it was made",
        _list(told.recipe),
        _markdown(_receipts(results)),
        *_results(chapters, simulated=True),
        *_results(chapters, simulated=False),
        "## Where it fails",
        *gallery,
        "## Limits",
        _list(told.limits),
        "## Licence",
        f"{manifest.licence}.",
        *(["## Citation", told.citation.strip()] if told.citation else []),
    ]
    return "\n\n".join(parts) + "\n", picture


# --- what it is


def _front(manifest: Manifest) -> str:
    """What hubs read."""
    told = {
        "license": manifest.licence.lower(),
        "library_name": "transformers",
        "pipeline_tag": "image-text-to-text",
        "tags": ["astronomy", "spectroscopy", "vision-language-agent", "specvet"],
    }
    return f"---\n{yaml.safe_dump(told, sort_keys=False).strip()}\n---"


def _facts(model: Path, manifest: Manifest) -> str:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    weights = sorted(model.glob("*.safetensors"))
    tensors = [tensor for file in weights for tensor in _tensors(file)]
    n, kinds = sum(math.prod(shape) for shape, _ in tensors), {dtype for _, dtype in tensors}
    size = sum(file.stat().st_size for file in weights)
    many = words.plural(len(weights), "file")
    rows = [
        ("architecture", f"`{config.get('model_type')}`"),
        ("weights", f"{n / 1e6:.2f} million, {', '.join(sorted(kinds))}, {size / 1e6:.1f} MB in {many}"),
        ("hash", f"`{manifest.digest}`"),
    ]
    if m := manifest.manner:
        size_told = f", size {m.size}" if m.size else ""
        rows += [
            ("tasks", ", ".join(m.tasks) or "any"),
            ("sees", f"figures of the style {m.style}{size_told}"),
            ("is asked", f"in the {m.wording} wording, {m.max_turns} turns of at most {m.turn_tokens:,} tokens, "
                         f"{m.context:,} tokens in all"),
        ]  # fmt: skip
    return _markdown(Table("", ("", ""), tuple(rows), named=2))


def _tensors(file: Path) -> Iterator[tuple[list[int], str]]:
    """Shape and dtype of each tensor, from the header alone (8 bytes of its length, then JSON)."""
    with file.open("rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
    for name, tensor in header.items():
        if name != "__metadata__":
            yield tensor["shape"], tensor["dtype"]


def _use(manifest: Manifest) -> Iterator[str]:
    yield "## How to use it"
    yield (
        f"    specvet vet FILE --policy embedded --model {manifest.name}   on a processor, without PyTorch\n"
        f"    specvet vet FILE --policy torch --model {manifest.name}      in PyTorch, on a GPU where there is one\n"
        f"    specvet models verify {manifest.name}                        is it the folder that was released?"
    )
    yield (
        "The folder has the layout of the Hugging Face libraries and loads in `transformers` "
        "(`AutoModelForImageTextToText`); it runs none of its own code. What it answers is only meant for the figures "
        "and words that it was trained with, which `specvet.json` names and specvet draws."
    )


# --- how it was made


def _receipts(results: Path) -> Table:
    """One a training run. Those of evaluations stand in their campaigns."""
    rows = []
    for file in sorted(results.rglob(RECEIPT)):
        if CELLS in file.relative_to(results).parts:
            continue
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as e:
            raise InputError(f"{file}: is damaged ({e})") from None
        place = file.relative_to(results).as_posix()
        rows.append((f"`{place}`", str(told.get("kind") or "–"), *_spent(told), f"`{file_hash(file)[:16]}`"))
    if not rows:
        raise InputError(
            f"{results}: holds no receipt of a training run ({RECEIPT}); a number without one is no result"
        )
    head = ("receipt", "stage", "steps", "tokens", "minutes", "specvet", "torch", "SHA-256")
    return Table("What each stage took", head, tuple(rows), named=2)


def _spent(told: Mapping[str, Any]) -> tuple[str, ...]:
    training = told.get("training") or {}
    usage, versions = told.get("usage") or {}, told.get("versions") or {}
    steps = training.get("step") or told.get("updates")
    tokens = told.get("tokens") or usage.get("trained_tokens")
    seconds = told.get("seconds")
    return (
        words.number(steps if steps is None else int(steps)),
        words.number(tokens if tokens is None else int(tokens)),
        words.number(None if seconds is None else seconds / 60.0, 1),
        str(versions.get("specvet", words.NONE)),
        str(versions.get("torch", words.NONE)),
    )


# --- how good it is


class _Chapter:
    """A set that the model was asked."""

    def __init__(self, folder: CampaignFolder, name: str) -> None:
        self.folder, self.name = folder, name
        self.shown: Shown = shown(folder, name)

    def cells(self, policy: str) -> list[Cell]:
        return [c for c in self.folder.current() if (c.record.policy, c.record.set) == (policy, self.name)]

    def tables(self) -> Iterator[Table]:
        found = headline(self.shown)
        rows = tuple(row[:_COLUMNS] for row in found.rows)
        yield Table("", found.head[:_COLUMNS], rows, found.notes[:1] + found.notes[2:], named=2)
        yield next(by_task(self.shown))
        labels = {slug: policy.label for slug, policy in self.folder.policies.items()}
        if (paired := comparisons(self.folder.summary(), labels, self.name)) is not None:
            yield paired


def _chapters(results: Path, policy: str) -> Iterator[_Chapter]:
    for folder in campaigns(results):
        for name in measured_sets(folder):
            chapter = _Chapter(folder, name)
            if any(entry.slug == policy for entry in chapter.shown.entries):
                yield chapter


def _results(chapters: Iterable[_Chapter], simulated: bool) -> Iterator[str]:
    own = [c for c in chapters if c.shown.simulated == simulated]
    yield "## Results on SIMULATED spectra" if simulated else "## Results on real spectra"
    if not own:
        yield "Not measured."
    for chapter in own:
        first = chapter.shown.entries[0].numbers[0]
        yield f"### {plain(chapter.name)}"
        yield f"{first['questions']:,} questions about {first['objects']:,} objects."
        yield from map(_markdown, chapter.tables())


# --- where it fails


def _gallery(chapters: list[_Chapter], policy: str, spectra: tuple[Path, ...]) -> tuple[list[str], bytes | None]:
    """Errors on each set, the first seed's; drawn on one sheet for the first SIMULATED set whose spectra are here."""
    parts: list[str] = []
    picture: bytes | None = None
    for chapter in chapters:
        cell = chapter.cells(policy)[0]
        found = failures(cell, SHOWN_FAILURES, chapter.folder.campaign.rule)
        seed = "" if cell.record.seed is None else f", seed {cell.record.seed}"
        about = "SIMULATED" if chapter.shown.simulated else "real spectra, not shown"
        n = sum(not o.right for o in cell.outcomes(chapter.folder.campaign.rule))
        parts.append(f"### {plain(chapter.name)}{seed} ({about})")
        if not found:
            parts.append("No question was answered wrongly.")
            continue
        parts.append(f"{len(found):,} of its {words.plural(n, 'error')}: the tasks in turn, the most certain first.")
        parts.append(_markdown(_told(found, named=chapter.shown.simulated)))
        if picture is None and chapter.shown.simulated:
            picture, drawn_n = drawn(found, cell, spectra)
            if picture is not None:
                parts.append(f"![{words.plural(drawn_n, 'SIMULATED spectrum', 'SIMULATED spectra')} that were answered "
                             f"wrongly, by the numbers above]({PICTURE})")  # fmt: skip
    return parts, picture


def _told(found: list[Failure], named: bool) -> Table:
    rows = []
    for place, failure in enumerate(found, 1):
        o = failure.outcome
        sure = "" if failure.certainty is None else f"{100 * failure.certainty:.0f} %"
        rows.append((str(place), o.task, o.truth, o.said or f"nothing ({o.stop})", sure, failure.what,
                     str(o.calls), failure.decision.verdict.reason[:160]))  # fmt: skip
    head = (
        "",
        "task",
        "is",
        "said",
        "raw confidence",
        "what it is" if named else "what is known",
        "calls",
        "its words",
    )
    return Table("", head, tuple(rows), named=len(head))


# --- Markdown


def _markdown(table: Table) -> str:
    """A table with its caption above and its notes below."""
    marks = ["---"] * table.named + ["---:"] * (len(table.head) - table.named)
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in (table.head, *table.rows)]
    lines.insert(1, "|" + "|".join(marks) + "|")
    parts = [f"{table.caption}:"] if table.caption else []
    return "\n\n".join([*parts, "\n".join(lines), *table.notes])


def _cell(text: str) -> str:
    """One that is code is ours; of others, what could end the cell or begin markup is spelt so that it does not."""
    return text if text.startswith("`") and text.endswith("`") and "|" not in text else plain(text)


def _list(points: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(point.split())}" for point in points)
