"""Answers: one JSON object, or a stream of lines, each a JSON object.

A stream ends when its client has gone or the server stops, whichever server runs the application.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from typing import Any, Generic, NotRequired, TypeVar, get_args, get_origin, get_type_hints

import orjson
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from master.api.errors import (
    StreamError,
    error_response,
    plain_traceback,
    status_of,
    stream_error,
)
from master.api.http.held import ServerStop, WhileWanted
from master.api.http.permitted import WhilePermitted
from windlass.base.errors import WindlassError

log = structlog.get_logger(__name__)
Document = Mapping[str, object]
R = TypeVar("R", bound=Document)
F = TypeVar("F", bound=Callable[..., Any])
B = TypeVar("B", bound=Document | Sequence[Document])


def encode(content: Any) -> bytes:
    """JSON. What orjson refuses (half of a surrogate pair in a name from YAML) is escaped instead."""
    try:
        return orjson.dumps(content)
    except TypeError:
        return json.dumps(content).encode()


class Empty(TypedDict):
    """`{}`"""


class Reply(Response, Generic[B]):
    """JSON of the shape B, which routes declare as what they return: `-> Reply[TrialReply]`."""

    media_type = "application/json"


def reply(content: B | None = None) -> Reply[B]:
    """Without content it is a `Reply[Empty]`."""
    return Reply(encode({} if content is None else content))


def answers(shape: type) -> Callable[[F], F]:
    """Declare the reply of a route that is made for several kinds of things."""

    def decorate(endpoint: F) -> F:
        endpoint.__dict__["answers"] = shape
        return endpoint

    return decorate


def declared_reply(endpoint: Callable[..., Any]) -> Any:
    """The type of what a route answers: B of `Reply[B]`, `Line[R]` of `JsonLines[R]`; None if it declares neither."""
    if (shape := endpoint.__dict__.get("answers")) is not None:
        return shape
    declared = get_type_hints(endpoint).get("return")
    match get_origin(declared), get_args(declared):
        case (origin, (shape,)) if origin is Reply:
            return shape
        case (origin, (shape,)) if origin is JsonLines:
            line: Any = Line
            return line[shape]
    return None


class Line(TypedDict, Generic[R]):
    """One line of a stream: a result, or the error that ended it."""

    result: NotRequired[R]
    error: NotRequired[StreamError]


class JsonLines(Response, Generic[R]):
    """Newline-delimited JSON: `{"result": ...}` for each item, of the shape R, and `{"error": ...}` last if it fails.

    `eager` waits for the first items before it answers at all, so that their error sets the status.
    """

    media_type = "application/json"

    def __init__(
        self,
        pages: AsyncGenerator[Sequence[R], None],
        closing: ServerStop,
        *,
        eager: bool = True,
        permitted: WhilePermitted | None = None,
    ) -> None:
        """`permitted`: for one that is followed."""
        self._permitted = permitted
        self.status_code = 200
        self.background = None
        self.body = b""
        self._pages = pages
        self._closing = closing
        self._eager = eager
        self.raw_headers = [(b"content-type", b"application/json")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._pages):
            first: Sequence[R] = ()
            if self._eager:
                try:
                    first = await anext(self._pages)
                except StopAsyncIteration:
                    pass
                except WindlassError as error:
                    await error_response(status_of(error), error.message)(scope, receive, send)
                    return
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            try:
                async with WhileWanted(receive, self._closing), self._permitted or nullcontext():
                    await self._send(first, send)
            except WindlassError as error:
                await _chunk(send, encode({"error": stream_error(error)}) + b"\n")
            except Exception as error:  # noqa: BLE001 - headers are out: the stream has to say it
                log.error("stream crashed", path=scope["path"], traceback=plain_traceback(error))
                failure = WindlassError("internal error; the master's log has the details")
                await _chunk(send, encode({"error": stream_error(failure)}) + b"\n")
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, first: Sequence[R], send: Send) -> None:
        await _page(send, first)
        async for page in self._pages:
            if self._permitted is not None:
                await self._permitted.require()
            await _page(send, page)


async def _page(send: Send, page: Sequence[Document]) -> None:
    if page:
        await _chunk(send, b"".join(encode({"result": item}) + b"\n" for item in page))


async def _chunk(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
