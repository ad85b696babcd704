"""The trainer `trio`: LoRA adapters at the PyTRIO service (pytrio 0.2.9).

**Normalisation.** The SDK counts a batch's active tokens (targets that are not −100, for cross-entropy with a weight)
and sends the count with every piece that it cuts the batch into, for the service to divide by: so a batch goes in one
call and unscaled, and targets that are not learnt are −100. A token with the advantage 0 is active, as here. What the
service does with the counts it does not publish; `specvet.training.remote` compares its losses with ours.

**Limits.** Ranks 4 to 64. No entropy bonus. The SDK wants to download a tokenizer to learn the largest token id; it is
told that of the vocabulary here instead. An optimiser step follows in its event queue what was sent before; an event
that comes twice (the line was cut) is taken once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from specvet.chat import Datum
from specvet.policies import trio
from specvet.policies.remote import Problem, resolve
from specvet.policies.remote_setup import format_of, identity
from specvet.policies.trio import MAX_IN_FLIGHT, SERVICE, TrioPolicy, model_input
from specvet.training.remote import LONG, RemoteTrainer
from specvet.training.remote_batches import Passed, adam_config, clip_config, sent_chunks, target_logprobs
from specvet.training.remote_setup import as_trainer_errors, leave, refuse, same_adapter, trained_model
from specvet.training.trainer import Adam, Loss, TrainerError, TrainerOptions

RANKS = range(4, 65)


class TrioTrainer(RemoteTrainer):
    """A training run at the PyTRIO service. Made by `open_trainer`."""

    name = "trio"
    service = SERVICE

    def _datums(self, datums: Sequence[Datum], loss: Loss, active: int) -> Any:
        from pytrio import Datum as TrioDatum
        from pytrio.types import TensorData

        sent = []
        for datum in datums:
            numbers: dict[str, Any] = {"target_tokens": datum.targets.astype(np.int64)}
            if loss.name == "cross_entropy":
                numbers["weights"] = datum.weights
            else:
                assert datum.logprobs is not None
                assert datum.advantages is not None
                numbers |= {"logprobs": datum.logprobs, "advantages": datum.advantages}
            tensors = {name: TensorData.from_numpy(values) for name, values in numbers.items()}
            sent.append(TrioDatum(model_input=model_input(sent_chunks(datum)), loss_fn_inputs=tensors))
        return sent

    async def _send(self, run: Any, sent: Any, loss: Loss, active: int, learn: bool) -> Passed:
        ask = run.forward_backward_async if learn else run.forward_async
        got = await resolve(ask(sent, loss.name, clip_config(loss)))
        logprobs = [target_logprobs(one, self.name) for one in got.loss_fn_outputs]
        return Passed(logprobs, got.metrics["loss_mean"], {"service_tokens": got.metrics["token_count"]})

    async def _step(self, run: Any, adam: Adam) -> dict[str, float]:
        from pytrio import AdamParams

        asked = AdamParams(**adam_config(adam))
        got = await resolve(run.optim_step_async(asked))
        return dict(got.metrics)

    async def _save_state(self, run: Any, label: str) -> str:
        return str((await resolve(run.save_state_async(label, overwrite=True))).path)

    async def _save_weights(self, run: Any, label: str) -> str:
        return str((await resolve(run.save_weights_for_sampler_async(label))).path)

    async def _sampling(self, run: Any) -> Any:
        return await resolve(run.save_weights_and_get_sampling_client_async())

    def _policy(self, sampling: Any, weights: str) -> TrioPolicy:
        address = self._client._runtime.configuration.base_url
        return TrioPolicy(
            None,
            sampling,
            self.format,
            identity(SERVICE, address, self.model, weights),
            model=self.model,
            context=self._limit,
            trainable=True,
            timeout_s=self._options.model.timeout_s,
            in_flight=_in_flight(self._options),
        )

    def _new_run(self) -> Any:
        run = _run(self._client, self._options, self.model, self._options.reference_state, with_optimizer=False)
        run._tokenizer_vocab_size = self.format.vocabulary.size
        return run

    def _run_id(self) -> str:
        return str(self._run.training_run_cuid)

    def _problem(self, e: Exception) -> tuple[Problem, str]:
        return trio.problem_of(e, False)

    def _is_taken(self, e: Exception) -> bool:
        from pytrio import PyTrioError

        words = ("exist", "conflict", "duplicate")
        return isinstance(e, PyTrioError) and (e.status_code == 409 or any(word in e.code for word in words))

    def _is_not_finite(self, e: Exception) -> bool:
        from pydantic import ValidationError

        return isinstance(e, ValidationError) and any(one["type"] == "finite_number" for one in e.errors())

    def _shut(self, client: Any) -> None:
        trio.shut(client)


def open_trainer(options: TrainerOptions) -> TrioTrainer:
    """A new adapter on the base model, or the state `options.state` (`trio://…`), which names its base.

    Blocks until the service has a run for us: at most `timeout_s` for the login and ten times that for the run. Raises
    TrainerError.
    """
    with as_trainer_errors(SERVICE, trio.problem_of):
        refuse(SERVICE, options, RANKS)
        trio.import_sdk()
        model = options.model
        if model.model:
            format_of(SERVICE, model, model.model)  # before anybody is asked

        def connected() -> Any:
            client = trio.connected(model.base_url, model.timeout_s, _in_flight(options))
            try:
                models = trio.models_of(client)
                if model.model:
                    trained_model(SERVICE, models, model.model)
            except BaseException:
                trio.shut(client)
                raise
            return client, models

        client, models = trio.in_time(connected, model.timeout_s)
        try:
            make = partial(_run, client, options, model.model, options.state, with_optimizer=options.with_optimizer)
            run = trio.in_time(make, LONG * model.timeout_s)
            offered = trained_model(SERVICE, models, run.model_id, run.model_alias)
            if model.model and model.model not in (run.model_id, run.model_alias):
                raise TrainerError(
                    f"trio: the state {options.state} belongs to {run.model_id!r}, not to {model.model!r}"
                )
            format = format_of(SERVICE, model, run.model_id)
            run._tokenizer_vocab_size = format.vocabulary.size
            return TrioTrainer(
                client,
                run,
                format,
                model=run.model_id,
                context=min(c for c in (model.context, offered.context, run._limits.max_seq_len) if c),
                options=options,
            )
        except BaseException:
            leave(lambda: trio.shut(client))
            raise


def _run(client: Any, options: TrainerOptions, model: str | None, state: str | None, *, with_optimizer: bool) -> Any:
    """A `pytrio.TrainingClient`. Blocks; SDK errors as they are, and TrainerError for a state of another shape."""
    lora = options.lora
    assert lora is not None
    if not state:
        return client.create_lora_training_client(
            model,
            rank=lora.rank,
            seed=options.seed,
            train_mlp=lora.mlp,
            train_attn=lora.attention,
            train_unembed=lora.unembed,
        )
    if with_optimizer:
        run = client.create_training_client_from_state_with_optimizer(state)
    else:
        run = client.create_training_client_from_state(state)
    there = run.lora
    same_adapter(
        SERVICE,
        state,
        rank=(there.rank, lora.rank),
        attention=(there.train_attn, lora.attention),
        mlp=(there.train_mlp, lora.mlp),
        unembed=(there.train_unembed, lora.unembed),
    )
    return run


def _in_flight(options: TrainerOptions) -> int:
    return min(options.branches, MAX_IN_FLIGHT)
