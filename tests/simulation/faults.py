"""What goes wrong in a simulation, and when: drawn from the seed before anything runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from master.core.jobs import (
    JobChange,
    SetMaxSlots,
    SetPlace,
    SetPool,
    SetPriority,
    SetWeight,
)
from provisioner.providers.base import LimitedCall
from tests.fakes.actors import ADMIN
from tests.fakes.simulated_provider import Faults
from tests.simulation.world import ELASTIC, LIST_GRACE_S, OFFERS, RACK
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, NotFound, QuotaError

if TYPE_CHECKING:
    from master.api.services import Services
    from tests.simulation.world import World

STRIKES_UNTIL_S = 120.0
"""Later, nearly every search is over."""
FIRST_LAUNCHES_S = 3.0
"""By then the first machines have been asked for."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`draw` in [0, 1) settles what the moment of the strike leaves open."""

    kind: str
    at_s: float
    lasts_s: float
    draw: float

    async def strike(self, world: World) -> None:
        await asyncio.sleep(self.at_s)
        world.note(f"fault: {self}")
        await STRIKES[self.kind](world, self)

    def pick(self, names: list[str]) -> str | None:
        return sorted(names)[int(self.draw * len(names))] if names else None


def draw_faults(rng: random.Random) -> tuple[Fault, ...]:
    kinds = rng.choices(list(WEIGHTS), weights=list(WEIGHTS.values()), k=rng.randint(2, 4))
    return tuple(
        Fault(
            kind=kind,
            at_s=round(rng.uniform(0.0, rng.choice(WHEN.get(kind, (STRIKES_UNTIL_S,)))), 3),
            lasts_s=round(rng.choice((rng.uniform(0.1, 5), rng.uniform(5, 70))), 3),
            draw=rng.random(),
        )
        for kind in kinds
    )


async def _kill_master(world: World, fault: Fault) -> None:
    world.restart_after_s = fault.lasts_s
    if world.master is not None:
        world.master.kill()


async def _kill_master_before_commit(world: World, fault: Fault) -> None:
    world.restart_after_s = fault.lasts_s
    world.invariants.kill_before = world.invariants.commits + 1 + int(fault.draw * 10)


async def _kill_master_after_commit(world: World, fault: Fault) -> None:
    world.restart_after_s = fault.lasts_s
    world.invariants.kill_after = world.invariants.allocation_commits + 1 + int(fault.draw * 10)


async def _kill_master_at_launch(world: World, fault: Fault) -> None:
    """The provider is asked, and nobody hears what it answers."""
    world.restart_after_s = fault.lasts_s
    world.invariants.kill_at_launch = True


async def _second_master(world: World, fault: Fault) -> None:
    """Somebody starts another one on the same database: it takes the lease, the first must give up."""
    world.start_master()


async def _fill_disk(world: World, fault: Fault) -> None:
    world.invariants.disk_is_full = True
    await asyncio.sleep(fault.lasts_s)
    world.invariants.disk_is_full = False


async def _kill_agent(world: World, fault: Fault) -> None:
    """The daemon ends and is started again; what it ran goes on."""
    name = fault.pick(list(world.agents))
    if name is not None:
        agent = world.agents[name]
        await agent.unplug()
        await asyncio.sleep(fault.lasts_s)
        agent.plug_in()


async def _silence_agent(world: World, fault: Fault) -> None:
    """Packets are lost without a word, until the master gives up the connection."""
    name = fault.pick(list(world.lines))
    if name is not None:
        world.lines[name].stall()


async def _kill_host(world: World, fault: Fault) -> None:
    """An instance is gone for good; without one, a machine of the rack reboots."""
    name = fault.pick([instance.id for instance in world.living()])
    if name is not None:
        world.kill(name)
        return
    rack = fault.pick(list(world.agents))
    if rack is not None:
        await world.agents[rack].lose_memory(boot_id=f"boot-{fault.draw}")


async def _kill_task(world: World, fault: Fault) -> None:
    """The training program fails."""
    running = {
        container.id: agent
        for agent in world.agents.values()
        for container in agent.containers.values()
        if container.exit is None
    }
    name = fault.pick(list(running))
    if name is not None:
        running[name].exit(name, 1)


async def _pause(world: World, fault: Fault) -> None:
    """A user pauses a search and activates it again, if it is not over by then."""
    experiment_id = 1 + round(fault.draw)
    with suppress(InvalidState):
        await world.eventually(lambda services: services.experiments.pause(experiment_id, by=ADMIN))
        await asyncio.sleep(fault.lasts_s)
        await world.eventually(
            lambda services: services.experiments.activate(experiment_id, by=ADMIN)
        )


async def _change(world: World, fault: Fault, change: JobChange) -> None:
    """What a user does to a job of the queue, if it is not over by then."""
    experiment_id = 1 + round(fault.draw)

    async def carry_out(services: Services) -> None:
        live = services.experiments.live(experiment_id)
        if live is not None:
            await live.change_job(change, by=ADMIN)

    with suppress(InvalidState, InvalidArgument):
        await world.eventually(carry_out)


async def _change_priority(world: World, fault: Fault) -> None:
    await _change(world, fault, SetPriority(1 + int(fault.draw * 99)))


async def _change_weight(world: World, fault: Fault) -> None:
    await _change(world, fault, SetWeight(0.1 + 10 * fault.draw))


async def _limit_slots(world: World, fault: Fault) -> None:
    """None may run for a while, or some, and then as many as there are slots for."""
    await _change(world, fault, SetMaxSlots(int(fault.draw * 10) % 5))
    await asyncio.sleep(fault.lasts_s)
    await _change(world, fault, SetMaxSlots(None))


async def _place_in_queue(world: World, fault: Fault) -> None:
    await _change(world, fault, SetPlace(Decimal(fault.draw), None))


async def _move_pool(world: World, fault: Fault) -> None:
    """There, and soon perhaps somewhere else."""
    for pool in (RACK, ELASTIC) if fault.draw < 0.5 else (ELASTIC, RACK):
        await _change(world, fault, SetPool(pool))
        await asyncio.sleep(fault.lasts_s)


async def _drain_agent(world: World, fault: Fault) -> None:
    name = fault.pick(list(world.agents))
    if name is None:
        return
    with suppress(NotFound, Conflict):
        await world.eventually(
            lambda s: s.operator_of(name).disable_agent(name, drain=fault.draw < 0.7, by=ADMIN)
        )
        await asyncio.sleep(fault.lasts_s)
        await world.eventually(lambda s: s.operator_of(name).enable_agent(name, by=ADMIN))


async def _drain_slot(world: World, fault: Fault) -> None:
    name = fault.pick(list(world.agents))
    if name is None:
        return
    with suppress(NotFound, Conflict):
        await world.eventually(
            lambda s: s.operator_of(name).disable_slot(name, 0, drain=fault.draw < 0.7, by=ADMIN)
        )
        await asyncio.sleep(fault.lasts_s)
        await world.eventually(lambda s: s.operator_of(name).enable_slot(name, 0, by=ADMIN))


async def _stock_out(world: World, fault: Fault) -> None:
    keys = {offer.key for offer in OFFERS[: 1 + int(fault.draw * len(OFFERS))]}
    for cloud in world.clouds.values():
        cloud.faults.stock_out |= keys
    await asyncio.sleep(fault.lasts_s)
    for cloud in world.clouds.values():
        cloud.faults.stock_out -= keys


async def _quota_used(world: World, fault: Fault) -> None:
    """One provider launches nothing more for this account."""
    faults = _of_cloud(world, fault)
    faults.refuse = dict.fromkeys(
        (offer.key for offer in OFFERS), QuotaError("limit 64 vCPUs, used 64")
    )
    await asyncio.sleep(fault.lasts_s)
    faults.refuse = {}


async def _lose_reply(world: World, fault: Fault) -> None:
    _of_cloud(world, fault).lost_replies += 1


async def _no_answer(world: World, fault: Fault) -> None:
    _of_cloud(world, fault).unanswered += 1


async def _fail_lists(world: World, fault: Fault) -> None:
    faults = _of_cloud(world, fault)
    faults.list_fails = True
    await asyncio.sleep(fault.lasts_s)
    faults.list_fails = False


async def _halve_lists(world: World, fault: Fault) -> None:
    """Lists of one provider say nothing about one of its zones."""
    zones = sorted(offer.key.zone for offer in OFFERS)
    faults = world.clouds[OFFERS[int(fault.draw * len(zones))].key.provider].faults
    faults.zones_unseen = {zones[int(fault.draw * len(zones))]}
    await asyncio.sleep(fault.lasts_s)
    faults.zones_unseen = set()


async def _fail_terminations(world: World, fault: Fault) -> None:
    faults = _of_cloud(world, fault)
    faults.terminate_failures += 2
    faults.cancel_failures += 1


async def _hang(world: World, fault: Fault) -> None:
    """Calls that arrive meanwhile are never answered."""
    faults = _of_cloud(world, fault)
    faults.hang |= {"launch", "list", "terminate"}
    await asyncio.sleep(fault.lasts_s)
    faults.hang.clear()


async def _hide_young(world: World, fault: Fault) -> None:
    """Lists are behind: what is young is not in them."""
    faults = _of_cloud(world, fault)
    faults.hide_young_s = LIST_GRACE_S * 0.9
    await asyncio.sleep(fault.lasts_s)
    faults.hide_young_s = 0.0


async def _dead_boots(world: World, fault: Fault) -> None:
    keys = {OFFERS[0].key}
    faults = world.clouds[OFFERS[0].key.provider].faults
    broken = faults.never_boot if fault.draw < 0.5 else faults.dies_at_boot
    broken |= keys
    await asyncio.sleep(fault.lasts_s)
    broken -= keys


async def _queue_launches(world: World, fault: Fault) -> None:
    """Launches are accepted meanwhile, and delivered some seconds later."""
    for cloud in world.clouds.values():
        keys = (offer.key for offer in OFFERS)
        cloud.faults.queue_s = dict.fromkeys(keys, 1.0 + 20 * fault.draw)
    await asyncio.sleep(fault.lasts_s)
    for cloud in world.clouds.values():
        cloud.faults.queue_s = {}


async def _take_back(world: World, fault: Fault) -> None:
    """A notice: the provider takes a machine back so many seconds from now."""
    machines = {machine.id: machine for machine in world.living()}
    name = fault.pick(list(machines))
    if name is not None:
        machines[name].leaves_at = world.clock.now().timestamp() + 30.0 + fault.lasts_s


async def _throttle(world: World, fault: Fault) -> None:
    _of_cloud(world, fault).throttle = dict.fromkeys(LimitedCall, 1 + round(3 * fault.draw))


async def _set_clock(world: World, fault: Fault) -> None:
    """Somebody sets the clock of the master's machine, by up to an hour either way."""
    seconds = round(7200 * (fault.draw - 0.5), 3)
    world.note(f"the master's clock jumps by {seconds} s")
    world.master_clock.jump(seconds)


def _of_cloud(world: World, fault: Fault) -> Faults:
    """Those of the provider that this strikes."""
    name = fault.pick(list(world.clouds))
    assert name is not None
    return world.clouds[name].faults


STRIKES: dict[str, Callable[[World, Fault], Awaitable[None]]] = {
    "master killed": _kill_master,
    "master killed before a commit": _kill_master_before_commit,
    "master killed after a commit": _kill_master_after_commit,
    "master killed at a launch": _kill_master_at_launch,
    "second master": _second_master,
    "disk full": _fill_disk,
    "agent killed": _kill_agent,
    "agent silent": _silence_agent,
    "host killed": _kill_host,
    "task failed": _kill_task,
    "paused": _pause,
    "priority changed": _change_priority,
    "weight changed": _change_weight,
    "slots limited": _limit_slots,
    "place in the queue changed": _place_in_queue,
    "moved to another pool": _move_pool,
    "agent out of service": _drain_agent,
    "slot out of service": _drain_slot,
    "stock-out": _stock_out,
    "launch reply lost": _lose_reply,
    "launch unanswered": _no_answer,
    "lists fail": _fail_lists,
    "terminations fail": _fail_terminations,
    "provider hangs": _hang,
    "lists are behind": _hide_young,
    "machines do not boot": _dead_boots,
    "launches are queued": _queue_launches,
    "machine taken back": _take_back,
    "calls are throttled": _throttle,
    "quota used": _quota_used,
    "lists are partial": _halve_lists,
    "clock set": _set_clock,
}
OFTEN = {"agent killed": 4, "host killed": 4, "task failed": 2, "moved to another pool": 3}
WHEN = dict.fromkeys(
    (
        "master killed at a launch",
        "launch reply lost",
        "launch unanswered",
        "stock-out",
        "machines do not boot",
        "provider hangs",
        "lists are behind",
        "lists are partial",
        "launches are queued",
        "calls are throttled",
        "quota used",
    ),
    (FIRST_LAUNCHES_S, STRIKES_UNTIL_S),
)
"""Kind -> until when it may strike, if not at any time: what concerns launches must meet some."""
WEIGHTS = {k: 3 if k.startswith("master") else OFTEN.get(k, 1) for k in STRIKES}
