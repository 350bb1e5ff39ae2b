"""Zero-slot tasks (TensorBoards, checkpoint clean-up): first in, first out, into the auxiliary places of agents.

They never compete with slots, and may sit on agents whose slots are full. `best` prefers agents that have work
anyway, so that idle machines can go; `worst` spreads over the agents with most places left. Counting is cumulative.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from master.core.scheduler import explain
from master.core.scheduler.types import (
    AgentState,
    PoolState,
    Request,
    Running,
    Start,
    Waiting,
)

RankedPlace = tuple[float, float, str]


def place_aux(
    pool: PoolState, waiting: Sequence[Request], busy: Iterable[str]
) -> tuple[list[Start], dict[str, Waiting]]:
    """Starts and reasons for the zero-slot requests. `busy` agents have work with slots."""
    if not waiting:
        return [], {}
    now = _Places(pool, busy, pool.running)
    starts: list[Start] = []
    unplaced: list[Request] = []
    for request in waiting:
        agent = now.take(request.blocked_agents)
        if agent is None:
            unplaced.append(request)
        else:
            starts.append(Start(request_id=request.id, placement={agent: 0}))
    later = _Places(pool, busy, [r for r in pool.running if not r.releasing], starts)
    reasons = {
        request.id: explain.no_aux_place(
            pool, returning=later.take(request.blocked_agents) is not None
        )
        for request in unplaced
    }
    return starts, reasons


class _Places:
    """Places left on schedulable agents, cheapest to use first."""

    def __init__(
        self,
        pool: PoolState,
        busy: Iterable[str],
        running: Iterable[Running],
        started: Iterable[Start] = (),
    ) -> None:
        self._best = pool.settings.fitting_policy == "best"
        self._used = _aux_used(running, started)
        self._busy = {*busy, *self._used}
        self._agents = {a.id: a for a in pool.agents if a.schedulable}
        self._heap = [self._rank(a) for a in self._agents.values() if self._left(a) > 0]
        heapq.heapify(self._heap)

    def take(self, blocked: frozenset[str]) -> str | None:
        aside: list[RankedPlace] = []
        while self._heap and self._heap[0][2] in blocked:
            aside.append(heapq.heappop(self._heap))
        taken = None
        if self._heap:
            taken = heapq.heappop(self._heap)[2]
            self._used[taken] = self._used.get(taken, 0) + 1
            self._busy.add(taken)
            if self._left(self._agents[taken]) > 0:
                heapq.heappush(self._heap, self._rank(self._agents[taken]))
        for entry in aside:
            heapq.heappush(self._heap, entry)
        return taken

    def _left(self, agent: AgentState) -> int:
        return agent.aux_places - self._used.get(agent.id, 0)

    def _rank(self, agent: AgentState) -> RankedPlace:
        left = self._left(agent)
        if self._best:
            return (0.0 if agent.id in self._busy else 1.0, left, agent.id)
        return (-left / agent.aux_places, 0.0, agent.id)


def _aux_used(running: Iterable[Running], started: Iterable[Start]) -> dict[str, int]:
    used: dict[str, int] = {}
    for one in running:
        if one.request.slots == 0:
            for agent in one.placement:
                used[agent] = used.get(agent, 0) + 1
    for start in started:
        for agent in start.placement:
            used[agent] = used.get(agent, 0) + 1
    return used
