"""What measuring before a model loses: members of each class that `--prefilter` leaves out, real and SIMULATED.

    python benchmarks/prefilter.py --spectra ../shared/spectra [--each 60] [--below P] [--out results/vet] [--json]
    python benchmarks/prefilter.py --fit [--each 60]                     makes src/specvet/vetting/screens.json anew

Real: every spectrum that `labels.csv` calls a member (YES), and what it calls none (NO). These are the spectra that
the thresholds of `line-indices` were set on; the screens have not seen them. SIMULATED: `--each` members of every kind
of every class in each band of S/N, the four surveys in turn, drawn anew from fixed seeds, and others as a survey's
colour cuts give them. A member is kept where a model would be asked. Intervals are those of Clopper and Pearson, 95 %.

`--fit` draws two more sets of S/N from 5 on: weights come from one, thresholds from the other, and what the file tells
of itself from the third, which is the one that is reported. It needs scikit-learn.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import platform
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import specvet
from specvet.agent import run_agent, task_hash
from specvet.data.simulate.kinds import KINDS, TASKS, make
from specvet.data.simulate.observed import SURVEYS
from specvet.data.simulate.observing import observe, spectrum
from specvet.policies.line_indices import LineIndices
from specvet.records import write_atomic
from specvet.records.schema import Answer, Question, SpectrumRef, Verdict
from specvet.spectra import Spectrum, SpectrumReadError, read
from specvet.tasks import Task, resolve_tasks
from specvet.tools import ZoomTool
from specvet.vetting import screen as screen_module
from specvet.vetting.prefilter import Prefilter, Recall, hopeless, recall_of
from specvet.vetting.screen import Screen, evidence_hash, screens
from specvet.vetting.triage.bands import members_needed, reject_rank

Band = tuple[float, float]

BANDS: tuple[Band, ...] = ((3.0, 5.0), (5.0, 10.0), (10.0, 20.0), (20.0, 60.0))
"""S/N a pixel."""
SURE = 5.0
"""S/N from which on 99 % shall be kept."""
SURE_BANDS: tuple[Band, ...] = tuple(band for band in BANDS if band[0] >= SURE)
MAX_LOST, SURENESS = 0.01, 0.95
"""Share of the members of a class that a screen may leave out, and how sure that must be."""
STRENGTH = 0.3
"""scikit-learn's C of the weights."""
RIVAL_SCALE = 3.0
"""Of the column of a likelier class: how freely its weight may depart from 0, beside log-odds of a few units."""
WEIGHTS_FROM, THRESHOLDS_FROM = 6, 7
"""Numbers of the sets that `--fit` draws; the one that is reported is 0."""
ABOUT = "screens of line-indices, made by benchmarks/prefilter.py --fit of SIMULATED spectra; see screen.py"


@dataclass(frozen=True, slots=True)
class Measured:
    """What `line-indices` says of one spectrum and task."""

    task: str
    yes: bool
    kind: str
    band: str
    verdict: Verdict | None
    """None where it could not be read."""
    name: str = ""
    """Of a real one: its file."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spectra", type=Path, default=Path(__file__).parents[1].parent / "shared" / "spectra")
    parser.add_argument("--each", type=int, default=60, help="SIMULATED members of each kind and S/N band")
    parser.add_argument("--others", type=int, default=900, help="SIMULATED others")
    parser.add_argument("--below", type=float, help="probability of YES in place of the screens")
    parser.add_argument("--fit", action="store_true", help="make the screens anew")
    parser.add_argument("--out", type=Path, help="folder for prefilter.json")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    begun = time.process_time()
    tasks = {task.key: task for task in resolve_tasks(list(TASKS))}
    if args.fit and (lack := too_few(args.each)):
        parser.error(lack)
    rows = list(simulated(tasks, args.each, args.others))
    if args.fit:  # the file is written when all has been measured, so that a run that is stopped leaves it as it was
        keep(fitted(tasks, args.each, args.others))
    found: dict[str, Any] = {"SIMULATED": told(rows, tasks, args.below)}
    if args.fit:
        of_screens = found["SIMULATED"] if args.below is None else told(rows, tasks, None)
        keep([one.model_dump(mode="json") for one in screens().values()], of_screens["from_sn_5"])
    if (args.spectra / "labels.csv").is_file():
        found["real"] = told(list(real(tasks, args.spectra)), tasks, args.below)
    else:
        print(f"no labels at {args.spectra}: the real spectra are left out", file=sys.stderr)
    report = {
        "what": "members that the prefilter keeps; SIMULATED and real apart",
        **Prefilter(args.below).settings,
        "each": args.each,
        "found": found,
        "task_hashes": {key: task_hash(task) for key, task in tasks.items()},
        "versions": {"specvet": specvet.__version__, "numpy": np.__version__, "python": platform.python_version()},
        "cpu_s": round(time.process_time() - begun, 1),
    }
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(report, indent=1) + "\n"
        (args.out / "prefilter.json").write_text(text, encoding="utf-8")
    table(found)
    if args.json:
        print(json.dumps(report))
    return 0


def simulated(
    tasks: dict[str, Task], each: int, others: int, of_set: int = 0, bands: tuple[Band, ...] = BANDS
) -> Iterator[Measured]:
    """Members of each kind in each band, asked about their own class, and others, asked about all that they are not."""
    policy = LineIndices()
    for key, kind in KINDS.items():
        if not kind.yes or not kind.positive:
            continue
        for low, high in bands:
            for number in range(each):
                s = drawn(key, 1_000 * of_set + number, low, high)
                for task in kind.yes:
                    yield measured(tasks[task], True, key, f"{low:g}-{high:g}", s, policy)
    rng = np.random.default_rng(of_set)
    names = list(KINDS)
    weights = np.array([KINDS[key].weight for key in names])
    for number, key in enumerate(rng.choice(names, others, p=weights / weights.sum())):
        s = drawn(str(key), 1_000_000 + 100_000 * of_set + number, SURE, BANDS[-1][1])
        for task in sorted(set(tasks) - set(KINDS[str(key)].yes)):
            yield measured(tasks[task], False, str(key), "others", s, policy)


def drawn(kind: str, number: int, low: float, high: float) -> Spectrum:
    """One SIMULATED spectrum, its S/N log-uniform from `low` to `high`."""
    rng = np.random.default_rng([20261130, zlib.crc32(f"{kind} {low:g}".encode()), number])
    snr = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return spectrum(observe(make(kind, rng), SURVEYS[number % len(SURVEYS)], rng, snr=snr, object_number=number))


def real(tasks: dict[str, Task], root: Path) -> Iterator[Measured]:
    """The labelled spectra, members and others."""
    policy = LineIndices()
    with (root / "labels.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if {row[key] for key in tasks} & {"YES", "NO"}]
    for row in rows:
        try:
            s = read(root / row["path"])[0]
        except (OSError, SpectrumReadError):
            s = None
        band = "not known" if s is None or s.snr is None else band_of(s.snr)
        for key in (key for key in tasks if row[key] in ("YES", "NO")):
            about = row[key] == "YES", row["class_label"], band
            if s is None:  # the reader's error goes to a person, and no member is lost
                yield Measured(key, *about, None, row["path"])
            else:
                yield measured(tasks[key], *about, s, policy, row["path"])


def band_of(snr: float) -> str:
    return next((f"{low:g}-{high:g}" for low, high in BANDS if low <= snr < high), "above" if snr > SURE else "below")


def measured(task: Task, yes: bool, kind: str, band: str, s: Spectrum, policy: LineIndices, name: str = "") -> Measured:
    """One spectrum as the prefilter measures it."""
    question = Question(id="x", task=task.key, spectrum=SpectrumRef(path="x", row=s.row))
    return Measured(task.key, yes, kind, band, run_agent(question, task, ZoomTool(s), policy).verdict, name)


def too_few(each: int) -> str:
    """Why `--fit` cannot promise anything of so many members of each kind and band; empty where it can."""
    kinds = Counter(task for kind in KINDS.values() if kind.positive for task in kind.yes)
    needed = math.ceil(members_needed(MAX_LOST, SURENESS) / (min(kinds.values()) * len(SURE_BANDS)))
    return "" if each >= needed else f"--each {each}: --fit takes {needed} at least to promise {1 - MAX_LOST:.0%}"


def fitted(tasks: dict[str, Task], each: int, others: int) -> list[dict[str, Any]]:
    """The screens, as they stand in the file."""
    sets = [list(simulated(tasks, each, others, number, SURE_BANDS)) for number in (WEIGHTS_FROM, THRESHOLDS_FROM)]
    return [screen_for(task, *([r for r in rows if r.task == key] for rows in sets)) for key, task in tasks.items()]


def screen_for(task: Task, rows: list[Measured], held: list[Measured]) -> dict[str, Any]:
    """One of a class: weights from `rows`, threshold from `held`."""
    from sklearn.linear_model import LogisticRegression

    said = [(r.yes, r.verdict) for r in rows if r.verdict is not None and r.verdict.answer is Answer.NO]
    if len({yes for yes, _ in said}) < 2:
        raise SystemExit(f"{task.key}: no NO of a member, or none of an other, to weigh; give more --each or --others")
    names = sorted({item.measurement.name for _, v in said for item in v.evidence})
    rivals = sorted({v.likelier_class or "" for _, v in said})
    columns = np.zeros((len(said), len(names) + len(rivals)))
    for i, (_, v) in enumerate(said):
        for item in v.evidence:
            columns[i, names.index(item.measurement.name)] += item.log_odds
        columns[i, len(names) + rivals.index(v.likelier_class or "")] = RIVAL_SCALE
    model = LogisticRegression(C=STRENGTH, max_iter=5_000).fit(columns, [yes for yes, _ in said])
    weights = model.coef_[0].tolist()
    found = Screen(
        task=task.key,
        evidence=evidence_hash(task),
        weights={k: round(w, 3) for k, w in zip(names, weights, strict=False)},
        rivals={k: round(RIVAL_SCALE * w, 3) for k, w in zip(rivals, weights[len(names) :], strict=True)},
        below=0.0,
    )
    # Members that are not NO are kept whatever the threshold.
    scores = [
        found.score(r.verdict) if r.verdict is not None and r.verdict.answer is Answer.NO else np.inf
        for r in held
        if r.yes
    ]
    rank = reject_rank(len(scores), MAX_LOST, SURENESS)
    below = math.floor(1_000 * min(sorted(scores)[rank - 1], 99.0)) / 1_000  # down: rounding up would lose that member
    fitted = {"weights": len(rows), "threshold": len(scores)}
    return found.model_copy(update={"below": below, "fitted": fitted}).model_dump(mode="json")


def keep(made: list[dict[str, Any]], recalls: list[dict[str, Any]] | None = None) -> None:
    """Write the file, and read it anew."""
    text = json.dumps({"what": ABOUT, "screens": made, "recalls": recalls or []}, indent=1, ensure_ascii=False)
    write_atomic(screen_module.FILE, text + "\n")
    screen_module._file.cache_clear()


def told(rows: list[Measured], tasks: dict[str, Task], below: float | None) -> dict[str, Any]:
    """Recall of each class: in all, at S/N from 5 on, by band, and by kind where something was lost."""
    gone = {id(r): r.verdict is not None and bool(hopeless(tasks[r.task], r.verdict, below)) for r in rows}
    sure = [r for r in rows if not r.yes or r.band not in ("3-5", "below")]
    members = [r for r in rows if r.yes]
    return {
        "all": recalls(rows, gone),
        "from_sn_5": recalls(sure, gone),
        "by_band": {b: recalls([r for r in members if r.band == b], gone) for b in sorted({r.band for r in members})},
        "losses": losses([r for r in sure if r.yes], gone),
    }


def losses(members: list[Measured], gone: dict[int, bool]) -> list[dict[str, Any]]:
    """Kinds of which some were lost at S/N from 5 on, the worst first."""
    found = []
    for task, kind in sorted({(r.task, r.kind) for r in members if gone[id(r)]}):
        mine = [r for r in members if (r.task, r.kind) == (task, kind)]
        lost = [r for r in mine if gone[id(r)]]
        names = {"files": sorted(r.name for r in lost)} if lost[0].name else {}
        found.append({"task": task, "kind": kind, "members": len(mine), "lost": len(lost)} | names)
    return sorted(found, key=lambda one: -one["lost"])


def recalls(rows: Iterable[Measured], gone: dict[int, bool]) -> list[dict[str, Any]]:
    return [as_dict(r) for r in recall_of((r.task, r.yes, gone[id(r)]) for r in rows)]


def as_dict(r: Recall) -> dict[str, Any]:
    interval = r.interval()
    return r.as_dict() | {
        "recall": None if r.recall is None else round(r.recall, 4),
        "interval": None if interval is None else [round(x, 4) for x in interval],
    }


def table(found: dict[str, Any]) -> None:
    """For people, on stderr."""
    for name, of_set in found.items():
        for part in ("all", "from_sn_5"):
            print(f"\n{name}, {part}", file=sys.stderr)
            for r in of_set[part]:
                others = f", others left out {r['left_out']} of {r['others']}" if r["others"] else ""
                print(f"  {r['task']}  {r['kept']} of {r['positives']} {r['interval']}{others}", file=sys.stderr)
        for one in of_set["losses"]:
            told = f"  lost {one['lost']} of {one['members']} {one['task']} {one['kind']}"
            print(f"{told} {' '.join(one.get('files', []))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
