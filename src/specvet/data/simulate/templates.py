"""Real spectra as seeds: a parametric source gives way to a real star of its kind, where somebody has such spectra.

    templates = load_templates("../shared/spectra")
    source = templates.seed(kinds.make("gm.giant", rng), rng, share=0.5)

What a seeded source keeps of the parametric one is its velocity, reddening and redshift, the slope of its continuum
(the star's own reddening and its survey's calibration are in the real one, and both are added later on), and its flux
where the real star was not seen. One third of all real objects never seeds anything: see `held_out`. For
cross-validation by object a fold takes the place of that third, and more is seeded then: see `make_seeded`.

    templates = load_templates("templates.npz", fold=read_fold("2/5"))
    source = make_seeded("wd_ms", rng, templates)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from specvet.data.simulate.companions import seeding_parts
from specvet.data.simulate.kinds import make
from specvet.data.simulate.physics import normalised
from specvet.data.simulate.source import GRID, STEP, FloatArray, Source
from specvet.data.simulate.templates_cleaning import Template
from specvet.data.simulate.templates_file import read_template_file
from specvet.data.simulate.templates_manifest import Fold, held_out, read_fold
from specvet.data.simulate.templates_reading import read_templates

__all__ = ["Fold", "Template", "Templates", "held_out", "load_templates", "make_seeded", "read_fold"]

_BIN = 40
"""Pixels of `GRID`, 1,380 km/s: shapes are compared in bins of so many."""

_N_BINS = GRID.size // _BIN
_X = np.log(GRID[: _N_BINS * _BIN].reshape(_N_BINS, _BIN).mean(axis=1) / 6000.0)

_TYPE_STEP = 0.03
"""What a subclass of the spectral type counts beside ln flux: about as much as their shapes differ, so that a model
whose lines are too weak does not draw stars that are too hot."""

_SEAM = 80
"""Pixels over which a template passes into the parametric source."""

_BROAD = 300
"""Pixels of the running mean that the strength of lines is told from, some 200 Å."""

MIN_BINS = 60
"""A template that covers less of the wanted range (by redshift) is left out."""


SPREAD = 1.5
"""Mean place of a drawn template in the row of the nearest."""

STAND_INS = {"bhb": "a_star"}
"""Kinds without a real spectrum that look like another, and are answered like it."""

NAMES = "; "
"""Between the files of all real stars that went into one source, in its `template`."""

ENOUGH = 8
"""Templates of a kind, from which on they seed their full share: a single star is not to stand for half of a kind."""


def load_templates(place: str | Path, *, cache: str | Path | None = None, fold: Fold | None = None) -> Templates:
    """The templates of a folder of real spectra with a `manifest.csv` (see `templates_manifest`), or of a file of them.

    A folder takes some seconds the first time, a fraction of one later; `cache` says where that is kept. `fold` keeps
    its part of the objects back, in place of the third that `held_out` tells. Raises ValueError for what is neither.
    """
    if Path(place).is_file():
        found = read_template_file(place), dict[str, str]()
    else:
        found = read_templates(place, cache=cache)
    templates, refused = found
    kept_back = held_out if fold is None else fold.holds
    return Templates((t for t in templates if not kept_back(t.object_id)), refused)


def make_seeded(kind: str, rng: np.random.Generator, templates: Templates, share: float = 0.5) -> Source:
    """One object of a kind; with probability `share` a real star takes its place (see `Templates.seed`), less often
    where there are fewer than `ENOUGH` of the kind. The stars that a composite holds are seeded as well.

    Raises KeyError for a kind that there is not.
    """
    names: list[str] = []

    def seeded(source: Source, rng: np.random.Generator) -> Source:
        stands_for = STAND_INS.get(source.kind, source.kind)
        number = templates.counts.get(stands_for, 0)
        drawn = replace(source, kind=stands_for)
        found = templates.seed(
            drawn, rng, share * min(1.0, number / ENOUGH), spread=max(SPREAD, number / 10), own_slope=0.5
        )
        if found is drawn:
            return source
        names.append(found.template)
        return replace(found, kind=source.kind)

    with seeding_parts(seeded):
        source = make(kind, rng)
    whole = seeded(source, rng)
    stars = dict.fromkeys(star for name in names for star in name.split(NAMES))
    return replace(whole, template=NAMES.join(stars)) if stars else whole


@dataclass(slots=True, eq=False)
class _Shape:
    """A template on `GRID` at some redshift, and its binned shape."""

    template: Template
    flux: FloatArray
    """Shape (n_grid,); where the template was not seen, a bridge."""
    seen: NDArray[np.bool_]
    bins: FloatArray
    """ln flux a bin, NaN where less than half of it was seen; shape (n_bins,)."""


class Templates:
    """Real spectra by kind; made by `load_templates`. Can be pickled."""

    def __init__(self, templates: Iterable[Template], refused: dict[str, str] | None = None) -> None:
        self.templates = tuple(templates)
        self.refused = dict(refused or {})
        """What made no template: path → why."""
        self.counts = dict(sorted(Counter(kind for t in self.templates for kind in t.kinds).items()))
        """Templates a kind; one that can seed several counts in each."""
        self._at_rest: dict[str, list[_Shape]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"templates": self.templates, "refused": self.refused, "_at_rest": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(state["templates"], state["refused"])  # type: ignore[misc]

    def seed(
        self,
        source: Source,
        rng: np.random.Generator,
        share: float = 0.5,
        *,
        spread: float = SPREAD,
        own_slope: float = 0.0,
    ) -> Source:
        """`source`, or with probability `share` a real star of its kind and much like it; `template` then names it, and
        the neighbour that was mixed into it.

        The star is drawn among those nearest in shape and spectral type, and warped a little: mixed with a neighbour
        (no cataclysmic variables, whose profiles are their own), lines made weaker or stronger by some 8 %. A kind
        without templates stays as it is.

        `spread` says how far down the row of the nearest a draw goes, in the mean. With probability `own_slope` the
        star keeps the slope and the dust that it was seen with.
        """
        if rng.random() >= share:
            return source
        shapes = self._shapes(source.kind, source.redshift)
        if not shapes:
            return source
        wanted = _binned(source.flux, np.ones(GRID.size, dtype=bool))
        order = np.argsort(_distances(wanted, shapes) + _TYPE_STEP * _type_gaps(source, shapes), kind="stable")
        picks = np.minimum(rng.exponential(spread, 2).astype(int), len(shapes) - 1)
        mix, strength = float(rng.uniform(0.0, 0.45)), float(np.clip(rng.normal(1.0, 0.08), 0.75, 1.25))
        as_seen = own_slope > 0.0 and bool(rng.random() < own_slope)
        first = shapes[order[picks[0]]]
        flux = _completed(first, source.flux, wanted, as_seen)
        second = shapes[order[picks[1]]]
        stars = [first.template.file]
        if second is not first and not source.kind.startswith("cv."):
            flux = flux ** (1.0 - mix) * _completed(second, source.flux, wanted, as_seen) ** mix
            stars.append(second.template.file)
        broad = uniform_filter1d(uniform_filter1d(flux, _BROAD, mode="nearest"), _BROAD, mode="nearest")
        flux = broad * (flux / broad) ** strength
        return Source(
            flux=normalised(flux),
            kind=source.kind,
            subtype=first.template.subtype,
            parameters={"line_strength": strength},
            velocity_km_s=source.velocity_km_s,
            redshift=source.redshift,
            ebv=0.0 if as_seen else source.ebv,
            template=NAMES.join(dict.fromkeys(stars)),
        )

    def _shapes(self, kind: str, redshift: float) -> list[_Shape]:
        """The templates of a kind at a redshift; those at rest are kept."""
        if redshift == 0.0 and kind in self._at_rest:
            return self._at_rest[kind]
        shapes = []
        for template in self.templates:
            if kind in template.kinds:
                at = np.arange(GRID.size) - np.log10(1.0 + redshift) / STEP - template.start
                inside = np.arange(template.flux.size)
                flux = np.interp(at, inside, template.flux.astype(np.float64))
                seen = np.interp(at, inside, template.seen.astype(np.float64), left=0.0, right=0.0) > 0.99
                bins = _binned(flux, seen)
                if int(np.isfinite(bins).sum()) >= MIN_BINS:
                    shapes.append(_Shape(template, flux, seen, bins))
        if redshift == 0.0:
            self._at_rest[kind] = shapes
        return shapes


def _binned(flux: FloatArray, seen: NDArray[np.bool_]) -> FloatArray:
    """ln of the mean flux a bin, NaN where less than half was seen; shape (n_bins,)."""
    shape = (_N_BINS, _BIN)
    part = seen[: _N_BINS * _BIN].reshape(shape).mean(axis=1)
    mean = np.maximum(flux[: _N_BINS * _BIN], 0.0).reshape(shape).mean(axis=1)
    return np.where(part >= 0.5, np.log(np.maximum(mean, 1e-4)), np.nan)


def _lines(difference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Level and slope in ln λ of what is known of differences of shapes, (n, n_bins); each of shape (n, 1)."""
    known = np.isfinite(difference)
    y, x = np.where(known, difference, 0.0), np.where(known, _X, 0.0)
    n, sx, sy, sxx, sxy = (v.sum(axis=1, keepdims=True) for v in (known, x, y, x * x, x * y))
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    return (sy - slope * sx) / n, slope


def _distances(wanted: FloatArray, shapes: Sequence[_Shape]) -> FloatArray:
    """Root mean square of the difference from each shape, level and slope taken out."""
    difference = np.stack([shape.bins for shape in shapes]) - wanted
    level, slope = _lines(difference)
    return np.asarray(np.sqrt(np.nanmean((difference - level - slope * _X) ** 2, axis=1)))


def _type_number(subtype: str) -> float:
    """`F5V` → 35, `dM2.5` → 62.5; NaN for what is no spectral type of a star."""
    found = re.search(r"([OBAFGKM])(\d+(?:\.\d+)?)", subtype)
    return float("nan") if found is None else 10.0 * "OBAFGKM".index(found[1]) + float(found[2])


def _type_gaps(source: Source, shapes: Sequence[_Shape]) -> FloatArray:
    """Subclasses between the source and each template, shape (n_templates,); 0 where one of them has no type."""
    types = np.array([_type_number(shape.template.subtype) for shape in shapes])
    return np.asarray(np.nan_to_num(np.abs(types - _type_number(source.subtype))))


def _completed(shape: _Shape, parametric: FloatArray, wanted: FloatArray, as_seen: bool = False) -> FloatArray:
    """A template with the level and slope of the parametric source, and that source where it was not seen.

    `as_seen` leaves it its own slope.

    Across the seams the two agree: the source is scaled by their ratio there, and by what lies between in a gap.
    """
    level, slope = (float(v[0, 0]) for v in _lines((shape.bins - wanted)[None]))
    flux = shape.flux * np.exp(-level - (0.0 if as_seen else slope) * np.log(GRID / 6000.0))
    seen = shape.seen
    if seen.all():
        return np.maximum(flux, 1e-4)
    floor = 1e-4 + np.maximum(parametric, 0.0)
    edges = np.flatnonzero(np.diff(seen.astype(np.int8)))
    places, ratios = [], []
    for edge in edges:  # the last pixel before a change
        inside = slice(max(edge - _SEAM + 1, 0), edge + 1) if seen[edge] else slice(edge + 1, edge + 1 + _SEAM)
        places.append(edge + 0.5)
        ratios.append(np.log(max(float(np.mean(flux[inside])), 1e-4) / float(np.mean(floor[inside]))))
    weight = uniform_filter1d(uniform_filter1d(seen.astype(np.float64), _SEAM, mode="nearest"), 3)
    weight = np.where(seen, np.clip(2.0 * weight - 1.0, 0.0, 1.0), 0.0)
    filled = floor * np.exp(np.interp(np.arange(GRID.size), places, ratios))
    return np.maximum(weight * flux + (1.0 - weight) * filled, 1e-4)
