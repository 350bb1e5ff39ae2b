"""What replies cost when there is much of everything: how often the same is looked up, not how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from master.allocations.machine import AllocationState
from master.allocations.service import AllocationService
from master.core.reasons import Reason
from rm_backends.agents.backend import AgentsBackend
from tests.fakes.api_world import ASHA, ApiWorld


@pytest.mark.slow
@pytest.mark.parametrize("path", ["?limit=1", "/node-0", "/node-0/slots"])
async def test_only_the_containers_of_the_agents_that_are_shown_are_looked_up(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for number in range(3):
        await world.add_agent(f"node-{number}", slots=1)
    runs = [await world.run_of(await world.create()) for _ in range(3)]
    here = next(r for r in runs if r.containers[0].container.agent_id == "node-0")
    asked: list[Iterable[str] | None] = []
    really = AllocationService.open_states

    def open_states(
        self: AllocationService, ids: Iterable[str] | None = None
    ) -> Mapping[str, AllocationState]:
        asked.append(ids)
        return really(self, ids)

    monkeypatch.setattr(AllocationService, "open_states", open_states)
    shown = await world.ok("GET", f"/api/v1/agents{path}")
    assert asked == [{here.id}]
    assert here.containers[0].container.container_id in str(shown)


@pytest.mark.parametrize("path", ["/api/v1/experiments/{}", "/api/v1/experiments?limit=5"])
async def test_one_reason_is_asked_for_where_one_is_shown(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    id_ = await world.create(ASHA)
    asked = explained(monkeypatch)
    found = await world.ok("GET", path.format(id_))
    assert (found.get("experiment") or found["experiments"][0])["waitingReason"]
    assert len(asked) == 1


async def test_only_the_reasons_of_the_trials_that_are_shown_are_asked_for(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = await world.create(ASHA)
    asked = explained(monkeypatch)
    found = await world.ok("GET", f"/api/v1/experiments/{id_}/trials?limit=2&offset=1")
    assert all(trial["waitingReason"] for trial in found["trials"])
    assert len(asked) == 2
    await world.ok("GET", f"/api/v1/trials/{found['trials'][0]['id']}")
    assert len(asked) == 3


def explained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The allocations whose reasons are asked for from now on."""
    asked: list[str] = []
    explain = AgentsBackend.explain

    def counted(backend: AgentsBackend, allocation_id: str) -> Reason | None:
        asked.append(allocation_id)
        return explain(backend, allocation_id)

    monkeypatch.setattr(AgentsBackend, "explain", counted)
    return asked
