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
    assert (fourth["comment"], fourth["quality"], fourth["flagged"]) == ("broad Hα, 双峰", "4", "1")
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


def test_undo_brings_back_what_was_typed_with_the_decision(list_desk, opens):  # noqa: F811
    with served(list_desk) as address:
        page = opens(address, name="Ann")
        first = page.inner_text("#object-id")
        page.keyboard.press("c")
        page.keyboard.type("broad Hα, 双峰")
        page.keyboard.press("Escape")
        page.keyboard.press("3")
        page.keyboard.press("f")
        page.check("[name=issue][value=C]")
        page.fill("#likelier", "M dwarf")
        page.fill("#z", "0.002")
        page.keyboard.press("Escape")
        page.keyboard.press("n")
        said(page, "NO saved")
        second = page.inner_text("#object-id")
        page.keyboard.press("Control+z")
        said(page, "NO taken back")
        shown(page, first)
        assert page.input_value("#comment") == "broad Hα, 双峰"
        assert page.input_value("#likelier") == "M dwarf"
        assert page.is_checked("[name=quality][value='3']")
        assert page.is_checked("[name=issue][value=C]")
        assert page.get_attribute("#flag", "aria-pressed") == "true"
        assert page.input_value("#z") == "0.002"
        # It is a draft like any other: kept when one goes on, and decided with the next key.
        page.keyboard.press(" ")
        shown(page, second)
        page.keyboard.press("b")
        shown(page, first)
        page.keyboard.press("y")
        said(page, "YES saved")
        # What was taken back without a word leaves the form empty.
        shown(page, second)
        page.keyboard.press("u")
        said(page, "UNSURE saved")
        page.keyboard.press("Control+z")
        said(page, "UNSURE taken back")
        shown(page, second)
        assert page.input_value("#comment") == ""
    (vote,) = [v for those in list_desk.voted("cv").values() for v in those.values()]
    assert (vote.verdict, vote.comment, vote.quality, vote.issues) == ("YES", "broad Hα, 双峰", 3, "C")
    assert (vote.likelier, vote.flagged) == ("M dwarf", True)


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


def test_a_key_that_comes_before_the_spectrum_decides_on_neither_it_nor_the_one_before(list_desk, opens):  # noqa: F811
    on, held, passing = list_desk.listing.items[5], [], []

    def hold(route):
        if passing or route.request.url.endswith(on):
            route.continue_()
        else:
            held.append(route)

    with served(list_desk) as address:
        page = opens(address, name="Ann")
        page.goto("about:blank")
        page.route("**/api/spectrum/*", hold)
        page.goto(f"{address}#task=cv&item={on}")
        page.wait_for_function("on => document.body.dataset.item === on", arg=on)
        page.keyboard.press(" ")
        page.keyboard.press("y")
        said(page, "is still coming")
        assert votes(list_desk) == {}
        passing.append(True)
        for route in held:
            route.continue_()
        page.wait_for_function("on => document.body.dataset.item !== on", arg=on)
        then = page.evaluate("document.body.dataset.item")
        page.keyboard.press("n")
        said(page, "NO saved")
        page.unroute("**/api/spectrum/*", hold)
    assert {item: [v.verdict for v in of.values()] for item, of in list_desk.voted("cv").items()} == {then: ["NO"]}


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


def window(page) -> list[float]:
    """The wavelengths that are on the plot, by the numbers below it."""
    return [float(x) for x in page.inner_text("#window").removesuffix(" Å").split("–")]


def test_two_fingers_stretch_the_spectrum_one_moves_it_and_the_mouse_and_the_keys_do_as_before(list_desk, opens):  # noqa: F811
    with served(list_desk) as address:
        page = opens(address, name="Ann")
        tools = page.context.new_cdp_session(page)
        tools.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
        box = page.locator("#plot .u-over").bounding_box()
        scale = 3000.0 / box["width"]  # Å a pixel, of the whole spectrum

        def touch(kind: str, *places: float) -> None:
            points = [{"x": box["x"] + x, "y": box["y"] + 100, "id": n} for n, x in enumerate(places)]
            tools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        def on_plot(low: float, high: float) -> None:
            page.wait_for_function(
                "([low, high]) => { const w = document.getElementById('window').textContent.split('–').map(parseFloat);"
                " return Math.abs(w[0] - low) < 3 && Math.abs(w[1] - high) < 3; }",
                arg=[low, high],
            )

        on_plot(4000, 7000)
        # Fingers at 200 and 300 px part to 100 and 400: three times as close, and what was under each stays there.
        touch("touchStart", 200, 300)
        touch("touchMove", 150, 350)
        touch("touchMove", 100, 400)
        low = 4000 + 200 * scale - 100 * scale / 3
        on_plot(low, low + 3000 / 3)
        touch("touchEnd")
        # One finger takes the spectrum along by 60 px; the browser keeps the first few to see whether it scrolls.
        touch("touchStart", 300)
        touch("touchMove", 330)
        touch("touchMove", 360)
        page.wait_for_function(
            f"() => parseFloat(document.getElementById('window').textContent) < {low - 30 * scale / 3}"
        )
        low, high = window(page)
        assert high - low == pytest.approx(1000, abs=2)
        assert 4000 + 200 * scale - 160 * scale / 3 - 3 <= low
        # A second one comes down, and both move to the right by 40 px: nothing is stretched.
        touch("touchStart", 360, 460)
        touch("touchMove", 400, 500)
        on_plot(low - 40 * scale / 3, high - 40 * scale / 3)
        # Fingers that meet or cross say nothing of a scale.
        touch("touchMove", 500, 495)
        touch("touchEnd")
        assert window(page)[1] - window(page)[0] == pytest.approx(1000, abs=2)
        page.keyboard.press("r")
        touch("touchStart", 100)
        touch("touchMove", 140)
        touch("touchEnd")
        on_plot(4000, 7000)  # nothing lies to the left of the whole
        tools.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
        # The wheel stretches around the pointer, the keys around the middle, a drag chooses, a double click shows all.
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
        page.mouse.wheel(0, -400)
        on_plot(5500 - 1500 / 2.71828, 5500 + 1500 / 2.71828)
        page.keyboard.press("r")
        page.keyboard.press("+")
        on_plot(5500 - 0.7 * 1500, 5500 + 0.7 * 1500)
        page.keyboard.press("ArrowRight")
        on_plot(5500 - 0.7 * 1500 + 420, 5500 + 0.7 * 1500 + 420)
        page.keyboard.press("r")
        page.mouse.move(box["x"] + 100, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 200, box["y"] + 100, steps=4)
        page.mouse.up()
        on_plot(4000 + 100 * scale, 4000 + 200 * scale)
        page.mouse.dblclick(box["x"] + 150, box["y"] + 100)
        on_plot(4000, 7000)


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
              unitWords('10**-17 erg/(s cm2 Angstrom)'), unitWords('1E-17 erg/cm^2/s/Ang'),
              valueAndError(-5.97, 1.6), valueAndError(0.98, null)];
    }"""
    with served(list_desk) as address:
        small, large, none, unit, of_sdss, value, alone = opens(address, name="Ann").evaluate(script)
    assert small == pytest.approx([0.4e-16, 0.6e-16, 0.8e-16, 1e-16, 1.2e-16, 1.4e-16, 1.6e-16])
    assert large == [0, 2000, 4000, 6000, 8000, 10000]
    assert none == [3]
    assert (unit, of_sdss) == ("10⁻¹⁷ erg / (s cm² Å)", "10⁻¹⁷ erg / cm² / s / Å")
    assert (value, alone) == ("−6.0 ± 1.6", "0.98")


def test_an_unreadable_spectrum_is_called_by_its_file_and_id_and_can_be_decided_on(list_desk, opens, tmp_path):  # noqa: F811
    path = tmp_path / "spectra" / "s0000.txt"
    path.write_text("no numbers here", encoding="utf-8")
    item = list_desk.listing.items[0]
    list_desk.listing.ids[0] = "star 7"
    with served(list_desk) as address:
        page = opens(f"{address}#task=cv&item={item}", name="Ann")
        page.locator("#no-plot", has_text="flag it, or go on to the next").wait_for()
        assert page.inner_text("#object-id") == f"star 7 · {path}"
        assert item not in page.inner_text("body")
        page.keyboard.press("u")
        said(page, "UNSURE saved")
    assert [list(v.values()) for v in votes(list_desk).values()] == [["UNSURE"]]


def test_what_is_simulated_is_marked_wherever_it_is_listed_or_shown(opens, tmp_path):  # noqa: F811
    write_spectra(tmp_path / "spectra", 3)
    for name in ("s0000.txt", "s0002.txt"):
        path = tmp_path / "spectra" / name
        path.write_text("# SIMULATED\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    desk = Desk(of_list([str(tmp_path / "spectra")], tasks="cv"), SqliteStore(tmp_path / "review.db"))
    desk.listing.simulated[0] = -1  # as of a long list, whose files are not opened beforehand
    with served(desk) as address:
        page = opens(f"{address}#task=cv&item={desk.listing.items[2]}", name="Ann")
        shown(page, "s0002")
        assert page.locator("#simulated").is_visible()
        page.keyboard.press("q")
        page.select_option("#queue select[name=order]", "list")
        page.locator("#queue tbody tr:first-child", has_text="s0000").wait_for()
        assert [t.split() for t in page.locator("#queue td.id").all_inner_texts()] == [
            ["s0000", "SIMULATED"],
            ["s0001"],
            ["s0002", "SIMULATED"],
        ]
        page.keyboard.press("Escape")
        page.locator("#queue:not([open])").wait_for(state="attached")
        page.wait_for_load_state("networkidle")  # the queue begins anew in its other order
        page.keyboard.press("x")
        page.locator(".tile").nth(2).wait_for()
        marked = page.eval_on_selector_all(
            ".tile", "(all) => all.filter((t) => t.querySelector('.simulated')).map((t) => t.dataset.item)"
        )
        assert sorted(marked) == sorted(desk.listing.items[::2])
        assert "SIMULATED" in page.get_attribute(f".tile[data-item='{desk.listing.items[0]}']", "aria-label")
    desk.store.close()


def test_a_store_that_can_only_be_read_is_shown_and_every_key_that_decides_says_so(run_desks, opens):  # noqa: F811
    from review_lab import draft, unwritable

    desk = run_desks()
    desk.decide("Ann", draft(desk.listing.items[0], "YES", comment="broad"))
    folder = desk.listing.run
    desk.store.close()
    with unwritable(folder):
        desk = run_desks()
        with served(desk) as address:
            page = opens(f"{address}#task=cv&item={desk.listing.items[0]}", name="Ann")
            page.locator("#notices.readonly", has_text="Only for looking").wait_for()
            page.locator("#mine", has_text="You said YES, “broad”").wait_for()
            first = page.inner_text("#object-id")
            for key in ("y", "n", "u", "Control+z"):
                page.evaluate("document.getElementById('status').textContent = ''")
                page.keyboard.press(key)
                said(page, "nothing can be decided")
                assert page.inner_text("#object-id") == first
            page.keyboard.press(" ")
            page.locator("#object-id", has_not_text=first).wait_for()
            page.keyboard.press("x")
            page.locator(".tile:focus").wait_for()
            page.keyboard.press("y")
            said(page, "nothing can be decided")
        assert len(desk.store.since(0)) == 1


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
