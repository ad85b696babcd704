"""The columns of a run's table, the same in every format, and what its header says of where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from specvet import __version__
from specvet.records.tables import Column, Fact, Sheet
from specvet.vetting.matched import is_matched
from specvet.vetting.origin import origin_of

if TYPE_CHECKING:
    from specvet.records import RunFolder

_HASHED = {"weights": "the files of the model", "policy": "all that makes the policy decide as it does"}

_WORDS = "YES, NO, UNSURE, NO_DATA, FAILED or ERROR"

PROVENANCE = (
    Column("model", str, "name and version of the model, or of the policy that measured", ucd="meta.id;meta.software"),
    Column(
        "model_hash",
        str,
        "first 12 digits of its SHA-256, as specvet models shows it; the header says what it is of",
        ucd="meta.checksum",
    ),
    Column("task_hash", str, "first 12 digits of the SHA-256 of the task as it was asked", ucd="meta.version"),
    Column("specvet", str, "version of specvet that made the run", ucd="meta.version;meta.software"),
    Column("decided", str, "UTC, when the question was begun", ucd="time.processing"),
    Column("release", str, "data release of the survey, as the file names it", ucd="meta.version"),
    Column("reduction", str, "version of the survey's pipeline, as the file names it", ucd="meta.version"),
    Column(
        "mjd",
        float,
        "modified Julian date of the observation, as the file states it; of some surveys a day's number",
        "d",
        "time.epoch;obs",
        "mjd",
    ),
    Column("ids", str, "all identifiers of the file, name=value; always text", ucd="meta.id"),
)
"""Where a row comes from: who decided what, when, with which versions, about which observation."""

COLUMNS: dict[str, Column] = {
    c.name: c
    for c in (
        Column("file", str, "spectrum file, as the run was given it", ucd="meta.ref"),
        Column("row", int, "which target of the file, counted from 0", ucd="meta.record"),
        Column("id", str, "identifier, of the list or else of the file; always text", ucd="meta.id;meta.main"),
        Column("task", str, "key of the question; * for a file that could not be read", ucd="meta.code"),
        Column("answer", str, f"verdict: {_WORDS}", ucd="meta.code.class"),
        Column(
            "confidence",
            float,
            "probability (0-1) that the answer is right; a model's is raw, not calibrated",
            ucd="stat.probability",
        ),
        Column("reason", str, "why, in words", ucd="meta.note"),
        Column("p_yes", float, "probability (0-1) of YES", ucd="stat.probability"),
        Column("log_odds", float, "sum of the log-odds (natural logarithm) of the evidence", ucd="stat.likelihood"),
        Column("likelier_class", str, "for a NO: the class that fits better", ucd="src.class"),
        Column("evidence", str, "what was measured where, strongest first", ucd="meta.note"),
        Column("windows", str, "windows that were looked at, Angstrom", ucd="meta.note"),
        Column("n_calls", int, "looks through the zoom tool", ucd="meta.number"),
        Column("stop", str, "why the look ended", ucd="meta.code"),
        Column("survey", str, "survey that the file is from", ucd="meta.dataset"),
        Column("layout", str, "layout by which the file was read", ucd="meta.code"),
        Column("n_pix", int, "pixels of the spectrum", ucd="meta.number"),
        Column("wave_min", float, "shortest wavelength, in medium", "Angstrom", "em.wl;stat.min"),
        Column("wave_max", float, "longest wavelength, in medium", "Angstrom", "em.wl;stat.max"),
        Column("medium", str, "what wavelengths are measured in: air, vacuum or unknown", ucd="meta.code"),
        Column("snr", float, "median signal to noise a pixel", ucd="stat.snr"),
        Column("ra", float, "right ascension, of the list or else of the file", "deg", "pos.eq.ra;meta.main", "icrs"),
        Column("dec", float, "declination, of the list or else of the file", "deg", "pos.eq.dec;meta.main", "icrs"),
        Column(
            "z",
            float,
            "redshift that wavelengths were divided by; none where looked at as observed",
            "",
            "src.redshift",
        ),
        Column("z_file", float, "redshift that the file states, applied or not", "", "src.redshift"),
        Column("frame", str, "frame that was looked at, and why", ucd="pos.frame"),
        Column("pipeline_class", str, "what the survey's pipeline calls it", ucd="src.class"),
        Column("warnings", str, "what the reader of the file warned of", ucd="meta.note"),
        Column("policy", str, "who decided", ucd="meta.id"),
        *PROVENANCE,
        Column("object", str, "star that it is of: Gaia DR3 source id, else J and its place", ucd="meta.id.parent"),
    )
}
"""By name, in the order of the table."""

ROLLOUT_COLUMNS = (
    Column("sample", int, "which of several trajectories of the question, counted from 0", ucd="meta.number"),
    Column("reward", float, "what the trajectory is worth in training, where the answer is known", ucd="meta.code"),
)
"""Behind them in the table of a rollout, which may hold several rows a spectrum and task."""


TRIAGE_COLUMNS = (
    Column(
        "probability",
        float,
        "probability (0-1) of YES by specvet triage, at the prevalence of this list",
        ucd="stat.probability",
    ),
    Column("band", str, "where triage sorted it: accept, look or reject", ucd="meta.code.class"),
    Column("audit", str, "yes: rejected, and drawn to be looked at all the same", ucd="meta.code"),
)
"""Behind those, where the run has been sorted; samples of one spectrum and task share them."""

MATCH_COLUMNS = (
    Column("gaia_source_id", str, "Gaia DR3 source; always text", ucd="meta.id.cross"),
    Column("gaia_separation", float, "of that source from ra, dec, when it was observed", "arcsec", "pos.angDistance"),
    Column("g_mag", float, "Gaia G", "mag", "phot.mag;em.opt"),
    Column("bp_rp", float, "Gaia BP-RP", "mag", "phot.color;em.opt.B;em.opt.R"),
    Column("parallax", float, "of Gaia, zero-point not corrected", "mas", "pos.parallax"),
    Column("parallax_error", float, "1 sigma", "mas", "stat.error;pos.parallax"),
    Column("ruwe", float, "of Gaia's astrometric fit; above 1.4 it is not trusted", ucd="stat.fit.goodness"),
    Column(
        "m_g",
        float,
        "absolute magnitude in G, extinction not corrected; none below 5 parallax errors",
        "mag",
        "phys.magAbs;em.opt",
    ),
    Column("m_g_error", float, "1 sigma, from the parallax alone", "mag", "stat.error;phys.magAbs"),
    Column("known_as", str, "what catalogues call it; new: those that were asked do not know it", ucd="meta.id.cross"),
    Column(
        "answer_with_gaia", str, "verdict with Gaia, by the rules of the task; answer is without", ucd="meta.code.class"
    ),
    Column("used", str, "what answer_with_gaia rests on", ucd="meta.code"),
    Column("why_with_gaia", str, "what follows from Gaia, or why nothing does", ucd="meta.note"),
    Column("match_notes", str, "what is odd about the match", ucd="meta.note"),
)
"""Behind those, where `specvet match` was run."""


def verdict_sheet(
    run: RunFolder, tasks: Iterable[str] | None, answers: Iterable[str] | None, triage: bool = False
) -> Sheet:
    """The table of a run without its cells: columns, and where it comes from. `triage`: with its columns."""
    says = f"verdicts of the specvet run {run.path.resolve().name}: one row a spectrum and task, or unreadable file"
    columns = (
        *COLUMNS.values(),
        *(ROLLOUT_COLUMNS if run.kind == "rollout" else ()),
        *(TRIAGE_COLUMNS if triage else ()),
        *(MATCH_COLUMNS if is_matched(run) else ()),
    )
    return Sheet("VERDICTS", says, columns, tuple(provenance(run, tasks, answers)))


def provenance(run: RunFolder, tasks: Iterable[str] | None, answers: Iterable[str] | None) -> Iterator[Fact]:
    """What makes the table checkable. Times are those of the receipt, so the same run gives the same file."""
    file = run.path / "receipt.json"
    try:
        content = file.read_bytes()
        receipt = json.loads(content)
    except (OSError, ValueError):
        receipt = run.receipt().model_dump(mode="json")
        content = b""
    sessions = receipt.get("sessions") or []
    yield Fact("creator", "CREATOR", f"specvet {__version__}", "program that wrote this table")
    date = receipt.get("ended") or receipt.get("started")
    if date:
        yield Fact("date", "DATE", _plain_time(date), "UTC, when the run was last worked on")
    yield Fact("run", "RUN", run.path.resolve().name, "run folder")
    made = ", ".join(dict.fromkeys(s["specvet"] for s in sessions if s.get("specvet")))
    if made:
        yield Fact("run_version", "RUNVERS", made, "specvet that made the run")
    if receipt.get("policy"):
        yield Fact("policy", "POLICY", receipt["policy"], "who decided")
    if model := origin_of(run).model:
        yield Fact("model", "MODEL", model.name, "which model, or what measured")
        if model.hash:
            yield Fact("model_hash", "MODHASH", model.hash, "SHA-256")
            yield Fact("model_hash_of", "MODHASHO", _HASHED[model.of], "what it is of")
    for name, card, key, says in (
        ("run_started", "RUNBEG", "started", "UTC"),
        ("run_ended", "RUNEND", "ended", "UTC, of the last session"),
        ("settings_hash", "SETHASH", "settings_hash", ""),
    ):
        if receipt.get(key):
            yield Fact(name, card, receipt[key], says)
    inputs = receipt.get("inputs")
    if isinstance(inputs, Mapping):
        yield Fact("inputs_hash", "INPHASH", inputs["hash"])
    if content:
        yield Fact("receipt_sha256", "RECEIPT", hashlib.sha256(content).hexdigest())
    hashes: dict[str, Any] = receipt.get("task_hashes") or {}
    for n, (task, value) in enumerate(sorted(hashes.items()), 1):
        yield Fact(f"task_{n}", f"TASK{n}", f"{task} {value}"[:200])
    for name, card, chosen in (("only_tasks", "ONLYTASK", tasks), ("only_answers", "ONLYANSW", answers)):
        if chosen is not None:
            yield Fact(name, card, ", ".join(chosen), "the run may hold more")


def _plain_time(moment: str) -> str:
    """An ISO time as FITS writes UTC: without the zone."""
    return moment.removesuffix("Z").removesuffix("+00:00")
