"""Requests, made plain before any route sees them: three ASGI middlewares.

- Every API request body is JSON, whatever its Content-Type says, and an empty one is `{}`: the published harness sends
  JSON without a Content-Type, log shippers call it a form, and many POSTs have no body.
- A trailing slash means nothing, and query keys may be written in snake_case.
- A large body that nobody reads ends the connection; each route says how much of one it takes (`permits`).
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
API = "/api/v1"
PROXY = "/proxy/"
"""What goes to tasks goes as it came."""
LARGE_BYTES = 64 * 1024
"""Less than this is taken in and thrown away: the connection can be used again."""
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
        if scope["type"] == "http" and not scope["path"].startswith(PROXY):
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


class UnreadBodies:
    """ASGI middleware: hangs up after an answer to a large request that nobody read, instead of taking it in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_large(scope):
            await self._app(scope, receive, send)
            return
        is_read = False

        async def receive_noting() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = not message.get("more_body", False)
            return message

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and not is_read:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive_noting, send_closing)


def _is_large(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    said = headers.get(b"content-length", b"0")
    return b"transfer-encoding" in headers or (said.isdigit() and int(said) > LARGE_BYTES)


def limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Refuses a body that is too large, by its length if it says one, else while it comes."""
    said = dict(scope["headers"]).get(b"content-length", b"0")
    is_too_large, taken = said.isdigit() and int(said) > limit, 0

    async def receive_counting() -> Message:
        nonlocal taken
        if is_too_large:
            raise _too_large(limit)
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > limit:
                raise _too_large(limit)
        return message

    return receive_counting


def _too_large(limit: int) -> HTTPException:
    kib = limit // 1024
    size = f"{kib // 1024} MiB" if kib >= 1024 else f"{kib} KiB"
    return HTTPException(413, f"the body is larger than {size}")
