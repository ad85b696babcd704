"""A loopback service that speaks the wire protocol of tinker 0.38.0: what its SDK sends and what it accepts as a reply.

The real service is closed and may differ; this is what a contract test of the SDK can hold. Requests are JSON with
`X-API-Key`; work is asked for (`asample` gives a promise) and fetched (`retrieve_future`), where 408 means "still
waiting", a JSON `error` that it failed, and a sampling result is the protobuf `SampleResponse`.

Training is in `services.tinker_training`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable
from functools import cache
from typing import Any

import numpy as np
from services.backing import Backing, Chunk, Faults, Sampled
from services.backing_training import Run
from services.tinker_training import TinkerTraining
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tinker.proto import tinker_public_pb2 as wire

MODEL = "Qwen/Qwen3-VL-30B-A3B-Instruct"
UNTRAINED = "Qwen/Qwen3-VL-235B-A22B-Instruct"
WEIGHTS = "tinker://run-1:train:0/sampler_weights/step-4"
_STOPS = {"stop": wire.STOP_REASON_STOP, "length": wire.STOP_REASON_LENGTH}


class TinkerService(TinkerTraining):
    """The service, with all that it was asked in `asked` (path, JSON body)."""

    def __init__(self, backing: Backing, faults: Faults | None = None, context: int = 4096) -> None:
        super().__init__()
        self.backing = backing
        self.faults = faults or Faults()
        self.context = context
        self.asked: list[tuple[str, Any]] = []
        self.inside, self.most_inside = 0, 0
        self.queue_state = "active"
        self.rust = False
        """Whether the SDK uses its own transport, which a test that watches Python's sockets does not see."""
        self.old = False
        """Whether it predates `prompt_logprobs_last_n`."""
        self.promises: dict[str, asyncio.Task[Response]] = {}
        self.samplers: dict[str, Backing] = {}
        """What samples, by sampling session."""
        self.pieces = 1024
        """Datums that the SDK puts into one request."""
        self._sessions = 0
        self._shown: set[bytes] = set()
        self.app = Starlette(routes=self.routes())

    def routes(self) -> list[Route]:
        posts = {
            "client/config": self.config,
            "auth/token": self.token,
            "client/dynamic_config": self.dynamic_config,
            "create_session": self.create_session,
            "session_heartbeat": self.heartbeat,
            "sessions/{id}/finish": self.finish,
            "create_sampling_session": self.create_sampler,
            "asample": self.asample,
            "retrieve_future": self.retrieve,
            "telemetry": self.telemetry,
            **self.training_routes(),
        }
        gets = {"get_server_capabilities": self.capabilities, "samplers/{id}": self.sampler}
        return [Route(f"/api/v1/{path}", self._let_in(f), methods=["POST"]) for path, f in posts.items()] + [
            Route(f"/api/v1/{path}", self._let_in(f)) for path, f in gets.items()
        ]

    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [path for path, _ in self.asked]

    def sampled(self) -> list[dict[str, Any]]:
        """The bodies of sampling requests, in order."""
        return [body for path, body in self.asked if path.endswith("/asample")]

    def _let_in(self, answer: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            binary = "protobuf" in request.headers.get("content-type", "")
            body = await request.json() if not binary and await request.body() else None
            self.asked.append((request.url.path, body))
            if self.faults.stall_opening:
                await asyncio.sleep(3600)
            if request.headers.get("x-api-key") not in (self.faults.key, _jwt()):
                return _refused(401, "invalid API key")
            answered = answer(request, body)
            if isinstance(answered, Awaitable):
                answered = await answered
            return answered if isinstance(answered, Response) else JSONResponse(answered)

        return endpoint

    # --- session

    def config(self, request: Request, body: Any) -> dict[str, Any]:
        return {
            "use_pyqwest_transport": self.rust,
            "pjwt_auth_enabled": True,
            "fwdbwd_max_chunk_len": self.pieces,
        }

    def token(self, request: Request, body: Any) -> dict[str, Any]:
        return {"jwt": _jwt()}

    def dynamic_config(self, request: Request, body: Any) -> dict[str, Any]:
        return {"sample_cancel_enabled": False}

    def create_session(self, request: Request, body: Any) -> Response | dict[str, Any]:
        if self.faults.empty_account:
            return _refused(402, "billing is not set up")
        self._sessions += 1
        return {"type": "create_session", "session_id": f"session-{self._sessions}"}

    def heartbeat(self, request: Request, body: Any) -> dict[str, Any]:
        return {"type": "session_heartbeat"}

    def finish(self, request: Request, body: Any) -> Response:
        return Response(status_code=204)

    def telemetry(self, request: Request, body: Any) -> dict[str, Any]:
        return {"status": "accepted"}

    def capabilities(self, request: Request, body: Any) -> dict[str, Any]:
        models = [
            {"model_name": name, "max_context_length": self.context, "trainable": name == MODEL, "sampleable": True}
            for name in (MODEL, UNTRAINED)
        ]
        return {"supported_models": models}

    def create_sampler(self, request: Request, body: Any) -> Response | dict[str, Any]:
        path = body.get("model_path")
        name = f"{body['session_id']}:sample:{body['sampling_session_seq_id']}"
        if path in self.saved:
            self.samplers[name] = Run.resumed(self.backing, self.saved[path], optimizer=False).sampler()
        elif path in (None, WEIGHTS):
            self.samplers[name] = self.backing
        else:
            return _refused(404, f"no weights at {path}")
        return {"type": "create_sampling_session", "sampling_session_id": name}

    def sampler(self, request: Request, body: Any) -> dict[str, Any]:
        return {"sampler_id": request.path_params["id"], "base_model": MODEL, "model_path": WEIGHTS}

    # --- sampling

    def asample(self, request: Request, body: Any) -> Response | dict[str, Any]:
        if self.faults.statuses:
            return _refused(self.faults.statuses.pop(0), "not now")
        name = f"{body['sampling_session_id']}:{body['seq_id']}"
        self.promises[name] = asyncio.ensure_future(self._work(body))
        return {"request_id": name, "sample_sequence_ids": [f"{name}/{i}" for i in range(body["num_samples"])]}

    async def retrieve(self, request: Request, body: Any) -> Response:
        task = self.promises[body["request_id"]]
        done, _ = await asyncio.wait([task], timeout=0.1)
        if not done:
            waiting = {"type": "try_again", "request_id": body["request_id"], "queue_state": self.queue_state}
            return JSONResponse(waiting, 408)
        return task.result()

    async def _work(self, body: dict[str, Any]) -> Response:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            while self.faults.stall or self.most_inside < self.faults.hold_until:
                await asyncio.sleep(0.005)
            return await self._answer(body)
        finally:
            self.inside -= 1

    async def _answer(self, body: dict[str, Any]) -> Response:
        chunks = [_chunk(c) for c in body["prompt"]["chunks"]]
        if self.faults.blind:
            chunks = self.backing.blinded(chunks)
        ids, counts, _ = self.backing.read(chunks)
        expected = [c.get("expected_tokens") for c in body["prompt"]["chunks"] if c["type"] == "image"]
        for count, told in zip(counts, expected, strict=True):
            if told is not None and told != count:
                return _failed(f"image has {count} tokens, expected_tokens is {told}")
        if len(ids) + body["sampling_params"]["max_tokens"] > self.context:
            return _failed(f"prompt and max_tokens are more than {self.context} tokens")
        backing = self.samplers[body["sampling_session_id"]]
        found = await backing.sample_async(chunks, body["num_samples"], body["sampling_params"])
        reply = wire.SampleResponse(prompt_cache_hit_tokens=self._cached(ids, chunks))
        for one in found:
            reply.sequences.append(self._sequence(one))
        if body.get("prompt_logprobs"):
            values = [np.nan if x is None else x for x in backing.prompt_logprobs(chunks)]
            if not self.old and (last := body.get("prompt_logprobs_last_n")):
                values[:-last] = [np.nan] * (len(values) - last)
            reply.prompt_logprobs = np.array([np.nan] * self.faults.miscount + values, dtype=np.float32).tobytes()
        return Response(reply.SerializeToString(), media_type="application/x-protobuf")

    def _sequence(self, one: Sampled) -> wire.SampledSequence:
        cut = len(one.ids) - (self.faults.leave_out_end and one.reason == "stop")
        return wire.SampledSequence(
            stop_reason=_STOPS[one.reason],
            tokens=np.array(one.ids[:cut], dtype=np.int32).tobytes(),
            logprobs=np.array(one.logprobs[: cut - self.faults.lose_logprobs], dtype=np.float32).tobytes(),
        )

    def _cached(self, ids: list[int], chunks: list[Chunk]) -> int:
        """Tokens of the longest prefix, in steps of 16 as an engine keeps them, that some earlier prompt began with."""
        pictures = b"".join(c for c in chunks if isinstance(c, bytes))
        steps = [repr((ids[:n], len(pictures))).encode() for n in range(16, len(ids), 16)]
        hit = max((16 * (i + 1) for i, step in enumerate(steps) if step in self._shown), default=0)
        self._shown.update(steps)
        return hit


@cache
def _jwt() -> str:
    """A token as the service exchanges a key for; nobody checks its signature."""
    now = int(time.time())
    claims = {"iat": now, "exp": now + 3600, "sub": "urn:user:1", "org_id": "org-1", "email": "ada@example.org"}
    parts = ({"alg": "none"}, claims)
    return ".".join([base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts] + ["none"])


def _chunk(told: dict[str, Any]) -> Chunk:
    return base64.b64decode(told["data"], validate=True) if told["type"] == "image" else tuple(told["tokens"])


def _refused(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status)


def _failed(error: str) -> Response:
    return JSONResponse({"error": error, "category": "user"})
