"""Which nodes of a site nothing new is to run on, as the pools of agents know it."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.actors import ADMIN
from tests.fakes.agents_world import AgentsWorld, agents_world, allocation
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run


async def node(world: AgentsWorld, agent_id: str, site_node: str) -> None:
    agent = world.new_agent(agent_id, slots=2, site_node=site_node)
    world.agents[agent_id] = agent
    world.tasks.create_task(agent.run())
    await world.settle(1)


def test_nodes_are_disabled_while_an_agent_on_them_is() -> None:
    async def main() -> None:
        async with agents_world(resolved_pool("default")) as world:
            await node(world, "a", "n1")
            await node(world, "b", "n2")
            await node(world, "c", "")
            backend = world.backend
            assert world.leased.disabled_nodes() == frozenset()
            for agent_id, drain in (("a", False), ("b", True), ("c", False)):
                await backend.operator.disable_agent(agent_id, drain=drain, by=ADMIN)
            assert world.leased.disabled_nodes() == {"n1", "n2"}
            await backend.operator.enable_agent("a", by=ADMIN)
            assert world.leased.disabled_nodes() == {"n2"}
            await world.nodes.instance_gone("b", "over")
            assert world.leased.disabled_nodes() == frozenset()

    run(main())


def test_nodes_are_avoided_if_all_that_waits_avoids_them() -> None:
    async def main() -> None:
        async with agents_world(resolved_pool("default")) as world:
            backend = world.backend
            assert world.leased.avoided_nodes("default") == frozenset()
            for number, names in ((1, {"n1", "n2"}), (2, {"n2", "n3"})):
                avoids = replace(allocation(number), blocked_agents=frozenset(names))
                await backend.request(avoids)
            assert world.leased.avoided_nodes("default") == {"n2"}
            await backend.request(allocation(3))
            assert world.leased.avoided_nodes("default") == frozenset()

    run(main())
