"""Answers that go on for long end when their reader may not see them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType

from master.auth.rights import Rights
from windlass.base.errors import WindlassError

ASK_EVERY_S = 5.0
"""Things move to other workspaces, and logins expire, without a change of rights."""


class WhilePermitted:
    """`async with`: what is inside is cancelled, and the error of `check` raised, once that raises one.

    It is asked at each change of rights, and now and then.
    """

    def __init__(self, check: Callable[[], Awaitable[None]], rights: Rights) -> None:
        self._check = check
        self._rights = rights
        self._version = rights.version
        self._changed = asyncio.Event()
        self._lost: WindlassError | None = None
        self._given_up = False

    async def require(self) -> None:
        """Before anything is told: raises the error if rights have changed meanwhile."""
        if self._version != self._rights.version:
            await self._ask()
        if self._lost is not None:
            raise self._lost

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (a coroutine runs in one)
        self._task, self._cancelling = task, task.cancelling()
        self._rights.listeners.add(self._changed.set)
        self._watching = asyncio.create_task(self._watch())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._rights.listeners.discard(self._changed.set)
        self._watching.cancel()
        # As in asyncio.timeout: one who cancels the request meanwhile is not mistaken for the end of the rights.
        if not self._given_up or self._task.uncancel() > self._cancelling:
            return
        if isinstance(error, asyncio.CancelledError) and self._lost is not None:
            raise self._lost from None

    async def _watch(self) -> None:
        while self._lost is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_EVERY_S):
                    await self._changed.wait()
            self._changed.clear()
            await self._ask()
        self._given_up = True
        self._task.cancel()

    async def _ask(self) -> None:
        version = self._rights.version
        try:
            await self._check()
        except WindlassError as error:
            self._lost = error
        self._version = version
