"""What Gaia makes of a verdict: absolute magnitudes by hand, the rules of the built-in tasks, bad parallaxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from specvet.agent import task_hash
from specvet.catalogue.matching import luminous, with_gaia
from specvet.catalogue.matching.answers import lies_in
from specvet.catalogue.matching.run import run_tasks
from specvet.catalogue.sighting import Gaia, Match
from specvet.records.schema import Answer
from specvet.tasks import Region, Task, TaskError, builtin_tasks, load_task, task_text, template_text

YES, NO, UNSURE = Answer.YES, Answer.NO, Answer.UNSURE


def gaia(g: float | None = 15.0, bp_rp: float | None = 0.3, parallax: float | None = 10.0, error: float | None = 0.1,
         ruwe: float | None = 1.0) -> Gaia:  # fmt: skip
    return Gaia("4611686018427387905", 10.0, 20.0, parallax=parallax, parallax_error=error, g=g, bp_rp=bp_rp, ruwe=ruwe)


def at(m_g: float, bp_rp: float, **more: float | None) -> Match:
    """A star at 100 pc, whose distance modulus is 5."""
    return Match(("a", 0), gaia(m_g + 5.0, bp_rp, **more), 0.1, asked=("gaia",))


def said(answer: Answer, task: str, match: Match | None, likelier: str | None = None) -> tuple[str, str]:
    found = with_gaia(answer, load_task(task), match, likelier)
    assert found is not None
    assert found.answer == answer
    return found.answer_with_gaia, found.used


def test_absolute_magnitudes_are_those_computed_by_hand() -> None:
    # 10 mas are 100 pc, whose modulus is 5; 768.0665 mas are 1.30197 pc, modulus 5 log10(0.130197) = -4.4270.
    found = luminous(gaia(15.0, parallax=10.0, error=0.5))
    assert found.m_g == pytest.approx(10.0)
    assert found.error == pytest.approx(0.1086, abs=1e-4)  # 2.17147 · 0.05
    assert found.parallax_over_error == pytest.approx(20.0)
    proxima = luminous(gaia(8.9847, 3.7957, 768.0665, 0.0499))
    assert proxima.m_g == pytest.approx(13.4117, abs=1e-4)


def test_a_parallax_below_five_errors_gives_a_limit_and_no_magnitude() -> None:
    # 1.0 ± 0.25 is four errors; 1.0 + 2 · 0.25 = 1.5 mas: 15 + 5 log10(0.015) = 5.8805.
    found = luminous(gaia(15.0, parallax=1.0, error=0.25))
    assert (found.m_g, found.error) == (None, None)
    assert found.limit == pytest.approx(5.8805, abs=1e-4)
    assert luminous(gaia(15.0, parallax=1.25, error=0.25)).m_g is not None
    negative = luminous(gaia(15.0, parallax=-1.0, error=0.25))
    assert (negative.m_g, negative.limit) == (None, None)


@pytest.mark.parametrize("missing", [{"g": None}, {"parallax": None}, {"error": None}, {"error": 0.0}])
def test_without_its_numbers_there_is_no_absolute_magnitude(missing: dict[str, float | None]) -> None:
    found = luminous(gaia(**missing))
    assert (found.m_g, found.error, found.limit) == (None, None, None)


def test_a_poor_fit_is_flagged() -> None:
    assert [luminous(gaia(ruwe=r)).good_astrometry for r in (1.0, 1.4, 1.41, None)] == [True, True, False, None]


@pytest.mark.parametrize(
    ("task", "answer", "m_g", "bp_rp", "becomes"),
    [
        ("wd", UNSURE, 13.0, 0.3, "YES"),  # featureless on the sequence: a DC
        ("wd", UNSURE, 4.5, -0.3, "NO"),  # a hot subdwarf
        ("wd", YES, 13.0, 0.3, "YES"),
        ("wd", YES, 2.0, 0.1, "NO"),  # an A star
        ("wd", NO, 13.0, 0.3, "UNSURE"),
        ("wd", NO, 4.6, 0.82, "NO"),  # the Sun
        ("wd", UNSURE, 7.5, 0.5, "UNSURE"),  # between the sequences: nothing follows
        ("gm", YES, -1.0, 2.5, "YES"),
        ("gm", YES, 8.8, 2.1, "NO"),  # an M1 dwarf
        ("gm", UNSURE, 8.8, 2.1, "NO"),
        ("gm", YES, 5.5, 2.1, "UNSURE"),
        ("gm", NO, 8.8, 2.1, "NO"),
        ("ss", YES, -1.5, 2.3, "YES"),
        ("ss", YES, 9.0, 2.3, "NO"),
        ("cc", YES, -2.0, 2.8, "YES"),
        ("cc", YES, 8.5, 1.6, "YES"),  # a dwarf carbon star
        ("cc", YES, 13.5, 0.6, "NO"),  # a DQ
        ("cv", YES, 10.15, 0.56, "YES"),
        ("cv", YES, -0.5, 1.6, "UNSURE"),  # a symbiotic star
        ("cv", NO, 10.15, 0.56, "NO"),  # a place alone makes no cataclysmic variable
    ],
)
def test_what_becomes_of_an_answer(task: str, answer: Answer, m_g: float, bp_rp: float, becomes: str) -> None:
    assert said(answer, task, at(m_g, bp_rp))[0] == becomes


def test_a_dwarf_by_its_spectrum_that_is_as_luminous_as_a_giant_is_looked_at_again() -> None:
    giant = at(-1.0, 2.5)
    assert said(NO, "gm", giant, "M dwarf") == ("UNSURE", "spectrum, gaia")
    assert said(NO, "gm", giant, "carbon star") == ("NO", "spectrum, gaia")


@pytest.mark.parametrize("task", ["wd", "gm", "ss", "cc", "cv"])
@pytest.mark.parametrize("answer", [YES, NO, UNSURE])
def test_a_bad_parallax_fit_or_colour_changes_nothing(task: str, answer: Answer) -> None:
    for m_g, bp_rp in ((13.0, 0.3), (-1.0, 2.5), (8.8, 2.1), (13.5, 0.6)):
        for bad in ({"error": 3.0}, {"ruwe": 2.5}, {"parallax": None}, {"parallax": -10.0}, {"error": None}):
            assert said(answer, task, at(m_g, bp_rp, **bad)) == (answer, "spectrum"), bad
    assert said(answer, task, Match(("a", 0), gaia(18.0, None), 0.1, asked=("gaia",))) == (answer, "spectrum")
    assert said(answer, task, Match(("a", 0), asked=("gaia",))) == (answer, "spectrum")
    assert said(answer, task, None) == (answer, "spectrum")


def test_why_says_where_the_star_lies_or_what_is_wrong() -> None:
    wd = load_task("wd")

    def why(match: Match | None) -> str:
        found = with_gaia(UNSURE, wd, match)
        assert found is not None
        return found.why

    assert why(at(13.0, 0.3)) == (
        "M_G = 13.00 ± 0.02, BP−RP = 0.30: on the white-dwarf sequence; without lines in its spectrum it is a DC"
    )
    assert why(at(13.0, 0.3, error=3.0)).startswith(
        "Gaia changes nothing: the parallax is 3.3 of its errors, 5 are needed"
    )
    assert why(at(13.0, 0.3, ruwe=2.5)) == "Gaia changes nothing: RUWE is 2.50, at most 1.4 is trusted"
    assert why(at(9.3, 0.3, error=0.5)).endswith("at the edge of white-dwarf sequence, which decides nothing")
    assert why(Match(("a", 0), asked=("gaia",))) == "no Gaia source was found"
    assert why(Match(("a", 0), asked=("vsx",))) == "Gaia was not asked about this place"


@pytest.mark.parametrize("answer", [Answer.NO_DATA, Answer.FAILED, Answer.ERROR])
def test_a_spectrum_that_was_not_judged_stays_so(answer: Answer) -> None:
    assert said(answer, "wd", at(13.0, 0.3)) == (answer, "spectrum")


def test_a_task_that_says_nothing_of_gaia_gets_no_verdict_with_it() -> None:
    mine = Task.model_validate(load_task("wd").model_dump(exclude={"gaia"}))
    assert with_gaia(UNSURE, mine, at(13.0, 0.3)) is None


def test_the_section_alters_no_verdict_from_the_spectrum_and_so_no_runs_hash() -> None:
    for task in builtin_tasks().values():
        assert task.gaia is not None
        assert task_hash(task) == task_hash(task.model_copy(update={"gaia": None}))
        assert load_task_text(task_text(task)) == task


def load_task_text(text: str) -> Task:
    from specvet.tasks.load import task_from_bytes

    return task_from_bytes(text.encode(), "task.yaml")


def test_a_run_whose_tasks_knew_no_regions_takes_those_of_the_same_task(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    wd = load_task("wd")
    (folder / "wd.yaml").write_text(task_text(wd.model_copy(update={"gaia": None})), encoding="utf-8")
    other = wd.model_copy(update={"gaia": None, "question": "Is it white?", "key": "cv"})
    (folder / "cv.yaml").write_text(task_text(other), encoding="utf-8")
    assert run_tasks(tmp_path) == {"wd": wd, "cv": other}


def test_a_star_is_in_a_region_only_with_its_whole_error_bar() -> None:
    band = Region(name="band", bp_rp=(0, 1), fainter_than=(10, 2), brighter_than=(14, 0), source="here")
    assert lies_in(band, 0.5, 12.0, 0.9) is True
    assert lies_in(band, 0.5, 12.0, 1.1) is None
    assert lies_in(band, 0.5, 9.0, 1.9) is False
    assert lies_in(band, 1.5, 12.0, 0.1) is False
    square = Region(name="square", polygon=((0, 0), (2, 0), (2, 2), (0, 2)), source="here")
    assert [square.holds(x, y) for x, y in ((1, 1), (-1, 1), (3, 1), (1, -1), (1, 3))] == [
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("region: main sequence", "region: main sequenze", "there is no region `main sequenze`; there are giants"),
        ("expected: [giants]", "expected: [dwarfs]", "expected: there is no region `dwarfs`"),
        ("    - name: main sequence\n", "    - name: giants\n", "two have one name"),
        ("bp_rp: [0.5, 3.0]", "bp_rp: [3.0, 0.5]", "must be [bluest, reddest]"),
        ("[[0.8, 4.0], [0.8, -3.0], [2.5, -3.0], [2.5, 4.0]]", "[[1, 2], [2, 3]]", "3 or more are needed"),
        ("bp_rp: [0.5, 3.0]    ", "polygon: [[0, 0], [1, 1], [1, 0]]", "either a polygon, or some of"),
        ("max_ruwe: 1.4", "max_ruwe: -1", "max_ruwe"),
        ("where: inside", "where: nearby", "where"),
    ],
)  # fmt: skip
def test_a_section_that_makes_no_sense_is_refused_with_its_field(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = template_text()
    assert old in text
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(TaskError) as error:
        load_task(file)
    assert says in str(error.value)
