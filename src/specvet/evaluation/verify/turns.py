"""One trajectory, held against itself: its ledger, what its texts parse to, its counts and its reward.

Nothing here needs the model, its tokenizer or the spectrum. Each function tells what is wrong, in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specvet.agent.episode import LOOPING, count_calls
from specvet.agent.opening import IMAGE_MARK
from specvet.agent.readings import END_TOKENS, Said
from specvet.agent.rollout import EARNED
from specvet.agent.talk import action_of, plain_text, repeated
from specvet.chat import Ledger, SampledSegment, TruncatedTurn, WordsSegment
from specvet.chat.formats import FAMILIES
from specvet.chat.keeping import joined, pieces
from specvet.chat.parsing import read_said
from specvet.chat.vocabulary import harmless
from specvet.evaluation.verify.checks import differing
from specvet.policies import Call
from specvet.records.schema import ActionRecord, StopReason, TrajectoryRecord
from specvet.tasks import Task, reward, strict_answer
from specvet.tasks.turns import THINK, THOUGHT, Answer, Dialect, read_act
from specvet.tasks.turns import Call as CallAct
from specvet.tools import TOOL_NAME

BY_IDS = ("image_ids", "control_ids", "spelled_tag", "not_text")
"""Kinds of malformed turns that the parser decides on ids; texts alone may not show them."""

_UNKNOWN = "\ufffd".encode()
"""What an id without a token stands for; several ids may."""


@dataclass(slots=True)
class Vocabularies:
    """Which bytes each token id stood for, so that an id that was changed contradicts the other rows."""

    bytes_of: dict[tuple[str, int], bytes] = field(default_factory=dict)
    id_of: dict[tuple[str, bytes], int] = field(default_factory=dict)
    seen: set[tuple[str, tuple[int, ...], bytes]] = field(default_factory=set)
    """Segments, most of which come with every question."""

    def contradictions(self, vocabulary: str, entry: Mapping[str, Any]) -> Iterator[str]:
        """Of a kept segment of ids."""
        ids = tuple(entry.get("sampled", entry.get("ids")) or ())
        if (whole := (vocabulary, ids, joined(entry))) in self.seen:
            return
        if "ids" in entry:
            self.seen.add(whole)
        for id, piece in zip(ids, pieces(entry), strict=True):
            if piece == _UNKNOWN:
                continue
            known = self.bytes_of.setdefault((vocabulary, id), piece)
            other = self.id_of.setdefault((vocabulary, piece), id)
            if known != piece or other != id:
                yield f"the token {id} stands for {piece!r} here; elsewhere {known!r} is {id} and {piece!r} is {other}"


def dialect_of(ledger: Ledger) -> Dialect | None:
    """How calls are written in a ledger of ids; None where only words are known."""
    family = FAMILIES.get(ledger.format)
    return None if family is None or ledger.kind != "tokens" else family.calls


def ledger_problems(record: TrajectoryRecord, ledger: Ledger, known: Vocabularies) -> Iterator[str]:
    """Whether a ledger is whole: ids with their bytes, counts of each turn, and what was shown in between."""
    assert record.ledger is not None
    said = [segment for segment in ledger.segments if isinstance(segment, SampledSegment)]
    if ledger.kind == "tokens":
        for entry in record.ledger["segments"]:
            if "sampled" in entry or "ids" in entry:
                yield from known.contradictions(ledger.vocabulary, entry)
        ends = dict(zip(map(id, ledger.segments), ledger.ends, strict=False))
        # Of a trajectory that machinery ended, the last words may not have become a turn.
        if len(said) < len(record.turns) or (len(said) > len(record.turns) and record.stop in EARNED):
            yield f"{len(record.turns)} turns are recorded, and the ledger holds {len(said)}"
        for n, (turn, segment) in enumerate(zip(record.turns, said, strict=False), 1):
            tokens = turn.tokens
            if tokens is None:
                yield f"turn {n}: no tokens are recorded"
                continue
            yield from differing(f"turn {n}: tokens of the prompt", tokens.prompt, ends[id(segment)])
            yield from differing(f"turn {n}: tokens sampled", tokens.sampled, segment.n_tokens)
            yield from differing(f"turn {n}: repeated", tokens.repeated, repeated(segment.ids))
    yield from _shown_problems(record, ledger)


def _shown_problems(record: TrajectoryRecord, ledger: Ledger) -> Iterator[str]:
    """Whether prompts hold what the record says was asked and shown, and the pictures are those of the views."""
    assert record.ledger is not None
    shown = [""]
    for segment, entry in zip(ledger.segments, record.ledger["segments"], strict=True):
        if isinstance(segment, SampledSegment) or (isinstance(segment, WordsSegment) and segment.role == "assistant"):
            shown.append("")
        elif isinstance(segment, WordsSegment):
            shown[-1] += segment.text
        elif "ids" in entry:
            shown[-1] += joined(entry).decode("utf-8", "replace")
    question = record.question
    parts = [question.system or "", *(question.prompt or "").split(IMAGE_MARK, 1)]
    if question.prompt is None and record.opening is not None:
        parts.append(record.opening.text)
    for part in parts:
        if not _holds(shown[0], part):
            yield f"the first prompt does not hold the words {part.strip()[:60]!r}"
    for n, (turn, words) in enumerate(zip(record.turns[:-1], shown[1:], strict=False), 1):
        if turn.observation is not None and not _holds(words, turn.observation.text):
            yield f"turn {n}: what came back is not what the ledger shows: {turn.observation.text[:60]!r}"
    pictures = [image.sha256 for image in ledger.images]
    views = [seen for seen in (record.opening, *(t.observation for t in record.turns)) if seen and seen.kind == "view"]
    if pictures:
        yield from differing("pictures", len(views), len(pictures))
        for n, (view, sha) in enumerate(zip(views, pictures, strict=False)):
            if view.image is not None and view.image != sha:
                yield f"picture {n}: {view.image[:12]}… is recorded, and the ledger shows {sha[:12]}…"


def _holds(shown: str, words: str) -> bool:
    """Whether words were shown; what a tokenizer could take for a control token is shown disarmed."""
    plain = plain_text(words).strip()
    return plain in shown or harmless(plain) in shown


def turn_problems(record: TrajectoryRecord, ledger: Ledger, said: Sequence[Said]) -> Iterator[str]:
    """Whether every recorded action is what its text parses to, and the end and verdict follow from them."""
    dialect = dialect_of(ledger)
    for n, (turn, one) in enumerate(zip(record.turns, said, strict=False), 1):
        recorded = turn.action
        if dialect is not None:
            yield from (f"turn {n}: {problem}" for problem in _by_ids(recorded, one, ledger, n - 1, dialect))
        elif recorded.kind in ("call", "answer"):
            yield from (f"turn {n}: {problem}" for problem in _by_words(recorded, one.text))
    last = record.turns[-1].action.kind if record.turns else "nothing"
    if (record.stop is StopReason.ANSWERED) != (last == "answer"):
        yield f"it ended as {record.stop}, and its last turn is {_named(last)}"
    word = str(record.verdict.answer)
    if record.stop is StopReason.ANSWERED:
        yield from differing("verdict", word, strict_answer([one.text for one in said]))
    elif word in ("YES", "NO"):
        yield f"the verdict is {word}, and it ended as {record.stop}"
    # Words state nothing but the answer; its probability is in the ledger.
    for name in ("p_yes", "confidence", "likelier_class"):
        yield from differing(f"verdict {name}", getattr(record.verdict, name), None)


def window_problems(record: TrajectoryRecord) -> Iterator[str]:
    """Whether every view shows the window that its call asked for."""
    for n, turn in enumerate(record.turns, 1):
        seen, asked = turn.observation, (turn.action.arguments or {}).get("wavelength_range")
        if seen is not None and seen.kind == "view" and turn.action.tool == TOOL_NAME:
            yield from differing(f"turn {n}: window of its view", _numbers(seen.window), _numbers(asked))


def _numbers(window: Any) -> list[float] | None:
    return [float(x) for x in window] if isinstance(window, list | tuple) else None


def _by_ids(recorded: ActionRecord, said: Said, ledger: Ledger, n: int, dialect: Dialect) -> Iterator[str]:
    segment = ledger.sampled[n]
    ended = said.pieces[-1] in END_TOKENS or segment.stop == "end"
    if not ended:
        cut = TruncatedTurn(said.text, open_thought=said.text.rfind(THINK) > said.text.rfind(THOUGHT))
        yield from _same(recorded, action_of(cut).record())
        return
    if recorded.malformed in BY_IDS:
        return
    yield from _same(recorded, action_of(read_said(said.text, dialect)).record())


def _by_words(recorded: ActionRecord, text: str) -> Iterator[str]:
    """A server's calls and thoughts may have come apart from its words: only what was accepted can be held to them."""
    body = text.rpartition(THOUGHT)[2]
    act = read_act(body, words_before=True)
    if recorded.kind == "answer":
        if not isinstance(act, Answer):
            yield "an answer is recorded, and the text holds none"
    elif not isinstance(act, CallAct):
        yield "a call is recorded, and the text holds none"
    else:
        call = Call(act.name, act.arguments).record()
        if (call.tool, call.arguments) != (recorded.tool, recorded.arguments):
            yield f"the call {recorded.arguments} is recorded, and the text says {call.arguments}"


def _same(recorded: ActionRecord, parsed: ActionRecord) -> Iterator[str]:
    if recorded == parsed:
        return
    if recorded.kind != parsed.kind:
        yield f"{_named(recorded.kind)} is recorded, and the text is {_named(parsed.kind)}"
    elif (recorded.tool, recorded.arguments) != (parsed.tool, parsed.arguments):
        yield f"the call {recorded.arguments} is recorded, and the text says {parsed.arguments}"
    elif recorded.malformed != parsed.malformed:
        yield f"malformed as {recorded.malformed} is recorded, and the text is {parsed.malformed}"
    else:
        yield "the recorded words are not those of the text"


def _named(kind: str) -> str:
    return {"answer": "an answer", "call": "a call"}.get(kind, kind)


def count_problems(record: TrajectoryRecord, ledger: Ledger | None) -> Iterator[str]:
    """Whether calls and tokens are what the turns sum up to."""
    if record.calls is not None:
        then = record.calls.model_dump(exclude={"extra_arguments"})
        now = count_calls(record.turns, TOOL_NAME, ()).model_dump(exclude={"extra_arguments"})
        for name in then:
            yield from differing(f"calls {name}", then[name], now[name])
    if ledger is None or record.tokens is None:
        if (ledger is None) != (record.tokens is None):
            yield "tokens are recorded without a ledger, or a ledger without tokens"
        return
    spent = [turn.tokens for turn in record.turns if turn.tokens is not None]
    found = {
        "prompt": sum(t.prompt or 0 for t in spent),
        "cached": sum(t.cached or 0 for t in spent),
        "sampled": sum(t.sampled or 0 for t in spent),
        "looping": sum((t.repeated or 0.0) >= LOOPING for t in spent),
    }
    if ledger.kind == "tokens":
        found |= {"images": sum(image.n_tokens for image in ledger.images), "total": ledger.n_tokens}
    for name, n in found.items():
        yield from differing(f"tokens {name}", getattr(record.tokens, name), n)


def reward_problems(
    record: TrajectoryRecord, ledger: Ledger | None, said: Sequence[Said], tasks: Mapping[str, Task]
) -> Iterator[str]:
    """Whether the reward is what the turns are worth."""
    truth = record.question.answer
    if ledger is None or truth is None or record.stop not in EARNED:
        yield from differing("reward", record.reward, None)
        return
    kinds = [turn.action.kind for turn in record.turns]
    well = bool(kinds) and kinds[-1] == "answer" and all(kind == "call" for kind in kinds[:-1])
    texts = [one.text for one in said]
    task = tasks[record.question.task]
    parts = reward(texts, truth, task.reward, calls=dialect_of(ledger), format_ok=well)
    found = {"score": parts.score, "correct": float(parts.correct), "format_ok": float(parts.format_ok)}
    yield from differing("reward", record.reward, found)


def measured_problems(record: TrajectoryRecord) -> Iterator[str]:
    """Of a policy that measures: whether its verdict agrees with itself and with what it measured."""
    verdict = record.verdict
    p, confidence, word = verdict.p_yes, verdict.confidence, str(verdict.answer)
    if word in ("YES", "NO") and record.stop is not StopReason.ANSWERED:
        yield f"the verdict is {word}, and it ended as {record.stop}"
    if p is not None and confidence is not None and word in ("YES", "NO", "UNSURE"):
        stated = {"YES": p, "NO": 1.0 - p}.get(word, max(p, 1.0 - p))
        if abs(stated - confidence) > 1e-3:
            yield f"p(YES) is {p:g}, which makes a {word} {stated:.4f} sure, and {confidence:g} is recorded"
    measured = {m.index: m for m in record.measurements}
    for item in verdict.evidence:
        m = item.measurement
        if measured and measured.get(m.index) != m:
            yield f"the evidence {item.says!r} is not what was measured of {m.index}"
