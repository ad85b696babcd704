"""`specvet cite`: a methods paragraph with a run's own numbers, BibTeX, and the surveys' acknowledgements."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.catalogue.citing import Format, MatchFacts, RunFacts
    from specvet.records import RunFolder


def cite(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of vet or rollout, or a campaign's cell.")],
    *,
    out: Annotated[
        str, typer.Option("--out", metavar="DIR|-", help="Folder for the files; - writes all to standard output.")
    ] = "-",
    format: Annotated[str, typer.Option("--format", metavar="text|latex|markdown", help="Of the words.")] = "text",
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object: texts, references, and the facts that they rest on.")
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="FILE|postgresql://...", help="Where people's decisions are kept, if not in RUN."
        ),
    ] = None,
) -> int:
    """Write what a paper must say of a run: its methods paragraph, its references and the acknowledgements.

    Every number is the run's own: spectra by survey and release, what was asked, who decided by name and hash, answers,
    what triage promises, what people decided and how well they agree, what catalogues know. What the run does not hold
    is not said. References are in BibTeX; what you must complete or check in them stands under "To verify".

    \b
      specvet cite RUN
      specvet cite RUN --format latex --out paper/      methods.tex, acknowledgements.tex, references.bib, verify.txt
      specvet cite RUN --json                           with all the facts

    \b
    Exit codes: 0 written, 2 wrong command or no such run, 4 cannot write.
    """
    from specvet.catalogue.citing import FORMATS, citation
    from specvet.data.errors import InputError
    from specvet.records import RunError, RunFolder
    from specvet.vetting.triage import TriageError

    if format not in FORMATS:
        raise CommandError(f"--format {format}: choose {', '.join(FORMATS)}", USAGE)
    chosen: Format = format
    if cells := sorted(Path(run).glob("cells/*/run.db")):
        raise CommandError(f"{run}: is a campaign; name one of its cells, such as {cells[0].parent}", USAGE)
    with failing(USAGE, RunError, TriageError, InputError):
        folder = RunFolder.read(run)
        try:
            facts = facts_of(folder, store)
        finally:
            folder.close()
    found = citation(facts)
    if out != "-":
        with failing(CANNOT_WRITE, OSError):
            files = found.write(out, chosen)
        if not json:
            for file in files:
                print(file)
            say(f"{len(found.verify)} things to verify stand in {Path(out) / 'verify.txt'}")
    elif not json:
        print(found.whole(chosen), end="")
    if json:
        print_json(found.as_dict(chosen))
    return DONE


def facts_of(run: RunFolder, store: str | None = None) -> RunFacts:
    """The facts of a run, with what people decided and what catalogues know, where there is any."""
    from specvet.vetting.cited import run_facts

    facts = replace(run_facts(run), match=_matched(run))
    kept = store or os.fspath(run.path / "review.db")
    if store is not None and "://" not in store and not os.path.isfile(store):
        raise CommandError(f"--store {store}: there is no such file; leave it out where nothing was reviewed", USAGE)
    if not facts.decisions or (store is None and not os.path.isfile(kept)):
        return facts
    from specvet.cli.review import desk_of, opened
    from specvet.review.cited import review_facts, reviewers

    source = os.fspath(run.path)
    desk = desk_of(opened([source], None), [source], kept)
    try:
        return replace(facts, review=review_facts(desk, run), review_names=reviewers(desk))
    finally:
        desk.store.close()


def _matched(run: RunFolder) -> MatchFacts | None:
    from specvet.catalogue.citing import match_facts
    from specvet.catalogue.matching import read_about, read_answers, read_matches

    answers = [(a.answer, a.answer_with_gaia) for a in read_answers(run.path).values()]
    radius = (read_about(run.path) or {}).get("radius_arcsec")
    return match_facts(read_matches(run.path), answers, radius)
