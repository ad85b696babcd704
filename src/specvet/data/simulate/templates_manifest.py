"""What a folder of real spectra holds: its `manifest.csv`, and which of its objects no simulation may learn from.

    path,class_label,subclass,label_source,object_id,medium,ra_deg,dec_deg
    lamost/dr5/spec-….fits.gz,G star,G0,LAMOST pipeline,LAMOST J221008.50-020659.1,vacuum,332.535456,-2.116436

One row a file, paths relative to the manifest. `path` and `class_label` are needed, the other columns may be empty or
missing; further columns are left alone.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MANIFEST = "manifest.csv"
NEEDED = ("path", "class_label")

SAME_STAR_ARCSEC = 3.0
"""Positions closer than this are one star: a fibre of LAMOST is 3.3 arcsec wide, and its releases name a star by
positions that differ by some 0.1 arcsec."""

HELD_OUT_ONE_IN = 3


@dataclass(frozen=True, slots=True)
class RealFile:
    """One row of a manifest."""

    path: str
    """Relative to the manifest's folder, as it is written there."""
    class_label: str
    subclass: str = ""
    label_source: str = ""
    object_id: str = ""
    """One star, whatever file, library or epoch it stands in; the path where nobody named it."""
    medium: str = ""
    """`air`, `vacuum` or empty."""
    named: bool = False
    """Whether `object_id` names a star, and not merely a file."""


def held_out(object_id: str) -> bool:
    """Whether an object is kept from every simulation, so that real spectra of it stay unseen: one third of all are.

    Decided by the SHA-256 of its id, hence the same for everybody. An object without a name is asked for as its path,
    or `path#row` in a file of many.
    """
    return int(hashlib.sha256(object_id.encode()).hexdigest()[:15], 16) % HELD_OUT_ONE_IN == 0


@dataclass(frozen=True, slots=True)
class Fold:
    """One of several equal parts of all objects, which is kept from simulations: cross-validation by object."""

    held: int
    """Which one is kept, from 1; 0 keeps none."""
    of: int

    def holds(self, object_id: str) -> bool:
        """Whether an object is kept; by the SHA-256 of its id, hence the same for everybody."""
        digest = hashlib.sha256(f"fold {object_id}".encode()).hexdigest()
        return self.held > 0 and int(digest[:15], 16) % self.of + 1 == self.held

    def __str__(self) -> str:
        return f"{self.held}/{self.of}"


def read_fold(text: str) -> Fold:
    """`2/5` is the second of five; `none` keeps no object. Raises ValueError for anything else."""
    if text.strip() == "none":
        return Fold(0, 1)
    found = re.fullmatch(r"\s*(\d{1,3})\s*/\s*(\d{1,3})\s*", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]) or int(found[2]) < 2:
        raise ValueError(f"fold {text!r}: give which of how many, as in 2/5, or none to keep no object back")
    return Fold(int(found[1]), int(found[2]))


def read_manifest(folder: str | Path) -> list[RealFile]:
    """The files of a folder, in the order of its manifest. Raises ValueError where there is none, or it lacks a column.

    Stars within `SAME_STAR_ARCSEC` of each other get one id, the first of theirs in alphabetical order.
    """
    file = Path(folder) / MANIFEST
    if not file.is_file():
        raise ValueError(
            f"{folder}: has no {MANIFEST}; give a folder with one: a row a file, with the columns path and "
            "class_label, and where they are known subclass, object_id, medium, ra_deg, dec_deg, label_source"
        )
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        if missing := [name for name in NEEDED if name not in (reader.fieldnames or ())]:
            raise ValueError(f"{file}: has no column {missing[0]!r}; it has {', '.join(reader.fieldnames or ())}")
        rows = [{name: (value or "").strip() for name, value in row.items() if name} for row in reader]
    names = [object_name(row.get("object_id", "")) or row["path"] for row in rows]
    ids = _one_id_a_star(names, [(row.get("ra_deg", ""), row.get("dec_deg", "")) for row in rows])
    return [
        RealFile(
            row["path"],
            row["class_label"],
            row.get("subclass", ""),
            row.get("label_source", ""),
            object_id,
            next((m for m in ("air", "vacuum") if row.get("medium", "").startswith(m)), ""),
            object_id != row["path"],
        )
        for row, object_id in zip(rows, ids, strict=True)
    ]


def object_name(text: str) -> str:
    """A star's name in one spelling, so that two libraries name it alike; what follows ` / ` (an epoch) is left out.

    `HD001326B` → `HD 1326B`, `G_165-39` → `G 165-39`, `SDSS J1023+00 / 0272-51941-0461` → `SDSS J1023+00`.
    """
    name = text.partition(" / ")[0].replace("_", " ").strip()
    if found := re.fullmatch(r"(HD|HR|BD|LTT|GJ|G) ?0*([0-9+-][0-9+-]*[A-Z]?)", name, re.IGNORECASE):
        number = re.sub(r"(?<=-)0+(?=\d)", "", found[2])
        return f"{found[1]} {number}".upper()
    return name


def _one_id_a_star(names: list[str], positions: Iterable[tuple[str, str]]) -> list[str]:
    places = np.array([[_number(ra), _number(dec)] for ra, dec in positions]).reshape(-1, 2)
    ids = dict(zip(names, names, strict=True))
    ra, dec = np.radians(places).T
    unit = np.stack([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)], axis=1)
    known = np.flatnonzero(np.isfinite(unit).all(axis=1))
    for i in known:
        apart = np.degrees(np.linalg.norm(unit[known] - unit[i], axis=1)) * 3600.0
        group = {ids[names[j]] for j in known[apart < SAME_STAR_ARCSEC]}
        if len(group) > 1:
            ids = {name: min(group) if own in group else own for name, own in ids.items()}
    return [ids[name] for name in names]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
