"""`specvet models`: the model folders that are here, what they are, whether they are whole, and how to get others."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli import merge, pack
from specvet.cli.console import console, print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.failure import CANNOT_WRITE, DONE, NOTHING_VETTED, USAGE, failing

if TYPE_CHECKING:
    from specvet.policies.catalogue import Manifest, Model, Verification

app = typer.Typer(
    help="Model folders: what is here, whether it is whole, and how to get and make others.", rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(metavar="NAME|FOLDER", help="A model that is here, or any model folder.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@app.callback(invoke_without_command=True)
def _models(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_models()


@app.command("list")
def list_models(json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False) -> int:
    """List the models that are here: those in the package and those that were fetched.

    The hash is that of all files but the card: equal hashes are equal models.
    """
    from specvet.policies.catalogue import cache_folder, models

    found, refused = models()
    if json:
        for model in found:
            print_json(_summary(model) | {"size": model.size, "packaged": model.packaged})
    elif found:
        _print_models(found)
    else:
        console().print(
            f"no model is here, neither in the package nor in {cache_folder()}; specvet models fetch gets one",
            soft_wrap=True,
        )
    for reason in refused.values():
        say(f"left out: {reason}")
    return DONE


@app.command()
def show(name: Name, *, json: Json = False) -> int:
    """Show what a model is: its card, and what its manifest says.

    \b
      specvet models show nano

    Ends with 2 when there is no such model.
    """
    from specvet.policies.catalogue import CARD, ModelError, find_model, read_manifest

    with failing(USAGE, ModelError):
        folder = find_model(name)
        manifest = read_manifest(folder)
    if json:
        print_json({"folder": str(folder), "hash": manifest.digest} | manifest.model_dump(mode="json"))
        return DONE
    out = console()
    for key, value in _facts(folder, manifest):
        out.print(f"{key:<9} {''.join(c for c in value if c.isprintable())}", soft_wrap=True)
    if (folder / CARD).is_file():
        text = _body((folder / CARD).read_text(encoding="utf-8", errors="replace"))
        out.print()
        if out.is_terminal:
            from rich.markdown import Markdown

            out.print(Markdown(text))
        else:
            out.print(text, soft_wrap=True)
    return DONE


@app.command()
def verify(name: Name, *, json: Json = False) -> int:
    """Hash every file of a model again and hold it against the model's manifest.

    \b
    Exit codes:
      0    every file is as the manifest says, and nothing else is there
      1    a file is altered, missing, or not in the manifest
      2    there is no such model, or it has no manifest
    """
    from specvet.policies.catalogue import ModelError, find_model, read_manifest, verify_model

    with failing(USAGE, ModelError):
        folder = find_model(name)
        manifest = read_manifest(folder)
    with failing(NOTHING_VETTED, OSError):
        found = verify_model(folder, manifest)
    if json:
        told = {key: list(getattr(found, key)) for key in ("sound", "altered", "missing", "unlisted")}
        print_json({"ok": found.ok, "folder": str(folder), "hash": manifest.digest} | told)
    else:
        _print_verification(folder, manifest, found)
    return DONE if found.ok else NOTHING_VETTED


@app.command()
def fetch(
    source: Annotated[
        str, typer.Argument(metavar="HUB_ID|FOLDER|URL", help="owner/name, a folder, or the address of one.")
    ],
    *,
    revision: Annotated[str | None, typer.Option("--revision", help="Of a hub id: branch, tag or commit.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="What it is called here; by default its own name.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Json = False,
) -> int:
    """Get a model into the cache, with the hash of each of its files checked or recorded.

    \b
      specvet models fetch Qwen/Qwen2.5-VL-3B-Instruct --revision 66285546d2b8
      specvet models fetch https://example.org/models/mine      a folder with its specvet.json
      specvet models fetch /media/stick/mine                    a copy, on a machine without a network

    Only safetensors, text and pictures are taken: other files may run code when they are loaded. HF_ENDPOINT,
    HF_TOKEN, HF_HUB_OFFLINE and XDG_CACHE_HOME are honoured. An interrupted fetch goes on where it stopped.

    \b
    Exit codes:
      0    the model is there
      1    it cannot be had, or is not what its manifest says; the message says what to do
      4    the cache cannot be written
    """
    from specvet.data.errors import InputError
    from specvet.data.model_files import fetch_model
    from specvet.policies.catalogue import ModelError
    from specvet.policies.registry import policy_for
    from specvet.records import RunError

    with (
        failing(CANNOT_WRITE, OSError),
        failing(NOTHING_VETTED, ModelError, InputError, RunError),
        shown_steps(quiet) as tell,
    ):
        model = fetch_model(source, revision=revision, name=name, told=tell)
    manner = model.manifest.manner
    task = manner.tasks[0] if manner and manner.tasks else "cv"
    runs = ["--policy", policy_for(model.folder), "--model", str(model.folder)]
    told = shlex.join(["specvet", "vet", "FILE", "--task", task, *runs])
    if json:
        print_json(_summary(model) | {"next": told})
        return DONE
    out = console()
    out.print(f"{model.name} ({_bytes(model.size)}, {model.manifest.digest[:12]}) is in {model.folder}. Next:",
              soft_wrap=True)  # fmt: skip
    out.print(f"  {told}", soft_wrap=True)
    return DONE


@app.command()
def card(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A model folder with its manifest.")],
    *,
    results: Annotated[
        str, typer.Option("--results", metavar="FOLDER", help="With card.yaml, campaigns and receipts of its training.")
    ],
    spectra: Annotated[
        list[str] | None,
        typer.Option("--spectra", metavar="FOLDER", help="Where a SIMULATED set lies, if it is not found by itself."),
    ] = None,
) -> int:
    """Write a model's card, README.md, from the results that it stands on, and renew its manifest.

    The numbers come from campaigns (specvet eval publish) and receipts; card.yaml beside them has the words: what it is
    for, what it learnt from, how it was made, its limits. Real spectra are told of and never drawn.

    Ends with 0 when the card is there, 2 when something that it needs is missing, 4 when it cannot be written.
    """
    from specvet.data.errors import InputError
    from specvet.evaluation.model_card import write_model_card
    from specvet.policies.catalogue import CARD, ModelError, find_model

    with failing(CANNOT_WRITE, OSError), failing(USAGE, ModelError, InputError, ValueError, KeyError):
        place = find_model(folder)
        write_model_card(place, Path(results), [Path(one) for one in spectra or ()])
    print(place / CARD)
    return DONE


app.command()(merge.merge)
app.command()(pack.pack)


# --- for people


def _print_models(found: list[Model]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("model", "version", "size", "tasks", "licence", "hash", "where"):
        table.add_column(column, justify="right" if column == "size" else "left", overflow="fold",
                         no_wrap=column not in ("model", "where"))  # fmt: skip
    for model in found:
        m = model.manifest
        tasks = ", ".join(m.manner.tasks) if m.manner else ""
        where = "in the package" if model.packaged else _home(model.folder)
        table.add_row(model.name, m.version, _bytes(model.size), tasks or "any", m.licence, m.digest[:12], where)
    console().print(table)


def _print_verification(folder: Path, manifest: Manifest, found: Verification) -> None:
    out = console()
    for what, names in (
        ("altered", found.altered),
        ("missing", found.missing),
        ("not in the manifest", found.unlisted),
    ):
        for name in names:
            out.print(f"{what}: {name if name.isprintable() else ascii(name)}", style="bold red", soft_wrap=True)
    if found.ok:
        out.print(f"{manifest.name} {manifest.version} is whole: {len(found.sound)} files in {folder}, hash "
                  f"{manifest.digest[:12]}", style="green", soft_wrap=True)  # fmt: skip
    else:
        out.print(
            f"{folder} is not {manifest.name} {manifest.version} as it was released; get it again", soft_wrap=True
        )


def _facts(folder: Path, manifest: Manifest) -> list[tuple[str, str]]:
    facts = [
        ("model", f"{manifest.name} {manifest.version}"),
        ("hash", manifest.digest),
        ("licence", manifest.licence),
        ("in", str(folder)),
    ]
    if manifest.source:
        facts.append(("from", manifest.source))
    if m := manifest.manner:
        size = f", {m.size}" if m.size else ""
        budget = f"{m.max_turns} turns of {m.turn_tokens:,} tokens, {m.context:,} in all"
        facts.append(("asked", f"{m.wording} wording, {m.style} figures{size}, {budget}"))
        facts.append(("tasks", ", ".join(m.tasks) or "any"))
    if manifest.receipts:
        facts.append(("receipts", ", ".join(str(r.get("stage") or r.get("file") or "one") for r in manifest.receipts)))
    return facts


def _body(card: str) -> str:
    """A card without what stands between its first two `---`, which is for hubs, and without control characters."""
    plain = "".join(c for c in card if c in "\n\t" or c.isprintable())
    return plain.partition("\n---\n")[2] if plain.startswith("---\n") and "\n---\n" in plain else plain


def _summary(model: Model) -> dict[str, Any]:
    m = model.manifest
    return {
        "model": model.name,
        "version": m.version,
        "licence": m.licence,
        "tasks": list(m.manner.tasks) if m.manner else [],
        "hash": m.digest,
        "folder": str(model.folder),
    }


def _bytes(size: int) -> str:
    """`24.1 MB`."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _home(folder: Path) -> str:
    """A folder below the user's own, with `~`."""
    try:
        return f"~/{folder.relative_to(Path.home())}"
    except ValueError:
        return str(folder)
