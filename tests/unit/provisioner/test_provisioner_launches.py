"""Launches that are answered late, repeated, refused in many ways, or not wanted any more; on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from master.core.reasons import ReasonKind
from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import LaunchIntent, LimitedCall
from provisioner.providers.errors import Refusal
from provisioner.types import Offer, PoolSettings, Scope
from tests.fakes.fleet_world import FleetWorld, a_gang, an_intent, an_offer
from tests.fakes.virtual_time import LoopClock, run

QUEUED = an_offer(4, 1.0, name="queued", queue_deadline_s=7200.0)
DEAR = an_offer(4, 9.0, name="dear")


def in_world(
    story: Callable[[FleetWorld], Awaitable[None]],
    offers: tuple[Offer, ...] = (QUEUED,),
    **settings: Any,
) -> None:
    async def main() -> None:
        keys = {"max_instances": 10, "max_idle_s": 120.0} | settings
        world = FleetWorld(LoopClock(), offers, settings=PoolSettings(pool="gpu", **keys))
        world.cloud.faults.queue_s = {QUEUED.key: 3000.0}
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=1_000_000)


async def queued(world: FleetWorld, *gangs: str) -> None:
    await world.want(*map(a_gang, gangs))
    await world.until(lambda: len(world.cloud.queue) == len(gangs))
    await asyncio.sleep(5)


@pytest.mark.slow
def test_a_launch_that_is_delivered_later_boots_and_costs_from_its_delivery() -> None:
    async def story(world: FleetWorld) -> None:
        await queued(world, "a")
        await world.until(lambda: "a" in world.host.placed)
        (machine,) = world.cloud.living()
        (view,) = world.provisioner.instances()
        assert machine.created_at - machine.intent.created_at >= 3000
        assert view.usd == pytest.approx(world.cloud.usd())
        assert world.cloud.calls.count("launch") == 1
        assert world.cloud.calls.count("answer") <= 3000 / 30 + 2
        world.host.finish("a")
        await world.until(lambda: not world.provisioner.instances())
        assert world.provisioner.cost().spent_usd == pytest.approx(world.cloud.usd(), rel=0.05)

    in_world(story)


def test_what_is_queued_says_why_and_until_when_and_costs_nothing() -> None:
    async def story(world: FleetWorld) -> None:
        await queued(world, "a")
        reason = world.host.reasons["a"]
        assert reason.kind is ReasonKind.QUEUED_AT_PROVIDER, "nothing is on its way yet"
        assert "1 x queued in a queued at cloud for" in reason.text
        assert "(Resources); expected to start at 2026-01-01 00:50 UTC" in reason.text
        assert reason.retry_at is not None
        (view,) = world.provisioner.instances()
        assert (view.state, view.usd) == ("accepted", 0.0)
        assert view.reason == "(Resources); expected to start at 2026-01-01 00:50 UTC"

    in_world(story)


@pytest.mark.slow
def test_a_queued_launch_survives_a_restart_and_is_not_asked_for_twice() -> None:
    async def story(world: FleetWorld) -> None:
        await queued(world, "a")
        await world.crash()
        world.cloud.faults.list_fails = True
        await world.start()
        await asyncio.sleep(60)
        assert world.states() == ["accepted"]
        world.cloud.faults.list_fails = False
        await world.until(lambda: "a" in world.host.placed)
        assert world.cloud.calls.count("launch") == 1
        assert len(world.cloud.instances) == 1

    in_world(story)


def test_an_accepted_launch_whose_reply_was_lost_is_found_in_the_list() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.lost_replies = 1
        await queued(world, "a")
        assert world.states() == ["accepted"]
        assert len(world.cloud.queue) == 1

    in_world(story)


def test_a_queued_launch_that_nobody_knows_is_adopted_or_cancelled() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.launch_now(an_intent(QUEUED, 1, generation=99))
        await world.until(lambda: "cancel" in world.cloud.calls)
        assert not world.cloud.queue
        await world.until(lambda: not world.provisioner.instances())

    in_world(story)


def test_queued_launches_are_cancelled_first_when_demand_falls() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("up"))
        world.cloud.faults.queue_s = {}
        await world.until(lambda: "up" in world.host.placed)
        world.cloud.faults.queue_s = {QUEUED.key: 3000.0}
        await queued(world, "a")
        await world.want(a_gang("b"))
        await world.until(lambda: len(world.cloud.queue) == 2)
        world.host.finish("up")
        world.host.finish("b")
        await world.until(lambda: not world.cloud.queue, limit_s=30)
        assert "a" in world.host.placed
        assert "terminate" not in world.cloud.calls

    in_world(story)


def test_a_cancellation_is_repeated_until_the_provider_agrees_even_after_a_crash() -> None:
    async def story(world: FleetWorld) -> None:
        await queued(world, "a")
        world.cloud.faults.cancel_failures = 3
        world.host.finish("a")
        await world.until(lambda: "cancel" in world.cloud.calls)
        assert world.states() == ["cancelling"]
        await world.crash()
        await world.start()
        await world.until(lambda: not world.provisioner.instances())
        assert not world.cloud.queue
        assert not world.cloud.instances

    in_world(story)


def test_a_group_that_is_delivered_while_it_is_cancelled_leaves_no_machine() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a", 8))
        await world.until(lambda: len(world.cloud.queue) == 1)
        world.cloud.faults.cancel_failures = 1
        world.cloud.faults.queue_s = {}
        world.host.finish("a")
        await world.until(lambda: "cancel" in world.cloud.calls)
        ((handle, (intent, _)),) = world.cloud.queue.items()
        world.cloud.queue[handle] = (intent, 0.0)
        world.cloud.deliver_due()
        assert len(world.cloud.living()) == 2
        await world.until(lambda: not world.living() and not world.provisioner.instances())

    in_world(story)


@pytest.mark.slow
def test_what_is_not_delivered_by_its_deadline_is_cancelled_and_the_offer_spared() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.queue_s = {QUEUED.key: 100_000.0}
        await queued(world, "a")
        await world.until(lambda: "a" in world.host.placed, limit_s=10_000)
        (machine,) = world.cloud.instances.values()
        assert machine.intent.offer.key == DEAR.key
        assert world.clock.now().timestamp() - machine.created_at < 200
        (blocked,) = world.provisioner.blocked_offers()
        assert blocked.offer == QUEUED.key
        assert "not delivered within 7200 s: (Resources)" in blocked.reason
        assert not world.cloud.queue

    in_world(story, offers=(QUEUED, DEAR), on_demand_after_s=10_000.0)


def test_a_refusal_that_comes_late_is_a_refusal() -> None:
    async def story(world: FleetWorld) -> None:
        await queued(world, "a")
        world.cloud.faults.refuse = {QUEUED.key: Refusal(BlockKind.QUOTA, "0 of 0", quota="GPUS")}
        await world.until(lambda: "a" in world.host.placed)
        assert {i.intent.offer.key for i in world.cloud.instances.values()} == {DEAR.key}

    in_world(story, offers=(QUEUED, DEAR))


def test_closing_for_good_cancels_what_is_queued() -> None:
    async def story(world: FleetWorld) -> None:
        await queued(world, "a")
        await world.provisioner.shutdown(terminate=True)
        assert not world.cloud.queue
        assert not world.provisioner.instances()

    in_world(story)


def test_a_repetition_after_a_changed_configuration_is_the_same_call() -> None:
    async def story(world: FleetWorld) -> None:
        calls: list[LaunchIntent] = []
        launch_now = world.cloud.launch_now

        def noted(intent: LaunchIntent) -> Any:
            calls.append(intent)
            return launch_now(intent)

        world.cloud.launch_now = noted  # type: ignore[method-assign]
        world.cloud.faults.unanswered = 1
        await world.want(a_gang("a"))
        await world.until(lambda: calls)
        await world.crash()
        world.cloud.settings = "v2"
        world.cloud.sold = [replace(DEAR, usd_per_hour=1.0)]
        await world.start()
        await world.until(lambda: "a" in world.host.placed)
        assert len(calls) > 1
        assert all(call == calls[0] for call in calls)
        assert calls[0].request == {"settings": "v1"}
        assert len(world.cloud.instances) == 1

    in_world(story, offers=(DEAR,))


def test_r2_a_spent_token_is_replaced_after_a_list_that_shows_nothing() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.spent_tokens = 1
        await world.want(a_gang("a"))
        await world.until(lambda: "launch" in world.cloud.calls)
        await asyncio.sleep(30)
        assert world.cloud.calls.count("launch") == 1, "a list may still be behind"
        await world.until(lambda: "a" in world.host.placed)
        assert world.cloud.calls.count("launch") == 2
        assert len(world.cloud.instances) == 1
        assert not world.provisioner.blocked_offers()

    in_world(story, offers=(DEAR,))


def test_r2_a_spent_token_that_nobody_waited_for_keeps_nobody_waiting() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.spent_tokens = 1
        await world.want(a_gang("a"))
        await asyncio.sleep(20)
        world.host.finish("a")
        await asyncio.sleep(10)
        await world.want(a_gang("b"))
        await world.until(lambda: "b" in world.host.placed)
        assert len(world.cloud.instances) == 1

    in_world(story, offers=(DEAR,), max_instances=1)


def test_r2_machines_that_a_spent_token_made_are_taken_from_the_list() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.lost_replies = 1
        world.cloud.faults.list_fails = True
        await world.crash()
        world.cloud.faults.list_fails = False
        await world.start()
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.instances)
        world.cloud.faults.spent_tokens = 10
        await world.until(lambda: "a" in world.host.placed)
        assert len(world.cloud.instances) == 1

    in_world(story, offers=(DEAR,))


def test_r11_throttled_calls_wait_and_block_no_offer() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.throttle = {LimitedCall.LAUNCH: 6}
        await world.want(a_gang("a"))
        await asyncio.sleep(20)
        assert not world.provisioner.blocked_offers()
        assert "RequestLimitExceeded" in world.host.reasons["a"].text
        assert 2 <= world.cloud.calls.count("launch") <= 5
        await world.until(lambda: "a" in world.host.placed)
        assert len(world.cloud.instances) == 1

    in_world(story, offers=(DEAR,))


def test_a_throttled_launch_that_nobody_waits_for_any_more_is_withdrawn() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.throttle = {LimitedCall.LAUNCH: 1_000}
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.calls.count("launch") == 2)
        world.host.finish("a")
        await world.until(lambda: not world.provisioner.instances(), limit_s=30)
        calls = world.cloud.calls.count("launch")
        await world.crash()
        world.cloud.faults.throttle = {}
        await world.start()
        await asyncio.sleep(300)
        assert world.cloud.calls.count("launch") == calls, "not after a restart either"
        assert not world.cloud.instances

    in_world(story, offers=(DEAR,))


def test_a_launch_that_is_held_back_is_withdrawn_unasked() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.throttle = {LimitedCall.LAUNCH: 1}
        await world.want(a_gang("a"))
        await world.until(lambda: "launch" in world.cloud.calls)
        await world.want(a_gang("b"))  # written down, and held back with the other
        await world.until(lambda: len(world.provisioner.instances()) == 2)
        world.host.finish("b")
        await world.until(lambda: "a" in world.host.placed)
        await asyncio.sleep(30)
        assert len(world.cloud.instances) == 1

    in_world(story, offers=(DEAR,))


def test_a_launch_in_doubt_is_asked_for_until_it_is_answered_though_nobody_waits() -> None:
    """Its machine may exist: only an answer or a list ends that."""

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.lost_replies = 1
        world.cloud.faults.hide_young_s = 60.0
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.instances)
        world.host.finish("a")
        await world.until(lambda: world.cloud.calls.count("launch") == 2, limit_s=30)
        await world.until(lambda: not world.cloud.living(), limit_s=1000)
        assert len(world.cloud.instances) == 1

    in_world(story, offers=(DEAR,))


def test_r11_a_throttled_list_is_stale_and_not_empty() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        lists = world.cloud.calls.count("list")
        world.cloud.faults.throttle = {LimitedCall.LIST: 1_000}
        await asyncio.sleep(600)
        assert not world.host.gone
        assert world.cloud.calls.count("list") - lists < 25, "ever slower, up to a minute"

    in_world(story, offers=(DEAR,))


OTHER_ZONE = an_offer(4, 2.0, zone="b", name="dear", family="g")
HERE = replace(an_offer(4, 1.0, zone="a", name="dear", family="g"))
SCOPED = {
    "a quota of the family": (
        Refusal(
            BlockKind.QUOTA,
            "VcpuLimitExceeded",
            scope=Scope(provider="cloud", family="g"),
            quota="L-DB2E81BA",
            number=8,
        ),
        0,
    ),
    "a stock-out of the zone": (Refusal(BlockKind.CAPACITY, "ICE"), 1),
    "wrong credentials": (Refusal(BlockKind.AUTH, "ExpiredToken"), 0),
}


@pytest.mark.parametrize("case", SCOPED)
def test_r7_a_refusal_counts_for_what_it_is_true_for(case: str) -> None:
    error, machines = SCOPED[case]

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.refuse = {HERE.key: error}
        await world.want(a_gang("a"))
        await asyncio.sleep(50)
        assert len(world.cloud.instances) == machines
        assert world.cloud.calls.count("launch") == 1 + machines

    in_world(story, offers=(HERE, OTHER_ZONE))


def test_a_transient_error_repeats_the_same_call_and_blocks_nothing() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.refuse = {DEAR.key: Refusal(BlockKind.TRANSIENT, "InternalError")}
        await world.want(a_gang("a"))
        await asyncio.sleep(300)
        assert not world.provisioner.blocked_offers()
        assert len({view.id for view in world.provisioner.instances()}) == 1
        assert 8 <= world.cloud.calls.count("launch") <= 20, "1 s, times 2, up to 30 s"
        world.cloud.faults.refuse = {}
        await world.until(lambda: "a" in world.host.placed)

    in_world(story, offers=(DEAR,))
