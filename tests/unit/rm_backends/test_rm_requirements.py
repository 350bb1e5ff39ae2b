"""What a request asks of its machines: refused at submission with the nearest that would do, and kept when placed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_bootstrap.protocol import Slot, SlotKind
from master.core.machines import MachineFacts, Market, Requirements
from master.core.reasons import ReasonKind
from master.core.scheduler import decide
from master.core.unmet import unmet
from provisioner.types import PoolAvailability, PoolCapacity
from tests.fakes.agents_world import AgentsWorld, agents_world, allocation
from tests.fakes.pools import EMBEDDED, resolved_pool
from tests.fakes.virtual_time import run
from windlass.base.errors import Unsatisfiable

SPOT_V100 = (
    8,
    MachineFacts(gpu_model="V100", gpu_memory_mib=16_384, market=Market.SPOT, usd_per_hour=9.0),
)
ON_DEMAND_T4 = (
    4,
    MachineFacts(gpu_model="T4", gpu_memory_mib=15_360, market=Market.ON_DEMAND, usd_per_hour=4.0),
)
KINDS = [SPOT_V100, ON_DEMAND_T4]


@pytest.mark.parametrize(
    ("wishes", "slots", "text"),
    [
        ({}, 1, None),
        ({"gpu_models": frozenset({"T4"})}, 4, None),
        (
            {"gpu_models": frozenset({"A100"})},
            4,
            "Requested a GPU A100; pool 'gpu' has GPUs T4, V100: "
            "change resources.gpu_models, or use another pool",
        ),
        (
            {"gpu_models": frozenset({"V100"}), "min_gpu_memory_mib": 32_768},
            1,
            "Requested a GPU V100 with at least 32 GiB; pool 'gpu' has no such GPU with more than 16 GiB: "
            "change resources.min_gpu_memory, or use another pool",
        ),
        (
            {"gpu_models": frozenset({"V100"}), "markets": frozenset({Market.ON_DEMAND})},
            1,
            "Requested a GPU V100 sold as on_demand; pool 'gpu' has such machines only as spot: "
            "change resources.markets, or use another pool",
        ),
        (
            {"max_usd_per_hour": 10.0, "gpu_models": frozenset({"T4"})},
            16,
            "Requested a GPU T4 for at most 10.00 USD per hour; pool 'gpu' has nothing below "
            "16.00 USD per hour: raise resources.max_usd_per_hour",
        ),
        (
            {"placement_group": True},
            16,
            "Requested with its machines in one placement group; pool 'gpu' has no placement group for them: "
            "leave out resources.placement_group, or request one agent's slots",
        ),
        (
            {"gpu_models": frozenset({"A100"}), "min_gpu_memory_mib": 81_920},
            1,
            "Requested a GPU A100 with at least 80 GiB; pool 'gpu' has GPUs T4, V100: "
            "give up several of these wishes, or use another pool",
        ),
    ],
)
def test_what_no_machine_meets_is_said_with_the_nearest(
    wishes: dict[str, Any], slots: int, text: str | None
) -> None:
    assert unmet("gpu", Requirements(**wishes), slots, KINDS) == text


def gpus(brand: str, count: int = 2) -> tuple[Slot, ...]:
    return tuple(
        Slot(id=i, kind=SlotKind.CUDA, brand=brand, uuid=f"{brand}-{i}", memory_mib=40_960)
        for i in range(count)
    )


A100 = Requirements(gpu_models=frozenset({"A100"}))


def test_static_agents_are_what_their_devices_say() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("old", devices=gpus("Tesla T4"))
        with pytest.raises(Unsatisfiable, match="pool 'default' has GPUs Tesla T4"):
            world.backend.check(replace(allocation(1, slots=2), requires=A100))
        request = replace(allocation(1, slots=2), requires=A100)
        await world.backend.request(request)
        await world.settle()
        reason = world.backend.explain(request.allocation_id)
        assert reason is not None
        assert reason.kind is ReasonKind.NO_SUCH_AGENT
        assert "2 slots of what it asks for (a GPU A100)" in reason.text
        await world.add_agent("new", devices=gpus("NVIDIA A100-PCIE-40GB"))
        grant = await world.master.granted(request.allocation_id)
        assert [container.agent_id for container in grant.containers] == ["new"]
        world.backend.check(replace(allocation(2, slots=2), requires=A100))

    async def main() -> None:
        async with agents_world(decide=decide) as world:
            await scenario(world)

    run(main(), limit_s=3600)


def test_an_elastic_pool_checks_what_it_can_buy_and_knows_what_it_bought() -> None:
    async def scenario(world: AgentsWorld) -> None:
        pool = world.backend.by_name["default"]
        pool.capacity = lambda name: PoolCapacity(
            pool=name, node_slots=(4, 8), max_instances=3, kinds=frozenset(KINDS)
        )
        world.backend.check(replace(allocation(1, slots=8), requires=_one_of("V100")))
        with pytest.raises(Unsatisfiable, match="GPUs T4, V100"):
            world.backend.check(replace(allocation(1, slots=8), requires=A100))
        with pytest.raises(Unsatisfiable, match=r"maximum of pool 'default' is 12 .*only a GPU T4"):
            world.backend.check(replace(allocation(1, slots=16), requires=_one_of("T4")))
        await world.add_agent("m1", slots=4)
        request = replace(allocation(2, slots=4), requires=_one_of("T4"))
        await world.backend.request(request)
        await world.settle()
        assert world.master.grant_of(request.allocation_id) is None
        pool.set_availability(PoolAvailability(pool="default", facts={"m1": ON_DEMAND_T4[1]}))
        await world.master.granted(request.allocation_id)

    async def main() -> None:
        options = resolved_pool("default", EMBEDDED)
        async with agents_world(options, decide=decide) as world:
            await scenario(world)

    run(main(), limit_s=3600)


def _one_of(*models: str) -> Requirements:
    return Requirements(gpu_models=frozenset(models))
