"""Names that files, models and tables bring along stay words in every format of `specvet cite`."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from test_cite_paragraph import FACTS, MODEL

from specvet.catalogue.citing import Citation, MatchFacts, RunFacts, SurveyFacts, citation
from specvet.catalogue.citing.references import tex

HOSTILE = [
    "⟦Nobody2020⟧",
    "⟦Nobody2020,specvet⟧ ⟧⟦",
    "}} @misc{evil, title={x",
    "a} b{ \\input{/etc/passwd}",
    "\\write18{rm -rf x}%",
    "name\n\n# Heading\n\n\\end{document}\n",
    "line\r\n- item\u2028% no comment\x0b\\evil",
    "<script>alert(1)</script> [x](javascript:alert(1)) ![y](http://example.com/z.png)",
    "@Someone2020; `code` $x^2$ ~~no~~ &lt;b&gt; |",
    "\x1b[2J\x00\x07 bell",
    "100% & more #1 _x_ ~y^z",
]


def facts(name: str) -> RunFacts:
    """With this name wherever a file may have put one."""
    return replace(
        FACTS,
        policy=replace(MODEL, name=name, style=name),
        surveys=(SurveyFacts(name, name, name, 600), SurveyFacts("DESI", name, "iron", 400)),
        questions=name,
        specvet=("0.1.0", name),
        match=MatchFacts(10, {"gaia": 10, name: 10}, 5, {name: 3}, 3, 7, 2.0, 10, 1),
    )


def made(name: str) -> Citation:
    return citation(facts(name))


PLAIN = made("plain")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_has_its_own_paragraphs_and_citations_and_no_others(name: str) -> None:
    found = made(name)
    assert [r.key for r in found.references if not r.key.startswith("model")] == [
        r.key for r in PLAIN.references if not r.key.startswith("model")
    ]
    for format in ("text", "markdown", "latex"):
        assert len(found.methods(format).splitlines()) == len(PLAIN.methods(format).splitlines())
        assert found.methods(format).replace("\n", "").isprintable()
    assert found.facts.surveys[0].survey == name, "the facts are told as they are"


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_in_a_name_is_a_command_of_tex(name: str) -> None:
    text = made(name).methods("latex")
    commands = set(re.findall(r"\\[a-zA-Z]+", text))
    ours = ("citep", "textbackslash", "textasciitilde", "textasciicircum", "dots", "pm", "alpha", "kappa", "AA")
    assert commands <= {f"\\{name}" for name in ours}
    assert not re.search(r"(?<!\\)[%&#_]", re.sub(r"\\citep\{[^}]*\}", "", text).replace("\\\\", ""))
    for line in made(name).whole("latex").split("To verify")[1].splitlines()[1:]:
        assert line.startswith("% - ")


@pytest.mark.parametrize("name", HOSTILE)
def test_bibtex_counts_as_many_braces_as_without_the_name(name: str) -> None:
    found = made(name)
    bib = found.bibtex()
    depth, outside = 0, ""
    for letter in bib:  # as BibTeX counts them: a backslash changes nothing
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
        outside += letter if depth == 0 else ""
    assert depth == 0
    assert re.sub(r"\s", "", outside).replace("}", "") == "".join(f"@{r.kind}" for r in found.references)


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_in_a_name_is_markup(name: str) -> None:
    text = re.sub(r" \[@\w+(; @\w+)*\]", "", made(name).methods("markdown"))
    assert not re.search(r"(?<!\\)[`*_\[\]<>#|@$~^]", text.replace("\\\\", ""))
    assert "&lt;" not in text.replace("\\&lt;", "")


def test_braces_in_bibtex_are_named() -> None:
    assert tex("a{b}c~d^e_f") == r"a{\textbraceleft}b{\textbraceright}c{\textasciitilde}d{\textasciicircum}e\_f"
