"""What tokens cost: prices by backend and model (`prices.yaml`), and what a run's tokens come to.

What has no price costs None, never 0: a run on one's own machine has no price here, and a sum with an unknown part is
unknown. Amounts are in the currency of the price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from specvet.tasks.yaml_text import StrictLoader
from specvet.training.config import ConfigError, Part

MILLION = 1_000_000


class Bill(Part):
    """Tokens, in millions, and what they cost together."""

    prefill: float = Field(ge=0)
    sample: float = Field(ge=0)
    train: float = Field(default=0.0, ge=0)
    cost: float = Field(ge=0)


class Price(Part):
    """What one service charges for one model, a million tokens; None where that is not known."""

    backend: str
    model: str
    currency: str
    prefill: float | None = Field(default=None, ge=0)
    """Of prompt tokens that were computed."""
    cached_prefill: float | None = Field(default=None, ge=0)
    """Of prompt tokens that were kept from before."""
    sample: float | None = Field(default=None, ge=0)
    train: float | None = Field(default=None, ge=0)
    """Of positions of trained datums."""
    bill: Bill | None = None
    """What somebody paid, where `prefill` and `sample` are not known each for itself."""
    source: str
    date: str
    """When it was read: year and month at least."""
    notes: tuple[str, ...] = ()


_PRICED = {
    "prefilled_tokens": "prefill",
    "cached_tokens": "cached_prefill",
    "sampled_tokens": "sample",
    "trained_tokens": "train",
}
"""Names in `metrics.jsonl` and receipts → names of prices. Other names in a usage cost nothing of their own."""


def load_prices(path: str | None = None) -> tuple[Price, ...]:
    """The prices of a file, or those that come with specvet. Raises ConfigError, which names entry and field."""
    name = path or "prices.yaml"
    try:
        source = files("specvet.training") / "prices.yaml" if path is None else Path(path)
        entries = yaml.load(source.read_text(encoding="utf-8"), Loader=StrictLoader)  # a safe one
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{name}: cannot be read: {getattr(e, 'strerror', None) or 'is no text'}") from None
    except yaml.YAMLError as e:
        raise ConfigError(f"{name}: is no YAML: {getattr(e, 'problem', None) or e}") from None
    if not isinstance(entries, list):
        raise ConfigError(f"{name}: write a list of prices, each with backend, model, currency, source and date")
    return tuple(_price(entry, f"{name} entry {i}") for i, entry in enumerate(entries, start=1))


def _price(entry: Any, where: str) -> Price:
    if isinstance(entry, dict):
        entry = {k: str(v) if k == "date" else v for k, v in entry.items()}  # YAML makes dates of some
    try:
        return Price.model_validate(entry)
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        field = "".join(f"{part}: " for part in first["loc"])
        known = f"; known are {', '.join(Price.model_fields)}" if first["type"] == "extra_forbidden" else ""
        raise ConfigError(f"{where}: {field}{first['msg'].lower()}{known}") from None


def price_of(prices: Sequence[Price], backend: str, model: str | None) -> Price | None:
    """The price of a model at a backend; None where there is none."""
    return next((p for p in prices if (p.backend, p.model) == (backend, model)), None)


def cost(usage: Mapping[str, float], price: Price | None) -> float | None:
    """What tokens cost, by their names in `metrics.jsonl`: `prefilled_tokens`, `cached_tokens`, `sampled_tokens`,
    `trained_tokens`. None without a price, or when any of them that was used has none."""
    if price is None:
        return None
    total = 0.0
    for tokens, name in _PRICED.items():
        used, rate = usage.get(tokens) or 0, getattr(price, name)
        if used and rate is None:
            return None
        total += used / MILLION * (rate or 0.0)
    return total


def cost_range(usage: Mapping[str, float], price: Price | None) -> tuple[float, float] | None:
    """Lowest and highest cost. Where a price is only known from a bill: the two ends of what the bill allows.

    Assumes that a sampled token costs at least what a prefilled one does. None where nothing can be said.
    """
    exact = cost(usage, price)
    if exact is not None:
        return exact, exact
    if price is None or price.bill is None or usage.get("cached_tokens"):
        return None
    bill, rest = price.bill, {"trained_tokens": usage.get("trained_tokens") or 0}
    trained, of_bill = cost(rest, price), cost({"trained_tokens": bill.train * MILLION}, price)
    if trained is None or of_bill is None:
        return None
    left = bill.cost - of_bill
    # From "all tokens cost the same" to "prefill is free": costs are linear in between.
    same, free = left / (bill.prefill + bill.sample), left / bill.sample
    prefilled, sampled = ((usage.get(n) or 0) / MILLION for n in ("prefilled_tokens", "sampled_tokens"))
    ends = (same * (prefilled + sampled), free * sampled)
    return trained + min(ends), trained + max(ends)
