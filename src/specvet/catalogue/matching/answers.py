"""What becomes of a verdict from the spectrum when Gaia has its say. The rules stand in the task's file; here they are
applied. The verdict from the spectrum itself is never altered: this is a second one, which says what it used."""

from __future__ import annotations

from dataclasses import dataclass

from specvet.catalogue.matching.quantities import Luminous, luminous
from specvet.catalogue.sighting import Match
from specvet.records.schema import Answer
from specvet.tasks import Luminosity, Region, Task

SPECTRUM = "spectrum"
BOTH = "spectrum, gaia"

DECIDED = (Answer.YES, Answer.NO, Answer.UNSURE)
"""What Gaia can have a say in; a spectrum that was not judged stays so."""


@dataclass(frozen=True, slots=True)
class WithGaia:
    """One spectrum and task: the answer with Gaia, beside the one without."""

    answer: str
    """From the spectrum."""
    answer_with_gaia: str
    used: str
    """`spectrum`, or `spectrum, gaia` where the star's place in the colour-magnitude diagram had a say."""
    why: str
    """For people: where the star lies and what follows, or why Gaia changes nothing."""


def with_gaia(answer: Answer, task: Task, match: Match | None, likelier_class: str | None = None) -> WithGaia | None:
    """The answer with Gaia; None for a task whose file says nothing of it (`gaia`)."""
    section = task.gaia
    if section is None:
        return None

    def unchanged(why: str, used: str = SPECTRUM) -> WithGaia:
        return WithGaia(str(answer), str(answer), used, why)

    if answer not in DECIDED:
        return unchanged("the spectrum was not judged")
    if match is None or match.gaia is None:
        asked = match is not None and "gaia" in match.asked
        return unchanged("no Gaia source was found" if asked else "Gaia was not asked about this place")
    gaia = match.gaia
    known = luminous(gaia, section.min_parallax_over_error)
    if why := _unsound(section, known, gaia.ruwe, gaia.bp_rp):
        return unchanged(f"Gaia changes nothing: {why}")
    assert known.m_g is not None
    assert known.error is not None
    assert gaia.bp_rp is not None
    place = f"M_G = {known.m_g:.2f} ± {known.error:.2f}, BP−RP = {gaia.bp_rp:.2f}".replace("= -", "= −")
    for rule in section.rules:
        if answer not in rule.answers or (rule.likelier_class and likelier_class not in rule.likelier_class):
            continue
        inside = lies_in(section.region(rule.region), gaia.bp_rp, known.m_g, section.sigmas * known.error)
        if inside is not None and inside == (rule.where == "inside"):
            return WithGaia(str(answer), rule.becomes, BOTH, f"{place}: {rule.why}")
    where, weighed = _where(section, gaia.bp_rp, known)
    return unchanged(f"{place}: {where}", BOTH if weighed else SPECTRUM)


def lies_in(region: Region, bp_rp: float, m_g: float, reach: float) -> bool | None:
    """Whether a star lies in a region with its whole error bar, `reach` up and down; None where it straddles."""
    steps = 8
    inside = {region.holds(bp_rp, m_g + reach * (2 * i / steps - 1)) for i in range(steps + 1)}
    return inside.pop() if len(inside) == 1 else None


def _unsound(section: Luminosity, known: Luminous, ruwe: float | None, bp_rp: float | None) -> str:
    """Why a source's numbers decide nothing; empty where they may."""
    if known.parallax_over_error is None:
        return "no parallax with an error, or no G magnitude"
    if known.m_g is None:
        limit = "" if known.limit is None else f" (M_G brighter than {known.limit:.1f})".replace("-", "−")
        return (
            f"the parallax is {known.parallax_over_error:.1f} of its errors, "
            f"{section.min_parallax_over_error:g} are needed{limit}"
        ).replace(" is -", " is −")
    if ruwe is not None and ruwe > section.max_ruwe:
        return f"RUWE is {ruwe:.2f}, at most {section.max_ruwe:g} is trusted"
    if bp_rp is None:
        return "no colour BP−RP"
    return ""


def _where(section: Luminosity, bp_rp: float, known: Luminous) -> tuple[str, bool]:
    """Where a star lies to whom no rule applies, in words, and whether that says anything."""
    assert known.m_g is not None
    assert known.error is not None
    reach = section.sigmas * known.error
    inside = {r.name: lies_in(r, bp_rp, known.m_g, reach) for r in section.regions}
    if held := [name for name, held in inside.items() if held]:
        return f"in the region {' and '.join(held)}", True
    if edges := [name for name, held in inside.items() if held is None]:
        return f"at the edge of {' and '.join(edges)}, which decides nothing", False
    return "in none of the task's regions, which decides nothing", False
