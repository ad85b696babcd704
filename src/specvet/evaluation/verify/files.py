"""Files and their hashes: the manifest, descriptors, sets, cells, and whether all is there that was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import yaml

from specvet.agent import task_hash
from specvet.evaluation.cells import Cell, CellPlan, metrics_file
from specvet.evaluation.descriptors import Descriptor, file_hashes, located
from specvet.evaluation.folder import MANIFEST, CampaignFolder, manifest_of
from specvet.evaluation.plan import RunSettings, SetPlan
from specvet.evaluation.rows import ROWS
from specvet.evaluation.sealing import basis_of
from specvet.evaluation.sets import QuestionSet, SetRecord, facts_hash, origin_of, questions_hash
from specvet.evaluation.verify.checks import Check, Findings, differing, drift
from specvet.policies.registry import model_folder
from specvet.records import file_hash
from specvet.records.receipt import Receipt
from specvet.records.settings import TASK, decisive, flat, plain


def check_manifest(folder: Path) -> Iterator[Check]:
    """Whether every file of the manifest is there and is that file, and none lies beside them that it leaves out."""
    if not (folder / MANIFEST).is_file():
        yield Check("manifest", MANIFEST, "failed", "is not there: no cell is complete yet, or somebody removed it")
        return
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    files: dict[str, str] = manifest["files"]
    bad = 0
    for name, sha in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            yield Check("manifest", name, "failed", "the manifest names a file outside the campaign")
        elif not (folder / name).is_file():
            yield Check("manifest", name, "failed", "the manifest names it, and it is not there")
        elif (found := file_hash(folder / name)) != sha:
            yield Check(
                "manifest",
                name,
                "failed",
                f"is not the file that the manifest names: its SHA-256 is {found[:12]}…, {sha[:12]}… is recorded",
            )
        else:
            continue
        bad += 1
    for name in sorted(manifest_of(folder, manifest["current"])["files"].keys() - files.keys()):
        bad += 1
        yield Check("manifest", name, "failed", "lies in the campaign, and the manifest does not name it")
    if not bad:
        yield Check("manifest", "", "ok", f"{len(files):,} files")


def check_coverage(folder: CampaignFolder, cells: list[Cell]) -> Iterator[Check]:
    """Whether the cells that the campaign file asks for are there, they alone count, and all are measured alike."""
    campaign = folder.campaign
    by_contract = {cell.record.contract: cell.name for cell in cells}
    there = (folder.path / MANIFEST).is_file()
    current = set(json.loads((folder.path / MANIFEST).read_text(encoding="utf-8"))["current"]) if there else set()
    missing, wanted = [], set()
    for slug in campaign.policies:
        for asked in campaign.sets:
            for seed in campaign.seeds_of(slug):
                name = None
                if slug in folder.policies and asked in folder.sets:
                    settings = campaign.settings_of(slug)
                    plan = CellPlan(folder.policies[slug], folder.sets[asked].record, seed, settings)
                    name = by_contract.get(plan.contract)
                if name is None:
                    missing.append(f"{slug} on {asked}" + ("" if seed is None else f", seed {seed}"))
                else:
                    wanted.add(name)
    found = Findings("", ("coverage",), f"{len(wanted):,} cells")
    found.add(
        "coverage",
        (f"{one}: the campaign file asks for it, and no cell of it is sealed; specvet eval run" for one in missing),
    )
    found.add("coverage", (f"{name}: counts, and the campaign file does not ask for it" for name in current - wanted))
    found.add("coverage", (f"{name}: is asked for, and the manifest does not count it" for name in wanted - current))
    for cell in cells:
        plan = CellPlan(cell.policy, cell.set.record, cell.record.seed, cell.record.settings)
        if cell.record.basis != basis_of(plan, campaign):
            found.add("coverage", [f"{cell.name}: was measured by another rule, or with other facts or replicates"])
    found.add("coverage", _told(folder))
    yield from found.checks()


def _told(folder: CampaignFolder) -> Iterator[str]:
    """What the campaign file says otherwise of its policies and sets than what is kept of them."""
    campaign = folder.campaign
    for slug, plan in campaign.policies.items():
        kept = folder.policies.get(slug)
        if kept is None:
            continue
        yield from differing(f"policies.{slug}.policy", kept.policy, plan.policy)
        for name in ("label", "source", "trained_on"):  # what is not said any more is not taken back
            if (now := getattr(plan, name)) is not None:
                yield from differing(f"policies.{slug}.{name}", getattr(kept, name), now)
    for slug, asked in campaign.sets.items():
        if slug in folder.sets:
            record = folder.sets[slug].record
            yield from differing(f"sets.{slug}.origin", origin_of(SetPlan(**record.origin)), origin_of(asked))
            yield from differing(f"sets.{slug}.unseen", record.unseen, asked.unseen)
            yield from differing(f"sets.{slug}.reference", record.reference, asked.reference)


def check_descriptor(folder: Path, descriptor: Descriptor) -> Iterator[Check]:
    """Whether the weights are those that were asked, where they are here."""
    where = f"policies/{descriptor.slug}"
    if not descriptor.files:
        return
    here: dict[str, str] = {}
    for given, prefix in ((descriptor.model, ""), (descriptor.adapter, "adapter/")):
        place = located(given, folder) or (None if prefix else model_folder(descriptor.policy, given))
        if place is not None:
            here |= {prefix + path: sha for path, sha in file_hashes(place).items()}
    if not here:
        yield Check("weights", where, "not present", f"{descriptor.model} is not here")
        return
    found = Findings(where, ("weights",), f"{len(here):,} files")
    names = sorted(descriptor.files.keys() | here.keys())
    other = [name for name in names if descriptor.files.get(name) != here.get(name)]
    found.add("weights", (f"{name}: is not the file that was asked" for name in other))
    yield from found.checks()


def check_set(asked: QuestionSet) -> Iterator[Check]:
    """Whether a kept set is the one that its record names."""
    record, questions = asked.record, asked.questions
    found = Findings(f"sets/{record.slug}", ("questions kept",), f"{len(questions):,} questions")
    ids = [q.question.id for q in questions]
    problems = [
        *differing("questions", record.questions, len(questions)),
        *differing("SHA-256 of the questions", record.questions_sha256, questions_hash(q.question for q in questions)),
        *differing("SHA-256 of the facts", record.facts_sha256, facts_hash(q.facts for q in questions)),
        *differing("tasks", sorted(record.tasks), sorted({q.question.task for q in questions})),
        *differing("different ids", len(ids), len(set(ids))),
    ]
    found.add("questions kept", problems)
    yield from found.checks()


def check_record(cell: Cell) -> Iterator[Check]:
    """Whether a cell's files are those of its record, and its name and tasks those of its contract."""
    record, path = cell.record, cell.path
    found = Findings(cell.name, ("cell", "tasks", "config"))
    for name, sha in (
        (ROWS, record.rows_sha256),
        ("receipt.json", record.receipt_sha256),
        ("config.yaml", record.config_sha256),
        (metrics_file(None, record.rule), record.metrics_sha256),
    ):
        found.add("cell", differing(f"SHA-256 of {name}", sha, file_hash(path / name)))
    plan = CellPlan(cell.policy, cell.set.record, record.seed, record.settings)
    then = drift(record.versions, "specvet")
    found.add("cell", differing("contract", record.contract, plan.contract), then)
    head = plan.name.removesuffix(plan.contract[:8]) + record.contract[:8]
    if cell.name != head and not cell.name.startswith(f"{head}--"):
        found.add("cell", [f"its folder is called {cell.name}, and its contract says {head}"])
    found.add("cell", differing("questions", record.questions, cell.set.record.questions))
    asked = cell.set.record.tasks
    found.add("tasks", differing("tasks", sorted(asked), sorted(cell.tasks)))
    # A later version may know more fields of a task, which its hash would count.
    for key, task in cell.tasks.items():
        found.add("tasks", differing(f"hash of {key}.yaml", asked.get(key), task_hash(task)), then)
    found.add("config", _config(cell))
    yield from found.checks()


def _config(cell: Cell) -> Iterator[str]:
    """What `config.yaml` says otherwise than the cell's record and its receipt."""
    config = yaml.safe_load((cell.path / "config.yaml").read_text(encoding="utf-8"))
    receipt = Receipt.model_validate_json((cell.path / "receipt.json").read_text(encoding="utf-8"))
    record = cell.record
    says = config["cell"]
    for name, value in (("policy", record.policy), ("set", record.set), ("seed", record.seed)):
        yield from differing(f"cell.{name}", says[name], value)
    yield from differing("cell.contract", says["contract"], record.contract)
    # A setting that came after the run stood at what is now its default.
    asked_with = RunSettings().model_dump(mode="json") | config["settings"]
    yield from differing("settings", asked_with, record.settings.model_dump(mode="json"))
    told = Descriptor.model_validate(config["descriptor"])
    for name, value in told.model_dump().items():
        yield from differing(f"descriptor {name}", value, cell.policy.model_dump()[name])
    asked = SetRecord.model_validate(config["question_set"])
    yield from differing("question_set", asked.fingerprint, cell.set.record.fingerprint)
    yield from differing("simulated", asked.about.get("simulated"), cell.set.record.about.get("simulated"))
    settings = flat(decisive(config))
    plain_settings = {name: value for name, value in settings.items() if not name.startswith(TASK)}
    yield from differing("what the receipt calls settings", receipt.settings, plain_settings)
    tasks = {name.removeprefix(TASK): value for name, value in settings.items() if name.startswith(TASK)}
    yield from differing("tasks of the receipt", receipt.task_hashes, tasks)
    if receipt.sessions:
        first = {name: value for name, value in config.items() if name not in ("kind", "versions")}
        if receipt.sessions[0].asked != plain(first):
            yield "the receipt's first session was asked for something else than config.yaml says"
