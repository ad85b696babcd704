"""`specvet train base`: a small model from nothing, taught to read plots."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from specvet.cli import train_options as options
from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.progress import Shown, bars, duration, rate_text, shown
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from specvet.training.base.loop import Progress

_STOPPING = "saving after this update; Ctrl-C again aborts it"


def base(
    *,
    out: options.Out = None,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", help="How long to train.")] = None,
    documents: Annotated[
        int | None, typer.Option("--documents", metavar="N", help="… or on how many documents.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", metavar="N", help="… or how often the file of --data is gone through.")
    ] = None,
    data: Annotated[
        str, typer.Option("--data", metavar="reading|FILE", help="Made on the way, or a file of demonstrations.")
    ] = "reading",
    start: Annotated[
        str | None, typer.Option("--from", metavar="FOLDER", help="Model folder to go on from; else a new nano.")
    ] = None,
    shape: Annotated[
        Literal["nano", "mini"] | None,
        typer.Option("--shape", help="Of a new model; mini is for trying things on a processor."),
    ] = None,
    vocabulary: Annotated[
        str | None, typer.Option("--vocabulary", metavar="FILE|FOLDER", help="A tokenizer.json; else it is learnt.")
    ] = None,
    vocabulary_documents: Annotated[
        int | None, typer.Option("--vocabulary-documents", metavar="N", help="… from so many documents; 2,000.")
    ] = None,
    templates: Annotated[
        str | None, typer.Option("--templates", metavar="DIR", help="Spectra that some simulated ones begin from.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Processes that make documents; one a core but one.")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", metavar="N", help="Documents an update.")] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", metavar="N", help="Learn from a document up to so often rather than wait; 2."),
    ] = None,
    lr: options.Rate = None,
    seed: options.Seed = None,
    held_out: Annotated[
        int | None,
        typer.Option(
            "--held-out", metavar="N", help="Documents to measure by at the end; of a file 0 learns from all."
        ),
    ] = None,
    device: options.Device = None,
    compile: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Compile the layers; on a GPU it is the default.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Train a small model to read plots: lines, slopes, shapes, axes, and no verdict on any class.

    Processes draw and describe SIMULATED spectra while the model learns from them; RUN/model is a model folder that
    sft, grpo and transformers take. It is rewritten every minute, so that a killed run leaves a model.

    \b
      specvet train base --out runs/base --seconds 240
      specvet train base --out runs/more --data demonstrations.jsonl --from runs/base/model --seconds 240

    \b
    Exit codes:
      0    trained
      1    training failed
      2    the command is wrong, or what it names cannot be read
      4    the disk is full, or the run folder cannot be written
      130  interrupted; what was learnt is saved
    """
    from pydantic import ValidationError

    with failing(USAGE, ImportError):
        from specvet.training.base.config import BaseConfig
    given: dict[str, Any] = {
        "data": data, "start": start, "vocabulary": vocabulary, "vocabulary_documents": vocabulary_documents,
        "shape": shape, "templates": templates, "seconds": seconds, "documents": documents,
        "epochs": epochs, "workers": workers, "batch": batch, "repeats": repeats, "lr": lr,
        "seed": seed, "held_out": held_out, "device": device, "compile": compile,
    }  # fmt: skip
    try:
        config = BaseConfig(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as e:
        first = e.errors()[0]
        field = "".join(f"--{name}: " for name in first["loc"]).replace("start", "from").replace("_", "-")
        raise CommandError(field + str(first["msg"]).removeprefix("Value error, "), USAGE) from None
    folder = Path(out or os.path.join("runs", datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")))
    receipt = _trained(config, folder, quiet)
    if json:
        print_json({"out": str(folder)} | receipt)
    elif not quiet:
        _print(folder, receipt)
    return DONE if receipt["finished"] else INTERRUPTED


def _trained(config: Any, folder: Path, quiet: bool) -> dict[str, Any]:
    from specvet.chat.vocabulary_files import VocabularyError
    from specvet.data.errors import InputError
    from specvet.policies.tokens import PolicyError

    try:
        from specvet.training.base.feed import FeedError
        from specvet.training.base.loop import train_base
        from specvet.training.trainer import TrainerError
    except ModuleNotFoundError as e:
        raise CommandError(
            f"training needs {e.name}, which is not installed: pip install 'specvet[train]'", USAGE
        ) from e
    with (
        failing(CANNOT_WRITE, OSError),
        failing(NOTHING_VETTED, TrainerError, FeedError),
        failing(USAGE, InputError, VocabularyError, PolicyError),
        _shown(quiet) as progress,
        stopped_by_signals(progress.stopping) as stop,
    ):
        return train_base(config, folder, told=progress, say=(lambda text: None) if quiet else say, stopping=stop)


def _shown(quiet: bool) -> AbstractContextManager[Shown[Progress]]:
    @contextmanager
    def barred() -> Iterator[_Bar]:
        with bars() as made:
            yield _Bar(made)

    return shown(quiet, barred, _line, _STOPPING)


class _Bar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None
        self._stopping = False

    def __call__(self, progress: Progress) -> None:
        if self._task is None:
            self._task = self._bar.add_task(progress.doing, total=None, note="")
        total = progress.documents / progress.share if progress.share > 0 else None
        note = _STOPPING if self._stopping else _note(progress)
        self._bar.update(self._task, description=progress.doing, completed=progress.documents, total=total, note=note)

    def stopping(self) -> None:
        self._stopping = True


def _note(p: Progress) -> str:
    return f"loss {p.loss:.3f}, waits {100 * p.waited:.0f} % of the time" if p.documents else ""


def _line(p: Progress) -> str:
    """`training, 38 % done, 120,000 documents, 2,310 a second, loss 0.421, waits 0 % of the time`."""
    parts = [p.doing]
    if p.documents:
        parts += [
            f"{100 * p.share:.0f} % done",
            f"{p.documents:,} documents",
            f"{rate_text(p.rate)} a second",
            _note(p),
        ]
    return ", ".join(parts)


def _print(folder: Path, receipt: dict[str, Any]) -> None:
    screen = console()
    screen.print(
        f"{receipt['documents']:,} documents in {duration(receipt['seconds'])}, "
        f"{rate_text(receipt['documents_per_second'])} a second, after {duration(receipt['setup_seconds'])} of getting "
        f"ready; {receipt['documents_repeated']:,} of them twice or more; waited {100 * receipt['data_wait']:.1f} % of "
        "the time",
        soft_wrap=True,
    )
    if held := receipt["held_out"]:
        screen.print(
            f"on held-out documents: loss {held['loss']:.3f} nats a token, {100 * held['right']:.1f} % of the tokens "
            f"and {100 * held['exact']:.1f} % of {held['replies']:,} replies right",
            soft_wrap=True,
        )
    left = receipt["left_out"]
    if left["failed"] or left["lost_producers"]:
        screen.print(
            f"{left['failed']:,} documents could not be made, {left['lost_producers']} processes were lost; the first "
            "reason is in receipt.json",
            soft_wrap=True,
        )
    screen.print(f"model: {folder / 'model'}", soft_wrap=True)
