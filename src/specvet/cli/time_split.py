"""Where the time of a run with a model went, for people and for `--json`."""

from __future__ import annotations

from collections.abc import Mapping

PARTS = {
    "read": "reading files",
    "draw": "drawing",
    "vision": "pictures through the model",
    "prefill": "prompts",
    "decode": "sampling",
    "host": "the host's own work",
    "idle": "the model waited",
}


def time_split(usage: Mapping[str, float]) -> dict[str, float]:
    """Seconds by part, of a usage as `specvet.policies.tokens.usage_numbers` and receipts have it.

    Each is summed over what went on at the same time, see `specvet.agent.timing`; parts that nobody measured are left
    out. Unlike there, `prefill` is without `vision`.
    """
    found = {name: usage[f"notes.{name}_s"] for name in PARTS if f"notes.{name}_s" in usage}
    if "prefill" in found:
        found["prefill"] = max(0.0, found["prefill"] - found.get("vision", 0.0))
    return {name: round(seconds, 3) for name, seconds in found.items()}


def time_split_text(usage: Mapping[str, float]) -> str:
    """One line; empty where no model of this machine was asked."""
    found = time_split(usage)
    if "decode" not in found:
        return ""
    told = ", ".join(f"{PARTS[name]} {seconds:.1f} s" for name, seconds in found.items())
    return f"Time, summed over what goes on together: {told}."
