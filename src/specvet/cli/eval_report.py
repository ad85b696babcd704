"""`specvet eval report`: a campaign as one HTML page, or the results table of a README."""

from __future__ import annotations

from typing import Annotated

import typer

from specvet.cli.failure import CANNOT_WRITE, NOTHING_VETTED, USAGE, CommandError, failing


def report(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A campaign folder; with --readme, a folder of campaigns will do.")
    ],
    *,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Page to write; by default report.html in the campaign.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Draw what others published beside it, where there is a place for it.")
    ] = False,
    readme: Annotated[
        str | None,
        typer.Option(
            "--readme", metavar="FILE", help="Instead, write the table of all campaigns between its results marks."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --readme: write nothing, and end with 1 where it is out of date.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Show the page in the browser.")] = False,
) -> None:
    """Write a campaign as one self-contained HTML page: tables, figures, settings, receipts, and what is missing.

    \b
      specvet eval report E
      specvet eval report results --readme README.md

    The page reads numbers only, so it needs neither spectra nor a model. --readme puts a table of every campaign below
    the folder between the lines <!-- results --> and <!-- /results -->.
    """
    if readme is not None:
        if out is not None or published or open_page:
            raise CommandError("--readme writes a table and no page; leave --out, --published and --open away", USAGE)
        _readme(folder, readme, check)
        return
    if check:
        raise CommandError("--check is of --readme", USAGE)
    _page(folder, out, published)
    if open_page:
        typer.launch(out or f"{folder}/report.html")


def _page(folder: str, out: str | None, published: bool) -> None:
    from pathlib import Path

    from specvet.cli.data_progress import shown_steps
    from specvet.data.errors import InputError
    from specvet.evaluation.folder import open_campaign
    from specvet.evaluation.report import page
    from specvet.records import write_atomic

    with failing(USAGE, InputError):
        campaign = open_campaign(folder)
    with failing(NOTHING_VETTED, InputError, OSError, ValueError, KeyError), shown_steps(False) as tell:
        text = page(campaign, beside=published, progress=lambda done, total: tell("sets", done, total))
    target = Path(folder) / "report.html" if out is None else Path(out)
    with failing(CANNOT_WRITE, OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, text.encode("utf-8", "replace"))
    print(target)


def _readme(folder: str, readme: str, check: bool) -> None:
    from pathlib import Path

    from specvet.data.errors import InputError
    from specvet.evaluation.report import put_table, results_table
    from specvet.records import write_atomic

    place = Path(readme)
    with failing(USAGE, InputError, OSError, UnicodeDecodeError):
        old = place.read_text(encoding="utf-8")
        new = put_table(old, results_table(Path(folder), Path(folder).name or folder), readme)
    if check:
        if new != old:
            raise CommandError(
                f"{readme}: the results table is out of date; the same command without --check writes it"
            )
        return
    if new != old:
        with failing(CANNOT_WRITE, OSError):
            write_atomic(place, new)
    print(place)
