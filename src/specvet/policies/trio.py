"""The policy `trio`: a model that the PyTRIO service samples from (pytrio 0.2.9).

Text goes as token ids, a picture as its PNG bytes with `expected_tokens`, which this SDK uses for its own estimates
only: the service counts again from the picture's size and says in `input_tokens` what it came to. That is
`Samples.prompt_tokens`, to be held against the ledger. It does not say what it had cached, and it gives no log-probs of
a prompt that has pictures: what was sampled has log-probs, what was shown has none.

pytrio keeps its settings for the whole process and copies them when a client is made. They are set for that moment and
put back: more requests in flight than its 16, retries that end before our deadline, a read timeout behind it (a read
that times out would be sent again, and paid again). Its telemetry is switched off, its exception hook is taken out.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from specvet.chat import ChatFormat, ImageSegment
from specvet.policies.options import ModelOptions
from specvet.policies.remote import Problem, Service, in_our_words, resolve, sequence, wire_seed, wire_stops, within
from specvet.policies.remote_policy import RemotePolicy, Reply
from specvet.policies.remote_setup import LiveModel, format_of, identity, model_named
from specvet.policies.tokens import PolicyError, SamplingParams

T = TypeVar("T")

SERVICE = Service("trio", "log in with `trio login`, or set PYTRIO_API_KEY", "trio://")

MAX_IN_FLIGHT = 96
"""pytrio 0.2.9 opens at most 100 connections to a sampler; beyond that, requests would wait unseen inside it."""
RETRY_SHARE = 0.75
"""Part of the deadline in which the SDK may retry, so that its own error, which knows the reason, comes first."""

_configuring = threading.Lock()


class TrioPolicy(RemotePolicy):
    """A model at the PyTRIO service. Made by `open_policy`, and by a trainer for the weights that it has.

    `client` is the session that ends with the policy; None where somebody else ends it.
    """

    name = "trio"
    service = SERVICE

    def __init__(self, client: Any, sampler: Any, format: ChatFormat, identity: tuple[str, ...], **kept: Any) -> None:
        super().__init__(format, identity, **kept)
        self._client = client
        self._sampler = sampler

    def _prompt(self, chunks: list[tuple[int, ...] | ImageSegment]) -> Any:
        return model_input(chunks)

    async def _send(self, prompt: Any, n: int, params: SamplingParams) -> Reply:
        from pytrio import SamplingParams as TrioParams

        asked = TrioParams(
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k or -1,
            seed=wire_seed(params.seed),
            stop=wire_stops(self.format.stop_ids, params.stop, self.format.vocabulary),
        )
        # The blocking `sample` waits for a place in the SDK's queue; its twin waits without blocking this loop.
        got = await resolve(
            self._sampler.sample_async(prompt=prompt, num_samples=n, sampling_params=asked, return_text=False)
        )
        stops = self.format.stop_ids
        return Reply(
            tuple(sequence(s.tokens, s.logprobs, s.stop_reason, stops, params.max_tokens) for s in got.sequences),
            prompt_tokens=got.input_tokens or None,  # the SDK fills in 0 where the service says nothing
        )

    def _explained(self, e: Exception, opening: bool) -> PolicyError:
        return explained(e, opening)

    def _close(self) -> None:
        if self._client is not None:
            shut(self._client)


def model_input(chunks: Iterable[tuple[int, ...] | ImageSegment]) -> Any:
    """Runs of ids and pictures as a `pytrio.ModelInput`."""
    from pytrio import ImageChunk, ModelInput
    from pytrio.types import EncodedTextChunk

    return ModelInput(
        chunks=[
            ImageChunk(data=c.png, format="png", expected_tokens=c.n_tokens)
            if isinstance(c, ImageSegment)
            else EncodedTextChunk(tokens=list(c))
            for c in chunks
        ]
    )


def open_policy(options: ModelOptions) -> TrioPolicy:
    """The model `options.model` at the service, with the weights `options.adapter` (`trio://…`) if given.

    `options.branches` requests are in flight at a time, 96 at most. Blocks until the service has a sampler for us, at
    most `options.timeout_s`. Raises PolicyError, TimeoutError.
    """
    import_sdk()
    in_flight = min(options.branches, MAX_IN_FLIGHT)
    if not options.model:
        raise SERVICE.problem("model", "no base model was named", opening=True)
    if options.adapter and not options.adapter.startswith(SERVICE.scheme):
        raise SERVICE.problem("weights", f"{options.adapter!r} is no path of weights at this service", opening=True)
    model = options.model
    format = format_of(SERVICE, options, model)

    def opened() -> TrioPolicy:
        client = connected(options.base_url, options.timeout_s, in_flight)
        try:
            offered = model_named(SERVICE, models_of(client), model)
            sampler = client.create_sampling_client(model, options.adapter)
        except BaseException:
            shut(client)
            raise
        return TrioPolicy(
            client,
            sampler,
            format,
            identity(SERVICE, client._runtime.configuration.base_url, model, options.adapter),
            model=model,
            context=min(c for c in (options.context, offered.context) if c),
            trainable=offered.trained,
            timeout_s=options.timeout_s,
            in_flight=in_flight,
        )

    return opening(opened, options.timeout_s)


def models_offered(base_url: str | None, timeout_s: float) -> tuple[str, tuple[LiveModel, ...]]:
    """Whose account it is, and its models. Contacts the service. Raises PolicyError, TimeoutError."""
    import_sdk()

    def asked() -> tuple[str, tuple[LiveModel, ...]]:
        client = connected(base_url, timeout_s, 1)
        try:
            return f"logged in as {client.username}, workspace {client.workspace_name}", models_of(client)
        finally:
            shut(client)

    return opening(asked, timeout_s)


def connected(base_url: str | None, timeout_s: float, in_flight: int) -> Any:
    """A `pytrio.ServiceClient` that is logged in, set up as this module's docstring tells.

    Blocks. The SDK's errors come as they are.
    """
    import pytrio

    late = timeout_s + 60
    settings: dict[str, Any] = {
        "request_timeout_seconds": max(1, math.ceil(min(30.0, timeout_s))),
        "control_retry_timeout_seconds": RETRY_SHARE * timeout_s,
        "sampling_retry_timeout_seconds": RETRY_SHARE * timeout_s,
        "training_retry_timeout_seconds": RETRY_SHARE * timeout_s,
        "actor_capacity_wait_timeout_seconds": RETRY_SHARE * timeout_s,
        "sampling_timeout_seconds": math.ceil(late),
        "sampling_first_chunk_timeout_seconds": late,
        "sampling_chunk_idle_timeout_seconds": late,
        "sampling_request_max_in_flight": in_flight,
        "sampling_request_queue_capacity": 4 * in_flight,
    }
    if "PYTRIO_LOG_LEVEL" not in os.environ:
        settings["log_level"] = "WARNING"
    # The SDK reads the environment once, when it is first imported; here it counts when a client is made.
    if address := base_url or os.environ.get("PYTRIO_BASE_URL", "").strip():
        settings["base_url"] = address
    pytrio.configure_observability(enabled=False)
    with _configured(settings):
        return pytrio.ServiceClient(api_key=os.environ.get("PYTRIO_API_KEY", "").strip() or None)


def shut(client: Any) -> None:
    """End the session of a `pytrio.ServiceClient` now; it offers no other way than to be forgotten. May block."""
    client._runtime.shutdown()


def explained(e: BaseException, opening: bool) -> PolicyError:
    """pytrio's exception in our words."""
    if isinstance(e, PolicyError):
        return e
    return SERVICE.problem(*problem_of(e, opening), opening=opening)


def problem_of(e: BaseException, opening: bool) -> tuple[Problem, str]:
    """What kind of problem pytrio's exception tells of, and what it says.

    Its details, which may quote a request, are left out.
    """
    from pytrio import PyTrioError

    if not isinstance(e, PyTrioError):
        return "failed", f"{type(e).__name__}: {e}"
    said = e.message + (f" ({e.code}, HTTP {e.status_code})" if e.status_code else f" ({e.code})")
    return _kind(e.code, e.status_code, opening), said


def _kind(code: str, status: int, opening: bool) -> Problem:
    if code.startswith(("auth.", "api_key_")) or code in {"unauthorized", "forbidden"} or status in {401, 403}:
        return "login"
    if code.startswith("billing_") or status == 402:
        return "money"
    if code.startswith("checkpoint_"):
        return "weights"
    if code in {"model_not_found", "validation.unsupported_model"}:
        return "model"
    if status == 404:
        return "weights" if opening else "gone"
    if status in {429, 503} or code in {"too_many_requests", "actor_capacity_exceeded", "no_available_actor"}:
        return "busy"
    if code.endswith(".request_failed") and status == 0:
        return "down"
    if code.startswith("validation.") or 400 <= status < 500:
        return "request"
    return "failed"


def models_of(client: Any) -> tuple[LiveModel, ...]:
    """What the account of a `pytrio.ServiceClient` may use. Blocks; SDK errors as they are."""
    return tuple(
        LiveModel(
            m.model_name,
            m.sampling.max_seq_len or m.max_context_length,
            bool(m.sampling.available),
            bool(m.training.available),
        )
        for m in client.get_server_capabilities().supported_models
    )


def opening(blocking: Callable[[], T], seconds: float) -> T:
    """What a blocking call to the SDK returns, within so many seconds. Raises PolicyError, TimeoutError."""
    with in_our_words(explained):
        return in_time(blocking, seconds)


def in_time(blocking: Callable[[], T], seconds: float) -> T:
    """As `opening`, the SDK's errors as they are."""
    return within(seconds, blocking, lambda: SERVICE.stalled("opening a session", seconds))


def import_sdk() -> None:
    """Import the SDK without its exception hook. Raises PolicyError when it is missing or its settings are broken."""
    hook = sys.excepthook
    try:
        import pytrio  # noqa: F401
    except ImportError as e:
        raise SERVICE.missing(e) from e
    except Exception as e:  # a broken PYTRIO_* variable
        raise SERVICE.problem("login", f"its settings cannot be read: {e}", opening=True) from e
    finally:
        sys.excepthook = hook


@contextlib.contextmanager
def _configured(settings: dict[str, Any]) -> Iterator[None]:
    import pytrio
    from pytrio.config.config import configuration

    with _configuring:
        before = {name: getattr(configuration, name) for name in settings}
        try:
            pytrio.configure(**settings)
            yield
        finally:
            pytrio.configure(**before)
