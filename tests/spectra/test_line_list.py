"""The list of spectral lines: published wavelengths in both media, names, windows."""

from __future__ import annotations

import pytest

from specvet.spectra import LINES, lines_between, spectral_line
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import LineIndex
from specvet.tasks import builtin_tasks

VACUUM = {
    # Morton 2003, ApJS 149, 205
    "Ca II K 3934": 3934.775, "Ca II H 3968": 3969.590, "Na D2 5890": 5891.583, "Na D1 5896": 5897.558,
    "K I 7665": 7667.009, "K I 7699": 7701.084,
    # The vacuum list that SDSS publishes for its spectra (classic.sdss.org, linelist)
    "Hα 6563": 6564.61, "Hβ 4861": 4862.68, "Hγ 4340": 4341.68, "Hδ 4102": 4102.89, "[O II] 3726": 3727.09,
    "[O II] 3729": 3729.88, "[O III] 4363": 4364.436, "[O III] 4959": 4960.295,
    "[O III] 5007": 5008.240, "[N II] 6548": 6549.86, "[N II] 6583": 6585.27, "[S II] 6716": 6718.29,
    "[S II] 6731": 6732.67, "[O I] 6300": 6302.046, "[O I] 6364": 6365.536, "Ca II 8498": 8500.36,
    "Ca II 8542": 8544.44, "Ca II 8662": 8664.52,
}  # fmt: skip
"""Published vacuum wavelengths, Å; ours are published air wavelengths, converted."""


@pytest.mark.parametrize("name", VACUUM)
def test_air_and_vacuum_are_both_the_published_ones(name: str) -> None:
    assert spectral_line(name).vacuum == pytest.approx(VACUUM[name], abs=0.02)


def test_the_lines_that_tasks_rest_on_are_there() -> None:
    for name in (
        "Hα", "Hβ", "Hγ", "Hδ", "Hε", "H8", "H9", "H10", "Pa9", "Pa12", "Pa14", "He I 4026", "He I 4471", "He I 4922",
        "He I 5016", "He I 5876", "He I 6678", "He I 7065", "He II 4686", "He II 5411", "Ca II H", "Ca II K",
        "Ca II 8498", "Ca II 8542", "Ca II 8662", "Na D1", "Na D2", "Na I 8183", "Na I 8195", "K I 7665", "K I 7699",
        "Bowen", "[O III] 5007", "[N II] 6583", "[S II] 6716", "[S II] 6731", "Li I 6708", "Mg b 5184", "Ca I 4227",
    ):  # fmt: skip
        assert spectral_line(name) in LINES
    assert list(LINES) == sorted(LINES, key=lambda line: line.air)
    assert len({line.name for line in LINES}) == len(LINES)
    for line in LINES:
        assert "NIST" in line.source
        assert set(line.tasks) <= builtin_tasks().keys()
        index = BUILTIN_INDICES.get(line.index)
        assert (index is None) == (not line.index)
        if index is not None:
            assert isinstance(index, LineIndex)
            assert index.band[0] < line.air < index.band[1]


@pytest.mark.parametrize("name", ["Hα", "hα 6563", "halpha", "H-alpha", "Ha", "6563", "HALPHA"])
def test_a_line_is_found_as_people_write_it(name: str) -> None:
    if name == "6563":
        assert spectral_line(6563.0).name == "Hα 6563"
        assert spectral_line(6564.6, "vacuum").name == "Hα 6563"
    else:
        assert spectral_line(name).name == "Hα 6563"


def test_what_no_line_or_more_than_one_fits_is_told_with_what_is_near() -> None:
    with pytest.raises(ValueError, match="may be He I 3889, He I 4026") as caught:
        spectral_line("He I")
    assert "He II" not in str(caught.value)
    with pytest.raises(ValueError, match="did you mean"):
        spectral_line("He I 5867")
    with pytest.raises(ValueError, match="no line is named 'unobtainium'; give a name"):
        spectral_line("unobtainium")
    with pytest.raises(ValueError, match=r"within 3 Å of 6000 Å; the nearest is"):
        spectral_line(6000.0)


def test_lines_of_a_window_come_in_any_medium_and_at_any_redshift() -> None:
    assert [line.name for line, _ in lines_between(6540, 6600)] == ["[N II] 6548", "Hα 6563", "[N II] 6583"]
    at = {line.name: w for line, w in lines_between(6540, 6600, "vacuum", z=0.001)}
    assert at["Hα 6563"] == pytest.approx(6564.614 * 1.001, abs=0.01)
    half = {line.name: w for line, w in lines_between(6540, 6600, "unknown")}
    assert half["Hα 6563"] == pytest.approx(0.5 * (6562.80 + 6564.613), abs=0.01)
    # At z = 0.1, Hα has left and [O III] has not come.
    assert not lines_between(6540, 6600, z=0.1, task="cv", seen="emission")


def test_lines_can_be_chosen_by_task_and_by_how_they_are_seen() -> None:
    giants = {line.name for line, _ in lines_between(7000, 9000, task="gm")}
    assert {"Na I 8183", "K I 7699", "Ca II 8542"} <= giants
    assert "He I 7065" not in giants
    emission = {line.name for line, _ in lines_between(4600, 5100, seen="emission")}
    assert {"Hβ 4861", "[O III] 5007", "Bowen blend 4645"} <= emission
    assert not emission & {line.name for line in LINES if line.seen == "absorption"}
