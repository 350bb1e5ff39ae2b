"""Agents that get no more work because their machines go: cordoned, drained, or leaving at a known time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from agent_bootstrap.protocol import Leaving, Stay
from master.core.deadlines import Cause, Deadline
from rm_backends.agents.agents import Agent
from rm_backends.agents.pool import Pool
from windlass.base.errors import NotFound

log = logging.getLogger(__name__)


class Departures:
    """Remembers what was said of machines whose agents have not connected yet."""

    def __init__(self, find: Callable[[str], tuple[Pool, Agent] | None], epoch: int) -> None:
        self._find = find
        self._epoch = epoch
        self._cordoned: set[str] = set()
        self._leaving: dict[str, Deadline] = {}

    def meet(self, agent: Agent) -> None:
        """It is new here."""
        agent.cordoned = agent.id in self._cordoned
        agent.leaving = self._leaving.pop(agent.id, None)

    def forget(self, agent_id: str) -> None:
        """It is gone for good."""
        self._cordoned.discard(agent_id)
        self._leaving.pop(agent_id, None)

    def cordon(self, agent_id: str) -> bool:
        """False if something is placed on it. An agent not seen yet is cordoned from its first connection on."""
        found = self._find(agent_id)
        if found is not None:
            pool, agent = found
            if agent.holds:
                return False
            agent.cordoned = True
            pool.touch()
        self._cordoned.add(agent_id)
        return True

    def drain(self, agent_id: str) -> None:
        """Nothing more is placed there, whatever it runs."""
        self._cordoned.add(agent_id)
        found = self._find(agent_id)
        if found is not None and not found[1].cordoned:
            found[1].cordoned = True
            found[0].touch()

    def uncordon(self, agent_id: str) -> None:
        self._cordoned.discard(agent_id)
        if (found := self._find(agent_id)) is not None:
            pool, agent = found
            agent.cordoned = False
            pool.touch()

    def leave(self, agent_id: str, leaving: Deadline) -> None:
        """Its machine goes: nothing more is placed there, and all that it runs is asked to leave.

        May be repeated, also for an agent that has not connected yet; a later time than the first is ignored.
        """
        found = self._find(agent_id)
        if found is None:
            known = self._leaving.setdefault(agent_id, leaving)
            self._leaving[agent_id] = leaving if leaving.is_before(known) else known
            return
        pool, agent = found
        if agent.leaving is None or leaving.is_before(agent.leaving):
            log.warning("agent %s goes %s: %s", agent_id, leaving.when, leaving.reason)
            agent.leaving = leaving
            pool.touch()
        pool.assignments.ask_to_leave(agent, agent.leaving)

    def stay(self, agent_id: str, *, tell: bool = False) -> None:
        """What the agent said of its leaving does not count any more. What was asked to leave still does.

        `tell`: an operator says so, and the agent is to forget it. What a provider said stays.
        """
        found = self._find(agent_id)
        if found is None:
            raise NotFound("agent", agent_id)
        pool, agent = found
        if agent.leaving is None or not agent.leaving.its_own:
            return
        log.info("agent %s stays", agent_id)
        agent.leaving = None
        pool.touch()
        if tell and agent.link is not None:
            agent.link.send(Stay(epoch=self._epoch))


def said_by_agent(leaving: Leaving) -> Deadline:
    return Deadline(
        at=leaving.at.timestamp(),
        cause=Cause.TAKEN_BACK if leaving.taken_back else Cause.LEAVES,
        reason=leaving.reason,
        waits=leaving.waits,
        its_own=True,
    )
