"""One page's connection: what waits to be sent to it, and when.

What waits is bounded by itself: of each topic there is either news or not. So a page that reads slowly is told as much
as one that reads fast, only later; one that does not read at all is sent away by whoever sends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import orjson

from master.auth.principal import Principal
from master.live.topics import Topic
from windlass.base.clock import Clock

PACE_S, HIDDEN_PACE_S = 0.25, 10.0
"""Between two messages with news; the second for a page that nobody sees."""
BEAT_S = 20.0
"""Without a word for longer than a beat, a connection is dead: pages and proxies notice by it."""
SILENT_S = 70.0
"""Pages answer each beat."""
MAX_REPLIES = 1_000
"""Answers that wait: a page that asks and does not read is sent away."""

POLICY_VIOLATION = 1008
SESSION_OVER, TOO_SLOW, SILENT = 4001, 4008, 4009


@dataclass(frozen=True, slots=True)
class Close:
    code: int
    reason: str


class LiveClient:
    """Whoever holds it sends what `next` returns."""

    def __init__(
        self, look: Callable[[], Principal], clock: Clock, hello: Mapping[str, str]
    ) -> None:
        self.look = look
        """Who it is now. Raises WindlassError for one that may not be here any more."""
        self.principal = look()
        self.rights_version = -1
        """When `principal` was true."""
        self.topics: dict[int, Topic] = {}
        """By the number that the page gave it."""
        self.closed: Close | None = None
        self._clock = clock
        self._seq: dict[int, int] = {}
        self._news: set[int] = set()
        self._replies: deque[str] = deque()
        self._pace_s = PACE_S
        self._woken = asyncio.Event()
        now = asyncio.get_running_loop().time()
        self._news_after = self._heard_at = now
        self._beat_at = now + BEAT_S
        self._reply(hello=dict(hello) | {"now": clock.now().isoformat()})

    def heard(self) -> None:
        """It has said something."""
        self._heard_at = asyncio.get_running_loop().time()

    def show(self, *, visible: bool) -> None:
        """Whether somebody sees the page."""
        self._pace_s = PACE_S if visible else HIDDEN_PACE_S
        if visible:
            self._news_after = asyncio.get_running_loop().time()
        self._woken.set()

    def follow(self, number: int, topic: Topic) -> None:
        self.topics[number] = topic
        self._seq[number] = -1

    def unfollow(self, number: int) -> Topic | None:
        """What it followed by that number."""
        self._news.discard(number)
        self._seq.pop(number, None)
        return self.topics.pop(number, None)

    def accept(self, number: int) -> None:
        """It is told from here on: what a page has read before may be old."""
        if number in self.topics:
            self._seq[number] += 1
            self._reply(news={str(number): self._seq[number]})

    def refuse(self, number: int, status: int, message: str) -> None:
        self._reply(id=number, error={"status": status, "message": message})

    def has_news(self, number: int) -> bool:
        return number in self._news

    def tell(self, number: int) -> None:
        """Something of that topic was changed. Several changes before it is sent are one."""
        if number in self.topics:
            self._news.add(number)
            self._woken.set()

    def close(self, code: int, reason: str) -> None:
        """The first reason counts."""
        if self.closed is None:
            self.closed = Close(code, reason)
            self._woken.set()

    async def next(self) -> str | None:
        """The next message; None: it is to be sent away, as `closed` says."""
        loop = asyncio.get_running_loop()
        while self.closed is None:
            message = self.take(loop.time())
            if message is not None:
                return message
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._next_at):
                    await self._woken.wait()
        return None

    def take(self, now: float) -> str | None:
        """What is to be sent at this time of the event loop, if anything is."""
        if self._replies:
            return self._replies.popleft()
        if self._news and now >= self._news_after:
            return self._take_news(now)
        if now < self._beat_at:
            return None
        self._beat_at = now + BEAT_S
        if now - self._heard_at > SILENT_S:
            self.close(SILENT, "the page does not answer")
            return None
        return _text(now=self._clock.now().isoformat())

    @property
    def _next_at(self) -> float:
        return min(self._beat_at, self._news_after) if self._news else self._beat_at

    def _take_news(self, now: float) -> str:
        told, self._news = sorted(self._news), set()
        for number in told:
            self._seq[number] += 1
        self._news_after = now + self._pace_s
        return _text(news={str(number): self._seq[number] for number in told})

    def _reply(self, **message: object) -> None:
        if len(self._replies) >= MAX_REPLIES:
            self.close(TOO_SLOW, "the page reads too slowly: connect again")
            return
        self._replies.append(_text(**message))
        self._woken.set()


def _text(**message: object) -> str:
    return orjson.dumps(message).decode()
