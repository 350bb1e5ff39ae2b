"""What is learned about offers, and when it is forgotten."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BACKOFFS, BlockKind, scope_of
from provisioner.capacity.rows import changed_rows, from_rows, to_rows
from provisioner.money.prices import SpendLedger, usd_per_slot_hour
from provisioner.types import Market, Offer, Scope
from tests.fakes.fleet_world import an_offer

A, B = an_offer(zone="a"), an_offer(zone="b")
CAPACITY = BlockKind.CAPACITY


def refused(
    memory: CapacityMemory, offer: Offer, kind: BlockKind = CAPACITY, *, now: float, **more: Any
) -> CapacityMemory:
    return memory.refused(scope_of(kind, offer), kind, "none", now=now, **more)


def until(memory: CapacityMemory, offer: Offer) -> float:
    block = memory.of(offer)
    return 0.0 if block is None else block.until


@pytest.mark.parametrize(
    ("kind", "waits", "cap"),
    [
        (BlockKind.CAPACITY, [120, 180, 270, 405], 1200),
        (BlockKind.UNSUPPORTED, [86_400, 86_400], 86_400),
        (BlockKind.RESERVATION, [60, 120, 240], 600),
        (BlockKind.QUOTA, [600, 900, 1350], 3600),
        (BlockKind.NETWORK, [600, 600], 600),
        (BlockKind.PLACEMENT, [600, 600], 600),
        (BlockKind.THROTTLED, [1, 2, 4], 60),
        (BlockKind.AUTH, [60, 60], 60),
        (BlockKind.TRANSIENT, [1, 2, 4], 30),
        (BlockKind.UNKNOWN, [120, 120], 120),
        (BlockKind.BOOT, [1800, 1800], 1800),
    ],
)
def test_every_kind_waits_as_its_row_says(kind: BlockKind, waits: list[float], cap: float) -> None:
    memory, now, seen = CapacityMemory(), 0.0, []
    for _ in range(20):
        memory = refused(memory, A, kind, now=now)
        seen.append(until(memory, A) - now)
        now = until(memory, A)
    assert seen[: len(waits)] == waits
    assert seen[-1] == cap


EVERYWHERE = [
    replace(
        an_offer(name=name, zone=zone, market=market),
        key=replace(
            an_offer(name=name, zone=zone, market=market).key,
            region=zone[:2],
            reservation=reservation,
            placement=placement,
        ),
        family=name[0],
        image=image,
    )
    for name, zone, market, reservation, placement, image in product(
        ["p4", "p5", "g5"],
        ["r1a", "r1b", "r2a"],
        [Market.SPOT, Market.ON_DEMAND],
        ["", "cr-1"],
        ["", "pg-1"],
        ["", "ami-1"],
    )
]
SEEN = EVERYWHERE[0]


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        (CAPACITY, ["zone", "instance_type", "market", "reservation", "placement"]),
        (BlockKind.UNSUPPORTED, ["zone", "instance_type"]),
        (BlockKind.RESERVATION, ["reservation"]),
        (BlockKind.QUOTA, ["region", "family", "market"]),
        (BlockKind.NETWORK, ["zone"]),
        (BlockKind.PLACEMENT, ["placement"]),
        (BlockKind.THROTTLED, ["region"]),
        (BlockKind.CONFIG, []),
        (BlockKind.AUTH, []),
        (BlockKind.TRANSIENT, ["zone", "instance_type", "market", "reservation", "placement"]),
        (BlockKind.UNKNOWN, ["zone", "instance_type", "market", "reservation", "placement"]),
        (BlockKind.BOOT, ["instance_type", "image", "market"]),
    ],
)
def test_every_kind_shuts_what_it_is_true_for_and_nothing_else(
    kind: BlockKind, same: list[str]
) -> None:
    def part(offer: Offer, name: str) -> Any:
        return getattr(offer if name in ("family", "image") else offer.key, name)

    memory = refused(CapacityMemory(), SEEN, kind, now=0.0)
    for offer in EVERYWHERE:
        alike = all(part(offer, name) == part(SEEN, name) for name in same)
        assert memory.is_shut(offer, 0.5) == alike
        assert scope_of(kind, SEEN).covers(offer) == alike
    other_account = replace(SEEN, key=replace(SEEN.key, provider="other"))
    assert not memory.is_shut(other_account, 0.5)


def test_a_quota_without_a_family_is_about_its_type_alone() -> None:
    memory = refused(CapacityMemory(), A, BlockKind.QUOTA, now=0.0)
    assert memory.is_shut(B, 1.0)
    assert not memory.is_shut(an_offer(8, zone="a"), 1.0)


def test_the_block_that_lasts_longest_answers_for_an_offer_the_widest_of_equal_ones() -> None:
    memory = refused(CapacityMemory(), A, now=0.0)
    memory = refused(memory, A, BlockKind.QUOTA, now=0.0, quota="vCPUs", number=64.0)
    block = memory.of(A)
    assert block is not None
    assert (block.kind, block.quota, block.number) == (BlockKind.QUOTA, "vCPUs", 64.0)
    memory = refused(memory, A, BlockKind.AUTH, now=0.0, until=600.0)
    block = memory.of(A)
    assert block is not None
    assert block.scope == Scope(provider="cloud")


def test_a_provider_that_says_when_is_believed() -> None:
    memory = refused(CapacityMemory(), A, BlockKind.RESERVATION, now=0.0, until=9000.0)
    assert until(memory, A) == 9000.0


def test_answers_to_calls_already_under_way_do_not_lengthen_the_block() -> None:
    first = refused(CapacityMemory(), A, now=0.0)
    burst = first
    for at in range(1, 20):
        burst = refused(burst, A, now=float(at))
    assert burst == first


def test_messages_are_kept_verbatim() -> None:
    memory = CapacityMemory().refused(Scope.of(A.key), BlockKind.UNKNOWN, "Wat: 42 %", now=0.0)
    assert [block.message for block in memory.covering(A)] == ["Wat: 42 %"]


@given(
    kinds=st.lists(
        st.tuples(st.sampled_from(list(BlockKind)), st.sampled_from(EVERYWHERE)), max_size=12
    ),
    success=st.sampled_from(EVERYWHERE),
)
def test_a_launch_clears_what_covers_its_offer_and_nothing_else(
    kinds: list[tuple[BlockKind, Offer]], success: Offer
) -> None:
    memory = CapacityMemory()
    for kind, offer in kinds:
        memory = refused(memory, offer, kind, now=0.0)
    after = memory.launched(success)
    kept = {b.scope for b in memory.blocks.values() if b.kind is BlockKind.BOOT}
    kept |= {scope for scope in memory.blocks if not scope.covers(success)}
    assert set(after.blocks) == kept
    for offer in EVERYWHERE:
        covering = {scope for scope in memory.blocks if scope.covers(offer)}
        assert {block.scope for block in memory.covering(offer)} == covering
        longest = memory.of(offer)
        assert (longest is None) == (not covering)
        assert longest is None or longest.until == max(memory.blocks[s].until for s in covering)
    by_hand = memory.cleared(Scope(provider="cloud"))
    assert not by_hand.blocks


def test_by_hand_an_offer_is_freed_of_everything_that_keeps_it_shut() -> None:
    memory = refused(CapacityMemory(), SEEN, BlockKind.CONFIG, now=0.0)
    memory = refused(memory, SEEN, now=0.0)
    for _ in range(3):
        memory = memory.boot_failed(SEEN, "no agent", now=0.0)
    other = next(o for o in EVERYWHERE if o.key.zone == "r2a")
    memory = refused(memory, other, now=0.0)
    cleared = memory.cleared(Scope.of(SEEN.key))
    assert not list(cleared.covering(SEEN))
    assert set(cleared.blocks) == {scope_of(CAPACITY, other)}
    assert not cleared.boot_failed(SEEN, "again", now=0.0).is_shut(SEEN, 1.0)


def test_after_a_success_the_first_wait_counts_again() -> None:
    memory = refused(refused(CapacityMemory(), A, now=0.0), A, now=500.0)
    assert until(memory.launched(B), A) == until(memory, A)
    again = refused(memory.launched(A), A, now=900.0)
    assert until(again, A) == 900.0 + 120.0


def test_the_third_failed_boot_in_a_row_quarantines_until_one_comes_up() -> None:
    memory = CapacityMemory()
    for _ in range(2):
        memory = memory.boot_failed(A, "no agent", now=0.0)
    assert not memory.is_shut(A, 1.0)
    assert not memory.booted(A, 10.0).boot_failed(A, "x", now=0.0).is_shut(A, 1.0)
    memory = memory.boot_failed(A, "no agent", now=0.0)
    assert memory.is_shut(A, 1.0)
    assert not memory.is_shut(B, 1.0)
    assert memory.launched(A).is_shut(A, 1.0)
    assert memory.booted(A, 10.0).of(A) is None
    assert not memory.booted(A, 10.0).boot_failed(A, "x", now=0.0).is_shut(A, 1.0)


def test_boots_that_fail_in_several_zones_are_the_fault_of_type_and_image() -> None:
    memory, third = CapacityMemory(), an_offer(zone="c")
    for offer in (A, A, B):
        memory = memory.boot_failed(offer, "no agent", now=0.0)
    assert memory.is_shut(third, 1.0)
    assert not memory.is_shut(replace(third, image="new"), 1.0)
    assert not memory.booted(third, 10.0).is_shut(A, 1.0)
    luck = CapacityMemory()
    for offer in (A, A):
        luck = luck.boot_failed(offer, "no agent", now=0.0)
    assert not luck.booted(third, 10.0).boot_failed(B, "once", now=0.0).is_shut(third, 1.0)


@given(took=st.lists(st.floats(1, 1000), max_size=60))
def test_boot_times_are_learned_and_the_deadline_follows(took: list[float]) -> None:
    memory, offer = CapacityMemory(), replace(A, boot_s=60.0)
    for seconds in took:
        memory = memory.booted(offer, seconds)
    known = [60.0, *took]
    assert min(known) <= memory.boot_p50_s(offer) <= max(known)
    assert memory.boot_p90_s(offer) >= memory.boot_p50_s(offer)
    assert memory.boot_deadline_s(offer) >= 300.0
    assert memory.boot_deadline_s(offer) >= 3 * memory.boot_p90_s(offer)


def test_slow_boots_raise_the_deadline() -> None:
    memory = CapacityMemory()
    assert memory.boot_deadline_s(A) == 300.0
    for _ in range(30):
        memory = memory.booted(A, 400.0)
    assert memory.boot_p50_s(A) == pytest.approx(400.0, rel=0.05)
    assert memory.boot_deadline_s(A) > 1190.0


def through_json(memory: CapacityMemory) -> CapacityMemory:
    return from_rows(json.loads(json.dumps(list(to_rows(memory).values()))))


def test_memory_survives_as_rows_one_per_key() -> None:
    memory = CapacityMemory().booted(B, 33.0)
    for number, kind in enumerate(BACKOFFS):
        if kind is not BlockKind.CONFIG:
            offer = replace(SEEN, key=replace(SEEN.key, zone=f"z-{kind}", region=f"r{number}"))
            memory = refused(memory, offer, kind, now=5.0, quota="q", number=8.0)
    assert through_json(memory) == memory
    assert len(to_rows(memory)) == len(memory.blocks) + 1


def test_only_changed_rows_are_written_and_forgotten_ones_named() -> None:
    old = refused(refused(CapacityMemory(), A, now=0.0), B, now=0.0)
    new = refused(old.launched(A), B, BlockKind.AUTH, now=1.0)
    changed = changed_rows(old, new)
    assert sorted(row is None for row in changed.values()) == [False, True]
    rows: dict[str, Any] = {**to_rows(old), **changed}
    assert from_rows([row for row in rows.values() if row is not None]) == new
    assert changed_rows(new, new) == {}


@given(
    st.lists(st.tuples(st.sampled_from(BlockKind), st.integers(0, 3), st.booleans()), max_size=12)
)
def test_rows_written_lesson_by_lesson_are_the_memory(
    lessons: list[tuple[BlockKind, int, bool]],
) -> None:
    memory, rows = CapacityMemory(), dict[str, Any]()
    for now, (kind, zone, works) in enumerate(lessons):
        offer = replace(A, key=replace(A.key, zone=f"z{zone}"))
        new = memory.launched(offer).booted(offer, 30.0 + now) if works else memory
        new = new if works else refused(memory, offer, kind, now=float(now))
        for name, row in changed_rows(memory, new).items():
            rows.pop(name, None)
            if row is not None:
                rows[name] = row
        memory = new
        assert rows == to_rows(memory)


def test_a_wrong_configuration_is_looked_at_anew_after_a_restart() -> None:
    memory = refused(CapacityMemory(), A, BlockKind.CONFIG, now=0.0)
    assert until(memory, A) == inf
    assert to_rows(memory) == {}


def test_what_the_first_release_wrote_is_read() -> None:
    old = {
        "key": {
            "provider": "cloud",
            "region": "",
            "zone": "a",
            "instance_type": "gpu-4",
            "market": "on_demand",
        },
        "kind": "capacity",
        "message": "none",
        "blocked_until": 180.0,
        "backoff_s": 180.0,
        "failed_boots": 1,
        "boot_mean_s": 33.0,
        "boot_deviation_s": 4.0,
    }
    memory = from_rows([old])
    assert until(memory, A) == 180.0
    assert until(refused(memory, A, now=200.0), A) == 200.0 + 270.0
    assert memory.boot_p50_s(A) == 33.0
    assert memory.is_shut(A, 10.0)
    assert not memory.is_shut(B, 10.0)


def test_the_ledger_keeps_peak_first_launch_and_the_dead() -> None:
    ledger = SpendLedger().with_fleet(instances=0, usd_per_hour=0.0, now=5.0)
    assert ledger.first_launch_at is None
    assert ledger.view(living_usd=0.0, usd_per_hour=0.0, now=99.0).always_on_usd == 0.0
    ledger = ledger.with_fleet(instances=4, usd_per_hour=8.0, now=10.0)
    ledger = ledger.with_fleet(instances=1, usd_per_hour=2.0, now=20.0).with_gone(
        "gpu", lambda since, until: 1.5 * (until - since) / 3600.0, 0.0, 3600.0
    )
    view = ledger.view(living_usd=0.5, usd_per_hour=2.0, now=10.0 + 3600)
    assert (view.spent_usd, view.peak_instances, view.first_launch_at) == (2.0, 4, 10.0)
    assert view.always_on_usd == pytest.approx(8.0)


def test_slots_are_compared_by_price() -> None:
    assert usd_per_slot_hour(an_offer(8, 4.0)) == 0.5
    assert usd_per_slot_hour(an_offer(0, 4.0)) == float("inf")
