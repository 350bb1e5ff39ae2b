"""Logging in and out, and who one is."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from typing_extensions import TypedDict

from master.api import values
from master.api.access import COOKIE, Caller, is_loopback, token_in
from master.api.permits import OWN, permit, public
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.users.replies import User, UserReply
from master.api.users.wire import user as user_json
from master.auth.actions import Action
from master.auth.service import SESSION_LENGTH


class LoginReply(TypedDict):
    token: str
    user: User


class LoginCodeReply(TypedDict):
    code: str
    expiresAt: str


router = APIRouter(route_class=ApiRoute, tags=["session"])


class Login(Body):
    username: str = ""
    password: str = ""
    is_hashed: bool = False


@router.post("/api/v1/auth/login")
@public
async def login(request: Request, body: Login, api: TheApi) -> Reply[LoginReply]:
    token, user = await api.services.auth.login(
        body.username,
        body.password,
        is_hashed=body.is_hashed,
        loopback=is_loopback(request),
        address=request.client.host if request.client else "",
    )
    response: Reply[LoginReply] = reply({"token": token, "user": user_json(user)})
    keep_token(response, token, request)
    return response


def keep_token(response: Response, token: str, request: Request) -> None:
    """In the browser that is answered."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(SESSION_LENGTH.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


@router.post("/api/v1/auth/logout")
@permit(Action.USE_SESSION, OWN)
async def logout(request: Request, api: TheApi) -> Reply[Empty]:
    await api.services.auth.logout(token_in(request.scope["headers"]))
    response: Reply[Empty] = reply()
    response.delete_cookie(
        COOKIE, httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
    return response


@router.post("/api/v1/windlass/login-codes")
@permit(Action.USE_SESSION, OWN)
async def create_login_code(principal: Caller, api: TheApi) -> Reply[LoginCodeReply]:
    """For `/det/login#code=…`, once within a minute: opens a browser that is logged in as the caller is."""
    code, expires_at = api.services.auth.issue_login_code(principal)
    return reply({"code": code, "expiresAt": values.time(expires_at)})


@router.get("/api/v1/me")
@permit(Action.USE_SESSION, OWN)
async def me(principal: Caller, api: TheApi) -> Reply[UserReply]:
    return reply({"user": user_json(api.services.auth.user(principal.user_id))})


@router.get("/api/v1/auth/user")
@permit(Action.USE_SESSION, OWN)
async def current_user(principal: Caller, api: TheApi) -> Reply[UserReply]:
    """The same as `/api/v1/me`."""
    return reply({"user": user_json(api.services.auth.user(principal.user_id))})


@router.get("/users/me")
@permit(Action.USE_SESSION, OWN)
async def me_for_browsers(principal: Caller, api: TheApi) -> Reply[User]:
    return reply(user_json(api.services.auth.user(principal.user_id)))
