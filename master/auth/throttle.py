"""Whose password is checked next.

A check costs a tenth of a second and 64 MiB, and guesses must be slow. So few are made at once, and each address and
each account has a ration of wrong ones. Nobody is locked out: who has no ration left waits, and who has failed least
goes first. A right password costs nothing, and an address that an account has come from before does not wait for the
guesses that others make.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from master.auth.passwords import AT_ONCE
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.base.network import parse_address

FREE_FAILURES = 10
"""People mistype."""
ADDRESS_PAUSE_S = 2.0
"""Between further wrong passwords from one address."""
ACCOUNT_PAUSE_S = 1.0
"""Between further wrong passwords for one account, from addresses that it has not come from before."""
LONGEST_WAIT_S = 15.0
LOOK_AGAIN_S = 0.25
MAX_WAITING = 256
FORGET_S = 600.0
MAX_RECORDS = 20_000
"""Of each kind; the oldest are forgotten. Memory has a limit, whoever asks."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LoginThrottled(WindlassError):
    """Too many wrong passwords before this one."""

    code = "throttled"

    def __init__(self) -> None:
        super().__init__("too many failed logins: try again in a few seconds")


@dataclass(frozen=True, slots=True)
class Source:
    """Where an attempt comes from. Who has one IPv6 address has the 2^64 beside it: those count as one."""

    account: str
    address: str

    @classmethod
    def of(cls, account: str, address: str) -> Source:
        parsed = parse_address(address)
        if parsed is not None and parsed.version == 6:
            return cls(account, parsed.exploded[:19])
        return cls(account, str(parsed or address))


class _Ration:
    """Grows by one in each pause, up to FREE_FAILURES."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._left: float = FREE_FAILURES
        self._at = 0.0

    def is_left(self, now: float) -> bool:
        self._left = min(FREE_FAILURES, self._left + (now - self._at) / self._pause_s)
        self._at = now
        return self._left >= 1

    def take(self) -> None:
        self._left -= 1

    def give_back(self) -> None:
        self._left += 1


@dataclass(slots=True)
class _History:
    failures: int = 0
    last_s: float = 0.0
    is_known: bool = False
    """A right password came from there."""

    def recent(self, now: float) -> int:
        return self.failures if now - self.last_s <= FORGET_S else 0

    def failed(self, now: float) -> None:
        self.failures, self.last_s = self.recent(now) + 1, now

    def passed(self) -> None:
        self.failures, self.is_known = 0, True


class _Recent(Generic[K, V]):
    """Made when first asked for; those not asked for the longest are forgotten."""

    def __init__(self, make: Callable[[], V]) -> None:
        self._make = make
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = self._make()
            while len(self._entries) >= MAX_RECORDS:
                self._entries.popitem(last=False)
        self._entries[key] = entry
        return entry


@dataclass(eq=False, slots=True)
class Turn:
    """A password that may be checked, sooner or later. It counts as wrong until `passed`."""

    source: Source
    rank: tuple[int, int, float]
    """Small ones go first."""
    admitted: asyncio.Future[bool]
    """False: too many others went first."""
    taken: Sequence[_Ration] = field(default=())
    is_right: bool = False

    @property
    def has_come(self) -> bool:
        return self.admitted.done() and self.admitted.result()

    def passed(self) -> None:
        self.is_right = True


class LoginThrottle:
    """In memory only: a restart forgives."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._addresses: _Recent[str, _Ration] = _Recent(lambda: _Ration(ADDRESS_PAUSE_S))
        self._accounts: _Recent[str, _Ration] = _Recent(lambda: _Ration(ACCOUNT_PAUSE_S))
        self._histories: _Recent[Source, _History] = _Recent(_History)
        self._waiting: set[Turn] = set()
        self._checking = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, source: Source) -> AsyncIterator[Turn]:
        """Wait for one. Raises LoginThrottled if that takes too long, or if too many go first."""
        turn = Turn(source, self._rank(source), asyncio.get_running_loop().create_future())
        self._enter(turn)
        try:
            await asyncio.wait({turn.admitted}, timeout=LONGEST_WAIT_S)
            if not turn.has_come:
                raise LoginThrottled
            yield turn
        finally:
            self._leave(turn)

    def _enter(self, turn: Turn) -> None:
        self._waiting.add(turn)
        self._admit([turn])
        if len(self._waiting) > MAX_WAITING:
            last = max(self._waiting, key=lambda each: each.rank)
            self._waiting.remove(last)
            last.admitted.set_result(False)

    def _leave(self, turn: Turn) -> None:
        self._waiting.discard(turn)
        if not turn.has_come:
            return
        self._checking -= 1
        both = self._histories[turn.source]
        if turn.is_right:
            both.passed()
            for ration in turn.taken:
                ration.give_back()
        else:
            both.failed(self._now())
            self._histories[Source("", turn.source.address)].failed(self._now())
        self._admit(self._waiting)

    def _admit(self, turns: Collection[Turn]) -> None:
        """Those of `turns` whose turn has come; whoever must wait is looked at again after a while."""
        for turn in sorted(turns, key=lambda each: each.rank):
            if self._checking >= AT_ONCE:
                return
            rations, now = self._rations(turn.source), self._now()
            if all(ration.is_left(now) for ration in rations):
                self._waiting.remove(turn)
                self._checking += 1
                for ration in rations:
                    ration.take()
                turn.taken = rations
                turn.admitted.set_result(True)
        if self._waiting and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._admit(self._waiting)

    def _rations(self, source: Source) -> Sequence[_Ration]:
        """What an attempt needs a part of."""
        address = self._addresses[source.address]
        if self._histories[source].is_known:
            return (address,)
        return (address, self._accounts[source.account])

    def _rank(self, source: Source) -> tuple[int, int, float]:
        """Between equals a lot decides, not the order of arrival: a flood would always be first."""
        now = self._now()
        ours = self._histories[source].recent(now)
        others = self._histories[Source("", source.address)].recent(now)
        return ours, others, random.random()
