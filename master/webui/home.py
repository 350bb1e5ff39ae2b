"""What is at the master's own address: who is logged in, and what leads on."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from master.api.access import Caller
from master.api.permits import OWN, permit, public
from master.api.services import TheApi
from master.auth.actions import Action
from master.webui.pages import PageRoute, page, redirect

router = APIRouter(route_class=PageRoute, tags=["pages"])


@router.get("/")
@router.get("/det")
@public
async def to_home(request: Request) -> Response:
    return redirect(request, "det/")


@router.get("/det/")
@permit(Action.USE_SESSION, OWN)
async def home(request: Request, principal: Caller, api: TheApi) -> Response:
    info = api.services.info
    return page(
        request,
        "home.html",
        username=principal.name,
        cluster=info.cluster_name,
        version=info.windlass_version,
    )
