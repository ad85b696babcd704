r"""A small simulated set to learn from in minutes on a CPU: for tests, and for a first look at training.

`make_toy` writes, in the published shape:

    sft_train.jsonl, sft_val.jsonl    demonstrations, see `specvet.data.demonstrations`
    rl_train.jsonl, dev.jsonl         questions with answers, see `specvet.data.questions`
    spectra/*.npz, images/, tasks/toy.yaml

Every spectrum is SIMULATED: a sloped continuum with noise and either many deep bands (YES) or one broad bump or dip
(NO), equally many of both. Whoever looks at the figure can tell.

The demonstrations show how a conversation goes: a thought, one zoom, a thought, an answer. What they say they see is
true, but their teacher is timid: of banded stars only four in ten get a YES (`SAYS_YES`). Who imitates them learns to
look and to keep to the form, and is right 65 % of the time, the likeliest answer always being NO. The judgement is left
to rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specvet.agent.opening import conversation, observation_message
from specvet.chat import Conversation, Image, Message, ToolCall
from specvet.chat.messages import assistant
from specvet.data.demonstrations import Demonstration, Picture, Said, write_demonstrations
from specvet.data.making import made_once
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum, read
from specvet.tasks import Task
from specvet.tasks.load import task_from_bytes
from specvet.tools import Observation, ZoomTool

VERSION = 2
"""Of the files that are written."""
SIZES = {"sft_train": 96, "sft_val": 16, "rl_train": 64, "dev": 32}
"""Spectra a part."""
STYLE = "compact"
"""Of the figures in the demonstrations; questions are best asked in the same."""
MAX_TURNS = 3
"""That the demonstrations speak of: a zoom, an answer, and one to spare."""
SAYS_YES = {True: 0.35, False: 0.05}
"""Share of the demonstrations that answer YES, of banded and of smooth spectra."""
SAW = {True: "Many bands.", False: "One line."}
"""What they say they see."""
WAVELENGTH = np.linspace(4000.0, 8400.0, 1101)
"""Å, in air."""


@dataclass(frozen=True, slots=True)
class Toy:
    """The files of a toy set."""

    folder: Path

    @property
    def sft_train(self) -> str:
        return str(self.folder / "sft_train.jsonl")

    @property
    def sft_val(self) -> str:
        return str(self.folder / "sft_val.jsonl")

    @property
    def rl_train(self) -> str:
        return str(self.folder / "rl_train.jsonl")

    @property
    def dev(self) -> str:
        return str(self.folder / "dev.jsonl")


def make_toy(folder: str | Path, seed: int = 0, **sizes: int) -> Toy:
    """Write the toy set into `folder`, or find it there as the same call left it; equal calls write equal bytes.

    `sizes` changes some of `SIZES`. The folder appears whole or not at all. Raises ValueError for a part that there is
    not, or whose number of spectra is odd; FileExistsError where the folder holds something else.
    """
    if unknown := sizes.keys() - SIZES.keys():
        raise ValueError(f"the toy set has no part {unknown.pop()}; there are {', '.join(SIZES)}")
    chosen = SIZES | sizes
    if odd := [name for name, n in chosen.items() if n < 2 or n % 2]:
        raise ValueError(f"{odd[0]} = {chosen[odd[0]]}: half of the spectra are banded, so their number must be even")
    settings = {"simulated": True, "version": VERSION, "seed": seed, **chosen}
    return Toy(made_once(folder, settings, lambda path: _write(path, np.random.default_rng([seed, 1]), chosen)))


def toy_task() -> Task:
    """The question of the toy set."""
    return task_from_bytes(_task_bytes(), "data/toy.yaml")


def simulated(rng: np.random.Generator, banded: bool) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Flux (relative, near 1) and inverse variance of one simulated star, shape (n_pix,) as `WAVELENGTH`."""
    middle, span = WAVELENGTH.mean(), np.ptp(WAVELENGTH)
    continuum = 1.0 + rng.uniform(-0.4, 0.4) * (WAVELENGTH - middle) / span
    if banded:  # sharp on the blue side and fading to the red, as TiO; but regular, as nothing is
        phase = ((WAVELENGTH - rng.uniform(0.0, 100.0)) / rng.uniform(55.0, 75.0)) % 1.0
        shape = -rng.uniform(0.6, 0.8) * (1.0 - phase)
    else:
        centre, width = rng.uniform(6450.0, 6650.0), rng.uniform(150.0, 250.0)
        shape = rng.choice([-1.0, 1.0]) * rng.uniform(0.6, 0.8) * np.exp(-0.5 * ((WAVELENGTH - centre) / width) ** 2)
    sigma = 1.0 / rng.uniform(50.0, 100.0)
    flux = continuum * (1.0 + shape) + rng.normal(0.0, sigma, WAVELENGTH.size)
    return flux.astype(np.float32), np.full(WAVELENGTH.size, sigma**-2, dtype=np.float32)


def shown_conversation(
    question: Question, tool: ZoomTool, says: bool, shown: Callable[[Observation], Image]
) -> Conversation:
    """A whole demonstration as the agent would have had it: one zoom, then the answer `says`."""
    task = toy_task()
    saw = SAW[question.answer == "YES"]
    arguments = {"wavelength_range": [round(end) for end in task.windows[0].range]}
    opening, seen = tool.opening(), tool(arguments)
    begun = conversation(question, task, tool, opening, shown(opening), MAX_TURNS)
    answer = rf"<answer>{saw} \boxed{{{'YES' if says else 'NO'}}}</answer>"
    demonstrated = (
        assistant(reasoning=f"{saw} Look closer.", calls=[ToolCall(tool.name, arguments)]),
        observation_message(seen, shown(seen)),
        assistant(answer, reasoning="I looked."),
    )
    return Conversation(begun.messages + demonstrated, begun.tools)


def toy_question(part: str, row: int, banded: bool) -> Question:
    """The question about one spectrum of a part."""
    name = f"SIMULATED-{part}-{row:04d}"
    return Question(
        id=name,
        task="toy",
        spectrum=SpectrumRef(array_file=f"spectra/{part}.npz", row=row),
        answer="YES" if banded else "NO",
        split=part,
        object_id=name,
        label_source="simulated",
        name=name,
    )


def _write(folder: Path, rng: np.random.Generator, sizes: dict[str, int]) -> None:
    for name in ("spectra", "images", "tasks"):
        (folder / name).mkdir()
    (folder / "tasks" / "toy.yaml").write_bytes(_task_bytes())
    for part, n in sizes.items():
        banded = rng.permutation(np.arange(n) < n // 2)
        questions = [toy_question(part, row, bool(b)) for row, b in enumerate(banded)]
        spectra = _spectra(folder / "spectra" / f"{part}.npz", rng, questions)
        if part.startswith("sft"):
            asked = zip(questions, spectra, _verdicts(rng, banded), strict=True)
            demonstrations = [_demonstration(folder, q, s, bool(says)) for q, s, says in asked]
            write_demonstrations(str(folder / f"{part}.jsonl"), demonstrations)
        else:
            lines = "".join(f"{q.model_dump_json(exclude_none=True)}\n" for q in questions)
            (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")


def _spectra(file: Path, rng: np.random.Generator, questions: list[Question]) -> list[Spectrum]:
    made = [simulated(rng, question.answer == "YES") for question in questions]
    np.savez(
        file,
        wavelength=WAVELENGTH,
        flux=np.stack([flux for flux, _ in made]),
        ivar=np.stack([ivar for _, ivar in made]),
        id=np.array([question.id for question in questions]),
        medium=np.array("air"),
    )
    return read(str(file))


def _verdicts(rng: np.random.Generator, banded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What demonstrations say; exact shares, so that no small set happens to teach more or less."""
    says = np.zeros(banded.size, dtype=bool)
    for kind, share in SAYS_YES.items():
        of_kind = np.flatnonzero(banded == kind)
        says[rng.permutation(of_kind)[: round(share * of_kind.size)]] = True
    return says


def _demonstration(folder: Path, question: Question, spectrum: Spectrum, says: bool) -> Demonstration:
    paths: dict[str, str] = {}

    def shown(observation: Observation) -> Image:
        assert observation.view is not None
        image = Image.of(observation.view.png)
        paths[image.sha256] = f"images/{question.id}_{len(paths)}.png"
        (folder / paths[image.sha256]).write_bytes(image.png)
        return image

    spoken = shown_conversation(question, ZoomTool(spectrum, style=STYLE), says, shown)
    return Demonstration(
        question.id,
        tuple(_said(message, paths) for message in spoken.messages),
        spoken.tools,
        question.object_id,
        question.name,
    )


def _said(message: Message, paths: dict[str, str]) -> Said:
    content = tuple(Picture(paths[p.sha256]) if isinstance(p, Image) else p for p in message.content)
    return Said(message.role, content, message.reasoning, message.calls)


def _task_bytes() -> bytes:
    return resources.files("specvet.data").joinpath("toy.yaml").read_bytes()
