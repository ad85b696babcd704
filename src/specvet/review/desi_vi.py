"""Visual inspections as DESI keeps them, to and from our events: `desi-vi_<title>_<initials>.csv`, one a person.

The sixteen columns are those of prospect (desihub/prospect, `prospect/utilities.py`), in its order, and behind them
eight of ours, which say what DESI's cannot: task, verdict, flag, and which spectrum. Prospect reads columns by name, so
its readers pass over ours. Text is UTF-8; in the FITS table, which holds ASCII only, Greek letters are spelt out and
other letters escaped.

| DESI | here |
|---|---|
| `VI_quality` | quality, −1 where none was given |
| `VI_issue` | issues: R, C, S, or `--` |
| `VI_spectype` | of a YES the task's class, of a NO the likelier class |
| `VI_z`, `VI_comment`, `VI_scanner` | the same; a missing value is empty |
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specvet.records.files import write_atomic
from specvet.review.desk import Desk
from specvet.review.events import Draft, Event, reviewer_name
from specvet.review.listing import Listing

DESI_COLUMNS = (
    "TARGETID", "EXPID", "NIGHT", "TILEID", "Spec_version", "Redrock_version", "Template_version", "Redrock_spectype",
    "Redrock_z", "Redrock_deltachi2", "VI_scanner", "VI_quality", "VI_issue", "VI_z", "VI_spectype", "VI_comment",
)  # fmt: skip

OUR_COLUMNS = (
    "specvet_task", "specvet_verdict", "specvet_flagged", "specvet_item", "specvet_file", "specvet_row", "specvet_at",
    "specvet_third",
)  # fmt: skip

NO_ISSUE = "--"

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "λ": "lambda",
    "μ": "mu", "ν": "nu", "σ": "sigma", "χ": "chi", "Δ": "Delta", "Å": "A", "−": "-", "–": "-", "±": "+/-", "…": "...",
    "≥": ">=", "≤": "<=", "×": "x", "’": "'", "°": "deg",
}  # fmt: skip


class DesiViError(ValueError):
    """A file that cannot be read as inspections; the message says what to do."""


def ascii_text(text: str) -> str:
    """As FITS can hold it: Greek letters spelt out, any other letter as `\\u53cc`."""
    plain = "".join(_GREEK.get(letter, letter) for letter in text)
    return plain.encode("ascii", "backslashreplace").decode()


# Out -----------------------------------------------------------------------------------------------------------------


def write_desi_vi(desk: Desk, folder: Path, tasks: Sequence[str] | None = None, *, fits: bool = False) -> list[Path]:
    """One file a person with all their votes; the files, by name. Raises `OSError`."""
    listing = desk.listing
    rows: dict[str, list[dict[str, str]]] = {}
    for task in listing.tasks:
        if tasks is not None and task.key not in tasks:
            continue
        for item, votes in desk.voted(task.key).items():
            for name, vote in votes.items():
                rows.setdefault(name, []).append(_row(listing, listing.place[item], vote, task.name))
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    short = {name: _initials(name, rows) for name in rows}
    alike = Counter(text.casefold() for text in short.values())  # as file systems may compare names
    for name, those in sorted(rows.items()):
        own = short[name] if alike[short[name].casefold()] == 1 else f"{short[name]}-{_hashed(name)}"
        stem = f"desi-vi_{_plain(listing.title) or 'specvet'}_{own}"
        path = folder / f"{stem}.{'fits' if fits else 'csv'}"
        if fits:
            _write_fits(path, those)
        else:
            write_atomic(path, csv_text(those))
        written.append(path)
    return written


def csv_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows as CSV, every column by name, RFC 4180 with `\\n` line ends."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*DESI_COLUMNS, *OUR_COLUMNS], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(listing: Listing, i: int, vote: Event, name: str) -> dict[str, str]:
    z_file = float(listing.z_file[i])
    spectype = name if vote.verdict == "YES" else vote.likelier or ""
    row = dict.fromkeys(DESI_COLUMNS, "") | {
        "TARGETID": listing.ids[i],
        "Redrock_spectype": listing.pipeline_class[i],
        "Redrock_z": "" if np.isnan(z_file) else repr(z_file),
        "VI_scanner": vote.reviewer,
        "VI_quality": str(-1 if vote.quality is None else vote.quality),
        "VI_issue": vote.issues or NO_ISSUE,
        "VI_z": "" if vote.z is None else repr(vote.z),
        "VI_spectype": spectype,
        "VI_comment": " ".join(vote.comment.split()),
    }
    ours = (
        vote.task,
        vote.verdict,
        int(vote.flagged),
        vote.item,
        vote.file,
        vote.row,
        vote.decided_at,
        int(vote.third),
    )
    return row | dict(zip(OUR_COLUMNS, map(str, ours), strict=True))


def _write_fits(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    from astropy.table import Table

    table = Table({name: [ascii_text(row[name]) for row in rows] for name in (*DESI_COLUMNS, *OUR_COLUMNS)})
    half = path.with_name(f".specvet-{path.name}.tmp")
    try:
        table.write(half, format="fits", overwrite=True)
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)


def _initials(name: str, others: Mapping[str, Any]) -> str:
    """As prospect names its files; the whole name where two people share their initials, or have no Latin ones."""

    def short(text: str) -> str:
        return "".join(word[0] for word in _plain(text).split("-") if word).upper()

    alike = [other for other in others if short(other) == short(name)]
    if len(alike) == 1 and short(name):
        return short(name)
    return _plain(name) or _hashed(name)


def _hashed(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")


# In ------------------------------------------------------------------------------------------------------------------


def read_desi_vi(
    desk: Desk, file: Path, *, task: str | None, reviewer: str | None = None, tell: Callable[[str], None] | None = None
) -> list[Event]:
    """The inspections of a CSV file as events that `Desk.take_in` writes: each once, however often it is read.

    `task` is asked where the file does not say (prospect's own files); None: it must say. A row is matched by our
    item, else by `TARGETID` among the ids of the listing; one that matches nothing, or several spectra, is told of and
    left out.
    `reviewer` is who decided, by default `VI_scanner`. Raises `DesiViError`, `OSError`.
    """
    by_id: dict[str, list[int]] = {}
    for i, id in enumerate(desk.listing.ids):
        by_id.setdefault(id, []).append(i)
    events, left_out = [], []
    for line, row in _rows(file):
        key = row.get("specvet_task") or task
        if not key:
            raise DesiViError(f"{file}: line {line} says no task; name it with --task")
        places = _places(desk.listing, row, by_id)
        if len(places) != 1:
            left_out.append(f"line {line}: {_named(row)} is {'no' if not places else 'more than one'} spectrum here")
            continue
        try:
            events.append(_event(desk, places[0], row, key, reviewer))
        except (ValueError, OverflowError) as e:
            left_out.append(f"line {line}: {' '.join(str(e).split())}")
    if tell is not None and left_out:
        more = f"; and {len(left_out) - 3:,} more" if len(left_out) > 3 else ""
        tell(f"{file}: left out {len(left_out):,} rows: {'; '.join(left_out[:3])}{more}")
    return events


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with open(file, encoding="utf-8-sig", newline="") as f:
            reader = csv.DictReader(f)
            missing = {"TARGETID", "VI_quality"} - set(reader.fieldnames or ())
            if missing:
                raise DesiViError(
                    f"{file}: has no column {', '.join(sorted(missing))}; give a file as prospect writes it"
                )
            for row in reader:
                yield reader.line_num, {k: (v or "").strip() for k, v in row.items() if isinstance(k, str)}
    except (UnicodeDecodeError, csv.Error) as e:
        raise DesiViError(f"{file}: is no CSV file in UTF-8 ({e}); save it as one") from e


def _places(listing: Listing, row: Mapping[str, str], by_id: Mapping[str, list[int]]) -> list[int]:
    place = listing.place.get(row.get("specvet_item", ""))
    if place is not None:
        return [place]
    return by_id.get(row["TARGETID"], []) if row["TARGETID"] else []


def _named(row: Mapping[str, str]) -> str:
    return f"TARGETID {row['TARGETID']}" if row.get("TARGETID") else "a row without TARGETID"


def _event(desk: Desk, i: int, row: Mapping[str, str], key: str, reviewer: str | None) -> Event:
    listing = desk.listing
    found = listing.task(key)
    if found is None:
        raise ValueError(f"no task {key!r} is reviewed here")
    spectype = row.get("VI_spectype", "")
    names = {name.casefold() for name in (found.key, found.name, *found.aliases)}
    verdict = row.get("specvet_verdict") or ("YES" if spectype.casefold() in names else "NO" if spectype else "UNSURE")
    quality, issue = row.get("VI_quality", ""), row.get("VI_issue", "")
    who = desk.spelling(reviewer_name(reviewer or row.get("VI_scanner")))
    content = "\0".join(f"{k}={row.get(k, '')}" for k in (*DESI_COLUMNS, *OUR_COLUMNS))
    # The same line of the same file is the same event, so that importing twice changes nothing.
    digest = hashlib.blake2b(f"{content}\0{key}\0{listing.items[i]}".encode(), digest_size=12).hexdigest()
    draft = Draft(
        key=f"vi-{digest}",
        item=listing.items[i],
        task=key,
        verdict=verdict,  # type: ignore[arg-type]
        quality=None if quality in ("", "-1") else int(float(quality)),
        likelier=(spectype or None) if verdict != "YES" else None,
        z=float(row["VI_z"]) if row.get("VI_z") else None,
        issues="".join(letter for letter in issue if letter in "RCS"),
        comment=row.get("VI_comment", ""),
        flagged=row.get("specvet_flagged") == "1",
        shown={"imported": "desi-vi", "at": row.get("specvet_at", "")},
    )
    about = {"file": listing.files[i], "row": listing.rows[i], "id": listing.ids[i]}
    third = row.get("specvet_third") == "1"
    return Event.model_validate({"kind": "decision", "reviewer": who, "third": third} | about | draft.model_dump())
