"""Services that mean harm, on the loopback: what they send leads out of no folder, keeps nobody waiting, and makes
`specvet get` repeat no token."""

from __future__ import annotations

import gzip
import io
import json
import logging
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import get_services as services
import pytest
from astropy.io import fits
from get_lab import fetch, files_in, kinds, listed
from get_services import archive, sparcl_service
from get_spectra import lamost_files, records, sdss_files, sdss_ids, target

from specvet.catalogue.getting import bounded, lamost, line, sdss, sparcl
from specvet.catalogue.getting.folder import Folder, Got
from specvet.catalogue.getting.lists import entries
from specvet.catalogue.getting.sparcl import get_sparcl

TOKEN = "a+b/c=Secret"


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    undo = services.only_loopback()
    yield
    undo()


def names_in(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


# The token -----------------------------------------------------------------------------------------------------------

OBSID = next(iter(lamost_files())).rsplit("/", 1)[-1]
QUOTED = "a%2Bb%2Fc%3DSecret"


@pytest.mark.parametrize(
    "sent",
    [
        services.page(f"Sorry, {TOKEN} is not known"),
        services.moved(f"{{elsewhere}}/login?next=%2Ffile%3Ftoken%3D{QUOTED.replace('%', '%25')}"),
        services.moved(f"{{elsewhere}}/login?next=/file?token={TOKEN}"),
        services.moved(f"{{elsewhere}}/{QUOTED}/login"),
        services.moved(f"{{elsewhere}}/login?{QUOTED}=1"),
        services.moved(f"http://{QUOTED}.localhost/login"),
        services.moved(f"ftp://localhost/{TOKEN}"),
        services.moved(f"//user:{QUOTED}@[{TOKEN}"),
        services.status(400, TOKEN),
    ],
    ids=["page", "in a quoted parameter", "in a parameter", "in the path", "as a parameter's name", "in the host",
         "ftp", "no address", "status"],
)  # fmt: skip
def test_a_token_that_a_service_sends_back_goes_nowhere(
    sent: services.Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with archive(lamost_files()) as served, archive() as other:
        served.token = TOKEN
        elsewhere = other.url.replace("127.0.0.1", "localhost")

        def fault(h: Any) -> None:
            answer = h.answer
            h.answer = lambda code, body, headers: answer(
                code, body, {name: value.replace("{elsewhere}", elsewhere) for name, value in headers.items()}
            )
            sent(h)

        served.always = fault
        outcome = fetch([lamost.from_text(OBSID)], tmp_path, served.url, token=TOKEN)
    assert served.queries[0] == {"token": [TOKEN]}
    assert outcome.there == 0
    said = [caplog.text, repr(outcome), *(p.read_bytes().decode() for p in tmp_path.rglob("*") if p.is_file())]
    said += [*other.asked, repr(other.queries)]
    assert not [text for text in said if "secret" in text.lower()]


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../../out", "..", "/tmp/out", "a/../../../../out", "", "x" * 300, "a\0b", ".x"])
def test_what_a_service_calls_its_spectra_leads_out_of_no_folder(name: str, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "er" / "out"
    bad, good = (next(r for r in records() if r["targetid"] == target(n)) for n in (1, 2))
    with sparcl_service([bad | {"sparcl_id": name}, good]) as service:
        folder = Folder(out)
        asks = [sparcl.from_text(str(target(n))) for n in (1, 2)]
        outcome = get_sparcl(asks, folder, service.url, wait=lambda seconds: None)
        folder.close()
    assert names_in(tmp_path) == {f"deep/er/out/{name}" for name in names_in(out)}
    assert files_in(out) == {f"sparcl/DESI-DR1/{good['sparcl_id'][:2]}/{good['sparcl_id']}.fits"}
    assert kinds(outcome) == ["wrong", ""]
    assert "no id of a spectrum" in outcome.found[0].problem


@pytest.mark.parametrize("plan", ["../../../out", "x" * 50, "..", "a/b", "/etc"])
@pytest.mark.parametrize("lmjd", [56000, 10**12])
def test_what_a_file_says_of_itself_leads_out_of_no_folder(plan: str, lmjd: int, tmp_path: Path) -> None:
    path, packed = next(iter(lamost_files().items()))
    with fits.open(io.BytesIO(gzip.decompress(packed))) as hdus:
        hdus[0].header["PLANID"], hdus[0].header["LMJD"] = plan, lmjd
        changed = io.BytesIO()
        hdus.writeto(changed)
    out = tmp_path / "deep" / "er" / "out"
    with archive({path: gzip.compress(changed.getvalue())}) as served:
        outcome = fetch([lamost.from_text(path.rsplit("/", 1)[-1])], out, served.url)
    assert names_in(tmp_path) == {f"deep/er/out/{name}" for name in names_in(out)}
    assert kinds(outcome) == ["damaged"] if plan != "x" * 50 else kinds(outcome) in ([""], ["damaged"])


@pytest.mark.parametrize("id", ["266-51602-13/../../x", "../../etc/passwd", "266-51602-..", "266-51602-13?x=1", "1\n2"])
def test_an_id_is_no_path(id: str) -> None:
    with pytest.raises(ValueError, match=r"no plate-mjd-fiberid|no spectrum of SDSS"):
        sdss.from_text(id)


def test_a_votable_of_ids_asks_nobody_for_its_rows(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" + b"\0" * 8)
    list_ = tmp_path / "ids.vot"
    with archive({"rows": b"\0" * 9}) as served:
        for href in (f"{served.url}/rows", secret.as_uri()):
            list_.write_text(
                '<VOTABLE version="1.3"><RESOURCE><TABLE><FIELD name="targetid" datatype="long"/><DATA><BINARY2>'
                f'<STREAM href="{href}"/></BINARY2></DATA></TABLE></RESOURCE></VOTABLE>'
            )
            with pytest.raises(ValueError, match="rows lie elsewhere"):
                list(entries(f"@{list_}"))
    assert served.asked == []


# Answers that do not end ---------------------------------------------------------------------------------------------


def test_a_service_that_trickles_is_given_up_and_what_others_send_comes(tmp_path: Path) -> None:
    def trickle(h: Any) -> None:
        h.send_response(200)
        h.send_header("Content-Length", "1000000")
        h.end_headers()
        while not h.archive.go_on.wait(0.02):
            h.wfile.write(b"S")

    with archive(sdss_files()) as served:
        first, *others = sdss_ids()
        served.faults[f"{first}.fits"] = [trickle] * 99
        asks = [sdss.from_text(id) for id in (first, *others)]
        outcome = fetch(asks, tmp_path, served.url, timeout=0.3, connections=2)
    assert kinds(outcome) == ["unreachable", "", ""]
    assert "no answer in time" in outcome.found[0].problem


def test_bytes_that_come_too_slowly_are_told_from_a_slow_line() -> None:
    class Answer:
        num_bytes_downloaded = 0

        def __init__(self, rate: int) -> None:
            self.rate = rate

        def iter_bytes(self) -> Iterator[bytes]:
            for _ in range(100):
                now.append(now[-1] + 1.0)
                self.num_bytes_downloaded += self.rate
                yield b"x" * self.rate

    import httpx

    now = [0.0]
    told: Callable[[int], Any] = lambda rate: bounded.pieces(Answer(rate), 30.0, 10**9, clock=lambda: now[-1])  # noqa: E731
    assert sum(map(len, told(bounded.LEAST))) == 100 * bounded.LEAST
    with pytest.raises(httpx.ReadTimeout):
        list(told(bounded.LEAST - 1))


def packed_zeros(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(2**20)) for _ in range(size >> 20)) + packer.flush()


def test_a_few_bytes_that_unpack_to_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LARGE", 2**20)
    bomb = packed_zeros(2**24)

    def fault(h: Any) -> None:
        h.answer(200, bomb, {"Content-Encoding": "gzip"})

    with archive(sdss_files()) as served:
        served.always = fault
        outcome = fetch([sdss.from_text(sdss_ids()[0])], tmp_path, served.url)
    assert kinds(outcome) == ["page"]
    assert "more than" in outcome.found[0].problem
    assert listed(tmp_path)[0]["file"] == ""


# SPARCL's answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "answer"),
    [("version", b"NaN"), ("version", b"Infinity"), ("version", b"1e400"), ("find", b"[" * 100_000),
     ("spectras", b"[" * 100_000), ("datafields", b'[{"data_release": {"a": 1}}]'),
     ("find", json.dumps([{}, {"count": 1e400}]).encode())],
)  # fmt: skip
def test_numbers_and_nests_that_break_readers_are_an_answer_that_is_none(
    endpoint: str, answer: bytes, tmp_path: Path
) -> None:
    with sparcl_service(records()) as service:
        service.spoilt[f"api/{endpoint}"] = answer
        folder = Folder(tmp_path)
        (got,) = get_sparcl([sparcl.from_text(str(target(1)))], folder, service.url, wait=lambda s: None).found
        folder.close()
    assert isinstance(got, Got)
    assert not got.there
    assert got.problem


def test_a_wait_that_is_no_number_of_seconds_is_none() -> None:
    assert [line.retry_after(text) for text in ("7", " 2.5 ", "-3", "²", "٣", "soon", "")] == [
        7.0, 2.5, 0.0, None, None, None, None
    ]  # fmt: skip
    assert line.retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
