"""How long `decide()` takes, at the sizes of the performance budget: run it, it prints a table.

States: `empty` (nothing runs), `full` (90 % of the slots run work of jobs that may keep it), `contended` (90 % run
work of one old job while others want their shares: thousands of victims), `gangs` (mixed sizes), `jobs` (every
request is a job of its own), `elastic` (launchable capacity besides). Times are CPU time, the median of five runs:
the decision is one thread without I/O, and other load on the machine should not show.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from master.core.scheduler import decide
from master.core.scheduler.types import (
    AgentState,
    Job,
    Launchable,
    PoolState,
    Request,
    Running,
    SchedulerSettings,
)

BUDGET_MS = 100.0
BUDGET_REQUESTS = 10_000
AGENTS = 1_000
SLOTS = 8
JOBS = 100
RUNS = 5
GANGS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `ratio` is time over budget; the budget grows with the requests."""

    state: str
    requests: int
    agents: int
    started: int
    released: int
    ms: float
    budget_ms: float
    ratio: float


def agents() -> tuple[AgentState, ...]:
    return tuple(AgentState(id=f"agent-{i:04d}", slots=SLOTS) for i in range(AGENTS))


def jobs(count: int) -> dict[str, Job]:
    return {f"job-{i:05d}": Job(id=f"job-{i:05d}", submitted=float(i)) for i in range(count)}


def waiting(count: int, job_ids: list[str], gangs: tuple[int, ...] = (1,)) -> tuple[Request, ...]:
    return tuple(
        Request(
            id=f"wait-{i:06d}",
            job_id=job_ids[i % len(job_ids)],
            slots=gangs[i // len(job_ids) % len(gangs)],
            requested=float(i),
        )
        for i in range(count)
    )


def running(job_ids: list[str]) -> tuple[Running, ...]:
    """90 % of the slots, one by one, spread over all agents."""
    return tuple(
        Running(
            request=Request(
                id=f"run-{i:05d}", job_id=job_ids[i % len(job_ids)], slots=1, requested=0.0
            ),
            placement={f"agent-{i % AGENTS:04d}": 1},
            started=float(i),
        )
        for i in range(AGENTS * SLOTS * 9 // 10)
    )


def states(requests: int) -> Iterator[tuple[str, PoolState]]:
    """The states of the table, with so many waiting requests."""
    book = jobs(JOBS)
    ids = list(book)
    many = jobs(requests)
    base = {"now": 1e6, "settings": SchedulerSettings(), "agents": agents()}

    def state(**more: object) -> PoolState:
        return PoolState(**{**base, **more})  # type: ignore[arg-type]

    ones = waiting(requests, ids)
    yield "empty", state(jobs=book, waiting=ones)
    yield "full", state(jobs=book, waiting=ones, running=running(ids))
    yield "contended", state(jobs=book, waiting=ones, running=running(ids[:1]))
    mixed = waiting(requests, ids, GANGS)
    yield "gangs, empty", state(jobs=book, waiting=mixed)
    yield "gangs, contended", state(jobs=book, waiting=mixed, running=running(ids[:1]))
    yield "jobs, empty", state(jobs=many, waiting=waiting(requests, list(many)))
    yield (
        "elastic",
        state(
            jobs=book,
            waiting=ones,
            running=running(ids),
            launchable=(Launchable(slots_per_agent=SLOTS, count=AGENTS, ready_in_s=120.0),),
        ),
    )


def median_ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        call()
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times)


def measure(name: str, state: PoolState) -> Row:
    decision = decide(state)
    ms = median_ms(lambda: decide(state))
    budget = BUDGET_MS * max(1.0, len(state.waiting) / BUDGET_REQUESTS)
    return Row(
        state=name,
        requests=len(state.waiting),
        agents=len(state.agents),
        started=len(decision.start),
        released=len(decision.release),
        ms=round(ms, 1),
        budget_ms=budget,
        ratio=round(ms / budget, 2),
    )


def table(rows: list[Row]) -> str:
    lines = [
        f"{'state':<18}{'requests':>9}{'agents':>8}{'start':>7}{'release':>9}"
        f"{'ms':>9}{'budget':>8}{'ratio':>7}"
    ]
    lines += [
        f"{r.state:<18}{r.requests:>9}{r.agents:>8}{r.started:>7}{r.released:>9}"
        f"{r.ms:>9.1f}{r.budget_ms:>8.0f}{r.ratio:>7.2f}"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--requests",
        type=int,
        nargs="+",
        default=[1_000, 10_000, 100_000],
        help="numbers of waiting requests to measure",
    )
    options = parser.parse_args()
    rows = [measure(name, state) for count in options.requests for name, state in states(count)]
    print(json.dumps([asdict(row) for row in rows]) if options.json else table(rows))


if __name__ == "__main__":
    main()
