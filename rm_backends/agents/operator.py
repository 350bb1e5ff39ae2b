"""Agents and slots out of service and back into it, as operators say."""

from __future__ import annotations

import logging

from master.core.actor import Actor
from rm_backends.agents.registry import Registry
from rm_backends.agents.views import agent_view
from rm_backends.ports import SlotService
from rm_backends.views import AgentView, SlotView
from windlass.base.errors import NotFound

log = logging.getLogger(__name__)


class Operator:
    """Implements `rm_backends.observer.AgentOperator`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def enable_agent(self, agent_id: str, *, by: Actor) -> AgentView:
        await self._registry.set_service(agent_id, enabled=True, draining=False)
        self._registry.departures.stay(agent_id, tell=True)
        log.info("agent %s enabled by %s", agent_id, by)
        return self._agent(agent_id)

    async def disable_agent(self, agent_id: str, *, drain: bool, by: Actor) -> AgentView:
        await self._registry.set_service(agent_id, enabled=False, draining=drain)
        log.info("agent %s disabled by %s (drain: %s)", agent_id, by, drain)
        return self._agent(agent_id)

    async def enable_slot(self, agent_id: str, slot_id: int, *, by: Actor) -> SlotView:
        await self._registry.set_slot_service(agent_id, slot_id, None)
        log.info("slot %d of agent %s enabled by %s", slot_id, agent_id, by)
        return self.slot(agent_id, slot_id)

    async def disable_slot(
        self, agent_id: str, slot_id: int, *, drain: bool, by: Actor
    ) -> SlotView:
        how = SlotService.DRAINING if drain else SlotService.DISABLED
        await self._registry.set_slot_service(agent_id, slot_id, how)
        log.info("slot %d of agent %s disabled by %s (drain: %s)", slot_id, agent_id, by, drain)
        return self.slot(agent_id, slot_id)

    async def forget_agent(self, agent_id: str, *, force: bool, by: Actor) -> AgentView:
        was = self._agent(agent_id)
        await self._registry.forget(agent_id, force=force)
        log.warning(
            "agent %s forgotten by %s, with %d containers", agent_id, by, len(was.containers)
        )
        return was

    def _agent(self, agent_id: str) -> AgentView:
        return agent_view(*self._registry.get(agent_id))

    def slot(self, agent_id: str, slot_id: int) -> SlotView:
        """Raises NotFound."""
        for slot in self._agent(agent_id).slots:
            if slot.id == slot_id:
                return slot
        raise NotFound(f"agent '{agent_id}': slot", slot_id)
