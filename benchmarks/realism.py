"""How real simulated spectra look: indices, noise and shapes beside real ones, and a classifier that tells them apart.

    python benchmarks/realism.py --spectra ../shared/spectra [--per-real 2] [--out results/realism] [--json]

The real spectra are not part of this repository. Compared are

- `lamost`: simulated LAMOST spectra with the real files, each of the type and at the S/N of a real one;
- `lamost, DR2 on`: the same without the files of DR1, whose pipeline stated its errors otherwise;
- `lamost, templates`: the same from real templates, with the real files of objects that seed none (held out);
- `cv`: simulated CVs of SDSS with the real ones, as text files hold them (no errors);
- `library`: sources without noise with stars of MILES, Pickles, STELIB, Indo-US and standards: features alone.

The classifier (gradient boosting, 5 folds by object) sees line indices, or noise and quality, or both and coarse flux.
50 % balanced accuracy would be perfect. Its interval is 95 %, from resampling objects. What gives simulations away is
what it loses most by when a feature is shuffled, beside the Kolmogorov-Smirnov distance of that feature.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import realism_features as features
import realism_sets as sets
import specvet
from specvet.data.simulate.templates import load_templates
from specvet.records import file_hash

VIEWS = ("indices", "quality", "all")
SETS = ("lamost", "lamost, DR2 on", "lamost, templates", "cv")
FOLDS = 5
KEPT = 12
"""Distributions a class that are reported."""
SUSPECTS = 25
"""Features, the most different ones, of which it is asked what the classifier loses without them."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spectra", type=Path, default=Path(__file__).parents[1].parent / "shared" / "spectra")
    parser.add_argument("--per-real", type=int, default=2, help="simulated spectra for each real one")
    parser.add_argument("--n", type=int, default=60, help="simulated sources of each kind beside a library")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="only these comparisons: lamost,templates,cv,library")
    parser.add_argument("--out", type=Path, help="folder for realism.json and pictures")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/simulation.md")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    if not (args.spectra / "manifest.csv").is_file():
        print(f"no manifest at {args.spectra / 'manifest.csv'}; say where with --spectra", file=sys.stderr)
        return 2
    started = time.perf_counter()
    only = args.only.split(",") if args.only else ["lamost", "templates", "cv", "library"]
    report: dict[str, Any] = {
        "what": "simulated spectra beside real ones; see benchmarks/realism.py",
        "specvet": specvet.__version__,
        "manifest_sha256": file_hash(args.spectra / "manifest.csv"),
        "seed": args.seed,
        "per_real": args.per_real,
    }
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    if "lamost" in only:
        real = sets.lamost(args.spectra)
        made = sets.simulated(real, "lamost", sets.LAMOST, args.per_real, args.seed)
        report["lamost"] = compared(real, made)
        report["lamost"]["snr_free"] = distribution(
            [one.spectrum.snr or np.nan for one in real], sets.free_snr("lamost", 300, args.seed)
        )
        picture(args.out, "lamost", real, made)
        later = [one for one in real if "/dr1/" not in one.name]
        beside_later = [one for one in made if one.beside in {other.name for other in later}]
        report["lamost, DR2 on"] = compared(later, beside_later)
    if "templates" in only:
        real = sets.lamost(args.spectra, only_held_out=True)
        templates = load_templates(args.spectra)
        made = sets.simulated(real, "lamost", sets.LAMOST, 2 * args.per_real, args.seed, templates)
        report["lamost, templates"] = compared(real, made)
        picture(args.out, "lamost-templates", real, made)
    if "cv" in only:
        real = sets.cataclysmic(args.spectra)
        made = sets.simulated(real, "sdss", {"*": sets.CV}, args.per_real, args.seed, bare=True)
        report["cv"] = compared(real, made)
        picture(args.out, "cv", real, made)
    if "library" in only:
        report["library"] = libraries(args.spectra, args.n, args.seed)
    report["seconds"] = round(time.perf_counter() - started, 1)
    show(report)
    if args.out:
        text = json.dumps(report, indent=1, ensure_ascii=False)
        (args.out / "realism.json").write_text(f"{text}\n", encoding="utf-8")
    if args.markdown:
        table(report)
    if args.json:
        print(json.dumps(report, ensure_ascii=False))
    return 0


def compared(real: list[sets.One], made: list[sets.One]) -> dict[str, Any]:
    """Distributions and classifiers of two sides."""
    measured = [_measured(one) for one in real + made]
    tables = {view: [row[view] for row in measured] for view in VIEWS}
    is_real = np.array([True] * len(real) + [False] * len(made))
    groups = [one.group for one in real + made]
    labels = np.array([one.label for one in real + made])
    out: dict[str, Any] = {"real": len(real), "simulated": len(made), "classifier": {}, "distributions": {}}
    for view in VIEWS:
        out["classifier"][view] = told_apart(tables[view], is_real, groups)
    for label in dict.fromkeys(labels):
        pick = labels == label
        sides = (
            [row for row, use in zip(tables["all"], pick & side, strict=True) if use] for side in (is_real, ~is_real)
        )
        out["distributions"][label] = kept(distances(*sides))
    return out


@cache
def _measured(one: sets.One) -> dict[str, dict[str, float]]:
    indices, quality = features.clipped(features.indices(one.spectrum)), features.quality(one.spectrum)
    return {"indices": indices, "quality": quality, "all": indices | quality | features.coarse(one.spectrum)}


def distances(real: list[dict[str, float]], made: list[dict[str, float]]) -> dict[str, Any]:
    """Each feature's distribution on both sides, most different first."""
    names = dict.fromkeys(name for row in real + made for name in row)
    found = {n: distribution([r.get(n, np.nan) for r in real], [m.get(n, np.nan) for m in made]) for n in names}
    return dict(sorted(((n, d) for n, d in found.items() if d), key=lambda item: -item[1]["ks"]))


def kept(found: dict[str, Any], names: Iterable[str] = ()) -> dict[str, Any]:
    """The most different ones, and those that are asked for."""
    return {n: d for i, (n, d) in enumerate(found.items()) if i < KEPT or n in names}


def distribution(real: list[float], made: list[float]) -> dict[str, Any]:
    """10, 50 and 90 % of both sides, and their KS distance; empty where one side has fewer than 3 values."""
    a, b = (np.array(values, dtype=float) for values in (real, made))
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    if min(a.size, b.size) < 3:
        return {}
    return {
        "real": [_short(v) for v in np.percentile(a, [10, 50, 90])],
        "simulated": [_short(v) for v in np.percentile(b, [10, 50, 90])],
        "ks": round(_kolmogorov(a, b), 3),
    }


def _kolmogorov(a: np.ndarray, b: np.ndarray) -> float:
    """Greatest distance of two cumulative distributions."""
    at = np.sort(np.concatenate([a, b]))
    shares = (np.searchsorted(np.sort(side), at, side="right") / side.size for side in (a, b))
    return float(np.abs(next(shares) - next(shares)).max())


def told_apart(rows: list[dict[str, float]], is_real: np.ndarray, groups: list[str]) -> dict[str, Any]:
    """Balanced accuracy of a classifier that is to tell real from simulated, and the features that it goes by."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedGroupKFold

    names = list(dict.fromkeys(name for row in rows for name in row))
    x = np.array([[row.get(name, np.nan) for name in names] for row in rows], dtype=float)
    use = np.array([np.isfinite(column).sum() > 10 and np.nanstd(column) > 0 for column in x.T])
    x, names = x[:, use], [name for name, used in zip(names, use, strict=True) if used]
    weight = np.where(is_real, 0.5 / is_real.mean(), 0.5 / (~is_real).mean())
    right, importance = np.zeros(is_real.size, dtype=bool), np.zeros(len(names))
    distance = np.array([distribution(list(c[is_real]), list(c[~is_real])).get("ks", 0.0) for c in x.T])
    suspects = np.argsort(-distance, kind="stable")[:SUSPECTS]
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(x, is_real, groups):
        model = HistGradientBoostingClassifier(
            max_iter=60, learning_rate=0.15, min_samples_leaf=8, max_leaf_nodes=12, max_bins=64, random_state=0
        )
        model.fit(x[train], is_real[train], sample_weight=weight[train])
        right[test] = model.predict(x[test]) == is_real[test]
        for i in suspects:
            importance[i] += _loss_when_shuffled(model, x[test], is_real[test], i) / FOLDS
    low, high = interval(right, is_real, groups)
    best = np.argsort(-importance)[:10]
    return {
        "balanced_accuracy": round(balanced(right, is_real), 3),
        "interval": [round(low, 3), round(high, 3)],
        "gives_away": [
            {"feature": names[i], "loss": round(float(importance[i]), 3)}
            | distribution(list(x[is_real, i]), list(x[~is_real, i]))
            for i in best
            if importance[i] > 0.001
        ],
    }


def _loss_when_shuffled(model: Any, x: np.ndarray, is_real: np.ndarray, feature: int) -> float:
    """Balanced accuracy that a feature is worth to a classifier."""
    shuffled = x.copy()
    np.random.default_rng(feature).shuffle(shuffled[:, feature])
    return balanced(model.predict(x) == is_real, is_real) - balanced(model.predict(shuffled) == is_real, is_real)


def balanced(right: np.ndarray, is_real: np.ndarray) -> float:
    return 0.5 * float(right[is_real].mean() + right[~is_real].mean())


def interval(right: np.ndarray, is_real: np.ndarray, groups: list[str]) -> tuple[float, float]:
    """95 % of the balanced accuracy, from drawing objects again."""
    rng = np.random.default_rng(0)
    members: dict[str, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    objects = list(members.values())
    values = []
    for _ in range(400):
        pick = np.concatenate([objects[i] for i in rng.integers(0, len(objects), len(objects))])
        if 0 < is_real[pick].sum() < pick.size:
            values.append(balanced(right[pick], is_real[pick]))
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def libraries(folder: Path, n: int, seed: int) -> dict[str, Any]:
    """Index distributions of sources beside library stars, kind by kind; a classifier where there are 15 or more."""
    out: dict[str, Any] = {}
    for kind in sets.LIBRARY_KINDS:
        real = [features.clipped(features.indices(s, 0.0)) for s in sets.library(folder, kind)]
        made = [features.clipped(features.indices(s, 0.0)) for s in sets.noiseless(kind, n, seed)]
        if not real:
            continue
        out[kind] = {"real": len(real), "simulated": len(made)}
        if len(real) >= 15:
            is_real = np.array([True] * len(real) + [False] * len(made))
            groups = [str(i) for i in range(is_real.size)]
            out[kind]["classifier"] = {"indices": told_apart(real + made, is_real, groups)}
        found = distances(real, made) if len(real) >= 3 else beside(real, made)
        out[kind]["main"] = {name: found[name] for name in features.main_indices(kind) if name in found}
        out[kind]["distributions"] = kept(found)
    return out


def beside(real: list[dict[str, float]], made: list[dict[str, float]]) -> dict[str, Any]:
    """For one or two real stars: their values, and where they lie among the simulated ones (0 to 1)."""
    out = {}
    for name in real[0]:
        values = np.array([m[name] for m in made if np.isfinite(m[name])])
        own = [r[name] for r in real if np.isfinite(r[name])]
        if values.size > 5 and own:
            ranks = [round(float((values < v).mean()), 2) for v in own]
            spread = [_short(v) for v in np.percentile(values, [10, 50, 90])]
            out[name] = {
                "real": [_short(v) for v in own],
                "simulated": spread,
                "rank": ranks,
                "ks": round(max(2 * abs(r - 0.5) for r in ranks), 3),
            }
    return dict(sorted(out.items(), key=lambda item: -item[1]["ks"]))


def picture(out: Path | None, name: str, real: list[sets.One], made: list[sets.One]) -> None:
    """For two simulated spectra of each class the real one that is nearest in normalised flux."""
    if out is None:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    grid = np.geomspace(3900.0, 8900.0, 1200)
    labels = list(dict.fromkeys(one.label for one in real))
    per_label = 2 if len(labels) > 2 else 8
    rows = len(labels) * per_label // 2
    figure, axes = plt.subplots(rows, 2, figsize=(13, 2.0 * rows), squeeze=False)
    curves = [_curve(one, grid) for one in real]
    for k, label in enumerate(labels):
        of_label = [one for one in made if one.label == label]
        chosen = of_label[:: max(1, len(of_label) // per_label)]
        for j, one in enumerate(chosen[:per_label]):
            axis = axes[(k * per_label + j) // 2, (k * per_label + j) % 2]
            mine = _curve(one, grid)
            nearest = int(np.argmin([np.mean((_slow(mine) - _slow(c)) ** 2) for c in curves]))
            axis.plot(grid, curves[nearest], color="0.55", lw=0.6, label=f"real {Path(real[nearest].name).name}")
            axis.plot(grid, mine, color="tab:blue", lw=0.6, label=f"{one.name}, S/N {one.spectrum.snr or 0:.0f}")
            axis.set_ylim(min(0.0, np.nanpercentile(mine, 0.5)), 1.25 * max(np.nanpercentile(mine, 99.5), 1.0))
            axis.legend(fontsize=6, loc="upper right", frameon=False)
            axis.tick_params(labelsize=6)
    survey = (
        "SDSS (sdss.org)"
        if name == "cv"
        else "LAMOST, the Guoshoujing Telescope (National Astronomical Observatories, CAS)"
    )
    figure.text(
        0.5,
        0.002,
        f"Blue: SIMULATED. Grey: nearest real spectrum, {survey}. Flux over median; Å.",
        ha="center",
        fontsize=7,
    )
    figure.tight_layout(rect=(0, 0.012, 1, 1))
    figure.savefig(out / f"nearest-{name}.png", dpi=70)
    plt.close(figure)


def _curve(one: sets.One, grid: np.ndarray) -> np.ndarray:
    s = one.spectrum
    good = s.good
    flux = np.interp(grid, s.wavelength[good], s.flux[good])
    return flux / max(float(np.median(flux)), 1e-30)


def _slow(curve: np.ndarray) -> np.ndarray:
    return curve[: curve.size // 6 * 6].reshape(-1, 6).mean(axis=1)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def show(report: dict[str, Any]) -> None:
    for name in SETS:
        part = report.get(name)
        if not part:
            continue
        print(f"\n## {name}: {part['real']} real, {part['simulated']} simulated")
        if "snr_free" in part:
            print(f"S/N as the survey draws it: {part['snr_free']}")
        for view, found in part["classifier"].items():
            low, high = found["interval"]
            print(f"told apart by {view}: {100 * found['balanced_accuracy']:.0f} % ({100 * low:.0f}-{100 * high:.0f})")
            for item in found["gives_away"]:
                print(f"    {item['feature']:42} loss {item['loss']:.3f}  {_sides(item)}")
        for label, found in part["distributions"].items():
            print(f"  {label}: most different")
            for key, item in list(found.items())[:12]:
                print(f"    {key:42} {_sides(item)}")
    for kind, part in report.get("library", {}).items():
        told = part.get("classifier", {}).get("indices")
        apart = f", told apart {100 * told['balanced_accuracy']:.0f} % {told['interval']}" if told else ""
        print(f"\n## library {kind}: {part['real']} real, {part['simulated']} simulated{apart}")
        for key, item in [*part["main"].items(), ("--", {}), *list(part["distributions"].items())[:8]]:
            print(f"    {key:24} {_sides(item) if item else ''}")
    print(f"\n{report['seconds']} s")


def table(report: dict[str, Any]) -> None:
    """The tables of `docs/simulation.md`."""
    print("\n| set | real | simulated | told apart by indices | by noise and quality | by all and coarse flux |")
    print("|---|---|---|---|---|---|")
    for name in SETS:
        if part := report.get(name):
            print(
                f"| {name} | {part['real']} | {part['simulated']} | "
                + " | ".join(map(_percent, part["classifier"].values()))
                + " |"
            )
    for kind, part in report.get("library", {}).items():
        if "classifier" in part:
            told = _percent(part["classifier"]["indices"])
            print(f"| library, {kind} | {part['real']} | {part['simulated']} | {told} | | |")
    print("\n| set | feature | real (10, 50, 90 %) | simulated | KS | accuracy lost without it |")
    print("|---|---|---|---|---|---|")
    for name in SETS:
        for item in report.get(name, {}).get("classifier", {}).get("all", {}).get("gives_away", [])[:6]:
            values = (", ".join(f"{v:.3g}" for v in item.get(side, [])) for side in ("real", "simulated"))
            rest = f"{item.get('ks', 0):.2f} | {100 * item['loss']:.0f} %"
            print(f"| {name} | {item['feature']} | {' | '.join(values)} | {rest} |")


def _percent(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{100 * found['balanced_accuracy']:.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def _sides(item: dict[str, Any]) -> str:
    return f"KS {item.get('ks', 0):.2f}  real {item.get('real')}  simulated {item.get('simulated')}"


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    warnings.simplefilter("ignore", RuntimeWarning)
    sys.exit(main())
