"""What a tool hands back, and what a tool is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specvet.records.schema import ObservationRecord
from specvet.spectra import Frame, Spectrum
from specvet.views import View


@dataclass(frozen=True, slots=True, eq=False)
class WindowData:
    """The numbers behind a view, for policies that measure instead of look.

    `spectrum` holds only the pixels of the window, shifted into `frame`; joins and medium are kept.
    """

    spectrum: Spectrum
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """Text, pictures, and the typed data behind them. Trouble is an observation too, never an exception."""

    kind: str
    """`view`, or the kind of trouble: `bad_arguments`, `bad_range`, `too_few_points`, `unknown_tool`, `deadline`,
    `not_drawn`, `not_executed`, `malformed`."""
    text: str
    view: View | None = None
    data: WindowData | None = None

    @property
    def ok(self) -> bool:
        return self.kind == "view"

    def record(self, image: str | None = None) -> ObservationRecord:
        """The part that is kept; `image` is the SHA-256 of the stored PNG."""
        view, data = self.view, self.data
        return ObservationRecord(
            kind=self.kind,
            text=self.text,
            window=view.window if view else None,
            n_points=view.n_points if view else None,
            frame=data.frame.text if data else "",
            view_hash=view.content_hash if view else None,
            image=image,
        )


class Tool(Protocol):
    """Something an agent may call."""

    name: str
    deadline_s: float

    def schema(self) -> dict[str, Any]:
        """JSON schema as chat models are given it."""
        ...

    def __call__(self, arguments: Mapping[str, Any]) -> Observation:
        """Answer a call; never raises."""
        ...
