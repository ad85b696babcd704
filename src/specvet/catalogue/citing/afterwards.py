"""The methods paragraph, further: what became of the verdicts by triage, by people and by catalogues."""

from __future__ import annotations

from specvet.catalogue.citing.facts import AuditFacts, MatchFacts, ReviewFacts, RunFacts, TriageFacts
from specvet.catalogue.citing.library import Library
from specvet.catalogue.citing.matched import GAIA
from specvet.catalogue.citing.words import capital, count, interval, listed, people, percent, short, spectra, were

_CATALOGUES = {"simbad": ("SIMBAD", "Wenger2000"), "vsx": ("VSX", "Watson2006")}
"""Name in a match → name in a text, and its paper."""


def sorting(facts: RunFacts, library: Library) -> list[str]:
    """What triage did, and what it promises."""
    if not facts.triage:
        return []
    one = facts.triage[0]
    if one.calibrated:
        file = f" (SHA-256 {short(one.calibration)})" if one.calibration else ""
        some = "all" if one.simulated_cases == one.cases else f"{one.simulated_cases:,}"
        made = f", {some} of them SIMULATED" if one.simulated_cases else ""
        said = [
            f"Verdicts were sorted into accept, look and reject by calibrated probabilities{file}, from "
            f"{count(one.cases, 'labelled case')}{made}."
        ]
    else:
        said = [
            "Verdicts were sorted into look and reject as they stand, without a calibration: nothing is promised of it."
        ]
    for t in facts.triage:
        said += _prevalence(t, library)
        drawn = f", of which {t.audit:,} were drawn at random to be looked at all the same" if t.audit else ""
        accepted = f"{t.accept:,} were accepted, " if t.calibrated else ""
        said.append(f"For {t.task}, {accepted}{t.look:,} left to a person and {t.reject:,} rejected{drawn}.")
        if t.promised:
            said.append(_promise(t, library))
        elif t.calibrated:
            said.append("The calibration knows nothing of this task.")
    return said


def reviewing(facts: RunFacts, library: Library) -> list[str]:
    """What people decided, and how well they agree."""
    if not facts.review:
        return []
    votes, hidden, seen = (sum(getattr(r, name) for r in facts.review) for name in ("votes", "hidden", "seen"))
    said = [f"{capital(people(facts.review_names))} looked at spectra and cast {count(votes, 'vote')}."]
    if hidden or seen:
        said.append(f"The verdict was hidden from them for {hidden:,} of the votes and in sight for {seen:,}.")
    if any(r.double for r in facts.review):
        rules = library.cite("Lan2023", "Alexander2023")
        said.append(f"Where their votes differ, the rules of the DESI visual inspection{rules} say what is a conflict.")
    for r in facts.review:
        third = f" ({r.settled:,} of these by a third look)" if r.settled else ""
        left = f"; {r.conflicts:,} {were(r.conflicts)} left in conflict" if r.conflicts else ""
        said.append(
            f"For {r.task}, of {spectra(r.spectra)} that {people(r.reviewers)} reviewed, {r.yes:,} were accepted as "
            f"members, {r.no:,} rejected and {r.unsure:,} left unsure{third}{left}."
        )
        said += _agreement(r, library)
        if r.audit is not None and r.audit.checked:
            said.append(_audit(r.task, r.audit, library))
    return said


def matching(facts: RunFacts, library: Library) -> list[str]:
    """What catalogues know of the spectra."""
    match = facts.match
    if match is None:
        return []
    said = []
    within = f" within {match.radius_arcsec:g} arcsec" if match.radius_arcsec else ""
    if (n := match.asked.get(GAIA)) is not None:
        papers = library.cite("Gaia2016", "Gaia2023")
        said.append(f"Gaia DR3{papers} has a source{within} of {match.gaia:,} of {spectra(n)}.")
        if match.answers:
            said.append(
                f"Verdicts with Gaia stand beside {match.answers:,} from the spectrum, and differ from "
                f"{match.changed:,} of these."
            )
    if others := {name: n for name, n in match.asked.items() if name != GAIA}:
        said.append(_known(match, others, "" if said else within, library))
    return said


def _prevalence(t: TriageFacts, library: Library) -> list[str]:
    if t.prevalence is None:
        return []
    how = {"estimated": "was estimated from the list", "given": "was given"}.get(t.source, "is that of the calibration")
    paper = library.cite("Saerens2002") if t.source == "estimated" else ""
    span = f" ({percent(t.low)} to {percent(t.high)} at 95% confidence)" if t.low != t.high else ""
    return [f"The share of members for {t.task} {how}{paper}: {percent(t.prevalence)}{span}."]


def _promise(t: TriageFacts, library: Library) -> str:
    members = count(t.members, "labelled member")
    if t.rejects:
        whose = "the members of all tasks together" if t.scope == "all tasks" else "the members"
        lost = (
            f"at {percent(t.confidence)} confidence at most {percent(t.max_lost)} of {whose} are rejected (tolerance "
            f"limit{library.cite('Wilks1941')} from {members})"
        )
    else:
        few = "is" if t.members == 1 else "are"
        lost = (
            f"{members} {few} too few to promise at {percent(t.confidence)} confidence that at most "
            f"{percent(t.max_lost)} of the members are rejected, so none was"
        )
    most = percent(t.max_false)
    wrong = (
        f"at most {most} of the accepted are wrong"
        if t.accepts
        else f"nothing could be accepted with at most {most} wrong"
    )
    return capital(f"{lost}, and {wrong}.")


def _agreement(r: ReviewFacts, library: Library) -> list[str]:
    parts = []
    if r.kappa is not None:
        name, key = ("Cohen's", "Cohen1960") if r.kappa_kind == "Cohen" else ("Fleiss'", "Fleiss1971")
        some = "" if r.kappa_kind == "Cohen" else " of those with the commonest number of votes"
        parts.append(f"{name} kappa{some}{library.cite(key)} is {r.kappa:.2f}{interval(r.kappa_low, r.kappa_high)}")
    if r.alpha is not None:
        paper = library.cite("Krippendorff2011")
        parts.append(f"Krippendorff's alpha{paper} is {r.alpha:.2f}{interval(r.alpha_low, r.alpha_high)}")
    return [f"Over {spectra(r.double)} with two votes or more, {listed(parts)}."] if parts else []


def _audit(task: str, audit: AuditFacts, library: Library) -> str:
    most = ""
    if audit.share_at_most is not None:
        paper = library.cite("Clopper1934")
        most = f", so at 95% confidence at most {percent(audit.share_at_most)} of the rejected are members{paper}"
    return (
        f"Of {audit.drawn:,} that were rejected for {task} and drawn, {audit.checked:,} {were(audit.checked)} checked "
        f"and {audit.found:,} found to be members{most}."
    )


def _known(match: MatchFacts, others: dict[str, int], within: str, library: Library) -> str:
    names = []
    for name, n in others.items():
        word, key = _CATALOGUES.get(name, (name, ""))
        names.append(f"{word}{library.cite(key) if key else ''} knows {match.known.get(name, 0):,} of {n:,}")
    return (
        f"{capital(listed(names))}{within}; the object is known to none of those that were asked for "
        f"{spectra(match.new)}."
    )
