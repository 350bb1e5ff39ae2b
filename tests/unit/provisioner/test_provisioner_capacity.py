"""What is learned about offers, and when it is forgotten."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.capacity import BACKOFFS, BlockKind, CapacityMemory
from provisioner.prices import Ledger, usd_per_slot_hour
from tests.fakes.fleet_world import an_offer

A, B = an_offer(zone="a"), an_offer(zone="b")


def test_stock_outs_wait_two_minutes_then_half_as_long_again_up_to_twenty() -> None:
    memory, now, waits = CapacityMemory(), 0.0, []
    for _ in range(9):
        memory = memory.refused(A.key, BlockKind.CAPACITY, "none", now=now)
        waits.append(memory.of(A.key).blocked_until - now)
        now = memory.of(A.key).blocked_until
    assert waits[:4] == [120.0, 180.0, 270.0, 405.0]
    assert waits[-1] == waits[-2] == 1200.0


def test_answers_to_calls_already_under_way_do_not_lengthen_the_block() -> None:
    first = CapacityMemory().refused(A.key, BlockKind.CAPACITY, "none", now=0.0)
    burst = first
    for at in range(1, 20):
        burst = burst.refused(A.key, BlockKind.CAPACITY, "none", now=float(at))
    assert burst.of(A.key).blocked_until == first.of(A.key).blocked_until


def test_unknown_errors_block_two_minutes_and_are_kept_verbatim() -> None:
    memory = CapacityMemory()
    for start in (0.0, 500.0):
        memory = memory.refused(A.key, BlockKind.UNKNOWN, "Wat: 42 %", now=start)
        assert memory.of(A.key).blocked_until == start + 120.0
    assert memory.of(A.key).message == "Wat: 42 %"


def test_only_a_success_of_the_same_offer_clears_a_block() -> None:
    memory = CapacityMemory().refused(A.key, BlockKind.CAPACITY, "none", now=0.0)
    assert memory.launched(B.key).of(A.key).is_blocked(1.0)
    cleared = memory.launched(A.key).of(A.key)
    assert not cleared.is_blocked(1.0)
    assert not cleared.needs_launch_probe
    assert memory.of(A.key).needs_launch_probe
    again = memory.launched(A.key).refused(A.key, BlockKind.CAPACITY, "none", now=9.0)
    assert again.of(A.key).blocked_until == 9.0 + 120.0


def test_the_third_failed_boot_in_a_row_quarantines_until_one_comes_up() -> None:
    memory = CapacityMemory()
    for _ in range(2):
        memory = memory.boot_failed(A.key, "no agent", now=0.0)
    assert not memory.of(A.key).is_blocked(1.0)
    assert not memory.booted(A, 10.0).boot_failed(A.key, "x", now=0.0).of(A.key).is_blocked(1.0)
    memory = memory.boot_failed(A.key, "no agent", now=0.0)
    quarantined = memory.of(A.key)
    assert quarantined.is_blocked(1.0)
    assert quarantined.needs_boot_probe
    assert memory.launched(A.key).of(A.key).needs_boot_probe
    assert memory.booted(A, 10.0).of(A.key).kind is None
    assert not memory.booted(A, 10.0).of(A.key).needs_boot_probe


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


def test_memory_survives_json() -> None:
    memory = CapacityMemory().booted(B, 33.0)
    for kind in BACKOFFS:
        offer = an_offer(zone=f"z-{kind}")
        memory = memory.refused(offer.key, kind, "because", now=5.0)
    assert CapacityMemory.from_document(json.loads(json.dumps(memory.to_document()))) == memory


def test_the_ledger_keeps_peak_first_launch_and_the_dead() -> None:
    ledger = Ledger().with_fleet(instances=0, usd_per_hour=0.0, now=5.0)
    assert ledger.first_launch_at is None
    assert ledger.view(living_usd=0.0, usd_per_hour=0.0, now=99.0).always_on_usd == 0.0
    ledger = ledger.with_fleet(instances=4, usd_per_hour=8.0, now=10.0)
    ledger = ledger.with_fleet(instances=1, usd_per_hour=2.0, now=20.0).with_gone(1.5)
    view = ledger.view(living_usd=0.5, usd_per_hour=2.0, now=10.0 + 3600)
    assert (view.spent_usd, view.peak_instances, view.first_launch_at) == (2.0, 4, 10.0)
    assert view.always_on_usd == pytest.approx(8.0)


def test_slots_are_compared_by_price() -> None:
    assert usd_per_slot_hour(an_offer(8, 4.0)) == 0.5
    assert usd_per_slot_hour(an_offer(0, 4.0)) == float("inf")
