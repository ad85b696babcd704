"""`specvet tasks`: the questions that can be asked, and how to ask one of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli.console import console, print_json
from specvet.cli.failure import USAGE, failing

if TYPE_CHECKING:
    from specvet.tasks import Luminosity, Task


def tasks(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A task, or a YAML file of your own.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each task.")] = False,
    indices: Annotated[
        bool, typer.Option("--indices", help="List the built-in line indices that a task may use.")
    ] = False,
    template: Annotated[bool, typer.Option("--template", help="Print a task file to start your own from.")] = False,
) -> None:
    """List the tasks, or print one in full.

    A category of your own is a YAML file: specvet tasks --template > symbiotic.yaml; specvet tasks symbiotic.yaml
    checks and prints it, specvet vet … --task symbiotic.yaml asks it.
    """
    from specvet.tasks import TaskError, builtin_tasks, load_task, template_text

    if template:
        print(template_text(), end="")
        return
    if indices:
        _print_indices(json)
        return
    with failing(USAGE, TaskError):
        chosen = [load_task(name)] if name else list(builtin_tasks().values())
        if name:
            from specvet.policies import policy

            policy("line-indices").check(chosen[0])  # a model takes any task, a specialist those it was trained on
    if json:
        for task in chosen:
            print_json(task.model_dump(mode="json"))
    elif name:
        _print_task(chosen[0])
    else:
        _print_list(chosen)


def _print_indices(json: bool) -> None:
    from specvet.spectra.index_table import BUILTIN_INDICES, described

    rows = [(key, index.name, index.unit, described(index), index.source) for key, index in BUILTIN_INDICES.items()]
    if json:
        for key, name, unit, how, source in rows:
            print_json({"index": key, "name": name, "unit": unit, "how": how, "source": source})
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("index", "name", "unit", "how (Å in air unless said)", "source"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def _print_list(all_tasks: list[Task]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("task", "class", "also known as", "looks at"):
        table.add_column(column, overflow="fold")
    for task in all_tasks:
        windows = ", ".join(w.name for w in task.windows)
        table.add_row(task.key, task.name, ", ".join(task.aliases), windows)
    out = console()
    out.print(table)
    out.print("\nspecvet tasks NAME prints one in full; --template starts one of your own.")


def _print_task(task: Task) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out = console()

    def heading(text: str) -> None:
        out.print()
        out.print(Text(text, style="bold"))

    def entry(text: str | Text, indent: int = 2) -> None:
        out.print(Padding(text if isinstance(text, Text) else Text(text), (0, 0, 0, indent), expand=False))

    out.print(Text(f"{task.key}: {task.name}", style="bold"))
    if task.aliases:
        entry(f"also: {', '.join(task.aliases)}")
    heading("Question")
    entry(task.question.strip())
    for title, lines in (("Counts", task.include), ("Does not count", task.exclude)):
        heading(title)
        for line in lines:
            entry(f"- {line}")
    if task.borderline:
        heading("Borderline")
        for b in task.borderline:
            entry(Text.assemble((f"{b.answer:<3} ", "bold"), f"{b.kind}: {b.why}"))
    _print_requirements(task, heading, entry)
    heading("Windows")
    for w in task.windows:
        entry(Text.assemble((w.name, "bold"), f"  {w.range[0]:.0f}-{w.range[1]:.0f} Å"))
        entry(w.why, 6)
        if w.features:
            entry("; ".join(f"{f.name} {f.wavelength:.0f} Å ({f.kind}, {f.medium})" for f in w.features), 6)
        for c in w.contaminants:
            where = f" {c.range[0]:.0f}-{c.range[1]:.0f} Å" if c.range else ""
            entry(Text.assemble(("beware ", "yellow"), f"{c.name}{where}: {c.effect}"), 6)
    heading("Guidance")
    for paragraph in task.guidance.strip().split("\n\n"):
        entry(" ".join(paragraph.split()) if "\n-" not in f"\n{paragraph}" else paragraph)
    _print_epochs(task, heading, entry)
    if task.gaia is not None:
        _print_luminosity(task.gaia, heading, entry)
    heading("Sources")
    for source in task.sources:
        entry(f"- {source}")


def _print_requirements(task: Task, heading: object, entry: object) -> None:
    assert callable(heading)
    assert callable(entry)
    needs = task.requires
    if not needs.coverage and not needs.min_snr:
        return
    heading("Needs (else NO_DATA)")
    if needs.coverage:
        entry(f"at least {needs.at_least} of these ranges:")
        for c in needs.coverage:
            entry(f"{c.range[0]:.0f}-{c.range[1]:.0f} Å, {c.fraction:.0%} of it{f': {c.why}' if c.why else ''}", 4)
    if needs.min_snr:
        entry(f"median S/N of at least {needs.min_snr:g} a pixel")


def _print_epochs(task: Task, heading: object, entry: object) -> None:
    from specvet.tasks.epochs import DEFAULT, RULES

    assert callable(heading)
    assert callable(entry)
    epochs = task.epochs or DEFAULT
    heading("Several epochs of one star (specvet export --objects)")
    entry(f"{epochs.rule}{'' if task.epochs else ' (the default)'}: {RULES[epochs.rule]}")
    if epochs.rule == "any_yes":
        entry(f"a YES of a policy is trusted from p(YES) {epochs.trusted:g}")
    entry(f"why: {epochs.why.strip()}")


def _print_luminosity(gaia: Luminosity, heading: object, entry: object) -> None:
    from specvet.tasks.luminosity import region_text

    assert callable(heading)
    assert callable(entry)
    heading("With Gaia (specvet match)")
    entry(
        f"changes nothing below {gaia.min_parallax_over_error:g} parallax errors, above RUWE {gaia.max_ruwe:g}, or "
        f"where M_G ± {gaia.sigmas:g} errors crosses an edge"
    )
    for region in gaia.regions:
        own = " (its own)" if region.name in gaia.expected else ""
        entry(f"{region.name}{own}: {region_text(region)}")
        entry(region.source, 6)
    for rule in gaia.rules:
        named = f" that looks like {' or '.join(rule.likelier_class)}" if rule.likelier_class else ""
        entry(f"- {' or '.join(rule.answers)}{named}, {rule.where} {rule.region} → {rule.becomes}: {rule.why}")
