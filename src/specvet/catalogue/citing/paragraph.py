"""The methods paragraph: sentences made of a run's facts, and of nothing else.

Each function gives the sentences of one matter, none where the run holds nothing of it. Citations stand as in
`specvet.catalogue.citing.rendering`; every number is one of `RunFacts`, rounded. What became of the verdicts stands in
`specvet.catalogue.citing.afterwards`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from specvet.catalogue.citing.facts import PolicyFacts, RunFacts, SurveyFacts, TaskFacts
from specvet.catalogue.citing.library import Library
from specvet.catalogue.citing.references import SPEC_O3, Reference, model_reference, specvet_reference
from specvet.catalogue.citing.sources import sources_of
from specvet.catalogue.citing.words import a, count, listed, short, spectra, were

_ANSWERS = ("YES", "NO", "UNSURE", "NO_DATA", "FAILED", "ERROR")
_TO_A_PERSON = {
    "UNSURE": "UNSURE means that the evidence does not decide",
    "NO_DATA": "NO_DATA that the spectrum lacks the coverage or signal-to-noise ratio that the question needs",
    "FAILED": "FAILED that no well-formed answer came",
}
_SURVEYS: Mapping[str, tuple[str, ...]] = {
    "LAMOST": ("Cui2012", "Zhao2012", "Luo2015"),
    "SDSS": ("York2000", "Smee2013"),
    "DESI": ("DESI2022", "Guy2023"),
}
"""Papers that describe a survey's spectra, by key of `known.yaml`."""
_NO_SURVEY = ("", "unknown")

_DESI_RELEASES = {"EDR": "DESI2024", "FUJI": "DESI2024", "DR1": "DESI2025", "IRON": "DESI2025"}


def data(facts: RunFacts, library: Library) -> list[str]:
    """Which spectra, of which surveys and releases, how good."""
    program = " ".join(["specvet", *filter(None, [", ".join(facts.specvet)])])
    program += library.cite(specvet_reference(facts.specvet))
    if not facts.decisions:
        return [f"The run {facts.name} of {program}{_when(facts)} holds no decision."]
    files = f" in {count(facts.files, 'file')}" if facts.files != facts.spectra else ""
    said = [f"{spectra(facts.spectra)}{files} {were(facts.spectra)} vetted with {program}{_when(facts)}."]
    if facts.objects:
        source = f"{facts.gaia_objects:,} by their Gaia source, others " if facts.gaia_objects else ""
        place = f"by position within {facts.radius_arcsec:g} arcsec"
        said.append(f"They are of {count(facts.objects, 'object')}, grouped {source}{place}.")
    if facts.simulated:
        which = "All of them are" if facts.simulated == facts.spectra else f"{facts.simulated:,} of them are"
        said.append(f"{which} SIMULATED: no telescope has observed them.")
    if facts.surveys:
        said += _from(facts.surveys, library)
    if facts.snr is not None:
        some = f", of the {facts.snr_of:,} that have one" if facts.snr_of != facts.spectra else ""
        said.append(
            f"The median over the spectra of their median signal-to-noise ratio per pixel is {facts.snr:.1f}{some}."
        )
    if facts.mjd is not None:
        first, last = (f"{day:.0f}" for day in facts.mjd)
        span = f"on MJD {first}" if first == last else f"between MJD {first} and {last}"
        some = f" ({facts.mjd_of:,} of them state it)" if facts.mjd_of != facts.spectra else ""
        said.append(f"As their files state, they were observed {span}{some}.")
    if facts.unreadable:
        said.append(f"{count(facts.unreadable, 'entry', 'entries')} of the list could not be read.")
    if facts.shards:
        said.append(
            f"The run is part {listed(facts.shards)} of a divided list, and the numbers are of this part alone."
        )
    if facts.interrupted:
        said.append("It was stopped before its list was through; the numbers are of what was decided by then.")
    return said


def method(facts: RunFacts, library: Library) -> list[str]:
    """What was asked, who decided, and the answers."""
    if not facts.tasks:
        return []
    tasks = facts.tasks
    told = [f"{a(t.name)} (task {t.key}{f', version {short(t.hash)}' if t.hash else ''})" for t in tasks]
    apart = "" if len(told) == 1 else f", in {len(told)} separate questions,"
    if facts.questions:
        seed = "" if facts.seed is None else f", with the seed {facts.seed}"
        said = [f"The questions are those of the set {facts.questions}{seed}."]
        said.append(f"They ask whether a spectrum is that of {listed(told, 'or')}.")
    else:
        said = [f"Of each spectrum it was asked{apart} whether it is that of {listed(told, 'or')}."]
    if published := [f"{t.key}{cited}" for t in tasks if (cited := library.cite(*_unique(t.sources)))]:
        said.append(f"What counts as a member rests on published work: for {listed(published)}.")
    if facts.policy:
        said += _decided(facts.policy, library.cite(*_unique(s for t in tasks for s in t.indices)), library)
    if facts.group > 1:
        said.append(f"Each question was asked {facts.group} times.")
    many = facts.group > 1 or sum(sum(t.answers.values()) for t in tasks) > facts.spectra * len(tasks)
    questions = ("question", "questions") if facts.questions else ("spectrum", "spectra")
    return said + _answers(tasks, ("trajectory", "trajectories") if many else questions)


def software(facts: RunFacts, library: Library) -> list[str]:
    """Versions, and what the numbers can be checked against."""
    said: list[str] = []
    papers = {"numpy": "Harris2020", "astropy": "Astropy2022"}
    named = {"python": "Python", "numpy": "NumPy", "astropy": "Astropy"}
    used = [
        f"{named[p]} {facts.versions[p]}{library.cite(papers[p]) if p in papers else ''}"
        for p in named
        if p in facts.versions
    ]
    if used:
        said.append(f"The run was made with {listed(used)}.")
    if facts.receipt:
        said.append(f"Its receipt, with settings, versions and counts, has the SHA-256 {short(facts.receipt)}.")
    return said


def _from(surveys: Sequence[SurveyFacts], library: Library) -> list[str]:
    """Where spectra are from, a clause for each survey; of SIMULATED ones, whom they imitate."""
    said: list[str] = []
    for simulated, verb in ((False, "are from"), (True, "imitate")):
        by_name: dict[str, list[SurveyFacts]] = {}
        for s in surveys:
            if (s.simulated == s.spectra) == simulated and s.survey not in _NO_SURVEY:
                by_name.setdefault(s.survey, []).append(s)
        parts = [f"{name} ({'; '.join(map(_releases, of))})" for name, of in by_name.items()]
        papers = library.cite(*(k for of in by_name.values() for s in of for k in _papers(s) if not simulated))
        if parts:
            described = f", as the surveys describe them{papers}" if papers else ""
            said.append(f"{'Others' if said else 'They'} {verb} {listed(parts)}{described}.")
    if nameless := sum(s.spectra for s in surveys if s.survey in _NO_SURVEY):
        said.append(f"The files of {spectra(nameless)} name no survey.")
    return said


def _releases(s: SurveyFacts) -> str:
    """`release DR9, reduction v2.9: 1,234`."""
    plain = {"release": s.release, "reduction": s.reduction}
    if s.simulated == s.spectra:
        plain = {word: text.replace("SIMULATED", "").strip() for word, text in plain.items()}
    told = ", ".join(f"{word} {text}" for word, text in plain.items() if text)
    return f"{told}: {s.spectra:,}" if told else f"{s.spectra:,}"


def _papers(survey: SurveyFacts) -> tuple[str, ...]:
    keys = _SURVEYS.get(survey.survey, ())
    if survey.survey == "DESI":
        said = (survey.release.upper(), survey.reduction.upper())
        keys += tuple(dict.fromkeys(_DESI_RELEASES[word] for word in said if word in _DESI_RELEASES))
    return keys


def _decided(p: PolicyFacts, indices: str, library: Library) -> list[str]:
    """Who decided, and how; `indices` cites what the measured ones rest on."""
    hashed = ""
    if p.hash:
        hashed = (
            f" (SHA-256 of its weights {short(p.hash)})" if p.of == "weights" else f" (fingerprint {short(p.hash)})"
        )
    if p.policy == "line-indices":
        said = [
            f"Verdicts are those of the policy line-indices{hashed}. As Spec-o3 does{library.cite(SPEC_O3)}, "
            "it looks at the windows that a task names through a zoom tool; it measures lines and bands "
            f"there{indices}, and adds up what they say for and against the class, by thresholds that stand in the "
            "task's file. It was not trained."
        ]
    elif p.measures:
        said = [f"Verdicts are those of the trained classifier {p.name}{hashed}{library.cite(_model(p))}."]
    else:
        turns = f" in at most {count(p.turns, 'turn')}" if p.turns else ""
        style = f" in the style {p.style}" if p.style else ""
        said = [
            f"Verdicts are those of the vision-language model {p.name}{hashed}{library.cite(_model(p))}. It was shown "
            f"a figure of the whole spectrum{style} and could call for windows of it through a zoom tool{turns}, as in "
            f"Spec-o3{library.cite(SPEC_O3)}."
        ]
        if p.temperature is not None:
            how = "greedily" if p.temperature == 0 else f"at the temperature {p.temperature:g}"
            said.append(f"It was sampled {how}.")
        if p.guarded:
            said.append("Where its own probability leaves a question undecided, the verdict is UNSURE.")
    if p.prefilter:
        said.append(
            f"Before the model was asked, a prefilter ({p.prefilter}{indices}) answered NO to "
            f"{count(p.prefiltered, 'hopeless question')}."
        )
    return said


def _model(p: PolicyFacts) -> Reference | str:
    if "spec-o3" in p.name.lower():
        return SPEC_O3
    return model_reference(p.name, p.hash if p.of == "weights" else None)


def _answers(tasks: Sequence[TaskFacts], of: tuple[str, str]) -> list[str]:
    parts = []
    for t in tasks:
        given = [f"{t.answers[word]:,} {word}" for word in _ANSWERS if t.answers.get(word)]
        about = count(sum(t.answers.values()), *of)
        parts.append(f"for {t.key}, of {about}, {listed(given)}" if given else f"for {t.key} there is none")
    said = [f"The verdicts are: {'; '.join(parts)}."]
    explained = [says for word, says in _TO_A_PERSON.items() if any(t.answers.get(word) for t in tasks)]
    if explained:
        if not explained[0].startswith("UNSURE"):
            explained[0] = explained[0].replace(" that ", " means that ", 1)
        said.append(f"{', and '.join(explained)}; these are left to a person.")
    return said


def _unique(lines: Iterable[str]) -> list[Reference]:
    return [reference for line in dict.fromkeys(lines) for reference in sources_of(line)]


def _when(facts: RunFacts) -> str:
    if facts.began is None:
        return ""
    if facts.ended is None or facts.ended == facts.began:
        return f" on {facts.began}"
    return f" between {facts.began} and {facts.ended}"
