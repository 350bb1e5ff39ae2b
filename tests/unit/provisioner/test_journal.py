"""What the journal says of a fleet on virtual time: what was chosen, what was weighed, and what could not be had."""

from __future__ import annotations

import asyncio
from typing import Any

from provisioner.capacity.refusals import BlockKind
from provisioner.journal.records import MERGED_WITHIN_S, decision_from_document
from provisioner.providers.errors import Refusal
from provisioner.types import PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run

CHEAP = an_offer(4, 2.0, name="cheap")
DEAR = an_offer(4, 6.0, name="dear", zone="b")
STOCK_OUT = Refusal(BlockKind.CAPACITY, "no cheap machines in zone a")


def a_world(*offers: Any, **settings: Any) -> FleetWorld:
    values: dict[str, Any] = {"pool": "gpu", "max_instances": 4, "max_idle_s": 60.0} | settings
    return FleetWorld(LoopClock(), offers, settings=PoolSettings(**values), interval_s=20.0)


def told(world: FleetWorld) -> list[tuple[str, str, int]]:
    """Kind, type of machine and number of instances of each entry, in the order in which they began."""
    entries = (decision_from_document(each) for each in world.store.journal())
    return [
        (each.kind.value, each.offer.instance_type if each.offer else "", len(each.instances))
        for each in entries
    ]


def test_a_stock_out_is_told_with_what_was_bought_next() -> None:
    async def main() -> None:
        world = a_world(CHEAP, DEAR)
        world.cloud.faults.refuse = {CHEAP.key: STOCK_OUT}
        await world.start()
        await world.want(a_gang("run"))
        await world.until(lambda: "run" in world.host.placed)
        refused, bought = [
            decision_from_document(each)
            for each in world.store.journal()
            if each["kind"] == "launched"
        ]
        assert (refused.offer, refused.instances, refused.stands) == (CHEAP.key, (), False)
        assert refused.said == "no cheap machines in zone a"
        assert (bought.offer, bought.instances) == (DEAR.key, tuple(world.living()))
        assert (bought.usd, bought.slots, bought.runs, bought.jobs) == (6.0, 4, 1, ("job-run",))
        assert bought.reason == "launching 1 x dear in b for 1 run"
        assert [(x.offer, x.launched) for x in bought.alternatives] == [
            (DEAR.key, 1),
            (CHEAP.key, 0),
        ]
        assert bought.weighed == 2
        assert "no cheap machines in zone a; retrying at" in bought.alternatives[1].why_not
        world.host.finish("run")
        await world.until(lambda: not world.living())
        ended = decision_from_document(world.store.journal()[-1])
        assert (ended.kind, ended.instances) == ("ended", bought.instances)
        assert "idle" in ended.reason
        await world.stop()

    run(main())


def test_what_stays_refused_is_one_entry_however_long() -> None:
    async def main() -> None:
        world = a_world(CHEAP)
        world.cloud.faults.refuse = {CHEAP.key: STOCK_OUT}
        await world.start()
        await world.want(a_gang("run"))
        await asyncio.sleep(2 * 3600)
        (launch,) = [x for x in world.store.journal() if x["kind"] == "launched"]
        (refusal,) = [x for x in world.store.journal() if x["kind"] == "refused"]
        assert launch["times"] > 1
        assert launch["said"] == "no cheap machines in zone a"
        assert refusal["times"] > 100
        assert "no cheap machines in zone a" in refusal["reason"]
        assert refusal["last_at"] - refusal["first_at"] > 1.9 * 3600
        assert refusal["jobs"] == ["job-run"]
        commits = world.store.commits
        await asyncio.sleep(600)
        assert world.store.commits - commits < 20, "unchanged, it is written about once a minute"
        world.cloud.faults.refuse = {}
        await world.until(lambda: "run" in world.host.placed)
        (refusal,) = [x for x in world.store.journal() if x["kind"] == "refused"]
        assert not refusal["stands"]
        await asyncio.sleep(MERGED_WITHIN_S + 60)
        assert not [x for x in world.store.journal() if x["is_open"]]
        await world.stop()

    run(main())


def test_limits_are_told_as_what_keeps_machines_from_being_launched() -> None:
    async def main() -> None:
        world = a_world(CHEAP, max_instances=1)
        await world.start()
        await world.want(a_gang("first"), a_gang("second"))
        await world.until(lambda: "first" in world.host.placed or "second" in world.host.placed)
        (refusal,) = [x for x in world.store.journal() if x["kind"] == "refused"]
        assert (refusal["stands"], refusal["runs"], refusal["slots"]) == (True, 1, 4)
        assert "max_instances (1)" in refusal["reason"]
        (weighed,) = refusal["alternatives"]
        assert weighed["why_not"] == "the pool is at max_instances (1)"
        await world.stop()

    run(main())


def test_a_restart_between_intent_and_answer_adds_nothing() -> None:
    async def main() -> None:
        world = a_world(CHEAP)
        world.cloud.faults.lost_replies = 1
        await world.start()
        await world.want(a_gang("run"))
        await world.until(lambda: world.store.intents)
        await world.crash()
        (before,) = world.store.journal()
        assert (before["kind"], before["is_open"], len(before["launches"])) == ("launched", True, 1)
        assert before["launches"] == list(world.store.intents), "in one commit"
        await world.start()
        await world.until(lambda: "run" in world.host.placed)
        launches = [x for x in world.store.journal() if x["kind"] == "launched"]
        assert [(x["id"], x["instances"], x["is_open"]) for x in launches] == [
            (before["id"], world.living(), False)
        ]
        await world.stop()

    run(main())


def test_a_commit_that_fails_tells_nothing_twice() -> None:
    async def main() -> None:
        world = a_world(CHEAP)
        await world.start()
        world.store.fails = True
        await world.want(a_gang("run"))
        await asyncio.sleep(30)
        assert (world.store.journal(), world.living()) == ([], [])
        world.store.fails = False
        await world.until(lambda: "run" in world.host.placed)
        assert told(world) == [("launched", "cheap", 1)]
        await world.stop()

    run(main())


def test_machines_that_a_pool_keeps_ready_are_launched_for_nobody() -> None:
    async def main() -> None:
        world = a_world(CHEAP, min_instances=2)
        await world.start()
        await world.until(lambda: len(world.living()) == 2)
        await asyncio.sleep(120)
        (entry,) = [decision_from_document(each) for each in world.store.journal()]
        assert entry.reason == "launching 2 x cheap in a for machines that the pool keeps ready"
        assert (entry.runs, entry.machines, sorted(entry.instances)) == (
            0,
            2,
            sorted(world.living()),
        )
        assert not entry.is_open
        await world.stop()

    run(main())
