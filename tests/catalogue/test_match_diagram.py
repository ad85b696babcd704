"""The colour-magnitude inset: where things are drawn, that it is one safe piece of SVG, what it leaves out."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from specvet.catalogue.matching import cmd_svg
from specvet.catalogue.matching.diagram import BOTTOM, GIANT_BRANCH, LEFT, MAIN_SEQUENCE, RIGHT, TOP, WHITE_DWARFS
from specvet.catalogue.sighting import Gaia, Match
from specvet.tasks import Region, builtin_tasks, load_task
from specvet.tasks.luminosity import Luminosity


def drawn(
    task: str | None, m_g: float = 10.0, bp_rp: float | None = 0.3, error: float = 0.1, parallax: float = 10.0
) -> ElementTree.Element:
    gaia = Gaia("1", 10.0, 20.0, parallax=parallax, parallax_error=error, g=m_g + 5.0, bp_rp=bp_rp)
    return ElementTree.fromstring(str(cmd_svg(Match(("a", 0), gaia), load_task(task) if task else None)))


def numbers(element: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (p.split(",") for p in element.attrib["points"].split())]


def test_the_star_lies_where_its_colour_and_magnitude_put_it() -> None:
    # The axes run from -1 to 4.5 and from -5 to 17: 0.3 is 13/55 of the way, 10 is 15/22.
    (star,) = drawn("wd").findall("circle")
    assert float(star.attrib["cx"]) == pytest.approx(LEFT + (RIGHT - LEFT) * 1.3 / 5.5, abs=0.1)
    assert float(star.attrib["cy"]) == pytest.approx(TOP + (BOTTOM - TOP) * 15 / 22, abs=0.1)


def test_the_error_bar_is_as_long_as_the_error() -> None:
    # 2 mas of 10 are 0.4343 mag, of 22 mag in all.
    bars = [line for line in drawn("wd", error=2.0).findall("line") if line.attrib["stroke-width"] == "4"]
    (bar,) = bars
    length = float(bar.attrib["y2"]) - float(bar.attrib["y1"])
    assert length == pytest.approx((BOTTOM - TOP) * 2 * 0.4343 / 22, abs=0.3)


def test_a_limit_is_an_arrow_to_brighter_magnitudes_inside_the_frame() -> None:
    picture = drawn("cc", parallax=0.02, error=0.03, bp_rp=5.9, m_g=6.0)
    assert not picture.findall("circle")
    arrow = numbers(picture.findall("polygon")[-1])
    assert min(y for _, y in arrow) == arrow[2][1]
    assert all(LEFT <= x <= RIGHT and TOP <= y <= BOTTOM for x, y in arrow)
    title = picture.find("title")
    assert title is not None
    assert title.text == "Gaia colour-magnitude diagram: M_G brighter than −4.5, BP−RP = 5.90"


@pytest.mark.parametrize("task", list(builtin_tasks()))
def test_every_region_of_the_tasks_shows_and_stays_in_the_frame(task: str) -> None:
    section = load_task(task).gaia
    assert section is not None
    picture = drawn(task)
    shapes = [numbers(p) for p in picture.findall("polygon")]
    assert len(shapes) == len(section.regions)
    assert all(LEFT - 0.5 <= x <= RIGHT + 0.5 and TOP - 0.5 <= y <= BOTTOM + 0.5 for shape in shapes for x, y in shape)
    words = [t.text for t in picture.findall("text")]
    assert all(region.name in words for region in section.regions)


def test_what_is_shaded_is_what_the_rules_mean() -> None:
    region = Region(name="band", bp_rp=(0, 2), fainter_than=(8, 2), brighter_than=(14, 0), source="here")
    wd = load_task("wd").model_copy(update={"gaia": Luminosity(regions=(region,))})
    gaia = Gaia("1", 1.0, 2.0, parallax=10.0, parallax_error=0.1, g=15.0, bp_rp=0.3)
    (shape,) = ElementTree.fromstring(str(cmd_svg(Match(("a", 0), gaia), wd))).findall("polygon")

    def at(x: float, y: float) -> tuple[float, float]:
        return round(LEFT + (RIGHT - LEFT) * (x + 1) / 5.5), round(TOP + (BOTTOM - TOP) * (y + 5) / 22)

    assert set(numbers(shape)) == {at(0, 8), at(2, 12), at(2, 14), at(0, 14)}


def test_a_region_that_no_star_can_be_in_is_not_drawn() -> None:
    nowhere = Region(name="nowhere", fainter_than=(10, 0), brighter_than=(5, 0), source="here")
    wd = load_task("wd").model_copy(update={"gaia": Luminosity(regions=(nowhere,))})
    gaia = Gaia("1", 1.0, 2.0, parallax=10.0, parallax_error=0.1, g=15.0, bp_rp=0.3)
    assert not ElementTree.fromstring(str(cmd_svg(Match(("a", 0), gaia), wd))).findall("polygon")


@pytest.mark.parametrize("m_g", [-9.0, 25.0])
@pytest.mark.parametrize("bp_rp", [-2.0, 7.0])
def test_a_star_off_the_usual_diagram_widens_it(m_g: float, bp_rp: float) -> None:
    (star,) = drawn("wd", m_g, bp_rp).findall("circle")
    assert LEFT < float(star.attrib["cx"]) < RIGHT
    assert TOP < float(star.attrib["cy"]) < BOTTOM


def test_without_a_colour_a_magnitude_or_a_source_nothing_is_drawn() -> None:
    assert cmd_svg(Match(("a", 0), asked=("gaia",))) == ""
    for missing in ({"bp_rp": None}, {"g": None}, {"parallax": None}, {"parallax": -5.0}):
        fields = {"parallax": 10.0, "parallax_error": 0.1, "g": 15.0, "bp_rp": 0.3} | missing
        assert cmd_svg(Match(("a", 0), Gaia("1", 1.0, 2.0, **fields)), load_task("wd")) == "", missing  # type: ignore[arg-type]


def test_the_picture_needs_no_style_script_or_id_and_a_hostile_name_stays_a_word() -> None:
    hostile = "<script>alert(1)</script>\"'&"
    region = Region(name=hostile, brighter_than=(5, 0), source="here")
    wd = load_task("wd").model_copy(update={"gaia": Luminosity(regions=(region,))})
    gaia = Gaia("1", 1.0, 2.0, parallax=10.0, parallax_error=0.1, g=15.0, bp_rp=0.3)
    svg = str(cmd_svg(Match(("a", 0), gaia), wd))
    assert not re.search(r"<script|<style|style=|\bid=|href|url\(|on\w+=", svg)
    assert hostile in [t.text for t in ElementTree.fromstring(svg).findall("text")]


def test_the_sequences_go_from_blue_and_bright_to_red_and_faint() -> None:
    for line in (MAIN_SEQUENCE, WHITE_DWARFS):
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(line))
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(GIANT_BRANCH))
    wd, gm = load_task("wd").gaia, load_task("gm").gaia
    assert wd is not None
    assert gm is not None
    assert all(wd.region("white-dwarf sequence").holds(*point) for point in WHITE_DWARFS)
    assert not any(wd.region("white-dwarf sequence").holds(*point) for point in (*MAIN_SEQUENCE, *GIANT_BRANCH))
    dwarfs = gm.region("dwarfs")
    assert [dwarfs.holds(*point) for point in MAIN_SEQUENCE] == [point[0] >= 1.7 for point in MAIN_SEQUENCE]
    assert not any(dwarfs.holds(*point) for point in GIANT_BRANCH)
