"""Runs, spectra and verdicts as a notebook shows them: `specvet.show`.

Each is a small piece of HTML with pictures in it, and a PNG where one picture says it: no scripts, no network, all text
of files and models escaped. What is shown is what stands in the run; nothing is measured or decided here.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from specvet.records import Decision, RunFolder
from specvet.records.decision import WHOLE_FILE
from specvet.records.schema import Answer, Verdict
from specvet.spectra import Spectrum, read

Window = tuple[float, float]

ORDER = (Answer.YES, Answer.UNSURE, Answer.FAILED, Answer.NO_DATA, Answer.NO, Answer.ERROR)
ROWS = 10
WINDOWS = 6
LONGEST = 300
"""Letters of one cell."""


def show(thing: Any, *, row: int = 0, windows: Sequence[Window] = ()) -> Shown:
    """What a notebook shows of a run folder, a spectrum, a decision or a verdict.

    Args:
        thing: a run folder or a spectrum file by its path, an open `RunFolder`, a `Spectrum`, `Decision` or `Verdict`.
        row: which target of a spectrum file.
        windows: (low, high) in Å to show beside the whole of a spectrum.

    Raises:
        TypeError: nothing that can be shown. LookupError: a row that the file does not hold.
        RunError, SpectrumReadError: a path that is neither run nor spectrum.
    """
    if isinstance(thing, Shown):
        return thing
    if isinstance(thing, Spectrum):
        return ShownSpectrum(thing, tuple(windows))
    if isinstance(thing, RunFolder):
        return ShownRun(thing.path)
    if isinstance(thing, Decision):
        return ShownDecision(thing, None)
    if isinstance(thing, Verdict):
        return ShownVerdict(thing)
    if not isinstance(thing, str | os.PathLike):
        raise TypeError(f"show: {type(thing).__name__} is no run, spectrum, decision or verdict, nor the path of one")
    path = Path(thing)
    if path.is_dir():
        RunFolder.read(path).close()
        return ShownRun(path)
    spectra = read(path)
    found = next((s for s in spectra if s.row == row), None)
    if found is None:
        raise LookupError(f"{path}: there is no row {row}; it holds rows 0 to {len(spectra) - 1}")
    return ShownSpectrum(found, tuple(windows), len(spectra))


class Shown:
    """Something that a notebook shows; `html` is what it shows."""

    @property
    def html(self) -> Markup:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return str(self.html)


@dataclass(frozen=True, repr=False)
class ShownSpectrum(Shown):
    """The figure of a spectrum, and what its file says of it."""

    spectrum: Spectrum
    windows: tuple[Window, ...] = ()
    of: int = 1
    """Targets in its file."""

    def __repr__(self) -> str:
        return repr(self.spectrum)

    def _repr_png_(self) -> bytes | None:
        return _full(self.spectrum, 0.0)

    @property
    def html(self) -> Markup:
        s = self.spectrum
        facts = [
            ("file", f"{s.file} row {s.row}" + (f" (of {self.of})" if self.of > 1 else "")),
            ("survey", " ".join(filter(None, (s.survey, s.release, s.layout)))),
            ("pixels", f"{s.n_pix:,}, {s.wave_min:.0f}-{s.wave_max:.0f} Å, {s.medium}, {s.frame}"),
            ("S/N", "not known" if s.snr is None else f"{s.snr:.3g} a pixel (median)"),
            ("RA, Dec", "" if s.ra is None or s.dec is None else f"{s.ra:.6f}, {s.dec:.6f}"),
            ("redshift", "" if s.redshift.value is None else f"{s.redshift.value:.6f} ({s.redshift.source})"),
            ("pipeline", " ".join(filter(None, (s.pipeline_class, s.pipeline_subclass)))),
            ("warnings", "; ".join(s.warnings)),
        ]
        pictures = [_img(_full(s, 0.0), f"Spectrum {s.id or s.file}", 896)]
        pictures += [_img(_zoom(s, w, 0.0), f"{w[0]:g}-{w[1]:g} Å", 308) for w in self.windows]
        return _box(f"Spectrum {s.id or Path(s.file).name}", s.warnings, _facts(facts), *pictures)


@dataclass(frozen=True, repr=False)
class ShownVerdict(Shown):
    """An answer with its reason and evidence."""

    verdict: Verdict

    def __repr__(self) -> str:
        return f"<{self.verdict.answer}: {self.verdict.reason}>"

    @property
    def html(self) -> Markup:
        return _box("Verdict", (), *_verdict(self.verdict))


@dataclass(frozen=True, repr=False)
class ShownDecision(Shown):
    """One spectrum and task: the whole spectrum, the windows that were looked at, what was measured and said."""

    decision: Decision
    run: Path | None
    """Whose it is: files are looked for from there too."""

    def __repr__(self) -> str:
        d = self.decision
        return f"<{d.task} of {d.id or d.file} row {d.row}: {d.verdict.answer}>"

    @cached_property
    def spectrum(self) -> Spectrum | None:
        """Read again; None where the file is gone or cannot be read."""
        from specvet.vetting.report.run import Spectra

        d = self.decision
        try:
            return Spectra(self.run or Path())(d.file, d.row)
        except (OSError, ValueError):
            return None

    @property
    def windows(self) -> tuple[Window, ...]:
        """That were looked at, each once, Å in the frame of the decision."""
        trajectory = self.decision.trajectory
        seen = [t.observation for t in trajectory.turns] if trajectory else []
        return tuple(dict.fromkeys(o.window for o in seen if o is not None and o.window is not None))

    def _repr_png_(self) -> bytes | None:
        return None if self.spectrum is None else _full(self.spectrum, self.decision.z or 0.0)

    @property
    def html(self) -> Markup:
        d, s, z = self.decision, self.spectrum, self.decision.z or 0.0
        facts = [
            ("file", f"{d.file} row {d.row}"),
            ("survey", d.survey),
            ("frame", d.frame),
            ("S/N", "" if d.snr is None else f"{d.snr:.3g} a pixel (median)"),
        ]
        pictures: list[Markup] = []
        if s is None:
            pictures.append(Markup("<p><em>The spectrum is not there any more, or cannot be read.</em></p>"))
        else:
            pictures.append(_img(_full(s, z), f"Spectrum {d.id or d.file}", 896))
            pictures += [_img(_zoom(s, w, z), f"{w[0]:g}-{w[1]:g} Å", 308) for w in self.windows[:WINDOWS]]
        told = _verdict(d.verdict)
        return _box(f"{d.task}: {d.id or Path(d.file).name}", d.warnings, *told, *pictures, _facts(facts))


class ShownRun(Shown):
    """A run: how many of what, and its first rows, finds first. `decision` opens one, `table` gives them all."""

    def __init__(self, path: Path, rows: int = ROWS) -> None:
        self.path, self.rows = path, rows

    def __repr__(self) -> str:
        with self._open() as run:
            counts = "; ".join(f"{task} {_counts(of)}" for task, of in run.count().items())
            return f"<{run.kind} run {self.path}: {counts or 'nothing decided yet'}>"

    def table(self, tasks: Iterable[str] | None = None, answers: Iterable[str] | None = None) -> Any:
        """All rows as an astropy `Table`, with the columns of `specvet export`."""
        from astropy.table import Table

        from specvet.vetting.export import row_maker

        with self._open() as run:
            make = row_maker(run)[0]
            asked = None if tasks is None else [*tasks, WHOLE_FILE]
            found = [make(d) for d in run.decisions(tasks=asked, answers=answers, with_trajectories=True)]
        names = list(found[0]) if found else []
        return Table({name: _column([row[name] for row in found]) for name in names})

    def decision(self, id: str, task: str | None = None) -> ShownDecision:
        """The first decision about the spectrum with this id or file name, for a task where it is said.

        Raises LookupError without one.
        """
        with self._open() as run:
            for d in run.decisions(with_trajectories=True):
                if task in (None, d.task) and id in (d.id, d.file, Path(d.file).name, f"{d.file}#{d.row}"):
                    return ShownDecision(d, self.path)
        raise LookupError(f"{self.path}: decided nothing about {id!r}" + (f" for the task {task}" if task else ""))

    @property
    def html(self) -> Markup:
        with self._open() as run:
            counts, kind = run.count(), run.kind
            policy = str(run.config.get("policy") or "")
            first = self._first(run)
        bands = self._bands()
        warnings = [w for d in first for w in d.warnings]
        answers = [a for a in ORDER if any(a in of for of in counts.values())]
        head = ["task", *map(str, answers)]
        lines = [[task if task != WHOLE_FILE else "unreadable", *(f"{of.get(a, 0):,}" for a in answers)]
                 for task, of in counts.items()]  # fmt: skip
        shown = [
            [d.id or Path(d.file).name, d.task, str(d.verdict.answer), _share(d.verdict.confidence)]
            + ([bands.get((d.file, d.row, d.task), "")] if bands else [])
            + [d.verdict.likelier_class or "", d.verdict.reason]
            for d in first
        ]
        names = ["id", "task", "answer", "confidence", *(["triage"] if bands else []), "likelier", "reason"]
        total = sum(n for of in counts.values() for n in of.values())
        more = f"the first {len(shown)} of {total:,} rows, finds first" if total > len(shown) else ""
        title = f"Run {self.path.resolve().name}: {kind}" + (f" by {policy}" if policy else "")
        return _box(title, warnings, _table(head, lines), _table(names, shown), Markup("<p>{}</p>").format(more))

    def _first(self, run: RunFolder) -> list[Decision]:
        found: list[Decision] = []
        for answer in ORDER:
            for d in run.decisions(answers=[answer]):
                if len(found) >= self.rows:
                    return found
                found.append(d)
        return found

    def _bands(self) -> dict[tuple[str, int, str], str]:
        from specvet.vetting.triage import TriageError, read_told

        try:
            return {place: told.text for place, told in read_told(self.path).items()}
        except TriageError:
            return {}

    @contextmanager
    def _open(self) -> Iterator[RunFolder]:
        run = RunFolder.read(self.path)
        try:
            yield run
        finally:
            run.close()


def _verdict(verdict: Verdict) -> list[Markup]:
    from specvet.vetting.export import evidence_text

    told = f", {_share(verdict.confidence)} sure" if verdict.confidence is not None else ""
    likelier = f"; likelier: {verdict.likelier_class}" if verdict.likelier_class else ""
    parts = [Markup("<p><b>{}</b>{}: {}{}</p>").format(verdict.answer, told, _cut(verdict.reason), likelier)]
    if verdict.evidence:
        rows = [[evidence_text(item), f"{item.log_odds:+.2f}", item.measurement.note] for item in verdict.evidence]
        parts.append(_table(["evidence", "log-odds of YES", "note"], rows))
    return parts


def _full(spectrum: Spectrum, z: float) -> bytes | None:
    from specvet.views import COMPACT_STYLE, full_view

    view = full_view(spectrum, z, style=COMPACT_STYLE, size="published")
    return view.png if view.n_points > 1 else None


def _zoom(spectrum: Spectrum, window: Window, z: float) -> bytes | None:
    from specvet.views import COMPACT_STYLE, zoom_view

    view = zoom_view(spectrum, window, z, style=COMPACT_STYLE)
    return view.png if view.n_points > 1 else None


def _img(png: bytes | None, alt: str, width: int) -> Markup:
    if png is None:
        return Markup("<p><em>{}: too few points to draw.</em></p>").format(alt)
    data = base64.b64encode(png).decode()
    style = "max-width:100%;background:#fff"
    return Markup('<img alt="{}" width="{}" style="{}" src="data:image/png;base64,{}">').format(alt, width, style, data)


def _box(title: str, warnings: Iterable[str], *parts: Markup) -> Markup:
    simulated = any("SIMULATED" in w for w in warnings)
    mark = Markup(' <b style="background:#222;color:#ffd95a;padding:0 5px">SIMULATED</b>') if simulated else ""
    head = Markup('<p style="margin:0 0 4px"><b>{}</b>{}</p>').format(_cut(title), mark)
    return Markup('<div class="specvet">{}{}</div>').format(head, Markup("").join(parts))


def _facts(facts: Iterable[tuple[str, str]]) -> Markup:
    told = [Markup("{}: {}").format(name, _cut(value)) for name, value in facts if value]
    return Markup("<p><small>{}</small></p>").format(Markup(" · ").join(told))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    left = Markup(' style="text-align:left;vertical-align:top"')
    top = Markup("").join(Markup("<th{}>{}</th>").format(left, name) for name in head)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td{}>{}</td>").format(left, _cut(c)) for c in row))
        for row in rows
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(top, body)


def _cut(text: str) -> str:
    line = " ".join(str(text).encode("utf-8", "replace").decode().split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _counts(of: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {answer}" for answer, n in of.items())


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.3g} %"


def _column(values: list[Any]) -> Any:
    """A column in which None is masked."""
    from astropy.table import Column, MaskedColumn

    known = [v for v in values if v is not None]
    if len(known) == len(values):
        return Column(values)
    filler: Any = type(known[0])() if known else ""
    return MaskedColumn([filler if v is None else v for v in values], mask=[v is None for v in values])
