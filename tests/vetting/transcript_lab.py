"""Runs whose trajectories hold ledgers, made of the real tool, formats and run folder; only the model is scripted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from specvet.agent import task_hash
from specvet.chat import Image, Ledger, Vocabulary, WordsSegment
from specvet.chat.formats import chat_format
from specvet.chat.ledger import ImageSegment
from specvet.chat.messages import system, tool, user
from specvet.chat.tiny import tiny_vocabulary
from specvet.records import Decision, RunFolder
from specvet.records.schema import (
    ActionRecord,
    Answer,
    Question,
    SpectrumRef,
    StopReason,
    TokenCounts,
    TrajectoryRecord,
    TurnRecord,
    TurnTokens,
    Verdict,
)
from specvet.spectra import Spectrum
from specvet.tasks import load_task, task_text
from specvet.tools import TOOL_NAME, Observation, ZoomTool

CV = load_task("cv")
HOSTILE = "\x1b[31mred\x1b[0m \u202eabc\u202c <script>alert(1)</script> a\u200bb \r </span>"
THOUGHT = "Hα stands out near 6563 Å.\n\nLook closer.\n</think>\n\n"


def star(file: str, peak: float = 30.0) -> Spectrum:
    wavelength = np.linspace(4000.0, 9000.0, 2500)
    noise = np.random.default_rng(1).normal(0, 0.3, wavelength.size)
    flux = 10 + noise + peak * np.exp(-0.5 * ((wavelength - 6564.6) / 8) ** 2)
    return Spectrum(wavelength, flux, np.full(wavelength.size, 11.0), medium="vacuum", file=file, id=Path(file).stem)


def write_star(path: Path, peak: float = 30.0) -> str:
    """The same as a text file, which the run's pictures can be drawn from again."""
    s = star(str(path), peak)
    np.savetxt(path, np.column_stack([s.wavelength, s.flux, np.full(s.n_pix, 0.3)]), fmt="%.8f")
    return str(path)


def call(low: float, high: float, label: str = "Hα") -> str:
    arguments = {"wavelength_range": [low, high], "label": label}
    inner = "".join(
        f"<parameter={k}>\n{json.dumps(v, ensure_ascii=False) if not isinstance(v, str) else v}\n</parameter>\n"
        for k, v in arguments.items()
    )
    return f"<tool_call>\n<function={TOOL_NAME}>\n{inner}</function>\n</tool_call>"


ANSWER = "Broad Hα.\n</think>\n\n<answer>\\boxed{YES}</answer>"


def logprobs(n: int, seed: int = 0) -> list[float]:
    """Mostly certain, now and then a surprise, over all eight steps of the scale."""
    steps = [-0.001, -0.002, -0.05, -0.004, -0.3, -1.0, -0.0005, -2.0, -0.02, -3.5, -0.001, -5.5, -0.01, -9.0]
    return [steps[(i + seed) % len(steps)] for i in range(n)]


def decided(
    spectrum: Spectrum,
    windows: Sequence[tuple[float, float]] = ((6400, 6700),),
    *,
    vocabulary: Vocabulary | None = None,
    keep: RunFolder | None = None,
    thoughts: Sequence[str] = (),
    sample: int = 0,
    group: int = 1,
    words: bool = False,
    answer: str = ANSWER,
    style: str = "reference",
    title: str | None = None,
    with_texts: bool = True,
    behind: bool = False,
) -> Decision:
    """A decision of a scripted model that looks at each window, then answers.

    `keep` keeps its pictures; `words` makes a ledger without tokens; `behind` ends it with an observation that no turn
    followed.
    """
    vocabulary = vocabulary or tiny_vocabulary("qwen3_5")
    form = chat_format("qwen3_5", vocabulary)
    look = ZoomTool(spectrum, style=style, title=title)
    opening = look.opening()
    ledger = Ledger.of_text("chat") if words else form.new_ledger()

    def kept(observation: Observation) -> Image | None:
        if observation.view is None:
            return None
        if keep is not None:
            keep.images.put(observation.view.png)
        return Image.of(observation.view.png)

    def record(observation: Observation):  # type: ignore[no-untyped-def]
        image = kept(observation)
        return observation.record(image.sha256 if image and keep is not None else None)

    first = kept(opening)
    assert first is not None
    question = (system("You look at spectra."), user(first, f"{opening.text}\nIs it a cataclysmic variable?"))
    if words:
        size = (first.sha256, first.width, first.height, 0, 0, 0)
        ledger.append([WordsSegment("You look at spectra.", "system"), ImageSegment(*size, "user")])
        ledger.append([WordsSegment("Is it a cataclysmic variable?", "user")])
    else:
        ledger.append(form.opening(question, [look.schema()]))
    turns: list[TurnRecord] = []
    prompt = 0
    for n in range(len(windows) + 1):
        last = n == len(windows)
        window = None if last else windows[n]
        thought = thoughts[n] if n < len(thoughts) else THOUGHT
        said = answer if last else thought + call(*window)  # type: ignore[misc]
        counted = TurnTokens(prompt=ledger.n_tokens, cached=prompt)
        prompt = ledger.n_tokens
        if words:
            ledger.append([WordsSegment(said, "assistant")])
        else:
            ids = [*vocabulary.encode(said), vocabulary.need("<|im_end|>")]
            ledger.append_sampled(ids, logprobs(len(ids), n), "end")
            counted = counted.model_copy(update={"sampled": len(ids)})
        action = ActionRecord(kind="answer", text="Broad Hα.")
        observation: Observation | None = None
        if window is not None:
            arguments = {"wavelength_range": list(window), "label": "Hα"}
            observation = look(arguments)
            action = ActionRecord(kind="call", tool=TOOL_NAME, arguments=arguments, text=thought)
            picture = kept(observation)
            if words:
                ledger.append([WordsSegment(observation.text, "tool")])
                if picture:
                    ledger.append([ImageSegment(picture.sha256, picture.width, picture.height, 0, 0, 0, "tool")])
            else:
                ledger.append(form.observation(ledger, tool(*([picture] if picture else []), observation.text)))
        elif behind:
            ledger.append(form.observation(ledger, user("Look again.")))
        seen = record(observation) if observation else None
        turns.append(TurnRecord(action=action, observation=seen, seconds=0.5 + n, tokens=None if words else counted))
    verdict = Verdict(answer=Answer.YES, reason="broad Hα emission", confidence=0.8)
    total = TokenCounts(
        prompt=sum(t.tokens.prompt or 0 for t in turns if t.tokens),
        cached=sum(t.tokens.cached or 0 for t in turns if t.tokens),
        sampled=ledger.n_sampled,
        images=sum(i.n_tokens for i in ledger.images),
        total=ledger.n_tokens,
    )
    trajectory = TrajectoryRecord(
        question=Question(id=f"q-{spectrum.id}", task="cv", spectrum=SpectrumRef(path=spectrum.file), answer="YES"),
        policy="torch",
        task_hash=task_hash(CV),
        spectrum_hash=spectrum.content_hash,
        opening=record(opening),
        turns=tuple(turns),
        stop=StopReason.ANSWERED,
        verdict=verdict,
        reward={"answer": 1.0, "format": 0.5, "total": 1.5},
        seconds=3.25,
        started="2026-01-02T03:04:05.678+00:00",
        sample=sample,
        group=group,
        tokens=None if words else total,
        ledger=ledger.to_dict(vocabulary if with_texts and not words else None),
    )
    return Decision(
        file=spectrum.file, row=0, task="cv", id=spectrum.id, sample=sample, verdict=verdict, trajectory=trajectory,
        frame=look.frame.text, z=look.frame.z or None,
    )  # fmt: skip


def write_run(folder: Path, decisions: Sequence[Decision], **config: object) -> Path:
    """A run folder with these decisions, its trajectories in a shard."""
    with RunFolder.open(folder, kind="rollout", config=config) as run:
        (folder / "tasks").mkdir(exist_ok=True)
        (folder / "tasks" / "cv.yaml").write_text(task_text(CV), encoding="utf-8")
        run.record_many(decisions)
    return folder
