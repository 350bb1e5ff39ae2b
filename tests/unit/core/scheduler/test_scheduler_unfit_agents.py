"""Requests that ask for certain machines: on no other is anything of them placed."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.machines import MachineFacts, Market, Requirements, is_model
from master.core.scheduler import decide
from master.core.scheduler.types import (
    AgentState,
    Decision,
    Launchable,
    Placement,
    SchedulerSettings,
    SchedulerType,
)
from tests.examples import examples
from tests.unit.core.scheduler.small_pool import job, pool, requests, text


def placed(decision: Decision) -> dict[str, Placement]:
    return {start.request_id: dict(start.placement) for start in decision.start}


A100 = MachineFacts(gpu_model="NVIDIA A100-SXM4-80GB", gpu_memory_mib=81_920)
T4 = MachineFacts(gpu_model="Tesla T4", gpu_memory_mib=15_360)
SPOT = MachineFacts(gpu_model="A100", market=Market.SPOT, usd_per_hour=10.0)
UNKNOWN = MachineFacts()
POLICIES = [SchedulerSettings(type=kind) for kind in get_args(SchedulerType)]


@pytest.mark.parametrize(
    ("name", "wanted", "is_it"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100", True),
        ("NVIDIA A100-SXM4-80GB", "a100 80gb", True),
        ("NVIDIA A100-SXM4-40GB", "a100-80gb", False),
        ("NVIDIA A100-SXM4-80GB", "A10", False),
        ("NVIDIA A10G", "A10", False),
        ("NVIDIA GeForce RTX 3090", "rtx 3090", True),
        ("", "A100", False),
        ("Tesla T4", "-", False),
    ],
)
def test_a_model_is_recognised_by_its_words(name: str, wanted: str, is_it: bool) -> None:
    assert is_model(name, wanted) is is_it


@pytest.mark.parametrize(
    ("requires", "facts", "machines", "met"),
    [
        (Requirements(), UNKNOWN, 1, True),
        (Requirements(gpu_models=frozenset({"H100", "A100"})), A100, 1, True),
        (Requirements(gpu_models=frozenset({"H100"})), A100, 1, False),
        (Requirements(gpu_models=frozenset({"H100"})), UNKNOWN, 1, False),
        (Requirements(min_gpu_memory_mib=81_920), A100, 1, True),
        (Requirements(min_gpu_memory_mib=81_921), A100, 1, False),
        (Requirements(min_gpu_memory_mib=1), UNKNOWN, 1, False),
        (Requirements(markets=frozenset({Market.ON_DEMAND})), SPOT, 1, False),
        (Requirements(markets=frozenset({Market.SPOT})), SPOT, 1, True),
        (Requirements(markets=frozenset({Market.SPOT})), UNKNOWN, 1, True),
        (Requirements(max_usd_per_hour=20.0), SPOT, 2, True),
        (Requirements(max_usd_per_hour=20.0), SPOT, 3, False),
        (Requirements(placement_group=True), SPOT, 1, True),
        (Requirements(placement_group=True), SPOT, 2, False),
        (Requirements(placement_group=True), replace(SPOT, placement="pg"), 2, True),
    ],
)
def test_what_a_machine_meets(
    requires: Requirements, facts: MachineFacts, machines: int, met: bool
) -> None:
    assert requires.are_met_by(facts, machines) is met


def agents(*facts: MachineFacts, slots: int = 4) -> tuple[AgentState, ...]:
    return tuple(AgentState(id=f"n{i}", slots=slots, facts=f) for i, f in enumerate(facts))


@pytest.mark.parametrize("settings", POLICIES)
def test_nothing_is_placed_where_it_must_not_be(settings: SchedulerSettings) -> None:
    wants = Requirements(gpu_models=frozenset({"A100"}))
    one, other = (replace(r, requires=wants) for r in requests("a", 2, 4))
    state = pool([job("a")], [one, other], on=agents(T4, A100, UNKNOWN), settings=settings)
    decision = decide(state)
    assert placed(decision) == {one.id: {"n1": 4}}
    assert decision.waiting[other.id].reason.text.endswith(
        "2 agents are not what it asks for: a GPU A100"
    )


@pytest.mark.parametrize("settings", POLICIES)
def test_a_gang_stays_in_one_place_and_in_one_placement_group(settings: SchedulerSettings) -> None:
    east, west = replace(SPOT, place="c/east/a"), replace(SPOT, place="c/west/b")
    (gang,) = requests("a", 1, 8)
    spread = pool([job("a")], [gang], on=agents(east, west), settings=settings)
    assert decide(spread).start == ()
    together = pool([job("a")], [gang], on=agents(east, west, west), settings=settings)
    assert set(placed(decide(together))[gang.id]) == {"n1", "n2"}
    groups = [replace(east, placement=group) for group in ("g1", "g2", "g2")]
    close = replace(gang, requires=Requirements(placement_group=True))
    grouped = pool([job("a")], [close], on=agents(east, *groups), settings=settings)
    assert set(placed(decide(grouped))[close.id]) == {"n2", "n3"}


def test_what_is_coming_counts_only_if_it_is_what_is_asked_for() -> None:
    wants = Requirements(gpu_models=frozenset({"A100"}))
    low = requests("low", 1, 4)[0]
    (gang,) = (replace(r, requires=wants) for r in requests("a", 1, 4))
    for facts, serves in ((T4, False), (SPOT, True)):
        coming = Launchable(slots_per_agent=4, count=1, ready_in_s=30.0, facts=facts)
        state = pool([job("a"), job("low")], [gang, low], on=(), launchable=[coming])
        waits = decide(state).waiting[gang.id]
        assert waits.needs_capacity
        assert ("ready in about 30 s" in waits.reason.text) is serves


FACTS = st.sampled_from([A100, T4, SPOT, UNKNOWN, replace(SPOT, place="x", placement="g")])
WISHES = st.sampled_from(
    [
        Requirements(),
        Requirements(gpu_models=frozenset({"A100"})),
        Requirements(gpu_models=frozenset({"T4", "H100"}), min_gpu_memory_mib=8192),
        Requirements(markets=frozenset({Market.ON_DEMAND})),
        Requirements(max_usd_per_hour=15.0),
        Requirements(placement_group=True),
    ]
)


@settings(max_examples=examples(200), deadline=None)
@given(
    facts=st.lists(FACTS, max_size=6),
    wanted=st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), WISHES), max_size=8),
    policy=st.sampled_from(POLICIES),
)
def test_every_start_is_on_machines_that_were_asked_for(
    facts: list[MachineFacts], wanted: list[tuple[int, Requirements]], policy: SchedulerSettings
) -> None:
    waiting = [
        replace(requests("a", 1, slots, first=i)[0], requires=wishes)
        for i, (slots, wishes) in enumerate(wanted)
    ]
    on = agents(*facts)
    decision = decide(pool([job("a")], waiting, on=on, settings=policy))
    by_id = {request.id: request for request in waiting}
    there = {agent.id: agent.facts for agent in on}
    for start in decision.start:
        wishes = by_id[start.request_id].requires
        chosen = [there[agent] for agent in start.placement]
        assert all(wishes.are_met_by(one, len(chosen)) for one in chosen)
        assert len({one.place for one in chosen}) == 1
        if wishes.placement_group and len(chosen) > 1:
            assert len({one.placement for one in chosen}) == 1
    assert {s.request_id for s in decision.start} | set(decision.waiting) == set(by_id)
    if any(request.requires.is_picky for request in waiting):
        assert all(text(decision, request) for request in decision.waiting)
