"""Training at the loopback Tinker: models, gradients, steps and checkpoints on the wire of tinker 0.38.0.

A model's requests carry a sequence number and are worked off in its order, whatever order they arrive in; one that
arrives again (its answer was lost) gets the promise that it was given. Losses are sums over tokens, as the service
documents them. Gradients and pieces: `forward_backward` is a protobuf, its result too; all else is JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from services.backing import Chunk
from services.backing_training import BadRequestError, Example, Run, Saved, Shape
from services.faults import cut_line
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tinker.proto import tinker_public_pb2 as wire

_DTYPES = {wire.DTYPE_FLOAT32: np.float32, wire.DTYPE_INT64: np.int64}


@dataclass
class Model:
    """One training run, and the work that it was given."""

    id: str
    run: Run
    promises: dict[int, str] = field(default_factory=dict)
    """Sequence number → promise."""
    refused: dict[int, Any] = field(default_factory=dict)
    """Sequence numbers of requests that were refused."""
    done: int = 0
    """Sequence numbers up to here are worked off."""
    turn: asyncio.Condition = field(default_factory=asyncio.Condition)
    names: set[str] = field(default_factory=set)
    """Kinds and names of its checkpoints."""


class TinkerTraining:
    """The routes of training; `TinkerService` has the rest."""

    backing: Any
    faults: Any
    asked: list[tuple[str, Any]]
    promises: dict[str, asyncio.Task[Response]]
    samplers: dict[str, Any]

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}
        self.saved: dict[str, Saved] = {}
        """By path."""
        self.metadata: list[Any] = []
        """What runs were called."""

    def training_routes(self) -> dict[str, Callable[..., Any]]:
        return {
            "create_model": self.create_model,
            "load_weights": self.load_weights,
            "get_info": self.get_info,
            "forward_backward": self.forward_backward,
            "optim_step": self.optim_step,
            "save_weights": self.save_weights,
            "save_weights_for_sampler": self.save_for_sampler,
        }

    # --- runs

    def create_model(self, request: Request, body: Any) -> Response | dict[str, Any]:
        asked = body["lora_config"]
        shape = Shape(asked["rank"], asked.get("seed"), asked["train_mlp"], asked["train_attn"], asked["train_unembed"])
        return self._new(body, lambda: Run(self.backing, body["base_model"], shape))

    def load_weights(self, request: Request, body: Any) -> Response | dict[str, Any]:
        saved = self.saved.get(body["path"])
        if saved is None or "/weights/" not in body["path"]:
            return _refused(404, f"no weights at {body['path']}")
        return self._new(body, lambda: Run.resumed(self.backing, saved, optimizer=body["optimizer"]))

    def _new(self, body: Any, made: Callable[[], Run]) -> dict[str, Any]:
        name = f"{body['session_id']}:train:{body['model_seq_id']}"
        self.metadata.append(body.get("user_metadata"))

        async def work() -> Response:
            self.models[name] = Model(name, await asyncio.to_thread(made))
            return JSONResponse({"model_id": name, "type": body["type"]})

        self.promises[name] = asyncio.ensure_future(work())
        return {"request_id": name, "model_id": name}

    def get_info(self, request: Request, body: Any) -> dict[str, Any]:
        run = self.models[body["model_id"]].run
        return {
            "type": "get_info",
            "model_data": {"arch": "unknown", "model_name": run.name, "tokenizer_id": run.name},
            "model_id": body["model_id"],
            "is_lora": True,
            "lora_rank": run.shape.rank,
            "model_name": run.name,
        }

    # --- work

    async def forward_backward(self, request: Request, body: Any) -> Response | dict[str, Any]:
        asked = wire.ForwardBackwardRequest.FromString(await request.body())
        self.asked[-1] = (request.url.path, asked)
        return await self._promise(asked.model_id, asked.seq_id, lambda run: self._gradient(run, asked))

    async def optim_step(self, request: Request, body: Any) -> Response | dict[str, Any]:
        def work(run: Run) -> Response:
            norm = run.step(body["adam_params"])
            return JSONResponse({"metrics": {"unclipped_grad_l2:mean": norm}})

        return await self._promise(body["model_id"], body["seq_id"], work)

    async def save_weights(self, request: Request, body: Any) -> Response | dict[str, Any]:
        return await self._save(body, "weights", optimizer=True)

    async def save_for_sampler(self, request: Request, body: Any) -> Response | dict[str, Any]:
        if "path" in body:
            return await self._save(body, "sampler_weights", optimizer=False)
        session = self.models[body["model_id"]].id.partition(":")[0]
        name = f"{session}:sample:{body['sampling_session_seq_id']}"

        def work(run: Run) -> Response:
            self.samplers[name] = run.sampler()
            return JSONResponse({"sampling_session_id": name, "type": "save_weights_for_sampler"})

        return await self._promise(body["model_id"], body["seq_id"], work)

    async def _save(self, body: Any, kind: str, *, optimizer: bool) -> Response | dict[str, Any]:
        model = self.models[body["model_id"]]
        label = f"{kind}/{body['path']}"
        seq = body["seq_id"]
        if label in model.names and not body.get("overwrite") and seq not in model.promises:
            if seq not in model.refused:  # its turn passes all the same
                model.refused[seq] = asyncio.ensure_future(self._in_turn(model, seq, lambda run: Response()))
            return _refused(409, f"Checkpoint {body['path']!r} already exists for model {model.id} in {kind}.")
        model.names.add(label)
        path = f"tinker://{model.id}/{label}"

        def work(run: Run) -> Response:
            self.saved[path] = run.saved(optimizer=optimizer)
            return JSONResponse({"path": path, "type": body["type"]})

        return await self._promise(body["model_id"], seq, work)

    async def _promise(self, model_id: str, seq: int, work: Callable[[Run], Response]) -> Response | dict[str, Any]:
        if self.faults.training_statuses:
            return _refused(self.faults.training_statuses.pop(0), "not now")
        model = self.models[model_id]
        name = f"{model_id}:{seq}"
        if seq not in model.promises:
            model.promises[seq] = name
            self.promises[name] = asyncio.ensure_future(self._in_turn(model, seq, work))
        if self.faults.training_drops > 0:
            self.faults.training_drops -= 1
            return cut_line()
        return {"request_id": name, "model_id": model_id}

    async def _in_turn(self, model: Model, seq: int, work: Callable[[Run], Response]) -> Response:
        async with model.turn:
            await model.turn.wait_for(lambda: model.done == seq - 1)
            while self.faults.training_stalls:
                await asyncio.sleep(0.005)
            try:
                if self.faults.training_fails:
                    said, self.faults.training_fails = self.faults.training_fails, ""
                    return JSONResponse({"error": said, "category": "server"})
                return await asyncio.to_thread(work, model.run)
            except BadRequestError as e:
                return JSONResponse({"error": str(e), "category": "user"})
            finally:
                model.done = seq
                model.turn.notify_all()

    def _gradient(self, run: Run, asked: Any) -> Response:
        examples = []
        for datum in asked.data:
            numbers = {name: _tensor(value) for name, value in datum.loss_fn_inputs.items()}
            targets = [int(t) for t in numbers.pop("target_tokens")]
            if min(targets) < 0:
                raise BadRequestError("a target is no token id")
            chunks = [_chunk(c) for c in datum.model_input]
            _, counts, _ = self.backing.read(chunks)
            told = [c.image.expected_tokens for c in datum.model_input if c.HasField("image")]
            if told != counts:
                raise BadRequestError(f"images have {counts} tokens, expected_tokens are {told}")
            examples.append(Example(chunks, targets, numbers))
        config = dict(asked.loss_fn_config)
        found, total, _ = run.forward(examples, asked.loss_fn, config, divisor=1.0, learn=not asked.forward_only)
        total *= self.faults.training_loss_factor
        reply = wire.ForwardBackwardOutput(loss_fn_output_type="tinker:ArrayRecord", metrics={"loss:sum": total})
        record = reply.loss_fn_outputs.add(type_tag="ArrayRecord", num_datums=len(found))
        if self.faults.training_loses_logprobs:
            return Response(reply.SerializeToString(), media_type="application/x-protobuf")
        flat = np.concatenate([np.array(p, dtype=np.float32) for p in found])
        ends = np.cumsum([0, *(4 * len(p) for p in found)]).astype(np.int64)
        one = record.fields["logprobs"]
        one.data, one.offsets, one.dtype = flat.tobytes(), ends.tobytes(), wire.DTYPE_FLOAT32
        return Response(reply.SerializeToString(), media_type="application/x-protobuf")


def _tensor(value: Any) -> list[float]:
    dtype = _DTYPES[value.dtype]
    return np.frombuffer(value.dense, dtype=dtype).reshape(list(value.shape)).tolist()  # type: ignore[no-any-return]


def _chunk(told: Any) -> Chunk:
    if told.HasField("image"):
        return bytes(told.image.data)
    return tuple(np.frombuffer(told.encoded_text.tokens, dtype=np.int32).tolist())


def _refused(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status)
