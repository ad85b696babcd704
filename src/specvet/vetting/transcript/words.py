"""What both renderers say in the same words."""

from __future__ import annotations

from specvet.vetting.transcript.blocks import Block, Picture, Run
from specvet.vetting.transcript.facts import Pair, Transcript, logprob_of
from specvet.vetting.transcript.pictures import Found

SHOWN_SHA = 12
"""Hexadecimal digits of a hash that are shown; the whole one is in `--json`."""


def signed(value: float) -> str:
    """Two decimals with a minus sign as people write it."""
    return f"{value:.2f}".replace("-", "−")


def block_line(block: Block) -> str:
    """`turn 2 · sampled · 143 tokens, 138 sampled · Σ log p −12.34`."""
    runs = [p for p in block.parts if isinstance(p, Run) and p.role == "sampled"]
    n = block.n_tokens
    who = "policy" if block.role == "sampled" and not n else block.role  # words were sampled by whoever it asked
    parts = [f"turn {block.turn}" if block.turn else "opening", who]
    if n:
        said = f", {sum(len(r.tokens) for r in runs):,} sampled" if runs else ""
        parts.append(f"{n:,} token{'s' if n > 1 else ''}{said}")
    total = logprob_of(runs)
    if total is not None:
        parts.append(f"Σ log p {signed(total)}")
    return " · ".join(parts)


def picture_name(picture: Picture) -> str:
    """`image 2 · 6400-6700 Å`."""
    view = picture.view
    where = "not recorded" if view is None else "the whole spectrum"
    if view is not None and view.window is not None:
        where = f"{view.window[0]:g}-{view.window[1]:g} Å"
    return f"image {picture.number} · {where}"


def picture_line(picture: Picture, found: Found) -> str:
    """One line on a picture: window, size, tokens, hash, and where it comes from."""
    parts = [picture_name(picture)]
    if picture.view is not None and picture.view.n_points is not None:
        parts.append(f"{picture.view.n_points:,} points")
    if picture.width:
        parts.append(f"{picture.width} x {picture.height} pixels")
    if picture.n_tokens:
        parts.append(f"{picture.rows} x {picture.columns} = {picture.n_tokens:,} tokens")
    if picture.sha256:
        parts.append(f"sha256 {picture.sha256[:SHOWN_SHA]}")
    elif picture.view is not None and picture.view.view_hash:
        parts.append(f"view {picture.view.view_hash[:SHOWN_SHA]}")
    return " · ".join([*parts, found.how] if found.how else parts)


def totals_lines(t: Transcript) -> list[Pair]:
    """What a trajectory took, by name; empty for one that took neither tokens nor pictures."""
    n = t.totals
    lines: list[Pair] = []
    pictures = f" in {n.pictures} picture{'s' if n.pictures > 1 else ''}" if n.pictures else ""
    if n.all:
        lines.append(("tokens", f"{n.all:,} = {n.text:,} text + {n.image:,} image{pictures} + {n.sampled:,} sampled"))
        left = f"; {n.left_out:,} behind the last turn are left out" if n.left_out else ""
        lines.append(("learns", f"{n.sampled:,} of {n.all - n.left_out:,} tokens{left}"))
    else:
        lines += [("tokens", f"{n.counted:,}, as the server counts them")] if n.counted else []
        lines += [("pictures", f"{n.pictures}")] if n.pictures else []
    if n.logprob is not None and n.sampled:
        lines.append(("Σ log p", f"{signed(n.logprob)}, {signed(n.logprob / n.sampled)} a sampled token"))
    if n.prompts:
        held = "what was cached is not known"
        if n.cached is not None:
            held = f"{n.cached:,} of them cached, {n.prompts - n.cached:,} prefilled"
        lines.append(("prompts", f"{n.prompts:,} tokens in all turns together, {held}"))
    return lines


def counted_columns(t: Transcript) -> dict[str, list[str]]:
    """What each turn took, by name; a column that would be empty is left out."""

    def text(value: int | float | None) -> str:
        return "" if value is None else f"{value:,}" if isinstance(value, int) else signed(value)

    columns = {
        "prompt": [text(turn.prompt) for turn in t.turns],
        "cached": [text(turn.cached) for turn in t.turns],
        "sampled": [text(turn.tokens) for turn in t.turns],
        "Σ log p": [text(turn.logprob) for turn in t.turns],
    }
    return {name: cells for name, cells in columns.items() if any(cells)}
