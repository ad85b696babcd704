"""What a review says for the citation of its run: `ReviewFacts`, a task each."""

from __future__ import annotations

from collections import Counter
from typing import Any

from specvet.catalogue.citing import AuditFacts, ReviewFacts
from specvet.records import RunFolder
from specvet.review.agreement import agreement
from specvet.review.desk import Desk
from specvet.review.events import Event
from specvet.review.merging import Merged, merged
from specvet.vetting.triage.folder import read_told
from specvet.vetting.triage.run import audit_of
from specvet.vetting.triage.truths import Truth


def review_facts(desk: Desk, run: RunFolder) -> tuple[ReviewFacts, ...]:
    """By task of the run, as far as anybody has decided anything. Raises `TriageError` for a damaged triage."""
    voted = {task.key: desk.voted(task.key) for task in desk.listing.tasks}
    decided = {task: {item: merged(list(votes.values())) for item, votes in of.items()} for task, of in voted.items()}
    audits = _audits(desk, run, decided)
    return tuple(
        _of_task(task, found, voted[task], agreement(desk, task), audits.get(task))
        for task, found in decided.items()
        if found
    )


def reviewers(desk: Desk) -> int:
    """People who decided anything."""
    return sum(votes > 0 for votes in desk.reviewers().values())


def _of_task(
    task: str,
    found: dict[str, Merged],
    voted: dict[str, dict[str, Event]],
    agreed: dict[str, Any],
    audit: AuditFacts | None,
) -> ReviewFacts:
    verdicts = Counter(m.verdict for m in found.values())
    standings = Counter(m.standing for m in found.values())
    pairs = agreed["pairs"]
    cohen = pairs[0] if len(pairs) == 1 else None  # a third look makes no pair
    kappa = cohen["kappa"] if cohen else agreed["fleiss"]
    hidden = Counter(vote.shown.get("agent_hidden") for by_reviewer in voted.values() for vote in by_reviewer.values())
    return ReviewFacts(
        task=task,
        reviewers=len(agreed["reviewers"]),
        spectra=len(found),
        yes=verdicts["YES"],
        no=verdicts["NO"],
        unsure=verdicts["UNSURE"],
        conflicts=standings["conflict"],
        settled=standings["settled"],
        double=agreed["n_two"],
        votes=hidden.total(),
        hidden=hidden[True],
        seen=hidden[False],
        kappa=kappa,
        kappa_kind="" if kappa is None else "Cohen" if cohen else "Fleiss",
        kappa_low=cohen["low"] if cohen else None,
        kappa_high=cohen["high"] if cohen else None,
        alpha=agreed["alpha"],
        alpha_low=agreed["alpha_low"],
        alpha_high=agreed["alpha_high"],
        audit=audit,
    )


def _audits(desk: Desk, run: RunFolder, decided: dict[str, dict[str, Merged]]) -> dict[str, AuditFacts]:
    """What people found among the rejected that triage drew; empty where it drew none."""
    if not any(told.audit for told in read_told(run.path).values()):
        return {}
    listing, truths = desk.listing, {}
    for task, found in decided.items():
        for item, result in found.items():
            if result.verdict in ("YES", "NO"):
                i = listing.place[item]
                truths[run.own_key(listing.files[i]), listing.rows[i], task] = Truth(result.verdict == "YES")
    audits = audit_of(run, truths)
    return {
        task: AuditFacts(a.drawn, a.checked, a.found, a.share_at_most if a.checked else None)
        for task, a in audits.items()
        if a.drawn
    }
