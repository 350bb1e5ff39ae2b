"""Machines that are given up although work runs there: case by case, and what holds for every pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.machines import Requirements
from master.core.scheduler.types import Request, Running
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.money.budgets import Budget
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.planning.scale_down.consolidation import DRIFTED
from provisioner.planning.scale_down.disruption import Disruption
from provisioner.types import Market, Node, Offer, PoolDemand, PoolSettings
from tests.examples import examples
from tests.fakes.fleet_world import a_gang, an_offer

NOW = 20 * 86400.0 + 12 * 3600.0  # noon
FOUR, EIGHT = an_offer(4, 4.0), an_offer(8, 8.0)
SPOT = an_offer(4, 2.0, market=Market.SPOT)
NO_SPOT = Requirements(markets=frozenset({Market.ON_DEMAND}))
ALL = Disruption(packing=True, replacement=True, drift=True, share=1.0)
PACKING = Disruption(packing=True, share=1.0)
REPLACEMENT = Disruption(replacement=True, share=1.0)
DRIFT = Disruption(drift=True, share=1.0)


@dataclass(frozen=True)
class Box:
    """One machine, and the slots of each run on it."""

    name: str
    offer: Offer
    runs: tuple[int, ...] = ()
    more: tuple[tuple[str, Any], ...] = ()


def box(name: str, offer: Offer, *runs: int, **more: Any) -> Box:
    return Box(name, offer, runs, tuple(more.items()))


def a_run(id_: str, slots: int, where: str, **more: Any) -> Running:
    asked = {
        key: more.pop(key) for key in ("preemptible", "requires", "blocked_agents") if key in more
    }
    values: dict[str, Any] = {
        "placement": {where: slots},
        "started": NOW - 7200.0,
        "last_checkpoint": NOW - 60.0,
        "expected_end": NOW + 4 * 3600.0,
    }
    request = Request(id=id_, job_id=f"job-{id_}", slots=slots, requested=0.0, **asked)
    return Running(request=request, **(values | more))


def planned(
    boxes: Sequence[Box],
    rules: Disruption = ALL,
    *,
    offers: tuple[Offer, ...] = (FOUR, EIGHT),
    run: dict[str, Any] | None = None,
    waiting: bool = False,
    memory: CapacityMemory | None = None,
    fingerprints: dict[Any, str] | None = None,
    **limits: Any,
) -> Plan:
    machines, nodes, running = [], [], []
    for each in boxes:
        used = sum(each.runs)
        more: dict[str, Any] = {"age_s": 9000.0, **dict(each.more)}
        idle_s = more.pop("idle_s", 10.0)
        machines.append(
            Machine(
                name=each.name,
                offer=each.offer,
                phase=more.pop("phase", MachinePhase.UP),
                idle_s=None if each.runs else idle_s,
                **more,
            )
        )
        nodes.append(
            Node(
                agent_id=each.name,
                pool="gpu",
                slots=each.offer.slots,
                free_slots=each.offer.slots - used,
                busy=bool(each.runs),
            )
        )
        running += [
            a_run(f"{each.name}-{n}", slots, each.name, **(run or {}))
            for n, slots in enumerate(each.runs)
        ]
    up = {m.name for m in machines if m.phase is MachinePhase.UP}
    pool = PoolInput(
        settings=PoolSettings(pool="gpu", disruption=rules, **({"max_instances": 100} | limits)),
        offers=offers,
        demand=PoolDemand(
            pool="gpu",
            nodes=tuple(n for n in nodes if n.agent_id in up),
            has_waiting=waiting,
        ),
        machines=tuple(machines),
        running=tuple(running),
        fingerprints=fingerprints or {},
    )
    return plan(PlanInput(now=NOW, pools=(pool,), memory=memory or CapacityMemory()))


def moved(decision: Plan) -> list[str]:
    return sorted(move.instance_id for move in decision.moves)


HALF_EMPTY = (box("a", FOUR, 1), box("b", FOUR, 2))


def test_a_machine_whose_work_fits_on_another_is_given_up() -> None:
    decision = planned(HALF_EMPTY, PACKING)
    (move,) = decision.moves
    assert move.instance_id == "a"  # the dearest for what it does
    assert move.requests == {"a-0"}
    assert move.why == "packing: its work fits on b, 4.00 USD/h less"


def test_nothing_is_disrupted_by_default() -> None:
    assert not planned(HALF_EMPTY, Disruption()).moves


@pytest.mark.parametrize(
    "run",
    [
        {"preemptible": False},
        {"releasing": True},
        {"started": NOW - 60.0},
        {"last_checkpoint": None},
        {"last_checkpoint": NOW - 5000.0},
        {"expected_end": NOW + 100.0},  # it ends soon anyway
        {"blocked_agents": frozenset({"a", "b"})},
        {"requires": Requirements(gpu_models=frozenset({"H100"}))},
    ],
)
def test_work_stays_that_cannot_leave_or_would_lose_more_than_that_saves(
    run: dict[str, Any],
) -> None:
    assert not planned(HALF_EMPTY, PACKING, run=run).moves


@pytest.mark.parametrize(
    "more",
    [
        {"waiting": True},
        {"min_instances": 2},
        {"rules": Disruption(packing=True, share=1.0, hours=("00:00-01:00",))},
        {"rules": Disruption(packing=True, share=1.0, hours=("22:00-06:00",))},
    ],
)
def test_a_pool_packs_only_when_it_may(more: dict[str, Any]) -> None:
    assert not planned(HALF_EMPTY, **({"rules": PACKING} | more)).moves


@pytest.mark.parametrize("hours", ["11:00-13:00", "22:00-12:30"])
def test_hours_may_pass_midnight(hours: str) -> None:
    rules = Disruption(packing=True, share=1.0, hours=(hours,))
    assert moved(planned(HALF_EMPTY, rules)) == ["a"]


def test_work_does_not_move_to_a_machine_that_would_go_by_itself() -> None:
    assert not planned((box("a", FOUR, 1), box("idle", FOUR)), PACKING).moves


def test_full_machines_are_left_alone() -> None:
    assert not planned((box("a", FOUR, 3), box("b", EIGHT, 4)), PACKING).moves


def test_a_gang_over_machines_is_left_alone() -> None:
    both = Running(
        request=Request(id="g", job_id="g", slots=2, requested=0.0),
        placement={"a": 1, "b": 1},
        started=NOW - 7200.0,
        last_checkpoint=NOW,
        expected_end=NOW + 9999.0,
    )
    state = PoolInput(
        settings=PoolSettings(pool="gpu", disruption=PACKING),
        offers=(FOUR,),
        demand=PoolDemand(
            pool="gpu",
            nodes=tuple(
                Node(agent_id=name, pool="gpu", slots=4, free_slots=3, busy=True) for name in "ab"
            ),
        ),
        machines=tuple(Machine(name=name, offer=FOUR, phase=MachinePhase.UP) for name in "ab"),
        running=(both,),
    )
    assert not plan(PlanInput(now=NOW, pools=(state,))).moves


def test_what_the_planner_does_not_know_of_keeps_a_machine() -> None:
    """The nodes are older than what runs: something has just started, or ended."""
    decision = planned((replace(HALF_EMPTY[0], more=(("age_s", 1.0),)), HALF_EMPTY[1]), PACKING)
    assert moved(decision) == ["a"]
    a, b = HALF_EMPTY
    state = PoolInput(
        settings=PoolSettings(pool="gpu", disruption=PACKING),
        offers=(FOUR,),
        demand=PoolDemand(
            pool="gpu",
            nodes=tuple(
                Node(agent_id=x.name, pool="gpu", slots=4, free_slots=1, busy=True) for x in (a, b)
            ),
        ),
        machines=tuple(Machine(name=x.name, offer=FOUR, phase=MachinePhase.UP) for x in (a, b)),
        running=(a_run("a-0", 1, "a"), a_run("b-0", 2, "b")),
    )
    assert not plan(PlanInput(now=NOW, pools=(state,))).moves


@pytest.mark.parametrize(("share", "most"), [(0.0, 1), (0.1, 1), (0.2, 2), (0.5, 5)])
def test_no_more_at_once_than_the_share_allows(share: float, most: int) -> None:
    boxes = [box(f"m{n}", FOUR, 1) for n in range(10)]
    assert len(planned(boxes, PACKING.model_copy(update={"share": share})).moves) == most


def test_those_under_way_count() -> None:
    boxes = [
        *(box(f"m{n}", FOUR, 1) for n in range(9)),
        box("x", FOUR, 1, moving=True, phase=MachinePhase.OUT),
    ]
    assert not planned(boxes, PACKING.model_copy(update={"share": 0.1})).moves
    assert len(planned(boxes, PACKING.model_copy(update={"share": 0.2})).moves) == 1


def test_an_idle_machine_that_is_cheaper_takes_over() -> None:
    decision = planned((box("dear", FOUR, 3), box("spot", SPOT)), REPLACEMENT)
    (move,) = decision.moves
    assert (move.instance_id, move.why) == (
        "dear",
        "replacement: spot costs 2.00 USD/h less",
    )


def test_a_cheaper_machine_is_launched_before_anything_moves() -> None:
    boxes = (box("dear", FOUR, 3),)
    decision = planned(boxes, REPLACEMENT, offers=(FOUR, SPOT))
    assert not decision.moves
    (launch,) = decision.launches
    assert (launch.offer, launch.replaces, launch.claims) == (SPOT, "dear", ((),))

    on_its_way = (*boxes, box("new", SPOT, replaces="dear", phase=MachinePhase.COMING))
    decision = planned(on_its_way, REPLACEMENT, offers=(FOUR, SPOT))
    assert not decision.moves
    assert not decision.launches

    up = (*boxes, box("new", SPOT, replaces="dear", idle_s=900.0))
    decision = planned(up, REPLACEMENT, offers=(FOUR, SPOT))
    assert moved(decision) == ["dear"]
    assert not decision.terminations


def test_a_machine_that_waits_for_another_ones_work_is_kept_for_a_while() -> None:
    late = {"last_checkpoint": NOW - 5000.0}
    boxes = (box("dear", FOUR, 3), box("new", SPOT, replaces="dear", idle_s=900.0))
    decision = planned(boxes, REPLACEMENT, run=late)
    assert decision.kept["new"] == ("the work of dear moves to it", NOW + 900.0)
    boxes = (box("dear", FOUR, 3), box("new", SPOT, replaces="dear", idle_s=1801.0))
    (end,) = planned(boxes, REPLACEMENT, run=late).terminations
    assert end.instance_id == "new"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"replacement_tried_s": 100.0}, "it was tried a moment ago"),
        ({"offers": (FOUR, an_offer(4, 1.6, market=Market.SPOT, boot_s=60.0, ends_at=NOW + 9))}, "it ends"),
        ({"offers": (FOUR, an_offer(4, 3.9, name="x"))}, "hardly cheaper"),
        ({"offers": (FOUR, an_offer(4, 3.2, market=Market.SPOT))}, "spot goes up and down"),
        ({"offers": (FOUR, an_offer(2, 1.0))}, "too small"),
        ({"offers": (FOUR, SPOT), "max_instances": 1}, "no place"),
        ({"offers": (FOUR, SPOT), "budget": Budget(usd_per_hour=5.0)}, "no money"),
        ({"offers": (FOUR, SPOT), "run": {"requires": NO_SPOT}}, "not allowed"),
        (
            {
                "offers": (FOUR, SPOT),
                "memory": CapacityMemory().refused(
                    scope_of(BlockKind.CAPACITY, SPOT), BlockKind.CAPACITY, "none", now=NOW
                ),
            },
            "refused",
        ),
    ],
)  # fmt: skip
def test_no_machine_is_launched_in_place_of_another_where(more: dict[str, Any], why: str) -> None:
    keys = {"offers": (FOUR, SPOT)} | more
    tried = keys.pop("replacement_tried_s", None)
    boxes = (box("dear", FOUR, 3, replacement_tried_s=tried),)
    assert not planned(boxes, REPLACEMENT, **keys).launches, why


def test_a_drifted_machine_hands_its_work_to_one_that_is_not() -> None:
    now = {FOUR.key: "new"}
    boxes = (box("old", FOUR, 2, fingerprint="old"), box("new", FOUR, 1, fingerprint="new"))
    (move,) = planned(boxes, DRIFT, fingerprints=now).moves
    assert (move.instance_id, move.why) == ("old", f"drift: {DRIFTED}")


def test_a_drifted_machine_gets_a_successor_first() -> None:
    now = {FOUR.key: "new"}
    old = box("old", FOUR, 2, fingerprint="old")
    (launch,) = planned((old,), DRIFT, fingerprints=now, offers=(FOUR,)).launches
    assert launch.replaces == "old"
    new = box("new", FOUR, fingerprint="new", replaces="old")
    assert moved(planned((old, new), DRIFT, fingerprints=now)) == ["old"]


def test_a_successor_that_has_drifted_itself_is_ended_and_blocks_no_other() -> None:
    """Settings change while it boots: nothing moves to it, so the next may be disrupted at once."""
    fleet = [
        box("old", FOUR, 4, fingerprint="v1", replacement_tried_s=60.0),
        box("new", FOUR, fingerprint="v2", replaces="old"),
    ]
    one = DRIFT.model_copy(update={"share": 0.5})
    decision = planned(fleet, one, fingerprints={FOUR.key: "v3"})
    assert [end.instance_id for end in decision.terminations] == ["new"]
    rest = [box("a", FOUR, 4, fingerprint="v1"), fleet[0]]
    decision = planned(rest, one, fingerprints={FOUR.key: "v3"})
    assert [launch.replaces for launch in decision.launches] == ["a"]


def test_a_drifted_machine_without_work_is_ended() -> None:
    now = {FOUR.key: "new"}
    old = box("old", FOUR, fingerprint="old")
    (end,) = planned((old,), DRIFT, fingerprints=now).terminations
    assert (end.instance_id, end.why) == ("old", f"drift: {DRIFTED}")
    decision = planned((old,), DRIFT, fingerprints=now, offers=(FOUR,), min_instances=1)
    assert not decision.terminations
    assert [launch.replaces for launch in decision.launches] == ["old"]


@pytest.mark.parametrize(("mine", "current"), [("", "new"), ("old", ""), ("new", "new")])
def test_a_machine_whose_launch_is_unknown_has_not_drifted(mine: str, current: str) -> None:
    boxes = (box("m", FOUR, fingerprint=mine),)
    decision = planned(boxes, DRIFT, fingerprints={FOUR.key: current} if current else {})
    assert not decision.terminations


# What holds for every pool


OFFERS = (
    an_offer(1, 1.0, boot_s=120.0),
    an_offer(4, 4.4, boot_s=120.0),
    an_offer(4, 2.0, boot_s=120.0, market=Market.SPOT, interruptions_per_hour=0.05),
    an_offer(8, 8.0, boot_s=180.0),
    an_offer(8, 5.0, boot_s=180.0, zone="b", market=Market.SPOT),
)


@st.composite
def fleets(draw: st.DrawFn) -> list[Box]:
    boxes = []
    for n in range(draw(st.integers(1, 8))):
        offer = draw(st.sampled_from(OFFERS))
        runs: list[int] = []
        while (free := offer.slots - sum(runs)) and draw(st.booleans()):
            runs.append(draw(st.integers(1, free)))
        drifted = {"fingerprint": draw(st.sampled_from(["old", "new", ""]))}
        boxes.append(box(f"m{n}", offer, *runs, **drifted))
    return boxes


def carried_out(boxes: list[Box], decision: Plan, made: int) -> list[Box]:
    """A day later: all that was decided is done, and the scheduler has placed the work that left."""
    gone = {end.instance_id for end in decision.terminations} | set(moved(decision))
    stay = [
        replace(each, more=(*((k, v) for k, v in each.more if k != "replacement_tried_s"),))
        for each in boxes
        if each.name not in gone
    ]
    stay += [
        box(f"n{made + n}", launch.offer, fingerprint="new", replaces=launch.replaces)
        for n, launch in enumerate(decision.launches)
    ]
    homeless = sorted(
        (run for each in boxes if each.name in moved(decision) for run in each.runs), reverse=True
    )
    for slots in homeless:
        able = [n for n, each in enumerate(stay) if each.offer.slots - sum(each.runs) >= slots]
        # best fit, as the scheduler's default; busy machines before idle ones
        best = min(able, key=lambda n: (not stay[n].runs, stay[n].offer.slots - sum(stay[n].runs)))
        stay[best] = replace(stay[best], runs=(*stay[best].runs, slots))
    return stay


def usd(boxes: Sequence[Box]) -> float:
    """Of those that work."""
    return sum(each.offer.usd_per_hour for each in boxes if each.runs)


@given(fleets(), st.sampled_from([0.1, 0.5, 1.0]), st.integers(0, 2))
@settings(max_examples=examples(150), deadline=None)
def test_disruptions_come_to_an_end_and_make_a_pool_cheaper(
    boxes: list[Box], share: float, least: int
) -> None:
    """They do not undo each other: after so many rounds nothing is left to do."""
    rules = ALL.model_copy(update={"share": share})
    now = {offer.key: "new" for offer in OFFERS}
    slots = sorted(run for each in boxes for run in each.runs)
    before, drifted = usd(boxes), any(dict(each.more)["fingerprint"] == "old" for each in boxes)
    for made in range(10 * len(boxes) + 10):
        decision = planned(boxes, rules, offers=OFFERS, fingerprints=now, min_instances=least)
        again = planned(boxes, rules, offers=OFFERS, fingerprints=now, min_instances=least)
        assert decision == again
        under_way = [*decision.moves, *(x for x in decision.launches if x.replaces)]
        assert len(under_way) <= max(1, int(share * len(boxes)))
        if not under_way and not decision.terminations and not decision.launches:
            break
        boxes = carried_out(boxes, decision, made * 10)
    else:
        pytest.fail("it goes on for ever")
    assert sorted(run for each in boxes for run in each.runs) == slots
    if not drifted:
        assert usd(boxes) <= before + 1e-9


@given(fleets())
@settings(max_examples=examples(60), deadline=None)
def test_nothing_is_disrupted_while_anything_waits(boxes: list[Box]) -> None:
    now = {offer.key: "new" for offer in OFFERS}
    decision = planned(boxes, ALL, offers=OFFERS, fingerprints=now, waiting=True)
    assert not decision.moves
    assert not [launch for launch in decision.launches if launch.replaces]


def test_demand_is_served_before_machines_are_packed() -> None:
    nodes = tuple(
        Node(agent_id=x, pool="gpu", slots=4, free_slots=3, busy=True) for x in ("a", "b")
    )
    state = PoolInput(
        settings=PoolSettings(pool="gpu", disruption=PACKING, max_instances=9),
        offers=(FOUR,),
        demand=PoolDemand(pool="gpu", nodes=nodes, gangs=(a_gang("g", 4),)),
        machines=tuple(Machine(name=x, offer=FOUR, phase=MachinePhase.UP) for x in ("a", "b")),
        running=(a_run("a-0", 1, "a"), a_run("b-0", 1, "b")),
    )
    decision = plan(PlanInput(now=NOW, pools=(state,)))
    assert not decision.moves
    assert decision.launches
