"""Events are kept, in SQLite and in PostgreSQL alike: once each, in order, never changed, whoever is killed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from review_lab import draft, postgres, restart, unwritable, write_spectra

from specvet.review.events import Event
from specvet.review.store import SqliteStore, Store, StoreError, open_store

Opening = Callable[[], Store]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Opens one and the same empty store, any number of times."""
    where = str(tmp_path / "review.db")
    if request.param == "postgresql":
        import psycopg

        address = request.getfixturevalue("server")
        schema = f"s{os.urandom(4).hex()}"
        with psycopg.connect(address, autocommit=True) as db:
            db.execute(f"CREATE SCHEMA {schema}")
        where = f"{address}&options=-csearch_path%3D{schema}"
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(open_store(where))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def event(key: str, **fields: object) -> Event:
    about = {"kind": "decision", "reviewer": "Ann", "item": "0" * 16, "task": "cv", "verdict": "NO"}
    return Event.model_validate(about | {"key": key} | fields)


def test_an_event_comes_back_as_it_was_written_with_its_number_and_time(opening: Opening) -> None:
    store = opening()
    shown = {"smoothing": 2.5, "windows": [[6400, 6700]]}
    made = store.write(lambda w: w.insert(event("a", comment="双星 Hα ≥ 3σ", quality=4, z=-0.0001, shown=shown)))
    assert made.n >= 1
    assert made.at.endswith("Z")
    assert opening().since(0) == [made]
    assert opening().since(made.n) == []


def test_what_fails_in_the_middle_leaves_nothing(opening: Opening) -> None:
    store = opening()
    store.write(lambda w: w.insert(event("first")))

    def fails(w: object) -> Event:
        w.insert(event("second"))  # type: ignore[attr-defined]
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.write(fails)
    assert [e.key for e in opening().since(0)] == ["first"]


def test_one_key_of_one_reviewer_is_one_event(opening: Opening) -> None:
    store = opening()
    store.write(lambda w: w.insert(event("a")))
    store.write(lambda w: w.insert(event("a", reviewer="Bo")))
    with pytest.raises((StoreError, Exception), match=r"(?i)unique"):
        store.write(lambda w: w.insert(event("a", verdict="YES")))
    assert [e.reviewer for e in store.since(0)] == ["Ann", "Bo"]


def test_many_writers_number_their_events_in_the_order_in_which_they_become_visible(opening: Opening) -> None:
    stores = [opening() for _ in range(4)]
    gaps: list[str] = []

    def write(store: Store, name: str) -> None:
        seen = 0
        for k in range(25):

            def insert(w: object, k: int = k) -> Event:
                nonlocal seen
                known = [e.n for e in w.since(seen)]  # type: ignore[attr-defined]
                made = w.insert(event(f"{name}-{k}", reviewer=name))  # type: ignore[attr-defined]
                if known and made.n <= max(known):
                    gaps.append(f"{made.n} after {max(known)}")
                seen = made.n
                return made

            store.write(insert)

    threads = [threading.Thread(target=write, args=(s, f"R{i}")) for i, s in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = stores[0].since(0)
    assert not gaps
    assert len(events) == 100
    assert len({(e.reviewer, e.key) for e in events}) == 100


def test_two_servers_of_one_store_sign_with_one_secret(opening: Opening) -> None:
    assert opening().secret == opening().secret
    assert len(opening().secret) == 32


def test_an_event_can_be_neither_changed_nor_removed_in_sqlite(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "r.db")
    store.write(lambda w: w.insert(event("a")))
    store.close()
    db = sqlite3.connect(tmp_path / "r.db")
    for statement in ("UPDATE events SET verdict = 'YES'", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            db.execute(statement)
    db.close()


def test_an_event_can_be_neither_changed_nor_removed_in_postgresql(server: str) -> None:
    import psycopg

    store = open_store(server)
    store.write(lambda w: w.insert(event(f"a{os.urandom(4).hex()}")))
    store.close()
    with psycopg.connect(server, autocommit=True) as db:
        for statement in (
            "UPDATE specvet_review_events SET verdict = 'YES'",
            "DELETE FROM specvet_review_events",
            "TRUNCATE specvet_review_events",
        ):
            with pytest.raises(psycopg.errors.RaiseException, match="never"):
                db.execute(statement)


def test_a_postgresql_server_that_crashes_and_comes_back_has_all_and_is_found_again(server: str) -> None:
    store = open_store(server)
    key = f"k{os.urandom(4).hex()}"
    made = store.write(lambda w: w.insert(event(key)))
    restart(server)
    assert [e.key for e in store.since(made.n - 1)] == [key]
    again = store.write(lambda w: w.insert(event(f"{key}-2")))
    assert again.n > made.n
    store.close()


def test_a_reviewer_who_is_killed_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    write_spectra(tmp_path / "spectra", 3)
    lab = str(Path(__file__).with_name("review_lab.py"))
    command = [sys.executable, lab, str(tmp_path / "r.db"), str(tmp_path / "spectra"), "Ann"]
    acknowledged = []
    for _ in range(1):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged += [process.stdout.readline().strip() for _ in range(20)]
            os.kill(process.pid, signal.SIGKILL)
            acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
    store = open_store(tmp_path / "r.db")
    kept = [e.key for e in store.since(0)]
    store.close()
    # One more a run may have been kept before it could be told.
    assert kept[:20] == acknowledged[:20]
    assert set(acknowledged) <= set(kept)
    assert len(kept) - len(acknowledged) <= 2


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("mysql://host/db", "postgresql"),
        ("{tmp}", "is a folder"),
        ("{tmp}/none/r.db", "make it first"),
        ("{tmp}/other.db", "not a store of reviews"),
        ("{tmp}/text.db", "not a database"),
        ("postgresql://nobody@/none?host=/nowhere", "is the server up"),
    ],
)
def test_what_is_no_store_is_said_with_what_to_do(where: str, says: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE t(x)")
    db.close()
    (tmp_path / "text.db").write_text("not SQLite at all, and long enough to be looked at " * 5, encoding="utf-8")
    with pytest.raises(StoreError, match=says):
        open_store(where.replace("{tmp}", str(tmp_path)))


def test_nothing_is_written_to_a_store_that_was_taken_away(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "r.db")
    (tmp_path / "r.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(StoreError, match="put it back"):
        store.write(lambda w: w.insert(event("a")))
    (tmp_path / "elsewhere.db").rename(tmp_path / "r.db")
    assert store.write(lambda w: w.insert(event("a"))).n == 1
    store.close()


def test_a_store_that_cannot_be_written_is_read_and_says_so(tmp_path: Path) -> None:
    (folder := tmp_path / "disc").mkdir()
    store = SqliteStore(folder / "r.db")
    made = [store.write(lambda w: w.insert(event("a"))), store.write(lambda w: w.insert(event("b", comment="双")))]
    secret = store.secret
    (tmp_path / "killed").mkdir()
    for name in ("r.db", "r.db-wal"):  # as a server leaves them that is killed
        shutil.copy(folder / name, tmp_path / "killed" / name)
    store.close()
    with unwritable(folder):
        read = SqliteStore(folder / "r.db")
        assert read.readonly
        assert (read.since(0), read.secret) == (made, secret)
        with pytest.raises(StoreError, match=r"can only be read; copy it .* give that to --store"):
            read.write(lambda w: w.insert(event("c")))
        read.close()
        with pytest.raises(StoreError, match=r"none\.db.*give another --store"):
            SqliteStore(folder / "none.db")
    assert [p.name for p in folder.iterdir()] == ["r.db"]
    with unwritable(tmp_path / "killed"), pytest.raises(StoreError, match="copy it first"):
        SqliteStore(tmp_path / "killed" / "r.db")
    for place in (folder, tmp_path / "killed"):
        again = SqliteStore(place / "r.db")
        assert not again.readonly
        assert again.since(0) == made
        again.close()


def test_a_damaged_event_is_said_by_its_number(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "r.db")
    store._db.execute("INSERT INTO events VALUES (7, 'k', 't', 'decision', 'Ann', 'i', 'cv', 'NO', '{\"key')")
    with pytest.raises(StoreError, match="event 7 of the store"):
        store.since(0)
    store.close()


def test_what_a_database_cannot_hold_is_refused_before_it_gets_there() -> None:
    with pytest.raises(ValidationError, match="NUL"):
        draft("0" * 16, shown={"frame": ["rest\0"]})


@pytest.mark.parametrize(
    "address", ["vi:hunter22secret@/none?host=/nowhere", "/none?user=vi&password=hunter22secret&host=/nowhere"]
)
def test_a_password_in_the_address_is_not_shown(address: str) -> None:
    from specvet.review.postgres import PostgresStore

    with pytest.raises(StoreError) as told:
        PostgresStore(f"postgresql://{address}")
    assert "hunter22secret" not in str(told.value)
