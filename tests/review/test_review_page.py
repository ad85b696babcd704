"""The review page in a real browser: Debian's Chromium, by keyboard, with nothing but this machine to ask."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")

from browser_lab import VIEWPORT, browser, opens, said, served, shown, usual_tab  # noqa: F401 - fixtures
from review_lab import WAVE, decision, write_run, write_spectra

from specvet.records.schema import Answer
from specvet.review.desk import Desk
from specvet.review.listing import Listing, item_name
from specvet.review.outputs import export_reviewed
from specvet.review.page import write_object_page
from specvet.review.source import of_list, of_run
from specvet.review.store import SqliteStore
from specvet.spectra import Spectrum
from specvet.spectra.lines import air_to_vacuum, in_medium
from specvet.spectra.smoothing import smoothed
from specvet.tasks import load_task


@pytest.fixture
def list_desk(tmp_path: Path):
    write_spectra(tmp_path / "spectra", 20)
    store = SqliteStore(tmp_path / "review.db")
    yield Desk(of_list([str(tmp_path / "spectra")], tasks="cv"), store)
    store.close()


@pytest.fixture
def run_desks(tmp_path: Path):
    """Makes desks over a run of six spectra, open or blind, all on one store."""
    files = write_spectra(tmp_path / "spectra", 6)
    said_of = [
        (Answer.YES, 0.97),
        (Answer.NO, 0.03),
        (Answer.UNSURE, 0.5),
        (Answer.YES, 0.8),
        (Answer.NO, 0.4),
        (Answer.NO, 0.1),
    ]
    run = write_run(tmp_path / "run", [decision(f, a, p) for f, (a, p) in zip(files, said_of, strict=True)])
    stores = []

    def make(blind: bool = False) -> Desk:
        stores.append(SqliteStore(run / "review.db"))
        return Desk(of_run(run), stores[-1], blind=blind)

    yield make
    for store in stores:
        store.close()


def votes(desk: Desk) -> dict[str, dict[str, str]]:
    """Id → reviewer → verdict."""
    ids = dict(zip(desk.listing.items, desk.listing.ids, strict=True))
    return {ids[item]: {who: v.verdict for who, v in those.items()} for item, those in desk.voted("cv").items()}


def test_twenty_spectra_go_from_a_list_to_a_table_by_keyboard_alone(list_desk, opens, tmp_path):  # noqa: F811
    with served(list_desk) as address:
        page = opens(address, name="Ann")
        page.keyboard.press("q")
        page.locator("#queue tbody tr").first.wait_for()
        page.keyboard.press("ArrowDown")  # the order: as listed
        page.locator("#queue tbody tr:first-child", has_text="s0000").wait_for()
        for _ in range(2):  # to a field, in which Enter begins
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        shown(page, "s0000")
        expected = {}
        for i in range(20):
            name = f"s{i:04d}"
            shown(page, name)
            verdict = "yun"[i % 3]
            expected[name] = {"Ann": {"y": "YES", "u": "UNSURE", "n": "NO"}[verdict]}
            if i == 3:
                page.keyboard.press("4")
                page.keyboard.press("f")
                page.keyboard.press("c")
                page.keyboard.type("broad Hα, 双峰")
                page.keyboard.press("Escape")
            page.keyboard.press(verdict)
        page.locator("#no-plot", has_text="The end of this queue").wait_for()
        page.locator("#count", has_text="20 / 20").wait_for()
    assert votes(list_desk) == expected
    out = tmp_path / "accepted.csv"
    assert export_reviewed(list_desk, out, decisions=["YES"]) == 7
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert [row["id"] for row in rows] == [f"s{i:04d}" for i in range(0, 20, 3)]
    fourth = rows[1]
    assert (fourth["comment"], fourth["quality"], fourth["flagged"]) == ("broad Hα, 双峰", "4.0", "1")
    event = next(v for those in list_desk.voted("cv").values() for v in those.values() if v.flagged)
    assert event.ms is not None
    assert event.shown["view"] == "single"
    assert event.shown["window"] == [4000.0, 7000.0]


def test_undo_takes_back_the_last_decision_and_shows_its_spectrum(list_desk, opens):  # noqa: F811
    with served(list_desk) as address:
        page = opens(address, name="Ann")
        first = page.inner_text("#object-id")
        page.keyboard.press("y")
        said(page, "YES saved")
        page.keyboard.press("Control+z")
        said(page, "YES taken back")
        shown(page, first)
        assert votes(list_desk) == {}
        page.keyboard.press("n")
        said(page, "NO saved")
        page.keyboard.press("b")
        page.locator("#mine", has_text="You said NO").wait_for()
    assert votes(list_desk) == {first: {"Ann": "NO"}}


def test_keys_mean_nothing_while_somebody_types_or_composes(list_desk, opens):  # noqa: F811
    with served(list_desk) as address:
        page = opens(address, name="Ann")
        first = page.inner_text("#object-id")
        page.keyboard.press("c")
        page.keyboard.type("yn u1 4?x")
        page.keyboard.press("Escape")
        assert page.input_value("#comment") == "yn u1 4?x"
        composing = (
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'y', isComposing: true, bubbles: true}))"
        )
        page.evaluate(composing)
        held = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'y', repeat: true, bubbles: true}))"
        page.evaluate(held)
        assert page.inner_text("#object-id") == first
        assert votes(list_desk) == {}
        # Going on without a decision keeps what was written for when one comes back.
        page.keyboard.press(" ")
        said(page, "is kept until you decide it")
        assert page.input_value("#comment") == ""
        page.keyboard.press("b")
        shown(page, first)
        assert page.input_value("#comment") == "yn u1 4?x"


def test_a_decision_whose_answer_is_lost_is_sent_again_and_counts_once(list_desk, opens):  # noqa: F811
    with served(list_desk) as address:
        page = opens(address, name="Ann")
        first = page.inner_text("#object-id")

        def lose(route):
            route.fetch()
            route.abort()

        page.route("**/api/decisions", lose)
        page.keyboard.press("y")
        said(page, "not saved: the server does not answer")
        assert page.inner_text("#object-id") == first
        page.unroute("**/api/decisions")
        page.keyboard.press("y")
        said(page, "YES saved")
    assert [e.verdict for e in list_desk.store.since(0)] == ["YES"]


def test_two_people_at_once_lose_nothing_and_see_each_other(run_desks, opens):  # noqa: F811
    desk = run_desks()
    with served(desk) as address:
        ann, bo = opens(address, name="Ann"), opens(address, name="Bo")
        first = ann.inner_text("#object-id")
        assert bo.inner_text("#object-id") == first
        for verdict in "ynu":
            ann.keyboard.press(verdict)
            bo.keyboard.press("n")
            said(ann, "saved")
            said(bo, "saved")
            ann.evaluate("document.getElementById('status').textContent = ''")
            bo.evaluate("document.getElementById('status').textContent = ''")
        for _ in range(3):
            ann.keyboard.press("b")
        shown(ann, first)
        ann.locator("#others", has_text="Bo: NO").wait_for()
        ann.locator("#who").click()
        ann.locator("#people", has_text="3 in common").wait_for()
    assert len(votes(desk)) == 3
    assert votes(desk)[first] == {"Ann": "YES", "Bo": "NO"}
    assert len(desk.store.since(0)) == 6


def test_a_blind_review_shows_the_agent_only_after_the_decision(run_desks, opens):  # noqa: F811
    desk = run_desks(blind=True)
    with served(desk) as address:
        page = opens(address, name="Ann")
        assert page.inner_text("#agent").endswith("Hidden until you have decided.")
        assert page.locator(".step, .chip").count() == 0
        page.keyboard.press("n")
        said(page, "the agent had said")
        assert page.inner_text("#agent").endswith("Hidden until you have decided.")
        page.keyboard.press("b")
        page.locator("#agent .chip").wait_for()
        page.keyboard.press("x")
        page.locator(".tile").first.wait_for()
        assert page.locator(".tile .chip").count() == 0
    event = desk.store.since(0)[0]
    assert event.shown["agent_hidden"] is True


def test_the_agents_windows_are_walked_through_and_stay_in_place_in_either_frame(run_desks, opens):  # noqa: F811
    desk = run_desks()
    with served(desk) as address:
        page = opens(address, name="Ann")
        page.locator(".step[data-window]").first.wait_for()
        page.keyboard.press("]")
        page.locator(".step.active", has_text="6400–6700 Å").wait_for()
        page.locator("#window", has_text="6376–6724 Å").wait_for()
        # z = 0.1: the rest frame is 1.1 times shorter, and the same pixels stay on the plot.
        page.fill("#z", "0.1")
        page.keyboard.press("Enter")
        page.keyboard.press("w")
        page.locator("#frame", has_text="Rest frame").wait_for()
        page.locator("#window", has_text="5796–6113 Å").wait_for()
        page.keyboard.press("v")
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#velocity-said") == "+10 km/s"
        page.keyboard.press("r")
        page.locator("#window", has_text="3636–6363 Å").wait_for()  # 4000 and 7000 by 1.1 and 10 km/s
        page.keyboard.press("s")
        assert page.inner_text("#smoothing-said") == "σ 0.5 px"
        page.keyboard.press("y")
        said(page, "YES saved")
    event = desk.store.since(0)[0]
    assert event.z == pytest.approx(0.1 + 1.1 * 10 / 299792.458, abs=1e-6)
    assert event.shown["smoothing"] == 0.5
    assert event.shown["frame"] == "rest"


def test_the_grid_decides_by_keys_and_rejects_the_rest_of_its_page(run_desks, opens):  # noqa: F811
    desk = run_desks()
    with served(desk) as address:
        page = opens(address, name="Ann")
        page.keyboard.press("x")
        page.locator(".tile:focus").wait_for()
        assert page.locator(".tile").count() == 6
        page.keyboard.press("ArrowRight")
        page.keyboard.press("y")
        said(page, "YES saved")
        page.locator("#grid-reject", has_text="Reject the 5 undecided").click()
        page.locator("#grid-said", has_text="nothing in this queue").wait_for()
    assert sorted(v["Ann"] for v in votes(desk).values()) == ["NO"] * 5 + ["YES"]
    assert {e.shown["view"] for e in desk.store.since(0)} == {"grid"}


def test_a_queue_of_a_hundred_thousand_opens_filters_and_goes_on(tmp_path, opens):  # noqa: F811
    n = 100_000
    files = write_spectra(tmp_path, 4)
    listing = Listing(
        kind="list",
        title="a long list",
        tasks=(load_task("cv"),),
        items=[item_name(str(i), 0) for i in range(n)],
        files=[files[i % 4] for i in range(n)],
        rows=[0] * n,
        ids=[f"star {i:06d}" for i in range(n)],
        surveys=["LAMOST"] * n,
        snr=np.linspace(1, 100, n, dtype=np.float32),
        ra=np.full(n, 10.0),
        dec=np.full(n, -5.0),
        pipeline_class=["STAR"] * n,
        z_given=np.full(n, np.nan),
        look_z=np.full(n, np.nan),
        z_file=np.full(n, np.nan),
    )
    store = SqliteStore(tmp_path / "review.db")
    desk = Desk(listing, store)
    with served(desk) as address:
        page = opens(address, name="Ann")
        page.locator("#count", has_text="0 / 100,000").wait_for()
        page.keyboard.press("q")
        page.locator("#queue p[role=status]", has_text="1–100 of 100,000").wait_for()
        page.fill("#queue input[name=text]", "star 09999")
        page.select_option("#queue select[name=order]", "snr")
        page.locator("#queue p[role=status]", has_text="1–10 of 10").wait_for()
        page.locator("#queue button", has_text="Begin with the first").click()
        shown(page, "star 099999")
        page.keyboard.press("n")
        shown(page, "star 099998")
    store.close()


def test_light_dark_and_a_small_screen_hold_everything_with_a_name_for_each_control(run_desks, opens):  # noqa: F811
    desk = run_desks()
    nameless = """[...document.querySelectorAll('button, input, select, textarea')]
      .filter((e) => !e.closest('[hidden]') && !e.labels?.length)
      .filter((e) => !e.getAttribute('aria-label') && !e.textContent.trim()).map((e) => e.outerHTML)"""
    with served(desk) as address:
        page = opens(address, name="Ann")
        page.set_viewport_size({"width": 390, "height": 844})
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        box = page.locator(".answers").bounding_box()
        assert box["y"] + box["height"] == pytest.approx(844, abs=1)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        assert page.evaluate(nameless) == []
        page.set_viewport_size({"width": 1366, "height": 768})
        page.emulate_media(color_scheme="light")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("document.documentElement.scrollHeight") <= 768
        assert page.get_attribute("#plot", "role") == "img"
        assert "4000 to 7000" in page.get_attribute("#plot", "aria-label")
        page.keyboard.press("g")
        links = page.eval_on_selector_all("#links a", "(all) => all.map((a) => [a.hostname, a.rel])")
        assert [host for host, _ in links][:2] == ["simbad.cds.unistra.fr", "aladin.cds.unistra.fr"]
        assert {rel for _, rel in links} == {"noopener noreferrer"}
        page.set_viewport_size(VIEWPORT)


def test_the_pages_wavelengths_and_smoothing_are_those_of_the_library(list_desk, opens):  # noqa: F811
    rng = np.random.default_rng(5)
    flux = rng.normal(10, 1, 60)
    ivar = np.where(rng.random(60) < 0.1, 0.0, 4.0)
    spectrum = Spectrum(wavelength=np.linspace(5000, 5060, 60), flux=flux, ivar=ivar)
    sigma = [s if np.isfinite(s) else None for s in spectrum.sigma]
    script = """async ([flux, sigma, width, waves]) => {
      const { smoothed } = await import('/static/smooth.js');
      const { EXTRAGALACTIC, airToVacuum, fromAir } = await import('/static/waves.js');
      const made = smoothed(flux, sigma.map((s) => s ?? NaN), width);
      return {flux: [...made.flux], sigma: [...made.sigma], vacuum: waves.map(airToVacuum),
              unknown: waves.map((w) => fromAir(w, 'unknown')),
              halpha: EXTRAGALACTIC.find((line) => line.name === 'Hα').wave};
    }"""
    waves = [3933.663, 4861.333, 6562.8, 8542.091]
    with served(list_desk) as address:
        found = opens(address, name="Ann").evaluate(script, [flux.tolist(), sigma, 1.5, waves])
    expected = smoothed(spectrum, 1.5)
    assert found["flux"] == pytest.approx(expected.flux.tolist(), rel=1e-5)
    assert found["sigma"] == pytest.approx(expected.sigma.tolist(), rel=1e-5)
    assert found["vacuum"] == pytest.approx([air_to_vacuum(w) for w in waves], abs=1e-6)
    assert found["halpha"] == pytest.approx(6562.8, abs=0.02)
    assert found["unknown"] == pytest.approx([in_medium(w, "air", "unknown") for w in waves], abs=1e-6)


def test_the_flux_axis_has_round_ticks_and_a_readable_unit_however_small_the_flux(list_desk, opens):  # noqa: F811
    script = """async () => {
      const { ticksOf, unitWords } = await import('/static/plot.js');
      const { valueAndError } = await import('/static/dom.js');
      return [ticksOf(0.3e-16, 1.62e-16, 10), ticksOf(-0.5, 11000, 10), ticksOf(3, 3, 10),
              unitWords('10**-17 erg/(s cm2 Angstrom)'), valueAndError(-5.97, 1.6), valueAndError(0.98, null)];
    }"""
    with served(list_desk) as address:
        small, large, none, unit, value, alone = opens(address, name="Ann").evaluate(script)
    assert small == pytest.approx([0.4e-16, 0.6e-16, 0.8e-16, 1e-16, 1.2e-16, 1.4e-16, 1.6e-16])
    assert large == [0, 2000, 4000, 6000, 8000, 10000]
    assert none == [3]
    assert unit == "10⁻¹⁷ erg / (s cm² Å)"
    assert (value, alone) == ("−6.0 ± 1.6", "0.98")


def test_an_unreadable_spectrum_is_told_and_can_be_passed(list_desk, opens, tmp_path):  # noqa: F811
    (tmp_path / "spectra" / "s0000.txt").write_text("no numbers here", encoding="utf-8")
    item = list_desk.listing.items[0]
    with served(list_desk) as address:
        page = opens(f"{address}#task=cv&item={item}", name="Ann")
        page.locator("#no-plot", has_text="flag it, or go on to the next").wait_for()
        page.keyboard.press("u")
        said(page, "UNSURE saved")
    assert [list(v.values()) for v in votes(list_desk).values()] == [["UNSURE"]]


def test_the_page_of_one_object_is_complete_in_itself(run_desks, opens, tmp_path):  # noqa: F811
    from review_lab import draft

    desk = run_desks()
    item = desk.listing.items[0]
    desk.decide("Ann", draft(item, "YES", quality=4, comment="</script><b>broad</b>"))
    out = write_object_page(desk, item, "cv", tmp_path / "one.html")
    page = opens(out.as_uri())
    page.locator("#others", has_text="Ann: YES, quality 4, “</script><b>broad</b>”").wait_for()
    page.locator("#agent .chip.YES").wait_for()
    page.keyboard.press("]")
    page.locator("#window", has_text="6376–6724 Å").wait_for()
    assert page.locator("#plot canvas").count() == 1
    object_ = json.loads(page.inner_text("#object") or page.text_content("#object"))
    assert object_["tasks"][0]["votes"][0]["reviewer"] == "Ann"
    assert WAVE.size == 300
