"""A transcript as one HTML page that is complete in itself: no script, no network, nothing of a stranger's as markup.

The page holds all three ways of colouring; radio buttons and style rules choose between them. One rule of its Content
Security Policy lets exactly its own style sheet in, and pictures come as `data:` only.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from markupsafe import Markup, escape

from specvet import __version__
from specvet.vetting.templates import page_part, page_template
from specvet.vetting.transcript import safe, scale
from specvet.vetting.transcript.blocks import Block, Picture, Run, Token, units
from specvet.vetting.transcript.facts import NOTES, Transcript, TurnLine
from specvet.vetting.transcript.pictures import Gallery
from specvet.vetting.transcript.words import block_line, counted_columns, picture_line, picture_name, totals_lines

COLOURS = ("role", "weight", "logprob")

_WEIGHTS = {"learns": "w", "context": "c", "left_out": "o"}

LEGENDS = {
    "role": (("sys", "system"), ("user", "user"), ("tool", "tool"), ("said", "sampled"), ("frame", "frame")),
    "weight": (("w", "sampled: it learns"), ("c", "context"), ("o", "behind the last turn: in no datum")),
    "logprob": tuple((f"l{i}", name) for i, name in enumerate(scale.step_names())),
}


def page(t: Transcript, gallery: Gallery, colour: str = "role") -> str:
    """The page; `colour` (`role`, `weight`, `logprob`) is what it opens with."""
    style = "\n" + style_sheet() + "\n"
    columns = counted_columns(t)
    return str(
        page_template("specvet.vetting.transcript", "transcript.html").render(
            t=t,
            colour=colour,
            colours=COLOURS if t.totals.all else (),
            legends=LEGENDS,
            notes=[note for note in (NOTES[t.kind], t.only) if note],
            totals=totals_lines(t),
            turns=[_turn_cells(turn, cells) for turn, *cells in zip(t.turns, *columns.values(), strict=True)],
            columns=columns,
            blocks=Markup("").join(block_markup(b, gallery, _anchor(b, t)) for b in t.blocks),
            first=_anchors(t),
            policy=security_policy(style),
            style=Markup(style),
            version=__version__,
            clean=safe.one_line,
        )
    )


def _anchors(t: Transcript) -> set[int]:
    return {b.turn for b in t.blocks}


def _turn_cells(turn: TurnLine, counted: list[str]) -> dict[str, Any]:
    return {
        "number": turn.number,
        "trouble": turn.malformed or (turn.kind if turn.kind == "truncated" else ""),
        "action": safe.one_line(turn.action, 400),
        "observation": safe.one_line(turn.observation),
        "counted": counted,
        "seconds": "" if turn.seconds is None else f"{turn.seconds:.2f}",
    }


def security_policy(style: str) -> str:
    """The Content Security Policy of a page with this one style sheet: no script, no network, pictures as `data:`.

    `style` is the whole text of its element, line breaks at its ends included.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _anchor(block: Block, t: Transcript) -> str:
    first = next(b for b in t.blocks if b.turn == block.turn) is block
    return f"turn{block.turn}" if first else ""


def block_markup(block: Block, gallery: Gallery, anchor: str = "", by_token: bool = True) -> Markup:
    """A block, folded open; `anchor` is its id on the page. Without `by_token`, words only: a tenth of the size."""
    show = _run if by_token else _words
    anchor = f' id="{escape(anchor)}"' if anchor else ""
    parts = "".join(show(p) if isinstance(p, Run) else picture_markup(p, gallery) for p in block.parts)
    # The first line break of a <pre> is eaten, so the words lie in a <div>.
    return Markup(
        f'<details open class="block {block.role}"{anchor}><summary>{escape(block_line(block))}</summary>'
        f'<div class="words">{parts}</div></details>\n'
    )


def _words(run: Run) -> str:
    said = run.words or b"".join(t.piece for t in run.tokens)
    return f'<span class="{run.role}">{"".join(_markup(s) for s in safe.shown(said))}</span>'


def _run(run: Run) -> str:
    role = f"{run.role} {_WEIGHTS[run.weight]}"
    if run.words:
        return _words(run)
    return f'<span class="{role}">{"".join(_tokens(run))}</span>'


def _tokens(run: Run) -> Iterator[str]:
    """Tokens take turns between two elements, which is all that shows where one ends.

    Tokens of the prompt that share a character are shown as it; sampled ones each have their own bytes and log-prob.
    """
    n = 0
    for unit in units(run.tokens):
        whole = b"".join(t.piece for t in unit) if len(unit) > 1 else b""
        if whole and run.role != "sampled":
            tag, n = "iu"[n % 2], n + 1
            ends = f' title="{len(unit)} tokens: {escape(" ".join(safe.plain(t.piece) for t in unit))}"'
            yield f"<{tag}{ends}>{_shown(whole)}</{tag}>"
            continue
        for token in unit:
            tag, n = "iu"[n % 2], n + 1
            ends = f", ends {escape(safe.one_line(whole))}" if whole and token is unit[-1] else ""
            yield f"<{tag}{_attributes(token, ends)}>{_shown(token.piece)}</{tag}>"


def _attributes(token: Token, ends: str) -> str:
    special = token.special
    if token.logprob is None:
        return " class=t" if special else ""
    step = scale.step(token.logprob)
    names = f'"l{step} t"' if special else f"l{step}"
    told = f"{token.logprob:.3f}".replace("-", "−")
    return f' class={names} title="log p {told} ({escape(scale.probability(token.logprob))}), id {token.id}{ends}"'


@cache
def _shown(piece: bytes) -> str:
    return "".join(_markup(s) for s in safe.shown(piece))


def _markup(shown: safe.Shown) -> str:
    if shown.kind == "newline":
        return "<b></b>\n"
    if shown.kind == "tab":
        return "<b class=tab></b>\t"
    words = str(escape(shown.text))
    return f"<s>{words}</s>" if shown.kind == "escape" else words


def picture_markup(picture: Picture, gallery: Gallery) -> Markup:
    """A picture with its line, or a box that says why it is not there."""
    found = gallery.find(picture)
    line, name = escape(picture_line(picture, found)), escape(picture_name(picture))
    if found.png is None:
        return Markup(f'<figure class="gone"><p>{name}</p><figcaption>{line}</figcaption></figure>')
    data = base64.b64encode(found.png).decode("ascii")
    size = f" width={picture.width} height={picture.height}" if picture.width else ""
    source = f"data:image/png;base64,{data}"
    return Markup(f'<figure><img alt="{name}"{size} src="{source}"><figcaption>{line}</figcaption></figure>')


@cache
def style_sheet() -> str:
    """The report's style sheet, this page's own, and the steps of log-prob on light and dark paper."""

    def steps(colours: tuple[scale.Colour, ...]) -> str:
        return " ".join(f"--p{i}: {c.paper}; --q{i}: {c.ink};" for i, c in enumerate(colours, start=1))

    light, dark = steps(scale.LIGHT), steps(scale.DARK)
    rules = "\n".join(
        f"#by-logprob:checked ~ * .l{i} {{ background: var(--p{i}); color: var(--q{i}); }}"
        for i in range(1, len(scale.LIGHT) + 1)
    )
    return "\n".join(
        [
            page_part("specvet.vetting.report", "style.css"),
            page_part("specvet.vetting.transcript", "transcript.css"),
            f":root {{ {light} }}",
            f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}",
            f"@media print {{ :root {{ {light} }} }}",
            rules,
        ]
    )
