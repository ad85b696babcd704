"""A transcript in a terminal: colours by role, weight and log-prob, pictures folded to a line, nothing that acts."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.segment import Segment
from transcript_lab import CV, HOSTILE, decided, star, write_run, write_star

from specvet.records import Decision, RunFolder
from specvet.spectra import read
from specvet.vetting.transcript import ColourBy, Gallery, Run, blocks_of, print_transcript, transcript
from specvet.vetting.transcript.scale import DARK, LIGHT
from specvet.vetting.transcript.sketch import sketch
from specvet.views import full_view


def printed(
    folder: Path, decision: Decision, colour: ColourBy = "role", *, dark: bool = True, encoding: str = "utf-8"
) -> tuple[str, list[Segment]]:
    """(text, segments with their styles) as a terminal of 100 columns would get them."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    plain = {"highlight": False, "emoji": False, "markup": False}
    out = Console(file=stream, record=True, width=100, color_system="truecolor", force_terminal=True, **plain)
    with RunFolder.read(folder) as run:
        print_transcript(out, transcript(1, decision, CV), Gallery(run, decision), colour, dark=dark)
    segments = list(out._record_buffer)
    return "".join(s.text for s in segments), segments


def conversation(segments: list[Segment], role: str) -> list[Segment]:
    """What is printed below the heads of blocks of a role."""
    inside, found = False, []
    for segment in segments:
        if segment.text.startswith("── "):
            inside = f" · {role} " in segment.text
        elif inside:
            found.append(segment)
    return found


def test_each_role_has_its_colour_and_tokens_take_turns_at_being_underlined(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [(6400, 6700)])
    _, segments = printed(write_run(tmp_path / "run", [decision]), decision)
    colours = {
        role: {s.style.color.name for s in conversation(segments, role) if s.style and s.style.color}
        for role in ("system", "user", "tool", "sampled")
    }
    assert colours == {"system": {"cyan"}, "user": {"blue"}, "tool": {"magenta"}, "sampled": set()}
    said = conversation(segments, "system")
    words = next(i for i, s in enumerate(said) if s.text == "<|im_start|>")
    assert [bool(s.style and s.style.underline) for s in said[words + 1 : words + 5]] == [False, True, False, True]
    assert all(s.style and s.style.bold for s in segments if s.text == "<|im_end|>")


def test_what_learns_stands_out_and_what_is_left_out_is_struck_through(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [(6400, 6700)], behind=True)
    _, segments = printed(write_run(tmp_path / "run", [decision]), decision, "weight")
    assert decision.trajectory is not None
    runs = [p for b in blocks_of(decision.trajectory) for p in b.parts if isinstance(p, Run)]
    learnt = "".join(s.text for s in segments if s.style and s.style.bgcolor and s.text != " learns ")
    expected = b"".join(t.piece for r in runs if r.weight == "learns" for t in r.tokens)
    assert len(learnt.replace("↵", "")) >= len(expected.decode().replace("\n", ""))
    assert learnt.count("<|im_end|>") == 2
    assert "<|im_start|>" not in learnt
    struck = "".join(s.text for s in segments if s.style and s.style.strike)
    assert "Look again." in struck
    assert "boxed" not in struck


@pytest.mark.parametrize("dark", [True, False])
def test_log_probs_are_coloured_in_steps_on_the_paper_that_the_terminal_has(tmp_path: Path, dark: bool) -> None:
    decision = decided(star("s.txt"), [(6400, 6700)])
    text, segments = printed(write_run(tmp_path / "run", [decision]), decision, "logprob", dark=dark)
    used = {s.style.bgcolor.name for s in conversation(segments, "sampled") if s.style and s.style.bgcolor}
    assert used == {c.paper for c in (DARK if dark else LIGHT)}
    assert not [s for s in conversation(segments, "tool") if s.style and s.style.bgcolor]
    assert "p ≥ 0.99  p ≥ 0.9  p ≥ 0.5" in text


def test_pictures_are_one_line_with_window_size_tokens_and_hash(tmp_path: Path) -> None:
    decision = decided(read(write_star(tmp_path / "s.txt"))[0], [(6400, 6700)])
    text, _ = printed(write_run(tmp_path / "run", [decision]), decision)
    assert decision.trajectory is not None
    assert decision.trajectory.ledger is not None
    image = next(s["image"] for s in decision.trajectory.ledger["segments"] if "image" in s)
    first, second = (line.strip() for line in text.splitlines() if line.startswith("  ▣ "))
    grid = f"{image['rows']} x {image['columns']} = {image['rows'] * image['columns']} tokens"
    assert first == (
        f"▣ image 1 · the whole spectrum · 2,500 points · {image['width']} x {image['height']} pixels · {grid} · "
        f"sha256 {image['sha256'][:12]} · not kept by the run; --html draws it again"
    )
    assert second.startswith("▣ image 2 · 6400-6700 Å · 150 points · ")
    assert text.count("image_pad") == 0
    assert text.index("<|vision_start|>") < text.index(first) < text.index("<|vision_end|>")


def test_the_sketch_shows_the_line_and_is_left_out_without_unicode_or_spectrum(tmp_path: Path) -> None:
    here = decided(read(write_star(tmp_path / "s.txt"))[0], [])
    gone = decided(star(str(tmp_path / "gone.txt")), [])
    assert re.search("[\u2801-\u28ff]", printed(write_run(tmp_path / "a", [here]), here)[0])
    assert not re.search("[\u2801-\u28ff]", printed(write_run(tmp_path / "b", [gone]), gone)[0])
    ascii_only, _ = printed(tmp_path / "a", here, encoding="ascii")
    assert not re.search("[\u2800-\u28ff▣↵]", ascii_only)
    assert "  # image 1" in ascii_only


def test_a_sketch_is_high_where_the_flux_is() -> None:
    lines = sketch(full_view(star("s.txt")), width=50, height=4)
    assert [len(line) for line in lines] == [50] * 4
    peak = round((6564.6 - 4000) / 5000 * 50)
    top = [i for i, c in enumerate(lines[0]) if c != "\u2800"]
    assert top
    assert all(abs(i - peak) <= 1 for i in top)
    assert all(c != "\u2800" for c in lines[3])


def test_a_sketch_of_next_to_nothing_is_empty_or_flat() -> None:
    flat = star("s.txt").replace(flux=np.ones(2500))
    assert len(set(sketch(full_view(flat), 10, 2)[1])) == 1
    one = star("s.txt")
    assert sketch(full_view(one.replace(wavelength=one.wavelength[:1], flux=one.flux[:1], ivar=None)), 10, 2) == []


@pytest.mark.parametrize("colour", ["role", "weight", "logprob"])
def test_nothing_that_a_model_says_acts_on_the_terminal(tmp_path: Path, colour: ColourBy) -> None:
    hostile = decided(star("s.txt"), [(6400, 6700)], thoughts=[HOSTILE + "\n</think>\n\n"])
    verdict = hostile.verdict.model_copy(update={"reason": HOSTILE})
    hostile = hostile.model_copy(update={"id": HOSTILE, "warnings": (HOSTILE,), "verdict": verdict})
    text, segments = printed(write_run(tmp_path / "run", []), hostile, colour)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\xa0\u200b-\u200f\u202a-\u202e]", text)
    assert not [s for s in segments if s.style and s.style.link]
    assert "\\x1b[31mred" in text


def test_facts_totals_and_turns_stand_above(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [(6400, 6700), (1, 2)], group=4, sample=2)
    text, _ = printed(write_run(tmp_path / "run", [decision]), decision)
    flat = re.sub(" +", " ", text)
    for line in (
        "s · cv YES 0.80", "question q-s", "policy torch", "format qwen3_5", "sample 2, of 4 from 0", "stop answered",
        "reward answer 1, format 0.5, total 1.5", "label YES",
    ):  # fmt: skip
        assert line in flat
    totals = transcript(1, decision, CV).totals
    image = f"{totals.image:,} image in 2 pictures"
    assert f"tokens {totals.all:,} = {totals.text:,} text + {image} + {totals.sampled:,} sampled" in flat
    prefilled = (totals.prompts or 0) - (totals.cached or 0)
    assert f"prompts {totals.prompts:,} tokens in all turns together, {totals.cached:,} of them cached" in flat
    assert f"{prefilled:,} prefilled" in flat
    assert "bad_range" in flat
    assert "answer YES" in flat
