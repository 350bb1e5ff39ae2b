"""`/det/login`: a form that works without scripts, and sends the browser on to where it came from.

`#code=…`, the one-time code of `det web`, is sent by a script: what stands behind `#` is in no log and no `Referer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import Response

from master.api.access import COOKIE, is_loopback
from master.api.errors import status_of
from master.api.http.known_hosts import host_in, origin_of
from master.api.permits import public
from master.api.services import ApiContext, TheApi
from master.api.users.session import keep_token
from master.webui.pages import PageRoute, page, redirect
from master.webui.redirects import own_path
from windlass.base.errors import InvalidArgument, WindlassError

MAX_FIELDS = 10

router = APIRouter(route_class=PageRoute, tags=["pages"])


@router.get("/det/login")
@public
async def login_form(request: Request) -> Response:
    asked = request.query_params.get("redirect", "")
    return page(request, "login.html", problem="", username="", redirect=asked)


@router.post("/det/login")
@public
async def log_in(request: Request, api: TheApi) -> Response:
    """`BrowserRules` has seen that the form is ours."""
    form = _fields(await request.body())
    username, asked = form.get("username", ""), form.get("redirect", "")
    try:
        token = await _token(request, api, form)
    except WindlassError as error:
        values = {"problem": _sentence(error), "username": username, "redirect": asked}
        return page(request, "login.html", status=status_of(error).http, **values)
    path = own_path(asked, _origins(request, api)).removeprefix("/")
    response = redirect(request, path or "det/")
    keep_token(response, token, request)
    return response


async def _token(request: Request, api: ApiContext, form: Mapping[str, str]) -> str:
    """Of a new session. Raises WindlassError."""
    auth, address = api.services.auth, request.client.host if request.client else ""
    if code := form.get("code", ""):
        before = request.cookies.get(COOKIE, "")
        token, _ = await auth.login_with_code(code, before=before, address=address)
    else:
        token, _ = await auth.login(
            form.get("username", ""),
            form.get("password", ""),
            is_hashed=False,
            loopback=is_loopback(request),
            address=address,
        )
    return token


def _fields(body: bytes) -> Mapping[str, str]:
    """Raises InvalidArgument."""
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise InvalidArgument("the body is not that of the form of this page") from None


def _origins(request: Request, api: ApiContext) -> frozenset[str]:
    here = f"{request.url.scheme}://{host_in(request.scope)}".lower()
    return frozenset({here, origin_of(api.services.master_url)})


def _sentence(error: WindlassError) -> str:
    text = error.message
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
