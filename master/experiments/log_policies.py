"""The `log_policies` of one experiment: which of them new lines of a run match."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import structlog

from master.core.expconf.log_policies import LogPolicy
from master.core.patterns import Pattern
from master.logs.ingest import clean

CONFIG_ECHO = '"log_policies":'
"""Lines with this print a configuration, which has every pattern in it."""

log = structlog.get_logger(__name__)


class Match(NamedTuple):
    number: int
    policy: LogPolicy
    line: str


class LogPolicySearch:
    """Patterns are compiled at the first use, in a thread like every search."""

    def __init__(self, policies: Sequence[LogPolicy]) -> None:
        self._policies = [policy for policy in policies if policy.pattern]
        self._compiled: list[tuple[int, LogPolicy, Pattern]] | None = None
        self._done: dict[str, tuple[str, frozenset[tuple[str, int]]]] = {}
        """By trial: its newest allocation, and what has matched there: (node, number of the policy)."""

    async def find(self, lines: Sequence[str], allocation_id: str, node: str) -> Sequence[Match]:
        """Those that are not done there yet."""
        if not self._policies or not lines:
            return ()
        return await asyncio.to_thread(self._search, lines, self._done_in(allocation_id), node)

    def note(self, match: Match, allocation_id: str, node: str) -> None:
        """What follows from it is committed."""
        done = self._done_in(allocation_id) | {(node, match.number)}
        self._done[allocation_id.rpartition(".")[0]] = (allocation_id, done)

    def _done_in(self, allocation_id: str) -> frozenset[tuple[str, int]]:
        newest, done = self._done.get(allocation_id.rpartition(".")[0], ("", frozenset()))
        return done if newest == allocation_id else frozenset()

    def _search(
        self, lines: Sequence[str], done: Container[tuple[str, int]], node: str
    ) -> list[Match]:
        if self._compiled is None:
            self._compiled = list(_compiled(self._policies))
        left = [one for one in self._compiled if (node, one[0]) not in done]
        if not left:
            return []
        cleaned = [clean(line) for line in lines]
        together = "\n".join(cleaned).encode(errors="replace")
        found = []
        for number, policy, pattern in left:
            if not pattern.may_be_in(together):
                continue
            own = (line for line in cleaned if pattern.is_in(line) and CONFIG_ECHO not in line)
            if (line := next(own, None)) is not None:
                found.append(Match(number, policy, line))
        return found


def _compiled(policies: Iterable[LogPolicy]) -> Iterable[tuple[int, LogPolicy, Pattern]]:
    for number, policy in enumerate(policies):
        try:
            yield number, policy, Pattern(policy.pattern or "")
        except ValueError as error:  # of a configuration that was accepted by other rules
            log.warning("a log policy is left out", pattern=policy.pattern, why=str(error))
