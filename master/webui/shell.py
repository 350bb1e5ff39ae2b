"""The one page behind most addresses below `/det/`: its modules ask the REST API for all that they show.

Which module shows which address is in `static/js/routes.js`, for the browser and for this.
"""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from fastapi.responses import Response

from master.api.access import Caller
from master.api.permits import OWN, permit, public
from master.api.services import TheApi
from master.auth.actions import Action
from master.webui.assets import ASSETS, Assets
from master.webui.pages import PageRoute, page, redirect

APP, ROUTES = "js/app.js", "js/routes.js"
_ROUTE = re.compile(r'route\("([^"]*)", \(\) => import\("\./([^"]+)"\)')

router = APIRouter(route_class=PageRoute, tags=["pages"])


@router.get("/")
@router.get("/det")
@public
async def to_home(request: Request) -> Response:
    return redirect(request, "det/")


@router.get("/det/")
@router.get("/det/{path:path}")
@permit(Action.USE_SESSION, OWN)
async def shell(request: Request, principal: Caller, api: TheApi, path: str = "") -> Response:
    """Also at unknown addresses, where it says so."""
    assets = ASSETS.current()
    module = module_of(assets, path)
    info = api.services.info
    return page(
        request,
        "shell.html",
        status=200 if module else 404,
        modules=assets.modules_of(APP, *([module] if module else [])),
        cluster=info.cluster_name,
        version=info.windlass_version,
    )


def module_of(assets: Assets, path: str) -> str | None:
    """What shows this address."""
    text = assets.files[ROUTES].content.decode()
    for pattern, module in _ROUTE.findall(text):
        if _matches(pattern.split("/"), path.strip("/").split("/")):
            return f"js/{module}"
    return None


def _matches(pattern: list[str], segments: list[str]) -> bool:
    """As `match` of routes.js does: `:name` is any segment, `:name?` may be missing at the end."""
    if pattern[-1].endswith("?") and len(segments) == len(pattern) - 1:
        pattern = pattern[:-1]
    return len(pattern) == len(segments) and all(
        bool(segment) if part.startswith(":") else part == segment
        for part, segment in zip(pattern, segments, strict=True)
    )
