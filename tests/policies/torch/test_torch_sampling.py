"""Drawing tokens: exact shares, cuts, streams, and the delta rule's two forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_lab import FAMILIES  # sets one thread

from specvet.policies.torch.delta import chunked_delta_rule, delta_rule_step
from specvet.policies.torch.sampling import draw
from specvet.policies.uniforms import philox, uniforms

assert FAMILIES
LOGITS = torch.tensor([1.0, 3.0, -2.0, 2.5, 0.0, -40.0])


def drawn(temperature: float, top_p: float = 1.0, top_k: int = 0, n: int = 20_000) -> torch.Tensor:
    """Shares of the ids when numbers are taken evenly from [0, 1)."""
    uniforms = (torch.arange(n) + 0.5) / n
    cut = (torch.full((n,), top_p), torch.full((n,), top_k)) if top_p < 1 or top_k else ()
    ids, _ = draw(LOGITS.expand(n, -1), uniforms, torch.full((n,), temperature), *cut)
    return torch.bincount(ids, minlength=len(LOGITS)) / n


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_ids_are_drawn_with_the_shares_of_the_softmax(temperature: float) -> None:
    expected = torch.softmax(LOGITS / temperature, dim=-1)
    assert drawn(temperature).numpy() == pytest.approx(expected.numpy(), abs=1.01e-4)


def test_temperature_0_takes_the_likeliest_whatever_the_number() -> None:
    assert drawn(0.0).tolist() == [0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("top_p", "top_k", "kept"),
    [
        (1.0, 2, [1, 3]),
        (0.6, 0, [1, 3]),
        (0.5, 0, [1]),
        (0.95, 0, [0, 1, 3]),
        (0.9, 1, [1]),
        (1.0, 99, [0, 1, 2, 3, 4]),
    ],
)
def test_cuts_keep_the_likeliest_and_share_out_the_rest(top_p: float, top_k: int, kept: list[int]) -> None:
    shares = torch.softmax(LOGITS, dim=-1)
    expected = torch.zeros(len(LOGITS))
    expected[kept] = shares[kept] / shares[kept].sum()
    assert drawn(1.0, top_p, top_k).numpy() == pytest.approx(expected.numpy(), abs=1.01e-4)


def test_a_row_that_is_not_cut_draws_the_same_whether_or_not_one_beside_it_is() -> None:
    n = 2_000
    uniforms = (torch.arange(n) + 0.5) / n
    logits = torch.randn(n, 50, generator=torch.Generator().manual_seed(1))
    alone, _ = draw(logits, uniforms, torch.ones(n))
    cut = torch.arange(n) % 2 == 1
    top_p, top_k = torch.where(cut, 0.5, 1.0), torch.where(cut, 7, 0)
    beside, _ = draw(logits, uniforms, torch.ones(n), top_p, top_k)
    assert torch.equal(alone[~cut], beside[~cut])
    assert not torch.equal(alone[cut], beside[cut])


def test_the_logprob_is_the_models_own_whatever_was_cut_off() -> None:
    ids, logprobs = draw(
        LOGITS[None], torch.tensor([0.99]), torch.tensor([0.3]), torch.tensor([0.5]), torch.tensor([1])
    )
    assert ids.tolist() == [1]
    assert logprobs.item() == pytest.approx(torch.log_softmax(LOGITS, dim=-1)[1].item(), abs=1e-6)


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(np.float32(1), np.float32(0))])
def test_the_ends_of_the_interval_draw_something_that_can_be_drawn(uniform: float) -> None:
    logits = torch.full((1, 50_000), -200.0)
    logits[0, 30_000] = 0.0
    for cut in ((), (torch.tensor([0.9]), torch.tensor([5]))):
        ids, logprobs = draw(logits, torch.tensor([uniform]), torch.tensor([1.0]), *cut)
        assert ids.tolist() == [30_000]
        assert logprobs.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "key", "expected"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_published_answers(words: str, key: str, expected: str) -> None:
    """The known answers of Random123 for philox4x32 with 10 rounds."""

    def parsed(text: str) -> list[np.ndarray]:
        return [np.array([int(word, 16)], dtype=np.uint64) for word in text.split()]

    assert [int(word[0]) for word in philox(parsed(words), parsed(key))] == [int(w, 16) for w in expected.split()]


def test_numbers_depend_on_seed_index_and_place_and_fill_the_unit_interval() -> None:
    def numbers(seed: int, index: int, n: int) -> np.ndarray:
        same = np.ones(n, dtype=np.uint64)
        return uniforms(same * np.uint64(seed), same * np.uint64(index), np.arange(n, dtype=np.uint64))

    one = numbers(2**63 - 1, 0, 1000)
    assert one.dtype == np.float32
    others = (numbers(2**63 - 2, 0, 1000), numbers(2**31 - 1, 0, 1000), numbers(2**63 - 1, 1, 1000))
    assert all((one != other).mean() > 0.99 for other in others)
    assert numbers(2**63 - 1, 0, 10).tolist() == one[:10].tolist()
    many = numbers(0, 0, 100_000)
    assert 0 <= many.min() < 1e-4
    assert 1 - 1e-4 < many.max() < 1
    assert np.histogram(many, 10, (0, 1))[0] == pytest.approx(10_000, rel=0.04)


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 150])
def test_chunks_and_single_steps_of_the_delta_rule_agree_and_padding_leaves_the_state(tokens: int) -> None:
    made = torch.Generator().manual_seed(tokens)
    query, key, value = (torch.randn(2, tokens, 3, 8, generator=made) for _ in range(3))
    decay, beta = -torch.rand(2, tokens, 3, generator=made), torch.rand(2, tokens, 3, generator=made)
    started = torch.randn(2, 3, 8, 8, generator=made)
    state, outputs = started.clone(), []
    for t in range(tokens):
        one = (x[:, t : t + 1] for x in (query, key, value, decay, beta))
        outputs.append(delta_rule_step(*one, state))
    out, ended = chunked_delta_rule(query, key, value, decay, beta, started)
    assert out.numpy() == pytest.approx(torch.cat(outputs, dim=1).numpy(), abs=1e-5)
    assert ended.numpy() == pytest.approx(state.numpy(), abs=1e-5)
    keep = torch.zeros(2, tokens, 3)
    _, same = chunked_delta_rule(query, key, value, decay * keep, beta * keep, started)
    assert same.numpy() == pytest.approx(started.numpy(), abs=1e-6)
