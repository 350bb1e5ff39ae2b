"""What pages of others must not make a browser do.

A cookie comes along whatever page sends a request, a token in a header does not. So a request by cookie must name a
host that is ours, and one that changes something must come from a page of ours and be JSON, which forms cannot send.
While empty passwords are allowed the first holds for every request without a token. Nor may a page of others log
somebody in.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from master.api.access import by_cookie, token_in
from master.api.errors import STATUS_OF_CODE, answer_socket, error_response
from master.api.http.known_hosts import KnownHosts, host_in
from master.api.http.middleware import PROXY

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOGINS = frozenset({"/api/v1/auth/login", "/det/login"})


class BrowserRules:
    """ASGI middleware. `own_origin`: of the URL that the master is known by, where a proxy hides it."""

    def __init__(
        self, app: ASGIApp, hosts: KnownHosts, *, own_origin: str = "", everybody: bool = False
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._own_origin = own_origin
        self._everybody = everybody

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = "" if scope["type"] == "lifespan" else self._problem(scope)
        if not problem:
            await self._app(scope, receive, send)
            return
        refusal = error_response(STATUS_OF_CODE["permission_denied"], problem)
        if scope["type"] == "websocket":
            await answer_socket(refusal, scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _problem(self, scope: Scope) -> str:
        """Empty: none."""
        headers = scope["headers"]
        # A login does not look at a cookie; old clients send the one of the session before.
        cookie = by_cookie(headers) and scope["path"] not in _LOGINS
        if not cookie and token_in(headers) and scope["path"] not in _LOGINS:
            return ""
        if (cookie or self._everybody) and not self._hosts.knows(scope):
            host = host_in(scope)[:80] or "nothing"
            return f'Host: this master is not known as "{host}": add the name to security.allowed_hosts'
        if scope.get("method") in _READS:
            return ""
        if not self._is_ours(scope, required=cookie):
            return (
                "Origin: must be this master for a change by cookie and for a login from a page; behind "
                "a proxy, name it in security.trusted_proxies and have it send X-Forwarded-Proto"
            )
        if cookie and scope["type"] == "http" and not scope["path"].startswith(PROXY):
            return _body_problem(dict(headers))
        return ""

    def _is_ours(self, scope: Scope, *, required: bool) -> bool:
        """The page that a request comes from. Browsers always tell it with a change, other programs do not."""
        given = [value for name, value in scope["headers"] if name == b"origin"]
        if len(given) != 1:
            return not given and not required
        origin = given[0].decode("latin-1").strip().lower()
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        return origin in (f"{scheme}://{host_in(scope).lower()}", self._own_origin)


def _body_problem(headers: dict[bytes, bytes]) -> str:
    if b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0":
        return ""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return "" if kind == b"application/json" else "Content-Type: must be application/json"
