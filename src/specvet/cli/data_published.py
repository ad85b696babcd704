"""`specvet data coldstart` and `specvet data bench`: the two published sets, downloaded or from a copy, prepared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.data.published.outputs import Outputs, Prepared

Out = Annotated[str, typer.Option("--out", metavar="FOLDER", help="Where sft/, rl/ and download/ go.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="FOLDER", help="A copy of the data set, or a cache of it; no network is used."),
]
Revision = Annotated[
    str | None, typer.Option("--revision", help="Of the data set on the hub; by default the pinned one, else main.")
]
Objects = Annotated[
    str | None,
    typer.Option("--objects", metavar="TABLE", help="CSV or Parquet with the columns name and object_id."),
]
Partial = Annotated[
    bool, typer.Option("--partial", help="Go on with a copy that lacks files; the statistics say which.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of the split.")]
Verify = Annotated[bool, typer.Option("--verify", help="Check what is there by hash, not only by size.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Neither progress nor a summary.")]
Json = Annotated[bool, typer.Option("--json", help="The statistics as one JSON object on stdout.")]

Progress = Callable[[str, int, int], None]


def coldstart(
    *,
    out: Out,
    source: From = None,
    revision: Revision = None,
    objects: Objects = None,
    partial: Partial = False,
    seed: Seed = 0,
    verify: Verify = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Prepare the published cold start (Spec-o3-ColdStartSFT): demonstrations to learn from, in FOLDER/sft.

    Texts are repaired where the symbol is clear, and every change is listed; one tenth is kept for validation, split by
    object. The same command goes on after an interruption, repairs what was damaged, and does nothing where all is
    there.

    \b
      specvet data coldstart --out data
      specvet data coldstart --out data --from Spec-o3-ColdStartSFT

    Ends with 0 when the set is there, 1 when it cannot be had or used, 2 for a wrong command, 4 for a full disk.
    """
    from specvet.data.published.coldstart import coldstart_outputs, coldstart_settings, prepare_coldstart
    from specvet.data.published.layout import COLDSTART, IMAGES, SHAREGPT

    table = _objects(objects)

    def prepare(folder: Path, revision: str | None, progress: Progress) -> Prepared:
        return prepare_coldstart(
            folder,
            out,
            objects=table,
            seed=seed,
            revision=revision,
            verify=verify,
            told=lambda done, total: progress("conversations", done, total),
        )

    done = _prepared(
        COLDSTART,
        "coldstart",
        lambda path: path == SHAREGPT or path.startswith(f"{IMAGES}/"),
        (coldstart_outputs(out), lambda revision: coldstart_settings(table, seed, revision)),
        prepare,
        partial=partial,
        out=out,
        source=source,
        revision=revision,
        verify=verify,
        quiet=quiet,
    )
    _tell(
        done, Path(out) / "sft", [*_coldstart_lines(done.stats), f"next: specvet data bench --out {out}"], quiet, json
    )
    return DONE


def bench(
    *,
    out: Out,
    source: From = None,
    revision: Revision = None,
    objects: Objects = None,
    coldstart: Annotated[
        str | None,
        typer.Option("--coldstart", metavar="FOLDER", help="A copy of the cold start, where it is not in --out."),
    ] = None,
    no_coldstart: Annotated[
        bool, typer.Option("--no-coldstart", help="Go on without it: dev may hold spectra that SFT has seen.")
    ] = False,
    partial: Partial = False,
    seed: Seed = 0,
    verify: Verify = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Prepare the published benchmark (SpecVI-Bench): questions to learn from and be measured by, in FOLDER/rl.

    Of train, 256 questions are kept for development: split by object, and none of a spectrum that the cold start shows.
    So prepare that first (specvet data coldstart), or name a copy with --coldstart; else its list is downloaded.

    \b
      specvet data bench --out data
      specvet data bench --out data --from SpecVI-Bench --coldstart Spec-o3-ColdStartSFT

    Ends with 0 when the set is there, 1 when it cannot be had or used, 2 for a wrong command, 4 for a full disk.
    """
    from specvet.data.errors import InputError
    from specvet.data.published.bench import bench_outputs, bench_settings, check_whole, prepare_bench
    from specvet.data.published.layout import BENCH, part_and_task

    if coldstart is not None and no_coldstart:
        raise CommandError("--coldstart and --no-coldstart exclude each other", USAGE)
    table = _objects(objects)
    seen = None if no_coldstart else _seen(out, source, coldstart)
    outputs = bench_outputs(out)

    def settings(revision: str | None) -> Mapping[str, Any]:
        wanted = bench_settings(table, seen, seed, revision)
        if seen is None and not no_coldstart:  # nothing here says that what is there was made with another one
            wanted["coldstart"] = outputs.made_with().get("coldstart") or "not known yet"
        return wanted

    def prepare(folder: Path, revision: str | None, progress: Progress) -> Prepared:
        if not partial:
            with failing(NOTHING_VETTED, InputError):
                check_whole(folder)
        return prepare_bench(
            folder,
            out,
            objects=table,
            coldstart=_seen_on_hub(out) if seen is None and not no_coldstart else seen,
            ignore_coldstart=no_coldstart,
            seed=seed,
            revision=revision,
            verify=verify,
            told=lambda done, total: progress("questions", done, total),
        )

    done = _prepared(
        BENCH,
        "bench",
        lambda path: part_and_task(path.rpartition("/")[2]) is not None,
        (outputs, settings),
        prepare,
        partial=partial,
        out=out,
        source=source,
        revision=revision,
        verify=verify,
        quiet=quiet,
    )
    _tell(done, Path(out) / "rl", [*_bench_lines(done.stats), _after_bench(out)], quiet, json)
    return DONE


def _prepared(
    dataset: str,
    key: str,
    wanted: Callable[[str], bool],
    finished: tuple[Outputs, Callable[[str | None], Mapping[str, Any]]],
    prepare: Callable[[Path, str | None, Progress], Prepared],
    *,
    partial: bool,
    out: str,
    source: str | None,
    revision: str | None,
    verify: bool,
    quiet: bool,
) -> Prepared:
    from specvet.cli.data_progress import shown_steps
    from specvet.data.errors import InputError
    from specvet.data.published.download import DownloadError, downloaded, kept_revision
    from specvet.data.published.outputs import Prepared
    from specvet.data.published.pins import check_copy, pin_of
    from specvet.data.published.tree import found_in, revision_of, root_of
    from specvet.records import RunError

    with (
        failing(CANNOT_WRITE, OSError),
        failing(NOTHING_VETTED, InputError, RunError),
        shown_steps(quiet) as progress,
    ):
        pin = pin_of(dataset)
        if source is not None:
            folder = Path(source)
            root = root_of(folder, dataset)
            own = revision_of(folder, dataset) or kept_revision(root)
            if pin is not None and revision in (None, pin.revision):
                wanted_of_copy = (lambda path: False) if partial else wanted
                check_copy(found_in(folder, dataset), root, dataset, pin, wanted_of_copy)
                own = pin.revision
            elif revision is not None and own is not None and revision != own:
                raise CommandError(f"--from {source}: is revision {own}, not {revision}", USAGE)
            return prepare(folder, own or revision, progress)
        place = Path(out) / "download" / key
        outputs, settings = finished
        there = revision or (pin.revision if pin else None) or kept_revision(place)
        there = there or outputs.made_with().get("revision")  # the download may have been deleted since
        if there is not None and (stats := outputs.finished(settings(there), verify=verify)) is not None:
            return Prepared(stats, False)

        def download(verify: bool) -> str:
            return downloaded(
                dataset,
                place,
                wanted,
                pin=pin,
                revision=revision,
                verify=verify,
                told=lambda done, total: progress("downloading (MB)", done // 1_000_000, -(-total // 1_000_000)),
            )

        got = download(verify)
        if not quiet and (pin is None or got != pin.revision):
            say(f"got {dataset} at revision {got}; {place / 'pin.json'} pins it, and says how")
        try:
            return prepare(place, got, progress)
        except DownloadError:
            raise
        except InputError as e:
            if verify:
                raise
            say(f"{e}; checking by hash what was downloaded")
            return prepare(place, download(True), progress)


def _objects(table: str | None) -> dict[str, str] | None:
    from specvet.data.errors import InputError
    from specvet.data.published.objects import read_objects

    with failing(USAGE, InputError):
        return None if table is None else read_objects(table)


def _seen(out: str, source: str | None, coldstart: str | None) -> frozenset[str] | None:
    """The names of the cold start's spectra: of a copy, else of FOLDER/sft; None where the hub has to be asked."""
    from specvet.data.errors import InputError
    from specvet.data.published.bench import names_in_sft
    from specvet.data.published.coldstart import coldstart_names, sharegpt_file

    with failing(CANNOT_WRITE, OSError), failing(NOTHING_VETTED, InputError):
        if coldstart is not None:
            return frozenset(coldstart_names(sharegpt_file(coldstart)))
        if (names := names_in_sft(out)) is not None:
            return names
        if source is not None:
            raise CommandError(
                f"{out}: holds no cold start (sft/), whose spectra must stay out of dev; prepare it first (specvet "
                "data coldstart), name a copy with --coldstart FOLDER, or go on without it: --no-coldstart",
                USAGE,
            )
        return None


def _seen_on_hub(out: str) -> frozenset[str]:
    from specvet.data.published.coldstart import coldstart_names, sharegpt_file
    from specvet.data.published.download import downloaded
    from specvet.data.published.layout import COLDSTART, SHAREGPT
    from specvet.data.published.pins import pin_of

    place = Path(out) / "download" / "coldstart"
    downloaded(COLDSTART, place, lambda path: path == SHAREGPT, pin=pin_of(COLDSTART))
    return frozenset(coldstart_names(sharegpt_file(place)))


def _tell(done: Prepared, folder: Path, lines: list[str], quiet: bool, json: bool) -> None:
    if json:
        print_json(done.stats | {"made": done.made, "repaired": list(done.repaired)})
    if quiet:
        return
    if not done.made:
        say(f"{folder} is complete already; nothing to do")
    for file in done.repaired[:5]:
        say(f"{folder / file} was missing or damaged, and is written again")
    if len(done.repaired) > 5:
        say(f"and {len(done.repaired) - 5:,} more files")
    if not json:
        told = console()
        for line in lines:
            told.print(line, soft_wrap=True)


def _coldstart_lines(stats: Mapping[str, Any]) -> list[str]:
    broken = stats["mojibake"]
    lines = [
        f"{stats['usable']:,} of {stats['rows']:,} conversations: {stats['train']:,} to learn from, {stats['val']:,} "
        f"for validation; {stats['pictures']:,} pictures",
        *_rejects(stats),
        f"{broken['repairs']:,} symbols repaired in {broken['conversations_repaired']:,} conversations; "
        f"{broken['conversations_with_unresolved']:,} keep {broken['unresolved_places']:,} places that cannot be read",
    ]
    if stats["usable"] != stats["usable_as_published"]:
        lines.append(f"(the published set has {stats['usable_as_published']:,} usable conversations)")
    return lines


def _bench_lines(stats: Mapping[str, Any]) -> list[str]:
    parts = [("rl_train", "to learn from"), ("dev", "for development"), ("val", "for validation"), ("test", "to test")]
    told = ", ".join(f"{stats[part]:,} {what}" for part, what in parts if stats[part])
    by_task = ", ".join(f"{task} {n}" for task, n in stats["by_task"]["dev"].items())
    lines = [f"PARTIAL: the copy lacks {', '.join(stats['missing_parts'])}"] if stats["missing_parts"] else []
    lines.append(f"{stats['rows']:,} questions: {told}; {stats['spectra']:,} spectra")
    lines.append(f"dev by task: {by_task} ({stats['dev_rule']})")
    lines += _rejects(stats)
    if stats["dev_missing"]:
        lines.append(f"dev is {stats['dev_missing']:,} short of what is wanted: too few objects outside the cold start")
    if stats["cold_start_spectra"] is None:
        lines.append("the cold start is not known: dev may hold spectra that SFT has seen")
    for part, shared in stats["shared_with_train"].items():
        if shared["questions"]:
            lines.append(f"{shared['questions']:,} questions of {part} are about objects that train asks about, too")
    return lines


def _after_bench(out: str) -> str:
    sft = Path(out) / "sft"
    if not (sft / "sft_stats.json").is_file():
        return f"next: specvet data coldstart --out {out}"
    files = f"--data {sft / 'sft_train.jsonl'} --validation {sft / 'sft_val.jsonl'}"
    return f"next: specvet train sft --profile qwen3.5-4b-chapter {files} --dry-run"


def _rejects(stats: Mapping[str, Any]) -> list[str]:
    found = stats["rejects"]
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(found.items(), key=lambda item: -item[1]))
    return [f"{sum(found.values()):,} rows cannot be used: {reasons}"] if found else []
