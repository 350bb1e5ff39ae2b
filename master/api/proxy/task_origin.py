"""`webui.task_origin`: pages of tasks are shown at an origin of their own.

What a notebook or a TensorBoard shows is somebody else's program. At the master's origin it could call the API as
whoever looks at it; from another origin a browser lets it read nothing, and `BrowserRules` refuses its changes.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from master.api.access import by_cookie
from master.api.errors import NOT_FOUND, STATUS_OF_CODE, ErrorStatus, answer_socket, answer_to
from master.api.http.accept import asks_for_page
from master.api.http.known_hosts import host_in
from master.api.http.middleware import PROXY

ENTER = "/det/enter"
"""At the task origin: takes the one-time code that `LEAVE` made."""
LEAVE = "/det/task-login"
"""At the master's origin: sends who is logged in there on to the task origin."""
_PORTS = {"http": ":80", "https": ":443"}


class TaskOrigin:
    """ASGI middleware. `origin`: of tasks; `master_url`: where people log in."""

    def __init__(self, app: ASGIApp, *, origin: str, master_url: str) -> None:
        self._app = app
        self._origin = origin
        self._master_url = master_url
        parts = urlsplit(origin)
        self._port = _PORTS[parts.scheme]
        self._host = self._plain(parts.netloc)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif self._plain(host_in(scope)) == self._host:
            await self._of_tasks(scope, receive, send)
        else:
            await self._of_master(scope, receive, send)

    def _plain(self, host: str) -> str:
        """Without the port that goes without saying: browsers leave it out, some proxies add it."""
        return host.lower().removesuffix(self._port)

    async def _of_tasks(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Services, and the way in; nothing of the master's."""
        if scope["path"].startswith(PROXY):
            scope["windlass.login"] = f"{self._master_url}{LEAVE}?to="
        elif scope["path"] != ENTER:
            why = f"only pages of tasks are at this address: the master is at {self._master_url}"
            await _answer(scope, receive, send, NOT_FOUND, why)
            return
        await self._app(scope, receive, send)

    async def _of_master(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Programs reach services here as ever, by a token in a header; browsers go on to the origin of tasks."""
        if scope["path"].startswith(PROXY):
            if asks_for_page(scope):
                await RedirectResponse(self._origin + asked(scope), 303)(scope, receive, send)
                return
            if by_cookie(scope["headers"]):
                status = STATUS_OF_CODE["permission_denied"]
                why = f"webui.task_origin: browsers reach services of tasks at {self._origin}"
                await _answer(scope, receive, send, status, why)
                return
        await self._app(scope, receive, send)


def asked(scope: Scope) -> str:
    """The path as it was written, with its query."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    query: bytes = scope["query_string"]
    return path.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")


async def _answer(
    scope: Scope, receive: Receive, send: Send, status: ErrorStatus, message: str
) -> None:
    response = answer_to(scope, status, message)
    if scope["type"] == "websocket":
        await answer_socket(response, scope, receive, send)
    else:
        await response(scope, receive, send)
