"""The paragraph from facts alone: each matter has its sentences, a run without it none; formats escape their own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from specvet.catalogue.citing import (
    AuditFacts,
    MatchFacts,
    PolicyFacts,
    ReviewFacts,
    RunFacts,
    SurveyFacts,
    TaskFacts,
    TriageFacts,
    citation,
    match_facts,
)
from specvet.catalogue.citing.words import a, count, listed, percent
from specvet.catalogue.sighting import Gaia, Known, Match

MODEL = PolicyFacts(
    policy="torch",
    name="nano 1.0",
    hash="c0ffee" * 10 + "abcd",
    of="weights",
    measures=False,
    turns=8,
    temperature=0.0,
    style="compact-1",
    wording="short",
    guarded=True,
)
TASK = TaskFacts(
    "cv", "cataclysmic variable", "d" * 64, {"YES": 3, "NO": 996, "UNSURE": 1}, ("Sun et al. 2021, ApJS 257, 65",)
)
FACTS = RunFacts(
    name="RUN",
    kind="vet",
    receipt="e" * 64,
    began="2026-11-29",
    ended="2026-11-30",
    specvet=("0.1.0",),
    versions={"python": "3.11.7", "numpy": "2.4.6"},
    files=1002,
    unreadable=2,
    spectra=1000,
    objects=850,
    radius_arcsec=2.0,
    decisions=1002,
    snr=23.456,
    snr_of=990,
    mjd=(55000.2, 60000.7),
    mjd_of=1000,
    surveys=(SurveyFacts("LAMOST", "DR9", "v2.9.7", 900), SurveyFacts("DESI", "DR1", "iron", 100)),
    tasks=(TASK,),
    policy=MODEL,
)
SORTED = TriageFacts(
    task="cv",
    accept=2,
    look=98,
    reject=900,
    audit=45,
    calibrated=True,
    prevalence=0.0021,
    low=0.001,
    high=0.004,
    source="estimated",
    promised=True,
    rejects=True,
    accepts=True,
    scope="task",
    members=200,
    max_lost=0.02,
    max_false=0.05,
    confidence=0.95,
    calibration="f" * 64,
    cases=5000,
)
REVIEWED = ReviewFacts(
    task="cv",
    reviewers=3,
    spectra=100,
    yes=3,
    no=90,
    unsure=5,
    conflicts=2,
    settled=4,
    double=60,
    votes=165,
    hidden=160,
    seen=5,
    kappa=0.8123,
    kappa_kind="Cohen",
    kappa_low=0.7,
    kappa_high=0.92,
    alpha=0.81,
    alpha_low=0.69,
    alpha_high=0.93,
    audit=AuditFacts(45, 44, 0, 0.0658),
)
MATCHED = MatchFacts(
    spectra=1000, asked={"gaia": 1000, "simbad": 1000, "mine": 500}, gaia=950, known={"simbad": 12}, known_any=12,
    new=988, radius_arcsec=2.0, answers=1000, changed=7,
)  # fmt: skip


def words(facts: RunFacts) -> str:
    """All paragraphs as plain text, without citations."""
    return re.sub("⟦[^⟧]*⟧", "", " ".join(citation(facts).paragraphs))


def test_the_data_are_told_by_survey_release_and_reduction() -> None:
    said = words(FACTS)
    assert said.startswith(
        "1,000 spectra in 1,002 files were vetted with specvet 0.1.0 between 2026-11-29 and 2026-11-30."
    )
    assert (
        "They are from LAMOST (release DR9, reduction v2.9.7: 900) and DESI (release DR1, reduction iron: 100), as the "
        "surveys describe them." in said
    )
    assert "They are of 850 objects, grouped by position within 2 arcsec." in said
    assert "850 objects, grouped 600 by their Gaia source, others by position" in words(
        replace(FACTS, gaia_objects=600)
    )
    assert "ratio per pixel is 23.5, of the 990 that have one." in said
    assert "they were observed between MJD 55000 and 60001." in said
    assert "2 entries of the list could not be read." in said
    assert "SIMULATED" not in said


def test_a_model_is_told_by_name_hash_and_how_it_was_asked() -> None:
    said = words(FACTS)
    assert "vision-language model nano 1.0 (SHA-256 of its weights c0ffeec0ffee…)." in said
    assert "in the style compact-1 and could call for windows of it through a zoom tool in at most 8 turns" in said
    assert "It was sampled greedily." in said
    assert "the verdict is UNSURE." in said
    assert "The verdicts are: for cv, of 1,000 spectra, 3 YES, 996 NO and 1 UNSURE." in said
    served = replace(MODEL, policy="openai", name="spec-o3-7b", of="policy", temperature=0.6, guarded=False)
    found = citation(replace(FACTS, policy=served))
    assert "It was sampled at the temperature 0.6." in found.methods()
    assert "spec-o3-7b (fingerprint c0ffeec0ffee…) (Jia et al. 2026)." in found.methods()
    assert any("stood behind a server" in item for item in found.verify)


def test_a_prefilter_is_told_with_what_it_left_out() -> None:
    filtered = replace(MODEL, prefilter="line-indices below 0.02", prefiltered=700)
    assert "a prefilter (line-indices below 0.02) answered NO to 700 hopeless questions." in words(
        replace(FACTS, policy=filtered)
    )


def test_triage_is_told_with_its_promise_only_where_one_was_made() -> None:
    said = words(replace(FACTS, triage=(SORTED,)))
    assert "calibrated probabilities (SHA-256 ffffffffffff…), from 5,000 labelled cases." in said
    assert "estimated from the list: 0.21% (0.1% to 0.4% at 95% confidence)." in said
    assert "For cv, 2 were accepted, 98 left to a person and 900 rejected, of which 45 were drawn" in said
    assert (
        "At 95% confidence at most 2% of the members are rejected (tolerance limit from 200 labelled members)" in said
    )
    assert "at most 5% of the accepted are wrong." in said
    few = replace(SORTED, rejects=False, accepts=False, members=3)
    said = words(replace(FACTS, triage=(few,)))
    assert "3 labelled members are too few to promise" in said
    assert "at most 2% of the members are rejected (" not in said
    plain = replace(SORTED, calibrated=False, promised=False, prevalence=None, accept=0)
    said = words(replace(FACTS, triage=(plain,)))
    assert "nothing is promised of it." in said
    assert "accepted" not in said


def test_a_review_is_told_with_agreement_conflicts_and_the_audit() -> None:
    said = words(replace(FACTS, review=(REVIEWED,), review_names=3))
    assert "3 people looked at spectra and cast 165 votes." in said
    assert "The verdict was hidden from them for 160 of the votes and in sight for 5." in said
    assert "3 were accepted as members, 90 rejected and 5 left unsure (4 of these by a third look); 2 were left" in said
    assert "Over 60 spectra with two votes or more, Cohen's kappa is 0.81 (95% interval 0.70 to 0.92)" in said
    assert "Krippendorff's alpha is 0.81 (95% interval 0.69 to 0.93)." in said
    assert "Of 45 that were rejected for cv and drawn, 44 were checked and 0 found to be members" in said
    assert "at most 6.58% of the rejected are members." in said
    alone = replace(
        REVIEWED, reviewers=1, double=0, kappa=None, alpha=None, audit=None, settled=0, conflicts=0, hidden=0, seen=0
    )
    said = words(replace(FACTS, review=(alone,), review_names=1))
    assert "1 person looked at spectra" in said
    assert "kappa" not in said
    assert "conflict" not in said


def test_catalogues_are_told_as_far_as_they_were_asked() -> None:
    found = citation(replace(FACTS, match=MATCHED))
    said = words(replace(FACTS, match=MATCHED))
    assert "Gaia DR3 has a source within 2 arcsec of 950 of 1,000 spectra." in said
    assert "Verdicts with Gaia stand beside 1,000 from the spectrum, and differ from 7 of these." in said
    assert (
        "SIMBAD knows 12 of 1,000 and mine knows 0 of 500; the object is known to none of those that were asked for "
        "988 spectra." in said
    )
    assert [a.of for a in found.acknowledgements] == ["LAMOST", "DESI", "Gaia", "SIMBAD"]
    assert "catalogue mine: cite where it is from" in found.verify
    assert "Gaia" not in words(FACTS)


def test_matches_are_counted_by_what_was_asked_and_found() -> None:
    gaia = Gaia("1", 10.0, 0.0)
    known = Known("vsx", "V1")
    matches = {
        ("a", 0): Match(("a", 0), gaia, 0.1, (known, known), ("gaia", "vsx")),
        ("b", 0): Match(("b", 0), gaia, 0.1, (), ("gaia", "vsx")),
        ("c", 0): Match(("c", 0), asked=("gaia",)),
        ("d", 0): Match(("d", 0)),
    }
    found = match_facts(matches, [("YES", "YES"), ("UNSURE", "NO")], 2.0)
    assert found == MatchFacts(3, {"gaia": 3, "vsx": 2}, 2, {"vsx": 1}, 1, 1, 2.0, 2, 1)
    assert match_facts({}) is None
    assert match_facts({("d", 0): Match(("d", 0))}) is None


def test_simulated_spectra_are_called_so_and_owe_no_survey_anything() -> None:
    part = (SurveyFacts("LAMOST", "SIMULATED DR9", "SIMULATED", 600, 600), SurveyFacts("unknown", "", "", 400))
    found = citation(replace(FACTS, simulated=600, surveys=part))
    assert (
        "600 of them are SIMULATED: no telescope has observed them. They imitate LAMOST (release DR9: 600)."
        in found.methods()
    )
    assert "The files of 400 spectra name no survey." in found.methods()
    assert found.acknowledgements == ()
    assert "Cui2012" not in found.bibtex()
    assert "spectra that name no known survey: cite and acknowledge where they are from" in found.verify


def test_the_paper_of_a_desi_release_is_chosen_by_its_name() -> None:
    keys = [r.key for r in citation(FACTS).references]
    assert {"Cui2012", "Zhao2012", "Luo2015", "DESI2022", "Guy2023", "DESI2025"} <= set(keys)
    assert "DESI2024" not in keys
    early = replace(FACTS, surveys=(SurveyFacts("DESI", "EDR", "fuji", 1000),))
    assert {"DESI2024", "DESI2025"} & {r.key for r in citation(early).references} == {"DESI2024"}


def test_a_part_of_a_list_and_a_stopped_run_say_so() -> None:
    said = words(replace(FACTS, shards=("3/16",), interrupted=True))
    assert "The run is part 3/16 of a divided list" in said
    assert "stopped before its list was through" in said


def test_an_empty_run_says_that_it_holds_nothing() -> None:
    empty = RunFacts("RUN", "vet", None, "2026-11-30", "2026-11-30", ("0.1.0",))
    found = citation(empty)
    assert found.paragraphs == ("The run RUN of specvet 0.1.0⟦specvet⟧ on 2026-11-30 holds no decision.",)
    assert [r.key for r in found.references] == ["specvet"]
    assert found.acknowledgements == ()


def test_every_citation_has_its_entry_and_every_entry_is_cited() -> None:
    full = replace(FACTS, triage=(SORTED,), review=(REVIEWED,), review_names=3, match=MATCHED)
    found = citation(full)
    keys = set(re.findall(r"\\citep\{([^}]*)\}", found.methods("latex")))
    keys = {key for several in keys for key in several.split(",")}
    assert keys == {r.key for r in found.references}
    assert set(re.findall(r"^@\w+\{([^,]+),", found.bibtex(), re.MULTILINE)) == keys
    assert "⟦" not in found.whole("text") + found.whole("latex") + found.whole("markdown")


@pytest.mark.parametrize(
    ("format", "wanted"),
    [
        ("text", "50% of a_b & c (Sun et al. 2021)"),
        ("latex", r"50\% of a\_b \& c~\citep{Sun2021}"),
        ("markdown", r"50% of a\_b & c [@Sun2021]"),
    ],
)
def test_words_are_escaped_as_each_format_needs_it(format: str, wanted: str) -> None:
    from specvet.catalogue.citing.rendering import rendered
    from specvet.catalogue.citing.sources import sources_of

    [sun] = sources_of("Sun et al. 2021, ApJS 257, 65")
    assert rendered("50% of a_b & c⟦Sun2021⟧", format, {"Sun2021": sun}) == wanted  # type: ignore[arg-type]


def test_counts_lists_articles_and_shares_are_worded_right() -> None:
    assert [count(1, "file"), count(1234, "file"), count(0, "entry", "entries")] == [
        "1 file",
        "1,234 files",
        "0 entries",
    ]
    assert [listed([]), listed(["a"]), listed(["a", "b", "c"], "or")] == ["", "a", "a, b or c"]
    names = ["white dwarf", "M giant", "S-type star", "active star", "Be star", "carbon star"]
    assert [a(name) for name in names] == [
        "a white dwarf", "an M giant", "an S-type star", "an active star", "a Be star", "a carbon star",
    ]  # fmt: skip
    assert [percent(0.0021), percent(1.0), percent(0.23077), percent(None)] == ["0.21%", "100%", "23.1%", ""]
