"""The starvation guard: which place is kept, from when on, what may still use it, and that waiting ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from master.core.scheduler.fitting import REAL, FreeAgent, FreeSlots, RequestShape, shape_of
from master.core.scheduler.release_forecast import LEAVING_S, facts_since
from master.core.scheduler.reservations import (
    MOST,
    Reservation,
    Reservations,
    reserve_for_starving,
    reserved,
)
from master.core.scheduler.types import (
    AgentState,
    Placement,
    PoolState,
    Request,
    Running,
    SchedulerSettings,
)
from master.core.scheduler.usage import used_slots

NOW = 10_000.0
AFTER = 1_000.0


def gang(
    name: str,
    slots: int,
    *,
    run: float | None = None,
    single: bool = False,
    waited: float = AFTER,
    blocked: Iterable[str] = (),
) -> Request:
    return Request(
        id=name,
        job_id=name,
        slots=slots,
        requested=NOW - waited,
        single_agent=single,
        expected_run_s=run,
        blocked_agents=frozenset(blocked),
    )


def work(
    name: str,
    placement: Placement,
    end: float | None = None,
    *,
    started: float = 0.0,
    releasing: bool = False,
    closing: Placement | None = None,
) -> Running:
    return Running(
        request=Request(id=name, job_id=name, slots=sum(placement.values()), requested=0.0),
        placement=placement,
        started=started,
        releasing=releasing,
        expected_end=None if end is None else NOW + end,
        closing=closing or {},
    )


def pool(
    sizes: Iterable[int],
    running: Iterable[Running] = (),
    *,
    now: float = NOW,
    after: float | None = AFTER,
    mixed: bool = False,
) -> PoolState:
    return PoolState(
        now=now,
        settings=SchedulerSettings(
            reserve_after=None if after is None else timedelta(seconds=after),
            allow_heterogeneous_fits=mixed,
        ),
        agents=tuple(AgentState(id=f"n{i}", slots=size) for i, size in enumerate(sizes)),
        running=tuple(running),
    )


def free_agents(state: PoolState) -> list[FreeAgent]:
    used = used_slots(state.running)
    return [(a.id, a.slots, a.slots - used.get(a.id, 0), REAL) for a in state.agents]


def guard(state: PoolState, *wanted: Request) -> Reservations | None:
    candidates = [(request, shape_of(request)) for request in wanted]
    return reserve_for_starving(state, free_agents(state), candidates)


def kept(state: PoolState, *wanted: Request) -> Reservations:
    found = guard(state, *wanted)
    assert found is not None
    return found


def place(state: PoolState, *wanted: Request) -> Reservation:
    """The last one's reservation."""
    return kept(state, *wanted).by_request[wanted[-1].id]


def one(slots: int = 1) -> RequestShape:
    return RequestShape(slots, False, frozenset())


def spare(found: Reservations) -> dict[str, int]:
    return {agent: free for agent, _, free, _ in found.rows() if free}


def test_a_gang_gets_the_place_that_is_free_first() -> None:
    tasks = [work("x", {"n0": 8}, 900), work("y", {"n1": 8}, 300), work("z", {"n2": 8}, 600)]
    assert place(pool([8, 8, 8], tasks), gang("g", 8)) == Reservation(
        request_id="g", placement={"n1": 8}, at=NOW + 300, waits_for=("y",)
    )
    assert place(pool([8, 8, 8], tasks), gang("g", 16)) == Reservation(
        request_id="g", placement={"n1": 8, "n2": 8}, at=NOW + 600, waits_for=("y", "z")
    )


def test_only_work_that_is_gone_in_time_may_use_a_reserved_slot() -> None:
    found = kept(pool([8, 8], [work("x", {"n0": 8}, 600)]), gang("g", 16))
    assert spare(found) == {}
    assert found.find(one(2), None) is None
    assert found.find(one(2), 600.1) is None
    assert found.find(one(2), 600.0) == {"n1": 2}


def test_slots_that_no_reservation_needs_are_for_anybody() -> None:
    """Eight slots come back at once, the gang needs four: what is free now is surplus."""
    tasks = [work("x", {"n0": 5}, 600)]
    found = kept(pool([8], tasks), gang("g", 4, single=True))
    assert spare(found) == {"n0": 3}
    found.start({"n0": 3}, None)
    assert found.find(one(), None) is None
    tight = kept(pool([8], tasks), gang("g", 6, single=True))
    assert spare(tight) == {"n0": 2}


@pytest.mark.parametrize(
    ("tasks", "agent"),
    [
        pytest.param(
            [work("x", {"n0": 8}, started=9), work("y", {"n1": 8}, 1e6, started=1)],
            "n1",
            id="a known end, however late",
        ),
        pytest.param(
            [work("x", {"n0": 8}, started=1), work("y", {"n1": 8}, started=9)],
            "n1",
            id="which has not run for long, of old work",
        ),
        pytest.param(
            [work("x", {"n0": 8}, started=NOW - 10), work("y", {"n1": 8}, started=1)],
            "n1",
            id="old work before new work",
        ),
        pytest.param(
            [work("x", {"n0": 8}, started=NOW - 5), work("y", {"n1": 8}, started=NOW - 10)],
            "n1",
            id="the oldest of new work",
        ),
        pytest.param(
            [work("x", {"n0": 8}, 50), work("y", {"n1": 8}, releasing=True)],
            "n1",
            id="what leaves anyhow",
        ),
        pytest.param(
            [work("x", {"n0": 8}, started=9), work("y", {"n1": 8}, -2000, started=10)],
            "n1",
            id="an end long past is unknown",
        ),
        pytest.param(
            [work("x", {"n0": 8}, 50), work("y", {"n1": 8}, -10)],
            "n1",
            id="what is late since the gang starves is not given up",
        ),
    ],
)
def test_what_is_waited_for_rather(tasks: list[Running], agent: str) -> None:
    state = pool([8, 8], tasks)
    since_a_while = gang("g", 8, waited=AFTER + 100)
    assert set(place(state, since_a_while).placement) == {agent}


def test_where_no_end_is_known_nothing_new_is_started() -> None:
    found = kept(pool([8, 8], [work("x", {"n0": 2}), work("y", {"n1": 3})]), gang("g", 8))
    (reservation,) = found.by_request.values()
    assert (reservation.placement, reservation.at) == ({"n0": 8}, None)
    assert spare(found) == {"n1": 5}
    assert found.find(one(6), 1.0) is None


def test_late_work_leaves_no_hole_to_fill() -> None:
    found = kept(pool([8], [work("x", {"n0": 4}, -10)]), gang("g", 8, waited=AFTER + 100))
    assert found.by_request["g"].at is None
    assert found.find(one(), 1.0) is None


def test_slots_that_are_free_now_are_taken_at_once() -> None:
    found = kept(pool([8, 8]), gang("g", 12, waited=9e3), gang("h", 8))
    assert "g" not in found.by_request, "twelve slots never are whole agents of eight"
    assert found.by_request["h"].at == NOW
    assert spare(found) == {"n1": 8}


def test_later_reservations_stack_behind_earlier_ones() -> None:
    state = pool([8], [work("x", {"n0": 8}, 100)])
    wanted = [gang("g", 8, run=50), gang("h", 8, run=None), gang("i", 8)]
    found = kept(state, *wanted)
    assert [r.at for r in found.by_request.values()] == [NOW + 100, NOW + 150, None]


def test_a_later_reservation_may_use_the_time_before_an_earlier_one() -> None:
    """n1 is free now, but kept for g until n0 is; h fits in between."""
    state = pool([8, 8], [work("x", {"n0": 8}, 600)])
    found = kept(state, gang("g", 16, run=100))
    h = gang("h", 8, run=500)
    assert found.find(shape_of(h), h.expected_run_s) == {"n1": 8}
    found.start({"n1": 8}, 500)
    assert found.find(one(), 10) is None
    assert found.by_request["g"].at == NOW + 600


def test_several_sizes_of_agents_make_a_gang_when_the_pool_allows_it() -> None:
    tasks = [work("x", {"n0": 8}, 100), work("y", {"n1": 4}, 200), work("z", {"n2": 4}, 900)]
    assert place(pool([8, 4, 4], tasks, mixed=True), gang("g", 12)).at == NOW + 200
    assert guard(pool([8, 4, 4], tasks), gang("g", 12)) is not None
    assert not kept(pool([8, 4, 4], tasks), gang("g", 12)).by_request


def test_blocked_agents_and_single_agents_are_respected() -> None:
    tasks = [work("x", {"n0": 8}, 100), work("y", {"n1": 8}, 200)]
    state = pool([8, 8], tasks)
    assert set(place(state, gang("g", 8, blocked=["n0"])).placement) == {"n1"}
    assert not kept(state, gang("g", 16, single=True)).by_request
    assert not kept(state, gang("g", 16, blocked=["n1"])).by_request


def test_slots_that_are_taken_out_of_service_do_not_come_back() -> None:
    tasks = [work("x", {"n0": 8}, 100, closing={"n0": 1}), work("y", {"n1": 8}, 200)]
    assert place(pool([8, 8], tasks), gang("g", 8)).at == NOW + 200
    assert place(pool([8, 8], tasks), gang("g", 7)).at == NOW + 100


def test_an_agent_that_loses_a_slot_is_a_smaller_whole_one() -> None:
    tasks = [work(f"w{i}", {f"n{i}": 8}, 100, closing={f"n{i}": 1}) for i in range(2)]
    assert place(pool([8, 8], tasks), gang("g", 14)).placement == {"n0": 7, "n1": 7}


def test_work_must_respect_every_reservation_that_begins_before_it_ends() -> None:
    tasks = [work(f"w{i}", {f"n{i}": 4}, 100.0 * (i + 1)) for i in range(3)]
    found = kept(pool([8] * 3, tasks), *(gang(f"g{i}", 8) for i in range(3)))
    assert [r.at for r in found.by_request.values()] == [NOW + 100, NOW + 200, NOW + 300]
    fits = {
        run: [
            f"n{i}"
            for i in range(3)
            if found.find(RequestShape(1, True, frozenset({"n0", "n1", "n2"} - {f"n{i}"})), run)
        ]
        for run in (100.0, 150.0, 250.0, 350.0)
    }
    assert fits == {100.0: ["n0", "n1", "n2"], 150.0: ["n1", "n2"], 250.0: ["n2"], 350.0: []}


def test_slots_that_were_disabled_in_use_are_missing_first() -> None:
    tasks = [work("x", {"n0": 4}, 100), work("y", {"n0": 4}, 200)]
    assert place(pool([6], tasks), gang("g", 4)).at == NOW + 200


def test_who_starves() -> None:
    state = pool([8], [work("x", {"n0": 8}, 100)])
    assert guard(state, gang("g", 8, waited=AFTER - 1)) is None
    assert guard(state, gang("g", 1)) is None
    assert (
        guard(replace(state, settings=SchedulerSettings(reserve_after=None)), gang("g", 8)) is None
    )
    assert place(state, gang("h", 8, waited=5), gang("g", 8)).at == NOW + 100


def test_no_more_reservations_than_help() -> None:
    tasks = [work(f"w{i}", {f"n{i}": 8}, 100 + i) for i in range(40)]
    found = kept(pool([8] * 40, tasks), *(gang(f"g{i}", 8) for i in range(30)))
    assert list(found.by_request) == [f"g{i}" for i in range(MOST)]


def test_gangs_that_no_end_is_known_for_do_not_drain_the_whole_pool() -> None:
    tasks = [work(f"w{i}", {f"n{i}": 8}) for i in range(8)]
    found = kept(pool([8] * 8, tasks), *(gang(f"g{i}", 8) for i in range(5)))
    assert list(found.by_request) == ["g0", "g1"]
    large = kept(pool([8] * 8, tasks), gang("g", 64), gang("h", 8))
    assert list(large.by_request) == ["g"]


def test_the_facts_are_looked_at_again_after_ever_longer_times() -> None:
    times = [1_000, 1_999, 2_000, 3_999, 4_000, 8_000, 15_999]
    assert [facts_since(0.0, 1_000.0, t) for t in times] == [
        1_000, 1_000, 2_000, 2_000, 4_000, 8_000, 8_000,
    ]  # fmt: skip
    assert facts_since(0.0, 0.0, 299.0) == 0
    assert facts_since(0.0, 0.0, 300.0) == 300


def test_what_a_gang_is_told() -> None:
    known = place(pool([8], [work("x", {"n0": 8}, 1500)]), gang("g", 8))
    answer = reserved(known, NOW)
    assert answer.reason.kind is ReasonKind.QUEUED
    assert answer.needs_capacity
    assert answer.reason.text == (
        "queued: it has waited long, so 8 slots are kept for it on n0, free in about 25 minutes"
    )
    unknown = place(pool([8], [work("x", {"n0": 8})]), gang("g", 8))
    assert reserved(unknown, NOW).reason.text == (
        "queued: it has waited long, so 8 slots are kept for it on n0, free when x have ended"
    )


def test_leaving_work_is_gone_soon() -> None:
    assert place(pool([8], [work("x", {"n0": 8}, releasing=True)]), gang("g", 8)).at == (
        NOW + LEAVING_S
    )


lengths = st.none() | st.integers(1, 20).map(lambda n: n * 100.0)


@dataclass(frozen=True)
class Drawn:
    state: PoolState
    wanted: list[Request]


@st.composite
def crowded(draw: st.DrawFn) -> Drawn:
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=5))
    left = {f"n{i}": size for i, size in enumerate(sizes)}
    tasks: list[Running] = []
    for i in range(draw(st.integers(0, 10))):
        agent = draw(st.sampled_from(sorted(left)))
        if left[agent]:
            slots = draw(st.integers(1, left[agent]))
            left[agent] -= slots
            tasks.append(work(f"w{i}", {agent: slots}, draw(lengths), started=float(i)))
    wanted = [
        gang(f"g{i}", draw(st.sampled_from([2, 3, 4, 8, 12, 16])), run=draw(lengths))
        for i in range(draw(st.integers(1, 5)))
    ]
    return Drawn(pool(sizes, tasks, mixed=draw(st.booleans())), wanted)


@given(drawn=crowded(), data=st.data())
def test_nothing_that_is_allowed_delays_a_reservation(drawn: Drawn, data: st.DataObject) -> None:
    """All ends come as expected: every reserved slot is free at its time, whatever was started in between."""
    found = kept(drawn.state, *drawn.wanted)
    holders: list[tuple[Placement, float, float | None]] = [
        (task.placement, 0.0, task.expected_end) for task in drawn.state.running
    ]
    for name, held in found.by_request.items():
        if held.at is not None:
            run = next(r.expected_run_s for r in drawn.wanted if r.id == name)
            holders.append((held.placement, held.at, None if run is None else held.at + run))
    for _ in range(data.draw(st.integers(0, 12))):
        run = data.draw(lengths)
        placement = found.find(RequestShape(data.draw(st.integers(1, 8)), False, frozenset()), run)
        if placement is not None:
            found.start(placement, run)
            holders.append((placement, NOW, None if run is None else NOW + run))
    sizes = {agent.id: agent.slots for agent in drawn.state.agents}
    for time in (NOW, *(r.at for r in found.by_request.values() if r.at is not None)):
        for agent, size in sizes.items():
            used = sum(
                placement.get(agent, 0)
                for placement, begin, end in holders
                if begin <= time and (end is None or end > time)
            )
            assert used <= size, (agent, time)


class Flow:
    """A pool under an endless stream of small tasks, and one gang that waits."""

    def __init__(self, wanted: Request, sizes: list[int], *, guarded: bool) -> None:
        self.wanted = wanted
        self.state = pool(sizes, after=AFTER if guarded else None)
        self.ends: dict[str, float] = {}
        self.number = 0

    def step(self, lengths: list[float], guesses: list[float | None]) -> bool:
        """Fill the pool as far as allowed, or start the gang; then go to the next end. Whether the gang started."""
        found = guard(self.state, self.wanted)
        if found is not None and found.by_request[self.wanted.id].at == self.state.now:
            return True
        view = FreeSlots(self.state.settings, found.rows() if found else free_agents(self.state))
        if found is None and view.find(shape_of(self.wanted)) is not None:
            return True
        while True:
            length = lengths[self.number % len(lengths)]
            guess = guesses[self.number % len(guesses)]
            placement = found.find(one(), guess) if found else view.find(one())
            if placement is None:
                break
            if found:
                found.start(placement, guess)
            else:
                view.take(placement)
            self.begin(placement, length, guess)
        now = min(self.ends.values())
        ended = {name for name, end in self.ends.items() if end <= now}
        self.ends = {name: end for name, end in self.ends.items() if end > now}
        tasks = tuple(r for r in self.state.running if r.request.id not in ended)
        self.state = replace(self.state, now=now, running=tasks)
        return False

    def begin(self, placement: Placement, length: float, guess: float | None) -> None:
        now, name = self.state.now, f"t{self.number}"
        self.number += 1
        self.ends[name] = now + length
        task = Running(
            request=Request(id=name, job_id="t", slots=1, requested=now, expected_run_s=guess),
            placement=placement,
            started=now,
            expected_end=None if guess is None else now + guess,
        )
        self.state = replace(self.state, running=(*self.state.running, task))


def waited(flow: Flow, lengths: list[float], guesses: list[float | None]) -> float | None:
    for _ in range(2_000):
        if flow.step(lengths, guesses):
            return flow.state.now - flow.wanted.requested
    return None


@pytest.mark.parametrize("guesses", [[None], [300.0], [None, 100.0, 5000.0]])
def test_without_the_guard_small_tasks_flow_past_a_gang(guesses: list[float | None]) -> None:
    lengths = [310.0, 170.0, 490.0, 230.0, 610.0]
    wanted = gang("g", 16, waited=0.0)
    assert waited(fill(Flow(wanted, [8, 8, 8], guarded=False), lengths), lengths, guesses) is None
    bounded = waited(fill(Flow(wanted, [8, 8, 8], guarded=True), lengths), lengths, guesses)
    assert bounded is not None
    assert bounded <= AFTER + 2 * max(lengths)


def fill(flow: Flow, lengths: list[float]) -> Flow:
    """Begin with a full pool."""
    for i, agent in enumerate(a for a in flow.state.agents for _ in range(a.slots)):
        flow.begin({agent.id: 1}, lengths[i % len(lengths)], None)
    return flow


@given(
    lengths=st.lists(st.integers(10, 3_000).map(float), min_size=1, max_size=7),
    guesses=st.lists(st.none() | st.integers(1, 3_000).map(float), min_size=1, max_size=5),
    slots=st.sampled_from([4, 8, 16]),
)
def test_waiting_is_bounded_whatever_is_said_about_run_times(
    lengths: list[float], guesses: list[float | None], slots: int
) -> None:
    """Expected ends may be unknown or wrong. Once the guard keeps a place for longer than any task runs, it is free."""
    flow = fill(Flow(gang("g", slots, waited=0.0), [8, 8, 4], guarded=True), lengths)
    time = waited(flow, lengths, guesses)
    assert time is not None
    assert time <= AFTER + 8 * max(lengths)
