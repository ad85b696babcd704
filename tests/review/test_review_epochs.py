"""Epochs of one star on the review page, and what `specvet match` found of it; all spectra are SIMULATED."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")

from browser_lab import browser, opens, said, served, shown, usual_tab  # noqa: F401 - fixtures
from PIL import Image
from review_lab import decision, draft, write_run, write_spectra

from specvet.catalogue.matching import Place, WithGaia, write_matches
from specvet.catalogue.sighting import Gaia, Known, Match
from specvet.cli.objects import people_of
from specvet.records import RunFolder
from specvet.records.schema import Answer
from specvet.review.desk import Desk
from specvet.review.epochs import MOST_COMBINED, MOST_EPOCHS, object_of
from specvet.review.page import write_object_page
from specvet.review.queue import Filter
from specvet.review.source import of_list, of_run
from specvet.review.store import SqliteStore
from specvet.spectra.lines import air_to_vacuum
from specvet.tasks import load_task
from specvet.vetting.objects import object_names, objects_of

# Two stars: one in outburst at the second of three epochs, one seen twice; and a third seen once.
SEEN = [
    ("outburst 1", 10.0, 55000.25, Answer.NO, 0.1),
    ("twice 1", 40.0, 56000.0, Answer.NO, 0.2),
    ("outburst 3", 10.0, 55900.0, Answer.NO, 0.2),
    ("once", 80.0, None, Answer.YES, 0.9),
    ("outburst 2", 10.0001, 55400.5, Answer.YES, 0.95),
    ("twice 2", 40.0, 55990.0, Answer.UNSURE, 0.5),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    files = write_spectra(tmp_path / "spectra", len(SEEN))
    return write_run(
        tmp_path / "run",
        [
            decision(f, answer, p, id=id, ra=ra, dec=-3.0, mjd=mjd)
            for f, (id, ra, mjd, answer, p) in zip(files, SEEN, strict=True)
        ],
    )


@pytest.fixture
def desk(run: Path) -> Iterator[Desk]:
    made = Desk(of_run(run), SqliteStore(run / "review.db"))
    yield made
    made.store.close()


def item(desk: Desk, id: str) -> str:
    return desk.listing.items[desk.listing.ids.index(id)]


def ids(desk: Desk, items: list[str]) -> list[str]:
    return [desk.listing.ids[desk.listing.place[i]] for i in items]


def test_an_object_has_its_epochs_by_time_and_the_verdict_of_the_tasks_rule(desk: Desk) -> None:
    cv = load_task("cv")
    found = object_of(desk, item(desk, "outburst 1"), cv, "Ann")
    assert [(e["id"], e["mjd"], e["says"], e["by"]) for e in found["epochs"]] == [
        ("outburst 1", 55000.25, "NO", "policy"),
        ("outburst 2", 55400.5, "YES", "policy"),
        ("outburst 3", 55900.0, "NO", "policy"),
    ]
    combined = found["combined"]
    assert (combined["answer"], combined["rule"], combined["conflict"]) == ("YES", "any_yes", True)
    assert "YES in 1 of 3 epochs (MJD 55400.5), which is enough" in combined["reason"]
    assert object_of(desk, item(desk, "once"), cv, "Ann")["epochs"] == []
    # A person goes before the agent, about their epoch alone.
    desk.decide("Ann", draft(item(desk, "outburst 2"), "NO"))
    found = object_of(desk, item(desk, "outburst 3"), cv, "Ann")
    assert [(e["says"], e["by"], e["mine"]) for e in found["epochs"]] == [
        ("NO", "policy", None),
        ("NO", "person", "NO"),
        ("NO", "policy", None),
    ]
    assert (found["combined"]["answer"], found["combined"]["by"]) == ("NO", "person")


def test_the_page_and_the_object_table_say_the_same_of_every_star(desk: Desk, run: Path) -> None:
    for id, name, verdict in (("twice 1", "Ann", "YES"), ("twice 1", "Bo", "NO"), ("outburst 2", "Ann", "NO")):
        desk.decide(name, draft(item(desk, id), verdict, likelier="M dwarf" if verdict == "NO" else None))
    people = people_of(str(run), None, True)
    folder = RunFolder.read(run)
    table = list(objects_of(folder, people=people))
    folder.close()
    assert len(table) == 3
    for one in table:
        files = [s.key[0] for s in one.group.members]
        first = desk.listing.items[desk.listing.files.index(files[0])]
        found = object_of(desk, first, load_task("cv"), "Ann")
        assert found["id"] == one.group.id
        if len(files) == 1:
            continue
        assert [desk.listing.files[desk.listing.place[e["item"]]] for e in found["epochs"]] == files
        said = one.verdicts["cv"]
        for name, told in (("answer", str(said.answer)), ("reason", said.reason), ("likelier", said.likelier)):
            assert found["combined"][name] == told
        assert (found["combined"]["by"], found["combined"]["rule"]) == (said.by, said.rule)
        assert [e["says"] for e in found["epochs"]] == [None if v is None else str(v.answer) for v in one.epochs["cv"]]


def test_a_run_knows_which_of_its_spectra_are_simulated_before_any_file_is_read(tmp_path: Path) -> None:
    decisions = [
        decision("a.fits", Answer.NO, 0.1, warnings=("SIMULATED spectrum", "no error array")),
        decision("b.fits", Answer.NO, 0.1, warnings=("no error array",), id="b"),
    ]
    assert of_run(write_run(tmp_path / "run", decisions)).simulated.tolist() == [1, 0]


def test_a_blind_review_tells_of_no_epoch_that_is_not_decided(run: Path) -> None:
    desk = Desk(of_run(run), SqliteStore(run / "review.db"), blind=True)
    cv, two = load_task("cv"), [item(desk, f"twice {n}") for n in (1, 2)]
    desk.decide("Bo", draft(two[0], "YES"))
    for n in range(2):
        desk.decide("Ann", draft(two[n], "NO"))
        found = object_of(desk, two[0], cv, "Ann")
        assert [e["says"] is None for e in found["epochs"]] == ([True, False] if n == 0 else [False, False])
        assert (found["combined"] is None) == (n == 0)
    desk.store.close()


def test_the_queue_goes_object_by_object_and_keeps_to_stars_of_several_epochs(desk: Desk) -> None:
    def queue(order: str, **wanted: bool) -> list[str]:
        return ids(desk, desk.after("cv", order, Filter(**wanted), "Ann", None, 10, False)[0])

    found = queue("object")
    assert [sorted(found[:3]), found.index("outburst 1") + 1] == [sorted(found[:3]), found.index("outburst 2")]
    for star, n in (("outburst", 3), ("twice", 2)):
        first = min(k for k, id in enumerate(found) if id.startswith(star))
        assert {id.split()[0] for id in found[first : first + n]} == {star}
    assert found.index("twice 2") + 1 == found.index("twice 1")  # by time, whatever they are called
    assert sorted(queue("list", several=True)) == sorted(id for id, *_ in SEEN if id != "once")


def test_epochs_of_a_list_without_a_run_are_grouped_by_what_the_list_says(tmp_path: Path) -> None:
    files = write_spectra(tmp_path / "spectra", 3)
    lines = ["path,ra,dec", f"{files[0]},10.0,5.0", f"{files[1]},20.0,5.0", f"{files[2]},10.0001,5.0"]
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    desk = Desk(of_list([str(tmp_path / "list.csv")], tasks="cv"), SqliteStore(tmp_path / "r.db"))
    found = object_of(desk, desk.listing.items[0], load_task("cv"), "Ann")
    assert [e["item"] for e in found["epochs"]] == [desk.listing.items[0], desk.listing.items[2]]
    assert found["combined"] is None  # nobody has said anything yet
    desk.store.close()


def test_a_place_that_thousands_share_is_no_star_and_is_told_as_such(desk: Desk, tmp_path: Path) -> None:
    files = write_spectra(tmp_path / "spectra", 1) * (MOST_COMBINED + 1)
    run = write_run(
        tmp_path / "many",
        [decision(f"{f}.{n}", Answer.NO, 0.1, id=f"s{n}", ra=0.0, dec=0.0, mjd=float(n)) for n, f in enumerate(files)],
    )
    many = Desk(of_run(run), SqliteStore(tmp_path / "r.db"))
    for n in (0, 300, MOST_COMBINED):
        found = object_of(many, item(many, f"s{n}"), load_task("cv"), "Ann")
        listed = [e["id"] for e in found["epochs"]]
        assert len(listed) == MOST_EPOCHS
        assert f"s{n}" in listed
        assert listed[0] == f"s{found['first']}"
    assert found["combined"] is None
    assert "501 spectra at one place are not combined" in found["notes"][-1]
    many.store.close()


def test_epochs_are_stepped_through_and_stacked_and_votes_stay_with_their_spectra(desk: Desk, opens) -> None:  # noqa: F811
    def tones(page) -> set[tuple[int, ...]]:
        pixels = np.asarray(Image.open(io.BytesIO(page.locator("#plot").screenshot())).convert("RGB"))
        return set(map(tuple, np.unique(pixels.reshape(-1, 3), axis=0).tolist()))

    second, third = (0x0A, 0x7F, 0x6F), (0x8C, 0x3A, 0x86)  # --tone-1 and --tone-2 of page.css, light
    with served(desk) as address:
        page = opens(f"{address}#task=cv&item={item(desk, 'outburst 1')}", name="Ann")
        page.emulate_media(color_scheme="light")
        page.locator("#epochs", has_text="1 of 3 epochs").wait_for()
        page.locator("#epochs .combined", has_text="YES in 1 of 3 epochs (MJD 55400.5)").wait_for()
        page.keyboard.press(",")
        said(page, "no earlier epoch")
        page.keyboard.press(".")
        shown(page, "outburst 2")
        assert page.inner_text("#epochs .epoch[aria-pressed=true]") == "MJD 55400.50 · agent YES"
        page.keyboard.press("l")  # without the lines of the class, whose colours are near
        page.keyboard.press("e")
        page.keyboard.press("n")
        said(page, "NO saved")
        shown(page, "outburst 1")  # back on the way, where the visit began
        page.locator("#epochs .epoch", has_text="MJD 55400.50 · you NO").wait_for()
        page.locator("#epochs .combined", has_text="NO in all 3 epochs").wait_for()
        page.locator("#epochs .combined summary").click()
        page.locator("#epochs .combined p", has_text="Rule any_yes: one epoch with a trusted YES").wait_for()
        assert not {second, third} & tones(page)
        page.keyboard.press("o")
        said(page, "3 epochs over each other")
        page.wait_for_function("() => document.getElementById('stack').getAttribute('aria-pressed') === 'true'")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert {second, third} <= tones(page)
        page.keyboard.press("o")
        said(page, "one epoch alone")
        page.keyboard.press(" ")  # the mouse gave the focus back, so this goes on
        said(page, "The end of this queue")
        assert not page.locator("#epochs").is_visible()
        page.keyboard.press("q")
        page.select_option("#queue select[name=order]", "object")
        page.check("#queue input[name=several]")
        page.locator("#queue p[role=status]", has_text="of 4").wait_for()
        page.keyboard.press("Escape")
    votes = {i: {who: v.verdict for who, v in those.items()} for i, those in desk.voted("cv").items()}
    assert votes == {item(desk, "outburst 2"): {"Ann": "NO"}}


def test_spectra_without_a_place_are_objects_of_the_name_that_exports_give_them(tmp_path: Path) -> None:
    files = write_spectra(tmp_path / "spectra", 4)
    places = [{"ra": None, "dec": None}, {"ra": 10.0, "dec": None}, {"ra": 10.0, "dec": 95.0}, {"ra": 10.0, "dec": 5.0}]
    run = write_run(
        tmp_path / "run", [decision(f, Answer.NO, 0.1, **place) for f, place in zip(files, places, strict=True)]
    )
    desk = Desk(of_run(run), SqliteStore(tmp_path / "r.db"))
    with RunFolder.read(run) as folder:
        exported = object_names(folder)
    shown = {
        (desk.listing.files[i], desk.listing.rows[i]): object_of(desk, name, load_task("cv"), "Ann")["id"]
        for i, name in enumerate(desk.listing.items)
    }
    assert shown == exported
    assert [shown[f, 0] for f in files[:3]] == [f"{f}:0" for f in files[:3]]
    desk.store.close()


def test_targets_that_a_list_chooses_by_identifier_are_objects_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("TARGETID,HEALPIX\n39627,26065\n39628,26065\n", encoding="utf-8")
    listing = of_list([str(tmp_path / "list.csv")], tasks="cv", root=str(tmp_path))
    desk = Desk(listing, SqliteStore(tmp_path / "r.db"))
    shown = [object_of(desk, name, load_task("cv"), "Ann")["id"] for name in listing.items]
    assert shown == [f"{listing.files[0]}:targetid={n}" for n in (39627, 39628)]
    desk.store.close()


def test_a_run_that_is_matched_while_it_is_reviewed_is_grouped_by_what_was_found(desk: Desk) -> None:
    cv, once = load_task("cv"), item(desk, "once")
    assert desk.page("cv", "list", Filter(several=True), "Ann", 0, 50)["total"] == 5
    assert object_of(desk, once, cv, "Ann")["id"].startswith("J")
    place = desk.listing.place
    gaia = Gaia("77", 80.0, -3.0)
    assert desk.listing.run is not None
    of = [desk.listing.files[place[item(desk, id)]] for id in ("once", "twice 1")]
    write_matches(desk.listing.run, [Match((f, 0), gaia, 0.1, (), ("gaia",)) for f in of], {})
    found = object_of(desk, once, cv, "Ann")
    assert (found["id"], [e["id"] for e in found["epochs"]]) == ("Gaia DR3 77", ["twice 2", "twice 1", "once"])
    assert desk.page("cv", "list", Filter(several=True), "Ann", 0, 50)["total"] == len(SEEN)


def test_stacked_epochs_are_brought_to_one_medium_and_one_level(desk: Desk, opens) -> None:  # noqa: F811
    script = """async () => {
      const { Look } = await import('/static/look.js');
      const { Stacked } = await import('/static/stack.js');
      const n = 50, ones = new Float32Array(n).fill(NaN);
      const spectrum = (medium, level) => ({ medium, flux: new Float32Array(n).fill(level), sigma: ones,
        wave: Float64Array.from({ length: n }, (_, i) => 6500 + 2 * i) });
      const setting = { rest: true, z: 0, velocity: 0, smoothing: 0 };
      const one = new Stacked({ spectrum: spectrum('air', 4), tone: 0, label: '' }, 'vacuum');
      one.look(setting);
      const range = one.fit(new Look(spectrum('vacuum', 10), setting), 6520, 6560, false);
      const factor = one.factor;
      const same = new Stacked({ spectrum: spectrum('unknown', 4), tone: 0, label: '' }, 'vacuum').spectrum.wave[0];
      const none = one.fit(new Look(spectrum('vacuum', 10), setting), 9000, 9100, false);
      return [one.looked.wave[0], factor, range, same, none];
    }"""
    with served(desk) as address:
        wave, factor, (bottom, top), same, none = opens(address, name="Ann").evaluate(script)
    assert wave == pytest.approx(air_to_vacuum(6500.0), abs=1e-6)
    assert (factor, same, none) == (2.5, 6500, None)  # nothing of it lies in the last window
    assert bottom < 10 < top


MATCH = Gaia(
    "4295806720", 10.0, -3.0, parallax=5.0, parallax_error=0.1, ruwe=1.02, g=15.0, bp_rp=0.4, pmra=30.0, pmdec=40.0
)


def matched(run: Path, file: str) -> None:
    key = (file, 0)
    known = (Known("vsx", "SIM <b>Gem</b>", "UGSS"),)
    write_matches(
        run,
        [Match(key, MATCH, 0.31, known, ("gaia", "vsx"), ("2 Gaia sources within 2″; the nearer was taken",))],
        {Place(file, 0, "cv"): WithGaia("NO", "UNSURE", "spectrum, gaia", "it lies below the main sequence")},
    )


def test_what_was_matched_is_shown_with_its_diagram_and_nothing_where_nothing_was(
    desk: Desk,
    opens,  # noqa: F811
    tmp_path: Path,
) -> None:
    assert desk.listing.run is not None
    with served(desk) as address:
        page = opens(f"{address}#task=cv&item={item(desk, 'outburst 1')}", name="Ann")
        page.locator("#epochs", has_text="1 of 3 epochs").wait_for()
        assert page.inner_text("#star") == ""
        matched(desk.listing.run, desk.listing.files[0])  # while the page is open
        page.reload()
        page.locator("#star", has_text="Known as vsx: SIM <b>Gem</b> (UGSS)").wait_for()
        told = page.inner_text("#star")
        for words in (
            "Gaia DR3\n4295806720",
            "5.00 ± 0.10 mas",
            "8.495 ± 0.043",
            "1.02",
            "50 mas/yr",
            "0.31″",
            "UNSURE",
        ):
            assert words in told, words
        assert page.locator("#star svg.cmd circle").count() == 1
        assert "M_G = 8.49" in page.locator("#star svg title").text_content().replace("8.50", "8.49")
    out = write_object_page(desk, item(desk, "outburst 1"), "cv", tmp_path / "one.html")
    page = opens(out.as_uri())
    page.locator("#star svg.cmd").wait_for()
    assert "SIM <b>Gem</b>" in page.inner_text("#star")


def test_a_blind_review_shows_gaias_numbers_and_hides_what_others_call_the_star(run: Path) -> None:
    from specvet.review.matched import Matched

    listing = of_run(run)
    matched(run, listing.files[0])
    found = Matched(listing)
    told, hidden = (found.of(0, "cv", hidden=blind) for blind in (False, True))
    assert told is not None
    assert hidden is not None
    assert (told["known_as"], hidden["known_as"]) == ("vsx: SIM <b>Gem</b> (UGSS)", None)
    assert (hidden["known"], hidden["with_gaia"]) == ([], None)
    assert hidden["gaia"]["g"] == 15.0
    assert found.of(1, "cv", hidden=False) is None
    (run / "match" / "matches.parquet").write_bytes(b"damaged")
    told = Matched(listing).of(0, "cv", hidden=False)
    assert told is not None
    assert "run specvet match again" in told["trouble"]


def test_a_star_that_no_catalogue_knows_is_called_new_with_the_catalogues_that_were_asked(desk: Desk, opens) -> None:  # noqa: F811
    script = """async () => {
      const { showStar } = await import('/static/star.js');
      showStar({ known_as: 'new', asked: ['gaia', 'vsx', 'mine'], gaia: null, cmd: null, notes: [], with_gaia: null });
      return document.getElementById('star').innerText;
    }"""
    with served(desk) as address:
        told = opens(address, name="Ann").evaluate(script)
    assert told.split("\n\n")[1:] == ["New: not in vsx, mine", "No Gaia source was found here."]
