"""A session of the master's origin is one at the origin of tasks (`webui.task_origin`), too: by a one-time code."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from master.api.access import COOKIE, Caller, token_in
from master.api.http.middleware import PROXY
from master.api.permits import OWN, permit, public
from master.api.proxy.task_origin import ENTER, LEAVE
from master.api.services import ApiContext, TheApi
from master.api.users.session import keep_token
from master.auth.actions import Action
from master.webui.pages import PageRoute
from master.webui.redirects import own_path
from windlass.base.errors import InvalidArgument, NotFound, Unauthenticated

router = APIRouter(route_class=PageRoute, tags=["pages"])


@router.get(LEAVE)
@permit(Action.USE_SESSION, OWN)
async def leave(request: Request, principal: Caller, api: TheApi, to: str = "") -> Response:
    """`to`: the address of a service, from `/proxy/` on."""
    origin, service = _origin(api), _service(to)
    token = token_in(request.scope["headers"])
    code = api.services.auth.issue_session_code(principal, token)
    return _moved(f"{origin}{ENTER}?{urlencode({'code': code, 'to': service})}")


@router.get(ENTER)
@public
async def enter(request: Request, api: TheApi, code: str = "", to: str = "") -> Response:
    """The same session, which reaches services alone here."""
    origin, service = _origin(api), _service(to)
    try:
        before = request.cookies.get(COOKIE, "")
        token = api.services.auth.session_of_code(code, before=before)
    except Unauthenticated:
        return _moved(f"{api.services.master_url}{LEAVE}?{urlencode({'to': service})}")
    response = _moved(f"{origin}{service}")
    keep_token(response, token, request)
    return response


def _moved(url: str) -> Response:
    return RedirectResponse(url, 303, headers={"cache-control": "no-store"})


def _origin(api: ApiContext) -> str:
    """Raises NotFound where tasks have none of their own."""
    origin = api.services.config.webui.task_origin
    if origin is None:
        raise NotFound("page", "task-login", ": webui.task_origin is not set")
    return origin


def _service(to: str) -> str:
    path = own_path(to, ())
    if not path.startswith(PROXY):
        raise InvalidArgument("to: must be the address of a service, which begins with /proxy/")
    return path
