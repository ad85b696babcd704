"""The probes over the real SDKs, on loopback services with a tiny real model behind them."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("torch")
pytest.importorskip("pytrio")
pytest.importorskip("tinker")

from remote_lab import Lab

from specvet.policies.probes import ProbeReport, probe


def reports(here: Lab, *fast: bool) -> list[ProbeReport]:
    """One report after another, all but the first of a service that counts a token too many."""
    policy = here.open()

    async def run() -> list[ProbeReport]:
        found = []
        try:
            for how in fast:
                found.append(await probe(policy, fast=how))
                here.faults.miscount = 1
        finally:
            await policy.aclose()
        return found

    return asyncio.run(run())


def test_a_sighted_service_passes_all_that_can_be_asked_and_one_that_miscounts_fails(here: Lab) -> None:
    # In full on one of them: each token costs the loopback service a pass over the whole prompt.
    whole = here.name == "trio"
    sighted, miscounting = reports(here, not whole, True)
    assert sighted.ok, sighted.failed
    if whole:
        assert {p.name for p in sighted.skipped} == {"orientation", "recomputed_logprobs", "prefix", "adapter"}
        assert sighted["alpha"].ok  # the service drops alpha: pictures are laid on white before they leave
    assert {p.name: p.value for p in miscounting.failed} == {"token_count": 1}
