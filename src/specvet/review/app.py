"""The server's routes: docs/review.md lists them, `specvet.review.guard` says who may ask.

Reading requests run in threads; a write answers when its event is on disk. Nothing of a request is used as a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from specvet.review.agreement import agreement
from specvet.review.describing import described
from specvet.review.desk import COPY_IT, Desk
from specvet.review.epochs import object_of
from specvet.review.events import Draft, Event, reviewer_name
from specvet.review.evidence import EvidenceReader
from specvet.review.guard import MOST_BYTES, Access, Guard, Session, token_of
from specvet.review.matched import Matched
from specvet.review.merging import Merged
from specvet.review.queue import COLUMNS, MOST_ROWS, Filter, QueueError
from specvet.review.replies import (
    KNOWN,
    Said,
    fault,
    file_reply,
    has,
    http_error,
    known_error,
    known_words,
    reply,
    takes_gzip,
)
from specvet.review.spectra import Spectra, UnreadableError
from specvet.review.static_files import static_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOST_THUMBNAILS = 48
MOST_NEXT = 50

_ITEM = re.compile(r"[0-9a-f]{16}")


def create_app(desk: Desk, access: Access, *, reviewer: str | None = None) -> Starlette:
    """The ASGI application. `reviewer` is who a new browser is taken for; without, it has to say."""
    return _Server(desk, access, reviewer).app()


class _Server:
    def __init__(self, desk: Desk, access: Access, reviewer: str | None) -> None:
        self._desk, self._access, self._default = desk, access, reviewer
        self._listing = desk.listing
        self._spectra = Spectra(desk.listing)
        self._evidence = EvidenceReader(desk.listing, self._spectra)
        self._matched = Matched(desk.listing)
        self._static = static_files()
        self._tasks = [described(task) for task in desk.listing.tasks]

    def app(self) -> Starlette:
        reads: dict[str, Callable[[Request], Response]] = {
            "/": self.page,
            "/static/{name:path}": self.static,
            "/api/session": self.session,
            "/api/queue": self.queue,
            "/api/next": self.next,
            "/api/spectrum/{item}": self.spectrum,
            "/api/thumbnails": self.thumbnails,
            "/api/evidence/{item}": self.evidence,
            "/api/items/{item}": self.item,
            "/api/object/{item}": self.object,
            "/api/agreement": self.agreement,
        }
        writes: dict[str, Callable[[Request, dict[str, Any]], Response]] = {
            "/api/session": self.introduce,
            "/api/decisions": self.decide,
            "/api/undo": self.undo,
            "/api/assignment": self.assign,
        }
        routes = [Route(path, _reading(do), methods=["GET"]) for path, do in reads.items()]
        routes += [Route(path, _writing(do), methods=["POST"]) for path, do in writes.items()]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            self._evidence.close()

        failures: dict[Any, Any] = {HTTPException: http_error, Exception: fault} | dict.fromkeys(KNOWN, known_error)
        middleware = [Middleware(Guard, access=self._access)]
        return Starlette(routes=routes, middleware=middleware, exception_handlers=failures, lifespan=lifespan)

    # --- the page

    def page(self, request: Request) -> Response:
        session = _session(request)
        if token_of(request.scope) and self._access.token is not None:
            # Out of the address, the history and the Referer; into the cookie.
            admitted = Session((session or Session.new()).id, session.reviewer if session else None, admitted=True)
            return self._with_cookie(RedirectResponse("/", status_code=303), admitted)
        index = self._static.get("index.html")
        if index is None:
            raise Said(503, "this installation lacks the page", "install specvet again")
        return file_reply(request, index)

    def static(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            raise Said(404, "no such file", "open /")
        return file_reply(request, found)

    # --- who

    def session(self, request: Request) -> Response:
        session = _session(request) or Session.new()
        if session.reviewer is None and self._default is not None:
            session = Session(session.id, self._desk.spelling(self._default), session.admitted)
        return self._with_cookie(reply(request, self._about(session)), session)

    def introduce(self, request: Request, body: dict[str, Any]) -> Response:
        before = _session(request) or Session.new()
        try:
            name = reviewer_name(body.get("reviewer"))
        except ValueError as e:
            raise Said(422, str(e), "give another name") from e
        session = Session(before.id, self._desk.spelling(name), before.admitted)
        return self._with_cookie(reply(request, self._about(session)), session)

    def _about(self, session: Session) -> dict[str, Any]:
        from specvet import __version__

        listing, assignment = self._listing, self._desk.assignment()
        notices = list(listing.notices)
        if self._desk.store.readonly:
            notices.insert(0, f"Only for looking: {self._desk.store.name} cannot be written; to decide, {COPY_IT}")
        if self._desk.elsewhere:
            notices.append(f"the store also knows {self._desk.elsewhere:,} spectra that are not in this list")
        return {
            "title": listing.title,
            "kind": listing.kind,
            "items": len(listing),
            "tasks": self._tasks,
            "reviewer": session.reviewer,
            "reviewers": sorted(self._desk.reviewers()),
            "blind": self._desk.blind,
            "readonly": self._desk.store.readonly,
            "csrf": session.csrf(self._access),
            "agent": None if listing.agent is None else {"policy": listing.agent.policy, "model": listing.agent.model},
            "assignment": None if assignment is None else _told(assignment),
            "notices": notices,
            "store": self._desk.store.name,
            "versions": {"specvet": __version__},
        }

    def _with_cookie(self, response: Response, session: Session) -> Response:
        secure = (self._access.origin or "").startswith("https:")
        text = session.text(self._access)
        response.set_cookie(self._access.cookie, text, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    # --- reading

    def queue(self, request: Request) -> Response:
        query, task = request.query_params, self._task(request)
        offset, limit = _whole(query.get("offset"), "offset", 0), _whole(query.get("limit"), "limit", 100)
        found = self._desk.page(
            task, _order(request), Filter.of(query), _reviewer(request), offset, min(limit, MOST_ROWS)
        )
        rows = [[*row, self._spectra.simulated(self._listing.place[row[0]])] for row in found["rows"]]
        return reply(request, found | {"rows": rows, "columns": (*COLUMNS, "simulated")})

    def next(self, request: Request) -> Response:
        query, task = request.query_params, self._task(request)
        n = min(_whole(query.get("n"), "n", 6), MOST_NEXT)
        back = query.get("back", "") in ("1", "true")
        wanted, after = Filter.of(query), query.get("after") or None
        items, left = self._desk.after(task, _order(request), wanted, _reviewer(request), after, n, back)
        return reply(request, {"items": items, "left": left})

    def spectrum(self, request: Request) -> Response:
        place = self._place(request.path_params["item"])
        try:
            payload = self._spectra.payload(place)
        except UnreadableError as e:
            # It is shown and decided on by its names, as a spectrum is.
            listing, (status, what, do) = self._listing, known_words(e)
            named = {"id": listing.ids[place], "file": listing.files[place], "row": listing.rows[place]}
            return reply(request, {"error": what, "do": do} | named, status)
        headers = {"etag": payload.etag, "cache-control": "private, max-age=60", "vary": "Accept-Encoding"}
        if has(request, payload.etag):
            return Response(status_code=304, headers=headers)
        packed = takes_gzip(request)
        if packed:
            headers["content-encoding"] = "gzip"
        body = payload.packed if packed else payload.body
        return Response(body, media_type="application/octet-stream", headers=headers)

    def thumbnails(self, request: Request) -> Response:
        names = [name for name in request.query_params.get("items", "").split(",") if name]
        if len(names) > MOST_THUMBNAILS:
            raise Said(422, f"{len(names)} thumbnails", f"ask for at most {MOST_THUMBNAILS} at once")
        body = self._spectra.thumbnails([self._place(name) for name in names])
        return Response(body, media_type="application/octet-stream", headers={"cache-control": "private, max-age=60"})

    def evidence(self, request: Request) -> Response:
        task = self._task(request)
        item = request.path_params["item"]
        place = self._place(item)
        if self._desk.hidden(item, task, _reviewer(request)):
            raise Said(403, "hidden in a blind review", "decide first")
        found = self._listing.task(task)
        assert found is not None
        return reply(request, self._evidence.of(place, found))

    def item(self, request: Request) -> Response:
        task, item, me = self._task(request), request.path_params["item"], _reviewer(request)
        self._place(item)
        events, votes = self._desk.history(item, task), list(self._desk.votes(item, task).values())
        merged: Merged | None = self._desk.merged(item, task)
        if self._desk.hidden(item, task, me):
            events, votes = ([e for e in those if e.reviewer == me] for those in (events, votes))
            merged = None
        about = None if merged is None else _merged(merged)
        found = {
            "item": item,
            "events": [_told(e) for e in events],
            "votes": [_told(v) for v in votes],
            "merged": about,
        }
        return reply(request, found)

    def object(self, request: Request) -> Response:
        task, item, me = self._task(request), request.path_params["item"], _reviewer(request)
        place = self._place(item)
        asked = self._listing.task(task)
        assert asked is not None
        match = self._matched.of(place, task, hidden=self._desk.hidden(item, task, me))
        return reply(request, object_of(self._desk, item, asked, me) | {"match": match})

    def agreement(self, request: Request) -> Response:
        return reply(request, agreement(self._desk, self._task(request)))

    # --- writing

    def decide(self, request: Request, body: dict[str, Any]) -> Response:
        draft = Draft.model_validate_json(json.dumps(body))
        written = self._desk.decide(self._me(request), draft)
        vote = self._desk.votes(draft.item, draft.task).get(written.event.reviewer)
        found = {"event": _told(written.event), "vote": None if vote is None else _told(vote)}
        return reply(request, found, 201 if written.new else 200)

    def undo(self, request: Request, body: dict[str, Any]) -> Response:
        key, task, item = body.get("key"), body.get("task"), body.get("item")
        if not isinstance(task, str) or not (item is None or isinstance(item, str)):
            raise Said(422, "an undo without its task", "reload the page")
        me = self._me(request)
        written, undone = self._desk.undo(me, _key(key), task, item)
        vote = self._desk.votes(undone.item, task).get(me)
        found = {"event": _told(written.event), "undone": _told(undone), "vote": None if vote is None else _told(vote)}
        return reply(request, found, 201 if written.new else 200)

    def assign(self, request: Request, body: dict[str, Any]) -> Response:
        names, each, seed = body.get("reviewers"), body.get("each", 1), body.get("seed", 0)
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or len(names) > 100:
            raise Said(422, "reviewers is no list of names", "give their names")
        if not _is_whole(each) or not _is_whole(seed) or abs(seed) >= 2**53:
            raise Said(422, "each and seed are whole numbers", "give how many reviewers each item goes to")
        written = self._desk.assign(self._me(request), _key(body.get("key")), names, each, seed)
        return reply(request, {"event": _told(written.event)}, 201 if written.new else 200)

    # --- what requests name

    def _task(self, request: Request) -> str:
        task = request.query_params.get("task") or self._listing.tasks[0].key
        if self._listing.task(task) is None:
            raise Said(404, f"no task {task!r} here", f"choose from {', '.join(t.key for t in self._listing.tasks)}")
        return task

    def _place(self, item: str) -> int:
        place = self._listing.place.get(item) if _ITEM.fullmatch(item) else None
        if place is None:
            raise Said(404, "no such item", "reload the page")
        return place

    def _me(self, request: Request) -> str:
        name = _reviewer(request)
        if name is None:
            raise Said(401, "nobody has said who decides", "give your name first")
        return name


def _reading(do: Callable[[Request], Response]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(do, request)

    return endpoint


def _writing(do: Callable[[Request, dict[str, Any]], Response]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > MOST_BYTES:
                raise Said(413, f"more than {MOST_BYTES:,} bytes", "send less")
        try:
            body = json.loads(bytes(content).decode("utf-8"))
        except (ValueError, RecursionError) as e:
            raise Said(422, "the body is no JSON", "reload the page") from e
        if not isinstance(body, dict):
            raise Said(422, "the body is no JSON object", "reload the page")
        return await run_in_threadpool(do, request, body)

    return endpoint


def _session(request: Request) -> Session | None:
    session: Session | None = request.state.session
    return session


def _reviewer(request: Request) -> str | None:
    session = _session(request)
    return session.reviewer if session is not None else None


def _order(request: Request) -> str:
    return request.query_params.get("order") or "value"


def _key(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._:-]{8,80}", value):
        raise Said(422, "the request has no key of 8 to 80 letters", "reload the page")
    return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(text: str | None, name: str, default: int) -> int:
    if not text:
        return default
    if not re.fullmatch(r"\d{1,9}", text):
        raise QueueError(f"{name}={text[:40]}: give a whole number from 0")
    return int(text)


def _told(event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json")


def _merged(merged: Merged) -> dict[str, Any]:
    return {name: getattr(merged, name) for name in Merged.__slots__}
