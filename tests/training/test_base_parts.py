"""Base training, part by part: what a document becomes, how it travels, and that the network is the stock one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from base_lab import bump_format, small_model, vocabulary  # noqa: E402
from bumps_lab import WHOLE, ZOOM, Bumps, drawn, messages  # noqa: E402

from specvet.chat import LedgerError, ledger_of, sft_datum  # noqa: E402
from specvet.chat.messages import assistant, user  # noqa: E402
from specvet.policies.torch.pixels import PixelRule, patches  # noqa: E402
from specvet.policies.torch.positions import rotary_positions  # noqa: E402
from specvet.training.base.batch import Batch, batch_of  # noqa: E402
from specvet.training.base.config import BaseConfig  # noqa: E402
from specvet.training.base.encoding import Encoded, Encoder, TooLongError, grey, joined, piece_of  # noqa: E402
from specvet.training.base.memory import SLOT_BYTES, Letter, Slots, folder_for  # noqa: E402
from specvet.training.base.network import InkHead, Network, ink  # noqa: E402
from specvet.training.base.source import DemonstrationSource, Document, ReadingSource, source_of  # noqa: E402


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(bump_format(), 1_000)


@pytest.fixture(scope="module")
def encoded(encoder: Encoder) -> list[Encoded]:
    return [encoder(Document(messages(number), ("peak", "call", "seen"))) for number in range(3)]


@pytest.fixture(scope="module")
def batch(encoded: list[Encoded]) -> Batch:
    return batch_of(joined([piece_of(encoded[:2]), piece_of(encoded[2:])], 64), pinned=False)


@pytest.fixture(scope="module")
def model() -> Any:
    return small_model(vocabulary())


def test_a_document_has_the_ids_places_and_targets_of_its_ledger(encoder: Encoder, encoded: list[Encoded]) -> None:
    for number, one in enumerate(encoded):
        ledger = ledger_of(messages(number), (), encoder.format)
        datum = sft_datum(ledger)
        n = datum.n_tokens
        np.testing.assert_array_equal(one.ids, ledger.ids()[:n])
        np.testing.assert_array_equal(one.positions, rotary_positions(list(ledger), 0, n))
        np.testing.assert_array_equal(one.targets, np.where(datum.weights > 0, datum.targets, -1))
        assert sorted(set(one.turns.tolist())) == [-1, 0, 1, 2]
        assert [drawn.shape for _, drawn in one.pictures] == [WHOLE[::-1], ZOOM[::-1]]


def test_a_reading_document_is_encoded_as_its_ledger(encoder: Encoder) -> None:
    for one in ReadingSource(3).documents(0, 2):
        ledger = ledger_of(one.messages, (), encoder.format)
        made = Encoder(encoder.format, 4_000)(one)
        np.testing.assert_array_equal(made.ids, ledger.ids()[: made.ids.size])
        assert len(one.kinds) == made.turns.max() + 1 == len(ledger.sampled)
        images = [image for message in one.messages for image in message.images]
        for (_, pixels), image in zip(made.pictures, images, strict=True):
            np.testing.assert_array_equal(pixels, grey(image))


def test_what_cannot_be_learnt_says_why(encoder: Encoder) -> None:
    with pytest.raises(TooLongError, match="more than 50"):
        Encoder(encoder.format, 50)(Document(messages(0)))
    with pytest.raises(LedgerError, match="nothing to learn"):
        encoder(Document((user("Hello."),)))
    with pytest.raises(ValueError, match="would resize"):
        encoder(Document((user(drawn(5000.0, (230, 170))), assistant("A bump."))))


def test_a_piece_travels_through_a_slot_unchanged(encoded: list[Encoded], tmp_path: Path) -> None:
    piece = piece_of(encoded)
    here = Slots(tmp_path / "slots", create=True)
    layout = here.write(1, piece)
    assert layout is not None
    there = Slots(tmp_path / "slots").read(Letter(1, layout, piece.tokens, piece.kinds, True))
    for name in ("ids", "positions", "targets", "turns"):
        np.testing.assert_array_equal(getattr(there, name), getattr(piece, name))
    for mine, its in zip(piece.shown, there.shown, strict=True):
        np.testing.assert_array_equal(its.pixels, mine.pixels)
        np.testing.assert_array_equal(its.starts, mine.starts)
    assert (there.kinds, there.tokens, there.n) == (piece.kinds, piece.tokens, 3)


def test_a_piece_that_is_too_large_for_a_slot_is_not_written(encoded: list[Encoded], tmp_path: Path) -> None:
    many = piece_of(encoded * (SLOT_BYTES // sum(s.pixels.nbytes for s in piece_of(encoded).shown) + 1))
    assert Slots(tmp_path / "slots", create=True).write(0, many) is None


def test_a_folder_that_needs_more_room_than_there_is_names_the_way_out() -> None:
    with pytest.raises(OSError, match="TMPDIR"):
        folder_for(1 << 60)


def test_the_network_is_the_stock_forward(model: Any, encoded: list[Encoded], batch: Batch, encoder: Encoder) -> None:
    network = Network(model, torch.float32)
    length = batch.ids.shape[1]
    with torch.no_grad():
        states = network.states(batch).view(3, length, -1)
    rule = PixelRule.from_config({}, model.config.vision_config)
    table = torch.from_numpy(rule.table())
    for number, one in enumerate(encoded):
        ledger = ledger_of(messages(number), (), encoder.format)
        pixels = [patches(torch.from_numpy(rule.pixels(s))[None], rule, table) for s in ledger.images]
        grid = torch.tensor([[1, 2 * s.rows, 2 * s.columns] for s in ledger.images])
        ids = torch.from_numpy(one.ids.astype(np.int64))[None]
        with torch.no_grad():
            stock = model.model(
                input_ids=ids,
                pixel_values=torch.cat(pixels),
                image_grid_thw=grid,
                mm_token_type_ids=(ids == model.config.image_token_id).int(),
                attention_mask=torch.ones_like(ids),
            ).last_hidden_state[0]
        assert float((stock - states[number, : one.ids.size]).abs().max()) < 2e-5
        assert float(stock.abs().mean()) > 0.1


def test_the_loss_is_that_of_the_targets_alone_and_reaches_every_weight(model: Any, batch: Batch) -> None:
    network, head = Network(model, torch.float32), InkHead(64)
    out = network.losses(batch, head)
    with torch.no_grad():
        logits = model.lm_head(network.states(batch)[batch.learnt])
        wanted = torch.nn.functional.cross_entropy(logits, batch.targets)
    torch.testing.assert_close(out.loss.detach(), wanted)
    (out.loss + out.ink).backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    model.zero_grad(set_to_none=True)
    assert without == []


def test_the_ink_of_a_line_is_found_where_it_was_drawn() -> None:
    pixels = np.full((1, 168, 224), 255, dtype=np.uint8)
    pixels[0, 60:64, 70:140] = 0  # ten strips, four rows
    pixels[0, 10, :] = 0  # above the plot: letters
    places, there = ink(torch.from_numpy(pixels))
    assert there[0].nonzero().flatten().tolist() == list(range(10, 20))
    height = 4.0 / 167.0  # of a row, from −2 to 2
    assert places[0, 12, 0].item() == pytest.approx(-2.0 + 61.5 * height, abs=1e-5)
    assert places[0, 12, 1].item() == pytest.approx(-2.0 + 60.0 * height, abs=1e-5)


def test_a_model_with_windows_in_its_vision_tower_is_refused(model: Any) -> None:
    model.config.vision_config.fullatt_block_indexes = [1]
    try:
        with pytest.raises(ValueError, match="whole picture"):
            Network(model, torch.float32)
    finally:
        model.config.vision_config.fullatt_block_indexes = [0, 1]


def test_demonstrations_are_gone_through_in_another_order_each_time_and_some_are_held_out(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(drawn(5000.0, WHOLE).png)
    line = (
        '{{"id": "{0}", "messages": [{{"role": "user", "content": [{{"image": "a.png"}}, {{"text": "{0}?"}}]}}, '
        '{{"role": "assistant", "content": [{{"text": "{0}."}}]}}]}}\n'
    )
    (tmp_path / "d.jsonl").write_text("".join(line.format(i) for i in range(40)))
    source = DemonstrationSource(str(tmp_path / "d.jsonl"), seed=1)
    held = [d.messages[-1].text for d in source.held_out(0, 10)]
    first, second = ([d.messages[-1].text for d in source.documents(at, 38)] for at in (0, 38))
    assert len(held) == 2
    assert sorted(first) == sorted(second)
    assert first != second
    assert sorted([*first, *held]) == sorted(f"{i}." for i in range(40))
    assert [d.messages[-1].text for d in source.documents(5, 3)] == first[5:8]
    assert source.rows == 38


def test_without_held_out_documents_all_demonstrations_of_a_file_are_learnt_from(tmp_path: Path) -> None:
    said = '{{"role": "user", "content": [{{"text": "?"}}]}}, {{"role": "assistant", "content": [{{"text": "{0}."}}]}}'
    line = f'{{{{"id": "{{0}}", "messages": [{said}]}}}}\n'
    (tmp_path / "d.jsonl").write_text("".join(line.format(i) for i in range(40)))
    told = {"data": str(tmp_path / "d.jsonl"), "epochs": 2}
    every, most = (source_of(BaseConfig(held_out=n, **told)) for n in (0, 512))
    assert (every.rows, most.rows) == (40, 38)  # type: ignore[attr-defined]
    assert len(list(every.held_out(0, 10))) == 0
    with pytest.raises(ValueError, match="made on the way have no end"):
        BaseConfig(epochs=2)


def test_a_producer_loads_no_torch() -> None:
    code = "import sys, specvet.training.base.producing, specvet.data.reading; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_sources_can_be_sent_to_other_processes() -> None:
    import pickle

    for source in (ReadingSource(3, None), DemonstrationSource("d.jsonl", 2), Bumps()):
        assert pickle.loads(pickle.dumps(source)) == source
