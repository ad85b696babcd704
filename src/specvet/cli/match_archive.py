"""The part of `specvet match` that asks archives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specvet.catalogue.archive.sources import ArchiveSource
    from specvet.catalogue.sighting import Key, Match

NOT_ALL_ANSWERED = 3
"""Exit code: what others said was matched."""


def archive_sources_of(
    texts: Sequence[str], services: Sequence[str], timeout_s: float, run_path: Path, tell: Callable[[str], None]
) -> list[ArchiveSource]:
    """The catalogues of `--archive`, whose answers are kept in `match/archive` of the run. Raises `ArchiveError`."""
    if not texts:
        return []
    from specvet.catalogue.archive import ArchiveError, Cache, Settings, addresses, archive_sources, named
    from specvet.catalogue.matching.folder import FOLDER, read_source

    if not 0 < timeout_s <= 86_400:
        raise ArchiveError(f"--timeout {timeout_s:g}: give seconds, more than 0 and at most 86400")

    def earlier(name: str) -> Mapping[Key, Match]:
        kept = read_source(run_path, name)
        return {} if kept is None or "archive" not in kept[1].get("source", {}) else kept[0]

    settings = Settings(addresses=addresses(services), timeout_s=timeout_s)
    cache = Cache(run_path / FOLDER / "archive")
    return archive_sources(named(",".join(texts)), settings, cache, tell, earlier)


def unanswered(sources: Sequence[ArchiveSource]) -> str:
    """What to say of catalogues that did not answer for every spectrum; empty where all did."""
    names = [source.name for source in sources if not source.complete]
    return f"{', '.join(names)}: not all was answered; the same command goes on where it stopped" if names else ""
