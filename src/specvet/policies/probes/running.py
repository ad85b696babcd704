"""Ask a policy everything that its capabilities allow, and say what came of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from specvet.policies.probes.report import Probe, ProbeReport, skipped
from specvet.policies.probes.text import text_probes
from specvet.policies.probes.tokens import Answer, token_probes

if TYPE_CHECKING:
    from specvet.policies.text import TextPolicy
    from specvet.policies.tokens import TokenPolicy


async def probe(policy: TokenPolicy | TextPolicy, *, fast: bool = False, base: Answer | None = None) -> ProbeReport:
    """All probes of `policy`, or the `fast` ones for the start of a run; see the table of `specvet.policies.probes`.

    `base` is what the same model said without its adapter (`base_answer`), for the probe `adapter`. Raises a
    PolicyError that is fatal (no login, no server); everything else that fails is a failed probe. Many requests go
    out at once; the policy's own limit holds.
    """
    started, before = time.perf_counter(), policy.usage.requests
    found: list[Probe]
    if hasattr(policy, "sample"):
        found = await token_probes(cast("TokenPolicy", policy), fast=fast, base=base)
    else:
        found = await text_probes(policy, fast=fast)
        if not fast:
            found.append(skipped("adapter", "a server does not say what it has loaded"))
    return ProbeReport(policy.name, tuple(found), policy.usage.requests - before, time.perf_counter() - started)


async def fast_probes(policy: TokenPolicy | TextPolicy) -> tuple[Probe, ...]:
    """The probes for the start of a run: at most 7 requests (9 of torch). Raises a PolicyError that is fatal."""
    return (await probe(policy, fast=True)).probes
