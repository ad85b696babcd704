"""How well `line-indices` tells the five classes of the labelled real spectra, and how much of that is the container.

    python benchmarks/line_indices.py --spectra ../shared/spectra [--out results/line-indices] [--json]

The labels (`labels.csv`: path, class_label and one column a task with YES, NO, BORDERLINE, MODEL or nothing) lie
beside the spectra, which are not part of this repository. Every labelled YES and NO is scored; what the policy leaves
undecided (UNSURE, NO_DATA, FAILED) and what cannot be read counts as undecided, which is a miss for recall.

Three columns stand side by side, because in these files the class goes with the container (every cataclysmic variable
is a two-column text file):

- native: the file as `specvet.read` gives it;
- harmonised: wavelength and flux alone, resampled to one grid within 3,800-9,000 Å, no errors, joins, medium, frame or
  name: what is left when the container is taken away;
- metadata: a leave-one-out vote of the 5 nearest files that sees only layout, coverage, pixel count and whether there
  are errors, and no flux at all: what the container alone gives away.

Thresholds were set by hand while looking at these same spectra: this is a report on the tuning set, not a test.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

import specvet
from specvet.agent import run_agent, task_hash
from specvet.policies import policy
from specvet.records import file_hash
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum, SpectrumReadError, read
from specvet.tasks import Task, resolve_tasks
from specvet.tools import ZoomTool

TASKS = ("cv", "cc", "ss", "gm", "wd")
GRID = 10 ** np.arange(np.log10(3800.0), np.log10(9000.0), 1e-4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spectra", type=Path, default=Path(__file__).parents[1].parent / "shared" / "spectra")
    parser.add_argument("--out", type=Path, help="folder for metrics.json")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    if not (args.spectra / "labels.csv").is_file():
        print(f"no labels at {args.spectra / 'labels.csv'}; say where with --spectra", file=sys.stderr)
        return 2
    started = time.perf_counter()
    with (args.spectra / "labels.csv").open(encoding="utf-8", newline="") as f:
        rows = [row for row in csv.DictReader(f) if any(row[t] in ("YES", "NO", "BORDERLINE") for t in TASKS)]
    spectra, unread = load(args.spectra, rows)
    tasks = {t.key: t for t in resolve_tasks(list(TASKS))}
    native = {t: [answer(tasks[t], s) for s, _ in spectra] for t in TASKS}
    plain = [harmonised(s) for s, _ in spectra]
    stripped = {t: [answer(tasks[t], s) if s else "NO_DATA" for s in plain] for t in TASKS}
    guessed = {t: metadata_votes(spectra, t) for t in TASKS}
    report = {
        "what": "line-indices on its tuning set; see benchmarks/line_indices.py",
        "specvet": specvet.__version__,
        "labels_sha256": file_hash(args.spectra / "labels.csv"),
        "task_hashes": {t: task_hash(tasks[t]) for t in TASKS},
        "spectra": len(spectra),
        "unread": unread,
        "seconds": 0.0,
        "tasks": {},
    }
    for t in TASKS:
        labels = [row[t] for _, row in spectra]
        containers = [container(s) for s, _ in spectra]
        lost = sum(row[t] in ("YES", "NO") for row in rows if row["path"] in unread)
        report["tasks"][t] = {
            "native": metrics(labels, native[t], lost),
            "harmonised": metrics(labels, stripped[t], lost),
            "metadata": metrics(labels, guessed[t], lost),
            "by_layout": by_layout(labels, native[t], containers),
            "confusers": confusers(labels, native[t], [row["class_label"] for _, row in spectra]),
            "borderline": dict(Counter(a for label, a in zip(labels, native[t], strict=True) if label == "BORDERLINE")),
        }
    f1 = {t: report["tasks"][t]["native"]["f1"] for t in TASKS}
    report["mean_f1_cv_gm_wd"] = round(float(np.mean([f1["cv"], f1["gm"], f1["wd"]])), 4)
    report["seconds"] = round(time.perf_counter() - started, 1)
    show(report)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "metrics.json").write_text(
            json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    if args.json:
        print(json.dumps(report, ensure_ascii=False))
    return 0


def load(root: Path, rows: list[dict[str, str]]) -> tuple[list[tuple[Spectrum, dict[str, str]]], dict[str, str]]:
    """Every spectrum of every labelled file, and the files that could not be read with the reason."""
    spectra, unread = [], {}
    for row in rows:
        try:
            spectra.extend((s, row) for s in read(root / row["path"]))
        except SpectrumReadError as e:
            unread[row["path"]] = e.problem
    return spectra, unread


def answer(task: Task, spectrum: Spectrum) -> str:
    question = Question(id="benchmark", task=task.key, spectrum=SpectrumRef(path="-"))
    return str(run_agent(question, task, ZoomTool(spectrum), policy("line-indices")).verdict.answer)


def container(s: Spectrum) -> str:
    return f"{s.layout}{' with errors' if s.ivar is not None else ''}"


def harmonised(s: Spectrum) -> Spectrum | None:
    """Wavelength and flux alone on one grid; None where nothing of it lies within."""
    finite = np.isfinite(s.flux)
    w, f = s.wavelength[finite], s.flux[finite]
    grid = GRID[(w[0] <= GRID) & (w[-1] >= GRID)] if w.size else GRID[:0]
    if grid.size < 50:
        return None
    return Spectrum(grid, np.interp(grid, w, f / np.median(np.abs(f))))


def metadata_votes(spectra: list[tuple[Spectrum, dict[str, str]]], task: str, k: int = 5) -> list[str]:
    """Leave-one-out vote of the k nearest labelled spectra by metadata alone."""
    labels = np.array([row[task] for _, row in spectra])
    layouts = sorted({container(s) for s, _ in spectra})
    rows = []
    for s, _ in spectra:
        onehot = [3.0 * (container(s) == layout) for layout in layouts]
        rows.append([np.log(s.n_pix), s.wave_min / 1000, s.wave_max / 1000, *onehot])
    x = np.array(rows)
    x[:, :3] /= x[:, :3].std(axis=0)
    scored = np.isin(labels, ("YES", "NO"))
    votes = []
    for i in range(len(x)):
        distance = np.where(scored & (np.arange(len(x)) != i), np.abs(x - x[i]).sum(axis=1), np.inf)
        nearest = labels[np.argsort(distance, kind="stable")[:k]]
        votes.append("YES" if (nearest == "YES").sum() * 2 > k else "NO")
    return votes


def metrics(labels: list[str], answers: list[str], lost: int = 0) -> dict[str, float]:
    count = Counter(zip(labels, answers, strict=True))
    positives = sum(n for (label, _), n in count.items() if label == "YES")
    scored = sum(n for (label, _), n in count.items() if label in ("YES", "NO"))
    tp, fp = count["YES", "YES"], count["NO", "YES"]
    decided = sum(n for (label, a), n in count.items() if label in ("YES", "NO") and a in ("YES", "NO"))
    return {
        "scored": scored + lost,
        "positives": positives,
        "tp": tp,
        "fp": fp,
        "precision": round(tp / (tp + fp), 4) if tp + fp else 0.0,
        "recall": round(tp / positives, 4) if positives else 0.0,
        "f1": round(2 * tp / (positives + tp + fp), 4) if positives + tp + fp else 0.0,
        "undecided": scored + lost - decided,
        "undecided_share": round((scored + lost - decided) / max(1, scored + lost), 4),
    }


def by_layout(labels: list[str], answers: list[str], containers: list[str]) -> dict[str, dict[str, float]]:
    out = {}
    for name in sorted(set(containers)):
        pick = [i for i, c in enumerate(containers) if c == name]
        out[name] = metrics([labels[i] for i in pick], [answers[i] for i in pick])
    return out


def confusers(labels: list[str], answers: list[str], classes: list[str]) -> dict[str, dict[str, int]]:
    """Answers to labelled NO by what the object is."""
    out: dict[str, Counter[str]] = {}
    for label, a, name in zip(labels, answers, classes, strict=True):
        if label == "NO":
            out.setdefault(name, Counter())[a] += 1
    return {name: dict(count) for name, count in sorted(out.items())}


def show(report: dict) -> None:
    print(f"{report['spectra']} spectra, {len(report['unread'])} labelled files unread, {report['seconds']} s")
    print(
        f"{'task':5} {'view':11} {'scored':>6} {'pos':>4} {'tp':>4} {'fp':>3} "
        f"{'prec':>6} {'recall':>6} {'F1':>6} {'undecided':>10}"
    )
    for t, parts in report["tasks"].items():
        for view in ("native", "harmonised", "metadata"):
            m = parts[view]
            print(
                f"{t:5} {view:11} {m['scored']:6} {m['positives']:4} {m['tp']:4} {m['fp']:3} {m['precision']:6.3f} "
                f"{m['recall']:6.3f} {m['f1']:6.3f} {m['undecided']:4} ({100 * m['undecided_share']:4.1f} %)"
            )
        wrong = {name: c for name, c in parts["confusers"].items() if c.get("YES")}
        print(f"      false alarms: {wrong or 'none'}; borderline: {parts['borderline'] or 'none'}")
    print(f"mean F1 of cv, gm, wd: {report['mean_f1_cv_gm_wd']}")


if __name__ == "__main__":
    sys.exit(main())
