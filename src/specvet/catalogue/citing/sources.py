"""References out of source lines, as task files and indices state them: authors, year, journal, volume, page, no title.

    Hou et al. 2020, AJ 159, 43 (LAMOST DR5)
    arXiv:2007.14016 (known dwarf novae in LAMOST)
    Warner 1995, Cataclysmic Variable Stars, Cambridge University Press
    band head of C2: Barnbaum, Stone & Keenan 1996, ApJS 105, 419; bands ours

What a line does not say is left out, and named as what its user must complete; nothing is guessed.
"""

from __future__ import annotations

import re

from specvet.catalogue.citing.references import Reference, known, letters, tex

_AUTHORS = r"(?P<authors>(?:[A-ZÀ-Ž][\w'’-]+(?: [A-ZÀ-Ž][\w'’-]+)*(?:, | & | and )?)+(?: et al\.)?)"
_JOURNAL = re.compile(_AUTHORS + r" (?P<year>\d{4}), (?P<journal>[A-Z][\w&. ]*?) (?P<volume>\d+), (?P<page>[A-Z]?\d+)")
_EPRINT = re.compile(r"(?:" + _AUTHORS + r" (?P<year>\d{4}), )?arXiv:(?P<eprint>\d{4}\.\d{4,5})")
_BOOK = re.compile(_AUTHORS + r" (?P<year>\d{4}), (?P<title>[^,;:(]+)(?:, (?P<publisher>[^,;:(]+))?")
_OWN = re.compile(r"\bours\b")


def sources_of(line: str) -> list[Reference]:
    """What a line cites: a known entry where journal, volume and page are known; empty for what is specvet's own."""
    found = [_of_journal(m) for m in _JOURNAL.finditer(line)] + [_of_eprint(m) for m in _EPRINT.finditer(line)]
    if not found and (book := _BOOK.search(line)):
        found = [_of_book(book)]
    return found or _named(line)


def _of_journal(m: re.Match[str]) -> Reference:
    place = m["journal"], m["volume"], m["page"]
    same = next((reference for reference in known().values() if reference.place == place), None)
    if same is not None:
        return same
    told = {"journal": tex(m["journal"]), "year": m["year"], "volume": m["volume"], "pages": m["page"]}
    return _made("article", m, told, "add the title, and check against ADS", place)


def _of_eprint(m: re.Match[str]) -> Reference:
    eprint = {"eprint": m["eprint"], "archiveprefix": "arXiv"}
    if m["authors"] is None:
        label, verify = f"arXiv:{m['eprint']}", "add authors, title and year"
        return Reference(f"arXiv{letters(m['eprint'])}", "misc", tuple(eprint.items()), label, verify)
    return _made("misc", m, {"year": m["year"], **eprint}, "add the title")


def _of_book(m: re.Match[str]) -> Reference:
    told = {"title": f"{{{tex(m['title'].strip())}}}", "year": m["year"]}
    if m["publisher"]:
        told["publisher"] = tex(m["publisher"].strip())
    return _made("book", m, told, "" if m["publisher"] else "add the publisher")


def _made(
    kind: str, m: re.Match[str], told: dict[str, str], verify: str, place: tuple[str, str, str] | None = None
) -> Reference:
    names = re.split(r", | & | and ", m["authors"].replace(" et al.", ", others"))
    # BibTeX takes the first of several words for a given name, and `and others` for its own.
    fields = {"author": " and ".join(f"{{{n}}}" if " " in n else n for n in names), **told}
    several = "others" in names or len(names) > 2
    label = f"{names[0]} et al." if several else " & ".join(names)
    return Reference(
        f"{letters(names[0])}{m['year']}", kind, tuple(fields.items()), f"{label} {m['year']}", verify, place
    )


def _named(line: str) -> list[Reference]:
    """What has no form that is known, such as a database: its name."""
    text = line.partition(";")[0].rpartition(": ")[2].strip()
    if not text or _OWN.search(text):
        return []
    return [Reference(letters(text)[:32], "misc", (("title", f"{{{tex(text)}}}"),), text, "add authors, year, address")]
