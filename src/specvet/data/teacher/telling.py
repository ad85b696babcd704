"""The teacher's thoughts: on the whole view, on each window that was looked at, and where to look next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specvet.data.teacher.expecting import expected_of
from specvet.data.teacher.figures import two_digits
from specvet.data.teacher.findings import doubt, finding, worth_telling
from specvet.data.teacher.looks import Look
from specvet.data.teacher.sight import Opened, Sight
from specvet.data.teacher.words import Speaker, a, listed
from specvet.policies.scoring import Weighed
from specvet.records.schema import Measurement
from specvet.spectra import Spectrum
from specvet.spectra.index_kinds import FormulaIndex, Range
from specvet.tasks import Condition, Evidence, KeyWindow, Task
from specvet.tools import Observation

POOR, GOOD = 8.0, 40.0
"""S/N a pixel below which a spectrum is called noisy, and above which good."""

BLUE, RED = 1.15, 0.87
"""Flux ratios from which on a continuum is called blue or red."""

READING, CLEAR_READING = 0.5, 1.3
"""Log-odds from which on a piece of evidence is put into words, and said without hedging."""

SLOPE = 0.12
"""Change of the continuum across a window from which on it may be told."""

FACTOR = 100.0
"""Flux ratios beyond it, or below its inverse, are not told: one of the two is nearly nothing."""


class Teller:
    """Makes thoughts about one spectrum for one task."""

    def __init__(self, sight: Sight, speaker: Speaker) -> None:
        self.sight = sight
        self.task: Task = sight.plan.task
        self.speaker = speaker
        self.slots = {"a_task": a(self.task.name)}
        self._told: set[str] = set()
        self._noted: set[str] = set()
        self.seen: frozenset[str] = frozenset()
        """The quantities that have been seen so far."""
        self.undecided = ""
        """The last sentence that left the question open; no conclusion follows it."""

    def say(self, key: str, **slots: str) -> str:
        return self.speaker.say(key, **{**self.slots, **slots})

    def opening(self, opened: Opened) -> list[str]:
        """What the whole view shows."""
        s, speak = self.sight.data.spectrum, self.speaker
        ends = {"low": _tens(opened.low), "high": _tens(opened.high)}
        said: list[str] = []
        if not speak.voice.overview:
            pass
        elif opened.snr is None or opened.snr < 0.5:
            said = [self.say("opening.coverage_without_snr", **ends)]
        else:
            said = [self.say("opening.coverage", snr=two_digits(opened.snr), **ends)]
            if opened.snr < POOR:
                said.append(self.say("opening.poor"))
            elif opened.snr > GOOD and speak.sometimes(0.4):
                said.append(self.say("opening.good"))
        if s.ivar is None and speak.sometimes(0.15):
            said.append(self.say("opening.scatter"))
        if opened.colour and 1.0 / FACTOR < opened.colour[2] < FACTOR:
            blue, red, ratio = opened.colour
            key = "blue" if ratio > BLUE else "red" if ratio < RED else "flat"
            near, far = (red, blue) if key == "red" else (blue, red)
            k = 1.0 / ratio if key == "red" else ratio
            said.append(self.say(f"opening.{key}", a=f"{near:.0f}", b=f"{far:.0f}", k=two_digits(k)))
            if s.calibration == "relative" and speak.sometimes(0.15):
                said.append(self.say("opening.relative"))
        if opened.peak is not None and speak.voice.overview and speak.sometimes(0.8):
            said.append(self.say("opening.peak", place=f"{opened.peak:.0f}"))
        if opened.gap:
            low, high = opened.gap
            said.append(self.say("opening.gap", low=f"{low:.0f}", high=f"{high:.0f}"))
        elif s.joins and speak.sometimes(0.35):
            join = s.joins[speak.below(len(s.joins))]
            said.append(self.say("opening.join", join=join.label, range=self.range((join.low, join.high))))
        return said

    def plan(self, look: Look) -> str:
        """Why to look there next, and the range."""
        names = listed([*look.features]) if look.features else ""
        if look.purpose in ("idle", "narrow"):
            key: str = look.purpose
        elif look.reason == "neutral":
            key = "start" if look.purpose == "first" else "other"
        else:
            key = "rivals_first" if look.reason == "rivals" and look.purpose != "disprove" else look.reason
        return self.say(f"plan.{key}", features=names, range=self.range(sorted_range(look.range)))

    def correction(self, trouble: str, range: Range) -> str:
        """After a call that the tool refused, or a look that was no use: what was wrong, where it stood."""
        return self.say(f"plan.after_{trouble}", range=self.range(range), snr="")

    def idle(self, look: Look, observation: Observation) -> str:
        """After a look beside the point."""
        assert observation.data is not None
        snr = observation.data.spectrum.snr
        text = self.say("plan.after_idle", range=self.range(look.range), snr="?" if snr is None else two_digits(snr))
        return text if "?" not in text else self.say("plan.after_narrow", range=self.range(look.range))

    def window(
        self,
        look: Look,
        window: KeyWindow | None,
        seen: Observation,
        new: frozenset[str],
        belief: tuple[Weighed, Weighed],
    ) -> list[str]:
        """What a window shows; `belief` is what was held before and after it."""
        assert seen.data is not None
        speak, part = self.speaker, seen.data.spectrum
        said: list[str] = []
        snr = part.snr
        share = 0.8 if snr is not None and snr < POOR else 0.45
        if not speak.voice.overview:
            share = 0.0 if self.seen else 1.0  # once, of the first window
        if snr is not None and snr >= 0.5 and speak.sometimes(share):
            said.append(self.say("look.snr_poor" if snr < POOR else "look.snr", snr=two_digits(snr)))
        self.seen |= new
        keys = [k for k in worth_telling(self.sight, new, window, belief[1]) if k not in self._told]
        for key in keys[: speak.voice.findings - (1 if speak.sometimes(speak.voice.fewer) else 0)]:
            q, m = self.sight.plan.quantities[key], self.sight.measured[key]
            self._told.add(key)
            said.append(finding(self.sight, q, m, speak))
            what = doubt(self.sight, q, m, speak)
            if what and what not in self._noted and speak.sometimes(0.8):
                self._noted.add(what)
                said.append(what)
        if not keys or speak.sometimes(speak.voice.slopes):
            said += self._slope(part)
        if window and speak.sometimes(0.12):
            said += self._trap(window, look.range)
        said += self._meaning(look, keys, new, belief)
        return said

    def _meaning(
        self, look: Look, keys: Sequence[str], new: frozenset[str], belief: tuple[Weighed, Weighed]
    ) -> list[str]:
        before, after = belief
        speak = self.speaker
        plain = [key for key in sorted(new) if not isinstance(self.sight.plan.indices[key], FormulaIndex)]
        strong = [key for key in plain if self.sight.strong(key)]
        told = [key for key in keys if key in strong and key in self._told]
        pending = self._pending(told[0]) if told else ""
        about = {"features": listed([*look.features]), "range": self.range(sorted_range(look.range))}
        said: list[str] = []
        most = 2 if speak.sometimes(0.25) else 1
        for worth, e, m, shows in after.counted:
            says = self.sight.reading(e, m, shows)
            fresh = e.index in new or any(c.index in new for c in e.given)
            if abs(worth) < READING or not says or not fresh or says in self._noted or self._crowds(e, m, worth):
                continue
            if not speak.voice.readings and e.index in keys:
                continue
            self._noted.add(says)
            said.append(self.say("look.reading" if abs(worth) > CLEAR_READING else "look.reading_weak", says=says))
            if len(said) == most:
                break
        change = after.log_odds - before.log_odds
        held = abs(before.log_odds - self.sight.plan.prior) > 1.0  # something seen, not the prior alone
        if before.log_odds * after.log_odds < 0 and min(abs(after.log_odds), abs(before.log_odds)) > 1.0 and held:
            said.append(self.say("look.turned"))
        elif pending and change < READING:
            self.undecided = self.say("look.pending", name=self._name(told[0]), pending=pending)
            said.append(self.undecided)
        elif abs(change) < READING and strong:  # nobody calls a strong line nothing
            if told and not said:
                self.undecided = self.say("look.common", name=self._name(told[0]))
                said.append(self.undecided)
        elif abs(change) < READING:
            if speak.sometimes(0.2 if said else 0.6):
                self.undecided = self.say("look.open", **about)
                said.append(self.undecided)
        elif speak.sometimes(speak.voice.leans):
            said.append(self.say("look.for_it" if change > 0 else "look.against_it", **about))
        return said

    def _pending(self, key: str) -> str:
        """What is still to be seen before a strong feature can count for the class; empty where nothing is."""
        plan, sight = self.sight.plan, self.sight
        of = expected_of(plan).of
        for i in sorted(of, key=lambda i: -plan.evidence[i].yes):
            e = plan.evidence[i]
            if key not in of[i] or (e.given and not e.group) or not self._sign_fits(key, e, of[i]):
                continue
            lacking = [
                k for k in dict.fromkeys((e.index, *(c.index for c in e.given)))
                if k in of[i] and k not in self.seen and k != key and sight.measured[k].value is not None
                and (plan.quantities[k].kind != "value" or plan.indices[k].unit)
            ]  # fmt: skip
            if lacking:
                return listed([self._name(k) for k in lacking[:1]])
        return ""

    def _sign_fits(self, key: str, e: Evidence, expected: frozenset[str]) -> bool:
        """Whether a way to be of the class speaks of emission where a line emits, of absorption where it absorbs."""
        plan, value = self.sight.plan, self.sight.measured[key].value
        if plan.quantities[key].kind != "width" or value is None:
            return True
        said: list[Evidence | Condition] = [e, *e.given]
        lines = [c for c in said if c.index in expected and plan.indices[c.index].unit == "Å"]
        return any((c.side == "below" and c.at < 0) if value < 0 else c.side == "above" for c in lines)

    def _crowds(self, e: Evidence, m: Measurement, worth: float) -> bool:
        """Whether a weak reading of emission rests on a line between bands, of which that was just denied."""
        weak = abs(worth) < CLEAR_READING and m.value is not None and m.value < 0 and m.unit == "Å"
        return weak and any(self.sight.crowded(key) for key in self.sight.plan.parts[e.index])

    def _name(self, key: str) -> str:
        return self.sight.plan.quantities[key].names[0]

    def _slope(self, part: Spectrum) -> list[str]:
        change = slope(part)
        if change is None or abs(change) < SLOPE:
            return []
        key = "look.slope" if change < 0 else "look.slope_up"
        return [self.say(key, percent=two_digits(100.0 * abs(change)))]

    def _trap(self, window: KeyWindow, shown: Range) -> list[str]:
        here = [
            c.name for c in window.contaminants
            if c.range and "join" not in c.name and shown[0] <= c.range[0] and c.range[1] <= shown[1]
        ]  # fmt: skip
        new = [name for name in here if name not in self._noted]
        if not new:
            return []
        name = new[self.speaker.below(len(new))]
        self._noted.add(name)
        return [self.say("look.keep_in_mind", what=name)]

    def range(self, window: Range) -> str:
        """A range as people write it."""
        low, high = (f"{x:.0f}" for x in window)
        return self.speaker.one((f"{low}-{high} Å", f"{low}-{high} Å", f"{low} to {high} Å", f"[{low}, {high}] Å"))


def sorted_range(window: Range) -> Range:
    return min(window), max(window)


def slope(part: Spectrum) -> float | None:
    """Change of the flux from the first to the last sixth of a window, over the first; None where noise hides it."""
    good = part.good
    wavelength, flux = part.wavelength[good], part.flux[good]
    if flux.size < 60:
        return None
    sixth = (part.wave_max - part.wave_min) / 6.0
    first, last = flux[wavelength < part.wave_min + sixth], flux[wavelength > part.wave_max - sixth]
    if first.size < 8 or last.size < 8:
        return None
    a, b = float(np.median(first)), float(np.median(last))
    noise = max(float(np.std(x)) / np.sqrt(x.size) for x in (first, last))
    return (b - a) / a if a > 10.0 * noise and abs(b - a) > 5.0 * noise else None


def _tens(x: float) -> str:
    return f"{10 * round(x / 10.0)}"
