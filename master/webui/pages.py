"""What every page has: templates, headers, the files it is shown with, and its way to the master's root.

All links are relative, so that pages work behind a proxy that serves the master below a path of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.types import ASGIApp, Receive, Scope, Send

from master.api.errors import status_of
from master.api.permits import public
from master.api.proxy.task_origin import asked
from master.api.routing import ApiRoute
from master.webui.assets import ASSETS
from windlass.base.errors import NotFound, Unauthenticated, WindlassError

_FOLDER = Path(__file__).parent
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
_SHEETS = ["css/tokens.css", "css/states.css", "css/base.css"]
"""Of pages that need no script."""


def root_of(scope: Scope) -> str:
    """The relative way from the page that a browser shows to the master's root: `../../`."""
    return "../" * (asked_path(scope).count("/") - 1) or "./"


def asked_path(scope: Scope) -> str:
    """As the browser wrote it: a quoted slash is not one of the path's."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.decode("latin-1")


def page(request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    return _page(request.scope, template, status, **values)


def error_page(scope: Scope, status: int, message: str) -> HTMLResponse:
    return _page(scope, "error.html", status, message=message)


def _page(scope: Scope, template: str, status: int, **values: object) -> HTMLResponse:
    root, assets = root_of(scope), ASSETS.current()
    html = _TEMPLATES.get_template(template).render(
        root=root,
        assets=f"{root}det/assets/{assets.version}",
        sheets=_SHEETS,
        app_sheets=[name for name in assets.files if name.endswith(".css") and name not in _SHEETS],
        **values,
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
        back = quote(asked(request.scope), safe="")
        return redirect(request, f"det/login?redirect={back}")
    return error_page(request.scope, status_of(error).http, error.message)


router = APIRouter(route_class=PageRoute, tags=["pages"])


@router.get("/det/assets/{version}/{name:path}")
@public
async def asset(request: Request, version: str, name: str) -> Response:
    """A file of a page. Another version has another address."""
    assets = ASSETS.current()
    found = assets.files.get(name)
    if found is None or (version != assets.version and not ASSETS.reloads):
        raise NotFound("file", name)
    headers = {
        "cache-control": "no-store" if ASSETS.reloads else "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
        "vary": "accept-encoding",
    }
    content = found.content
    if found.compressed is not None and takes_gzip(request.headers.get("accept-encoding", "")):
        content, headers["content-encoding"] = found.compressed, "gzip"
    return Response(content, media_type=found.media_type, headers=headers)


def takes_gzip(accepted: str) -> bool:
    coding = re.compile(r"gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?", re.IGNORECASE)
    return any(coding.fullmatch(one.strip()) for one in accepted.split(","))
