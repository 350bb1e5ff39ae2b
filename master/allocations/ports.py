"""What allocations need of those who own them; experiments (and later interactive tasks) implement it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from agent_bootstrap.container_options import ProxyPort
from agent_bootstrap.protocol import RegistryCredentials
from master.allocations.machine import AllocationState, Step
from rm_backends.base import AllocationRequest, LaunchSpec

AllocationStep: TypeAlias = Callable[[AllocationState], Step]


class AllocationOwner(Protocol):
    """The root that an allocation belongs to. Steps go through its mailbox and are committed before they return."""

    def allocation(self, allocation_id: str) -> AllocationState | None:
        """The live state, or None if that allocation is not the current one any more."""
        ...

    async def step_allocation(
        self, allocation_id: str, step: AllocationStep
    ) -> AllocationState | None:
        """Apply a pure step, commit, run its effects; the new state, None if that allocation is history."""
        ...

    def allocation_request(self, state: AllocationState) -> AllocationRequest: ...

    def launch_spec(self, state: AllocationState, token: str) -> LaunchSpec: ...

    def registry_login(self, state: AllocationState) -> RegistryCredentials | None:
        """What its image is pulled with; None if there is nothing to log in with."""
        ...

    def unique_ports(self) -> Mapping[str, int]:
        """Ports that each of its allocations needs to itself: variable -> the lowest number that will do."""
        ...

    def proxied_ports(self, state: AllocationState) -> Mapping[str, ProxyPort]:
        """Ports that the proxy leads to, by number; empty name: what tasks of its kind serve."""
        ...

    def note_activity(self) -> None:
        """Somebody uses what it serves."""
        ...

    async def note_listening(self, allocation_id: str) -> None:
        """Its task asks whether to leave, and may be asked to."""
        ...

    def owner_id(self, allocation_id: str) -> int:
        """The user on whose behalf the task acts."""
        ...

    @property
    def experiment_id(self) -> int | None:
        """The experiment whose trials its tasks are; None if they are none."""
        ...
