"""ASGI: takes what goes to a task. Find the service, ask who calls, look whether they may, connect, carry."""

from __future__ import annotations

from typing import cast
from urllib.parse import quote

import structlog
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_bootstrap.channels.streams import Stream
from master.api.access import note_known, token_in
from master.api.errors import (
    INVALID,
    NOT_FOUND,
    STATUS_OF_CODE,
    ErrorStatus,
    answer_socket,
    answer_to,
    status_of,
)
from master.api.http.accept import asks_for_page
from master.api.http.middleware import PROXY
from master.api.proxy.activity import NotedTraffic
from master.api.proxy.headers import Header, in_query, kept_by_browser, service_token
from master.api.proxy.http import CutShort, NoTaskAnswer, begin, exchange
from master.api.proxy.services import ProxiedService, admit, find, opens
from master.api.proxy.task_origin import asked
from master.api.proxy.websockets import Bridge, to_tcp
from master.api.services import ApiContext
from windlass.base.errors import NotFound, Unauthenticated, WindlassError

LOGIN = "/det/login"
BAD_GATEWAY = ErrorStatus(502, 14, "Unavailable")
_NO_SERVICE = ". Its task is over or does not run yet, serves no such port, or is not yours to see."

log = structlog.get_logger(__name__)


class Proxy:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not scope["path"].startswith(PROXY):
            await self._app(scope, receive, send)
            return
        api = cast("ApiContext", scope["app"].state.api)
        name = scope["path"].removeprefix(PROXY).partition("/")[0]
        try:
            service = find(api, name)
            own_token = service_token(scope)
            by_own_token = bool(own_token) and opens(api, service, own_token)
            caller = None if by_own_token else await admit(api, service, token_in(scope["headers"]))
        except NotFound:
            why = f"service not found: {name[:200]}"
            why += _NO_SERVICE if asks_for_page(scope) else ""
            await _refuse(scope, receive, send, NOT_FOUND, why)
            return
        except Unauthenticated as error:
            await _ask_to_log_in(scope, receive, send, error)
            return
        except WindlassError as error:
            await _refuse(scope, receive, send, status_of(error), error.message)
            return
        if caller is not None or by_own_token:
            note_known(scope)
        if by_own_token and in_query(scope):
            send = _keeping(send, kept_by_browser(scope, name, own_token))
        service.note_activity()
        if service.port.tcp and scope["type"] == "http":
            why = f"{name} is a TCP port: connect by WebSocket, as `det task tunnel` does"
            await _refuse(scope, receive, send, INVALID, why)
            return
        traffic = NotedTraffic(receive, send, clock=api.services.clock, note=service.note_activity)
        await _carry(api, service, scope, traffic.receive, traffic.send)


async def _carry(
    api: ApiContext, service: ProxiedService, scope: Scope, receive: Receive, send: Send
) -> None:
    stream: Stream | None = None
    try:
        task, head = begin(scope) if scope["type"] == "http" else (None, b"")
        stream = await api.services.streams.open(
            service.agent_id, service.container_id, service.port.port, head
        )
        # A master that stops waits for its requests: those of tasks may never end.
        api.closing.listeners.add(stream.close)
        if task is not None:
            await exchange(task, receive, send, stream)
            return
        note_known(scope)  # where the service asks who it is, it also says for how long
        if service.port.tcp:
            await to_tcp(receive, send, stream)
        else:
            await Bridge(scope, receive, send, stream).run()
    except (NoTaskAnswer, OSError) as error:
        await _refuse(scope, receive, send, BAD_GATEWAY, f"{service.name} does not answer: {error}")
    except CutShort as error:
        # Returning without an end makes the server close the connection, so that nobody takes a part for the whole.
        log.info("answer of a task cut short", service=service.name, why=str(error))
    finally:
        if stream is not None:
            api.closing.listeners.discard(stream.close)
            stream.close()


def _keeping(send: Send, cookie: Header) -> Send:
    async def send_with_cookie(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": [*message.get("headers", ()), cookie]}
        await send(message)

    return send_with_cookie


async def _refuse(
    scope: Scope, receive: Receive, send: Send, status: ErrorStatus, message: str
) -> None:
    response = answer_to(scope, status, message)
    if scope["type"] == "websocket":
        await answer_socket(response, scope, receive, send)
    else:
        await response(scope, receive, send)


async def _ask_to_log_in(scope: Scope, receive: Receive, send: Send, error: WindlassError) -> None:
    if scope["type"] == "websocket":
        await _refuse(scope, receive, send, STATUS_OF_CODE["unauthenticated"], error.message)
        return
    form = scope.get("windlass.login", f"{LOGIN}?redirect=")
    await RedirectResponse(form + quote(asked(scope), safe=""), 303)(scope, receive, send)
