"""What features are called, by a task and by anybody: names in a text → the indices that measure what they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from specvet.data.teacher.plans import LINE_HALF, LINE_SIDE, Plan, features_of, names_of, worded
from specvet.data.teacher.words import VoiceName
from specvet.spectra import Medium
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, RatioIndex, WidthIndex
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.line_list import LINES
from specvet.tasks import Evidence, Rival, Task, builtin_rivals

NEAR_LINE, NEAR_BAND = 8.0, 40.0
"""Å between a wavelength as it is written and that of the line, or of the band head, that it means."""

VOICES: tuple[VoiceName, ...] = ("full", "terse")


@dataclass(frozen=True, slots=True)
class Named:
    """A feature that a text names."""

    feature: str
    sizes: tuple[str, ...]
    """Keys of the indices (widths in Å, ratios) of which any measures it; empty where none does."""
    others: tuple[str, ...] = ()
    """Keys of its widths in km/s, and of other numbers that go by its name."""

    @property
    def is_group(self) -> bool:
        return len(self.sizes) > 1


@dataclass(frozen=True, slots=True)
class Reading:
    """A phrase of a task's evidence: it says that an index lies on one side of a threshold."""

    phrase: str
    pieces: tuple[tuple[Evidence, bool], ...]
    """What it may stand for, and whether its named side is meant."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text."""

    start: int
    end: int
    named: Named | None
    reading: Reading | None = None


# --- what anybody writes

_WAVES = r"(?:[ -]*(?:λ+ *)?\(?\d{4}(?:\.\d+)?(?: ?(?:Å|A\b))?\)?(?:(?: ?[,/&] ?| and )λ?\d{4}(?:\.\d+)?)*)?"
"""Wavelengths behind a species: `5165`, `λ4686`, `6678, 7065`, `8498/8542/8662 Å`."""

_SPECIES = (
    ("Ca II triplet", r"(?:Ca ?II|Ca|calcium)(?: infrared| IR| near-infrared)?[ -]triplet|\bCaT\b"),
    ("Ca II H and K", r"Ca(?: ?II)? ?H ?(?:&|and|/|\+|,)? ?K\b"),
    ("Ca II K", r"Ca ?II K\b"),
    ("Bowen blend", r"Bowen(?: blend)?"),
    ("CH G band", r"(?:CH )?G[ -]band"),
    ("Mg b", r"Mg ?b\b|Mg ?I? (?:b )?triplet"),
    ("Na D", r"Na(?: ?I)? ?D(?:[12]|oublet)?\b|sodium D"),
    ("Swan bands", r"(?:C2 |C₂ )?Swan(?: ?\(\d,\d\))?(?: bands?| system)?"),
    ("Balmer lines", r"Balmer(?: series| lines?)?"),
    ("Hα", r"H[ -]?(?:α|alpha)\b|\bHa\b"),
    ("Hβ", r"H[ -]?(?:β|beta)\b|\bHb\b"),
    ("Hγ", r"H[ -]?(?:γ|gamma)\b"),
    ("Hδ", r"H[ -]?(?:δ|delta)\b"),
    ("He II", r"He ?II\b|He\+"),
    ("He I", r"He ?I\b|(?:neutral )?helium(?: lines?)?"),
    ("[O III]", r"\[O ?III\]"),
    ("[S II]", r"\[S ?II\]"),
    ("[N II]", r"\[N ?II\]"),
    ("[O I]", r"\[O ?I\]"),
    ("Ca II", r"Ca ?II\b"),
    ("Ca I", r"Ca ?I\b"),
    ("Na I", r"Na ?I\b"),
    ("K I", r"\bK ?I\b"),
    ("Li I", r"\bLi(?: ?I)?\b"),
    ("Ba II", r"\bBa ?II\b"),
    ("C2", r"\bC(?:2|₂)(?![\w+])(?: bands?| Swan bands?)?"),
    ("CN", r"\bCN\b(?: red| violet)?"),
    ("TiO", r"\bTiO\b|\bTiO5\b|titanium oxide"),
    ("CaH", r"\bCaH[123]?\b"),
    ("ZrO", r"\bZrO\b|zirconium oxide"),
    ("LaO", r"\bLaO\b"),
    ("VO", r"\bVO\b"),
)
_GENERIC = re.compile("|".join(f"(?P<s{i}>(?:{pattern}){_WAVES})" for i, (_, pattern) in enumerate(_SPECIES)))
_NUMBER = re.compile(r"\d{4}(?:\.\d+)?")
_MORE = re.compile(r"(?:(?: ?[,/&] ?|,? and )λ?\d{4}(?![\d.]))+(?! ?(?:Å|km))")
"""Further wavelengths of the species before them."""

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Ca II triplet": ("cat8542", "cat8662", "cat8498"),
    "Ca II H and K": ("cak", "cah3968"),
    "Ca II K": ("cak",),
    "Bowen blend": ("bowen",),
    "CH G band": ("gband",),
    "Mg b": ("mgb",),
    "Na D": ("nad",),
    "Swan bands": ("c2_5165", "c2_4737", "c2_5635"),
    "Balmer lines": ("ha", "hb", "hg", "hd"),
    "Hα": ("ha",),
    "Hβ": ("hb",),
    "Hγ": ("hg",),
    "Hδ": ("hd",),
    "He II": ("heii4686", "heii5411"),
    "He I": ("hei5876", "hei6678", "hei4471", "hei7065", "hei4922", "hei4026"),
    "[O III]": ("oiii5007",),
    "[S II]": ("sii6725",),
    "Ca II": ("cak", "cat8542", "cat8662"),
    "Ca I": ("cai4227",),
    "Na I": ("nad", "nai8190"),
    "K I": ("ki7699",),
    "Li I": ("li6708",),
    "C2": ("c2_5165", "c2_4737", "c2_5635"),
    "CN": ("cn_6925", "cn_7910", "cn_4215"),
    "TiO": ("tio5", "tio_6158", "tio8432", "tio_5448"),
    "CaH": ("cah2", "cah3", "cah1"),
    "ZrO": ("zro_6474", "zro_6345", "zro_5551"),
    "LaO": ("lao_7403", "lao_7910"),
    "VO": ("vo_a", "vo7434"),
}
"""What a name without a wavelength may mean: any of these."""

_HEADS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "C2": ((5165.0, "c2_5165"), (4737.0, "c2_4737"), (5635.0, "c2_5635")),
    "CN": ((4215.0, "cn_4215"), (6925.0, "cn_6925"), (7910.0, "cn_7910")),
    "TiO": ((4954.0, "tio_4954"), (5448.0, "tio_5448"), (6158.0, "tio_6158"), (7053.0, "tio5"), (8432.0, "tio8432")),
    "ZrO": ((6474.0, "zro_6474"), (6345.0, "zro_6345"), (6229.0, "zro_6229"), (5551.0, "zro_5551"),
            (5718.0, "zro_5718"), (4640.0, "zro_4640")),
    "CaH": ((6385.0, "cah1"), (6830.0, "cah2"), (6975.0, "cah3")),
    "LaO": ((7403.0, "lao_7403"), (7910.0, "lao_7910")),
    "VO": ((7434.0, "vo7434"), (7912.0, "vo7912")),
}  # fmt: skip
"""Å of band heads, and what measures each."""

_WIDTHS = {"ha": ("ha_intrinsic", "ha_width"), "hb": ("hb_intrinsic", "hb_width"), "hg": ("hg_intrinsic", "hg_width")}


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """The names of one task. Made by `Names.of`."""

    task: Task
    indices: dict[str, Index]
    """All that names may mean, by key; lines that no index measures are added as texts name them."""
    _words: re.Pattern[str]
    _named: Mapping[str, Named]
    _readings: Mapping[str, Reading]

    @classmethod
    def of(cls, task: Task) -> Names:
        """Raises TaskError for a task whose evidence names what is not there."""
        indices: dict[str, Index] = {}
        named: dict[str, dict[str, str]] = {}
        readings: dict[str, list[tuple[Evidence, bool]]] = {}
        for voice in VOICES:
            plan = Plan.of(task, voice)
            indices |= plan.indices
            for key in plan.asked:
                for name in (*plan.quantities[key].names, *names_of(plan.indices[key], "full")):
                    named.setdefault(_plain(name), {}).setdefault(key, name.removeprefix("the "))
            for window in task.windows:
                for feature, key in features_of(plan, window):
                    named.setdefault(_plain(feature.name), {}).setdefault(key, feature.name)
            rivals = [r if isinstance(r, Rival) else builtin_rivals()[r] for r in task.rivals]
            for e in (*plan.evidence, *(e for r in rivals for e in r.evidence)):
                for says, side in ((e.when, True), (e.otherwise, False)):
                    phrase = worded(says, voice)
                    if phrase:
                        readings.setdefault(phrase.lower(), []).append((e, side))
        words = {name: _of_keys(keys, indices) for name, keys in named.items()}
        phrases = {
            phrase: Reading(phrase, tuple(pieces))
            for phrase, pieces in readings.items()
            if phrase in words or not _is_plain(phrase, words)
        }
        known = sorted({*words, *phrases}, key=lambda text: (-len(text), text))
        pattern = "|".join(re.escape(text) for text in known)
        # A name ends where it ends: `ZrO 647` is no name because `ZrO 6474` is one.
        return cls(task, indices, re.compile(rf"(?<![\w.])(?:{pattern})(?!\w|\.\d)", re.IGNORECASE), words, phrases)

    def in_text(self, text: str) -> list[Mention]:
        """The names in a text, by place; where two overlap, the task's own goes first."""
        found: list[Mention] = []
        for m in self._words.finditer(text):
            word = m[0].lower()
            found.append(Mention(m.start(), m.end(), self._named.get(word), self._readings.get(word)))
            more = _MORE.match(text, m.end())
            of = _GENERIC.fullmatch(m[0]) if more and word[-1:].isdigit() else None
            if more and of is not None:  # `He I 6678, 7065`
                name = _SPECIES[int(str(of.lastgroup)[1:])][0]
                waves = [float(x) for x in _NUMBER.findall(more[0])]
                found += (Mention(more.start(), more.end(), self._at(name, wave)) for wave in waves)
        taken = [(mention.start, mention.end) for mention in found]
        for m in _GENERIC.finditer(text):
            if any(m.start() < end and start < m.end() for start, end in taken):
                continue
            species = _SPECIES[int(str(m.lastgroup)[1:])][0]
            found += (Mention(m.start(), m.end(), one) for one in self._meant(species, m[0]))
        return sorted(found, key=lambda mention: mention.start)

    def _meant(self, species: str, text: str) -> Iterator[Named]:
        waves = [float(x) for x in _NUMBER.findall(text)]
        if not waves or species in ("Ca II triplet", "Ca II H and K", "Hα", "Hβ", "Hγ", "Hδ"):
            yield self._group(species, _subscript(species, text))
            return
        for wave in waves:
            yield self._at(species, wave)

    def _group(self, species: str, name: str) -> Named:
        sizes = _GROUPS.get(species, ())
        self.indices.update({key: BUILTIN_INDICES[key] for key in sizes if key not in self.indices})
        others = tuple(k for key in sizes for k in _WIDTHS.get(key, ()))
        self.indices.update({key: BUILTIN_INDICES[key] for key in others if key not in self.indices})
        return Named(name, sizes, others)

    def _at(self, species: str, wave: float) -> Named:
        """The feature of a species at a wavelength."""
        name = f"{species} {wave:.0f}"
        heads = _HEADS.get("C2" if species == "Swan bands" else species)
        if heads is not None:
            near = [(abs(at - wave), key) for at, key in heads if abs(at - wave) <= NEAR_BAND]
            key = min(near)[1] if near else ""
            if key:
                self.indices.setdefault(key, BUILTIN_INDICES[key])
            return Named(name, (key,) if key else ())
        wanted = {"Na D": "Na I", "Mg b": "Mg I", "Bowen blend": "C III + N III", "Balmer lines": "H I"}
        of = [line for line in LINES if line.species == wanted.get(species, species.removesuffix(" K"))]
        near_lines = [(min(abs(line.air - wave), abs(line.vacuum - wave)), line) for line in of]
        near_lines = [pair for pair in near_lines if pair[0] <= NEAR_LINE]
        if not near_lines:
            return Named(name, ())
        line = min(near_lines, key=lambda pair: pair[0])[1]
        key = line.index or f"line:{line.name}"
        if key not in self.indices:
            self.indices[key] = BUILTIN_INDICES[key] if line.index else _line_at(key, line.name, line.air)
        return Named(line.name, (key,), _WIDTHS.get(key, ()))


def _is_plain(phrase: str, names: Mapping[str, Named]) -> bool:
    """Whether a phrase says no more than that a feature is there, or not: that means the same in every task."""
    rest = phrase
    for name in sorted(names, key=len, reverse=True):
        rest = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", rest)
    return rest != phrase and set(rest.split()) <= _PLAIN


_PLAIN = frozenset(
    ("in", "emission", "absorption", "no", "not", "edge", "band", "bands", "with", "its", "sharp", "red")
)


def _line_at(key: str, name: str, air: float) -> LineIndex:
    """The equivalent width of a line of the list that no built-in index measures."""
    near, far = LINE_SIDE
    sides = ((air - far, air - near), (air + near, air + far))
    return LineIndex(key, name, (air - LINE_HALF, air + LINE_HALF), sides)


def _of_keys(keys: Mapping[str, str], indices: Mapping[str, Index]) -> Named:
    """What one name of a task may mean, sizes apart from the rest."""
    sizes = tuple(k for k in keys if _is_size(indices[k]))
    label = min(keys.values(), key=len)
    return Named(label, sizes, tuple(k for k in keys if k not in sizes))


def _is_size(index: Index) -> bool:
    return isinstance(index, LineIndex | RatioIndex) or (isinstance(index, FormulaIndex) and index.unit == "Å")


def is_width(index: Index) -> bool:
    """Whether it is a line's width in km/s."""
    return isinstance(index, WidthIndex) and index.of != "velocity"


def _plain(name: str) -> str:
    return name.lower().removeprefix("the ")


def _subscript(species: str, text: str) -> str:
    return species if species in _GROUPS and len(_GROUPS[species]) == 1 else " ".join(text.split()) or species


_KNOWN: dict[int, Names] = {}


def names_of_task(task: Task) -> Names:
    """The names of a task; worked out once, as a run asks about the same tasks again and again."""
    found = _KNOWN.get(id(task))
    if found is None or found.task is not task:
        if len(_KNOWN) >= 64:
            _KNOWN.clear()
        found = _KNOWN[id(task)] = Names.of(task)
    return found


def spans_of(keys: Sequence[str], indices: Mapping[str, Index]) -> list[tuple[float, float, Medium]]:
    """(low, high, medium) of the bands themselves, without sides, of those of the keys that are no formulas."""
    found = []
    for key in keys:
        index = indices[key]
        if isinstance(index, FormulaIndex):
            continue
        line = index.line if isinstance(index, WidthIndex) else index
        found.append((*line.band, line.medium))
    return found
