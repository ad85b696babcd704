"""What is to be injected where: every injection follows from the hosts, the settings and the seed alone.

In the noise of one spectrum the S/N of what is put there is proportional to its brightness, so that an S/N and a drop
in magnitude are two names of one thing:

    S/N = S/N of the host · 10^(-0.4 drop)          magnitude = magnitude of the host + drop
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from specvet.catalogue.completeness.members import kinds_drawn, members_of

By = Literal["snr", "drop"]

SNRS = (2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0)
"""Median a pixel; injected at where nothing else is said."""

FEWEST_HOSTS = 10
"""Where fewer hosts reach an S/N, this many of the highest are taken: their noise is then that of a fainter star."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Host(_Part):
    """A spectrum of the run, whose noise is lent."""

    file: str
    """As the run names it."""
    row: int
    snr: float | None = None
    """Median a pixel; None where nothing could be measured."""
    magnitude: float | None = None
    """Gaia G, where the run was matched."""


class Injection(_Part):
    """One SIMULATED member in the noise of one spectrum."""

    number: int
    """From 0; names the file."""
    task: str
    kind: str
    """Of `specvet.data.simulate.kinds`: `cv.quiescence`."""
    level: float
    """As asked for: an S/N, or a drop in magnitudes."""
    snr: float
    """Median a pixel that the member is given."""
    host: Host

    @property
    def name(self) -> str:
        """Of its file; says that it is SIMULATED, and not of what kind."""
        return f"SIMULATED-{self.number:06d}.fits.gz"

    @property
    def drop(self) -> float | None:
        """Magnitudes below the host; below 0 is brighter. None for a host without a signal."""
        if self.host.snr is None or self.host.snr <= 0:
            return None
        return 2.5 * math.log10(self.host.snr / self.snr)

    @property
    def magnitude(self) -> float | None:
        """Gaia G that the member would have, without what its colour adds; None where the host's is not known."""
        return None if self.drop is None or self.host.magnitude is None else self.host.magnitude + self.drop


def plan(
    hosts: Sequence[Host], tasks: Sequence[str], levels: Sequence[float], each: int, by: By = "snr", seed: int = 0
) -> list[Injection]:
    """`each` injections for each task and level.

    Kinds are drawn by their shares among the class's members. Hosts are drawn among those of at least the wanted S/N,
    so that the member's own photons, which the lent noise lacks, matter little; see `FEWEST_HOSTS`.

    Raises `NoMembersError` for a task without simulated members, ValueError without a host that can be used.
    """
    usable = sorted((h for h in hosts if by == "snr" or (h.snr or 0) > 0), key=lambda h: -(h.snr or 0.0))
    if not usable:
        raise ValueError("no spectrum of the run can lend its noise: none was read, or none has a signal to drop from")
    return list(_planned(usable, tasks, levels, each, by, seed))


def _planned(
    hosts: Sequence[Host], tasks: Sequence[str], levels: Sequence[float], each: int, by: By, seed: int
) -> Iterator[Injection]:
    number = 0
    for task in tasks:
        shares = members_of(task)
        for level in levels:
            # By names and not by places, so that one task more or less changes no kind and no host of another.
            rng = np.random.default_rng([seed, *task.encode(), round(1000 * level) + 10**9])
            enough = [h for h in hosts if by == "drop" or (h.snr or 0.0) >= level]
            pool = enough if len(enough) >= min(FEWEST_HOSTS, len(hosts)) else hosts[:FEWEST_HOSTS]
            for kind in kinds_drawn(shares, each, rng):
                host = pool[int(rng.integers(len(pool)))]
                snr = level if by == "snr" else float(host.snr or 0.0) * 10.0 ** (-0.4 * level)
                yield Injection(number=number, task=task, kind=kind, level=level, snr=snr, host=host)
                number += 1
