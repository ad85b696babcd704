"""The exact text of a trajectory, as the model was shown it and said it."""

from __future__ import annotations

from specvet.records.schema import TrajectoryRecord
from specvet.vetting.transcript.blocks import Block, Picture, blocks_of

PAD = b"<|image_pad|>"
"""What stands for a picture, once however many tokens it has, as in the templates of the chat formats."""


def raw_text(trajectory: TrajectoryRecord) -> bytes:
    """All bytes in order. Without a ledger of tokens, the words of each speaker with line breaks between them."""
    exact = trajectory.ledger is not None and trajectory.ledger["kind"] == "tokens"
    return (b"" if exact else b"\n").join(_bytes(block, exact) for block in blocks_of(trajectory))


def _bytes(block: Block, exact: bool) -> bytes:
    said: list[bytes] = []
    for part in block.parts:
        if isinstance(part, Picture):
            said.append(PAD)
        elif part.tokens:
            said += [t.piece for t in part.tokens]
        else:
            said.append(part.words.encode("utf-8", "replace"))
    return (b"" if exact else b"\n").join(said)
