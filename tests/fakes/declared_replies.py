"""Whether answers have the shape that their routes declare: every test of the API checks it on the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import httpx2
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from master.api.application import ROUTES
from master.api.errors import ErrorReply
from master.api.openapi import DescribedApp
from master.api.replies import declared_reply
from master.webui.pages import PageRoute

_PAGES = tuple(route for route in ROUTES if isinstance(route, PageRoute))


class DeclaredReplies:
    def __init__(self, app: DescribedApp) -> None:
        self._routes = app.described

    def check(self, response: httpx2.Response) -> None:
        """Raises AssertionError for an answer that is not what its route declares, down to unknown keys."""
        request = response.request
        if _is_page(request.method, request.url.path):
            _check_page(response)
            return
        route = self._route(request.method, request.url.path)
        shape = ErrorReply if route is None else _reply(route.endpoint)
        if not response.headers.get("content-type", "").startswith("application/json"):
            assert shape is None, f"{request.method} {request.url.path} declares JSON"
            return
        if response.status_code != 200:
            shape = ErrorReply | (shape or ErrorReply)
        elif route is None:
            return  # the description itself
        assert shape is not None, f"{request.method} {request.url.path} declares no reply"
        for line in response.content.splitlines():
            try:
                _adapter(shape).validate_json(line, strict=True, extra="forbid")
            except ValidationError as error:
                raise AssertionError(f"{request.method} {request.url.path}: {error}") from None

    def _route(self, method: str, path: str) -> APIRoute | None:
        """The first that matches, as the application finds it."""
        for route in self._routes:
            if method in (route.methods or ()) and route.path_regex.match(path.rstrip("/")):
                return route
        return None


def _is_page(method: str, path: str) -> bool:
    return any(method in (page.methods or ()) and page.path_regex.match(path) for page in _PAGES)


def _check_page(response: httpx2.Response) -> None:
    """Pages and where they lead have a strict CSP; files and the state of a task are not shown as pages."""
    kind = response.headers.get("content-type", "text/html").partition(";")[0]
    assert kind in ("text/html", "text/css", "text/javascript", "application/json")
    if kind == "text/html":
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy, (response.request.url, policy)


@cache
def _reply(endpoint: Callable[..., Any]) -> Any:
    return declared_reply(endpoint)


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)
