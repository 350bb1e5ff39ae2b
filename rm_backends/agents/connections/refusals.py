"""Which connections were refused lately, for operators: who, from where, why, when. Bounded, and in memory only."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from agent_bootstrap.bounds import one_line
from rm_backends.views import RefusalView

MAX_KNOWN = 500
MAX_UNAUTHENTICATED = 100
"""Whoever shows no good token can make up names: they displace only each other."""
MAX_LINES = 20
LINES_WITHIN = timedelta(minutes=10)
"""An address causes no more lines of the log in that time: names can be made up. The list has what came since."""
MAX_WORD = 200
MAX_REASON = 1000


class Refusals:
    """The newest of each agent id and address."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[datetime]] = OrderedDict()
        """When an address caused lines of the log."""
        self._known: OrderedDict[tuple[str, str], RefusalView] = OrderedDict()
        self._unauthenticated: OrderedDict[tuple[str, str], RefusalView] = OrderedDict()

    def note(self, refusal: RefusalView, *, unauthenticated: bool) -> bool:
        """Whether a line of the log should say it: it is new, and its address has not caused many lines lately.

        An agent that asks again every few seconds is told once.
        """
        kept, most = (
            (self._unauthenticated, MAX_UNAUTHENTICATED)
            if unauthenticated
            else (self._known, MAX_KNOWN)
        )
        seen = replace(
            refusal,
            agent_id=one_line(refusal.agent_id)[:MAX_WORD],
            pool=one_line(refusal.pool)[:MAX_WORD],
            address=one_line(refusal.address)[:MAX_WORD],
            version=one_line(refusal.version)[:MAX_WORD],
            reason=one_line(refusal.reason)[:MAX_REASON],
        )
        key = (seen.agent_id, seen.address)
        before = kept.pop(key, None)
        if before is not None:
            seen = replace(seen, first=before.first, times=before.times + 1)
        kept[key] = seen
        if len(kept) > most:
            kept.popitem(last=False)
        is_new = before is None or before.reason != seen.reason
        return is_new and self._has_line(seen.address, seen.last)

    def _has_line(self, address: str, now: datetime) -> bool:
        caused = self._lines.pop(address, deque[datetime]())
        self._lines[address] = caused
        if len(self._lines) > MAX_UNAUTHENTICATED:
            self._lines.popitem(last=False)
        while caused and now - caused[0] >= LINES_WITHIN:
            caused.popleft()
        if len(caused) >= MAX_LINES:
            return False
        caused.append(now)
        return True

    def forget(self, agent_id: str) -> None:
        """It was taken after all."""
        for kept in (self._known, self._unauthenticated):
            for key in [key for key in kept if key[0] == agent_id]:
                del kept[key]

    def last_of(self, agent_id: str, since: datetime | None = None) -> RefusalView | None:
        found = [r for r in self.all() if r.agent_id == agent_id]
        return next((r for r in found if since is None or r.last >= since), None)

    def all(self) -> Sequence[RefusalView]:
        """Newest first."""
        both = [*self._known.values(), *self._unauthenticated.values()]
        return tuple(sorted(both, key=lambda refusal: refusal.last, reverse=True))
