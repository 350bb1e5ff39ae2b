"""Searching the lines of task logs for a user's regular expression, in threads of their own.

Searches and users have a budget of CPU time, and users take turns.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from master.core.patterns import Pattern
from master.logs.matching import Slice, glance, look
from master.logs.rows import LogRow
from master.logs.search_turns import CpuBudget, Turns
from windlass.base.errors import InvalidArgument, WindlassError

THREADS = 2
"""Shared by all searches: they neither wait for others' work nor keep others waiting."""
SEARCH_CPU_S = 20.0
"""Of one search: ten million lines for a common expression."""
SEARCH_CPU_PER_S = 0.05
"""Comes back to a search that follows a log for days."""
USER_CPU_S = 60.0
USER_CPU_PER_S = 0.2
REMEMBERED = 1_000
"""Users whose budget is not full."""


class SearchesThrottled(WindlassError):
    """Try again in a while."""

    code = "throttled"


@dataclass(slots=True)
class LogSearch:
    """One search of one user."""

    pattern: Pattern
    user: int | None
    budget: CpuBudget
    lines: int = 0
    """That were looked at."""


class RegexFilter:
    def __init__(
        self, *, search_cpu_s: float = SEARCH_CPU_S, user_cpu_s: float = USER_CPU_S
    ) -> None:
        self._search_cpu_s = search_cpu_s
        self._user_cpu_s = user_cpu_s
        self._turns = Turns(THREADS, "log-search")
        self._users: dict[int | None, CpuBudget] = {}

    async def begin(self, text: str, user: int | None) -> LogSearch:
        """Raises InvalidArgument if it is no regular expression, or not a supported one; SearchesThrottled."""
        now = asyncio.get_running_loop().time()
        budget = CpuBudget(self._search_cpu_s, SEARCH_CPU_PER_S, self._search_cpu_s, now)
        self._require_budget(user, now)
        pattern, _ = await self._turns.run(
            user, partial(_compiled, text), lambda made: self._spend(user, made[1])
        )
        return LogSearch(pattern, user, budget)

    async def keep(self, search: LogSearch, rows: Sequence[LogRow]) -> Sequence[LogRow]:
        """The rows in which the pattern is found. Raises InvalidArgument or SearchesThrottled where that takes long."""
        kept: list[LogRow] = []
        while rows:
            self._require_left(search)
            found = await self._turns.run(
                search.user,
                partial(look, search.pattern, [row.log for row in rows]),
                lambda done: self._account(search, done),
            )
            if found.too_large:
                raise InvalidArgument(
                    f"searchText: this expression is too large for a line of {found.too_large} bytes: write a simpler "
                    "one, with smaller repetitions, or narrow the search by time"
                )
            kept += [rows[at] for at in found.matched]
            rows = rows[found.looked_at :]
        return kept

    async def may_be_in(self, search: LogSearch, text: str) -> bool:
        """False: the pattern is in none of these lines, which stand together. Raises as `keep` does."""
        data = text.encode(errors="replace")
        at = 0
        while at <= len(data):
            self._require_left(search)
            seen = await self._turns.run(
                search.user,
                partial(glance, search.pattern, data, at),
                lambda done: self._pay(search, done.spent_s),
            )
            if seen.may_match:
                return True
            at = seen.to
        search.lines += text.count("\n") + 1
        return False

    async def close(self) -> None:
        await self._turns.close()

    def _require_left(self, search: LogSearch) -> None:
        now = asyncio.get_running_loop().time()
        if search.budget.left(now) <= 0:
            raise InvalidArgument(
                f"searchText: this search has used up its {self._search_cpu_s:g} seconds of CPU time after "
                f"{search.lines} lines: write a simpler expression, or narrow it by time"
            )
        self._require_budget(search.user, now)

    def _require_budget(self, user: int | None, now: float) -> None:
        budget = self._users.get(user)
        if budget is not None and (wait_s := budget.wait_s(now)):
            raise SearchesThrottled(
                f"searchText: your searches have used up {self._user_cpu_s:g} seconds of CPU time: write simpler "
                f"expressions, and try again in {math.ceil(wait_s)} s"
            )

    def _account(self, search: LogSearch, done: Slice) -> None:
        search.lines += done.looked_at
        self._pay(search, done.spent_s)

    def _pay(self, search: LogSearch, spent_s: float) -> None:
        search.budget.spend(spent_s, asyncio.get_running_loop().time())
        self._spend(search.user, spent_s)

    def _spend(self, user: int | None, spent_s: float) -> None:
        now = asyncio.get_running_loop().time()
        if user not in self._users and len(self._users) >= REMEMBERED:
            full = [who for who, one in self._users.items() if one.left(now) >= one.most_s]
            for who in full:
                del self._users[who]
        new = CpuBudget(self._user_cpu_s, USER_CPU_PER_S, self._user_cpu_s, now)
        self._users.setdefault(user, new).spend(spent_s, now)


def _compiled(text: str) -> tuple[Pattern, float]:
    """And the CPU time that took."""
    start = time.thread_time()
    try:
        pattern = Pattern(text)
    except ValueError as error:
        cut = text if len(text) <= 100 else text[:100] + "..."
        raise InvalidArgument(f'searchText: "{cut}" is no regular expression: {error}') from None
    return pattern, time.thread_time() - start
