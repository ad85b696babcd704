"""Random ledgers: invented ids, pictures and log-probs in the order in which a trajectory brings them."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from specvet.chat import ImageSegment, Ledger, Segment, TextSegment

patient = settings(deadline=None, max_examples=60)
"""For properties over whole conversations."""

PAD = 999
"""The picture id of these ledgers; no turn says it."""
ROLES = ("system", "user", "tool", "frame")
IDS = st.lists(st.integers(0, 340), min_size=1, max_size=6).map(tuple)


def float32(bits: int) -> float:
    return float(np.array([bits], dtype=np.uint32).view(np.float32)[0])


LOGPROB = (
    st.sampled_from(
        [0.0, -0.0, float32(0x80000001), float32(0x807FFFFF), float32(0x80800000), float32(0xFF7FFFFF), -0.1]
    )
    | st.integers(0x80000000, 0xFF7FFFFF).map(float32)
    | st.floats(-30, 0, width=32)
)
"""Every float32 that a log-prob can be: both zeros, denormals, the largest."""


def image(rows: int = 2, columns: int = 3, seed: int = 0, role: str = "user") -> ImageSegment:
    sha256 = hashlib.sha256(str(seed).encode()).hexdigest()
    return ImageSegment(sha256, columns * 28, rows * 28, rows, columns, PAD, role, png=b"png")  # type: ignore[arg-type]


TEXTS = st.builds(TextSegment, IDS, st.sampled_from(ROLES))
IMAGES = st.builds(image, st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.sampled_from(("user", "tool")))


@st.composite
def rendered(draw: st.DrawFn, images: int) -> list[Segment]:
    """What a program adds before a turn: texts, with that many pictures between them."""
    segments: list[Segment] = [draw(TEXTS)]
    for _ in range(images):
        segments += [draw(IMAGES), *draw(st.lists(TEXTS, max_size=1))]
    return segments


@st.composite
def ledgers(
    draw: st.DrawFn, max_turns: int = 4, max_images: int = 6, *, min_turns: int = 0, logprobs: bool | None = None
) -> Ledger:
    """A conversation of 0 to 6 pictures; each turn has log-probs, or is a demonstration (`logprobs` fixes which)."""
    left = draw(st.integers(0, max_images))
    ledger = Ledger("lab", "vocabulary")

    def show() -> None:
        nonlocal left
        shown = draw(st.integers(0, left))
        left -= shown
        ledger.append(draw(rendered(shown)))

    show()
    for _ in range(draw(st.integers(min_turns, max_turns))):
        ids = draw(IDS)
        some = draw(st.booleans()) if logprobs is None else logprobs
        values = [draw(LOGPROB) for _ in ids] if some else None
        ledger.append_sampled(ids, values, draw(st.sampled_from(("end", "length"))))
        if draw(st.booleans()):
            show()
    return ledger
