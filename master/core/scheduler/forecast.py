"""When a waiting request will probably start: the real scheduler, replayed on the state as it will probably become.

The replay goes from one expected end to the next. Work that it starts ends after its expected run time; work that is
asked to leave is soon gone and asks again, as shares assume too; launchable capacity comes when it is ready. New
submissions are unknown, and so is the end of work without an expected run time: it keeps its slots, and what waits for
them has no forecast.

Times are rounded up: ends that are close to each other, for how far ahead they are, count as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from master.core.scheduler import decide
from master.core.scheduler.release_forecast import LEAVING_S
from master.core.scheduler.types import (
    AgentState,
    Decision,
    Launchable,
    PoolState,
    Request,
    Running,
)

WORK = 1_000_000
"""How many requests, running ones and agents a forecast may look at, counted again in each step: a second or two."""
MOST_STEPS = 400
LEAST_STEPS = 6
HORIZON_S = 30 * 86400.0
"""Further ahead nothing is forecast."""
FIRST_STEP_S = 5.0
"""What ends within this time from now is one step."""


def expected_start(
    pool: PoolState, request_id: str, decide: Callable[[PoolState], Decision] = decide
) -> float | None:
    """Seconds since the epoch; None if run times that it depends on are unknown, if it is too far ahead, or if it
    does not wait.

    May take a second or two in large pools: not for the event loop.
    """
    if all(request.id != request_id for request in pool.waiting):
        return None
    steps = _steps(pool)
    coarseness = (HORIZON_S / FIRST_STEP_S) ** (1 / steps) - 1
    state = _with_expected_ends(pool)
    for _ in range(steps):
        decision = decide(state)
        if any(start.request_id == request_id for start in decision.start):
            return state.now
        state = _apply(state, decision)
        after = _next_time(state, pool.now, coarseness)
        if after is None or after > pool.now + HORIZON_S:
            return None
        state = _at(state, after)
    return None


def _steps(pool: PoolState) -> int:
    size = len(pool.waiting) + len(pool.running) + len(pool.agents) + 1
    return max(LEAST_STEPS, min(MOST_STEPS, WORK // size))


def _with_expected_ends(pool: PoolState) -> PoolState:
    """What is late is expected to be late for as long again; what leaves is expected to leave soon."""
    running = []
    for one in pool.running:
        end = one.expected_end
        if one.releasing:
            end = pool.now + LEAVING_S
        elif end is not None and end <= pool.now:
            end = pool.now + max(1.0, pool.now - end)
        running.append(replace(one, expected_end=end))
    return replace(pool, running=tuple(running))


def _apply(state: PoolState, decision: Decision) -> PoolState:
    placements = {start.request_id: start.placement for start in decision.start}
    asked = {release.request_id for release in decision.release}
    running = [
        replace(one, releasing=True, expected_end=state.now + LEAVING_S)
        if one.request.id in asked
        else one
        for one in state.running
    ]
    waiting: list[Request] = []
    for request in state.waiting:
        placement = placements.get(request.id)
        if placement is None:
            waiting.append(request)
            continue
        run = request.expected_run_s
        end = None if run is None else state.now + run
        running.append(
            Running(request=request, placement=placement, started=state.now, expected_end=end)
        )
    return replace(state, waiting=tuple(waiting), running=tuple(running))


def _next_time(state: PoolState, begin: float, coarseness: float) -> float | None:
    """The last of the ends that count as one with the next; None if nothing is known to change any more."""
    times = [one.expected_end for one in state.running if one.expected_end is not None]
    times += [state.now + one.ready_in_s for one in state.launchable if one.count > 0]
    first = min((time for time in times if time > state.now), default=None)
    if first is None:
        return None
    until = first + max(FIRST_STEP_S, (first - begin) * coarseness)
    return max(time for time in times if time <= until)


def _at(state: PoolState, now: float) -> PoolState:
    """The state at a later time, before anything is decided there."""
    ended = [
        one for one in state.running if one.expected_end is not None and one.expected_end <= now
    ]
    gone = {one.request.id for one in ended}
    agents = _without_closing(state.agents, ended)
    again = tuple(_again(one, now) for one in ended if one.releasing and one.request.preemptible)
    launchable: list[Launchable] = []
    for kind, offer in enumerate(state.launchable):
        ready_in_s = offer.ready_in_s - (now - state.now)
        if ready_in_s > 0:
            launchable.append(replace(offer, ready_in_s=ready_in_s))
        else:
            agents += _launched(offer, state, f"expected-{now:.0f}-{kind}")
    return replace(
        state,
        now=now,
        agents=agents,
        running=tuple(one for one in state.running if one.request.id not in gone),
        waiting=(*state.waiting, *again),
        launchable=tuple(launchable),
    )


def _without_closing(
    agents: tuple[AgentState, ...], ended: list[Running]
) -> tuple[AgentState, ...]:
    closed: dict[str, int] = {}
    for one in ended:
        for agent, slots in one.closing.items():
            closed[agent] = closed.get(agent, 0) + slots
    if not closed:
        return agents
    return tuple(replace(agent, slots=agent.slots - closed.get(agent.id, 0)) for agent in agents)


def _again(one: Running, now: float) -> Request:
    """Its next request, for the rest of its run."""
    run = one.request.expected_run_s
    if run is None:
        return one.request
    return replace(one.request, expected_run_s=max(1.0, run - (now - one.started)))


def _launched(offer: Launchable, state: PoolState, name: str) -> tuple[AgentState, ...]:
    """No more agents than could be wanted."""
    wanted = sum(request.slots for request in state.waiting)
    size = offer.slots_per_agent
    count = min(offer.count, wanted) if size > 0 else 0
    return tuple(AgentState(id=f"{name}-{n:06d}", slots=size) for n in range(count))
