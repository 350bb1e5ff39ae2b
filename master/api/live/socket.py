"""The WebSocket `/api/v1/windlass/live`: a page says which topics it shows, and is told when to ask again.

page    {"subscribe": {"id": 1, "topic": "experiment 7"}}   {"unsubscribe": 1}   {"visible": false}   {"alive": true}
master  {"hello": {"version": ..., "now": ...}}             {"now": ...}
        {"news": {"1": 0}}                                  {"id": 1, "error": {"status": 404, "message": ...}}
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from fastapi import APIRouter, WebSocket
from starlette.types import Receive, Scope, Send

from master.api.access import note_known, token_in
from master.api.errors import answer_socket, error_response, status_of
from master.api.live.requests import LiveMessage, parse_message
from master.api.permits import FOLLOWED, permit
from master.api.services import ApiContext, TheApi
from master.auth.actions import Action
from master.live.client import POLICY_VIOLATION, TOO_SLOW, Close, LiveClient
from master.live.hub import LiveHub
from master.live.topics import parse_topic
from windlass.base.errors import InvalidArgument, WindlassError

LIVE = "/api/v1/windlass/live"
SEND_S = 20.0
"""A page that takes no message for so long is sent away."""
CLOSE_S = 5.0
"""For it to take its close frame."""
MAX_CLOSE_BYTES = 123
"""Of the reason in a close frame."""

router = APIRouter()


@router.websocket(LIVE)
@permit(Action.USE_SESSION, FOLLOWED)
async def live(socket: WebSocket, api: TheApi) -> None:
    """Authenticated at the start as every route; from then on the hub asks again and again."""
    # Not the socket's own methods: after an answer in HTTP they take no second disconnect.
    await _follow(api, socket.scope, socket._receive, socket._send)


async def _follow(api: ApiContext, scope: Scope, receive: Receive, send: Send) -> None:
    services = api.services
    token = token_in(scope["headers"])
    try:
        client = LiveClient(
            partial(services.auth.identify, token),
            services.clock,
            {"version": services.info.windlass_version},
        )
        services.live.add(client)
    except WindlassError as error:
        refusal = error_response(status_of(error), error.message)
        await answer_socket(refusal, scope, receive, send)
        return
    try:
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        note_known(scope)
        await _serve(services.live, client, receive, send)
    except OSError:
        pass  # it has left
    finally:
        services.live.remove(client)


async def _serve(hub: LiveHub, client: LiveClient, receive: Receive, send: Send) -> None:
    tasks = [
        asyncio.create_task(_read(hub, client, receive)),
        asyncio.create_task(_write(client, send)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    if client.closed is not None:
        await _close(client.closed, send)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _close(closed: Close, send: Send) -> None:
    reason = closed.reason.encode()[:MAX_CLOSE_BYTES].decode(errors="ignore")
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await send({"type": "websocket.close", "code": closed.code, "reason": reason})


async def _read(hub: LiveHub, client: LiveClient, receive: Receive) -> None:
    """Returns when the page has left, or has said what nobody understands."""
    while (message := await receive())["type"] != "websocket.disconnect":
        client.heard()
        try:
            text = message.get("text")
            if text is None:
                raise InvalidArgument("message: must be text, not bytes")
            said = parse_message(text)
        except InvalidArgument as error:
            client.close(POLICY_VIOLATION, error.message)
            return
        await _take(hub, client, said)


async def _take(hub: LiveHub, client: LiveClient, said: LiveMessage) -> None:
    if said.visible is not None:
        client.show(visible=said.visible)
    if said.unsubscribe is not None:
        hub.unfollow(client, said.unsubscribe)
    if said.subscribe is not None:
        number = said.subscribe.id
        try:
            topic = parse_topic(said.subscribe.topic, client.principal)
            await hub.follow(client, number, topic)
        except WindlassError as error:
            client.refuse(number, status_of(error).http, error.message)


async def _write(client: LiveClient, send: Send) -> None:
    """Returns when the page is to be sent away."""
    while (message := await client.next()) is not None:
        try:
            async with asyncio.timeout(SEND_S):
                await send({"type": "websocket.send", "text": message})
        except TimeoutError:
            client.close(TOO_SLOW, "the page reads too slowly: connect again")
            return
