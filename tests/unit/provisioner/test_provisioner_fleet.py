"""The life of one instance, as tables."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.fleet.instances import (
    ALLOWED,
    LOOKS_UNTIL_GONE,
    BootNote,
    EndKind,
    InstanceRecord,
    InstanceState,
    ListedAs,
    Observation,
    Rules,
    StoppedTime,
    instance_document,
    instance_from_document,
    is_steady,
    is_written_alike,
    may_end_lost,
    move,
    shows_as_before,
    step,
    terminating,
)
from provisioner.fleet.intents import (
    IntentRecord,
    IntentState,
    intent_document,
    intent_from_document,
    launch_token,
)
from provisioner.types import Market, Notice
from tests.fakes.fleet_world import an_offer
from windlass.base.errors import Conflict

S, L = InstanceState, ListedAs
OTHER: dict[str, Any] = {
    "offer": an_offer(8),
    "state": S.LOST,
    "end_kind": EndKind.LOST,
    "claims": ("a",),
    "stops": (StoppedTime(since=1.0),),
    "notice": Notice(at=9.0, why="spot"),
    "told": True,
    "stop_under_way": True,
    "generation": 2,
} | dict.fromkeys([x.name for x in fields(InstanceRecord) if "float" in str(x.type)], 77.0)
OTHER |= {"looks": 1, "missed_looks": 1}
"""A value of each field that is no text, another than in `record()`."""
RULES = Rules(boot_deadline_s=300.0, list_grace_s=60.0)
GAVE_UP = BootNote("the pool's startup_script ended with exit code 3", failed=True)


def record(state: InstanceState = S.BOOTING, **more: Any) -> InstanceRecord:
    values: dict[str, Any] = {"created_at": 0.0, "intent_id": "i", "generation": 1} | more
    return InstanceRecord(id="m", pool="gpu", offer=an_offer(), state=state, **values)


@given(
    looks=st.integers(0, 3),
    missed=st.integers(0, 1),
    idle=st.none() | st.floats(0, 100),
    silent=st.none() | st.floats(0, 100),
    connected=st.booleans(),
    busy=st.none() | st.booleans(),
    now=st.floats(100, 1e6),
)
def test_a_step_changes_nothing_of_a_machine_that_is_steady(
    looks: int,
    missed: int,
    idle: float | None,
    silent: float | None,
    connected: bool,
    busy: bool | None,
    now: float,
) -> None:
    ready = record(S.READY, looks=looks, missed_looks=missed, idle_since=idle, silent_since=silent)
    stepped = step(ready, Observation(connected=connected, busy=busy), now, RULES)
    changes = stepped.record is not ready or stepped.wish is not None
    assert is_steady(ready, connected, busy) == (connected and not changes)


@given(
    looks=st.integers(0, LOOKS_UNTIL_GONE),
    ends_at=st.none() | st.just(500.0),
    listing=st.sampled_from(L),
    told_ends_at=st.none() | st.sampled_from([500.0, 600.0]),
    started_at=st.none() | st.just(7.0),
)
def test_nor_does_a_list_that_shows_it_as_before(
    looks: int,
    ends_at: float | None,
    listing: ListedAs,
    told_ends_at: float | None,
    started_at: float | None,
) -> None:
    first = 10.0 if looks else None
    ready = record(S.READY, looks=looks, first_look_at=first, idle_since=None, ends_at=ends_at)
    seen = Observation(
        listing=listing,
        looked_at=90.0,
        started_at=started_at,
        ends_at=told_ends_at,
        connected=True,
        busy=True,
    )
    stepped = step(ready, seen, 100.0, RULES)
    same = stepped.record is ready and stepped.wish is None
    assert shows_as_before(ready, seen) == (same and listing is L.RUNNING)


@pytest.mark.parametrize(
    ("start", "seen", "now", "end", "wish"),
    [
        (record(S.PENDING), Observation(listing=L.PENDING), 10, S.PENDING, None),
        (record(S.PENDING), Observation(listing=L.RUNNING), 10, S.BOOTING, None),
        (record(S.PENDING), Observation(connected=True), 10, S.READY, None),
        (record(S.PENDING), Observation(listing=L.PENDING), 301, S.PENDING, EndKind.BOOT),
        (record(S.BOOTING), Observation(connected=True), 50, S.READY, None),
        (record(S.BOOTING), Observation(), 299, S.BOOTING, None),
        (record(S.BOOTING), Observation(), 301, S.BOOTING, EndKind.BOOT),
        (record(S.BOOTING), Observation(boot=BootNote("joining")), 299, S.BOOTING, None),
        (record(S.BOOTING), Observation(boot=GAVE_UP), 1, S.BOOTING, EndKind.BOOT),
        (record(S.PENDING), Observation(boot=GAVE_UP), 1, S.PENDING, EndKind.BOOT),
        (record(S.BOOTING), Observation(boot=GAVE_UP, connected=True), 1, S.READY, None),
        (record(S.READY), Observation(boot=GAVE_UP, connected=True), 1, S.READY, None),
        (record(S.BOOTING), Observation(listing=L.ENDED), 1, S.GONE, None),
        (record(S.READY), Observation(connected=True), 9999, S.READY, None),
        (record(S.READY, silent_since=0.0), Observation(), 599, S.READY, None),
        (record(S.READY, silent_since=0.0), Observation(), 601, S.LOST, EndKind.LOST),
        (record(S.LOST, silent_since=0.0), Observation(), 700, S.LOST, EndKind.LOST),
        (record(S.LOST, silent_since=0.0), Observation(connected=True), 700, S.READY, None),
        (record(S.LOST), Observation(listing=L.ENDED), 700, S.GONE, None),
        (
            record(S.ORPHAN, first_look_at=0.0, looks=1),
            Observation(listing=L.RUNNING, looked_at=61.0),
            61,
            S.ORPHAN,
            EndKind.ORPHAN,
        ),
        (record(S.ORPHAN, first_look_at=0.0, looks=1), Observation(), 61, S.ORPHAN, None),
        (
            record(S.ORPHAN, first_look_at=0.0, looks=2),
            Observation(connected=True, busy=True),
            61,
            S.READY,
            None,
        ),
        (record(S.TERMINATING), Observation(listing=L.RUNNING), 9999, S.TERMINATING, None),
        (record(S.TERMINATING), Observation(listing=L.ENDED), 10, S.GONE, None),
        (record(S.GONE, ended_at=5.0), Observation(listing=L.RUNNING), 10, S.GONE, None),
    ],
)
def test_steps(
    start: InstanceRecord, seen: Observation, now: float, end: InstanceState, wish: EndKind | None
) -> None:
    result = step(start, seen, float(now), RULES)
    assert result.record.state is end
    assert (result.wish.kind if result.wish else None) is wish


def test_spot_machines_are_given_up_sooner() -> None:
    spot = replace(record(S.READY, silent_since=0.0), offer=an_offer(market=Market.SPOT))
    assert step(spot, Observation(), 121.0, RULES).record.state is S.LOST


@pytest.mark.parametrize(
    ("created", "looks", "gone"),
    [
        (0.0, [100.0, 102.0], True),
        (0.0, [100.0], False),
        (60.0, [100.0, 102.0], False),  # young: a list may omit it
        (101.0, [100.0, 102.0], False),  # the first list was begun before it was made
    ],
)
def test_r4_absent_is_gone_after_the_grace_and_two_lists(
    created: float, looks: list[float], gone: bool
) -> None:
    now_record = record(S.READY, created_at=created)
    for at in looks:
        seen = Observation(listing=L.ABSENT, looked_at=at)
        now_record = step(now_record, seen, at + 1, RULES).record
    assert (now_record.state is S.GONE) is gone


@pytest.mark.parametrize("made_at", [0.0, 20.0])
def test_lists_begun_while_it_was_young_prove_nothing_once_it_is_old(made_at: float) -> None:
    """`made_at`: later than asked for where the first answers were lost. Lists fail from then on."""
    young = record(S.BOOTING, started_at=made_at)
    for at in (made_at + 56.0, made_at + 58.0):
        seen = Observation(listing=L.ABSENT, looked_at=at)
        young = step(young, seen, at + 1.0, RULES).record
    assert step(young, Observation(), made_at + 100.0, RULES).record.state is S.BOOTING


def test_r4_a_list_that_shows_it_again_starts_the_count_anew_and_a_connected_agent_is_no_ghost() -> (
    None
):
    absent = Observation(listing=L.ABSENT, looked_at=100.0)
    once = step(record(S.READY), absent, 100.0, RULES).record
    shown = step(once, Observation(listing=L.RUNNING, looked_at=101.0), 101.0, RULES).record
    again = step(shown, replace(absent, looked_at=102.0), 102.0, RULES).record
    assert again.state is S.READY
    connected = replace(absent, looked_at=104.0, connected=True)
    proven = step(again, connected, 104.0, RULES).record
    assert proven.state is S.READY
    silent = step(proven, Observation(), 106.0, RULES).record
    assert silent.state is S.READY, "lists from before its agent spoke prove nothing"
    assert step(silent, replace(absent, looked_at=108.0), 108.0, RULES).record.state is S.READY


def test_r12_unknown_listings_never_end_anything() -> None:
    now_record = record(S.READY)
    for at in range(100, 400, 2):
        seen = Observation(listing=L.UNKNOWN, looked_at=float(at), connected=True)
        now_record = step(now_record, seen, float(at), RULES).record
    assert now_record.state is S.READY


def test_idle_time_starts_when_work_ends_and_not_while_silent() -> None:
    at_work = step(record(S.READY), Observation(connected=True, busy=True), 10.0, RULES).record
    assert at_work.idle_since is None
    idle = step(at_work, Observation(connected=True, busy=False), 20.0, RULES).record
    still = step(idle, Observation(connected=True, busy=False), 30.0, RULES).record
    assert still.idle_since == 20.0
    assert still is idle
    silent = step(still, Observation(connected=False, busy=False), 40.0, RULES).record
    assert (silent.idle_since, silent.silent_since) == (None, 40.0)


@given(
    seen=st.lists(
        st.builds(
            Observation,
            listing=st.sampled_from(ListedAs),
            looked_at=st.floats(0, 5000),
            connected=st.booleans(),
            busy=st.sampled_from([None, True, False]),
        ),
        max_size=30,
    ),
    gaps=st.lists(st.floats(0.1, 400), min_size=30, max_size=30),
    start=st.sampled_from([S.PENDING, S.ORPHAN, S.READY, S.TERMINATING]),
)
def test_no_observation_breaks_the_table(
    seen: list[Observation], gaps: list[float], start: InstanceState
) -> None:
    now, current = 0.0, record(start)
    for observation, gap in zip(seen, gaps, strict=False):
        now += gap
        before = current
        current = step(current, observation, now, RULES).record
        path = before.state is current.state or current.state in ALLOWED[before.state]
        # PENDING may be seen running and connected between two looks.
        assert path or (before.state, current.state) == (S.PENDING, S.READY)
        assert current.usd(now) >= before.usd(now) - 1e-9
        if before.state is S.GONE:
            assert current == before


def test_the_table_refuses_what_it_does_not_list() -> None:
    with pytest.raises(Conflict, match="cannot go from terminating to ready"):
        move(terminating(record(S.READY), "idle", 5.0), S.READY)


def test_cost_runs_from_the_launch_to_the_end() -> None:
    machine = record(S.READY, created_at=100.0)
    assert machine.usd(100.0 + 1800) == pytest.approx(2.0)
    gone = move(machine, S.GONE, ended_at=100.0 + 3600)
    assert gone.usd(1e9) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("recent", "fleet", "more"), [(0, 4, 3), (2, 4, 1), (3, 4, 0), (0, 100, 20), (25, 100, 0)]
)
def test_r16_limit(recent: int, fleet: int, more: int) -> None:
    assert may_end_lost(recent, fleet) == more


def test_documents_bring_back_what_counts() -> None:
    machine = record(S.READY, ready_at=5.0, claims=("a",), silent_since=3.0, looks=2)
    back = instance_from_document(instance_document(machine))
    assert back == replace(machine, silent_since=None, looks=0)
    intent = IntentRecord(
        id="i",
        pool="gpu",
        offer=an_offer(),
        token="t",
        generation=3,
        created_at=1.0,
        claims=(("a",), ("b", "c")),
        tries=2,
    )
    restored = intent_from_document(intent_document(intent))
    assert restored == replace(intent, state=IntentState.CALLED, tries=0)
    assert intent_from_document(intent_document(replace(intent, state=IntentState.FAILED))) is None
    assert intent_document(replace(intent, state=IntentState.ANSWERED))["finished"] is True


@pytest.mark.parametrize("name", [x.name for x in fields(InstanceRecord)])
def test_records_are_written_alike_if_their_documents_are_the_same(name: str) -> None:
    one = record(S.READY)
    other = replace(one, **{name: OTHER.get(name, "other")})
    same = instance_document(one) == instance_document(other)
    assert is_written_alike(one, other) == same


def test_r1_the_token_stands_for_all_parameters() -> None:
    base: tuple[Any, ...] = ("c", "i", "p", an_offer(), 2)
    others: list[tuple[Any, ...]] = [
        ("d", *base[1:]),
        ("c", "j", *base[2:]),
        ("c", "i", "q", *base[3:]),
        (*base[:3], an_offer(zone="z"), 2),
        (*base[:4], 3),
    ]
    tokens = {launch_token(*each) for each in [base, *others]}
    assert len(tokens) == 6
    assert launch_token(*base) == launch_token(*base)
    assert all(len(token) == 32 for token in tokens)


def test_a_boot_that_fails_says_why_whoever_ends_the_machine() -> None:
    said = "its boot failed: the pool's startup_script ended with exit code 3"
    wish = step(record(), Observation(boot=GAVE_UP), 1, RULES).wish
    assert wish is not None
    assert wish.why == said
    gone = Observation(boot=GAVE_UP, listing=L.ENDED, detail="Client.InstanceInitiatedShutdown")
    assert step(record(), gone, 1, RULES).record.reason == said
    late = step(record(), Observation(boot=BootNote("joining as m")), 301, RULES).wish
    assert late is not None
    assert late.why == "no agent connected within 301 s; the last it said: joining as m"
