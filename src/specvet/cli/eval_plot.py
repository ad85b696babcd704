"""`specvet eval plot`: figures of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, NOTHING_VETTED, USAGE, CommandError, failing


def plot(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A campaign folder, as eval run wrote it.")],
    *,
    set: Annotated[
        list[str] | None, typer.Option("--set", metavar="SLUG", help="Only this set; may be repeated.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="all|comparison|tasks|confusers|reliability|risk|windows",
            help="Which figures; may be repeated.",
        ),
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Draw published results below ours in comparison and tasks: others', on other questions.",
        ),
    ] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Where to; by default plots/ in the campaign folder.")
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="png,pdf,svg", help="One or several, with commas between.")
    ] = "png,pdf,svg",
    json: Annotated[
        bool, typer.Option("--json", help="Print what was drawn, and what was not and why, as JSON.")
    ] = False,
) -> int:
    """Draw a campaign: numbers with intervals, by task, what deceived, calibration, where the agent looked.

    \b
      comparison   accuracy, macro F1, format and correct answers of every policy
      tasks        F1, precision and recall by task
      confusers    share of wrong answers by what the object is
      reliability  how often answers are right beside their confidence
      risk         wrong answers against questions answered, the most confident first
      windows      where policies looked, beside the task's key windows

    The figures read in black and white. Only the campaign's numbers are needed: no spectra, no model.

    \b
    Exit codes:
      0  drawn
      1  nothing was measured that could be drawn
      2  the command is wrong, or the folder is no campaign
      4  the disk is full, or the files cannot be written
    """
    from specvet.data.errors import InputError
    from specvet.evaluation.folder import open_campaign
    from specvet.evaluation.plots import FORMATS, KINDS, plot_campaign

    kinds = _chosen("--kind", kind or ["all"], KINDS)
    formats = _chosen("--format", [part.strip() for part in format.split(",")], FORMATS)
    drawn: list[dict[str, str]] = []
    missing: list[dict[str, str]] = []
    with failing(CANNOT_WRITE, OSError), failing(USAGE, InputError, ValueError):
        campaign = open_campaign(folder)
        if unknown := [name for name in set or () if name not in campaign.sets]:
            raise CommandError(f"--set {unknown[0]}: the campaign has {', '.join(campaign.sets)}", USAGE)
        target = Path(out) if out else campaign.path / "plots"
        made = plot_campaign(campaign, target, sets=set, kinds=kinds, beside=published, formats=formats)
        for figure, paths in made:
            if figure.figure is None:
                missing.append({"set": figure.set, "kind": figure.kind, "why": figure.why})
                if not json:
                    say(f"{figure.kind} of {figure.set} is not drawn: {figure.why}")
            for path in paths:
                drawn.append({"set": figure.set, "kind": figure.kind, "file": str(path)})
                if not json:
                    print(path)
    if json:
        print_json({"drawn": drawn, "not_drawn": missing})
    return DONE if drawn else NOTHING_VETTED


def _chosen(flag: str, given: list[str], known: tuple[str, ...]) -> list[str]:
    """The given words, each one of the known; `all` stands for all."""
    if "all" in given:
        return list(known)
    for word in given:
        if word not in known:
            raise CommandError(f"{flag} {word}: choose {', '.join(known[:-1])} or {known[-1]}", USAGE)
    return list(dict.fromkeys(given))
