"""The tables of docs/physics.md, made from the grammar itself.

    python -m specvet.tasks.physics.grammar.document docs/physics.md

rewrites what stands between the marks of the page; a test holds the page to it.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from pathlib import Path

from specvet.tasks.physics.grammar import Sizes, evaluate, shown

BEGIN, END = "<!-- grammar: made by specvet.tasks.physics.grammar.document -->", "<!-- end of grammar -->"


def tables() -> str:
    """Markdown of all words with their examples evaluated, names with a value, constants, units and sizes."""
    from specvet.tasks.physics.grammar.build import NAMES
    from specvet.tasks.physics.grammar.words import WORDS
    from specvet.tasks.physics.grammar.words.measures import BASE, CONSTANTS, DEFINED
    from specvet.tasks.physics.grammar.words.register import GROUPS, aliases_of

    lines: list[str] = []
    words = list(dict.fromkeys(WORDS.values()))
    for group in GROUPS:
        lines += [
            f"### {group.capitalize()}",
            "",
            "| write | also | meaning | example | gives |",
            "|---|---|---|---|---|",
        ]
        for entry in (w for w in words if w.group == group):
            also = ", ".join(f"`{name}`" for name in aliases_of(entry))
            cells = (code(entry.usage), also, entry.meaning, code(entry.example), code(shown(evaluate(entry.example))))
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["### Constants", "", "| name | sign | value in SI units |", "|---|---|---|"]
    for name, (value, exponents, sign) in CONSTANTS.items():
        lines.append(f"| `{name}` | {sign} | {value} {exponents} |".replace("  ", " "))
    names = ", ".join(f"`{name}`" for name in NAMES)
    bases = ", ".join(f"`{name}`" for name in BASE)
    units = ", ".join(f"`{name}`" for name in DEFINED)
    lines += ["", f"Names with a value: {names}, `True`, `False`.", "", "### Unit names", ""]
    lines += [f"Base units are {bases}. Long names (`meter`, `kilojoules`, `hours`) mean the same. {units}.", ""]
    lines += ["### Sizes", "", "| size | at most | of what |", "|---|---|---|"]
    said = inspect.getsource(Sizes)
    for field in dataclasses.fields(Sizes):
        meaning = said.partition(f"    {field.name}: int")[2].partition('"""')[2].partition('"""')[0]
        lines.append(f"| {field.name} | {field.default} | {' '.join(meaning.split()).replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def updated(page: str) -> str:
    """`page` with the tables between its marks made anew. Raises ValueError without the marks."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"the page has no marks {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
