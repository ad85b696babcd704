"""What a kept trajectory says: the chat format's own texts, and the probability that an answer was given with."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.agent.readings import p_yes_of, said_of, texts_of
from specvet.chat import Ledger, LedgerError, ToolCall
from specvet.chat.formats import FAMILIES, chat_format
from specvet.chat.messages import Image, assistant, system, tool, user
from specvet.chat.tiny import tiny_vocabulary
from specvet.evaluation.outcomes import outcome_of
from specvet.evaluation.rows import read_rows, write_rows
from specvet.evaluation.rules import rule
from specvet.records import Decision
from specvet.records.schema import Answer, Question, SpectrumRef, TrajectoryRecord, Verdict
from specvet.tasks.turns import THOUGHT

FORMATS = {name: chat_format(name, tiny_vocabulary(name)) for name in FAMILIES}
YES = r"<answer>\boxed{YES} It is so.</answer>"


def kept(ledger: dict[str, Any] | None, p_yes: float | None = None) -> TrajectoryRecord:
    """A record around a ledger."""
    return TrajectoryRecord(
        question=Question(id="q", task="cv", spectrum=SpectrumRef(path="a.fits"), answer="YES"),
        policy="made for a test",
        task_hash="",
        spectrum_hash=None,
        opening=None,
        turns=(),
        stop="answered",  # type: ignore[arg-type]
        verdict=Verdict(answer=Answer.YES, p_yes=p_yes, reason=""),
        seconds=0.0,
        started="",
        ledger=ledger,
    )


def picture() -> Image:
    from specvet.views.png import encode_png

    return Image.of(encode_png(np.full((56, 56, 3), 200, np.uint8)))


def talked(name: str, *turns: tuple[list[int], str]) -> Ledger:
    """An opening with a picture, then sampled turns (ids, stop) with a tool's picture between them."""
    format = FORMATS[name]
    ledger = format.new_ledger()
    opening = [system("Look."), user(picture(), "Is it? <|im_start|>assistant\nNo.")]
    example = [user("An example."), assistant("<answer>\\boxed{NO} No.</answer>", "Hm."), user(picture(), "Is it?")]
    ledger.append(format.opening([*opening, *example]))
    for i, (ids, stop) in enumerate(turns):
        if i:
            ledger.append(format.observation(ledger, tool("Here.", picture())))
        logprobs = -np.random.default_rng(i).random(len(ids)).astype(np.float32)
        ledger.append_sampled(ids, logprobs, stop)  # type: ignore[arg-type]
    return ledger


def read_back(ledger: Ledger, name: str) -> TrajectoryRecord:
    """As it comes from a file."""
    record = kept(ledger.to_dict(FORMATS[name].vocabulary))
    return TrajectoryRecord.model_validate_json(record.model_dump_json())


@pytest.mark.parametrize("name", FAMILIES)
def test_texts_are_those_of_the_chat_format(name: str) -> None:
    format = FORMATS[name]
    encode, (end, other_end) = format.vocabulary.encode, format.stop_ids
    call = format.demonstration(assistant("", "Lóok.", [ToolCall("zoom", {"label": "Hα β"})]))
    cut_character = [*encode("Hm, H"), *format.vocabulary.encode("α")[:1]]
    bytes_of_a_character = list("α".encode())  # the first 256 ids are single bytes
    turns: list[tuple[list[int], str]] = [
        (call, "end"),
        ([*encode(YES), other_end], "end"),
        (encode("The end token stayed at the service."), "end"),
        ([*encode("It ends exactly at its limit."), end], "length"),
        (cut_character, "length"),
        ([*encode("before "), *bytes_of_a_character, *encode(" after"), end], "end"),
        ([0xFF, 0xFE, end], "end"),
        ([end], "end"),
        ([end, end], "end"),
        ([*encode("Hm."), 70_000_000], "length"),
    ]
    record = read_back(talked(name, *turns), name)
    assert texts_of(record) == tuple(format.turn_text(ids) for ids, _ in turns)
    assert [turn.text for turn in said_of(record) or ()] == list(texts_of(record) or ())


@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_and_log_probs_of_a_turn_are_those_of_its_ids(name: str) -> None:
    format = FORMATS[name]
    ledger = talked(name, (format.demonstration(assistant(YES, "Hα.")), "end"))
    (said,) = said_of(read_back(ledger, name)) or ()
    (sampled,) = ledger.sampled
    assert said.pieces == tuple(format.vocabulary.token_bytes(i) for i in sampled.ids)
    assert np.array_equal(np.array(said.logprobs, dtype=np.float32), sampled.logprobs)


def test_words_of_a_server_are_read_as_they_are_and_have_no_probability() -> None:
    from specvet.chat import WordsSegment

    ledger = Ledger.of_text("openai")
    words = [("system", "Look."), ("user", "Is it?"), ("assistant", f"<think>Hm.{THOUGHT}{YES}"), ("tool", "Here.")]
    ledger.append(WordsSegment(text, role) for role, text in words)  # type: ignore[arg-type]
    record = kept(ledger.to_dict())
    assert texts_of(record) == (f"<think>Hm.{THOUGHT}{YES}",)
    assert p_yes_of(record) is None


def test_a_policy_that_measures_says_its_own_probability_and_no_texts() -> None:
    record = kept(None, p_yes=0.25)
    assert texts_of(record) is None
    assert p_yes_of(record) == 0.25
    assert p_yes_of(kept(None)) is None


def spelled(*pieces: str | bytes, name: str = "qwen3_vl", end: bool = True, logprobs: bool = True) -> TrajectoryRecord:
    """A turn of these tokens, in a ledger as it is kept: whoever reads it has no vocabulary. The n-th token's log-prob
    is −(n + 1) / 8, exact in float32."""
    cut = [piece.encode() if isinstance(piece, str) else piece for piece in pieces] + [b"<|im_end|>"] * end
    frame = "<|im_start|>assistant\n" + FORMATS[name].prefix
    segments = [
        {"role": "frame", "ids": [1], "text": frame, "lengths": [len(frame)]},
        {
            "sampled": list(range(len(cut))),
            "logprobs": [-(n + 1) / 8 for n in range(len(cut))] if logprobs else None,
            "stop": "end" if end else "length",
            "text": b"".join(cut).decode(),
            "lengths": [len(piece) for piece in cut],
        },
    ]
    ledger = {"version": 1, "kind": "tokens", "format": name, "vocabulary": "v", "segments": segments}
    Ledger.from_dict(ledger)
    return kept(ledger)


THINKS = "<think>Hα.</think>"


@pytest.mark.parametrize(
    ("pieces", "yes", "spelling"),
    [
        ([THINKS, "<answer>\\boxed{", "YES", "} It is.</answer>"], True, [2]),
        ([THINKS, "<answer>\\boxed{", "NO", "} It is not.</answer>"], False, [2]),
        ([THINKS, "<answer>\\boxed{", "Y", "E", "S", "}</answer>"], True, [2, 3, 4]),
        ([THINKS, "<answer>\\boxed", "{YES", "}</answer>"], True, [2]),
        ([THINKS, "<answer>\\boxed{YE", "S}</answer>"], True, [1, 2]),
        ([THINKS, "<answer>\\boxed{ ", " yes", " }</answer>"], True, [2]),
        ([THINKS, "<answer>\\boxed{ ", "no", "\n}</answer>"], False, [2]),
        # Words before the box do not shift it, however many bytes their characters have.
        ([THINKS, "<answer>", "Hα ☉ 𝛌 ", "\\boxed{", "NO", "}</answer>"], False, [4]),
        # A thought's box is no answer …
        (["<think>\\boxed{", "NO", "}</think>", "<answer>\\boxed{", "YES", "}</answer>"], True, [4]),
        # … of two in a block the first decided, and the second repeats it …
        ([THINKS, "<answer>\\boxed{", "YES", "} so \\boxed{", "YES", "}</answer>"], True, [2]),
        # … and the last block is the answer.
        ([THINKS, "<answer>\\boxed{", "NO", "}</answer><answer>\\boxed{", "YES", "}</answer>"], True, [4]),
        ([THINKS, "<answer>\\boxed{", "YES", "}</answer> not \\boxed{", "NO", "}"], True, [2]),
        ([THINKS, "Perhaps \\boxed{", "NO", "}. <answer>\\boxed{", "YES", "}</answer>"], True, [4]),
        # Without a block the box alone.
        ([THINKS, "\\boxed{", "NO", "}"], False, [2]),
        ([THINKS, "<answer>\\boxed{", "NO", "} it is"], False, [2]),
    ],
)
def test_p_yes_is_the_probability_of_the_tokens_that_spell_the_answer(
    pieces: list[str], yes: bool, spelling: list[int]
) -> None:
    p = math.exp(-sum(n + 1 for n in spelling) / 8)
    record = spelled(*pieces)
    assert p_yes_of(record) == pytest.approx(p if yes else 1 - p, rel=1e-15)
    read = rule("strict").read(texts_of(record) or ())
    assert read in (None, "YES" if yes else "NO")


def test_p_yes_of_bytes_split_over_tokens_that_cut_characters() -> None:
    alpha = "α".encode()
    record = spelled(
        THINKS, alpha[:1], alpha[1:] + b"<answer>\\boxed{Y", "ES", b"}" + alpha[:1], alpha[1:] + b"</answer>"
    )
    assert p_yes_of(record) == pytest.approx(math.exp(-(3 + 4) / 8), rel=1e-15)


@pytest.mark.parametrize(
    "pieces",
    [
        [THINKS, "<answer>YES</answer>"],
        [THINKS, "<answer>\\boxed{MAYBE}</answer>"],
        [THINKS, "<answer>\\boxed{YES"],
        ["<think>It is \\boxed{", "YES", "}"],
        ["<think>It is <answer>\\boxed{", "YES", "}</answer>"],
        ["<think>\\boxed{YES}</think>", "nothing"],
        [THINKS, '<tool_call>{"name": "zoom", "arguments": {"label": "\\\\boxed{', "YES", '}"}}</tool_call>'],
        [THINKS, "<tool_call><function=zoom><parameter=label>\\boxed{", "YES", "}</parameter></function></tool_call>"],
        [THINKS, "<answer>\\boxed{", "YES", "}</answer><|im_start|>user"],
        [THINKS + "<think>again \\boxed{", "YES", "}"],
    ],
)
def test_no_answer_has_no_probability(pieces: list[str]) -> None:
    assert p_yes_of(spelled(*pieces)) is None


def test_a_box_in_a_thought_that_the_program_opened_and_nobody_closed_is_no_answer() -> None:
    said = ["It is \\boxed{", "YES", "}."]
    assert p_yes_of(spelled(*said, name="qwen3_5", end=False)) is None
    assert p_yes_of(spelled(*said, name="qwen3_vl", end=False)) is not None  # this one opens no thought
    assert p_yes_of(spelled("Hα.</think>", *said, name="qwen3_5")) == pytest.approx(math.exp(-3 / 8))


def test_only_the_last_turn_gives_the_probability_and_a_demonstration_gives_none() -> None:
    first = spelled(THINKS, "<answer>\\boxed{", "YES", "}</answer>")
    assert first.ledger is not None
    call = spelled(THINKS, "<tool_call>{}</tool_call>").ledger
    assert call is not None
    both = kept({**first.ledger, "segments": [*first.ledger["segments"], *call["segments"]]})
    assert len(texts_of(both) or ()) == 2
    assert p_yes_of(both) is None
    assert p_yes_of(spelled(THINKS, "<answer>\\boxed{", "YES", "}</answer>", logprobs=False)) is None


def test_log_probs_that_round_above_certainty_give_certainty() -> None:
    record = spelled("\\boxed{", "YES", "}")
    assert record.ledger is not None
    record.ledger["segments"][1]["logprobs"] = [-1.0, 0.0, -1.0, -1.0]
    assert p_yes_of(record) == 1.0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda ledger: ledger.pop("segments"),
        lambda ledger: ledger["segments"][1].pop("lengths"),
        lambda ledger: ledger["segments"][1].pop("logprobs"),
        lambda ledger: ledger["segments"][1].update(logprobs=[None] * 4),
        lambda ledger: ledger["segments"][1].update(text="short"),
        lambda ledger: ledger.update(segments=[None]),
        lambda ledger: ledger.update(segments=7),
    ],
)
def test_a_ledger_that_cannot_be_read_is_named_as_one(spoil: Any) -> None:
    record = spelled("\\boxed{", "YES", "}")
    assert record.ledger is not None
    spoil(record.ledger)
    with pytest.raises(LedgerError):
        p_yes_of(record)


def test_rows_give_the_same_outcome_to_the_last_bit(tmp_path: Path) -> None:
    format = FORMATS["qwen3_5"]
    turn = format.demonstration(assistant(r"<answer>\boxed{NO} since Hα is not there.</answer>", "Look."))
    ledger = talked("qwen3_5", (turn, "end"))
    record = kept(ledger.to_dict(format.vocabulary))
    decision = Decision(file="a.fits", row=0, task="cv", id="q", verdict=record.verdict, trajectory=record)
    write_rows(tmp_path / "rows.parquet", [(0, "q", decision)])
    ((place, id, back),) = read_rows(tmp_path / "rows.parquet")
    assert (place, id, back) == (0, "q", decision)
    before, after = (outcome_of(record.question, d, rule("strict")) for d in (decision, back))
    assert before == after
    assert before.said == "NO"
    assert 0 < (before.p_yes or 0) < 1
    assert json.loads(back.model_dump_json()) == json.loads(decision.model_dump_json())


def test_what_the_tiny_torch_policy_samples_reads_as_its_format_says(policy_of: Any) -> None:
    from torch_lab import observe, opening, run, say

    from specvet.policies.tokens import SamplingParams

    policy = policy_of("qwen3_5")

    async def two_turns() -> Ledger:
        ledger = opening(policy)
        for turn in range(2):
            if turn:
                observe(policy, ledger)
            params = SamplingParams(max_tokens=16, temperature=1.0, seed=turn)
            say(ledger, (await policy.sample(ledger, 1, params)).sequences[0])
        return ledger

    ledger = run(two_turns, policy)
    record = kept(json.loads(json.dumps(ledger.to_dict(policy.format.vocabulary))))
    assert texts_of(record) == tuple(policy.format.turn_text(said.ids) for said in ledger.sampled)
    assert all(text.startswith("<think>\n") and "\ufffd" in text for text in texts_of(record) or ())  # random bytes


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_5"])
def test_p_yes_is_the_softmax_of_a_stock_forward(name: str, policy_of: Any) -> None:
    """A real tiny model is made to say an answer; the policy's log-probs of it are recorded, and the oracle is one
    forward of the stock module over the whole conversation."""
    import torch
    from torch_lab import opening, stock_inputs

    policy = policy_of(name)
    vocabulary = policy.format.vocabulary
    for word in ("YES", "NO"):
        turn = policy.format.demonstration(assistant(rf"<answer>\boxed{{{word}}} It is so.</answer>", "Hα."))
        ledger = opening(policy)
        start = ledger.n_tokens
        ledger.append_sampled(turn, [-1.0] * len(turn), "end")

        async def recorded(ledger: Ledger = ledger) -> Any:
            return await asyncio.to_thread(policy.recomputed_logprobs, ledger)

        told = opening(policy)
        told.append_sampled(turn, asyncio.run(recorded()), "end")
        with torch.no_grad():
            logits = policy.model.module(**stock_inputs(policy, [ledger]), use_cache=False).logits[0]
        shares = torch.softmax(logits.double(), dim=-1)
        places = [i for i, id in enumerate(turn) if vocabulary.token_bytes(id) == word.encode()]
        assert len(places) == 1  # one token spells it
        p = float(shares[start + places[0] - 1, turn[places[0]]])
        assert p_yes_of(kept(told.to_dict(vocabulary))) == pytest.approx(p if word == "YES" else 1 - p, rel=1e-4)
    asyncio.run(policy.aclose())


@pytest.fixture
def policy_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a tiny random torch policy of a family."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "policies" / "torch"))
    from torch_lab import tiny

    return tiny
