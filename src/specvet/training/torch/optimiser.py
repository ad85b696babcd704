"""AdamW in float32 for weights of any precision.

At lr 1e-6 a step is far below what bfloat16 resolves, so each weight of lower precision has a float32 master here:
steps go to the master, and the weight is its rounding. Gradients add up in float32 too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from specvet.training.trainer import Adam, NotFiniteError

Gradients = list[Tensor | None]


class Optimiser:
    """Owns masters, gradients and moments of `parameters`, which lie wherever the model has them."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self.parameters = dict(parameters)
        self.masters: dict[str, nn.Parameter] = {}
        """By name, float32; the parameter itself where it is float32."""
        for name, p in self.parameters.items():
            if p.dtype == torch.float32:
                self.masters[name] = p
            else:
                self.masters[name] = nn.Parameter(p.detach().float())
                _on_gradient(p, _hand_over(self.masters[name]))
        self._lower = [n for n, p in self.parameters.items() if p is not self.masters[n]]
        on_gpu = next(iter(self.parameters.values())).is_cuda
        self._adam = torch.optim.AdamW(self.masters.values(), fused=True if on_gpu else None)
        self.steps = 0
        """Taken so far."""

    @property
    def later_bytes(self) -> int:
        """What gradients and moments will take that is not there yet."""
        n = sum(m.numel() for m in self.masters.values())
        return 4 * n * ((0 if self.waits else 1) + (0 if self._adam.state else 2))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of whole weights, by name."""
        return {name: tuple(p.shape) for name, p in self.parameters.items()}

    def own(self, name: str, values: Tensor) -> Tensor:
        """What this optimiser has of a whole weight's values (or moments): all, where nothing is sharded."""
        return values

    # --- gradients

    @property
    def waits(self) -> bool:
        """Whether some gradient waits for a step."""
        return any(m.grad is not None for m in self.masters.values())

    def take(self) -> Gradients:
        """The gradients that wait, which no longer do."""
        taken = [m.grad for m in self.masters.values()]
        self.clear()
        return taken

    def add(self, gradients: Sequence[Tensor | None]) -> None:
        """Add gradients to those that wait."""
        for master, more in zip(self.masters.values(), gradients, strict=True):
            if more is not None:
                master.grad = more if master.grad is None else master.grad.add_(more)

    def clear(self) -> None:
        for master in self.masters.values():
            master.grad = None
        for p in self.parameters.values():
            p.grad = None

    # --- steps

    def step(self, adam: Adam) -> float:
        """One step with the gradients that wait, which are cleared; their norm before clipping.

        Raises NotFiniteError, and then no weight has changed.
        """
        gradients = [m.grad for m in self.masters.values() if m.grad is not None]
        norm = self.norm(gradients)
        if not norm < float("inf"):  # nor NaN
            self.clear()
            raise NotFiniteError(f"the gradient's norm is {norm}; no step was taken with it, and it was dropped")
        if adam.grad_clip_norm and norm > adam.grad_clip_norm:
            torch._foreach_mul_(gradients, adam.grad_clip_norm / (norm + 1e-6))
        for group in self._adam.param_groups:
            group |= {"lr": adam.lr, "betas": (adam.beta1, adam.beta2), "eps": adam.eps}
            group |= {"weight_decay": adam.weight_decay}
        self._adam.step()
        self.round()
        self.clear()
        self.steps += 1
        return norm

    def norm(self, gradients: list[Tensor]) -> float:
        """Norm of all of them together."""
        return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))

    @torch.no_grad()
    def round(self) -> None:
        """Set the weights of lower precision to their masters, where they lie."""
        if self._lower:
            lower: list[Tensor] = [self.parameters[n] for n in self._lower]
            torch._foreach_copy_(lower, [self.masters[n] for n in self._lower])

    # --- saving

    @torch.no_grad()
    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set masters, and with them the weights, where they lie."""
        for name, master in self.masters.items():
            master.copy_(self.own(name, weights[name]))
        self.round()

    def moments(self) -> dict[str, Tensor]:
        """What AdamW keeps, by name; empty before the first step."""
        return {
            f"{name}/{key}": value
            for name, master in self.masters.items()
            for key, value in self._adam.state.get(master, {}).items()
        }

    def set_moments(self, kept: Mapping[str, Tensor], steps: int) -> None:
        """Go on from saved moments after so many steps."""
        state: dict[int, dict[str, Tensor]] = {}
        for i, name in enumerate(self.masters):
            if f"{name}/step" in kept:
                state[i] = {key: self.own(name, kept[f"{name}/{key}"]) for key in ("exp_avg", "exp_avg_sq")}
                state[i]["step"] = kept[f"{name}/step"]
        self._adam.load_state_dict({"state": state, "param_groups": self._adam.state_dict()["param_groups"]})
        self.steps = steps


def _on_gradient(parameter: Any, hook: Any) -> None:
    parameter.register_post_accumulate_grad_hook(hook)


def _hand_over(master: nn.Parameter) -> Any:
    """A hook that moves a parameter's fresh gradient to its master."""

    def hook(parameter: Tensor) -> None:
        if parameter.grad is not None:
            if master.grad is None:
                master.grad = parameter.grad.float()
            else:
                master.grad.add_(parameter.grad)
            parameter.grad = None

    return hook
