"""References: what a source line states becomes an entry, and what it does not state is named, never made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from specvet.catalogue.citing.acknowledgements import CATALOGUES, SURVEYS
from specvet.catalogue.citing.library import Library
from specvet.catalogue.citing.references import SPEC_O3, TITLE, known, model_reference, specvet_reference
from specvet.catalogue.citing.rendering import cited
from specvet.catalogue.citing.sources import sources_of
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.tasks import builtin_tasks

ROOT = Path(__file__).parents[2]
LINES = dict.fromkeys(
    [line for task in builtin_tasks().values() for line in task.sources]
    + [index.source for index in BUILTIN_INDICES.values()]
)


@pytest.mark.parametrize(
    ("line", "key", "label", "fields"),
    [
        (
            "Hou et al. 2020, AJ 159, 43 (LAMOST DR5; separate selectors for emission)",
            "Hou2020",
            "Hou et al. 2020",
            {"author": "Hou and others", "journal": "AJ", "year": "2020", "volume": "159", "pages": "43"},
        ),
        (
            "Lépine, Rich & Shara 2007, ApJ 669, 1235: dwarfs above 0.825, subdwarfs 0.5 to 0.825; M types only",
            "Lepine2007",
            "Lépine et al. 2007",
            {"author": "Lépine and Rich and Shara", "journal": "ApJ", "year": "2007", "volume": "669", "pages": "1235"},
        ),
        (
            "Van Eck et al. 2017, A&A 601, A10 (model spectra of S stars)",
            "VanEck2017",
            "Van Eck et al. 2017",
            {"author": "{Van Eck} and others", "journal": r"A\&A", "year": "2017", "volume": "601", "pages": "A10"},
        ),
        (
            "arXiv:2007.14016 (known dwarf novae in LAMOST: the look of outbursts)",
            "arXiv200714016",
            "arXiv:2007.14016",
            {"eprint": "2007.14016", "archiveprefix": "arXiv"},
        ),
        (
            "Chen et al. 2023, arXiv:2305.09294 (S stars in LAMOST DR10)",
            "Chen2023",
            "Chen et al. 2023",
            {"author": "Chen and others", "year": "2023", "eprint": "2305.09294", "archiveprefix": "arXiv"},
        ),
        (
            "Warner 1995, Cataclysmic Variable Stars, Cambridge University Press",
            "Warner1995",
            "Warner 1995",
            {
                "author": "Warner",
                "title": "{Cataclysmic Variable Stars}",
                "year": "1995",
                "publisher": "Cambridge University Press",
            },
        ),
        (
            "line: NIST Atomic Spectra Database; bands ours",
            "NISTAtomicSpectraDatabase",
            "NIST Atomic Spectra Database",
            {"title": "{NIST Atomic Spectra Database}"},
        ),
    ],
)
def test_a_source_line_gives_what_it_states_and_no_more(
    line: str, key: str, label: str, fields: dict[str, str]
) -> None:
    [found] = sources_of(line)
    assert (found.key, found.label, dict(found.fields)) == (key, label, fields)
    assert bool(found.verify) == (found.kind != "book")


def test_a_line_may_state_two_papers_and_specvets_own_bands_are_none() -> None:
    two = "Reid, Hawley & Gizis 1995, AJ 110, 1838, in the vacuum windows that Covey et al. 2007, AJ 134, 2398, use"
    assert [r.key for r in sources_of(two)] == ["Reid1995", "Covey2007"]
    assert sources_of("ours") == []


def test_a_paper_that_is_known_comes_with_all_its_fields_and_nothing_to_verify() -> None:
    [found] = sources_of("Luo et al. 2015, RAA 15, 1095 (LAMOST DR1, arms and their join)")
    assert found == known()["Luo2015"]
    assert dict(found.fields)["doi"] == "10.1088/1674-4527/15/8/002"
    assert found.verify == ""


def test_every_number_of_an_entry_stands_in_its_line() -> None:
    for line in LINES:
        for reference in sources_of(line):
            if reference.key in known():
                continue
            numbers = re.findall(r"\d+", " ".join(value for _, value in reference.fields))
            assert not set(numbers) - set(re.findall(r"\d+", line)), (line, reference)


def test_every_builtin_source_line_gives_an_entry() -> None:
    assert [line for line in LINES if not sources_of(line)] == ["ours"]


def test_known_entries_have_the_fields_that_their_kind_needs() -> None:
    needed = {
        "article": {"author", "title", "journal", "year", "volume", "pages", "doi"},
        "inproceedings": {"author", "title", "booktitle", "year"},
        "misc": {"author", "title", "year"},
    }
    for reference in known().values():
        told = dict(reference.fields)
        assert needed[reference.kind] <= told.keys(), reference.key
        assert re.fullmatch(r"\d{4}", told["year"])
        assert told["year"] in reference.key
        assert reference.label.endswith(told["year"])
        assert reference.bibtex().count("{") == reference.bibtex().count("}")


def test_specvet_and_spec_o3_are_cited_as_citation_cff_has_them() -> None:
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    own = dict(specvet_reference(["0.1.0"]).fields)
    assert cff["title"] == TITLE
    assert own["author"] == f"{{{cff['authors'][0]['name']}}}"
    assert (own["version"], own["license"]) == (cff["version"], cff["license"])
    paper, entry = cff["references"][0], dict(known()[SPEC_O3].fields)
    assert entry["title"] == f"{{{paper['title']}}}"
    assert entry["author"] == " and ".join(a["family-names"] for a in paper["authors"])
    assert entry["eprint"] == paper["identifiers"][0]["value"].removeprefix("arXiv:")
    assert entry["booktitle"] == paper["collection-title"]


def test_two_papers_of_one_name_and_year_get_keys_of_their_own_and_one_paper_only_one() -> None:
    library = Library()
    first, second = sources_of("Chen et al. 2022, ApJ 931, 133")[0], sources_of("Chen et al. 2022, ApJS 1, 2")[0]
    text = library.cite(first, second, first)
    assert cited([text]) == ["Chen2022", "Chen2022a"]
    assert [dict(r.fields)["volume"] for r in library.of(["Chen2022", "Chen2022a"])] == ["931", "1"]
    assert library.cite(second) == "⟦Chen2022a⟧"
    assert library.cite() == ""


def test_of_two_entries_of_one_paper_the_complete_one_stays() -> None:
    library = Library()
    short = sources_of("G band of CH: Gray & Corbally 2009, Stellar Spectral Classification; bands ours")
    whole = sources_of("Gray & Corbally 2009, Stellar Spectral Classification, Princeton University Press")
    assert library.cite(*short) == library.cite(*whole) == "⟦Gray2009⟧"
    assert dict(library.references["Gray2009"].fields)["publisher"] == "Princeton University Press"


def test_a_model_is_cited_by_name_and_the_hash_of_its_weights() -> None:
    entry = model_reference("nano 1.0", "ab" * 32).bibtex()
    assert entry.startswith("@misc{modelnano10,")
    assert f"howpublished = {{Weights, SHA-256 {'ab' * 32}}}" in entry
    assert "VERIFY" in entry
    assert "howpublished" not in model_reference("org/some_model", None).bibtex()
    assert r"org/some\_model" in model_reference("org/some_model", None).bibtex()


def test_an_acknowledgement_without_sure_words_gives_the_address_instead() -> None:
    for told in (*SURVEYS.values(), *CATALOGUES.values()):
        assert told.address.startswith("http")
    assert SURVEYS["SDSS"].text == SURVEYS["DESI"].text == ""
    assert SURVEYS["LAMOST"].text.startswith("Guoshoujing Telescope (the Large Sky Area Multi-Object Fiber")
