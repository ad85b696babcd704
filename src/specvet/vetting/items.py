"""An `Item`: one thing a list asks to be vetted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """A file, or one row of it, with what the user's list says about it."""

    file: str
    """As the user wrote it, or as built from a survey's columns under `--root`."""
    row: int | None = None
    """Which target of the file; None asks for all of them."""
    id: str | None = None
    """The user's own name for it; None takes the file's."""
    ra: float | None = None
    """Degrees."""
    dec: float | None = None
    """Degrees."""
    z: float | None = None
    """The user's own redshift, applied as given."""
    problem: str = ""
    """Why this entry cannot be vetted (a list row without a path); becomes an ERROR row."""
    gaia: str = ""
    """Gaia DR3 source id, digits; empty where the list gives none."""
    ids: tuple[tuple[str, str], ...] = ()
    """Selects targets by identifier where the list gives one instead of a row: `(("targetid", "39627…"),)`."""
