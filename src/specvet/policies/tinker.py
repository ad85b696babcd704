"""The policy `tinker`: a model that the Tinker service samples from (tinker 0.38.0).

Text goes as token ids, a picture as its PNG bytes with `expected_tokens`; by this SDK's documentation the service
counts for itself and may refuse a request whose count differs. A reply does not say how many tokens the prompt had, but
log-probs of a prompt come one a token: each request asks for that of the last token, which leaves the service's cache
in use, and the length of what comes back is `Samples.prompt_tokens`. What was cached is stated.

The SDK waits and retries by itself, some things without end: a service that answers 429 is asked again for ever, an
account that owes money for an hour. Our deadline ends that, and the error says what the SDK last warned of. Its
telemetry is switched off unless TINKER_TELEMETRY is set.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from specvet.chat import ChatFormat, ImageSegment
from specvet.policies.options import ModelOptions
from specvet.policies.remote import Problem, Service, in_our_words, resolve, sequence, wire_seed, wire_stops, within
from specvet.policies.remote_policy import CLOSE_S, RemotePolicy, Reply
from specvet.policies.remote_setup import LiveModel, format_of, identity, model_named
from specvet.policies.tokens import PolicyError, SamplingParams

T = TypeVar("T")

SERVICE = Service("tinker", "log in with `tinker auth login`, or set TINKER_API_KEY", "tinker://")


class _Warnings(logging.Handler):
    """Remembers the SDK's last warning: it tells of pauses there and nowhere else.

    As a handler of the SDK's own logger it also keeps Python from printing them where nobody set up logging.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last, self.when = "", -1e9

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if "try_again" not in said:  # only that a request is still waiting
            self.last, self.when = said.splitlines()[0] if said else "", time.monotonic()

    def within(self, seconds: float) -> str:
        """The last warning, unless it is older than so many seconds."""
        return self.last if time.monotonic() - self.when <= seconds else ""


_warned = _Warnings()


class TinkerPolicy(RemotePolicy):
    """A model at the Tinker service. Made by `open_policy`, and by a trainer for the weights that it has.

    `client` is the session that ends with the policy; None where somebody else ends it.
    """

    name = "tinker"
    service = SERVICE

    def __init__(self, client: Any, sampler: Any, format: ChatFormat, identity: tuple[str, ...], **kept: Any) -> None:
        super().__init__(format, identity, **kept)
        self._client = client
        self._sampler = sampler
        self._counted = True

    def _prompt(self, chunks: list[tuple[int, ...] | ImageSegment]) -> Any:
        return model_input(chunks)

    async def _send(self, prompt: Any, n: int, params: SamplingParams) -> Reply:
        from tinker.types import SamplingParams as TinkerParams

        asked = TinkerParams(
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k or -1,
            seed=wire_seed(params.seed),
            stop=wire_stops(self.format.stop_ids, params.stop, self.format.vocabulary),
        )
        request = {"prompt": prompt, "num_samples": n, "sampling_params": asked}
        count = {"include_prompt_logprobs": True, "prompt_logprobs_last_n": 1} if self._counted else {}
        try:
            got = await resolve(self._sampler.sample(**request, **count))
        except RuntimeError as e:  # the SDK's word for a service too old to leave out the other log-probs
            if "prompt_logprobs_last_n" not in str(e):
                raise
            self._counted = False
            got = await resolve(self._sampler.sample(**request))
        stops = self.format.stop_ids
        return Reply(
            tuple(sequence(s.tokens, s.logprobs_np, s.stop_reason, stops, params.max_tokens) for s in got.sequences),
            prompt_tokens=None if got.prompt_logprobs_np is None else len(got.prompt_logprobs_np),
            cached_tokens=got.prompt_cache_hit_tokens,
        )

    def _explained(self, e: Exception, opening: bool) -> PolicyError:
        return explained(e, opening)

    def _heard(self, seconds: float) -> str:
        backoff = getattr(getattr(self._sampler, "holder", None), "_sample_backoff_until", None)
        if backoff is not None and time.monotonic() - backoff < 10:
            return "429, the service takes no more requests"
        return heard(seconds)

    def _close(self) -> None:
        if self._client is not None:
            shut(self._client)


def model_input(chunks: Iterable[tuple[int, ...] | ImageSegment]) -> Any:
    """Runs of ids and pictures as a `tinker.ModelInput`."""
    from tinker.types import EncodedTextChunk, ImageChunk, ModelInput

    return ModelInput(
        chunks=[
            ImageChunk(data=c.png or b"", format="png", expected_tokens=c.n_tokens)
            if isinstance(c, ImageSegment)
            else EncodedTextChunk(tokens=list(c))
            for c in chunks
        ]
    )


def open_policy(options: ModelOptions) -> TinkerPolicy:
    """The base model `options.model`, or the sampler weights `options.adapter` (`tinker://…`), which name their base.

    `options.branches` requests are in flight at a time. Blocks until the service has a sampler for us, at most
    `options.timeout_s`. Raises PolicyError, TimeoutError.
    """
    import_sdk()
    if options.adapter and not options.adapter.startswith(SERVICE.scheme):
        raise SERVICE.problem("weights", f"{options.adapter!r} is no path of weights at this service", opening=True)
    if not options.model and not options.adapter:
        raise SERVICE.problem("model", "neither a base model nor weights were named", opening=True)

    def opened() -> TinkerPolicy:
        client = connected(options.base_url)
        try:
            models = models_of(rest_client(options.base_url))
            if options.model:
                model_named(SERVICE, models, options.model)
            sampler = client.create_sampling_client(options.adapter, options.model).result()
            model = sampler.get_base_model()
            if options.model and options.model != model:
                said = f"the weights {options.adapter!r} belong to {model!r}, not to {options.model!r}"
                raise SERVICE.problem("weights", said, opening=True)
            offered = model_named(SERVICE, models, model)
            return TinkerPolicy(
                client,
                sampler,
                format_of(SERVICE, options, model),
                identity(SERVICE, client.holder._base_url, model, options.adapter),
                model=model,
                context=min(c for c in (options.context, offered.context) if c),
                trainable=offered.trained,
                timeout_s=options.timeout_s,
                in_flight=options.branches,
            )
        except BaseException:
            shut(client)
            raise

    return opening(opened, options.timeout_s)


def models_offered(base_url: str | None, timeout_s: float) -> tuple[str, tuple[LiveModel, ...]]:
    """Whose account it is, and its models. Contacts the service. Raises PolicyError, TimeoutError."""
    import_sdk()

    def asked() -> tuple[str, tuple[LiveModel, ...]]:
        rest = rest_client(base_url)
        models = models_of(rest)
        who = None
        with contextlib.suppress(Exception):  # not every key has a name to it
            who = rest.whoami().result().email
        return f"logged in{f' as {who}' if who else ''}", models

    return opening(asked, timeout_s)


def connected(base_url: str | None) -> Any:
    """A `tinker.ServiceClient` with an open session. Blocks; SDK errors as they are."""
    import tinker

    client = tinker.ServiceClient(base_url=base_url)
    client.holder.get_session_id()  # it connects when it is first used, and that must be now
    return client


def rest_client(base_url: str | None) -> Any:
    """A `tinker.RestClient`, without a session.

    The SDK keeps one a key for the life of the process, so the key is named.
    """
    import tinker

    return tinker.RestClient(base_url=base_url, api_key=os.environ.get("TINKER_API_KEY") or None)


def shut(client: Any) -> None:
    """Finish the session of a `tinker.ServiceClient` and free its connections. May block."""
    client.close("success").result(CLOSE_S)


def explained(e: BaseException, opening: bool) -> PolicyError:
    """tinker's exception in our words."""
    if isinstance(e, PolicyError):
        return e
    return SERVICE.problem(*problem_of(e, opening), opening=opening)


def problem_of(e: BaseException, opening: bool) -> tuple[Problem, str]:
    """What kind of problem tinker's exception tells of, and what it says."""
    import tinker

    cause: BaseException | None = e
    while cause is not None and not isinstance(cause, tinker.APIError):  # a failed result is a ValueError around one
        cause = cause.__cause__
    said = f"{e}".splitlines()[0] if f"{e}" else type(e).__name__
    if isinstance(cause, tinker.APIStatusError):
        status = cause.status_code
        return _kind(status, opening), f"{_detail(cause)} (HTTP {status})"
    if isinstance(cause, tinker.APIConnectionError):
        return "down", said
    if isinstance(e, tinker.RequestFailedError):
        asked_wrongly = e.category == tinker.types.RequestErrorCategory.User
        return "request" if asked_wrongly else "failed", said
    if isinstance(e, tinker.TinkerError):  # no key, a key of another form, a key that ran out
        return "login", said
    return "failed", f"{type(e).__name__}: {said}"


def _kind(status: int, opening: bool) -> Problem:
    if status in {401, 403}:
        return "login"
    if status == 402:
        return "money"
    if status == 404:
        return "weights" if opening else "gone"
    if status in {429, 503}:
        return "busy"
    return "request" if 400 <= status < 500 else "failed"


def _detail(e: Any) -> str:
    """What the service said, of an error's body."""
    body = e.body
    if isinstance(body, dict):
        for name in ("detail", "message", "error"):
            if isinstance(body.get(name), str):
                return str(body[name])
    return str(e.message).splitlines()[0] if e.message else type(e).__name__


def models_of(rest: Any) -> tuple[LiveModel, ...]:
    """What the account of a `tinker.RestClient` may use. Blocks; SDK errors as they are."""
    found = rest.get_server_capabilities().result().supported_models
    return tuple(
        LiveModel(m.model_name, m.max_context_length, m.sampleable is not False, m.trainable is not False)
        for m in found
        if m.model_name
    )


def opening(blocking: Callable[[], T], seconds: float) -> T:
    """What a blocking call to the SDK returns, within so many seconds. Raises PolicyError, TimeoutError."""
    with in_our_words(explained):
        return in_time(blocking, seconds)


def in_time(blocking: Callable[[], T], seconds: float) -> T:
    """As `opening`, the SDK's errors as they are."""
    began = time.monotonic()

    def owing() -> str:
        said = heard(time.monotonic() - began)
        return said if "billing" in said else ""

    def gave_up() -> BaseException:
        if said := owing():
            return SERVICE.problem("money", said, opening=True)
        return SERVICE.stalled("opening a session", seconds, heard(seconds))

    return within(seconds, blocking, gave_up, owing)


def heard(seconds: float) -> str:
    """What the SDK last warned of within so many seconds, or nothing."""
    return _warned.within(seconds)


def import_sdk() -> None:
    """Import the SDK, keep it quiet and switch its telemetry off. Raises PolicyError when it is missing."""
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    try:
        import tinker  # noqa: F401
    except ImportError as e:
        raise SERVICE.missing(e) from e
    logger = logging.getLogger("tinker")
    if _warned not in logger.handlers:
        logger.addHandler(_warned)
