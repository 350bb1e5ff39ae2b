"""The message that administrators show to everybody: of a maintenance, say. One at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import select

from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument
from windlass.base.formats.durations import parse_duration
from windlass.base.formats.strict_json import StrictJson

log = structlog.get_logger(__name__)

MAX_CHARACTERS = 250
_KEY = "cluster_message"
_WEEKS = re.compile(r"(\d+(?:\.\d+)?)w")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMessage:
    text: str
    starts_at: datetime
    ends_at: datetime | None
    """None: until it is cleared."""
    created_at: datetime

    def is_over(self, now: datetime) -> bool:
        return self.ends_at is not None and self.ends_at <= now

    def is_active(self, now: datetime) -> bool:
        return self.starts_at <= now and not self.is_over(now)


_STORED: StrictJson[ClusterMessage] = StrictJson(ClusterMessage)


def new_message(
    text: str,
    starts_at: datetime,
    *,
    ends_at: datetime | None = None,
    duration: str = "",
    now: datetime,
) -> ClusterMessage:
    """Raises InvalidArgument."""
    if not 1 <= len(text) <= MAX_CHARACTERS:
        raise InvalidArgument(
            f"message: has {len(text)} characters: write 1 to {MAX_CHARACTERS} of them"
        )
    if ends_at is not None and duration:
        raise InvalidArgument("duration: not together with endTime: give either of them")
    if duration:
        ends_at = _after(starts_at, duration)
    if ends_at is not None and ends_at <= starts_at:
        raise InvalidArgument("endTime: must be after startTime")
    if ends_at is not None and ends_at <= now:
        raise InvalidArgument("endTime: has passed: nobody would see the message")
    return ClusterMessage(text=text, starts_at=starts_at, ends_at=ends_at, created_at=now)


def _after(start: datetime, duration: str) -> datetime:
    try:
        length = parse_duration(_WEEKS.sub(lambda m: f"{float(m[1]) * 7}d", duration))
        if length > timedelta(0):
            return start + length
        problem = "must be positive"
    except ValueError:
        problem = f"{duration[:40]!r} is not a duration"
    except OverflowError:
        problem = f"{duration[:40]!r} is too long"
    raise InvalidArgument(f'duration: {problem}: write "90m", "24h", "5d" or "2w"')


class ClusterMessages:
    """Holds the message in memory, as every client asks for it before anything else."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._message: ClusterMessage | None = None
        self._queue = SerialQueue("cluster message")

    async def load(self) -> None:
        meta = tables.Meta
        stored = await self._store.read_one(select(meta.value).where(meta.key == _KEY))
        self._message = None if stored is None else _STORED.load(stored, "the cluster message")

    def current(self) -> ClusterMessage | None:
        """Its time may not have come yet."""
        message = self._message
        return None if message is None or message.is_over(self._clock.now()) else message

    def active(self) -> ClusterMessage | None:
        """What everybody is shown now."""
        message = self._message
        return message if message is not None and message.is_active(self._clock.now()) else None

    async def set(self, message: ClusterMessage, *, by: Actor) -> None:
        unit = UnitOfWork()
        unit.upsert(tables.Meta, {"key": _KEY, "value": _STORED.dump(message)})
        await self._queue.run(lambda: self._commit(unit, message))
        log.info("cluster message set", by=str(by), message=message.text)

    async def clear(self, *, by: Actor) -> None:
        unit = UnitOfWork()
        unit.delete(tables.Meta, {"key": _KEY})
        await self._queue.run(lambda: self._commit(unit, None))
        log.info("cluster message cleared", by=str(by))

    async def _commit(self, unit: UnitOfWork, message: ClusterMessage | None) -> None:
        await self._store.commit(unit)
        self._message = message
