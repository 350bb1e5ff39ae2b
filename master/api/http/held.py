"""Waiting that ends when nobody waits: the client has gone, or the server stops.

A master holds one long poll for each running trial. So who waits does it in the task that serves the request, with one
more for the client and none for the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Receive

from master.api.errors import Stopping

T = TypeVar("T")
_STOPPING = "the master is stopping: ask again in a moment"


class ServerStop:
    """Whether the server stops. `listeners` are called when it begins to."""

    def __init__(self) -> None:
        self.listeners: set[Callable[[], None]] = set()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for listener in tuple(self.listeners):
            listener()


class WhileWanted:
    """`async with`: what is inside is cancelled, and Stopping raised, when the client goes or the server stops."""

    def __init__(self, receive: Receive, closing: ServerStop) -> None:
        self._receive = receive
        self._closing = closing
        self._given_up = False

    async def __aenter__(self) -> None:
        if self._closing.is_set():
            raise Stopping(_STOPPING)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (a coroutine runs in one)
        self._task, self._cancelling = task, task.cancelling()
        self._client = asyncio.create_task(_gone(self._receive))
        self._client.add_done_callback(self._client_gone)
        self._closing.listeners.add(self._give_up)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closing.listeners.discard(self._give_up)
        self._client.remove_done_callback(self._client_gone)
        self._client.cancel()
        # As in asyncio.timeout: one who cancels the request meanwhile is not mistaken for the end of the waiting.
        if not self._given_up or self._task.uncancel() > self._cancelling:
            return
        if isinstance(error, asyncio.CancelledError):
            raise Stopping(_STOPPING) from None

    def _client_gone(self, client: asyncio.Task[None]) -> None:
        if not client.cancelled():
            client.exception()  # a broken connection is one that has ended
            self._give_up()

    def _give_up(self) -> None:
        if not self._given_up:
            self._given_up = True
            self._task.cancel()


async def hold(request: Request, closing: ServerStop, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` for as long as somebody waits for it. Raises Stopping when it was given up."""
    try:
        async with WhileWanted(request.receive, closing):
            return await work
    finally:
        work.close()  # if it was never begun


async def _gone(receive: Receive) -> None:
    """Returns when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
