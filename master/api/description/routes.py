"""The description of the API as JSON and as a page, and whether this master can serve. For everybody."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from typing_extensions import TypedDict

from master.api.description.page import page
from master.api.permits import public
from master.api.replies import Reply, encode, reply
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.parsing import in_parsing_thread
from windlass.base.errors import StoreDamaged, StoreUnavailable
from windlass.base.json_types import JsonObject

OPENAPI = "/openapi.json"
router = APIRouter(route_class=ApiRoute, tags=["description"])

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""The page has no scripts and loads nothing."""


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
async def docs(request: Request) -> HTMLResponse:
    """This description of the API, as a page."""
    html = page(cast("FastAPI", request.app).openapi())
    return HTMLResponse(html, headers={"content-security-policy": _POLICY})
