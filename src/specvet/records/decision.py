"""A `Decision`: one row of a run, as tables, exports and reports show it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from specvet.records.schema import TrajectoryRecord, Verdict

WHOLE_FILE = "*"
"""The `task` of an ERROR row: the file could not be read, whatever the task."""


class Decision(BaseModel):
    """One spectrum, one task, one verdict (of one sample); or one unreadable file (`task` is `*`, `row` is 0)."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    file: str
    """As the user wrote it."""
    row: int
    task: str
    id: str
    """The user's name for it, else the file's; always a string. In a rollout of a question file, the question's id."""
    sample: int = 0
    """Which of several trajectories about the same spectrum and task, from 0; `vet` makes one."""
    verdict: Verdict
    survey: str = ""
    layout: str = ""
    n_pix: int | None = None
    wave_min: float | None = None
    """Å."""
    wave_max: float | None = None
    """Å."""
    medium: str = ""
    snr: float | None = None
    ra: float | None = None
    """Degrees."""
    dec: float | None = None
    """Degrees."""
    z: float | None = None
    """The redshift that the wavelengths were divided by; None for the observed frame."""
    z_file: float | None = None
    """The redshift that the file states, applied or not."""
    frame: str = ""
    """Frame and why: `rest frame (z = 0.000123 from header Z)`."""
    pipeline_class: str = ""
    """What the survey's pipeline calls it; for the record, no verdict rests on it."""
    mjd: float | None = None
    """Of the observation, days; None where the file does not say."""
    ids: dict[str, str] = {}
    """Every identifier that the file states, as strings: `{"plate": "266", "targetid": "39627…"}`."""
    release: str = ""
    """Of the survey, as the file names it: `DR8`."""
    reduction: str = ""
    """Version of the pipeline that reduced it, as the file states it: `v2.9.8`, `iron`."""
    n_exposures: int = 0
    """How many single exposures of it the file holds beside it."""
    warnings: tuple[str, ...] = ()
    trajectory: TrajectoryRecord | None = None
    """None for an ERROR row."""
