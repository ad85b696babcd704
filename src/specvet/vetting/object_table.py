"""`export --objects`: one row an object, in every format of `specvet.vetting.export`.

| columns | hold |
|---|---|
| `object`, `gaia_id`, `ra`, `dec` | what it is called, and the mean place of its spectra |
| `n_spectra`, `n_exposures`, `mjd_first`, `mjd_last` | how often it was seen, and when |
| `members`, `mjds`, `ids`, `surveys`, `snrs` | its spectra as `FILE:ROW`, by time, and in that order what each says |
| `notes` | what is odd about the grouping |
| `g_mag` to `m_g_error`, `known_as`, `match_notes` | where `specvet match` was run: what it found of the star |
| `TASK_answer`, `_p_yes`, `_rule`, `_by`, `_conflict`, `_n_yes`, `_n_no`, `_epochs`, `_likelier`, `_why` | of a task |
| `TASK_with_gaia`, `_why_with_gaia` | where `specvet match` was run: the second verdict, by the rules of the task |

`TASK_epochs` has the answer of each spectrum in the order of `members`, as it was counted; `-` where it was not asked.
In names of columns a task's `-` is `_`. The rule with its formula stands in the description of `TASK_p_yes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from specvet.catalogue.matching.folder import read_matches
from specvet.catalogue.matching.run import run_tasks
from specvet.catalogue.objects import RADIUS_ARCSEC
from specvet.records.tables import Column, Fact, Sheet
from specvet.vetting.columns import provenance
from specvet.vetting.export import ExportError, Format, table_kind, write_rows
from specvet.vetting.matched import is_matched
from specvet.vetting.object_gaia import (
    OBJECT_MATCH_COLUMNS,
    object_match,
    object_match_cells,
    object_with_gaia,
    with_gaia_cells,
    with_gaia_columns,
)
from specvet.vetting.objects import AUTHORITY, Decided, ObjectVerdicts, asked_tasks, kept, objects_of

if TYPE_CHECKING:
    from specvet.catalogue.objects import Combined
    from specvet.records import RunFolder
    from specvet.tasks import Epochs
    from specvet.vetting.triage.cases import Place

OBJECT_COLUMNS = (
    Column("object", str, "id: Gaia DR3 and its source id, else J and the mean place", ucd="meta.id;meta.main"),
    Column(
        "gaia_id", str, "Gaia DR3 source id, stated by a file or list, or matched; always text", ucd="meta.id.cross"
    ),
    Column("ra", float, "right ascension, mean of its spectra", "deg", "pos.eq.ra;meta.main", "icrs"),
    Column("dec", float, "declination, mean of its spectra", "deg", "pos.eq.dec;meta.main", "icrs"),
    Column("n_spectra", int, "spectra of it in the run", ucd="meta.number;obs"),
    Column("n_exposures", int, "single exposures that their files hold beside them", ucd="meta.number;obs"),
    Column("mjd_first", float, "modified Julian date of its first spectrum", "d", "time.epoch;obs", "mjd"),
    Column("mjd_last", float, "modified Julian date of its last spectrum", "d", "time.epoch;obs", "mjd"),
    Column("members", str, "its spectra as FILE:ROW, by time", ucd="meta.ref"),
    Column("mjds", str, "modified Julian date of each, - where not known", ucd="meta.note"),
    Column("ids", str, "id of each, of the list or else of the file", ucd="meta.id"),
    Column("surveys", str, "survey of each", ucd="meta.dataset"),
    Column("snrs", str, "median signal to noise a pixel of each", ucd="meta.note"),
    Column("notes", str, "what is odd about the grouping", ucd="meta.note"),
)


def export_objects(
    run_path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    format: Format | None = None,
    *,
    tasks: Collection[str] | None = None,
    answers: Collection[str] | None = None,
    radius_arcsec: float = RADIUS_ARCSEC,
    people: Mapping[Place, Decided] | None = None,
    tell: Callable[[str], None] | None = None,
) -> int:
    """Write the objects of a run to `out`, and return how many.

    `answers` keeps objects of which at least one verdict is one of them; the rest is as `specvet.vetting.export.export`
    and `specvet.vetting.objects.objects_of` do it. Raises `ExportError` where what triage or matching left cannot be
    read, ValueError for a radius that is not positive, and what `export` raises.
    """
    from specvet.data.errors import InputError
    from specvet.records.run import RunFolder
    from specvet.vetting.triage.calibration import TriageError

    kind = table_kind(out, format)
    run = RunFolder.read(run_path)
    try:
        asked = {key: rule for key, rule in asked_tasks(run).items() if tasks is None or key in tasks}
        found = kept(objects_of(run, radius_arcsec, tasks=list(asked), people=people), answers)
        sheet = _sheet(run, asked, tasks, answers, radius_arcsec, reviewed=people is not None)
        return write_rows(_rows(run, found, list(asked)), out, kind, sheet, tell=tell)
    except (TriageError, InputError) as e:
        raise ExportError(str(e)) from None
    finally:
        run.close()


def task_columns(task: str, rule: Epochs | None, name: str = "") -> tuple[Column, ...]:
    """The columns of one task."""
    from specvet.tasks.epochs import DEFAULT, RULES

    used = rule or DEFAULT
    stem, what = _stem(task), name or task
    return (
        Column(f"{stem}_answer", str, f"verdict on {what} over all epochs", ucd="meta.code.class"),
        Column(f"{stem}_p_yes", float, f"probability (0-1) of YES; {RULES[used.rule]}", ucd="stat.probability"),
        Column(f"{stem}_rule", str, "how epochs were combined, as the task says", ucd="meta.code"),
        Column(f"{stem}_by", str, f"highest authority among the epochs that count, of {AUTHORITY}", ucd="meta.code"),
        Column(f"{stem}_conflict", str, "yes: some epochs say YES and others NO", ucd="meta.code"),
        Column(f"{stem}_n_yes", int, "epochs that count and say YES", ucd="meta.number"),
        Column(f"{stem}_n_no", int, "epochs that count and say NO", ucd="meta.number"),
        Column(f"{stem}_epochs", str, "answer of each spectrum, in the order of members", ucd="meta.note"),
        Column(f"{stem}_likelier", str, "for a NO: the class that most epochs name", ucd="src.class"),
        Column(f"{stem}_why", str, "in words", ucd="meta.note"),
    )


def object_cells(one: ObjectVerdicts) -> dict[str, Any]:
    """The cells of `OBJECT_COLUMNS`."""
    found, members = one.group, one.group.members
    mjds = found.mjds
    return {
        "object": found.id,
        "gaia_id": found.gaia_id or None,
        "ra": found.ra,
        "dec": found.dec,
        "n_spectra": len(members),
        "n_exposures": one.n_exposures,
        "mjd_first": mjds[0] if mjds else None,
        "mjd_last": mjds[-1] if mjds else None,
        "members": "; ".join(f"{s.key[0]}:{s.key[1]}" for s in members),
        "mjds": "; ".join("-" if s.mjd is None else f"{s.mjd:.10g}" for s in members),
        "ids": "; ".join(s.id or "-" for s in members),
        "surveys": "; ".join(s.survey or "-" for s in members),
        "snrs": "; ".join("-" if s.snr is None else f"{s.snr:.3g}" for s in members),
        "notes": "; ".join(found.notes) or None,
    }


def task_cells(task: str, one: ObjectVerdicts) -> dict[str, Any]:
    """The cells of `task_columns`; null where no spectrum was asked."""
    stem, said = _stem(task), one.verdicts.get(task)
    cells = dict.fromkeys(c.name for c in task_columns(task, None))
    return cells if said is None else {f"{stem}_{name}": value for name, value in _told(said, task, one).items()}


def _told(said: Combined, task: str, one: ObjectVerdicts) -> dict[str, Any]:
    return {
        "answer": str(said.answer),
        "p_yes": None if said.p_yes is None else round(said.p_yes, 6),
        "rule": said.rule,
        "by": said.by,
        "conflict": "yes" if said.conflict else "no",
        "n_yes": len(said.yes),
        "n_no": len(said.no),
        "epochs": "; ".join("-" if v is None else str(v.answer) for v in one.epochs[task]),
        "likelier": said.likelier,
        "why": said.reason,
    }


def _rows(run: RunFolder, objects: Iterator[ObjectVerdicts], tasks: Collection[str]) -> Iterator[dict[str, Any]]:
    matched, matches, said = is_matched(run), read_matches(run.path), run_tasks(run.path)
    for one in objects:
        row, match = object_cells(one), object_match(one.group, matches)
        if matched:
            row |= object_match_cells(match)
        for task in tasks:
            row |= task_cells(task, one)
            if matched:
                row |= with_gaia_cells(_stem(task), object_with_gaia(one, said.get(task), match))
        yield row


def _stem(task: str) -> str:
    """What the names of a task's columns begin with."""
    return task.replace("-", "_")


def _sheet(
    run: RunFolder,
    rules: Mapping[str, Epochs | None],
    tasks: Collection[str] | None,
    answers: Collection[str] | None,
    radius_arcsec: float,
    *,
    reviewed: bool,
) -> Sheet:
    names = {key: task.name for key, task in run_tasks(run.path).items()}
    matched = is_matched(run)
    columns = [*OBJECT_COLUMNS, *(OBJECT_MATCH_COLUMNS if matched else ())]
    for key, rule in rules.items():
        columns += task_columns(key, rule, names.get(key, ""))
        columns += with_gaia_columns(_stem(key), names.get(key, key)) if matched else ()
    facts = (
        *provenance(run, tasks, answers),
        Fact("object_radius", "OBJRAD", radius_arcsec, "arcsec, within which spectra without a Gaia id are one object"),
        Fact("authority", "AUTHORIT", AUTHORITY, "who goes before whom about one epoch"),
        Fact("reviewed", "REVIEWED", "yes" if reviewed else "no", "whether decisions of people were counted"),
    )
    says = f"objects of the specvet run {run.path.resolve().name}: one row a star, over all its spectra"
    return Sheet("OBJECTS", says, tuple(columns), facts)
