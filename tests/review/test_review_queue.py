"""Of a run and of a list, what comes next: columns, filters, orders, and what a blind review keeps to itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from review_lab import decision, draft, write_run, write_spectra

from specvet.data.errors import InputError
from specvet.records import RunError
from specvet.records.schema import Answer
from specvet.review.desk import Desk
from specvet.review.listing import ANSWERS
from specvet.review.queue import Filter, HiddenError, QueueError
from specvet.review.source import of_list, of_run, open_source
from specvet.review.store import SqliteStore

N = 60


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SIMULATED verdicts: 10 YES, 10 UNSURE, 1 ERROR, the rest NO, of falling p."""
    folder = tmp_path_factory.mktemp("queue")
    decisions = []
    for i in range(N):
        answer = Answer.YES if i < 10 else Answer.UNSURE if i < 20 else Answer.NO
        p = 0.99 - 0.016 * i
        likelier = {"survey": "DESI" if i % 3 == 0 else "LAMOST", "snr": float(i)}
        decisions.append(decision(f"f{i:03d}.fits", answer, p, **likelier))
    broken = decision("broken.fits", Answer.ERROR, None, survey="", snr=None).model_copy(
        update={"task": "*", "trajectory": None}
    )
    return write_run(folder / "run", [*decisions, broken])


@pytest.fixture
def desk(run: Path, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(of_run(run), SqliteStore(tmp_path / "r.db"))
    yield desk
    desk.store.close()


def ids(desk: Desk, wanted: Filter = Filter(), order: str = "list", who: str = "Ann") -> list[str]:  # noqa: B008
    return [row[1] for row in desk.page("cv", order, wanted, who, 0, 500)["rows"]]


def test_a_runs_columns_are_those_of_its_decisions(run: Path) -> None:
    listing = of_run(run)
    verdicts = listing.verdicts["cv"]
    assert len(listing) == N + 1
    assert listing.ids[:2] == ["f000.fits", "f001.fits"]
    assert [ANSWERS[a] for a in verdicts.answer[[0, 10, 20, N]]] == ["YES", "UNSURE", "NO", "ERROR"]
    assert verdicts.p[1] == pytest.approx(0.974)
    assert np.isnan(verdicts.p[N])
    assert (listing.ra[0], listing.dec[0], listing.look_z[0]) == (10.5, -3.0, 0.0)
    assert listing.agent is not None
    assert listing.agent.policy == "line-indices"
    assert list(listing.problems) == [N]


def test_samples_of_one_question_are_one_item_that_says_whether_they_differ(tmp_path: Path) -> None:
    made = [decision("a.fits", Answer.YES, 0.9), decision("b.fits", Answer.NO, 0.1)]
    more = [
        made[0].model_copy(update={"sample": 1, "verdict": made[1].verdict}),
        made[1].model_copy(update={"sample": 1}),
    ]
    listing = of_run(write_run(tmp_path / "run", [*made, *more]))
    assert len(listing) == 2
    assert listing.verdicts["cv"].samples_differ.tolist() == [True, False]
    assert listing.verdicts["cv"].word(0) == "YES"


def test_the_order_of_value_is_random_then_likely_then_uncertain_then_the_rest(desk: Desk) -> None:
    order = ids(desk, order="value")
    numbers = [N if name.startswith("broken") else int(name[1:4]) for name in order]
    assert sorted(numbers) == list(range(N + 1))
    # Behind the random ones p falls among the likely, then comes what is nearest to one half.
    start = next(k for k in range(len(numbers)) if numbers[k : k + 3] == sorted(numbers[k : k + 3]) and numbers[k] < 2)
    assert start <= 8
    sample = set(numbers[:start])
    likely = [n for n in numbers[start:] if n <= 30 and n not in sample]
    assert numbers[start : start + len(likely)] == sorted(likely)
    assert all(n > 30 for n in numbers[start + len(likely) :])


def test_the_random_share_of_a_long_list_is_five_percent(run: Path) -> None:
    from specvet.review.assigning import shuffled
    from specvet.review.queue import RANDOM_SHARE

    numbers = shuffled([f"{k:016x}" for k in range(20_000)], "order")
    assert (numbers < np.uint64(int(RANDOM_SHARE * 2**64))).mean() == pytest.approx(0.05, abs=0.005)


def test_filters_choose_by_verdict_survey_noise_text_and_votes(desk: Desk) -> None:
    item = dict(zip(desk.listing.ids, desk.listing.items, strict=True))
    assert ids(desk, Filter(verdict=("YES",))) == [f"f{i:03d}.fits" for i in range(10)]
    assert ids(desk, Filter(survey="desi", snr_max=7.0)) == ["f000.fits", "f003.fits", "f006.fits"]
    assert ids(desk, Filter(snr_min=58.0)) == ["f058.fits", "f059.fits"]
    assert ids(desk, Filter(text="F03", class_="star", snr_max=31.0)) == ["f030.fits", "f031.fits"]
    desk.decide("Ann", draft(item["f001.fits"], "NO", flagged=True, comment="ähnlich wie AM Her"))
    desk.decide("Bo", draft(item["f002.fits"], "YES"))
    assert ids(desk, Filter(text="am her")) == ids(desk, Filter(flagged=True)) == ["f001.fits"]
    assert "f001.fits" not in ids(desk, Filter(unreviewed=True))
    assert len(ids(desk, Filter(unreviewed=True))) == N
    assert len(ids(desk, Filter(open=True))) == N - 1
    assert ids(desk, Filter(mine=("NO",))) == ["f001.fits"]
    assert ids(desk, Filter(disagreement=True)) == ["f001.fits"]  # NO against the agent's YES
    desk.decide("Bo", draft(item["f001.fits"], "YES"))
    assert ids(desk, Filter(third=True), who="Cy") == ["f001.fits"]
    assert ids(desk, Filter(third=True), who="Bo") == []
    desk.assign("Ann", "assign-1", ["Ann", "Bo"], 1)
    mine, others = (set(ids(desk, Filter(assigned=True), who=who)) for who in ("Ann", "Bo"))
    assert mine | others == set(desk.listing.ids)
    assert not mine & others


def test_a_row_says_ones_own_vote_and_how_many_others_there_are(desk: Desk) -> None:
    item = desk.listing.items[3]
    desk.decide("Ann", draft(item, "NO"))
    desk.decide("Bo", draft(item, "NO", flagged=True))
    row = desk.page("cv", "list", Filter(), "Ann", 3, 1)["rows"][0]
    assert row == [item, "f003.fits", "DESI", 3.0, "YES", 0.942, None, "NO", 1, True]
    assert desk.page("cv", "list", Filter(), "Cy", 3, 1)["rows"][0][7:] == [None, 2, True]
    assert desk.page("cv", "list", Filter(), "Ann", 0, 1)["reviewed"] == 1


def test_what_comes_next_goes_on_behind_the_item_that_was_just_decided(desk: Desk) -> None:
    items = desk.listing.items
    desk.decide("Ann", draft(items[1]))
    wanted = Filter(unreviewed=True)
    assert desk.after("cv", "list", wanted, "Ann", None, 2, False) == ([items[0], items[2]], N)
    assert desk.after("cv", "list", wanted, "Ann", items[1], 2, False) == (items[2:4], N - 1)
    assert desk.after("cv", "list", wanted, "Ann", items[2], 2, True) == ([items[0]], 1)
    assert desk.after("cv", "list", wanted, "Ann", items[N], 2, False) == ([], 0)


def test_a_blind_review_tells_nothing_of_the_agent_before_the_vote(run: Path, tmp_path: Path) -> None:
    desk = Desk(of_run(run), SqliteStore(tmp_path / "r.db"), blind=True)
    item = desk.listing.items[0]
    page = desk.page("cv", "value", Filter(), "Ann", 0, 500)
    assert page["order"] == "random"
    assert {tuple(row[4:7]) for row in page["rows"]} == {(None, None, None)}
    for wanted in (Filter(verdict=("YES",)), Filter(band=("look",))):
        with pytest.raises(HiddenError):
            desk.page("cv", "list", wanted, "Ann", 0, 1)
    assert ids(desk, Filter(class_="dwarf")) == []
    assert desk.hidden(item, "cv", "Ann")
    desk.decide("Bo", draft(item, "YES", comment="seen by Bo", flagged=True))
    assert desk.hidden(item, "cv", "Ann")
    assert ids(desk, Filter(text="seen by bo")) == []
    assert ids(desk, Filter(disagreement=True)) == []
    assert ids(desk, Filter(flagged=True)) == []
    assert not desk.page("cv", "list", Filter(), "Ann", 0, 1)["rows"][0][9]
    desk.decide("Ann", draft(item, "NO"))
    assert ids(desk, Filter(flagged=True)) == ["f000.fits"]
    assert not desk.hidden(item, "cv", "Ann")
    assert desk.page("cv", "list", Filter(), "Ann", 0, 1)["rows"][0][4:6] == ["YES", 0.99]
    assert ids(desk, Filter(disagreement=True)) == ["f000.fits"]
    desk.store.close()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"verdict": "MAYBE"}, "choose from YES"),
        ({"band": "accept,maybe"}, "choose from accept"),
        ({"snr_min": "high"}, "give a number"),
        ({"snr_max": "nan"}, "finite"),
        ({"unreviewed": "perhaps"}, "give 1 or 0"),
    ],
)
def test_a_filter_that_is_none_is_refused(query: dict[str, str], says: str) -> None:
    with pytest.raises(QueueError, match=says):
        Filter.of(query)


def test_filters_are_read_from_a_request() -> None:
    query = {"unreviewed": "1", "verdict": "yes,unsure", "snr_min": "5", "class": "dwarf", "task": "cv", "text": " a "}
    assert Filter.of(query) == Filter(unreviewed=True, verdict=("YES", "UNSURE"), snr_min=5.0, class_="dwarf", text="a")


def test_a_list_without_rows_shows_every_target_of_its_files(tmp_path: Path) -> None:
    wave = np.linspace(4000, 7000, 300)
    np.savez(tmp_path / "many.npz", wavelength=wave, flux=np.ones((3, 300)), targetid=np.arange(7, 10))
    write_spectra(tmp_path, 1)
    (tmp_path / "broken.fits").write_bytes(b"nothing")
    (tmp_path / "list.csv").write_text(
        "path,id,z\nmany.npz,,\ns0000.txt,double\ns0000.txt,\nbroken.fits,\ngone.fits,\n"
    )
    listing = of_list([str(tmp_path / "list.csv")], tasks="cv,wd")
    assert [(Path(f).name, row) for f, row in zip(listing.files, listing.rows, strict=True)] == [
        ("many.npz", 0), ("many.npz", 1), ("many.npz", 2), ("s0000.txt", 0), ("broken.fits", 0), ("gone.fits", 0),
    ]  # fmt: skip
    assert listing.ids[:4] == ["7", "8", "9", "double"]
    assert [t.key for t in listing.tasks] == ["cv", "wd"]
    assert "1 entries of the list name a spectrum that it names before" in listing.notices[0]
    assert "no such file" in listing.problems[5]


def test_what_cannot_be_reviewed_is_said_with_what_to_do(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"was not asked 'wd'; it asked cv"):
        open_source([str(run)], tasks="wd")
    with pytest.raises(InputError, match="one run at a time"):
        open_source([str(run), str(tmp_path)])
    empty = write_run(tmp_path / "empty", [])
    with pytest.raises(RunError, match="no decision yet"):
        open_source([str(empty)])
