"""The trainer `tinker`: LoRA adapters at the Tinker service (tinker 0.38.0).

**Normalisation.** Tinker's losses are sums over tokens, so the weights (cross-entropy) or advantages (policy losses)
are divided by N here, once for the whole batch. That is exact: `importance_sampling` and `cispo` are linear in the
advantage, and `ppo`'s minimum of r·A and clip(r)·A is the same choice for A and for A/N, since N is above 0. What comes
back as `loss:sum` is then the mean that `Step.loss` means, in however many pieces the SDK sent the batch.

**Targets.** Nothing at Tinker knows −100: a target that is not learnt is sent as id 0 with weight or advantage 0.

**Limits.** No entropy bonus. A checkpoint's name that is taken is answered with 409, which the SDK takes for a passing
failure and repeats for five minutes; so sampler weights, which cannot be replaced, get names that were not used before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from specvet.chat import Datum
from specvet.policies import tinker
from specvet.policies.remote import Problem, resolve
from specvet.policies.remote_setup import format_of, identity
from specvet.policies.tinker import SERVICE, TinkerPolicy, model_input
from specvet.training.remote import LONG, RemoteTrainer
from specvet.training.remote_batches import Passed, adam_config, clip_config, sent_chunks, target_logprobs
from specvet.training.remote_setup import as_trainer_errors, leave, refuse, same_adapter, trained_model
from specvet.training.trainer import Adam, Loss, TrainerError, TrainerOptions

RANKS = range(1, 10_000)
"""Tinker takes those that the model allows; which, it says itself."""


class TinkerTrainer(RemoteTrainer):
    """A training run at the Tinker service. Made by `open_trainer`."""

    name = "tinker"
    service = SERVICE

    def _datums(self, datums: Sequence[Datum], loss: Loss, active: int) -> Any:
        from tinker.types import Datum as TinkerDatum

        sent = []
        for datum in datums:
            numbers: dict[str, Any] = {"target_tokens": np.where(datum.weights > 0, datum.targets, 0).astype(np.int64)}
            if loss.name == "cross_entropy":
                numbers["weights"] = (datum.weights / active).astype(np.float32)
            else:
                assert datum.advantages is not None
                numbers |= {"logprobs": datum.logprobs, "advantages": (datum.advantages / active).astype(np.float32)}
            sent.append(TinkerDatum(model_input=model_input(sent_chunks(datum)), loss_fn_inputs=numbers))
        return sent

    async def _send(self, run: Any, sent: Any, loss: Loss, active: int, learn: bool) -> Passed:
        ask = run.forward_backward if learn else run.forward
        got = await resolve(ask(sent, loss.name, clip_config(loss)))
        logprobs = [target_logprobs(one, self.name) for one in got.loss_fn_outputs]
        notes = {name: value for name, value in got.metrics.items() if name != "loss:sum"}
        return Passed(logprobs, got.metrics.get("loss:sum"), notes)

    async def _step(self, run: Any, adam: Adam) -> dict[str, float]:
        from tinker.types import AdamParams

        asked = AdamParams(**adam_config(adam))
        got = await resolve(run.optim_step(asked))
        return dict(got.metrics or {})

    async def _save_state(self, run: Any, label: str) -> str:
        return str((await resolve(run.save_state(label, overwrite=True))).path)

    async def _save_weights(self, run: Any, label: str) -> str:
        return str((await resolve(run.save_weights_for_sampler(label))).path)

    async def _sampling(self, run: Any) -> Any:
        return await resolve(run.save_weights_and_get_sampling_client())

    def _policy(self, sampling: Any, weights: str) -> TinkerPolicy:
        return TinkerPolicy(
            None,
            sampling,
            self.format,
            identity(SERVICE, self._client.holder._base_url, self.model, weights),
            model=self.model,
            context=self._limit,
            trainable=True,
            timeout_s=self._options.model.timeout_s,
            in_flight=self._options.branches,
        )

    def _new_run(self) -> Any:
        return _run(self._client, self._options, self.model, self._options.reference_state, with_optimizer=False)

    def _run_id(self) -> str:
        return str(self._run.model_id)

    def _problem(self, e: Exception) -> tuple[Problem, str]:
        return tinker.problem_of(e, False)

    def _is_taken(self, e: Exception) -> bool:
        from tinker import ConflictError

        return isinstance(e, ConflictError)

    def _heard(self) -> str:
        return tinker.heard(self.deadline_s)

    def _shut(self, client: Any) -> None:
        tinker.shut(client)


def open_trainer(options: TrainerOptions) -> TinkerTrainer:
    """A new adapter on the base model, or the state `options.state` (`tinker://…`), which names its base.

    Blocks until the service has a run for us: at most `timeout_s` for the login and ten times that for the run. Raises
    TrainerError.
    """
    with as_trainer_errors(SERVICE, tinker.problem_of):
        refuse(SERVICE, options, RANKS)
        tinker.import_sdk()
        model = options.model
        if model.model:
            format_of(SERVICE, model, model.model)  # before anybody is asked

        def connected() -> Any:
            client = tinker.connected(model.base_url)
            try:
                models = tinker.models_of(tinker.rest_client(model.base_url))
                if model.model:
                    trained_model(SERVICE, models, model.model)
            except BaseException:
                tinker.shut(client)
                raise
            return client, models

        client, models = tinker.in_time(connected, model.timeout_s)
        try:
            make = partial(_run, client, options, model.model, options.state, with_optimizer=options.with_optimizer)
            run = tinker.in_time(make, LONG * model.timeout_s)
            base = str(run.get_info().model_data.model_name)
            offered = trained_model(SERVICE, models, base)
            if model.model and model.model != base:
                raise TrainerError(f"tinker: the state {options.state} belongs to {base!r}, not to {model.model!r}")
            return TinkerTrainer(
                client,
                run,
                format_of(SERVICE, model, base),
                model=base,
                context=min(c for c in (model.context, offered.context) if c),
                options=options,
            )
        except BaseException:
            leave(lambda: tinker.shut(client))
            raise


def _run(client: Any, options: TrainerOptions, model: str | None, state: str | None, *, with_optimizer: bool) -> Any:
    """A `tinker.TrainingClient`. Blocks; SDK errors as they are, and TrainerError for a state of another shape."""
    lora, called = options.lora, {"name": options.name}
    assert lora is not None
    if not state:
        return client.create_lora_training_client(
            model,
            rank=lora.rank,
            seed=options.seed,
            train_mlp=lora.mlp,
            train_attn=lora.attention,
            train_unembed=lora.unembed,
            user_metadata=called,
        ).result()
    if with_optimizer:
        run = client.create_training_client_from_state_with_optimizer(state, user_metadata=called).result()
    else:
        run = client.create_training_client_from_state(state, user_metadata=called).result()
    same_adapter(SERVICE, state, rank=(run.get_info().lora_rank, lora.rank))
    return run
