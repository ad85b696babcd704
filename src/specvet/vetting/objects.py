"""Objects of a run: its spectra grouped by star, and what their verdicts amount to.

One epoch has one vote a task, of the highest authority that spoke of it:

| authority | YES | NO | does not vote |
|---|---|---|---|
| person (where votes of `specvet review` are handed in) | decided YES | decided NO | UNSURE, and in conflict |
| triage (where the run was sorted) | band accept | band reject | |
| policy | answered YES | answered NO | UNSURE, NO_DATA, FAILED, ERROR |

What triage sent to a person keeps the policy's word, with triage's probability. Of several samples of one question the
first counts. The verdict of a spectrum is never altered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from specvet.catalogue.matching.folder import read_matches
from specvet.catalogue.matching.run import run_tasks
from specvet.catalogue.objects import RADIUS_ARCSEC, Combined, Group, Vote, combine, group
from specvet.catalogue.sighting import Key, Sighting
from specvet.catalogue.sightings import sighting_of, sightings_of
from specvet.records.decision import WHOLE_FILE
from specvet.records.schema import Answer
from specvet.vetting.triage.folder import read_told

if TYPE_CHECKING:
    from specvet.records import Decision, RunFolder
    from specvet.tasks import Epochs
    from specvet.vetting.triage.cases import Place
    from specvet.vetting.triage.folder import Told

AUTHORITY = "person, triage, policy"
"""Who goes before whom about one epoch."""

_BANDS = {"accept": Answer.YES, "reject": Answer.NO}


class Decided(NamedTuple):
    """What people decided of one epoch."""

    answer: Answer
    """UNSURE also where they are in conflict."""
    likelier: str = ""


class Said(NamedTuple):
    """What the policy said of one epoch."""

    answer: Answer
    p_yes: float | None
    """Triage's where the run was sorted."""
    likelier: str = ""


def vote_of(
    key: Key,
    policy: Said | None,
    band: str | None = None,
    person: Decided | None = None,
    *,
    snr: float | None = None,
    mjd: float | None = None,
) -> Vote | None:
    """The vote of one epoch, of the highest authority that spoke of it; None where nobody did. `band` is triage's."""
    if person is not None:
        return Vote(key, person.answer, None, snr, mjd, person.likelier, "person")
    if policy is None:
        return None
    if band in _BANDS:
        return Vote(key, _BANDS[band], policy.p_yes, snr, mjd, policy.likelier, "triage")
    return Vote(key, policy.answer, policy.p_yes, snr, mjd, policy.likelier)


@dataclass(frozen=True, slots=True)
class ObjectVerdicts:
    """One object and what is said of it."""

    group: Group
    n_exposures: int
    """Single exposures that the files of its spectra hold beside them."""
    epochs: dict[str, tuple[Vote | None, ...]]
    """Task → the vote of each member, in the order of `group.members`; None where it was not asked."""
    verdicts: dict[str, Combined]
    """Task → what they amount to; without tasks that no member was asked."""


def groups_of(run: RunFolder, radius_arcsec: float = RADIUS_ARCSEC) -> list[Group]:
    """The objects of a run's spectra, with Gaia ids and motions of `specvet match` where it was run.

    Raises ValueError for a radius that is not positive, `InputError` where what was matched cannot be read.
    """
    return group(sightings_of(run.first_decisions()), radius_arcsec, read_matches(run.path))


def object_names(run: RunFolder, radius_arcsec: float = RADIUS_ARCSEC) -> dict[Key, str]:
    """(file, row) → id of the object. Raises as `groups_of`."""
    return {s.key: found.id for found in groups_of(run, radius_arcsec) for s in found.members}


def objects_of(
    run: RunFolder,
    radius_arcsec: float = RADIUS_ARCSEC,
    *,
    tasks: Collection[str] | None = None,
    people: Mapping[Place, Decided] | None = None,
) -> Iterator[ObjectVerdicts]:
    """The objects of a run and their verdicts, by right ascension.

    `tasks` keeps only those; `people` holds what was decided in a review, by (file, row, task). Raises as `groups_of`,
    `TriageError` where what triage wrote cannot be read.
    """
    told, asked = read_told(run.path), asked_tasks(run)
    keys = [key for key in asked if tasks is None or key in tasks]
    sightings: dict[Key, Sighting] = {}
    exposures: dict[Key, int] = {}
    votes: dict[str, dict[Key, Vote]] = {key: {} for key in keys}
    for decision in run.decisions():
        place = decision.file, decision.row
        if place not in sightings:
            sightings[place] = sighting_of(decision)
        exposures[place] = max(exposures.get(place, 0), decision.n_exposures)
        of = keys if decision.task == WHOLE_FILE else [decision.task]
        for task in of:
            if task in votes and place not in votes[task]:
                vote = _vote(decision, task, told, people or {})
                if vote is not None:
                    votes[task][place] = vote
    for found in group(sightings.values(), radius_arcsec, read_matches(run.path)):
        yield _verdicts(found, votes, asked, exposures)


def asked_tasks(run: RunFolder) -> dict[str, Epochs | None]:
    """Task → its rule for epochs, as far as the run's own task files say it; None takes the default."""
    rules: dict[str, Epochs | None] = {key: task.epochs for key, task in run_tasks(run.path).items()}
    return {key: rules.get(key) for key in (*rules, *(k for k in run.count() if k not in rules)) if key != WHOLE_FILE}


def _vote(decision: Decision, task: str, told: Mapping[Place, Told], people: Mapping[Place, Decided]) -> Vote | None:
    verdict, place = decision.verdict, (decision.file, decision.row, task)
    triage = told.get(place)
    policy = Said(verdict.answer, verdict.p_yes if triage is None else triage.probability, verdict.likelier_class or "")
    band = None if triage is None else triage.band
    return vote_of(place[:2], policy, band, people.get(place), snr=decision.snr, mjd=decision.mjd)


def _verdicts(
    found: Group,
    votes: Mapping[str, Mapping[Key, Vote]],
    rules: Mapping[str, Epochs | None],
    exposures: Mapping[Key, int],
) -> ObjectVerdicts:
    epochs = {task: tuple(of.get(s.key) for s in found.members) for task, of in votes.items()}
    verdicts = {task: combine([v for v in of if v is not None], rules[task]) for task, of in epochs.items() if any(of)}
    return ObjectVerdicts(found, sum(exposures[s.key] for s in found.members), epochs, verdicts)


def kept(objects: Iterable[ObjectVerdicts], answers: Collection[str] | None) -> Iterator[ObjectVerdicts]:
    """Those of which at least one verdict is one of `answers`; all without."""
    for one in objects:
        if answers is None or any(v.answer in answers for v in one.verdicts.values()):
            yield one
