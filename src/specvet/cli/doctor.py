"""`specvet doctor`: what is installed, and whether a model sees what it is shown."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specvet.cli import models
from specvet.cli.console import console, print_json
from specvet.cli.failure import DONE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.agent.talk import ModelPolicy
    from specvet.policies.options import ModelOptions
    from specvet.policies.probes import ProbeReport
    from specvet.policies.tokens import TokenPolicy

LIVE = ("trio", "tinker")
"""Services whose account `--live` checks."""


def doctor(
    *,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME", help="Probe this one: torch, openai, trio or tinker."),
    ] = None,
    model: models.Model = None,
    adapter: models.Adapter = None,
    revision: models.Revision = None,
    base_url: models.BaseUrl = None,
    format: models.Format = None,
    tokenizer: models.Tokenizer = None,
    device: models.Device = "auto",
    dtype: models.Dtype = "auto",
    tools: models.Tools = "tools",
    tool_images: models.ToolImages = "auto",
    branches: Annotated[int, typer.Option("--branches", min=1, help="Requests or sequences at a time.")] = 16,
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, help="Seconds for one request.")] = 600.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the weights of torch's tiny random model.")] = 0,
    fast: Annotated[bool, typer.Option("--fast", help="Only the probes of the start of a run.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Log in to trio or tinker and list what the account may use.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> int:
    """Say what is installed, and probe a model: are its pictures seen, its tokens counted, its words repeatable?

    specvet doctor --policy torch needs no model: it makes a tiny random one. Ends with 0 when no probe failed.
    """
    from specvet.policies.options import ModelOptions

    options = ModelOptions(
        model=model,
        adapter=adapter,
        revision=revision,
        format=format,
        tokenizer=tokenizer,
        base_url=base_url,
        device=device,
        dtype=dtype,
        branches=branches,
        tools=tools,
        tool_images=tool_images,
        timeout_s=timeout,
        seed=seed,
    )
    if model is not None and policy is None:
        raise CommandError("--model needs --policy: torch, openai, trio or tinker", USAGE)
    if policy and not models.is_model(policy):
        _refuse(policy)
    if policy == "torch" and model is None and dtype == "auto":
        # Random weights react so little that 16 bits may hide it; what is probed here is the code, not the rounding.
        options = dataclasses.replace(options, dtype="float32")
    told = {"ok": True, "policy": policy} | _environment()
    if live:
        told |= _live(policy, options)
    if policy and told["ok"]:  # an account that is not let in has nothing to probe
        told |= _probed(policy, options, fast)
    if json:
        print_json(told)
    else:
        _print(told)
    return DONE if told["ok"] else NOTHING_VETTED


def _refuse(policy: str) -> None:
    from specvet.policies import SPECIALISTS, UnknownPolicyError, open_policy
    from specvet.policies.options import ModelOptions

    if policy in ("line-indices", *SPECIALISTS):
        raise CommandError(f"{policy} looks at no pictures and has no tokens: there is nothing to probe", USAGE)
    with failing(USAGE, UnknownPolicyError):
        open_policy(policy, ModelOptions())


# --- the model


def _probed(name: str, options: ModelOptions, fast: bool) -> dict[str, Any]:
    """What the probes of a policy gave, and what it is."""

    async def ask() -> tuple[ProbeReport, dict[str, Any]]:
        from specvet.policies.probes import base_answer, probe

        base = None
        if options.adapter and not fast:
            plain = cast("TokenPolicy", _opened(name, dataclasses.replace(options, adapter=None)))
            try:
                base = await base_answer(plain)
            finally:
                await plain.aclose()
        opened = _opened(name, options)
        try:
            preflight = getattr(opened, "preflight", None)
            if preflight:  # a server that is down would be waited for, probe by probe
                await preflight()
            report = await probe(opened, fast=fast, base=base)
            return report, _described(opened)
        finally:
            await opened.aclose()

    from specvet.chat import ImageError, LedgerError
    from specvet.policies.tokens import PolicyError

    with failing(NOTHING_VETTED, PolicyError, TimeoutError, LedgerError, ImageError):
        report, described = asyncio.run(ask())
    return described | report.as_dict()


def _opened(name: str, options: ModelOptions) -> ModelPolicy:
    """The policy; what a server says when it is opened is no mistake in the options."""
    try:
        return models.open_model(name, options)
    except CommandError as e:
        if hasattr(e.__cause__, "status"):
            raise CommandError(e.message, NOTHING_VETTED) from e
        raise


def _described(policy: Any) -> dict[str, Any]:
    """What is known of an opened policy; no key is among it."""
    inner: Any = getattr(policy, "model", None)
    format = getattr(policy, "format", None) or getattr(getattr(policy, "manner", None), "format", None)
    return {
        "model": inner if isinstance(inner, str) else None,
        "format": getattr(format, "name", None),
        "device": str(inner.device) if hasattr(inner, "device") else None,
        "dtype": str(inner.dtype).removeprefix("torch.") if hasattr(inner, "dtype") else None,
        "context": policy.context,
        "capabilities": sorted(policy.capabilities),
        "fingerprint": policy.fingerprint,
        "usage": {k: v for k, v in dataclasses.asdict(policy.usage).items() if v},
    }


def _live(policy: str | None, options: ModelOptions) -> dict[str, Any]:
    """What the accounts at the services answer; not ok when none is let in, or the one that was asked for."""
    from specvet.policies.remote_setup import live_check

    if policy and policy not in LIVE:
        raise CommandError(f"--live checks an account at {' or '.join(LIVE)}; {policy} has none", USAGE)
    reports = [live_check(name, options.base_url, min(options.timeout_s, 60.0)) for name in (policy,) if name] or [
        live_check(name) for name in LIVE
    ]
    return {"ok": any(r.ok for r in reports), "live": [r.as_dict() for r in reports]}


# --- the machine


def _environment() -> dict[str, Any]:
    from specvet.records.receipt import versions
    from specvet.views import exact

    return {
        "versions": versions() | _more_versions(),
        "extras": _extras(),
        "gpus": _gpus(),
        "fast_figure": exact.same_pixels(),
    }


_EXTRAS = {
    "train": ("torch", "torchvision", "transformers", "peft", "safetensors", "huggingface_hub"),
    "trio": ("pytrio",),
    "tinker": ("tinker",),
}
"""As in pyproject.toml, those that a policy needs."""


def _more_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in (*(p for packages in _EXTRAS.values() for p in packages), "tokenizers", "jinja2", "httpx"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _extras() -> dict[str, list[str]]:
    """What each extra lacks; nothing where it is there."""
    from importlib.util import find_spec

    return {extra: [p for p in packages if find_spec(p) is None] for extra, packages in _EXTRAS.items()}


def _gpus() -> list[str] | None:
    """The GPUs that torch sees; None without torch."""
    try:
        import torch
    except Exception:  # a torch that cannot be imported (no library, wrong driver) sees none
        return None
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


# --- for people


def _print(told: dict[str, Any]) -> None:
    out = console()
    versions = told["versions"]
    out.print(f"specvet {versions.get('specvet', '')}, Python {versions['python']}", style="bold")
    for extra, lacking in told["extras"].items():
        what = f"lacks {', '.join(lacking)}: pip install 'specvet\\[{extra}]'" if lacking else "installed"
        out.print(f"  {extra:<8} {what}".replace("\\[", "["))
    found = [f"{name} {versions[name]}" for name in ("torch", "transformers", "peft") if name in versions]
    if found:
        out.print(f"  {'with':<8} {', '.join(found)}")
    gpus = told["gpus"]
    out.print(f"  GPU      {'no torch to ask' if gpus is None else ', '.join(gpus) or 'none'}")
    slow = f"slow: matplotlib {versions.get('matplotlib')} draws otherwise than the versions that are known"
    out.print(f"  figures  {'fast' if told['fast_figure'] else slow}")
    for account in told.get("live", ()):
        out.print(
            f"\n{account['service']}: {account['detail'].removeprefix(account['service'] + ': ')}",
            style="green" if account["ok"] else "red",
        )
        for offered in account["models"]:
            context = f", {offered['context']:,} tokens" if offered["context"] else ""
            uses = " and ".join(use for use in ("sampled", "trained") if offered[use])
            out.print(f"  {offered['name']}{context}, can be {uses or 'neither sampled nor trained'}")
    if "probes" in told:
        _print_probes(told)
    elif told["ok"] and not told["policy"]:
        out.print("\nspecvet doctor --policy torch probes a model; without --model a tiny random one.")


_SIGNS = {"at most": "≤", "at least": "≥", "more than": ">", "exactly": "="}
_MARKS = {True: ("ok", "green"), False: ("FAILED", "bold red"), None: ("skipped", "dim")}


def _print_probes(told: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    known = [str(told[key]) for key in ("model", "format", "device", "dtype") if told.get(key)]
    out.print(f"\n{told['policy']}: {', '.join(known)}", style="bold", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("probe", "", "value", "bound", "what"):
        table.add_column(column, justify="right" if column in ("value", "bound") else "left", overflow="fold")
    for found in told["probes"]:
        mark, style = _MARKS[found["ok"]]
        value = "" if found["value"] is None else f"{found['value']:.3g}"
        bound = "" if found["bound"] is None else f"{_SIGNS[found['sense']]} {found['bound']:.3g}"
        table.add_row(found["name"], Text(mark, style), value, bound, found.get("skipped") or found.get("detail", ""))
    out.print(table)
    failed = sum(found["ok"] is False for found in told["probes"])
    verdict = f"{failed} failed: do not train or measure with this" if failed else "none failed"
    out.print(f"{verdict} ({told['requests']} requests, {told['seconds']:.1f} s)", style="red" if failed else "green")
