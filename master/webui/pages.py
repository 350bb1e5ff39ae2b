"""What every page has: templates, headers, the files it is shown with, and its way to the master's root.

All links are relative, so that pages work behind a proxy that serves the master below a path of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.types import ASGIApp, Receive, Scope, Send

from master.api.errors import status_of
from master.api.permits import public
from master.api.routing import ApiRoute
from windlass.base.errors import NotFound, Unauthenticated, WindlassError

_FOLDER = Path(__file__).parent
_TYPES = {".css": "text/css", ".js": "text/javascript"}
_SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "x-content-type-options": "nosniff",
    # Never a path or a token; but with `no-referrer` browsers would send forms without an origin.
    "referrer-policy": "strict-origin",
}
_TEMPLATES = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ASSETS = {
    path.relative_to(_FOLDER / "static").as_posix(): path.read_bytes()
    for path in sorted((_FOLDER / "static").rglob("*"))
    if path.suffix in _TYPES
}
VERSION = hashlib.sha256(repr(sorted(_ASSETS.items())).encode()).hexdigest()[:16]


def root_of(scope: Scope) -> str:
    """The relative way from the page that a browser shows to the master's root: `../../`."""
    return "../" * (asked_path(scope).count("/") - 1) or "./"


def asked_path(scope: Scope) -> str:
    """As the browser wrote it: a quoted slash is not one of the path's."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.decode("latin-1")


def asked_address(scope: Scope) -> str:
    """The path with its query."""
    query: bytes = scope["query_string"]
    return asked_path(scope) + (f"?{query.decode('latin-1')}" if query else "")


def page(request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    return _page(request.scope, template, status, **values)


def error_page(scope: Scope, status: int, message: str) -> HTMLResponse:
    return _page(scope, "error.html", status, message=message)


def _page(scope: Scope, template: str, status: int, **values: object) -> HTMLResponse:
    root = root_of(scope)
    html = _TEMPLATES.get_template(template).render(
        root=root, assets=f"{root}det/assets/{VERSION}", **values
    )
    return HTMLResponse(html, status, headers={**_SECURITY, "cache-control": "no-store"})


def redirect(request: Request, path: str) -> RedirectResponse:
    """`path`: from the master's root, without its slash."""
    headers = {**_SECURITY, "cache-control": "no-store"}
    return RedirectResponse(root_of(request.scope) + path, 303, headers)


class PageRoute(ApiRoute):
    """Says errors as pages, and leads who is not logged in to the form."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **{**options, "include_in_schema": False})
        self.app = _ReadableErrors(self.app)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_readably(request: Request) -> Response:
            try:
                return await handle(request)
            except WindlassError as error:
                return _error_page(request, error)

        return handle_readably


class _ReadableErrors:
    """ASGI: for what is refused before the route runs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except WindlassError as error:
            await _error_page(Request(scope), error)(scope, receive, send)


def _error_page(request: Request, error: WindlassError) -> Response:
    if isinstance(error, Unauthenticated):
        back = quote(asked_address(request.scope), safe="")
        return redirect(request, f"det/login?redirect={back}")
    return error_page(request.scope, status_of(error).http, error.message)


router = APIRouter(route_class=PageRoute, tags=["pages"])


@router.get("/det/assets/{version}/{folder}/{name}")
@public
async def asset(version: str, folder: str, name: str) -> Response:
    """A file of a page. Another version has another address."""
    content = _ASSETS.get(f"{folder}/{name}")
    if content is None or version != VERSION:
        raise NotFound("file", name)
    headers: Mapping[str, str] = {
        "cache-control": "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
    }
    return Response(content, media_type=_TYPES[Path(name).suffix], headers=headers)
