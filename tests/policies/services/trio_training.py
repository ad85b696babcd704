"""Training at the loopback PyTRIO: runs, events and checkpoints on the wire of pytrio 0.2.9.

Control makes a run and says who works on it; the actor takes its events as MessagePack (`POST /v1/events`), in the
order of their index, and is asked for what became of each (`GET /v1/events/{id}`). An event that comes again is
answered with 409 `event_exists`. Every gradient comes with the totals of the whole batch, by which it is divided: here
always by the active tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
from services.backing import Backing, Chunk
from services.backing_training import IGNORED, BadRequestError, Example, Run, Saved, Shape
from services.faults import cut_line
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


@dataclass
class TrainingRun:
    """One training run, and the events that it was sent."""

    cuid: str
    shape: Shape
    model: str
    source: str
    restore: bool
    run: Run | None = None
    """From `trainer.init_run` on."""
    events: int = 0
    """So many it was sent."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    names: set[str] = field(default_factory=set)


class TrioTraining:
    """The routes of training; `TrioService` has the rest."""

    backing: Backing
    faults: Any
    asked: list[tuple[str, Any]]
    context: int
    _control: Callable[..., Any]
    _actor: Callable[..., dict[str, Any]]

    def __init__(self) -> None:
        self.runs: dict[str, TrainingRun] = {}
        self.saved: dict[str, Saved] = {}
        """By address."""
        self.events: dict[str, tuple[dict[str, Any], asyncio.Task[dict[str, Any]]]] = {}
        """Id → how an answer to it begins, and its work."""
        self.pieces = 64
        """Datums that the SDK puts into one event."""

    def training_routes(self) -> list[Route]:
        api = "/api/openapi/v1"
        sessions = f"{api}/service-sessions/{{id}}/training-runs"
        return [
            Route(sessions, self._control(self.create_run), methods=["POST"]),
            Route(f"{api}/training-runs/by-checkpoint-uri", self._control(self.of_checkpoint)),
            Route(f"{api}/training-runs/{{id}}/renew", self._control(self.renew_run), methods=["POST"]),
            Route("/v1/events", self.take_event, methods=["POST"]),
            Route("/v1/events/{id}", self.event),
            Route("/v1/client/heartbeat", self.heartbeat, methods=["POST"]),
        ]

    # --- runs

    def create_run(self, request: Request, body: Any) -> Response | dict[str, Any]:
        source = body["source_checkpoint_uri"]
        if source and source not in self.saved:
            return _refused(404, "checkpoint_not_found", f"no checkpoint {source}")
        model = self.saved[source].model if source else body["base_model"]
        shape = Shape(body["lora_rank"], body.get("seed"), body["train_mlp"], body["train_attn"], body["train_unembed"])
        cuid = f"run-{len(self.runs) + 1}"
        self.runs[cuid] = TrainingRun(cuid, shape, model, source, body["restore_optimizer"])
        return {
            **_ids(cuid),
            "status": "ACTIVE",
            "run_index": len(self.runs),
            "model_spec_cuid": "model-0",
            "model_alias": model.lower(),
            "model_id": model,
            "trainer": {"max_batch_size": self.pieces, "max_tokens_per_request": None, "max_seq_len": self.context},
            **self._actor(),
            "created_at": "2026-01-01T00:00:00Z",
        }

    def of_checkpoint(self, request: Request, body: Any) -> Response | dict[str, Any]:
        address = request.query_params["checkpoint_uri"]
        saved = self.saved.get(address)
        if saved is None or "/weights/" not in address:
            return _refused(404, "checkpoint_not_found", f"no checkpoint {address}")
        shape = saved.shape
        return {
            "base_model": saved.model,
            "lora_rank": shape.rank,
            "seed": shape.seed,
            "train_mlp": shape.mlp,
            "train_attn": shape.attention,
            "train_unembed": shape.unembed,
        }

    def renew_run(self, request: Request, body: Any) -> dict[str, Any]:
        return {**_ids(request.path_params["id"]), **self._actor()}

    # --- events

    async def heartbeat(self, request: Request) -> Response:
        return JSONResponse({})

    async def take_event(self, request: Request) -> Response:
        told = msgpack.unpackb(await request.body(), raw=False)
        self.asked.append((f"/v1/events/{told['type']}", told["payload"]))
        if request.headers.get("authorization") != "Bearer jwt-1":
            return _actor_refused(401, "unauthorized", "no such token")
        if self.faults.training_statuses:
            return _actor_refused(self.faults.training_statuses.pop(0), self.faults.code, "not now")
        run = self.runs[told["metadata"]["run_id"]]
        if told["event_id"] in self.events:
            return _actor_refused(409, "event_exists", "this event is known")
        run.events += 1
        assert told["metadata"]["index"] == run.events
        head = {"version": 1, "event_id": told["event_id"], "type": told["type"]}
        self.events[told["event_id"]] = head, asyncio.ensure_future(self._worked(run, told))
        if self.faults.training_drops > 0:
            self.faults.training_drops -= 1
            return cut_line()
        return _packed({**head, "status": "accepted"})

    async def event(self, request: Request) -> Response:
        head, task = self.events[request.path_params["id"]]
        done, _ = await asyncio.wait([task], timeout=20)  # who asks waits half a second before it asks again
        return _packed({**head, **(task.result() if done else {"status": "running"})})

    async def _worked(self, run: TrainingRun, told: dict[str, Any]) -> dict[str, Any]:
        async with run.turn:
            while self.faults.training_stalls:
                await asyncio.sleep(0.005)
            try:
                if self.faults.training_fails:
                    said, self.faults.training_fails = self.faults.training_fails, ""
                    raise RuntimeError(said)
                result = await asyncio.to_thread(self._work, run, told["type"], told["payload"])
            except (BadRequestError, FileExistsError, RuntimeError) as e:
                code = {BadRequestError: "validation_failed", FileExistsError: "checkpoint_name_exists"}
                error = {"code": code.get(type(e), "internal_error"), "message": str(e)}
                return {"status": "failed", "error": error, "usage": _USAGE}
        return {"status": "succeeded", "result": result, "usage": _USAGE}

    def _work(self, run: TrainingRun, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        if kind == "trainer.init_run":
            if run.source:
                run.run = Run.resumed(self.backing, self.saved[run.source], optimizer=run.restore)
            else:
                run.run = Run(self.backing, run.model, run.shape)
            return {}
        assert run.run is not None
        if kind == "trainer.optimize_step":
            return {"metrics": {"grad_norm": run.run.step(payload["adam_params"])}}
        if kind in ("trainer.save_state", "trainer.save_weights"):
            return self._save(run, payload, state=kind == "trainer.save_state")
        return self._gradient(run.run, payload, learn=kind == "trainer.forward_backward")

    def _save(self, run: TrainingRun, payload: dict[str, Any], *, state: bool) -> dict[str, Any]:
        label = f"{'weights' if state else 'sampler_weights'}/{payload['name']}"
        if label in run.names and not payload["overwrite"]:
            raise FileExistsError(f"there is a checkpoint {payload['name']!r} already")
        run.names.add(label)
        address = f"trio://{run.cuid}/{label}"
        assert run.run is not None
        self.saved[address] = run.run.saved(optimizer=state)
        return {"checkpoint": {"uri": address, "model_id": run.model, "size_bytes": 1}}

    def _gradient(self, run: Run, payload: dict[str, Any], *, learn: bool) -> dict[str, Any]:
        examples = []
        for datum in payload["data"]:
            chunks = [_chunk(c) for c in datum["model_input"]["chunks"]]
            numbers = {name: datum[name] for name in ("weights", "logprobs", "advantages") if name in datum}
            examples.append(Example(chunks, datum["target_ids"], numbers))
        spec = payload["loss"]
        active = payload["gradient_accumulation"]["total_active_tokens"]
        found, total, count = run.forward(examples, spec["type"], spec["config"], divisor=active, learn=learn)
        total *= self.faults.training_loss_factor
        for logprobs, example in zip(found, examples, strict=True):
            logprobs[:] = [0.0 if t == IGNORED else p for p, t in zip(logprobs, example.targets, strict=True)]
        return {
            "loss_fn_outputs": [{} if self.faults.training_loses_logprobs else {"logprobs": _tensor(p)} for p in found],
            "metrics": {"loss_sum": total, "loss_mean": total / max(count, 1), "token_count": count},
        }


_USAGE = {"input_tokens": 0, "output_tokens": 0}


def _tensor(values: list[float]) -> dict[str, Any]:
    data = np.array(values, dtype="<f4")
    return {"dtype": "<f4", "shape": list(data.shape), "encoding": "raw_le", "data": data.tobytes()}


def _chunk(told: dict[str, Any]) -> Chunk:
    return bytes(told["data"]) if told["type"] == "image" else tuple(told["tokens"])


def _ids(cuid: str) -> dict[str, str]:
    return {"training_run_cuid": cuid, "service_session_cuid": "session-1", "workspace_cuid": "workspace-1"}


def _packed(value: dict[str, Any]) -> Response:
    return Response(msgpack.packb(value), media_type="application/msgpack")


def _refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"code": code, "message": message}, status)


def _actor_refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)
