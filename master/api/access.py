"""Who calls, and what it may change.

A user may do what the open edition lets any user do. A task acts for the user who owns it, and may read everything,
but it may change only what is its own: its trial, its allocation, its task.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, TypeAlias

from fastapi import Depends
from starlette.requests import HTTPConnection, Request

from master.api.services import Api, TheApi
from master.auth.principal import Principal
from master.core.visibility import EVERYTHING, Visibility
from windlass.base.errors import PermissionDenied, Unauthenticated

COOKIE = "auth"
_HEADERS = (
    "grpc-metadata-x-user-token",
    "authorization",
    "grpc-metadata-x-allocation-token",
)
"""Where a token may be, in this order; the cookie comes last."""


def token_of(connection: HTTPConnection) -> str:
    """The first token of a call; empty if it has none."""
    for header in _HEADERS:
        value = connection.headers.get(header, "").strip()
        kind, _, token = value.rpartition(" ")
        if token and kind.strip().lower() in ("", "bearer"):
            return token
    return connection.cookies.get(COOKIE, "")


async def caller(request: Request, api: TheApi) -> Principal:
    """Whose token it is. Raises Unauthenticated."""
    token = token_of(request)
    auth = api.services.auth
    if not token:
        raise Unauthenticated("token missing")
    try:
        return await auth.authenticate(token)
    except Unauthenticated:
        return await auth.authenticate_allocation(token)


Caller: TypeAlias = Annotated[Principal, Depends(caller)]


async def visible(principal: Caller) -> Visibility:
    """What the caller may see: everybody of the cluster reads everything."""
    return EVERYTHING


Visible: TypeAlias = Annotated[Visibility, Depends(visible)]


async def user(principal: Caller) -> Principal:
    """A person (or a program with a person's token), not a task."""
    if principal.allocation_id is not None:
        raise PermissionDenied("a task may change only what is its own")
    return principal


User: TypeAlias = Annotated[Principal, Depends(user)]


async def admin(principal: User) -> Principal:
    if not principal.admin:
        raise PermissionDenied("user does not have permission")
    return principal


Admin: TypeAlias = Annotated[Principal, Depends(admin)]


def require_allocation(principal: Principal, allocation_id: str) -> None:
    if principal.allocation_id not in (None, allocation_id):
        raise PermissionDenied(f"allocation {allocation_id} is not the caller's own")


def require_task(principal: Principal, task_id: str) -> None:
    if principal.task_id not in (None, task_id):
        raise PermissionDenied(f"task {task_id} is not the caller's own")


async def require_trial(api: Api, principal: Principal, trial_id: int) -> None:
    """Raises NotFound for a task that asks for a trial that does not exist."""
    if principal.task_id is None:
        return
    live = api.services.experiments.live_of_trial(trial_id)
    if live is not None:
        task_id = live.trial(trial_id).task_id
    else:
        task_id = await api.reads.tasks.task_of_trial(trial_id, EVERYTHING)
    if task_id != principal.task_id:
        raise PermissionDenied(f"trial {trial_id} is not the caller's own")


def is_loopback(connection: HTTPConnection) -> bool:
    """Whether the caller is on this machine. Behind a proxy it is not, wherever the proxy is."""
    if connection.client is None or "forwarded" in connection.headers:
        return False
    if "x-forwarded-for" in connection.headers:
        return False
    try:
        address = ipaddress.ip_address(connection.client.host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
