"""What tokens cost: exact where prices are known, bounds where only a bill is, and nothing where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from specvet.training.config import ConfigError
from specvet.training.estimate import Bill, Price, cost, cost_range, load_prices, price_of

FULL = Price(
    backend="b", model="m", currency="USD", prefill=1.0, cached_prefill=0.2, sample=4.0, train=3.0, source="-", date="-"
)
MILLION = 1_000_000


def test_each_kind_of_token_has_its_price() -> None:
    used = {
        "prompt_tokens": 9 * MILLION,  # of which the next two are parts
        "prefilled_tokens": 2 * MILLION,
        "cached_tokens": 5 * MILLION,
        "sampled_tokens": MILLION // 2,
        "trained_tokens": 3 * MILLION,
        "active_tokens": MILLION,
    }
    assert cost(used, FULL) == pytest.approx(2 * 1.0 + 5 * 0.2 + 0.5 * 4.0 + 3 * 3.0)
    assert cost_range(used, FULL) == (cost(used, FULL),) * 2
    assert cost({}, FULL) == 0.0


def test_what_has_no_price_costs_nothing_that_is_known() -> None:
    assert cost({"trained_tokens": 5}, None) is None
    assert cost_range({"trained_tokens": 5}, None) is None
    partly = FULL.model_copy(update={"train": None})
    assert cost({"trained_tokens": 5}, partly) is None
    assert cost({"sampled_tokens": MILLION, "trained_tokens": 0}, partly) == 4.0
    assert cost({"sampled_tokens": MILLION, "trained_tokens": None}, partly) == 4.0  # type: ignore[dict-item]
    assert cost_range({"trained_tokens": 5}, partly) is None


def test_the_chapters_two_bills_give_the_price_of_training_and_bounds_for_the_rest() -> None:
    price = price_of(load_prices(), "trio", "Qwen/Qwen3.5-4B")
    assert price is not None
    assert price.currency == "CNY"
    assert (price.prefill, price.sample) == (None, None)  # one equation, two unknowns
    # SFT: 6.11 M train tokens, ¥27.72; both are rounded to two places.
    assert price.train == pytest.approx(27.72 / 6.11, abs=0.005)
    assert cost({"trained_tokens": 6.11e6}, price) == pytest.approx(27.72, abs=0.05)
    # GRPO: what was paid comes back exactly, since other prices that give the same bill give it too.
    bill = {"prefilled_tokens": 239.39e6, "sampled_tokens": 26.38e6, "trained_tokens": 79.13e6}
    assert cost(bill, price) is None
    assert cost_range(bill, price) == (pytest.approx(671.96), pytest.approx(671.96))
    left = 671.96 - 79.13 * price.train
    low, high = cost_range({"prefilled_tokens": 100e6, "sampled_tokens": 26.38e6}, price) or (0, 0)
    assert low == pytest.approx(left / (239.39 + 26.38) * 126.38)  # a prefilled token as dear as a sampled one
    assert high == pytest.approx(left)  # prefill for nothing
    assert cost_range({"cached_tokens": 5, "sampled_tokens": 5}, price) is None  # nobody says what cached ones cost
    assert price_of(load_prices(), "trio", "Qwen/Qwen3.5-9B") is None
    assert price_of(load_prices(), "torch", "Qwen/Qwen3.5-4B") is None


def test_a_bill_says_nothing_where_its_own_training_has_no_price() -> None:
    bill = Bill(prefill=1, sample=1, train=1, cost=10)
    price = Price(backend="b", model="m", currency="EUR", bill=bill, source="-", date="-")
    assert cost_range({"sampled_tokens": 5}, price) is None


def test_every_price_says_where_it_is_from_and_when() -> None:
    for price in load_prices():
        assert price.source
        assert price.date[:2] == "20"
        assert price.currency in ("USD", "CNY")


def test_prices_of_ones_own_replace_those_that_come_along(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("- {backend: torch, model: m, currency: EUR, train: 1.5, source: power bill, date: 2026-09-30}\n")
    (price,) = load_prices(str(file))
    assert (price.train, price.date) == (1.5, "2026-09-30")
    assert price_of((price,), "torch", "m") == price


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "write a list of prices"),
        ("- 3", "entry 1: input should be a valid dictionary"),
        ("- {backend: b}", "entry 1: model: field required"),
        (
            "- {backend: b, model: m, currency: c, source: s, date: d, prefil: 1}",
            "prefil: extra inputs are not permitted; known are backend, model",
        ),
        (
            "- {backend: b, model: m, currency: c, source: s, date: d, train: -1}",
            "entry 1: train: input should be greater than or equal to 0",
        ),
        ("- [", "is no YAML"),
    ],
)
def test_a_price_file_that_is_written_wrongly_names_entry_and_field(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as e:
        load_prices(str(file))
    assert says in str(e.value)
    with pytest.raises(ConfigError, match=r"gone\.yaml: cannot be read"):
        load_prices(str(tmp_path / "gone.yaml"))
