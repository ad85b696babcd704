"""References as a BibTeX file holds them: those that are known with all their fields, specvet itself, and the model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SPEC_O3 = "Jia2026"
"""Key of the paper whose way of looking specvet follows."""

TITLE = (
    "specvet: vetting rare-star candidates from their spectra with an agent that looks, zooms and gives its evidence"
)
"""Of specvet, as CITATION.cff has it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry."""

    key: str
    kind: str
    """`article`, `misc`, `inproceedings`, `book`, `software`."""
    fields: tuple[tuple[str, str], ...]
    """(name, value) in BibTeX's own notation."""
    label: str
    """As a text cites it: `Hou et al. 2020`."""
    verify: str = ""
    """What its user must complete or check; empty where nothing."""
    place: tuple[str, str, str] | None = None
    """(journal as source lines abbreviate it, volume, first page), by which two entries are the same."""

    def bibtex(self) -> str:
        """The entry; its `note` says what must be verified."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields]
        if self.verify:
            lines.append(f"  note = {{VERIFY: {self.verify}}},")
        return "\n".join((f"@{self.kind}{{{self.key},", *lines, "}"))


@cache
def known() -> dict[str, Reference]:
    """By key, the entries of `known.yaml`."""
    import yaml

    text = (files(__package__) / "known.yaml").read_text(encoding="utf-8")
    return {key: _known(key, {n: str(v) for n, v in told.items()}) for key, told in yaml.safe_load(text).items()}


def _known(key: str, told: dict[str, str]) -> Reference:
    kind, label, verify = told.pop("kind", "article"), told.pop("label"), told.pop("verify", "")
    journal = told.pop("abbreviated", told.get("journal", ""))
    place = (journal, told["volume"], told["pages"].partition("--")[0]) if journal else None
    told["title"] = f"{{{told['title']}}}"
    return Reference(key, kind, tuple(told.items()), label, verify, place)


def specvet_reference(versions: Iterable[str]) -> Reference:
    """specvet itself, in the versions that made a run."""
    told = {
        "author": "{The specvet developers}",
        "title": f"{{{TITLE}}}",
        "version": tex(", ".join(versions)),
        "license": "Apache-2.0",
    }
    fields = tuple((name, value) for name, value in told.items() if value)
    return Reference(
        "specvet", "software", fields, "the specvet developers", "add the year and the address of the version used"
    )


def model_reference(name: str, digest: str | None) -> Reference:
    """The model that decided, as far as a run knows it; `digest` is the SHA-256 of its weights."""
    fields = [("title", f"{{{tex(name)}}}")] + ([("howpublished", f"Weights, SHA-256 {tex(digest)}")] if digest else [])
    return Reference(
        f"model{letters(name)}", "misc", tuple(fields), "its authors", "give its authors, year and address"
    )


def letters(name: str) -> str:
    """A name as a key can hold it: `Lépine` → `Lepine`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]", "", plain) or "source"


def tex(text: str) -> str:
    """`text` with what TeX would take for its own escaped; braces by name, as BibTeX counts those behind a `\\` too."""
    named = {"{": r"{\textbraceleft}", "}": r"{\textbraceright}", "~": r"{\textasciitilde}", "^": r"{\textasciicircum}"}
    return "".join(named.get(c) or (f"\\{c}" if c in "&%$#_" else c) for c in text.replace("\\", "/"))
