"""The rules of elasticity that hold from the start, one test each, on the real provisioner in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from master.core.reasons import ReasonKind
from provisioner.fleet.instances import LOST_AFTER_S, ORPHAN_GRACE_S
from provisioner.money.prices import usd_for
from provisioner.providers.base import LaunchAnswer, LaunchIntent
from tests.fakes.fleet_world import FleetWorld, a_gang, an_intent, an_offer
from tests.fakes.played_fleet import in_world
from tests.fakes.simulated_provider import Faults
from windlass.base.errors import ProviderError, QuotaError


def test_from_waiting_gang_to_machine_and_back_to_nothing() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a", 8))
        await world.until(lambda: "a" in world.host.placed)
        assert len(world.living()) == 2
        world.host.finish("a")
        await world.until(lambda: not world.living())
        await world.until(lambda: not world.provisioner.instances())
        assert "idle for" in next(iter(world.host.gone.values()))
        cost = world.provisioner.cost()
        assert cost.peak_instances == 2
        assert cost.spent_usd == pytest.approx(world.cloud.usd(), rel=0.1)
        assert cost.spent_usd >= world.cloud.usd() - 1e-9
        assert cost.always_on_usd >= cost.spent_usd

    in_world(story)


def test_r1_the_intent_is_committed_before_the_call() -> None:
    async def story(world: FleetWorld) -> None:
        launch_now = world.cloud.launch_now

        def checked(intent: LaunchIntent) -> LaunchAnswer:
            assert world.store.knows_intent(intent.intent_id)
            return launch_now(intent)

        world.cloud.launch_now = checked  # type: ignore[method-assign]
        await world.want(a_gang("a"), a_gang("b"))
        await world.until(lambda: {"a", "b"} <= set(world.host.placed))

    in_world(story)


def test_r1_nothing_is_asked_for_when_the_commit_fails() -> None:
    async def story(world: FleetWorld) -> None:
        await world.until(lambda: "list" in world.cloud.calls)
        world.store.fails = True
        await world.want(a_gang("a"))
        await asyncio.sleep(60)
        assert "launch" not in world.cloud.calls
        world.store.fails = False
        await world.until(lambda: "a" in world.host.placed)

    in_world(story)


@pytest.mark.parametrize("fault", ["lost_replies", "unanswered"])
def test_r1_a_launch_without_reply_is_repeated_with_the_same_token(fault: str) -> None:
    async def story(world: FleetWorld) -> None:
        setattr(world.cloud.faults, fault, 1)
        await world.want(a_gang("a", 16))
        await world.until(lambda: "a" in world.host.placed)
        assert len(world.cloud.instances) == 4

    in_world(story)


@pytest.mark.parametrize("before_the_call", [True, False])
def test_r1_a_crash_around_the_call_makes_no_second_machine(before_the_call: bool) -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.hang = {"launch"} if before_the_call else set()
        world.cloud.faults.lost_replies = 1
        await world.want(a_gang("a", 16))
        await world.until(lambda: "launch" in world.cloud.calls)
        await world.crash()
        world.cloud.faults.hang.clear()
        await world.start()
        await world.until(lambda: "a" in world.host.placed)
        assert len(world.cloud.instances) == 4

    in_world(story)


def test_r3_machines_are_found_by_the_tags_of_their_launch() -> None:
    """The book is lost: what another generation launched is adopted by its tags, with the price of its offer."""

    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        await world.crash()
        world.store.__init__()  # type: ignore[misc]
        await world.start()
        await world.until(lambda: world.states() == ["ready"])
        (view,) = world.provisioner.instances()
        assert (view.pool, view.slots, view.usd_per_hour) == ("gpu", 4, 4.0)
        world.host.finish("a")
        await world.until(lambda: not world.living())

    in_world(story)


def test_r4_young_machines_missing_from_lists_are_not_gone() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.hide_young_s = 55.0
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        assert len(world.cloud.instances) == 1
        assert not world.host.gone

    in_world(story)


def test_lists_that_fail_after_one_missed_a_young_machine_end_nothing() -> None:
    """What was believed gone came back as nobody's, and was booked twice."""

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.hide_young_s = 55.0
        world.cloud.faults.never_boot = {an_offer().key}
        await world.want(a_gang("a"))
        await asyncio.sleep(54.0)
        world.cloud.faults.list_fails = True
        await asyncio.sleep(30.0)
        assert not world.host.gone
        world.cloud.faults = Faults()
        world.cloud.boot_due()
        await world.until(lambda: "a" in world.host.placed)
        world.host.finish("a")
        await world.until(lambda: not world.provisioner.instances())
        (machine,) = world.cloud.instances.values()
        assert machine.ended_at is not None
        paid = world.cloud.usd()
        assert paid <= world.provisioner.cost().spent_usd <= paid + usd_for(4.0, 10.0)

    in_world(story)


def test_r4_a_machine_that_vanished_is_gone_after_two_lists() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        (first,) = world.living()
        await asyncio.sleep(60)
        world.cloud.kill(first)
        await world.until(lambda: first in world.host.gone, limit_s=10)
        await world.until(lambda: "a" in world.host.placed)
        assert first not in world.living()

    in_world(story)


def test_r4_strays_of_our_generation_go_and_those_with_work_are_adopted() -> None:
    async def story(world: FleetWorld) -> None:
        lonely, working = world.cloud.add_stray(an_intent(an_offer(), 2))
        world.host.sizes[working] = 4
        world.host.placed["x"] = {working: 4}
        world.provisioner.note_agent(working, True)
        await asyncio.sleep(ORPHAN_GRACE_S - 5)
        assert lonely in world.living()
        await world.until(lambda: lonely not in world.living(), limit_s=30)
        await asyncio.sleep(300)
        assert world.living() == [working]
        assert world.states() == ["ready"]

    in_world(story)


def test_r4_machines_of_another_generation_are_adopted_not_killed() -> None:
    async def story(world: FleetWorld) -> None:
        theirs = an_offer(boot_s=200.0)
        (machine,) = world.cloud.add_stray(an_intent(theirs, 1, generation=99))
        await asyncio.sleep(ORPHAN_GRACE_S + 60)
        assert world.living() == [machine]
        await world.want(a_gang("a"))
        await asyncio.sleep(100)
        world.cloud.boot_due()
        await world.until(lambda: "a" in world.host.placed)
        assert set(world.cloud.instances) == {machine}

    in_world(story, offers=[an_offer(boot_s=200.0)])


def test_r10_r25_a_hanging_call_stops_nothing_but_itself() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.hang = {"launch"}
        await world.want(a_gang("slow"))
        await world.until(lambda: "launch" in world.cloud.calls)
        lists = world.cloud.calls.count("list")
        await world.want(a_gang("late"))
        await asyncio.sleep(10)
        assert world.cloud.calls.count("list") > lists
        assert "late" in world.host.reasons
        world.cloud.faults.hang = set()
        await world.until(lambda: {"slow", "late"} <= set(world.host.placed))
        assert len(world.cloud.instances) == 2

    in_world(story)


def test_r12_a_failed_list_ends_nothing_and_launches_nothing() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        world.cloud.faults.list_fails = True
        await asyncio.sleep(300)
        assert not world.host.gone
        await world.want(a_gang("b"))
        await asyncio.sleep(30)
        assert len(world.cloud.instances) == 1
        assert "list failed" in world.host.reasons["b"].text
        world.cloud.faults.list_fails = False
        await world.until(lambda: "b" in world.host.placed)

    in_world(story)


def test_r13_no_second_launch_in_a_hundred_turns_of_booting() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(*(a_gang(f"g{i}", slots) for i, slots in enumerate((3, 3, 2, 5, 8, 1))))
        await world.until(lambda: len(world.cloud.instances) > 0)
        bought = len(world.cloud.instances)
        await asyncio.sleep(220)  # more than a hundred turns
        assert len(world.cloud.instances) == bought
        assert world.cloud.calls.count("list") >= 100
        assert {r.kind for r in world.host.reasons.values()} == {ReasonKind.LAUNCHING}
        (text,) = {r.text for r in world.host.reasons.values() if r is world.host.reasons["g5"]}
        assert "booting for" in text

    in_world(story, offers=[an_offer(8, 8.0, boot_s=280.0), an_offer(5, 6.0, boot_s=280.0)])


@pytest.mark.slow
def test_r14_three_failed_boots_in_a_row_quarantine_the_offer() -> None:
    bad, good = an_offer(4, 1.0, zone="bad"), an_offer(4, 2.0, zone="good")

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.never_boot = {bad.key}
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        launched = [i.intent.offer.key.zone for i in world.cloud.instances.values()]
        assert launched == ["bad", "bad", "bad", "good"]
        await world.until(lambda: len(world.living()) == 1)

    in_world(story, offers=[bad, good])


@pytest.mark.slow
def test_r14_a_boot_that_never_joins_says_where_it_stopped_and_what_its_console_says() -> None:
    bad = an_offer(4, 1.0, zone="bad")

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.never_boot = {bad.key}
        await world.want(a_gang("a"))
        await world.until(world.living)
        (first,) = world.living()
        world.cloud.consoles[first] = "kernel panic"
        await world.until(lambda: first in {x.id for x in world.provisioner.instances()})
        world.provisioner.note_boot(first, "installing windlass", failed=False)
        (view,) = world.provisioner.instances()
        assert view.reason == "boot: installing windlass"

        await world.until(lambda: "kernel panic" in world.host.reasons["a"].text)
        said = world.host.reasons["a"]
        assert said.kind is ReasonKind.LAUNCHING
        assert "; the last of its kind: no agent connected within" in said.text
        assert "the last it said: installing windlass; its console ends with: kernel" in said.text
        await world.crash()
        await world.start()
        await world.until(lambda: world.host.reasons["a"].kind is ReasonKind.NO_CAPACITY)
        assert len(world.cloud.instances) == 3
        assert world.cloud.calls.count("console") == 3, "each is asked once"

        world.cloud.faults.never_boot = set()
        await world.until(lambda: "a" in world.host.placed, limit_s=7200)
        await world.until(lambda: not world.provisioner._state.memory.last_failed_boot(bad))

    in_world(story, offers=[bad])


def test_r14_a_console_that_hangs_hinders_no_end() -> None:
    bad = an_offer(4, 1.0, zone="bad")

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.never_boot = {bad.key}
        world.cloud.faults.hang = {"console"}
        await world.want(a_gang("a"))
        await world.until(lambda: len(world.cloud.instances) == 1)
        world.host.finish("a")
        await world.until(lambda: not world.living())

    in_world(story, offers=[bad])


@pytest.mark.slow
def test_r15_a_node_with_work_is_not_ended_and_an_end_is_repeated_until_confirmed() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.terminate_failures = 3
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        await asyncio.sleep(600)
        assert "terminate" not in world.cloud.calls
        world.host.finish("a")
        await world.until(lambda: "terminating" in world.states())
        await asyncio.sleep(30)
        assert world.states() == ["terminating"]  # it is on the bill, so it is on the screen
        await world.until(lambda: not world.provisioner.instances(), limit_s=300)
        assert world.cloud.calls.count("terminate") == 4
        assert not world.living()

    in_world(story)


def test_r15_work_that_arrives_first_wins_over_the_cordon() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        (machine,) = world.living()
        world.host.finish("a")
        world.host.cordon = lambda agent_id: False  # type: ignore[method-assign]
        await asyncio.sleep(600)
        assert world.living() == [machine]
        assert world.states() == ["ready"]

    in_world(story)


@pytest.mark.slow
def test_r16_when_every_agent_falls_silent_at_most_three_machines_go_in_ten_minutes() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(*(a_gang(f"g{i}") for i in range(10)))
        await world.until(lambda: len(world.host.placed) == 10)
        world.host.placed.clear()  # the resource manager gave the work up
        world.host.schedules = False
        for agent_id in list(world.host.sizes):
            world.go_silent(agent_id)
        await asyncio.sleep(LOST_AFTER_S + 300)
        assert len(world.living()) == 7
        assert any("too many at once" in view.reason for view in world.provisioner.instances())
        survivors = world.living()
        for agent_id in survivors:
            world.come_back(agent_id)
        await asyncio.sleep(60)
        assert world.living() == survivors
        assert world.states() == ["ready"] * 7

    in_world(story, max_idle_s=100_000.0)


def test_r24_an_idle_node_that_the_plan_counts_on_is_kept() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        (machine,) = world.living()
        world.host.schedules = (
            False  # the scheduler is slow: the gang waits although the node is free
        )
        world.host.finish("a")
        await world.want(a_gang("b"))
        await asyncio.sleep(600)
        assert world.living() == [machine]
        assert world.host.reasons["b"].kind is ReasonKind.QUEUED
        world.host.finish("b")
        await world.until(lambda: not world.living())

    in_world(story)


@pytest.mark.slow
def test_stock_outs_are_waited_out_and_named() -> None:
    a, b = an_offer(4, 1.0, zone="a"), an_offer(4, 2.0, zone="b")

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.stock_out = {a.key, b.key}
        await world.want(a_gang("x"))
        await asyncio.sleep(60)
        assert world.cloud.calls.count("launch") == 2
        reason = world.host.reasons["x"]
        assert reason.kind is ReasonKind.NO_CAPACITY
        assert "gpu-4 in a" in reason.text
        assert "gpu-4 in b" in reason.text
        assert reason.retry_at is not None
        await asyncio.sleep(1200)
        assert world.cloud.calls.count("launch") <= 12
        world.cloud.faults.stock_out = {a.key}
        await world.until(lambda: "x" in world.host.placed)

    in_world(story, offers=[a, b])


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (QuotaError("8 vCPUs allowed"), ReasonKind.QUOTA, "8 vCPUs allowed"),
        (ProviderError("Flux capacitor"), ReasonKind.NO_CAPACITY, "Flux capacitor"),
        (RuntimeError("bug"), ReasonKind.NO_CAPACITY, "bug"),
    ],
)
def test_refusals_reach_the_gang_verbatim(error: Exception, kind: ReasonKind, text: str) -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.refuse[an_offer().key] = error
        await world.want(a_gang("x"))
        await asyncio.sleep(20)
        assert world.host.reasons["x"].kind is kind
        assert text in world.host.reasons["x"].text
        assert world.cloud.calls.count("launch") == 1

    in_world(story)


@pytest.mark.parametrize("running", [True, False])
def test_shutdown_ends_everything_even_what_works(running: bool) -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"), a_gang("b"))
        await world.until(lambda: len(world.host.placed) == 2)
        await world.want(a_gang("c"))
        if not running:
            await world.crash()
        await world.provisioner.shutdown(terminate=True)
        assert not world.living()
        assert not world.provisioner.instances()

    in_world(story)


@pytest.mark.parametrize("crashed", [False, True])
def test_shutdown_waits_for_what_an_unanswered_launch_may_have_made(crashed: bool) -> None:
    """A list shows a young machine late: one that came of the last repetition ran on with nobody to end it."""

    async def story(world: FleetWorld) -> None:
        world.cloud.faults = Faults(unanswered=100, hide_young_s=55.0)
        await world.want(a_gang("a"))
        await asyncio.sleep(50.0)
        world.cloud.faults.unanswered = 0
        world.cloud.faults.lost_replies = 1
        await world.until(world.living, limit_s=60)
        await asyncio.sleep(0.1)
        if crashed:
            await world.crash()
            await world.start()
        await world.provisioner.shutdown(terminate=True)
        assert not world.living()

    in_world(story)


def test_r9_a_recovering_offer_is_probed_by_one_call_at_a_time() -> None:
    async def story(world: FleetWorld) -> None:
        offer = an_offer()
        world.cloud.faults.stock_out = {offer.key}
        await world.want(*(a_gang(f"g{i}", 8) for i in range(4)))
        await world.until(lambda: "launch" in world.cloud.calls)
        await asyncio.sleep(10)
        world.cloud.faults.hang = {"launch"}
        world.cloud.calls.clear()
        await asyncio.sleep(130)  # the block is over, the probe hangs
        probes = world.cloud.calls.count("launch")
        tokens = {view.id.split("/")[0] for view in world.provisioner.instances()}
        assert probes >= 1
        assert len(tokens) == 1
        world.cloud.faults = type(world.cloud.faults)()
        await world.until(lambda: len(world.host.placed) == 4)

    in_world(story)
