"""One text in three formats: plain, LaTeX and Markdown. A text holds citations as `⟦Key,Key⟧`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from specvet.catalogue.citing.references import Reference

Format = Literal["text", "latex", "markdown"]

FORMATS: dict[Format, str] = {"text": ".txt", "latex": ".tex", "markdown": ".md"}
"""With the suffix of their files."""

_CITED = re.compile(r" ?⟦([^⟧]*)⟧")


def cite(*keys: str) -> str:
    """A citation inside a text; nothing without keys."""
    return f"⟦{','.join(dict.fromkeys(keys))}⟧" if keys else ""


def cited(texts: Iterable[str]) -> list[str]:
    """Keys in the order in which texts cite them, each once."""
    return list(dict.fromkeys(key for text in texts for found in _CITED.findall(text) for key in found.split(",")))


def rendered(text: str, format: Format, references: Mapping[str, Reference]) -> str:
    """The text with its citations, escaped as the format needs it."""
    parts = _CITED.split(text)  # words, keys, words, …
    escape = _ESCAPES[format]
    return "".join(
        _citation(part.split(","), format, references) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def _citation(keys: list[str], format: Format, references: Mapping[str, Reference]) -> str:
    if format == "latex":
        return f"~\\citep{{{','.join(keys)}}}"
    if format == "markdown":
        return f" [{'; '.join(f'@{key}' for key in keys)}]"
    return f" ({'; '.join(references[key].label for key in keys)})"


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Å": r"\AA{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "κ": r"$\kappa$",
    "α": r"$\alpha$",
    "…": r"\dots{}",
} | {letter: f"\\{letter}" for letter in "%&$#_{}"}


def _latex(text: str) -> str:
    text = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<=\d) (?=\\%)", r"\\,", text)


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|@$~^]|&(?=#?\w+;))", r"\\\1", text)


_ESCAPES: dict[Format, Callable[[str], str]] = {"text": str, "latex": _latex, "markdown": _markdown}


def heading(name: str, text: str, format: Format) -> str:
    """A part under its name; BibTeX and lists of LaTeX stand as comments would not: `%` before each line of words."""
    if format == "markdown":
        fenced = f"```bibtex\n{text}```\n" if text.startswith("@") else text
        return f"## {name}\n\n{fenced}"
    if format == "latex":
        plain = text if not text.startswith("- ") else "".join(f"% {line}\n" for line in text.splitlines())
        return f"% {name}\n{plain}"
    return f"{name}\n{'=' * len(name)}\n\n{text}"
