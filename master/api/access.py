"""Who calls, and whether they may. `permits` asks before a route runs; a route whose body names targets asks itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias, cast

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.types import Scope

from master.api import audit
from master.api.services import ApiContext
from master.auth.actions import CLUSTER, Action, Target
from master.auth.permissions import allowed, denial
from master.auth.principal import Principal
from master.core.visibility import Visibility
from windlass.base.errors import NotFound, PermissionDenied
from windlass.base.network import parse_address

COOKIE = "auth"
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
_HEADERS = (
    b"grpc-metadata-x-user-token",
    b"authorization",
    b"grpc-metadata-x-allocation-token",
)
"""Where a token may be, in this order; the cookie comes last."""


def token_in(headers: Headers) -> str:
    """The first token of a call, by the headers of its ASGI scope; empty if it has none."""
    given = dict(reversed(headers))
    return _in_headers(given) or _in_cookie(given)


def token_headers(headers: Headers) -> frozenset[bytes]:
    """Names of the headers in which a token for the master may be. Another kind of authorization is not one."""
    return frozenset(
        name for name, value in headers if name in _HEADERS and _in_headers({name: value})
    )


def by_cookie(headers: Headers) -> bool:
    """Whether the token of a call is one that a browser adds by itself."""
    given = dict(reversed(headers))
    return not _in_headers(given) and bool(_in_cookie(given))


def _in_headers(given: Mapping[bytes, bytes]) -> str:
    for header in _HEADERS:
        if header in given:
            kind, _, token = given[header].decode("latin-1").strip().rpartition(" ")
            if token and kind.strip().lower() in ("", "bearer"):
                return token
    return ""


def _in_cookie(given: Mapping[bytes, bytes]) -> str:
    for part in given.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value.strip('"')
    return ""


KNOWN = "windlass.known"
"""Key of an ASGI scope: what `note_known` calls. Servers that count unauthenticated connections put it there."""


def note_known(scope: Scope) -> None:
    """It is clear who sends this request."""
    if known := scope.get(KNOWN):
        known()


async def caller(connection: HTTPConnection) -> Principal:
    return cast("Principal", connection.scope["principal"])


Caller: TypeAlias = Annotated[Principal, Depends(caller)]
"""Who calls, as routes name it."""


async def visible(connection: HTTPConnection) -> Visibility:
    return cast("Visibility", connection.scope["visibility"])


Visible: TypeAlias = Annotated[Visibility, Depends(visible)]
"""What the caller may see, as routes name it: for the queries they make."""


def require(
    api: ApiContext, principal: Principal, action: Action, target: Target = CLUSTER
) -> None:
    """Raises PermissionDenied; NotFound for what the caller may not even see."""
    may = allowed(principal, action, target)
    audit.decided(principal, action, target, allowed=may)
    if not may:
        raise denial(principal, action, target, _owner_name(api, target))


def require_password_login(principal: Principal, what: str) -> None:
    """Who finds an access token may not stay longer than it is valid. Raises PermissionDenied."""
    if principal.access_token_id is not None:
        raise PermissionDenied(f"an access token cannot {what}: log in with a password")


def _owner_name(api: ApiContext, target: Target) -> str:
    if target.owner_id is None:
        return ""
    try:
        return api.services.auth.user(target.owner_id).username
    except NotFound:
        return ""


_SIGNS_OF_A_PROXY = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


def is_loopback(connection: HTTPConnection) -> bool:
    """Whether the caller is on this machine. Behind a proxy it is not, wherever the proxy is."""
    if connection.client is None or any(h in connection.headers for h in _SIGNS_OF_A_PROXY):
        return False
    address = parse_address(connection.client.host)
    return address is not None and address.is_loopback
