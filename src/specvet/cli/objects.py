"""`specvet objects`: the stars that a run's spectra are of, and `specvet export --objects`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.vetting.objects import Decided, ObjectVerdicts
    from specvet.vetting.triage.cases import Place

Radius = Annotated[
    float | None,
    typer.Option(
        "--radius",
        metavar="ARCSEC",
        help="Spectra without a Gaia id that lie within this are of one object; by default 2.",
    ),
]
Reviewed = Annotated[
    bool, typer.Option("--reviewed", help="What people decided in specvet review goes before triage and policy.")
]


def objects(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet made.")],
    *,
    radius: Radius = None,
    task: Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd.")] = None,
    answer: Annotated[
        str | None, typer.Option("--answer", help="Only objects with one of these answers, as in YES,UNSURE.")
    ] = None,
    reviewed: Reviewed = False,
    store: Annotated[
        str | None, typer.Option("--store", help="With --reviewed: where decisions are kept, if not beside the run.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="Rows of the listing; 0 shows all. --json has all.")
    ] = 40,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each star.")] = False,
) -> None:
    """List the stars that a run's spectra are of, and what their epochs amount to.

    Spectra with one Gaia DR3 source id (in the file, the list, or by specvet match) are of one star, else those within
    the radius. How the verdicts of epochs are combined, each task says: specvet tasks cv. About one epoch a person goes
    before triage, and triage before the policy. The verdicts of spectra stay as they are.

    \b
      specvet objects RUN
      specvet objects RUN --task cv --answer YES --json
      specvet export RUN --objects --out stars.fits

    \b
    Exit codes:
      0    listed, also when nothing is left to list
      2    the command is wrong, or RUN is no run
    """
    from specvet.records import RunError, RunFolder
    from specvet.vetting.object_gaia import match_told
    from specvet.vetting.objects import asked_tasks, kept, objects_of

    answers, arcsec = answer_words(answer), radius_of(radius)
    people = people_of(run, store, reviewed)
    with failing(USAGE, RunError):
        folder = RunFolder.read(run)
    try:
        with failing(USAGE, *_unreadable()):
            keys = task_keys(task, run) or list(asked_tasks(folder))
            found = list(kept(objects_of(folder, arcsec, tasks=keys, people=people), answers))
            told = match_told(folder)
    finally:
        folder.close()
    if json:
        for one in found:
            print_json(object_json(one, told(one)))
    else:
        _print(found, keys, limit, told)


def export_objects(
    run: str,
    out: str,
    format: Any,
    *,
    task: str | None,
    answers: Collection[str] | None,
    radius: float | None,
    reviewed: bool,
    store: str | None,
) -> None:
    """`specvet export --objects`."""
    from specvet.records import RunError
    from specvet.vetting.export import ExportError
    from specvet.vetting.object_table import export_objects as write

    arcsec, people = radius_of(radius), people_of(run, store, reviewed)
    with failing(CANNOT_WRITE, OSError), failing(USAGE, ExportError, RunError):
        chosen = task_keys(task, run)
        n = write(run, out, format, tasks=chosen, answers=answers, radius_arcsec=arcsec, people=people, tell=say)
    if out != "-":
        say(f"wrote {n:,} objects to {out}")


def radius_of(given: float | None) -> float:
    """The radius in arcseconds. Raises `CommandError` for one that is none."""
    from math import isfinite

    from specvet.catalogue.objects import RADIUS_ARCSEC

    if given is not None and not (isfinite(given) and 0.0 < given <= 3600.0):
        raise CommandError(f"--radius {given:g}: give arcseconds above 0, up to 3600", USAGE)
    return RADIUS_ARCSEC if given is None else given


def people_of(run: str, store: str | None, reviewed: bool) -> Mapping[Place, Decided] | None:
    """What people decided of a run's spectra, None unless it is asked for."""
    if not reviewed:
        if store is not None:
            raise CommandError("--store belongs to --reviewed, which counts what people decided", USAGE)
        return None
    from specvet.cli.review import desk_of, opened
    from specvet.review.decided import decided

    listing = opened([run], None)
    if listing.run is None:
        raise CommandError(f"{run}: is no run folder; objects are of a run", USAGE)
    desk = desk_of(listing, [run], store)
    try:
        return decided(desk)
    finally:
        desk.store.close()


def object_json(one: ObjectVerdicts, told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One object as JSON: all that the table of `export --objects` says, its spectra one by one.

    `told` is what a match says of it, as `specvet.vetting.object_gaia.match_told` has it.
    """
    group, said = one.group, told or {}
    with_gaia = said.get("with_gaia", {})
    return {
        "object": group.id,
        "gaia_id": group.gaia_id or None,
        "ra": group.ra,
        "dec": group.dec,
        "n_exposures": one.n_exposures,
        "match": said.get("match"),
        "spectra": [
            {
                "file": s.key[0],
                "row": s.key[1],
                "id": s.id,
                "survey": s.survey or None,
                "mjd": s.mjd,
                "snr": s.snr,
                "ids": dict(s.ids),
                "answers": {task: str(of[i].answer) for task, of in one.epochs.items() if of[i] is not None},  # type: ignore[union-attr]
            }
            for i, s in enumerate(group.members)
        ],
        "verdicts": {
            task: {
                "answer": str(v.answer),
                "p_yes": v.p_yes,
                "rule": v.rule,
                "by": v.by,
                "conflict": v.conflict,
                "likelier_class": v.likelier,
                "reason": v.reason,
                "yes": [list(key) for key in v.yes],
                "no": [list(key) for key in v.no],
                **with_gaia.get(task, {}),
            }
            for task, v in one.verdicts.items()
        },
        "notes": list(group.notes),
    }


def task_keys(names: str | None, run: str) -> list[str] | None:
    from specvet.cli.export import task_keys as keys

    return keys(names, run)


def answer_words(answers: str | None) -> list[str] | None:
    from specvet.cli.export import answer_words as words

    return words(answers)


def _unreadable() -> tuple[type[Exception], ...]:
    from specvet.data.errors import InputError
    from specvet.vetting.triage.calibration import TriageError

    return InputError, TriageError


def _print(
    found: list[ObjectVerdicts], keys: list[str], limit: int, told: Callable[[ObjectVerdicts], dict[str, Any]]
) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column, justify in (
        ("object", "left"),
        ("ra", "right"),
        ("dec", "right"),
        ("spectra", "right"),
        ("MJD", "left"),
    ):
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column != "object")  # type: ignore[arg-type]
    for key in keys:
        table.add_column(key, no_wrap=True)
    shown, changed = found[: limit or None], False
    for one in shown:
        group, mjds = one.group, one.group.mjds
        place = ("-", "-") if group.ra is None or group.dec is None else (f"{group.ra:.5f}", f"{group.dec:+.5f}")
        when = "-" if not mjds else f"{mjds[0]:.0f}" if mjds[0] == mjds[-1] else f"{mjds[0]:.0f}-{mjds[-1]:.0f}"
        with_gaia = told(one).get("with_gaia", {})
        cells = [_told(one, key, with_gaia.get(key, {}).get("answer_with_gaia")) for key in keys]
        table.add_row(group.id, *place, str(len(group.members)), when, *cells)
        changed |= any("Gaia" in cell for cell in cells)
    out = console()
    if found:
        out.print(table)
    n = sum(len(one.group.members) for one in found)
    several = sum(len(one.group.members) > 1 for one in found)
    conflicts = sum(any(v.conflict for v in one.verdicts.values()) for one in found)
    more = f" ({len(found) - len(shown):,} of them not shown; --limit 0 shows all)" if len(shown) < len(found) else ""
    out.print(
        f"{n:,} spectra of {len(found):,} objects{more}; {several:,} with several spectra, "
        f"{conflicts:,} with epochs in conflict",
        soft_wrap=True,
    )
    if several:
        out.print("1/2: of 2 epochs that say YES or NO, 1 says YES; 0/0: none does", soft_wrap=True)
    if changed:
        out.print("Gaia YES: the verdict with Gaia, where it differs", soft_wrap=True)


def _told(one: ObjectVerdicts, task: str, with_gaia: str | None) -> str:
    """`NO 0/2, Gaia YES`: the answer, of how many epochs that say YES or NO how many say YES, and that with Gaia."""
    said = one.verdicts.get(task)
    if said is None:
        return "-"
    counted = len(said.yes) + len(said.no)
    words = f"{said.answer} {len(said.yes)}/{counted}" if len(one.group.members) > 1 else str(said.answer)
    return f"{words}, Gaia {with_gaia}" if with_gaia and with_gaia != str(said.answer) else words
