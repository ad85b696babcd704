"""Transcripts: what was said in its order, token by token, with pictures where they were seen; nothing acts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from transcript_lab import CV, HOSTILE, call, decided, logprobs, star, write_run, write_star

from specvet.agent import run_agent
from specvet.chat import Ledger, LedgerError
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies import policy
from specvet.records import Decision, RunFolder
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import read
from specvet.tools import ZoomTool
from specvet.vetting.transcript import Block, Gallery, Picture, Run, Token, blocks_of, page, transcript
from specvet.vetting.transcript.blocks import units
from specvet.vetting.transcript.raw import raw_text
from specvet.vetting.transcript.safe import plain

VOID = {"meta", "input", "br", "img", "wbr"}


class Page(HTMLParser):
    """The elements of a page, well nested, with what stands in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[tuple[str, str]] = []
        """(classes of all open elements, text) inside the conversation."""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        classes = " ".join(str(a.get("class") or "") for _, a in self.open)
        if "words" in classes.split() and self.open[-1][0] not in ("figcaption", "p", "figure"):
            self.said.append((classes, data))

    @property
    def words(self) -> str:
        return "".join(text for _, text in self.said)

    def all(self, tag: str, name: str = "") -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag and (not name or name in str(a.get("class") or "").split())]


def shown(folder: Path, decision: Decision, colour: str = "role", turns: list[int] | None = None) -> tuple[str, Page]:
    with RunFolder.read(folder) as run:
        text = page(transcript(1, decision, CV, turns), Gallery(run, decision), colour)
    return text, Page(text)


def roles(blocks: list[Block]) -> list[tuple[int, str]]:
    return [(b.turn, b.role) for b in blocks]


def test_blocks_follow_the_conversation_and_hold_every_token_of_the_ledger() -> None:
    decision = decided(star("s.txt"), [(6400, 6700), (1, 2)], behind=True)
    record = decision.trajectory
    assert record is not None
    assert record.ledger is not None
    blocks = blocks_of(record)
    assert roles(blocks) == [
        (0, "system"), (0, "user"), (1, "sampled"), (1, "tool"), (2, "sampled"), (2, "tool"), (3, "sampled"),
        (3, "user"), (3, "frame"),
    ]  # fmt: skip
    ledger = Ledger.from_dict(record.ledger)
    place = 0
    for part in (p for b in blocks for p in b.parts):
        assert part.start == place
        place += part.n_tokens if isinstance(part, Picture) else len(part.tokens)
    assert place == ledger.n_tokens == sum(b.n_tokens for b in blocks)
    ids = [t.id for b in blocks for p in b.parts if isinstance(p, Run) for t in p.tokens]
    assert ids == [i for s in ledger if not hasattr(s, "sha256") for i in s.ids]  # type: ignore[union-attr]


def test_only_sampled_tokens_learn_and_what_follows_the_last_turn_is_left_out() -> None:
    decision = decided(star("s.txt"), behind=True)
    assert decision.trajectory is not None
    runs = [p for b in blocks_of(decision.trajectory) for p in b.parts if isinstance(p, Run)]
    assert {(r.role, r.weight) for r in runs if r.weight == "learns"} == {("sampled", "learns")}
    last = max(i for i, r in enumerate(runs) if r.role == "sampled")
    assert all(r.weight == "left_out" for r in runs[last + 1 :])
    assert not any(r.weight == "left_out" for r in runs[: last + 1])
    t = transcript(1, decision, CV)
    assert t.totals.left_out == sum(len(r.tokens) for r in runs[last + 1 :]) > 0


def test_totals_are_those_of_the_ledger() -> None:
    decision = decided(star("s.txt"), [(6400, 6700)])
    record = decision.trajectory
    assert record is not None
    assert record.ledger is not None
    assert record.tokens is not None
    ledger = Ledger.from_dict(record.ledger)
    t = transcript(1, decision, CV)
    assert (t.totals.all, t.totals.sampled) == (ledger.n_tokens, ledger.n_sampled)
    assert t.totals.image == sum(i.rows * i.columns for i in ledger.images)
    assert t.totals.pictures == 2
    assert (t.totals.prompts, t.totals.cached) == (record.tokens.prompt, record.tokens.cached)
    expected = sum(sum(logprobs(s.n_tokens, n)) for n, s in enumerate(ledger.sampled))
    assert t.totals.logprob == pytest.approx(expected, rel=1e-6)
    assert [(x.number, x.kind, x.observation, x.tokens, x.seconds) for x in t.turns] == [
        (1, "call", "view", ledger.sampled[0].n_tokens, 0.5), (2, "answer", "", ledger.sampled[1].n_tokens, 1.5)
    ]  # fmt: skip
    assert dict(t.facts)["reward"] == "answer 1, format 0.5, total 1.5"


def test_a_page_says_every_word_once_in_order(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [(6400, 6700)])
    assert decision.trajectory is not None
    _, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    runs = [p for b in blocks_of(decision.trajectory) for p in b.parts if isinstance(p, Run)]
    exact = "".join(
        "".join(plain(t.piece) for t in r.tokens) if r.role == "sampled" else plain(b"".join(t.piece for t in r.tokens))
        for r in runs
    )
    assert "4000.0-9000.0 Å" in exact  # of two tokens here: the prompt shows whole characters
    assert seen.words.replace("\n", "") == exact.replace("\n", "")
    assert seen.words.count("\n") == exact.count("\n") == len(seen.all("b")) - 1  # the chip of the verdict is a <b> too


def test_tokens_carry_role_weight_and_logprob(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [(6400, 6700)])
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision, "logprob")
    assert decision.trajectory is not None
    runs = [p for b in blocks_of(decision.trajectory) for p in b.parts if isinstance(p, Run)]
    tokens = [a for t, a in seen.tags if t in ("i", "u")]
    shown_units = [list(units(r.tokens)) if r.role != "sampled" else [[t] for t in r.tokens] for r in runs]
    assert len(tokens) == sum(map(len, shown_units)) == sum(len(r.tokens) for r in runs) - 3  # Å, Å and α
    tags = [t for t, _ in seen.tags if t in ("i", "u")]
    flat = [u for of_run in shown_units for u in of_run]
    for of_run in shown_units:
        assert tags[: len(of_run)] == ["iu"[n % 2] for n in range(len(of_run))]
        del tags[: len(of_run)]
    steps = {-0.001: 0, -0.05: 1, -0.3: 2, -1.0: 3, -2.0: 4, -3.5: 5, -5.5: 6, -9.0: 7}
    for attributes, (token, *more) in zip(tokens, flat, strict=True):
        if token.logprob is None:
            joined = [f"\\x{t.piece.hex()}" for t in (token, *more)]
            assert attributes.get("title") == (f"{len(joined)} tokens: {' '.join(joined)}" if more else None)
            continue
        told = f"{token.logprob:.3f}".replace("-", "−")
        assert str(attributes["title"]).startswith(f"log p {told} (")
        assert re.search(rf"id {token.id}(, ends [αÅ])?$", str(attributes["title"]))
        if round(token.logprob, 3) in steps:
            assert f"l{steps[round(token.logprob, 3)]}" in str(attributes["class"]).split()
    assert [a.get("checked", "no") for a in seen.all("input")] == ["no", "no", None, None]  # log-prob, and token ends
    assert {c for c, _ in seen.said if "sampled w" in c}
    assert not [c for c, _ in seen.said if re.search(r"(system|user|tool|frame) w\b", c)]
    assert "by-logprob:checked" in text


def test_tags_of_one_token_stand_out_and_spelt_ones_do_not() -> None:
    decision = decided(star("s.txt"), [], answer="</think>\n\n<answer>\\boxed{YES}</answer>")
    assert decision.trajectory is not None
    runs = [p for b in blocks_of(decision.trajectory) for p in b.parts if isinstance(p, Run)]
    special = {t.piece for r in runs for t in r.tokens if t.special}
    assert special == {
        b"<|im_start|>", b"<|im_end|>", b"<think>", b"</think>", b"<|vision_start|>", b"<|vision_end|>",
        b"<tool_call>", b"</tool_call>",
    }  # fmt: skip
    assert not any(Token(piece, 1, None).special for piece in (b"<|im", b"_end|>", b"<answer>", b"<", b"<|a b|>"))


def test_pictures_stand_where_they_were_seen(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        decision = decided(star("s.txt"), [(6400, 6700), (4800, 4920)], keep=run)
        run.record(decision)
    text, seen = shown(tmp_path / "run", decision)
    assert decision.trajectory is not None
    names = [unescape(str(a["alt"])) for a in seen.all("img")]
    assert names == ["image 1 · the whole spectrum", "image 2 · 6400-6700 Å", "image 3 · 4800-4920 Å"]
    views = [decision.trajectory.opening, *(t.observation for t in decision.trajectory.turns)]
    for attributes, view in zip(seen.all("img"), views, strict=False):
        assert view is not None
        png = base64.b64decode(str(attributes["src"]).removeprefix("data:image/png;base64,"))
        assert hashlib.sha256(png).hexdigest() == view.image
    assert re.search(r"&lt;\|vision_start\|&gt;</[iu]></span><figure><img", text)
    order = [m.start() for m in re.finditer(r"<img |<details open", text)]
    kinds = [text[i : i + 4] for i in order]
    assert kinds == ["<det", "<det", "<img", "<det", "<det", "<img", "<det", "<det", "<img", "<det"]
    assert text.count("kept by the run") == 3


def test_pictures_are_drawn_again_from_the_spectrum_when_they_were_not_kept(tmp_path: Path) -> None:
    spectrum = read(write_star(tmp_path / "s.txt"))[0]
    decision = decided(spectrum, [(6400, 6700)])
    with RunFolder.open(tmp_path / "kept", kind="rollout") as run:
        same = decided(spectrum, [(6400, 6700)], keep=run)
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    kept, _ = shown(tmp_path / "kept", same)
    assert [a["src"] for a in seen.all("img")] == re.findall(r'src="([^"]+)"', kept)
    assert text.count("drawn again: the same bytes") == 2


@pytest.mark.parametrize("style", ["compact", "reference"])
def test_the_style_is_found_by_the_hash_of_the_view(tmp_path: Path, style: str) -> None:
    decision = decided(read(write_star(tmp_path / "s.txt"))[0], [(6400, 6700)], style=style)
    text, _ = shown(write_run(tmp_path / "run", [decision]), decision)
    assert text.count("drawn again: the same bytes") == 2


def test_a_figure_without_the_file_name_over_it_is_drawn_again_without_it(tmp_path: Path) -> None:
    decision = decided(read(write_star(tmp_path / "s.txt"))[0], [(6400, 6700)], title="Spectrum")
    text, _ = shown(write_run(tmp_path / "run", [decision]), decision)
    assert text.count("drawn again: the same bytes") == 2


def test_without_pictures_and_spectrum_a_placeholder_has_window_and_hash(tmp_path: Path) -> None:
    decision = decided(star(str(tmp_path / "gone.txt")), [(6400, 6700)])
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    assert seen.all("img") == []
    assert len(seen.all("figure", "gone")) == 2
    assert decision.trajectory is not None
    assert decision.trajectory.ledger is not None
    for image in Ledger.from_dict(decision.trajectory.ledger).images:
        assert f"sha256 {image.sha256[:12]}" in text
    assert "6400-6700 Å" in text
    assert text.count("the spectrum&#39;s file is not there") == 2


def test_a_spectrum_that_has_changed_is_not_drawn(tmp_path: Path) -> None:
    decision = decided(read(write_star(tmp_path / "s.txt"))[0], [(6400, 6700)])
    write_star(tmp_path / "s.txt", peak=3.0)
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    assert seen.all("img") == []
    assert text.count("does not give the picture that was seen any more") == 2


def test_a_stored_picture_that_was_cut_short_is_drawn_again(tmp_path: Path) -> None:
    spectrum = read(write_star(tmp_path / "s.txt"))[0]
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        decision = decided(spectrum, [], keep=run)
        run.record(decision)
        assert decision.trajectory is not None
        assert decision.trajectory.opening is not None
        path = run.images.path(str(decision.trajectory.opening.image))
    path.write_bytes(path.read_bytes()[:100])
    text, _ = shown(tmp_path / "run", decision)
    assert "drawn again: the same bytes" in text


def test_what_a_model_says_is_never_markup_and_never_acts(tmp_path: Path) -> None:
    hostile = decided(star("s.txt"), [(6400, 6700)], thoughts=[HOSTILE + "\n</think>\n\n"])
    hostile = hostile.model_copy(
        update={
            "id": HOSTILE,
            "warnings": (HOSTILE,),
            "verdict": hostile.verdict.model_copy(update={"reason": HOSTILE, "likelier_class": HOSTILE}),
        }
    )
    text, seen = shown(write_run(tmp_path / "run", []), hostile)
    assert not seen.all("script")
    assert not [a for _, attributes in seen.tags for a in attributes if a.startswith("on") or a == "style"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\xa0\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
    assert "\\x1b[31mred" in text
    assert "\\x0d" in text


def test_the_page_loads_nothing_and_says_so_in_its_policy(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [])
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    policy_text = next(str(a["content"]) for a in seen.all("meta") if a.get("http-equiv"))
    style = text[text.index("<style>") + 7 : text.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy_text.split("; ") == [
        "default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:", "base-uri 'none'", "form-action 'none'"
    ]  # fmt: skip
    assert "http://" not in text
    assert "https://" not in text
    assert not re.search(r"@import|url\(", style.replace("url(#hatch)", ""))
    assert {t for t, _ in seen.tags} & {"script", "link", "iframe", "object", "form"} == set()


def test_a_character_cut_by_tokens_shows_its_bytes(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [], answer="🌟</think>\n\n<answer>\\boxed{YES}</answer>")
    assert decision.trajectory is not None
    record = decision.trajectory
    said = next(b for b in blocks_of(record) if b.role == "sampled").parts[1]
    assert isinstance(said, Run)
    assert [t.piece for t in said.tokens[:4]] == [b"\xf0", b"\x9f", b"\x8c", b"\x9f"]
    assert "🌟" in raw_text(record).decode()
    assert [len(u) for u in units(said.tokens)][:3] == [4, 1, 1]
    text, _ = shown(write_run(tmp_path / "run", [decision]), decision)
    assert re.search(r', ends 🌟"><s>\\x9f</s>', text)


@pytest.mark.parametrize(
    ("pieces", "lengths"),
    [
        ([b"a", b"b"], [1, 1]),
        ([b" \xce", b"\xb1x"], [2]),
        ([b"\xce", b"\xb1\xe2", b"\x82", b"\xac"], [4]),
        ([b"\xff", b"a"], [1, 1]),
        ([b"\xe2", b"a", b"\x82"], [1, 1, 1]),
        ([b"\xf0"] * 20, [1] * 20),
        ([b"\xf0\x9f"], [1]),
        ([], []),
    ],
)
def test_tokens_that_share_a_character_are_told_together(pieces: list[bytes], lengths: list[int]) -> None:
    tokens = [Token(piece, i, None) for i, piece in enumerate(pieces)]
    assert [len(u) for u in units(tokens)] == lengths
    assert [t for u in units(tokens) for t in u] == tokens


def test_a_ledger_of_words_says_that_it_has_no_tokens(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [(6400, 6700)], words=True)
    assert decision.trajectory is not None
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    assert roles(blocks_of(decision.trajectory)) == [
        (0, "system"), (0, "user"), (1, "sampled"), (1, "tool"), (2, "sampled")
    ]  # fmt: skip
    assert "cannot be trained on" in text
    assert not seen.all("input")
    assert call(6400, 6700) in seen.words
    assert len(seen.all("figure")) == 2


def test_a_ledger_without_texts_shows_ids(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [], with_texts=False)
    assert decision.trajectory is not None
    assert decision.trajectory.ledger is not None
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    first = decision.trajectory.ledger["segments"][0]["ids"][0]
    assert seen.words.startswith(f"‹{first}›")
    assert "kept without the texts" in text


def test_a_policy_without_ledger_shows_actions_and_observations(tmp_path: Path) -> None:
    spectrum = read(write_star(tmp_path / "s.txt"))[0]
    question = Question(id="q", task="cv", spectrum=SpectrumRef(path=spectrum.file))
    record = run_agent(question, CV, ZoomTool(spectrum), policy("line-indices"))
    decision = Decision(
        file=spectrum.file, row=0, task="cv", id="s", verdict=record.verdict, trajectory=record, frame="observed"
    )
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision)
    blocks = blocks_of(record)
    assert [b.role for b in blocks] == ["user", *["sampled", "tool"] * record.tool_calls, "sampled"]
    assert len(seen.all("img")) == 1 + record.tool_calls
    assert "drawn again: the same data, window and style" in text
    assert "keeps no ledger" in text
    for turn in record.turns:
        if turn.observation:
            assert turn.observation.text in seen.words
    assert [(e.says, round(e.log_odds, 2)) for e in record.verdict.evidence] == [
        (says, float(odds.replace("−", "-"))) for says, odds in transcript(1, decision, CV).evidence
    ]


def test_turns_are_picked_and_the_totals_stay_those_of_all(tmp_path: Path) -> None:
    decision = decided(star("s.txt"), [(6400, 6700), (4800, 4920)])
    picked, full = transcript(1, decision, CV, [2]), transcript(1, decision, CV)
    assert roles(list(picked.blocks)) == [(2, "sampled"), (2, "tool")]
    assert [t.number for t in picked.turns] == [2]
    assert picked.totals == full.totals
    assert picked.only == "Of the turns 0 to 3, only these are shown: 2."
    text, seen = shown(write_run(tmp_path / "run", [decision]), decision, turns=[2])
    assert "only these are shown: 2." in text
    assert len(seen.all("figure")) == 1
    assert "image 3" in text  # pictures keep their number


def test_a_damaged_ledger_is_an_error_that_says_what_is_wrong() -> None:
    decision = decided(star("s.txt"), [])
    assert decision.trajectory is not None
    broken = json.loads(json.dumps(decision.trajectory.ledger))
    broken["segments"][0]["lengths"][0] += 1
    damaged = decision.trajectory.model_copy(update={"ledger": broken})
    with pytest.raises(LedgerError, match="lengths"):
        blocks_of(damaged)
    del broken["segments"]
    with pytest.raises(LedgerError, match="segments"):
        blocks_of(decision.trajectory.model_copy(update={"ledger": broken}))


def test_the_raw_text_is_what_the_format_rendered() -> None:
    decision = decided(star("s.txt"), [(6400, 6700)])
    record = decision.trajectory
    assert record is not None
    assert record.ledger is not None
    vocabulary = tiny_vocabulary("qwen3_5")
    ledger = Ledger.from_dict(record.ledger)
    pad = vocabulary.need("<|image_pad|>")
    ids: list[int] = []
    for segment in ledger:
        ids += [pad] if hasattr(segment, "sha256") else segment.ids  # type: ignore[union-attr]
    assert raw_text(record) == vocabulary.bytes(ids)
