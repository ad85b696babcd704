"""`specvet`: the commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from specvet import __version__
from specvet.cli import (
    cite,
    completeness,
    console,
    data,
    doctor,
    eval,
    export,
    failure,
    get,
    match,
    model_folders,
    objects,
    pipeline,
    plot,
    report,
    review,
    rollout,
    samp,
    show,
    solve,
    tasks,
    train,
    transcript,
    triage,
    vet,
)

app = typer.Typer(
    name="specvet",
    help="Vet rare-star candidates from their survey spectra, with the evidence for every verdict.",
    epilog="Start with: specvet vet spectra/ --task cv,wd --out RUN",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(show.show)
app.command()(plot.plot)
app.command()(vet.vet)
app.command()(tasks.tasks)
app.command(cls=match.MatchCommand)(match.match)
app.command()(objects.objects)
app.command()(export.export)
app.command()(cite.cite)
app.command()(report.report)
app.command()(doctor.doctor)
app.command()(rollout.rollout)
app.command()(transcript.transcript)
app.command()(completeness.completeness)
app.command()(samp.samp)
app.command()(solve.solve)
app.add_typer(triage.app, name="triage")
app.add_typer(get.app, name="get")
app.add_typer(data.app, name="data")
app.add_typer(train.app, name="train")
app.add_typer(eval.app, name="eval")
app.add_typer(model_folders.app, name="models")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(review.app, name="review")


def _version(asked: bool) -> None:
    if asked:
        print(f"specvet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("-v", "--debug", help="Show where an error came from; may stand after any command.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; the entry point of the `specvet` script."""
    given = plot.join_windows(list(sys.argv[1:] if arguments is None else arguments))
    given = given or ["--help"]
    options = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in options or "-v" in options
    given = [a for i, a in enumerate(given) if i >= len(options) or a not in ("--debug", "-v")]
    console.prepare_streams()
    try:
        code = app(given, prog_name="specvet", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except Exception as e:
        if debug and not isinstance(e, BrokenPipeError):
            import traceback

            traceback.print_exc()
        return _explained(e)
    except KeyboardInterrupt:
        console.say("interrupted")
        return failure.INTERRUPTED
    except SystemExit as e:
        # click ends with 1 when a pipe breaks, whatever it is told about exceptions.
        if isinstance(e.__context__, OSError) and e.__context__.errno == errno.EPIPE:
            return _explained(BrokenPipeError())
        raise


def _discard_output() -> None:
    """Let nothing more be tried on stdout, not at exit either."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _explained(error: Exception) -> int:
    """Say what went wrong, and return the exit code for it."""
    if isinstance(error, failure.CommandError):
        for line in error.message.splitlines():
            console.say(line)
        return error.code
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has seen enough (`specvet show … | head`); the interpreter must not try again at exit.
        # 141 is what a shell says of a tool that the signal SIGPIPE has ended.
        _discard_output()
        return failure.BROKEN_PIPE
    if isinstance(error, OSError) and error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):
        _discard_output()
        console.say(f"cannot write to standard output: {error.strerror}")
        return failure.CANNOT_WRITE
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, typer.Abort):
        return failure.INTERRUPTED
    if hasattr(error, "format_message"):  # every usage error of typer, whichever click it is built on
        message = error.format_message()
        if message and not message.startswith("Usage:"):  # a group without a command "says" its whole help
            console.say(message)
            context = getattr(error, "ctx", None)
            console.say(f"try: {context.command_path if context else 'specvet'} --help")
        elif context := getattr(error, "ctx", None):
            print(context.get_help(), file=sys.stderr)
        return failure.USAGE
    console.say(f"a fault in specvet: {type(error).__name__}: {error}")
    console.say("the same command with --debug says where; please report it")
    return failure.NOTHING_VETTED
