"""A loopback service that speaks the wire protocol of pytrio 0.2.9: what its SDK sends and what it accepts as a reply.

The real service is closed and may differ; this is what a contract test of the SDK can hold. "Control" (`/api/…`: keys,
models, sessions, runs) answers in JSON to `X-API-Key`; an "actor" (`/v1/…`: sampling) answers to the bearer token that
control handed out. Errors are `{"code", "message"}` from control and `{"error": {…}}` from an actor.

Training is in `services.trio_training`.
"""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from services.backing import Backing, Chunk, Faults
from services.backing_training import Run
from services.trio_training import TrioTraining
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

MODEL = "Qwen/Qwen2.5-VL-3B-Instruct"
UNTRAINED = "Qwen/Qwen2.5-VL-7B-Instruct"
WEIGHTS = "trio://run-1/sampler_weights/step-4"


class TrioService(TrioTraining):
    """The service, with all that it was asked in `asked` (path, JSON body)."""

    def __init__(self, backing: Backing, faults: Faults | None = None, context: int = 4096) -> None:
        super().__init__()
        self.backing = backing
        self.faults = faults or Faults()
        self.context = context
        self.asked: list[tuple[str, Any]] = []
        self.inside, self.most_inside = 0, 0
        self.address = ""
        self.samplers: dict[str, Backing] = {}
        """What samples, by sampling run."""
        self.app = Starlette(routes=self.routes())

    def routes(self) -> list[Route]:
        api = "/api/openapi/v1"
        return [
            Route(f"{api}/api-key/verify", self._control(self.verify)),
            Route("/api/sdk/bootstrap", self._control(self.bootstrap)),
            Route("/api/models", self._control(self.models)),
            Route(f"{api}/service-sessions", self._control(self.create_session), methods=["POST"]),
            Route(f"{api}/service-sessions/{{id}}/close", self._control(self.close_session), methods=["POST"]),
            Route(f"{api}/service-sessions/{{id}}/sampling-runs", self._control(self.create_sampler), methods=["POST"]),
            Route(f"{api}/sampling-runs/{{id}}/renew", self._control(self.renew), methods=["POST"]),
            Route("/v1/sampling-runs/{id}/sample", self.sample, methods=["POST"]),
            Route("/api/telemetry/event", self._control(self.telemetry), methods=["POST"]),
            *self.training_routes(),
        ]

    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [path for path, _ in self.asked]

    def sampled(self) -> list[dict[str, Any]]:
        """The bodies of sampling requests, in order."""
        return [body for path, body in self.asked if path.endswith("/sample")]

    # --- control

    def _control(self, answer: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            self.address = str(request.base_url)
            body = await request.json() if request.method == "POST" and await request.body() else None
            self.asked.append((request.url.path, body))
            if self.faults.stall_opening:
                await asyncio.sleep(3600)
            if request.headers.get("x-api-key") != self.faults.key:
                return _refused(401, "unauthorized", "API key is not valid")
            answered: Response | dict[str, Any] = answer(request, body)
            return answered if isinstance(answered, Response) else JSONResponse(answered)

        return endpoint

    def verify(self, request: Request, body: Any) -> dict[str, Any]:
        return {
            "api_key_tid": "key-1",
            "api_key_name": None,
            "user_cuid": "user-1",
            "username": "ada",
            "display_name": None,
            "workspace_cuid": "workspace-1",
            "workspace_name": "spectra",
            "workspace_type": "personal",
            "expires_at": None,
        }

    def bootstrap(self, request: Request, body: Any) -> dict[str, Any]:
        version = request.query_params["sdk_version"]
        return {"compatibility": {"status": "compatible", "sdk_version": version}, "notices": []}

    def models(self, request: Request, body: Any) -> dict[str, Any]:
        limits = {"max_batch_size": 64, "max_tokens_per_request": None, "max_seq_len": self.context}
        items = [
            {
                "cuid": f"model-{i}",
                "alias": name.lower(),
                "model_id": name,
                "context_length": 32_768,
                "train_available": name == MODEL,
                "sample_available": True,
                "trainer": limits,
                "sampler": limits,
                "created_at": _now(),
                "updated_at": _now(),
            }
            for i, name in enumerate((MODEL, UNTRAINED))
        ]
        return {"items": items, "total": len(items), "limit": 100, "offset": 0}

    def create_session(self, request: Request, body: Any) -> dict[str, Any]:
        return {**_ids(), "status": "ACTIVE", "created_at": _now()}

    def close_session(self, request: Request, body: Any) -> dict[str, Any]:
        return {}

    def create_sampler(self, request: Request, body: Any) -> Response | dict[str, Any]:
        if self.faults.empty_account:
            return _refused(402, "billing_insufficient_balance", "balance is exhausted")
        if self.faults.statuses:
            return _refused(self.faults.statuses.pop(0), self.faults.code, "not now")
        source = body["source_checkpoint_uri"]
        name = f"sampler-{len(self.samplers) + 1}"
        if source in self.saved:
            self.samplers[name] = Run.resumed(self.backing, self.saved[source], optimizer=False).sampler()
        elif source in ("", WEIGHTS):
            self.samplers[name] = self.backing
        else:
            return _refused(404, "checkpoint_not_found", f"no checkpoint {source}")
        return {
            **_ids(),
            "sampling_run_cuid": name,
            "status": "ACTIVE",
            "run_index": 1,
            "model_spec_cuid": "model-0",
            "model_alias": body["base_model"].lower(),
            "model_id": body["base_model"],
            "sampler": {"max_batch_size": 64, "max_tokens_per_request": None, "max_seq_len": self.context},
            **self._actor(),
            "created_at": _now(),
        }

    def renew(self, request: Request, body: Any) -> dict[str, Any]:
        return {**_ids(), "sampling_run_cuid": request.path_params["id"], **self._actor()}

    def telemetry(self, request: Request, body: Any) -> dict[str, Any]:
        return {}

    def _actor(self) -> dict[str, Any]:
        later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        actor = {"actor_cuid": "actor-1", "endpoint": self.address, "connect_mode": "direct", "tls_enabled": False}
        return {"actor": actor, "actor_jwt": {"token": "jwt-1", "expires_at": later}}

    # --- actor

    async def sample(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append((request.url.path, body))
        faults = self.faults
        if request.headers.get("authorization") != "Bearer jwt-1":
            return _actor_refused(401, "unauthorized", "no such token")
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            while faults.stall or self.most_inside < faults.hold_until:
                await asyncio.sleep(0.005)
            if faults.statuses:
                return _actor_refused(faults.statuses.pop(0), faults.code, "not now")
            return await self._answer(request.path_params["id"], body)
        finally:
            self.inside -= 1

    async def _answer(self, name: str, body: dict[str, Any]) -> Response:
        backing = self.samplers[name]
        chunks = [_chunk(c) for c in body["prompt"]["chunks"]]
        if self.faults.blind:
            chunks = self.backing.blinded(chunks)
        ids, _, _ = self.backing.read(chunks)  # counted from the pictures; `expected_tokens` changes nothing here
        asked = body["sampling_params"]
        if len(ids) + asked["max_tokens"] > self.context:
            return _actor_refused(400, "validation_failed", f"more than {self.context} tokens")
        params = {**asked, "stop": asked["stop_token_ids"]}
        found = await backing.sample_async(chunks, body["num_samples"], params)
        sequences = []
        for one in found:
            cut = len(one.ids) - (self.faults.leave_out_end and one.reason == "stop")
            tokens, logprobs = one.ids[:cut], one.logprobs[: cut - self.faults.lose_logprobs]
            text = self.backing.format.vocabulary.decode(tokens) if body["return_text"] else None
            sequences.append({"tokens": tokens, "logprobs": logprobs, "text": text, "stop_reason": one.reason})
        wanted = body["return_prompt_logprobs"]
        return JSONResponse(
            {
                "request_id": body["request_id"],
                "sampling_run": name,
                "sequences": sequences,
                "prompt_logprobs": backing.prompt_logprobs(chunks) if wanted else None,
                "usage": {
                    "input_tokens": len(ids) + self.faults.miscount,
                    "output_tokens": sum(len(s.ids) for s in found),
                },
            }
        )


def _chunk(wire: dict[str, Any]) -> Chunk:
    return base64.b64decode(wire["data"], validate=True) if wire["type"] == "image" else tuple(wire["tokens"])


def _ids() -> dict[str, str]:
    return {"service_session_cuid": "session-1", "workspace_cuid": "workspace-1"}


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"code": code, "message": message}, status)


def _actor_refused(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)
