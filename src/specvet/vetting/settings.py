"""What can change a verdict, as a run keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specvet.agent import Budget, task_hash
from specvet.agent.guard import GUARD
from specvet.data.asking import TitleMode
from specvet.policies import Policy
from specvet.spectra import FrameMode
from specvet.tasks import Task, Wording
from specvet.views import REFERENCE_STYLE, Size

if TYPE_CHECKING:
    from specvet.agent.talk import ModelPolicy
    from specvet.policies.tokens import SamplingParams


def vet_settings(
    tasks: Iterable[Task],
    policy: Policy | ModelPolicy,
    frame_mode: FrameMode,
    budget: Budget,
    style: str = REFERENCE_STYLE,
    size: Size = None,
    params: SamplingParams | None = None,
    title: TitleMode | None = None,
    wording: Wording = "full",
    guard: bool = False,
) -> dict[str, Any]:
    """What can change a verdict, as `RunFolder.open` (in its config) and `RunFolder.settle` take it.

    How spectra are drawn counts for a policy that looks at pictures only, `params`, `wording` and `guard` (the program
    says UNSURE itself, see `specvet.agent.guard`) for a model. `title` None is `plain` for a model and `file` for
    others.
    """
    model = not hasattr(policy, "act")
    format = getattr(policy, "format", None)
    settings: dict[str, Any] = {
        "policy": policy.name,
        "policy_fingerprint": getattr(policy, "fingerprint", ""),
        "frame_mode": frame_mode,
        "budget": dict(budget.settings(tokens=model)),
        "tasks": {task.key: task_hash(task) for task in tasks},
    }
    if "images" in policy.capabilities:
        settings |= {"style": style, "size": _words(size), "title": title or ("plain" if model else "file")}
    if model:
        settings |= {"wording": wording, **({"guard": GUARD} if guard else {})}
    if params is not None:
        settings["sampling"] = {
            name: value for name, value in asdict(params).items() if name not in ("max_tokens", "stop")
        }
    if format is not None:
        settings |= {"format": format.name, "vocabulary": format.vocabulary.fingerprint}
    return settings


def _words(size: Size) -> str | None:
    return f"{size[0]}x{size[1]}" if isinstance(size, tuple) else size
