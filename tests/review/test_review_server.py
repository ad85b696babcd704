"""The server: what the page is told, that a vote is kept before it is acknowledged, and who is sent away."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from review_lab import WAVE, decision, write_run, write_spectra
from starlette.testclient import TestClient

from specvet.records.schema import Answer
from specvet.review.app import create_app
from specvet.review.desk import Desk
from specvet.review.events import Draft
from specvet.review.guard import Access, AccessError
from specvet.review.source import of_list, of_run
from specvet.review.store import SqliteStore, open_store

HOST = "127.0.0.1:8765"
TOKEN = "a-token-of-a-team-1"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    names = write_spectra(folder / "spectra", 3)
    decisions = [decision(names[0], Answer.YES, 0.97), decision(names[1], Answer.NO, 0.2)]
    gone = decision(str(folder / "spectra" / "gone.txt"), Answer.NO, 0.1)
    return write_run(folder / "run", [*decisions, gone])


class Browser(TestClient):
    """Carries the page's token, as the page does."""

    def __init__(self, desk: Desk, access: Access, name: str | None = "Ann") -> None:
        super().__init__(create_app(desk, access), base_url=f"http://{HOST}", raise_server_exceptions=False)
        self.headers["origin"] = f"http://{HOST}"
        self.introduce(name)

    def introduce(self, name: str | None) -> None:
        found = self.get("/api/session")
        if found.status_code == 200:
            self.headers["x-csrf-token"] = found.json()["csrf"]
            if name is not None:
                assert self.post("/api/session", json={"reviewer": name}).json()["reviewer"] == name

    def decide(self, item: str, verdict: str = "NO", **fields: Any) -> Any:
        self._sent = getattr(self, "_sent", 0) + 1
        key = f"{id(self):x}-{self._sent:06d}"
        return self.post("/api/decisions", json={"key": key, "item": item, "task": "cv", "verdict": verdict} | fields)


@pytest.fixture
def desk(run: Path, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(of_run(run), SqliteStore(tmp_path / "r.db"))
    yield desk
    desk.store.close()


@pytest.fixture
def access(desk: Desk) -> Access:
    return Access("127.0.0.1", 8765, None, desk.store.secret)


@pytest.fixture
def page(desk: Desk, access: Access) -> Browser:
    return Browser(desk, access)


def binary(content: bytes) -> tuple[dict[str, Any], np.ndarray]:
    (length,) = struct.unpack("<I", content[:4])
    start = 4 * -(-(4 + length) // 4)
    return json.loads(content[4 : 4 + length]), np.frombuffer(content[start:], "<f4")


def test_the_session_tells_what_is_reviewed_and_how_to_draw_it(page: Browser) -> None:
    told = page.get("/api/session").json()
    assert (told["title"], told["kind"], told["items"], told["blind"]) == ("run", "run", 3, False)
    assert told["agent"] == {"policy": "line-indices", "model": ""}
    assert told["reviewer"] == "Ann"
    (task,) = told["tasks"]
    assert task["key"] == "cv"
    assert {"name": "Hα", "wave": 6562.8, "kind": "either", "own": True} in task["lines"]
    own = {line["name"]: line["own"] for line in task["lines"]}
    assert (own["Ca II 8542"], own["Pa15 8545"]) == (True, False)  # names of a task's own lines go before others'
    assert [w["key"] for w in task["windows"]][:2] == ["halpha", "hbeta"]
    waves = [line["wave"] for line in task["lines"]]
    assert min(np.diff(waves)) > 0


def test_bands_of_a_task_reach_from_their_edge_into_the_band(tmp_path: Path) -> None:
    from specvet.review.describing import described
    from specvet.tasks import load_task

    bands = {band["name"]: band for band in described(load_task("gm"))["bands"]}
    assert bands
    assert all(band["low"] < band["high"] and band["head"] in (band["low"], band["high"]) for band in bands.values())


def test_a_spectrum_comes_as_a_header_and_float32_arrays(page: Browser, run: Path) -> None:
    item = page.get("/api/queue", params={"order": "list"}).json()["rows"][0][0]
    reply = page.get(f"/api/spectrum/{item}")
    header, values = binary(reply.content)
    wave, flux, sigma = values.reshape(3, -1)
    assert (header["item"], header["id"], header["n"], header["medium"]) == (item, "s0000.txt", 300, "unknown")
    assert (header["ra"], header["dec"], header["look_z"]) == (10.5, -3.0, 0.0)
    assert np.abs(wave - WAVE).max() < 5e-4
    assert flux[np.argmin(np.abs(wave - 6563))] == pytest.approx(3.0, abs=0.3)
    assert np.isnan(sigma).all()
    again = page.get(f"/api/spectrum/{item}", headers={"if-none-match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = page.get(f"/api/spectrum/{item}", headers={"accept-encoding": "identity"})
    assert reply.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert plain.content == reply.content


def test_a_spectrum_that_cannot_be_read_says_why_and_the_queue_goes_on(page: Browser) -> None:
    items = page.get("/api/next", params={"order": "list", "n": 3}).json()["items"]
    reply = page.get(f"/api/spectrum/{items[2]}")
    assert reply.status_code == 422
    assert "gone.txt" in reply.json()["error"]
    thumbnails, values = binary(page.get("/api/thumbnails", params={"items": ",".join(items)}).content)
    assert [(t["item"], t["n"], "error" in t) for t in thumbnails["items"]] == [
        (items[0], 150, False), (items[1], 150, False), (items[2], 0, True),
    ]  # fmt: skip
    assert values.size == 4 * 150


def test_evidence_has_looks_claims_and_measurements_and_no_nan(page: Browser) -> None:
    item = page.get("/api/next", params={"order": "list"}).json()["items"][0]
    reply = page.get(f"/api/evidence/{item}", params={"task": "cv"})
    told = reply.json()
    assert "NaN" not in reply.text
    assert (told["verdict"], told["p"], told["reason"], told["calibrated"]) == ("YES", 0.97, "broad Hα", False)
    look, answer, rest = told["steps"]
    assert (look["kind"], look["window"], [m["name"] for m in look["measured"]]) == ("call", [6400, 6700], ["Hα EW"])
    assert (answer["kind"], answer["text"]) == ("answer", "broad Hα")
    assert [m["error"] for m in rest["measured"]] == [None]
    assert [(c["feature"], c["says"], c["state"]) for c in look["claims"]] == [("Hα", "emission", "supported")]
    assert [m["says"] for m in told["contrary"]] == ["Hβ not in emission"]


def test_a_vote_is_on_disk_when_it_is_acknowledged_and_is_one_event_however_often_sent(
    page: Browser, desk: Desk
) -> None:
    item = desk.listing.items[0]
    draft = {"key": "tab-000001", "item": item, "task": "cv", "verdict": "YES", "quality": 4, "comment": "双峰 Hα"}
    first, again = page.post("/api/decisions", json=draft), page.post("/api/decisions", json=draft)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["event"] == again.json()["event"]
    other = open_store(desk.store.name)
    (kept,) = other.since(0)
    other.close()
    assert (kept.reviewer, kept.verdict, kept.comment, kept.id) == ("Ann", "YES", "双峰 Hα", "s0000.txt")
    assert kept.agent == {"policy": "line-indices", "verdict": "YES", "p": 0.97}
    assert page.post("/api/decisions", json=draft | {"verdict": "NO"}).status_code == 409
    undone = page.post("/api/undo", json={"key": "undo-00001", "task": "cv"})
    assert undone.status_code == 201
    assert undone.json()["undone"]["key"] == "tab-000001"
    assert undone.json()["vote"] is None
    assert page.post("/api/undo", json={"key": "undo-00002", "task": "cv"}).status_code == 409


def test_nobody_decides_without_a_name_and_names_are_one_whatever_their_case(desk: Desk, access: Access) -> None:
    item = desk.listing.items[0]
    stranger = Browser(desk, access, None)
    reply = stranger.decide(item)
    assert (reply.status_code, reply.json()["do"]) == (401, "give your name first")
    Browser(desk, access, "Ann").decide(item)
    assert stranger.post("/api/session", json={"reviewer": " ann "}).json()["reviewer"] == "Ann"
    assert stranger.post("/api/session", json={"reviewer": ""}).status_code == 422


def test_a_server_that_starts_again_knows_its_reviewers(page: Browser, desk: Desk, access: Access) -> None:
    page.decide(desk.listing.items[0])
    cookies = dict(page.cookies)
    again = Desk(desk.listing, SqliteStore(Path(desk.store.name)))
    fresh = Browser(again, Access("127.0.0.1", 8765, None, again.store.secret), None)
    fresh.cookies.clear()
    fresh.cookies.update(cookies)
    assert fresh.get("/api/session").json()["reviewer"] == "Ann"
    assert fresh.get("/api/queue").json()["reviewed"] == 1
    again.store.close()


def test_a_blind_review_hides_agent_and_others_until_one_has_decided(run: Path, tmp_path: Path) -> None:
    desk = Desk(of_run(run), SqliteStore(tmp_path / "r.db"), blind=True)
    access = Access("127.0.0.1", 8765, None, desk.store.secret)
    ann, bo = Browser(desk, access, "Ann"), Browser(desk, access, "Bo")
    item = desk.listing.items[0]
    bo.decide(item, "YES", comment="a secret of Bo")
    assert ann.get(f"/api/evidence/{item}").status_code == 403
    assert "secret" not in ann.get(f"/api/items/{item}").text
    assert ann.get("/api/queue", params={"verdict": "YES"}).status_code == 403
    assert ann.get("/api/agreement").json()["agent"] is None
    ann.decide(item, "NO")
    assert ann.get(f"/api/evidence/{item}").json()["verdict"] == "YES"
    assert "secret" in ann.get(f"/api/items/{item}").text
    assert ann.get(f"/api/items/{item}").json()["merged"]["standing"] == "conflict"
    desk.store.close()


def test_a_blind_review_hears_what_another_server_wrote(run: Path, tmp_path: Path) -> None:
    one, two = (Desk(of_run(run), SqliteStore(tmp_path / "r.db"), blind=True) for _ in range(2))
    item = one.listing.items[0]
    one.decide("Ann", Draft(key="key-0001", item=item, task="cv", verdict="NO"))
    assert not two.hidden(item, "cv", "Ann")
    one.undo("Ann", "undo-0001", "cv")
    assert two.hidden(item, "cv", "Ann")
    one.store.close()
    two.store.close()


def test_every_answer_carries_the_headers_that_keep_a_page_to_itself(page: Browser) -> None:
    for path in ("/api/session", "/api/nothing", "/static/none.js", "/api/spectrum/0000000000000000"):
        headers = page.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
    cookie = page.get("/api/session").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:8765"}, 403),
        ({"host": "127.0.0.1:9999"}, 403),
        ({"host": "127.0.0.1"}, 403),
        ({"host": "user@127.0.0.1:8765"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"x-csrf-token": ""}, 403),
        ({"x-csrf-token": "0" * 40}, 403),
        ({"x-csrf-token": "ä"}, 403),
        ({"cookie": "specvet_8765=x.y.z"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-length": "70000"}, 413),
        ({}, 201),
        ({"host": "localhost:8765", "origin": "http://localhost:8765"}, 201),
    ],
)
def test_only_the_pages_own_requests_write(page: Browser, desk: Desk, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"key": "tab-000001", "item": desk.listing.items[0], "task": "cv", "verdict": "NO"}).encode()
    # The cookie by hand: a client sends none to another host.
    own = {"cookie": f"specvet_8765={page.cookies['specvet_8765']}", "content-type": "application/json"}
    given = {name: value.encode() for name, value in (own | headers).items()}
    page.cookies.clear()
    reply = page.post("/api/decisions", content=body, headers=given)
    assert reply.status_code == status, reply.text
    assert len(desk.store.since(0)) == (status == 201)
    if status != 201:
        assert set(reply.json()) == {"error", "do"}


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2fapp.py",
        "/api/spectrum/..%2f..%2fetc%2fpasswd", "/api/spectrum/%2Fetc%2Fpasswd", "/api/spectrum/0000000000000000",
        "/api/evidence/none", "/api/items/none", "/api/thumbnails?items=/etc/passwd", "/api/queue?task=../cv",
        "/nothing",
    ],
)  # fmt: skip
def test_no_path_of_a_request_reaches_a_file(page: Browser, path: str) -> None:
    reply = page.get(path)
    assert reply.status_code == 404
    assert set(reply.json()) == {"error", "do"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b"\xff", 422),
        (b"[" * 60_000, 422),
        (b'{"key": "tab-000001", "item": "none", "task": "cv", "verdict": "NO"}', 422),
        (b'{"key": "tab-000001", "item": "0000000000000000", "task": "cv", "verdict": "NO"}', 404),
        (b'{"key": "tab-000001", "item": "0000000000000000", "task": "xx", "verdict": "NO"}', 404),
        (b'{"z": NaN, "key": "tab-000001", "item": "0000000000000000", "task": "cv", "verdict": "NO"}', 422),
    ],
)
def test_a_body_that_is_no_decision_is_refused_with_what_to_do(page: Browser, body: bytes, status: int) -> None:
    reply = page.post("/api/decisions", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == status
    assert set(reply.json()) == {"error", "do"}


def test_a_body_without_a_length_is_cut_off_too(page: Browser) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(80):
            yield b" " * 1_024

    reply = page.post("/api/decisions", content=endless(), headers={"content-type": "application/json"})
    assert reply.status_code == 413


def test_a_token_is_asked_of_everybody_and_goes_into_the_cookie(desk: Desk) -> None:
    access = Access("0.0.0.0", 8765, TOKEN, desk.store.secret)
    page = Browser(desk, access, None)
    assert page.get("/api/session").status_code == 401
    assert page.get("/?token=wrong-token-entirely").status_code == 401
    assert page.get("/api/session", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    reply = page.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    assert TOKEN not in reply.headers["set-cookie"]
    page.introduce("Ann")
    assert page.decide(desk.listing.items[0]).status_code == 201
    odd = Access("0.0.0.0", 8765, "a+token/of&a#team%41", desk.store.secret)
    assert Browser(desk, odd, None).get(odd.url().partition("8765")[2], follow_redirects=False).status_code == 303
    # What one token let in, another does not.
    other = Browser(desk, Access("0.0.0.0", 8765, TOKEN + "2", desk.store.secret), None)
    other.cookies.update(dict(page.cookies))
    assert other.get("/api/session").status_code == 401


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("0.0.0.0", None, None), "token-file"),
        (("192.168.1.5", None, None), "token-file"),
        (("127.0.0.1", "short", None), "16 printable"),
        (("127.0.0.1", None, "vi.example.org"), "scheme and name"),
        (("127.0.0.1", None, "https://vi.example.org/page"), "scheme and name"),
    ],
)
def test_an_address_that_others_can_reach_needs_a_token(given: tuple[str, str | None, str | None], says: str) -> None:
    host, token, origin = given
    with pytest.raises(AccessError, match=says):
        Access(host, 8765, token, b"", origin)


def test_names_that_are_ours_are_told_from_others() -> None:
    own = Access("127.0.0.1", 8765, None, b"")
    assert own.names_us("localhost:8765")
    assert own.names_us("[::1]:8765")
    assert not own.names_us("localhost.evil.example:8765")
    assert not own.names_us("")
    assert not own.names_us("[::1")
    proxied = Access("127.0.0.1", 8765, None, b"", "https://VI.example.org:443/")
    assert proxied.names_us("vi.example.org")
    assert proxied.is_ours("https://vi.example.org", "vi.example.org")
    assert not proxied.is_ours("http://vi.example.org.evil.example", "vi.example.org")


def test_the_queue_of_a_long_list_is_packed_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path\n" + "".join(f"gone{i}.fits\n" for i in range(700)), encoding="utf-8")
    desk = Desk(of_list([str(tmp_path / "list.csv")], tasks="cv"), SqliteStore(tmp_path / "r.db"))
    page = Browser(desk, Access("127.0.0.1", 8765, None, desk.store.secret))
    reply = page.get("/api/queue", params={"limit": 100_000, "offset": 100})
    told = reply.json()
    assert (told["total"], len(told["rows"]), told["order"]) == (700, 500, "random")
    assert reply.headers["content-encoding"] == "gzip"
    assert len(gzip.compress(reply.content)) < len(reply.content)
    assert page.get("/api/queue", params={"limit": "-1"}).status_code == 400
    assert page.get("/api/queue", params={"order": "best"}).status_code == 400
    assert page.get(f"/api/evidence/{told['rows'][0][0]}").json()["verdict"] is None
    desk.store.close()


def test_cookies_of_other_programs_of_this_machine_do_no_harm(page: Browser) -> None:
    own = f"specvet_8765={page.cookies['specvet_8765']}"
    page.cookies.clear()
    reply = page.get("/api/session", headers={"cookie": f'theme={{"dark": 1}}; a b; {own}; _xsrf=2|ab'})
    assert reply.json()["reviewer"] == "Ann"


def test_a_full_disk_is_said_and_nothing_is_acknowledged_that_is_not_kept(page: Browser, desk: Desk) -> None:
    item = desk.listing.items[0]
    assert page.decide(item, comment="kept").status_code == 201
    pages = desk.store._db.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[attr-defined]
    desk.store._db.execute(f"PRAGMA max_page_count = {pages + 1}")  # type: ignore[attr-defined]
    replies = [page.decide(item, comment="x" * 1_900) for _ in range(12)]
    assert {r.status_code for r in replies} == {201, 507}
    assert "free some space" in replies[-1].json()["do"]
    told = [r.json()["event"]["n"] for r in replies if r.status_code == 201]
    assert [e.n for e in desk.store.since(0)] == [1, *told]
    desk.store._db.execute("PRAGMA max_page_count = 1000000")  # type: ignore[attr-defined]
    assert page.decide(item, "YES").status_code == 201
    assert desk.votes(item, "cv")["Ann"].verdict == "YES"
