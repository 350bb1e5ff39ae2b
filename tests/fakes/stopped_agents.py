"""Offers and rules of pools that stop machines."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from provisioner.planning.scale_down.stopped_agents import StoppedAgents
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer

if TYPE_CHECKING:
    from provisioner.planning.plan_types import Plan

FOUR = an_offer(4, 4.0, boot_s=180.0, can_stop=True, disk_usd_per_hour=0.001)
EIGHT = an_offer(8, 8.0, boot_s=180.0)
RULES = StoppedAgents(
    max=2, expected_gap=timedelta(seconds=3600.0), max_age=timedelta(seconds=14_400.0)
)


def bought(decision: Plan) -> int:
    return sum(launch.count for launch in decision.launches if not launch.starts)


async def asleep(world: FleetWorld) -> None:
    """One machine has worked, and is stopped."""
    await world.want(a_gang("first"))
    await world.until(lambda: "first" in world.host.placed)
    world.host.finish("first")
    await world.until(lambda: world.states() == ["stopped"])
