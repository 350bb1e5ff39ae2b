"""For everybody: the documentation, the description of the API as JSON and as a page, and whether the master serves."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from typing_extensions import TypedDict

from master.api.cluster.description_page import page
from master.api.permits import public
from master.api.replies import Reply, encode, reply
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.parsing import in_parsing_thread
from windlass.base.errors import NotFound, StoreDamaged, StoreUnavailable
from windlass.base.formats.json_types import JsonObject

OPENAPI = "/openapi.json"
router = APIRouter(route_class=ApiRoute, tags=["description"])

SITE = Path(__file__).parents[2] / "site"
"""Made by `make docs-site`, and part of the wheel."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""The page has no scripts and loads nothing."""
_SITE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'"
)
"""Nothing from another host."""


class Health(TypedDict):
    status: str
    """up, or down."""
    database: str
    """up, down, or damaged: the master's log says where, and how to restore the last backup."""
    version: str


@router.get("/health")
@public
async def health(api: TheApi) -> Reply[Health]:
    """Whether this master serves: 200 and `up`, or 503 and `down`."""
    try:
        await api.services.store.ping()
        database = "up"
    except StoreDamaged:
        database = "damaged"
    except StoreUnavailable:
        database = "down"
    serves = database == "up" and not api.services.store.is_damaged and not api.closing.is_set()
    if database == "up" and api.services.database_is_damaged():
        database = "damaged"
    found: Health = {
        "status": "up" if serves else "down",
        "database": database,
        "version": api.services.info.version,
    }
    return Reply(encode(found), status_code=200 if serves else 503)


@router.get(OPENAPI, operation_id="openapi")
@router.get(f"/api/v1{OPENAPI}", operation_id="openapi_v1")
@public
async def openapi(request: Request) -> Reply[JsonObject]:
    """This description of the API, as OpenAPI 3.1."""
    # Made when it is first asked for: a third of a second.
    return reply(await in_parsing_thread(cast("FastAPI", request.app).openapi))


@router.get("/docs", response_class=HTMLResponse)
@public
async def docs() -> Response:
    """To the first page of the documentation."""
    return RedirectResponse("docs/index.html")


@router.get("/docs/{path:path}", response_class=HTMLResponse)
@public
async def docs_page(path: str, request: Request) -> Response:
    """A page of the documentation, or what it is shown with."""
    try:
        found = await StaticFiles(directory=SITE, check_dir=False).get_response(
            path or "index.html", request.scope
        )
    except HTTPException as error:
        hint = "" if SITE.is_dir() else "; this installation has none: `make docs-site`"
        raise NotFound("page", path, hint) from error
    found.headers["content-security-policy"] = _SITE_POLICY
    return found


@router.get("/docs/rest-api", response_class=HTMLResponse)
@public
async def rest_api(request: Request) -> HTMLResponse:
    """This description of the API, as a page."""
    html = page(cast("FastAPI", request.app).openapi())
    return HTMLResponse(html, headers={"content-security-policy": _POLICY})
