"""The WebSocket `/stream`: projects, models and their versions as they change, for one who says what they know."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, WebSocket
from starlette.types import Receive, Scope, Send

from master.api.access import note_known, require, token_in
from master.api.errors import answer_socket, error_response, status_of
from master.api.permits import FOLLOWED, permit
from master.api.services import ApiContext, TheApi
from master.api.updates.requests import parse_subscription
from master.auth.actions import ANYWHERE, Action
from master.auth.permissions import visibility
from master.parsing import in_parsing_thread
from master.store.sql.changes import VERSIONS
from master.updates.entities import KINDS
from master.updates.hub import TOO_SLOW, UNREADABLE, Client, Sight, Subscription, UpdateHub
from windlass.base.errors import InvalidArgument, WindlassError

router = APIRouter()

POLICY_VIOLATION, TRY_AGAIN = 1008, 1013
_AGAIN = frozenset({TOO_SLOW, UNREADABLE})
MAX_CLOSE_BYTES = 123
"""Of the reason in a close frame."""
CLOSE_S = 5.0
"""For a client that reads slowly to take its close frame."""
_PUBLISHED_AGENT = b"lomond/"
"""Of the published client: it says the models that it knows in the place of versions, and fails when versions that it
knows are named deleted. So it is not told of them when it connects; a user of it sees them go as they do."""


def _look(api: ApiContext, token: str) -> Sight:
    principal = api.services.auth.identify(token)
    return {kind.name: visibility(principal, kind.action) for kind in KINDS}


@router.websocket("/stream")
@permit(Action.VIEW_PROJECTS, FOLLOWED)
async def stream(socket: WebSocket, api: TheApi) -> None:
    """Authenticated at the start as every route; from then on the hub asks again and again."""
    # Not the socket's own methods: after an answer in HTTP they take no second disconnect.
    await _follow(api, socket.scope, socket._receive, socket._send)


async def _follow(api: ApiContext, scope: Scope, receive: Receive, send: Send) -> None:
    hub = api.services.updates
    token = token_in(scope["headers"])
    try:
        principal = api.services.auth.identify(token)
        require(api, principal, Action.VIEW_PROJECTS, ANYWHERE)
        client = Client(str(principal), partial(_look, api, token))
        hub.add(client)
    except WindlassError as error:
        refusal = error_response(status_of(error), error.message)
        await answer_socket(refusal, scope, receive, send)
        return
    try:
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        note_known(scope)
        agent = dict(scope["headers"]).get(b"user-agent", b"").lower()
        published = agent.startswith(_PUBLISHED_AGENT)
        await _serve(hub, client, receive, send, published=published)
    except OSError:
        pass  # it has left
    finally:
        hub.remove(client)


async def _serve(
    hub: UpdateHub, client: Client, receive: Receive, send: Send, *, published: bool
) -> None:
    tasks = [
        asyncio.create_task(_read(hub, client, receive, published=published)),
        asyncio.create_task(_write(hub, client, send)),
        asyncio.create_task(client.outbox.until_closed()),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    why = client.outbox.closed
    if why is not None:
        code = TRY_AGAIN if why in _AGAIN else POLICY_VIOLATION
        short = why.encode()[:MAX_CLOSE_BYTES].decode(errors="ignore")
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await send({"type": "websocket.close", "code": code, "reason": short})
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _read(hub: UpdateHub, client: Client, receive: Receive, *, published: bool) -> None:
    """Returns when the client has left, or has said what nobody understands."""
    while (message := await receive())["type"] != "websocket.disconnect":
        try:
            text = message.get("text")
            if text is None:
                raise InvalidArgument("message: must be text, not bytes")
            # In a thread: the ids that a client knows may be a megabyte.
            wanted = await in_parsing_thread(parse_subscription, text)
        except InvalidArgument as error:
            client.outbox.close(error.message)
            return
        await hub.sync(client, _spared(wanted) if published else wanted)


def _spared(wanted: Subscription) -> Subscription:
    """Without the model versions it knows: every version that matches is sent to it."""
    known = {name: ids for name, ids in wanted.known.items() if name != VERSIONS}
    return replace(wanted, known=known)


async def _write(hub: UpdateHub, client: Client, send: Send) -> None:
    while (message := await hub.next(client)) is not None:
        await send({"type": "websocket.send", "text": message})
