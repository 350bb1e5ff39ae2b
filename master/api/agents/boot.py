"""What the script in user data asks. It shows the token of its launch, which is good until the machine has joined."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from agent_bootstrap.bounds import Id, one_line
from agent_bootstrap.scripts.user_data import BOOT_PATH
from master.api.access import token_in
from master.api.permits import public
from master.api.replies import Empty, Reply
from master.api.request_models import Query as Parameters
from master.api.routing import ApiRoute
from master.api.services import TheApi

router = APIRouter(prefix=BOOT_PATH, route_class=ApiRoute, tags=["agents"])

MAX_DETAIL_BYTES = 4096


class TarResponse(Response):
    media_type = "application/x-tar"


class WheelResponse(FileResponse):
    media_type = "application/octet-stream"


class InstancePath(Parameters):
    instance: Id
    """As its provider calls it."""


class BootReport(InstancePath):
    stage: Id


@router.get("", response_class=TarResponse)
@public
async def files(request: Request, query: Annotated[InstancePath, Query()], api: TheApi) -> Response:
    """What sets the machine up: an archive."""
    token = token_in(request.scope["headers"])
    return TarResponse(await api.services.boots.files(query.instance, token))


@router.get("/wheels", response_class=PlainTextResponse)
@public
async def wheels(
    request: Request, query: Annotated[InstancePath, Query()], api: TheApi
) -> Response:
    """The wheels of this release, as `sha256sum --check` reads them."""
    token = token_in(request.scope["headers"])
    return PlainTextResponse(await api.services.boots.wheels(query.instance, token))


@router.get("/wheels/{name}", response_class=WheelResponse)
@public
async def wheel(
    name: str, request: Request, query: Annotated[InstancePath, Query()], api: TheApi
) -> Response:
    """One of them."""
    token = token_in(request.scope["headers"])
    return WheelResponse(await api.services.boots.wheel(query.instance, token, name))


@router.post("/stage")
@public
async def tell(
    request: Request, query: Annotated[BootReport, Query()], api: TheApi
) -> Reply[Empty]:
    """How far the boot is. The body is text: a line for users, and another for operators, which may be secret."""
    said = (await request.body())[:MAX_DETAIL_BYTES].decode("utf-8", "replace")
    token = token_in(request.scope["headers"])
    words, _, detail = said.partition("\n")
    await api.services.boots.tell(
        query.instance, token, query.stage, one_line(words), one_line(detail)
    )
    return Reply()
