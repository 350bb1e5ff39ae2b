"""Errors as the published client reads them: the one place that knows HTTP codes.

A browser that is not at the published API gets a page with the message instead (`answer_to`).

Body: {"error": {"code": <grpc code>, "reason": <its name>, "error": <message>}, "message": <message>}
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import NotRequired

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose
from typing_extensions import TypedDict

from master.api.http.accept import asks_for_page
from master.config.sections import NO_SIGN_ON
from master.experiments.finding.tokens import InvalidFilter
from windlass.base.errors import NotFound, WindlassError
from windlass.base.formats.json_types import JsonObject

log = structlog.get_logger(__name__)


class Unimplemented(WindlassError):
    """A part of the published API that this master does not have."""

    code = "unimplemented"


class Stopping(WindlassError):
    """The server is going down; whoever waits should ask the next one."""

    code = "stopping"


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    http: int
    grpc: int
    reason: str


INVALID = ErrorStatus(400, 3, "InvalidArgument")
INTERNAL = ErrorStatus(500, 13, "Internal")
UNAVAILABLE = ErrorStatus(503, 14, "Unavailable")
NOT_FOUND = ErrorStatus(404, 5, "NotFound")
UNIMPLEMENTED = ErrorStatus(501, 12, "Unimplemented")
CHECK_PERMISSIONS = ", please check your permissions."
"""What is not there may be there for others."""
MOST_ECHOED = 200
"""Characters of a request that an error repeats."""
_PUBLISHED = ("/api/v1/", "/resources/allocation/", "/stream")
"""Paths below these are of the published API, if they are anything."""
_SIGN_ON = ("/saml/", "/oidc/", "/scim/", "/oauth2/")
"""Paths below these are of other ways to log in."""
STATUS_OF_CODE: Mapping[str, ErrorStatus] = {
    "invalid_argument": INVALID,
    "invalid_config": INVALID,
    "unsatisfiable": INVALID,
    "failed_precondition": ErrorStatus(400, 9, "FailedPrecondition"),
    "unauthenticated": ErrorStatus(401, 16, "Unauthenticated"),
    "permission_denied": ErrorStatus(403, 7, "PermissionDenied"),
    "not_found": NOT_FOUND,
    "conflict": ErrorStatus(409, 6, "AlreadyExists"),
    "no_capacity": ErrorStatus(429, 8, "ResourceExhausted"),
    "quota": ErrorStatus(429, 8, "ResourceExhausted"),
    "throttled": ErrorStatus(429, 8, "ResourceExhausted"),
    "store_unavailable": UNAVAILABLE,
    "lease_lost": UNAVAILABLE,
    "lease_held": UNAVAILABLE,
    "stopping": UNAVAILABLE,
    "unimplemented": UNIMPLEMENTED,
    "storage": ErrorStatus(502, 14, "Unavailable"),
    "data_damaged": ErrorStatus(410, 15, "DataLoss"),
}
_STATUS_OF_HTTP: Mapping[int, ErrorStatus] = {
    400: INVALID,
    401: STATUS_OF_CODE["unauthenticated"],
    403: STATUS_OF_CODE["permission_denied"],
    404: NOT_FOUND,
    405: UNIMPLEMENTED,
    413: ErrorStatus(413, 8, "ResourceExhausted"),
    415: ErrorStatus(415, 3, "InvalidArgument"),
}
"""Errors that the framework raises by itself."""


ErrorPage = Callable[[Scope, int, str], Response]
"""The status of HTTP, and the message."""


def status_of(error: WindlassError) -> ErrorStatus:
    return STATUS_OF_CODE.get(error.code, INTERNAL)


class ErrorDetail(TypedDict):
    code: int
    """Of gRPC."""
    reason: str
    error: str
    start: NotRequired[int]
    """Our own: where a filter is wrong, in characters from 0; up to `end`."""
    end: NotRequired[int]


class ErrorReply(TypedDict):
    """What every status but 200 comes with."""

    error: ErrorDetail
    message: str


def error_response(status: ErrorStatus, message: str) -> Response:
    return _response(status, _detail(status, message))


def _detail(status: ErrorStatus, message: str) -> ErrorDetail:
    return {"code": status.grpc, "reason": status.reason, "error": message}


def _response(status: ErrorStatus, detail: ErrorDetail) -> Response:
    body: ErrorReply = {"error": detail, "message": detail["error"]}
    return JSONResponse(body, status_code=status.http)


def answer_to(scope: Scope, status: ErrorStatus, message: str) -> Response:
    """The same as a page, for a browser."""
    if asks_for_page(scope) and not scope["path"].startswith(_PUBLISHED):
        make_page: ErrorPage = scope["app"].state.error_page
        return make_page(scope, status.http, message)
    return error_response(status, message)


class StreamError(TypedDict):
    """An error in the line of a stream."""

    grpcCode: int
    httpCode: int
    message: str
    httpStatus: str
    details: list[JsonObject]


def stream_error(error: WindlassError) -> StreamError:
    status = status_of(error)
    return {
        "grpcCode": status.grpc,
        "httpCode": status.http,
        "message": error.message,
        "httpStatus": HTTPStatus(status.http).phrase,
        "details": [],
    }


def plain_traceback(error: BaseException) -> str:
    """Without local variables, which some log renderers add: those of a request hold its token."""
    return "".join(traceback.format_exception(error))


def install(app: FastAPI, error_page: ErrorPage, *, shows_roles: bool) -> None:
    """Register the handlers. `error_page`: what browsers get. `shows_roles`: clients know of them."""
    app.state.error_page = error_page

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        """Nobody reads it."""
        return error_response(INVALID, "the connection ended before the body")

    @app.exception_handler(WindlassError)
    async def known(request: Request, error: WindlassError) -> Response:
        status = status_of(error)
        if status is INTERNAL:
            log.error("request failed", path=request.url.path, error=error.message)
        message = error.message
        if isinstance(error, NotFound) and shows_roles:
            message += CHECK_PERMISSIONS
        return answer_to(request.scope, status, message)

    @app.exception_handler(InvalidFilter)
    async def invalid_filter(request: Request, error: InvalidFilter) -> Response:
        detail = _detail(INVALID, error.message)
        return _response(INVALID, {**detail, "start": error.start, "end": error.end})

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer_to(request.scope, INVALID, "; ".join(_line(e) for e in error.errors()))

    @app.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        status = _STATUS_OF_HTTP.get(error.status_code, INTERNAL)
        if status is NOT_FOUND and request.url.path.startswith(_SIGN_ON):
            return error_response(UNIMPLEMENTED, NO_SIGN_ON)
        if status is NOT_FOUND and request.url.path.startswith(_PUBLISHED):
            status = UNIMPLEMENTED
        if status is UNIMPLEMENTED:
            return _unimplemented(request.scope, request.method)
        return answer_to(request.scope, status, str(error.detail))

    @app.exception_handler(Exception)
    async def unknown(request: Request, error: Exception) -> Response:
        log.error("request crashed", path=request.url.path, traceback=plain_traceback(error))
        return answer_to(
            request.scope, INTERNAL, "internal error; the master's log has the details"
        )


def _unimplemented(scope: Scope, method: str) -> Response:
    asked = f"{method} {scope['path']}"[:MOST_ECHOED]
    return answer_to(
        scope, UNIMPLEMENTED, f"{asked} is not implemented in this version of Windlass"
    )


async def refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI: the answer to a WebSocket for which there is no route."""
    if not scope["path"].startswith(_PUBLISHED):
        await WebSocketClose()(scope, receive, send)
        return
    await answer_socket(_unimplemented(scope, "WebSocket"), scope, receive, send)


async def answer_socket(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """A WebSocket that is not opened is answered in HTTP."""
    await response(scope, receive, send)
    # Until the connection has ended, which is told after the answer was: uvicorn logs an error if we leave earlier.
    ends = 0
    while ends < 2:
        ends += (await receive())["type"] == "websocket.disconnect"


def _line(error: Mapping[str, object]) -> str:
    """One problem of a request, by field. Texts of bodies are not echoed: they may be secrets."""
    location = error.get("loc")
    parts = location if isinstance(location, list | tuple) else ()
    if error.get("type") == "json_invalid":
        return "the body is not valid JSON"
    path = ".".join(str(p) for p in parts if p not in ("body", "query", "path"))
    message = str(error.get("msg", "is invalid")).removeprefix("Value error, ")
    given, in_url = error.get("input"), any(part in ("query", "path") for part in parts[:1])
    if isinstance(given, int | float) or (in_url and isinstance(given, str)):
        message += f", but is {str(given)[:MOST_ECHOED]!r}"
    return f"{path or 'body'}: {message}"
