"""The messages of one root, in batches: whatever waits when the one before is done is handled together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from windlass.base.errors import LeaseLost

log = structlog.get_logger(__name__)

C = TypeVar("C")
R = TypeVar("R")

BATCH_MESSAGES = 200
"""In one batch: its rows are one transaction, some ten milliseconds, which the next message has to wait for."""


class MailboxMessage(Generic[C, R]):
    """What somebody asks of a root, and their answer. `Mailbox` makes them."""

    __slots__ = ("_answer", "content")

    def __init__(self, content: C) -> None:
        self.content = content
        self._answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    @property
    def is_answered(self) -> bool:
        """Or its caller has gone."""
        return self._answer.done()

    def answer(self, result: R) -> None:
        """The first answer counts."""
        if not self._answer.done():
            self._answer.set_result(result)

    def refuse(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
        elif self._answer.cancelled():
            log.error("a message failed unseen: its caller has gone", exc_info=error)

    async def answered(self) -> R:
        """A caller that is cancelled here gives its answer up."""
        return await self._answer


class Mailbox(Generic[C, R]):
    """`handle` gets one batch at a time, in order of arrival, and answers or refuses each message.

    What it raises is the answer of every message that it has not answered.
    """

    def __init__(
        self, handle: Callable[[list[MailboxMessage[C, R]]], Awaitable[None]], *, name: str
    ) -> None:
        self._handle = handle
        self._name = name
        self._waiting: deque[MailboxMessage[C, R]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, content: C) -> R:
        """Returns or raises what the message is answered.

        A caller cancelled before its batch began takes its message away; cancelled later, it only misses the answer.
        """
        if self._worker is not None and asyncio.current_task() is self._worker:
            raise RuntimeError(f"a handler of mailbox {self._name!r} waits for its own mailbox")
        message: MailboxMessage[C, R] = MailboxMessage(content)
        self._waiting.append(message)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name=f"mailbox {self._name}")
        return await message.answered()

    async def drain(self) -> None:
        """Wait until everything that was asked for is done."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        try:
            while self._waiting:
                if batch := self._take():
                    await self._handle_all(batch)
        finally:
            self._worker = None

    def _take(self) -> list[MailboxMessage[C, R]]:
        batch: list[MailboxMessage[C, R]] = []
        while self._waiting and len(batch) < BATCH_MESSAGES:
            message = self._waiting.popleft()
            if not message.is_answered:
                batch.append(message)
        return batch

    async def _handle_all(self, batch: list[MailboxMessage[C, R]]) -> None:
        try:
            await self._handle(batch)
        except Exception as error:
            if all(message.is_answered for message in batch) and not isinstance(error, LeaseLost):
                log.error("a batch failed after its answers", mailbox=self._name, exc_info=error)
            for message in batch:
                message.refuse(error)
