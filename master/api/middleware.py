"""Requests, made plain before any route sees them: three ASGI middlewares.

- Every API request body is JSON, whatever its Content-Type says, and an empty one is `{}`: the published harness sends
  JSON without a Content-Type, log shippers call it a form, and many POSTs have no body.
- A trailing slash means nothing, and query keys may be written in snake_case.
- Bodies have a size limit.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
API = "/api/v1"
MAX_BODY_BYTES = 8 * 1024 * 1024
"""A metric report or a batch of log lines is far smaller."""
MAX_CREATE_BYTES = 130 * 1024 * 1024
"""Creating an experiment or a command: 95 MiB of files, in base64."""
CREATE = frozenset({(f"{API}/experiments", "POST"), (f"{API}/commands", "POST")})
_SNAKE = re.compile(r"_([a-z0-9])")


class JsonBodies:
    """ASGI middleware for all paths of this application; mount what is not JSON outside of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS:
            await self._app(scope, receive, send)
            return
        headers = [h for h in scope["headers"] if h[0] != b"content-type"]
        named = dict(headers)
        empty = b"transfer-encoding" not in named and named.get(b"content-length") in (None, b"0")
        headers.append((b"content-type", b"application/json"))
        scope = {**scope, "headers": headers}
        await self._app(scope, _empty_object(receive) if empty else receive, send)


def _empty_object(receive: Receive) -> Receive:
    given = False

    async def receive_once() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": b"{}", "more_body": False}

    return receive_once


class PlainUrls:
    """ASGI middleware: one spelling for paths and query keys."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = dict(scope)
            path = scope["path"]
            if path.startswith(f"{API}/") and path.endswith("/"):
                scope["path"] = path.rstrip("/")
            if b"_" in scope["query_string"]:
                scope["query_string"] = _camel_keys(scope["query_string"])
        await self._app(scope, receive, send)


def _camel_keys(query: bytes) -> bytes:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="utf-8")
    return urlencode([(camel(key), value) for key, value in pairs]).encode()


def camel(name: str) -> str:
    """snake_case to camelCase; what is camelCase already stays."""
    return _SNAKE.sub(lambda found: found.group(1).upper(), name)


class BodyLimits:
    """ASGI middleware: refuses a body that is too large, by its length if it says one, else while it comes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS:
            await self._app(scope, receive, send)
            return
        large = (scope["path"], scope["method"]) in CREATE
        limit = MAX_CREATE_BYTES if large else MAX_BODY_BYTES
        said = dict(scope["headers"]).get(b"content-length", b"0")
        await self._app(scope, _limited(receive, limit, int(said) if said.isdigit() else 0), send)


def _limited(receive: Receive, limit: int, said: int) -> Receive:
    taken = 0

    async def receive_counting() -> Message:
        nonlocal taken
        if said > limit:
            raise _too_large(limit)
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > limit:
                raise _too_large(limit)
        return message

    return receive_counting


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit // 1024 // 1024} MiB")
