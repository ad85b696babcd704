"""What a server's refusals mean, in words that say what to do."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from specvet.policies.tokens import ContextLengthError, PolicyError

Kind = Literal[
    "unauthorised",
    "forbidden",
    "no_such_model",
    "no_such_address",
    "refused",
    "images_too_large",
    "quota",
    "busy",
    "broken",
    "unreachable",
    "redirect",
    "web_page",
    "bad_json",
    "bad_reply",
    "no_choices",
]

MAX_SAID = 300
"""Characters of a server's own words that are repeated."""
MAX_READ = 20_000
"""Characters, or bytes, of an error in which those words are looked for."""

_TOO_LONG = re.compile(
    r"context[ _]length|context[ _](?:window|size)|maximum (?:model|input|sequence) length|max_model_len|"
    r"(?:prompt|input|request)\b.{0,60}\b(?:is )?too long|too many (?:input )?tokens|"
    r"longer than the (?:model's |maximum )|"
    r"exceeds? the (?:model's )?(?:max\w*|available|limit)\b.{0,40}(?:token|length|context)",
    re.IGNORECASE | re.DOTALL,
)
_LIMIT = re.compile(
    r"(?:maximum|available|model'?s?)? ?(?:context|model|input) (?:length|size|window)[^0-9]{0,40}?(\d{3,8})", re.I
)


class ServerError(PolicyError):
    """A server that does not give what was asked. `kind` says how, `status` is the HTTP status (0 without one)."""

    def __init__(
        self, message: str, kind: Kind, *, status: int = 0, fatal: bool = False, again: bool = False, said: str = ""
    ) -> None:
        super().__init__(message, fatal=fatal)
        self.kind = kind
        self.status = status
        self.again = again
        """The same request may succeed later."""
        self.said = said
        """The server's own words."""
        self.wait_s: float | None = None
        """Seconds that the server asks to wait."""


def said_by(body: bytes) -> tuple[str, str]:
    """(message, code) in an error's body, whichever of the usual shapes it has."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _shortened(_without_tags(text[:MAX_READ])), ""
    code = ""
    for _ in range(3):  # {"error": {"message": …}}, {"detail": {"message": …}}, {"detail": [{"msg": …}]}, "…"
        if isinstance(value, list):
            value = value[0] if value else ""
        if not isinstance(value, Mapping):
            break
        code = str(value.get("code") or value.get("type") or code)
        value = next((value[k] for k in ("error", "detail", "message", "msg") if value.get(k)), "")
    return _shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)), code


def explained(status: int, body: bytes, *, address: str, model: str | None, key: str) -> PolicyError:
    """The error for a status that is no success. `key` says in words which key was sent, if any; "" where none is
    set."""
    said, code = said_by(body)
    words = f" The server says: {said}" if said else ""
    if status in (400, 413, 422) and is_too_long(said, code):
        return ContextLengthError(f"{address}: the conversation does not fit into the model's context.{words}")
    match status:
        case 401:
            return ServerError(
                f"{address} {_unaccepted(key)}.{words}",
                "unauthorised",
                status=status,
                fatal=True,
                said=said,
            )
        case 402:
            return _quota(address, words, status, said)
        case 403:
            return ServerError(
                f"{address} forbids this: {key or 'who has no key'} may not use the model {model!r}, or nobody here "
                f"may.{words}",
                "forbidden",
                status=status,
                fatal=True,
                said=said,
            )
        case 404:
            return ServerError(
                f"{address} knows no such address; --base-url must be the part before /chat/completions and mostly "
                f"ends in /v1.{words}",
                "no_such_address",
                status=status,
                fatal=True,
                said=said,
            )
        case 413:
            return ServerError(
                f"{address} finds the request too large: send smaller pictures (--style compact draws small ones), "
                f"allow fewer turns, or raise the server's limit.{words}",
                "images_too_large",
                status=status,
                said=said,
            )
        case 429 if "quota" in code or "billing" in code:
            return _quota(address, words, status, said)
        case 429:
            return ServerError(
                f"{address} is asked too often (429) and was not ready within the deadline: lower --branches.{words}",
                "busy",
                status=status,
                again=True,
                said=said,
            )
    if 300 <= status < 400:
        return ServerError(
            f"{address} redirects elsewhere (status {status}); give its final address as --base-url. "
            "It is not followed, since the key would go with it.",
            "redirect",
            status=status,
            fatal=True,
        )
    if status >= 500 or status in (408, 409, 425):
        # 501 and 505 say that no request of this kind will ever be answered.
        never = status in (501, 505)
        return ServerError(
            f"{address} failed with status {status}.{words}",
            "broken",
            status=status,
            again=not never,
            fatal=never,
            said=said,
        )
    if is_no_model(said, code):
        return no_such_model(address, model, (), said, status)
    return ServerError(
        f"{address} refuses the request (status {status}).{words or ' It gives no reason.'}",
        "refused",
        status=status,
        said=said,
    )


def _unaccepted(key: str) -> str:
    if not key:
        return "asks for a key; none is set (SPECVET_API_KEY or OPENAI_API_KEY)"
    if key.startswith("no key"):
        return f"asks for a key; {key.removeprefix('no key').strip(' ()')}"
    return (
        f"does not accept {key}: put a valid key into SPECVET_API_KEY (any server) or OPENAI_API_KEY (https, or this "
        "machine)"
    )


def no_such_model(
    address: str, model: str | None, known: Sequence[str], said: str = "", status: int = 404
) -> ServerError:
    """The error for a model that a server does not have, with those that it has."""
    near = difflib.get_close_matches(model or "", known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    have = f" It has: {', '.join(known[:20])}{' …' if len(known) > 20 else ''}." if known else ""
    words = f" The server says: {said}" if said and not known else ""
    return ServerError(
        f"{address} has no model named {model!r}.{hint}{have}{words}",
        "no_such_model",
        status=status,
        fatal=True,
        said=said,
    )


def is_too_long(said: str, code: str) -> bool:
    """Whether an error says that prompt and answer exceed the model's context."""
    return "context_length" in code or "exceed_context" in code or bool(_TOO_LONG.search(said))


def context_in(message: str) -> int | None:
    """The model's context in tokens, where an error about it names it."""
    found = _LIMIT.search(message.replace(",", ""))
    return int(found.group(1)) if found else None


def is_no_model(said: str, code: str) -> bool:
    """Whether an error says that the model is unknown."""
    lower = said.lower()
    return (
        "model_not_found" in code
        or "server is pinned to" in lower  # transformers serve
        or ("model" in lower and any(w in lower for w in ("not exist", "not found", "unknown model", "no such model")))
    )


def is_web_page(content_type: str, body: bytes) -> bool:
    """Whether an answer is HTML: a proxy's or a web site's, not an API's."""
    start = body[:200].lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html")) or (
        "html" in content_type.lower() and not start.startswith((b"{", b"["))
    )


def web_page(address: str, status: int, body: bytes) -> ServerError:
    """The error for an HTML answer. From a gateway in trouble (5xx) it may pass; else the address is wrong."""
    title = re.search(rb"<title[^<>]*>([^<]*)</title>", body[:MAX_READ], re.IGNORECASE)
    shown = f" ({_shortened(_without_tags(title.group(1).decode('utf-8', 'replace')))})" if title else ""
    again = status in (408, 429) or status >= 500
    if status in (502, 503, 504):
        text = f"{address}: the proxy answers, the model server behind it does not (status {status}){shown}"
        return ServerError(text, "web_page", status=status, again=True)
    return ServerError(
        f"{address} answers with a web page{shown} instead of JSON (status {status}): is --base-url right? It mostly "
        "ends in /v1, and a proxy must let it through.",
        "web_page",
        status=status,
        again=again,
        fatal=not again,
    )


def _quota(address: str, words: str, status: int, said: str) -> ServerError:
    return ServerError(
        f"{address}: the account has no credit left; top it up or use another key.{words}",
        "quota",
        status=status,
        fatal=True,
        said=said,
    )


def _without_tags(text: str) -> str:
    return re.sub(r"<[^<>]*>", " ", text)  # no `<` inside, or a long run of them would cost a square


def _shortened(text: Any) -> str:
    """One line of what can be printed and kept: a server's words go to terminals and into records."""
    line = " ".join(str(text)[:MAX_READ].split())
    line = "".join(c if c.isprintable() else "\ufffd" for c in line)
    return line if len(line) <= MAX_SAID else line[: MAX_SAID - 1] + "…"
