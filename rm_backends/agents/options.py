"""How one pool of agents is set up, as `master.app` reads it from master.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field

from master.core.scheduler.types import SchedulerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """One pool. `dynamic` pools have a provisioner that launches agents; static ones wait for agents to connect."""

    name: str
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    max_aux_containers_per_agent: int = 100
    agent_reconnect_wait_s: float = 25.0
    """How long an agent may be away before what it ran counts as lost."""
    dynamic: bool = False
    kind: str = "static"
    """What screens call it: `static`, or the type of its provider."""
    description: str = ""
    container_runtime: str = ""
    """What its agents are told to run images with. Empty: they are told nothing, or different things."""
    require_isolation: bool | None = None
    """Refuse agents that cannot contain tasks. None: those that are root."""
    closed: str = ""
    """Why nothing new is taken: the pool is kept for what runs there. Empty: it is open."""
