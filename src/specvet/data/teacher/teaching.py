r"""A teacher shows how a spectrum is judged: it looks, measures, says what it sees, tries to disprove it, and answers.

    taught = Teacher(load_task("cv")).teach(question, spectrum, rng)
    if isinstance(taught, Taught):
        taught.demonstration(folder, "cv-17")     # its pictures go to folder/images

The label (`question.answer`) decides only whether a draft is accepted: what the teacher says follows from what it
measures in the windows that it called. A draft is refused where the evidence contradicts the label or does not decide,
and where a number in its text does not stand up to `checking.checked`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from specvet.agent.requirements import missing_requirement
from specvet.data.teacher.checking import Checker
from specvet.data.teacher.checking_words import Words
from specvet.data.teacher.concluding import Lean, concluded, joined
from specvet.data.teacher.looks import Look, Purpose, next_look, refused_look, useless_look
from specvet.data.teacher.plans import Plan
from specvet.data.teacher.sight import Sight
from specvet.data.teacher.taught import Taught, Turn
from specvet.data.teacher.telling import Teller, sorted_range
from specvet.data.teacher.words import Speaker, VoiceName
from specvet.policies.line_indices import MIN_MEASURED_NO, MIN_MEASURED_YES
from specvet.records.schema import Question
from specvet.spectra import FrameMode, Spectrum
from specvet.spectra.index_kinds import Range
from specvet.tasks import Task, Wording
from specvet.tools import Observation, ZoomTool
from specvet.views import REFERENCE_STYLE, Size

MAX_CALLS = 7
"""Of one demonstration, refused and useless ones included."""

NOISY = 10.0
"""S/N a pixel of the whole spectrum below which it is noisy."""

AT_ONCE = 6.0
"""Log-odds from which on the whole view may decide."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How chance decides on the looks of a demonstration."""

    useless: float
    """Share of the demonstrations that hold a useless look."""
    refused: float
    """Share that holds a call that the tool refuses."""
    least: tuple[float, ...]
    """Chances of wanting at least 1, 2 and 3 looks before stopping."""
    stop_at: tuple[float, float]
    """Log-odds at which a teacher is sure enough to stop: drawn evenly between the two."""
    tests: float
    """Share that, once sure, looks for what could overturn it."""
    at_once: float
    """Share that gets no zoom of the spectra that the whole view decides."""
    bands: bool
    """Whether lines decide nothing at once, but only bands: small whole views hide lines."""
    again: bool
    """Whether a window of which a part was seen may be looked at once more."""
    noisy: int
    """Looks more that are wanted of a noisy spectrum."""


HABITS: dict[VoiceName, Habits] = {
    "full": Habits(0.10, 0.05, (0.30, 0.40, 0.30), (2.5, 4.5), 0.65, 0.2, False, True, 0),
    "terse": Habits(0.04, 0.03, (0.75, 0.20, 0.05), (1.5, 3.0), 0.25, 0.3, True, False, 1),
}
"""Of each voice; the terse one, whose every look costs, stops as soon as it is sure."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A spectrum that no demonstration was made of."""

    reason: str
    contradicts: bool = False
    """Whether the evidence says the other answer than the label: one of the two should be looked at again."""


@dataclass(slots=True, eq=False)
class Teacher:
    """Teaches one task. Every choice comes from the generator that `teach` is given."""

    task: Task
    style: str = REFERENCE_STYLE
    max_turns: int = 8
    """That the question text speaks of; one more than calls can be made."""
    title: str | None = "Spectrum"
    frame_mode: FrameMode = "careful"
    voice: VoiceName = "full"
    wording: Wording = "full"
    """Of the question."""
    size: Size = None
    """Of the pictures, see `specvet.views.full_view`."""
    _plan: Plan = field(init=False, repr=False)
    _words: Words = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises TaskError for a task whose evidence names what is not there; ValueError without a turn."""
        if self.max_turns < 1:
            raise ValueError(f"max_turns = {self.max_turns}: a demonstration needs a turn to answer in")
        self._plan = Plan.of(self.task, self.voice)
        self._words = Words.of(self._plan)

    def teach(self, question: Question, spectrum: Spectrum, rng: np.random.Generator) -> Taught | Refused:
        """A demonstration for one spectrum with a known answer, or why there is none.

        Raises ValueError for a question without an answer, or about another task.
        """
        if question.answer is None or question.task != self.task.key:
            raise ValueError(f"question {question.id}: a teacher of {self.task.key} needs its task and an answer")
        title = self.title if self.style == REFERENCE_STYLE else None
        tool = ZoomTool(spectrum, mode=self.frame_mode, title=title, style=self.style, size=self.size)
        opening = tool.opening()
        missing = missing_requirement(self.task.requires, opening.data) if opening.ok else opening.text
        if missing:
            return Refused(f"nothing to judge by: {missing}")
        assert opening.data is not None
        sight = Sight.of(self._plan, opening.data)
        if says := sight.undecidable():
            return Refused(f"no spectrum decides it: {says}")
        if not sight.windows:
            return Refused("no key window of the task holds enough good pixels")
        lesson = _Lesson(self, sight, tool, Speaker(rng, self.voice))
        turns, answer, lean = lesson.given()
        if reason := _contradiction(sight, lean, question.answer):
            return Refused(reason, contradicts=lean.word != question.answer)
        if not answer:
            return Refused("evidence does not decide: nothing that was measured says why")
        checked = Checker(self._words, opening, turns, answer).checked()
        if isinstance(checked, str):
            return Refused(f"text: {checked}")
        return Taught(
            question, self.task, tool, opening, tuple(turns), answer, self.max_turns, tuple(checked), self.wording
        )


def _contradiction(sight: Sight, lean: Lean, label: str) -> str:
    """Why a draft cannot stand beside the label; empty where it can."""
    belief = lean.belief
    if lean.word != label:
        return f"evidence says {lean.word} (log-odds {belief.log_odds:+.1f}), label {label}"
    whole = sight.believed(sight.plan.parts, final=True)
    if whole.measured < (MIN_MEASURED_YES if lean.yes else MIN_MEASURED_NO):
        return f"evidence does not decide: only {100 * whole.measured:.0f} % of it could be measured"
    if lean.yes and belief.missing:
        return f"evidence does not decide: {' and '.join(belief.missing)} could not be measured"
    if lean.yes and not belief.clear:
        return "evidence does not decide: nothing stands clear of the noise"
    return ""


@dataclass(frozen=True, slots=True)
class _Plans:
    """What chance decides before a lesson begins."""

    least: int
    """Looks that are taken at least."""
    stop_at: float
    """Log-odds that are enough."""
    at_once: bool
    """Whether the whole view may decide."""
    tests: bool
    """Whether to look for what could overturn it."""
    useless: Purpose | None
    """A look that shows nothing, before the key look of that number."""
    refused: Purpose | None
    """A call that the tool refuses, likewise."""
    trouble_at: int
    again: bool
    """Whether a window of which a part was seen may be looked at once more."""

    @classmethod
    def drawn(cls, speaker: Speaker, habits: Habits) -> _Plans:
        useless: Purpose | None = None
        refused: Purpose | None = None
        if speaker.sometimes(habits.useless):
            useless = "narrow" if speaker.sometimes(0.4) else "idle"
        elif speaker.sometimes(habits.refused):
            refused = "outside" if speaker.sometimes(0.4) else "swapped"
        return cls(
            least=1 + int(np.searchsorted(np.cumsum(habits.least), speaker.rng.random())),
            stop_at=float(speaker.rng.uniform(*habits.stop_at)),
            at_once=speaker.sometimes(habits.at_once),
            tests=speaker.sometimes(habits.tests),
            useless=useless,
            refused=refused,
            trouble_at=speaker.below(3),
            again=habits.again,
        )


@dataclass(slots=True, eq=False)
class _Lesson:
    """One draft in the making."""

    teacher: Teacher
    sight: Sight
    tool: ZoomTool
    speaker: Speaker
    turns: list[Turn] = field(default_factory=list)
    looked: list[Range] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """Keys of the windows that were looked at."""
    partly: list[str] = field(default_factory=list)
    """Those of them of which only a part was seen."""
    tests: bool = False
    """Whether a look that could overturn it is still to come."""

    def given(self) -> tuple[list[Turn], str, Lean]:
        """The turns up to the answer's thought, the answer's text, and what was believed."""
        sight, habits = self.sight, HABITS[self.teacher.voice]
        plans = _Plans.drawn(self.speaker, habits)
        opened = sight.opened()
        if opened.snr is not None and opened.snr < NOISY:
            plans = replace(plans, least=plans.least + habits.noisy)
        teller = Teller(sight, self.speaker)
        thought = teller.opening(opened)
        whole = Lean(sight.believed(sight.plan.parts, final=True))
        self.tests = plans.tests
        most = min(MAX_CALLS, self.teacher.max_turns - 1)
        at_once, shown = whole, frozenset(sight.plan.parts)
        if habits.bands and most > 0:
            shown = sight.plan.bands
            at_once = Lean(sight.believed(shown))
        plain = abs(at_once.belief.log_odds) > AT_ONCE and at_once.belief.clear and at_once.yes == whole.yes
        if most == 0 or (plans.at_once and plain):
            seen, lean = shown, at_once
        else:
            thought, seen, lean = self._looks(teller, thought, whole, plans, most)
        last, answer = concluded(teller, lean, opened, seen, not self.looked)
        thought = [sentence for sentence in thought if sentence != teller.undecided]
        self.turns.append(Turn(joined([*thought, last]), None, None))
        return self.turns, answer, lean

    def _looks(
        self, teller: Teller, thought: list[str], whole: Lean, plans: _Plans, most: int
    ) -> tuple[list[str], frozenset[str], Lean]:
        """Look until it is enough: the thought on the last window, what was seen, and what is believed."""
        sight = self.sight
        seen = sight.seen(())
        belief = sight.believed(seen)
        while len(self.turns) < most:
            look = self._next(seen, Lean(belief), whole, plans)
            if look is None:
                break
            planned = False
            if plans.trouble_at == len(self.done) and len(self.turns) + 1 < most:
                thought, planned = self._trouble(teller, thought, look, plans)
            if not planned:
                thought.append(teller.plan(look))
            observation = self._call(thought, look)
            self.partly = [key for key in self.partly if key != look.key] + (
                [look.key] if look.focused and plans.again else []
            )
            self.done.append(look.key)
            self.looked.append(sorted_range(look.range))
            now = sight.seen(self.looked)
            after = sight.believed(now)
            window = next((w for w in sight.windows if w.key == look.key), None)
            thought = teller.window(look, window, observation, now - seen, (belief, after))
            seen, belief = now, after
        return thought, seen, Lean(sight.believed(seen, final=True))

    def _next(self, seen: frozenset[str], lean: Lean, whole: Lean, plans: _Plans) -> Look | None:
        """The next key look; None where enough was seen, or nothing is left that could tell more."""
        while purpose := self._purpose(lean, whole, plans):
            look = next_look(self.sight, seen, self.done, purpose, self.speaker, self.partly, lean.belief)
            if purpose not in ("disprove", "rescue"):
                return look
            self.tests = False
            if look is not None:
                return look
        return None

    def _purpose(self, lean: Lean, whole: Lean, plans: _Plans) -> Purpose | None:
        """What the next look is for; None where enough was seen.

        The whole spectrum was shown, so a teacher that is sure of what the rest of it belies goes on looking.
        """
        if not self.done:
            return "first"
        sure = abs(lean.belief.log_odds) >= plans.stop_at and lean.yes == whole.yes
        if lean.yes and (lean.belief.missing or not lean.belief.clear):
            sure = False
        if sure and self.tests:
            return "disprove" if lean.yes else "rescue"
        if sure and len(self.done) >= plans.least:
            return None
        return "confirm" if lean.yes else "other"

    def _call(self, thought: list[str], look: Look) -> Observation:
        observation = self.tool(look.arguments)
        self.turns.append(Turn(joined(thought), look.arguments, observation))
        return observation

    def _trouble(self, teller: Teller, thought: list[str], look: Look, plans: _Plans) -> tuple[list[str], bool]:
        """A look that is no use or a call that is refused, before `look`: the thought after it, and whether that names
        the range of `look` already."""
        if plans.useless:
            beside = useless_look(self.sight, plans.useless, self.speaker)
            if beside is None:
                return thought, False
            thought.append(teller.plan(beside))
            observation = self._call(thought, beside)
            if beside.purpose == "narrow" or not observation.ok:
                return [teller.correction("narrow", beside.range)], False
            return [teller.idle(beside, observation)], False
        bad = refused_look(self.sight, look, plans.refused) if plans.refused else None
        if bad is None:
            return thought, False
        thought.append(teller.plan(bad))
        self._call(thought, bad)
        trouble = "error" if bad.purpose == "swapped" else "outside"
        return [teller.correction(trouble, sorted_range(look.range))], True
