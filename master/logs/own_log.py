"""The master's own log, as administrators read it over REST: its newest entries, and how much is logged."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import structlog

from agent_bootstrap.log_setup import ENTRY_PROCESSORS, set_up_logging
from master.core.actor import Actor
from master.core.expconf.secrets import MASK, without_passwords

log = structlog.get_logger(__name__)

MAX_ENTRIES = 10_000
MAX_CHARACTERS = 8_192
"""Of one entry: a traceback fits."""
PAGE = 500
SHORTEST_SECRET = 6
"""Anything shorter would be masked in words that merely contain it."""
_SECRET_KEY = re.compile(r"password|secret|token(?!_id)|credential|authorization", re.IGNORECASE)
_BEARER = re.compile(r"(?i)(bearer\s+)\S+")

SetUp = Callable[[str, bool, "list[logging.Handler]"], None]


@dataclass(frozen=True, slots=True)
class OwnEntry:
    id: int
    """Counts up from 1 while the process lives."""
    time: datetime
    level: str
    """DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    logger: str
    """Who wrote it, which no text in it can pretend: `audit`."""
    message: str


def _set_up(level: str, color: bool, more: list[logging.Handler]) -> None:
    set_up_logging(level, color=color, more=more)


class OwnLog:
    """The newest entries, bounded in number and size; readers and followers are on one event loop."""

    def __init__(
        self,
        level: str = "info",
        color: bool = True,
        *,
        secrets: Iterable[str] = (),
        set_up: SetUp = _set_up,
    ) -> None:
        """`secrets` never show in an entry."""
        self.level = level
        self.color = color
        self._set_up = set_up
        self._secrets = tuple(
            sorted({s for s in secrets if len(s) >= SHORTEST_SECRET}, key=len, reverse=True)
        )
        self._entries: deque[OwnEntry] = deque(maxlen=MAX_ENTRIES)
        self._last_id = 0
        self._followers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self.handler: logging.Handler = _Handler(self._note)

    def set_up(self) -> None:
        """Make it part of this process' logging."""
        self._set_up(self.level, self.color, [self.handler])

    async def change(
        self, *, by: Actor, level: str | None = None, color: bool | None = None
    ) -> None:
        """Until the master ends."""
        self.level = self.level if level is None else level
        self.color = self.color if color is None else color
        self.set_up()
        log.warning("log settings changed", level=self.level, color=self.color, by=str(by))

    def entries(self, offset: int = 0, limit: int = 0) -> list[OwnEntry]:
        """From the `offset`th on that is kept, from the end if it is negative; `limit` 0: all."""
        self.handler.acquire()
        try:
            kept = list(self._entries)[offset:]
        finally:
            self.handler.release()
        return kept[:limit] if limit else kept

    async def follow(self, offset: int = 0) -> AsyncGenerator[Sequence[OwnEntry], None]:
        """What there is, then what comes. A reader that is too slow misses the oldest."""
        woken = asyncio.Event()
        self._followers[woken] = asyncio.get_running_loop()
        try:
            new = self.entries(offset)
            last = self._last_id
            while True:
                for start in range(0, len(new), PAGE):
                    yield new[start : start + PAGE]
                last = new[-1].id if new else last
                await woken.wait()
                woken.clear()
                new = self._after(last)
        finally:
            del self._followers[woken]

    def _after(self, last: int) -> list[OwnEntry]:
        """What came later and is still kept; nothing else is looked at."""
        self.handler.acquire()
        try:
            newest_first = list(islice(reversed(self._entries), self._last_id - last))
        finally:
            self.handler.release()
        return newest_first[::-1]

    def _note(self, created: float, level: str, logger: str, text: str) -> None:
        """Called by any thread, one at a time."""
        self._last_id += 1
        time = datetime.fromtimestamp(created, UTC)
        message = self._without_secrets(text)
        self._entries.append(OwnEntry(self._last_id, time, level, logger, message))
        for woken, loop in list(self._followers.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken.set)

    def _without_secrets(self, text: str) -> str:
        text = without_passwords(_BEARER.sub(rf"\1{MASK}", text))
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} [cut]"


class _Handler(logging.Handler):
    def __init__(self, note: Callable[[float, str, str, str], None]) -> None:
        super().__init__()
        self._note = note
        self.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=ENTRY_PROCESSORS,
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._note(record.created, record.levelname, record.name, self.format(record))
        except Exception:  # noqa: BLE001 - a line that cannot be shown must not end what logs it
            self.handleError(record)


def render(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    """ "task started task=1.2 node=a", with what looks like a secret by its key masked."""
    text = str(event.pop("event", ""))
    exception = event.pop("exception", "")
    for key in ("timestamp", "level", "logger"):
        event.pop(key, None)
    shown = [
        f"{key}={MASK if _SECRET_KEY.search(key) and value else _plain(value)}"
        for key, value in event.items()
    ]
    return " ".join([text, *shown]) + (f"\n{exception}" if exception else "")


def _plain(value: object) -> str:
    text = str(value)
    return repr(text) if not text or any(c.isspace() for c in text) else text
