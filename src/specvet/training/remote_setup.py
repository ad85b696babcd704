"""What opening a trainer on a remote service needs beside its SDK: what the service cannot do, and what to say of it.

All of it happens before anything is spent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from specvet.policies.remote import Problem, Service, scrubbed, within
from specvet.policies.remote_policy import CLOSE_S
from specvet.policies.remote_setup import LiveModel
from specvet.policies.tokens import PolicyError
from specvet.training.trainer import TrainerError, TrainerOptions

ALPHA = 32.0
"""Of adapters at Tinker, by its documentation; PyTRIO does not say."""

_ADVICE: dict[Problem, str] = {
    "money": "add credits in the service's console",
    "model": "give --model one of the models that `specvet doctor --live` lists as trained",
    "weights": "give --from the address of a state as the training that saved it named it",
    "busy": "the service has no capacity left",
    "gone": "the training run is gone from the service",
    "request": "the service refused this request",
    "failed": "the service failed",
    "down": "is the address right, and is there a network?",
}


def refuse(service: Service, options: TrainerOptions, ranks: range) -> None:
    """Raise TrainerError for an option that the service cannot use; the message says why."""
    lora, model = options.lora, options.model

    def no(option: str, why: str) -> TrainerError:
        return TrainerError(f"{service.name}: {option}: {why}")

    if lora is None:
        raise no("method.kind full", "the service trains LoRA adapters only; use method.kind lora or --backend torch")
    if lora.rank not in ranks:
        raise no(f"method.rank {lora.rank}", f"the service takes ranks from {ranks.start} to {ranks.stop - 1}")
    if lora.alpha != ALPHA:
        raise no(f"method.alpha {lora.alpha:g}", f"the service chooses it; leave it at {ALPHA:g}")
    if not (lora.attention or lora.mlp or lora.unembed):
        raise no("the adapter", "neither attention nor MLP nor the output layer is trained")
    if options.vision == "trained":
        raise no("method.vision trained", "the service does not train the vision tower; leave it frozen")
    if options.processes > 1:
        raise no(
            f"method.processes {options.processes}", "the service decides how many machines it uses; leave it at 1"
        )
    if options.gradient_checkpointing is not None:
        raise no("method.gradient_checkpointing", "the service decides it; leave it unset")
    if options.micro_tokens is not None:
        raise no("method.micro_tokens", "the service cuts batches itself; leave it unset")
    if model.adapter:
        raise no(f"adapter {model.adapter!r}", "training begins from a state, see --from")
    for state in (options.state, options.reference_state):
        if state and not state.startswith(service.scheme):
            raise no(f"state {state!r}", f"is no address at this service; those begin with {service.scheme}")
    if options.with_optimizer and not options.state:
        raise no("with_optimizer", "there is no state whose optimiser could go on")
    if not (model.model or options.state):
        raise TrainerError(f"{service.name}: no base model was named; {advice(service, 'model')}")


def trained_model(service: Service, models: Iterable[LiveModel], *names: str) -> LiveModel:
    """The model of one of these names among those that an account may train. Raises TrainerError, which lists them."""
    offered = {m.name: m for m in models if m.trained}
    for name in names:
        if name in offered:
            return offered[name]
    known = ", ".join(sorted(offered)) or "none"
    raise TrainerError(f"{service.name}: this account cannot train {names[0]!r}; it can train: {known}")


def same_adapter(service: Service, state: str, **shape: tuple[Any, Any]) -> None:
    """Raise TrainerError where what was asked for (second) is not what the state holds (first; None: unknown)."""
    odd = [
        f"{name} {there} where {asked} was asked for"
        for name, (there, asked) in shape.items()
        if there not in (None, asked)
    ]
    if odd:
        raise TrainerError(f"{service.name}: the state {state} has {', '.join(odd)}; ask for what it has")


@contextlib.contextmanager
def as_trainer_errors(
    service: Service, problem: Callable[[BaseException, bool], tuple[Problem, str]]
) -> Iterator[None]:
    """What a policy's code or an SDK raises while a trainer is opened, as TrainerError."""
    try:
        yield
    except TrainerError:
        raise
    except (PolicyError, TimeoutError) as e:
        raise TrainerError(str(e)) from e
    except Exception as e:  # whatever the SDK raises gets said in one way
        kind, said = problem(e, True)
        raise TrainerError(f"{service.name}: {scrubbed(said)}; {advice(service, kind)}") from e


def leave(shut: Callable[[], None]) -> None:
    """Close a session that came to nothing, without waiting long for it."""
    with contextlib.suppress(Exception):
        within(CLOSE_S, shut, TimeoutError)


def advice(service: Service, kind: Problem) -> str:
    """What to do about a problem."""
    return service.login if kind == "login" else _ADVICE[kind]
