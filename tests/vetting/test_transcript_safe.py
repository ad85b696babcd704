"""What a stranger's text may not do to whoever reads it, and the colours of log-probs."""

from __future__ import annotations

import math
import unicodedata
from itertools import pairwise

import pytest

from specvet.vetting.transcript.safe import one_line, plain, shown
from specvet.vetting.transcript.scale import DARK, LEAST, LIGHT, Colour, probability, step, step_names

HARMLESS = {"\n", "\t", "\u3000", "\ufffc", "\ufffd"}
"""A line break and a tab are shown apart; the wide space of Chinese, and the two letters for what is not there."""


def test_nothing_of_a_category_that_acts_or_hides_gets_through() -> None:
    categories = {"Cc", "Cf", "Zl", "Zp", "Zs", "Cs", "Co"}
    acting = [
        chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) in categories and chr(c) not in HARMLESS | {" "}
    ]
    assert len(acting) > 100_000
    got_through = [f"U+{ord(c):04X}" for c in acting if c in plain(c)]
    assert got_through == []


@pytest.mark.parametrize("letter", ["\u115f", "\u3164", "\uffa0", "\u034f", "\ufe0f", "\U000e0101", "\u180b"])
def test_what_is_drawn_as_nothing_is_spelt_out(letter: str) -> None:
    assert plain(f"a{letter}b") == f"a\\{f'u{ord(letter):04x}' if ord(letter) < 0x10000 else f'U{ord(letter):08x}'}b"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2J\x1b]0;x\x07", "\\x1b[2J\\x1b]0;x\\x07"),
        ("\x9b31m", "\\u009b31m"),
        ("a\r\nb", "a\\x0d\nb"),
        ("\u202eevil\u202c", "\\u202eevil\\u202c"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ud800 half", "\\ud800 half"),
        ("\udce2 half", "\\udce2 half"),
        ("Hα 6563 Å · 需要 é 🌟 עברית", "Hα 6563 Å · 需要 é 🌟 עברית"),
        ("e\u0301", "e\u0301"),
        ("Z" + "\u0301" * 5, "Z" + "\\u0301" * 5),
    ],
)
def test_words_show_as_python_writes_them(text: str, seen: str) -> None:
    assert plain(text) == seen


@pytest.mark.parametrize(
    ("piece", "seen"),
    [
        (b"\xf0\x9f", "\\xf0\\x9f"),
        (b"a\xe2\x82", "a\\xe2\\x82"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("🌟".encode(), "🌟"),
        ("\u202e".encode(), "\\u202e"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_bytes_that_are_no_character_show_as_hexadecimal(piece: bytes, seen: str) -> None:
    assert plain(piece) == seen


def test_line_breaks_and_tabs_stay_apart() -> None:
    assert shown("a\n\n\tb\x00") == [
        ("text", "a"), ("newline", "\n"), ("newline", "\n"), ("tab", "\t"), ("text", "b"), ("escape", "\\x00")
    ]  # fmt: skip


def test_one_line_has_no_breaks_and_says_where_it_was_cut() -> None:
    assert one_line("a\n b\t\x1bc") == "a b \\x1bc"
    assert one_line("abcdef", 4) == "abc…"


def test_steps_follow_probability() -> None:
    assert [step(math.log(p)) for p in (1, 0.995, 0.95, 0.6, 0.3, 0.1, 0.02, 0.002, 1e-9)] == [
        0,
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]
    assert step(0.0005) == 0  # a log-prob may be a little above 0 by rounding
    assert len(step_names()) == len(LEAST) + 1 == len(LIGHT) + 1 == len(DARK) + 1


@pytest.mark.parametrize(
    ("logprob", "text"),
    [(0.0, ">99.9 %"), (math.log(0.29), "29 %"), (math.log(0.0312), "3.1 %"), (-7.6, "0.05 %"), (-20.0, "<0.01 %")],
)
def test_a_probability_is_never_a_round_none_or_all(logprob: float, text: str) -> None:
    assert probability(logprob) == text


_SEEN_BY = {
    # Machado, Oliveira and Fernandes 2009, full severity, on linear RGB.
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def _luminance(colour: str, eyes: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    seen = [min(1.0, max(0.0, sum(m * v for m, v in zip(row, linear, strict=True)))) for row in _SEEN_BY[eyes]]
    return 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]


@pytest.mark.parametrize("eyes", list(_SEEN_BY))
@pytest.mark.parametrize(("colours", "paper"), [(LIGHT, "#ffffff"), (DARK, "#14171b")])
def test_each_step_is_farther_from_the_paper_whatever_colours_one_sees(
    colours: tuple[Colour, ...], paper: str, eyes: str
) -> None:
    lights = [_luminance(c, eyes) for c in (paper, *(c.paper for c in colours))]
    steps = [b - a for a, b in pairwise(lights)]
    assert all(s < 0 for s in steps) if lights[0] > 0.5 else all(s > 0 for s in steps)


@pytest.mark.parametrize("colour", [*LIGHT, *DARK])
def test_words_on_a_step_can_be_read(colour: Colour) -> None:
    light, dark = sorted((_luminance(c, "everybody") for c in colour), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
