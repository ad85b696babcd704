"""Stored letters: what they hold, what stands for others, and what is cut."""

from __future__ import annotations

import numpy as np

from specvet.views.compact_glyphs import CHARACTERS, HEIGHT, UNKNOWN, drawn_glyphs, fitted, text_ink, text_width


def test_every_character_has_ink_of_its_own() -> None:
    inks = {c: text_ink(c) for c in CHARACTERS}
    assert all(ink.shape[0] == HEIGHT and ink.dtype == np.uint8 for ink in inks.values())
    assert all(ink.max() > 100 for c, ink in inks.items() if c != " ")
    assert len({(ink.shape, ink.tobytes()) for ink in inks.values()}) == len(CHARACTERS)
    assert {"Å", "×", "−", "α", "…"} <= set(CHARACTERS)


def test_digits_are_equally_wide_so_that_labels_align() -> None:
    assert {text_width(digit) for digit in "0123456789"} == {7}
    assert text_width("12.5") == text_ink("12.5").shape[1]


def test_a_letter_that_is_not_stored_is_a_box() -> None:
    np.testing.assert_array_equal(text_ink("a中b"), text_ink(f"a{UNKNOWN}b"))


def test_ink_is_read_only_since_it_is_shared() -> None:
    assert not text_ink("4000").flags.writeable
    assert text_ink("").shape == (HEIGHT, 0)


def test_a_text_that_is_too_wide_loses_its_middle() -> None:
    text = "spec-55859-F5902_sp01-001.fits.gz"
    assert fitted(text, 400) == text
    cut = fitted(text, 120)
    assert text_width(cut) <= 120 < text_width(text)
    start, end = cut.split("…")
    assert text.startswith(start)
    assert text.endswith(end)
    assert fitted("two\nlines", 400) == "two lines"
    assert fitted(text, 3) == fitted("", 100) == ""
    assert text_width(fitted("x" * 100_000, 200)) <= 200


def test_the_stored_letters_are_what_the_font_of_matplotlib_looks_like() -> None:
    drawn = drawn_glyphs()
    atlas = np.concatenate([text_ink(c) for c in CHARACTERS], axis=1)
    assert drawn["atlas"].shape == atlas.shape
    # Another FreeType may hint a little differently; the letters are the same.
    assert np.mean(np.abs(drawn["atlas"].astype(int) - atlas) > 64) < 0.1
