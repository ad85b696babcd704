"""`citation`: from a run's facts to its methods paragraph, references, acknowledgements, and what is to be verified."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specvet.catalogue.citing import afterwards, paragraph
from specvet.catalogue.citing.acknowledgements import CATALOGUES, SURVEYS, Acknowledgement
from specvet.catalogue.citing.facts import RunFacts
from specvet.catalogue.citing.library import Library
from specvet.catalogue.citing.references import Reference
from specvet.catalogue.citing.rendering import FORMATS, Format, cited, heading, rendered
from specvet.catalogue.citing.words import on_one_line

_MATTERS = (
    (paragraph.data, paragraph.method),
    (afterwards.sorting, afterwards.reviewing),
    (afterwards.matching, paragraph.software),
)
"""What makes each of the text's paragraphs."""


@dataclass(frozen=True, slots=True)
class Citation:
    """How one run is cited."""

    facts: RunFacts
    paragraphs: tuple[str, ...]
    """With citations as `specvet.catalogue.citing.rendering` has them."""
    references: tuple[Reference, ...]
    """In the order in which the text cites them."""
    acknowledgements: tuple[Acknowledgement, ...]
    verify: tuple[str, ...]
    """What its user must complete or check, in words."""

    def methods(self, format: Format = "text") -> str:
        """The methods paragraph."""
        known = {reference.key: reference for reference in self.references}
        return "\n\n".join(rendered(text, format, known) for text in self.paragraphs) + "\n"

    def bibtex(self) -> str:
        """The references, as a `.bib` file."""
        return "\n\n".join(reference.bibtex() for reference in self.references) + "\n"

    def thanks(self, format: Format = "text") -> str:
        """What surveys and services ask to be acknowledged with, or where they state it."""
        told = [a.text or f"{a.of}: copy the text from {a.address}" for a in self.acknowledgements]
        return "\n\n".join(rendered(text, format, {}) for text in told) + "\n" if told else ""

    def whole(self, format: Format = "text") -> str:
        """All of it, under headings."""
        verify = "\n".join(f"- {item}" for item in self.verify) + "\n" if self.verify else ""
        parts = (
            ("Methods", self.methods(format)),
            ("Acknowledgements", self.thanks(format)),
            ("References (BibTeX)", self.bibtex()),
            ("To verify", verify),
        )
        return "\n".join(heading(name, text, format) for name, text in parts if text)

    def as_dict(self, format: Format = "text") -> dict[str, Any]:
        """For programs."""
        return {
            "methods": self.methods(format),
            "acknowledgements": [{"of": a.of, "text": a.text, "address": a.address} for a in self.acknowledgements],
            "references": [{"key": r.key, "label": r.label, "bibtex": r.bibtex()} for r in self.references],
            "verify": list(self.verify),
            "facts": self.facts.as_dict(),
        }

    def write(self, folder: str | os.PathLike[str], format: Format = "text") -> list[Path]:
        """Write `methods`, `acknowledgements`, `references.bib` and `verify.txt` into a folder, made where there is
        none; returns the files. Raises OSError."""
        from specvet.records import write_atomic

        place, suffix = Path(folder), FORMATS[format]
        place.mkdir(parents=True, exist_ok=True)
        files = {
            f"methods{suffix}": self.methods(format),
            f"acknowledgements{suffix}": self.thanks(format),
            "references.bib": self.bibtex(),
            "verify.txt": "".join(f"{item}\n" for item in self.verify),
        }
        for name, text in files.items():
            write_atomic(place / name, text)
        return [place / name for name in files]


def citation(facts: RunFacts) -> Citation:
    """What the facts give."""
    library, shown = Library(), on_one_line(facts)
    paragraphs = [" ".join(s for matter in several for s in matter(shown, library)) for several in _MATTERS]
    paragraphs = [text for text in paragraphs if text]
    references = tuple(library.of(cited(paragraphs)))
    thanks = tuple(_acknowledgements(shown))
    return Citation(facts, tuple(paragraphs), references, thanks, tuple(_to_verify(shown, references, thanks)))


def _acknowledgements(facts: RunFacts) -> list[Acknowledgement]:
    observed = [s.survey for s in facts.surveys if s.simulated < s.spectra]
    asked = list(facts.match.asked) if facts.match else []
    found = [SURVEYS.get(name) for name in observed] + [CATALOGUES.get(name) for name in asked]
    return [a for a in dict.fromkeys(found) if a is not None]


def _to_verify(facts: RunFacts, references: tuple[Reference, ...], thanks: tuple[Acknowledgement, ...]) -> list[str]:
    said = [f"{r.key}: {r.verify}" for r in references if r.verify]
    said += [
        f"acknowledgement of {a.of}: its words differ by release; copy them from {a.address}"
        for a in thanks
        if not a.text
    ]
    said += [f"acknowledgement of {a.of}: hold it against {a.address}" for a in thanks if a.text]
    for survey in dict.fromkeys(s.survey for s in facts.surveys if s.simulated < s.spectra):
        if survey in SURVEYS:
            said.append(f"{survey}: cite the paper of the data release that the spectra are from")
        else:
            said.append("spectra that name no known survey: cite and acknowledge where they are from")
    for name in facts.match.asked if facts.match else ():
        if name not in CATALOGUES:
            said.append(f"catalogue {name}: cite where it is from")
    if facts.policy and facts.policy.policy == "openai":
        said.append("the model stood behind a server: state its weights, which the run cannot know")
    return list(dict.fromkeys(said))
