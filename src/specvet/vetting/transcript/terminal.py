"""A transcript in a terminal: facts, a line a turn, then the conversation, coloured by what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from rich import box
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from specvet.vetting.claims import counted
from specvet.vetting.transcript import safe, scale
from specvet.vetting.transcript.blocks import Block, Picture, Run, Token, units
from specvet.vetting.transcript.facts import NOTES, Transcript
from specvet.vetting.transcript.pictures import Found, Gallery
from specvet.vetting.transcript.sketch import sketch
from specvet.vetting.transcript.words import block_line, counted_columns, picture_line, totals_lines

ColourBy = Literal["role", "weight", "logprob"]
COLOURS: tuple[ColourBy, ...] = get_args(ColourBy)

_ROLES = {
    "system": Style(color="cyan"),
    "user": Style(color="blue"),
    "tool": Style(color="magenta"),
    "frame": Style(dim=True),
    "sampled": Style(),
}
_HEADS = _ROLES | {"sampled": Style(bold=True), "frame": Style(dim=True)}
_WEIGHTS = {
    "learns": Style(color="black", bgcolor="cyan"),
    "context": Style(dim=True),
    "left_out": Style(dim=True, strike=True),
}
_ANSWERS = {"YES": "bold green", "UNSURE": "yellow", "NO_DATA": "yellow", "FAILED": "red", "ERROR": "bold red"}
_STATES = {"supported": "green", "contradicted": "bold red", "not measurable": "dim"}
_UNDERLINED = Style(underline=True)
_ESCAPED = {"role": Style(reverse=True), "weight": Style(italic=True), "logprob": Style(italic=True)}
"""Where the paper has a meaning, it stays."""
_MARK = Style(dim=True)


def print_transcript(out: Console, t: Transcript, gallery: Gallery, colour: ColourBy = "role", *, dark: bool) -> None:
    """Print a transcript; `dark` says which paper the terminal has, for the log-prob colours."""
    _Printer(out, gallery, colour, dark).all(t)


class _Printer:
    def __init__(self, out: Console, gallery: Gallery, colour: ColourBy, dark: bool) -> None:
        self._out, self._gallery, self._colour = out, gallery, colour
        self._unicode = out.encoding.lower().replace("-", "").startswith("utf")
        steps = scale.DARK if dark else scale.LIGHT
        self._steps = (Style(), *(Style(color=c.ink, bgcolor=c.paper) for c in steps))

    def all(self, t: Transcript) -> None:
        out = self._out
        verdict = Text.assemble((t.answer, _ANSWERS.get(t.answer, "bold")), f" {t.confidence}".rstrip())
        simulated = Text.assemble("  ", (" SIMULATED ", "reverse yellow")) if t.simulated else ""
        out.print(Text.assemble((safe.one_line(t.title), "bold"), "  ", verdict, simulated), soft_wrap=True)
        out.print(Text(safe.one_line(t.reason), style="dim"), soft_wrap=True)
        facts = [(name, safe.one_line(value)) for name, value in (*t.facts, *(("warning", w) for w in t.warnings))]
        facts += totals_lines(t)
        facts += [("evidence", f"{odds:>6}  {safe.one_line(says)}") for says, odds in t.evidence]
        if t.question:
            facts.append(("asked", safe.one_line(t.question, 2_000)))
        for name, value in facts:
            out.print(Text.assemble((f"  {name:<15}", "dim"), value), soft_wrap=True)
        if t.turns:
            out.print()
            out.print(_turns(t))
        self._claims(t)
        for note in filter(None, (NOTES[t.kind], t.only)):
            out.print(Text(note, style="yellow"), soft_wrap=True)
        if t.totals.all:
            out.print(self._legend(), soft_wrap=True)
        for block in t.blocks:
            self._block(block)

    def _claims(self, t: Transcript) -> None:
        """Each claim with what was measured; the same one once."""
        if not t.claims:
            return
        of = counted(t.claims)
        told = f"{of.supported} supported, {of.contradicted} contradicted, {of.not_measurable} not measurable"
        self._out.print(Text(f"claims, held against the spectrum: {told}", style="bold"), soft_wrap=True)
        lines = dict.fromkeys((c.turn, c.state, safe.one_line(c.text, 160), c.why) for c in t.claims)
        for turn, state, text, why in lines:
            state_text = Text(f"{state:<15}", style=_STATES[state])
            self._out.print(
                Text.assemble(f"  {turn} ", state_text, f"{text}  ", (safe.one_line(why, 160), "dim")), soft_wrap=True
            )

    def _legend(self) -> Text:
        if self._colour == "logprob":
            parts = [(f" {name} ", style) for name, style in zip(scale.step_names(), self._steps, strict=True)]
            return Text.assemble(("sampled tokens by probability: ", "dim"), *parts)
        if self._colour == "weight":
            names = (("learns", "learns"), ("context", "context"), ("left_out", "behind the last turn: left out"))
            parts = [(f" {name} ", _WEIGHTS[key]) for key, name in names]
            return Text.assemble(("tokens by weight: ", "dim"), *parts)
        parts = [(f" {name} ", style) for name, style in _ROLES.items()]
        return Text.assemble(("tokens by role: ", "dim"), *parts, ("(every other token is underlined)", "dim"))

    def _block(self, block: Block) -> None:
        out = self._out
        out.print()
        title = f"── {block_line(block)} "
        rule = "─" * max(0, min(out.width, 120) - len(title))
        out.print(Text(title + rule, style=_HEADS[block.role]), soft_wrap=True)
        text = Text()
        for part in block.parts:
            if isinstance(part, Run):
                self._run(text, part)
                continue
            if text:
                out.print(_closed(text), soft_wrap=True, end="")
                text = Text()
            self._picture(part)
        if text:
            out.print(_closed(text), soft_wrap=True, end="")

    def _run(self, text: Text, run: Run) -> None:
        if run.words:
            for shown in safe.shown(run.words):
                self._shown(text, shown, _ROLES[run.role])
            return
        for n, token in enumerate(_together(run)):
            style = self._style(run, token)
            if n % 2:
                style += _UNDERLINED
            for shown in safe.shown(token.piece):
                self._shown(text, shown, style)

    def _style(self, run: Run, token: Token) -> Style:
        if self._colour == "weight":
            return _WEIGHTS[run.weight]
        if self._colour == "logprob":
            return _MARK if token.logprob is None else self._steps[scale.step(token.logprob)]
        style = _ROLES[run.role]
        return style + Style(bold=True) if token.special else style

    def _shown(self, text: Text, shown: safe.Shown, style: Style) -> None:
        if shown.kind == "newline":
            text.append("↵" if self._unicode else "\\n", style + _MARK)
            text.append("\n")
        elif shown.kind == "tab":
            text.append("→" if self._unicode else "\\t", style + _MARK)
            text.append("\t")
        else:
            text.append(shown.text, style + _ESCAPED[self._colour] if shown.kind == "escape" else style)

    def _picture(self, picture: Picture) -> None:
        found = self._gallery.find(picture, draw=False)
        mark = "  ▣ " if self._unicode else "  # "
        self._out.print(Text.assemble((mark, "bold"), (picture_line(picture, found), "dim")), soft_wrap=True)
        for drawn in self._sketch(found):
            self._out.print(drawn, soft_wrap=True)

    def _sketch(self, found: Found) -> Iterator[Text]:
        if found.view is None or not self._unicode:
            return
        width = max(20, min(72, self._out.width - 8))
        lines = sketch(found.view, width)
        for line in lines:
            yield Text("    " + line, style="cyan")
        if lines:
            low, high = (f"{found.view.wavelength[i]:.0f}" for i in (0, -1))
            yield Text(f"    {low}{f'{high} Å':>{width - len(low)}}", style="dim")


def _together(run: Run) -> Iterator[Token]:
    """Tokens of the prompt that share a character as one; a sampled token has a log-prob of its own."""
    for unit in units(run.tokens):
        if len(unit) == 1 or run.role == "sampled":
            yield from unit
        else:
            yield Token(b"".join(t.piece for t in unit), unit[0].id, None)


def _closed(text: Text) -> Text:
    return text if text.plain.endswith("\n") else text + Text("\n")


def _turns(t: Transcript) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("turn", justify="right")
    table.add_column("action", overflow="fold")
    table.add_column("came back", no_wrap=True)
    columns = counted_columns(t)
    for name in (*columns, "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for turn, *numbers in zip(t.turns, *columns.values(), strict=True):
        action = Text(safe.one_line(turn.action, 200))
        if turn.kind in ("malformed", "truncated"):
            action = Text.assemble((f"{turn.malformed or turn.kind}: ", "red"), action)
        came = Text(safe.one_line(turn.observation), style="" if turn.observation == "view" else "yellow")
        table.add_row(str(turn.number), action, came, *numbers, "" if turn.seconds is None else f"{turn.seconds:.2f}")
    return table
