"""How long `decide()` takes, at the sizes of the performance budget: 10,000 waiting requests, 1,000 agents of 8 slots.

States, for every policy: `empty` (nothing runs), `full` (90 % of the slots run work of jobs that may keep it),
`contended` (90 % run work of one job that others may take from: thousands of victims), `gangs` (mixed sizes), `jobs`
(every request is a job of its own), `elastic` (launchable capacity besides), `starving` (2,000 gangs of two agents that
have waited for hours, so the starvation guard reserves). Then the whole of what a pool does, for the states that the
budget names: its snapshot, the decision, and applying it. Then how the time grows with the requests, and the decisions
of one simulated busy day, each applied before the next.

Times are CPU time, the median of five: a decision is one thread without I/O, and other load on the machine should not
show. `MiB` is what a decision allocates at most at a time. The ratio is time over budget.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import slower
from benchmarks.decide_pools import pool_in
from benchmarks.decide_states import VARIANTS, Day, states, used_part
from master.core.scheduler import POLICIES
from master.core.scheduler import decide as decide_at_all
from master.core.scheduler.types import Decision, PoolState
from master.serve import tune_interpreter
from windlass.base.collector import paused_collector

BUDGET_MS = 100.0
REQUESTS = sized(10_000, 50)
RUNS = sized(5, 1)
TICKS = sized(50, 2)
BUDGET_STATES = ("empty", "full")
"""For these the budget holds with snapshot and apply; how time grows is shown for them, too."""
GROWTH = sized((1_000, 10_000, 100_000), (20, 50, 100))


@dataclass(frozen=True, slots=True)
class Row:
    """One state under one policy."""

    policy: str
    state: str
    started: int
    released: int
    ms: float
    ratio: float
    mib: float


@dataclass(frozen=True, slots=True)
class WholeRow:
    """One state under one policy, as a real pool goes through it."""

    policy: str
    state: str
    snapshot_ms: float
    decide_ms: float
    apply_ms: float
    ms: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Growth:
    """Milliseconds by number of requests; `exponent` 1 would be exactly linear, from the middle to the end."""

    policy: str
    state: str
    ms: dict[int, float]
    exponent: float


@dataclass(frozen=True, slots=True)
class DayRow:
    """The decisions of one day."""

    policy: str
    started: int
    released: int
    used_percent: float
    mean_ms: float
    worst_ms: float
    ratio: float


def decide(state: PoolState) -> Decision:
    """As a pool does it."""
    with paused_collector():
        return decide_at_all(state)


def timed_ms(call: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    result = call()
    gc.collect(0)  # a decision leaves that for later, but it is its work
    elapsed = time.process_time() - start
    del result
    return elapsed * 1e3


def peak_mib(state: PoolState) -> float:
    tracemalloc.start()
    try:
        decide(state)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def measure(policy: str, name: str, state: PoolState) -> Row:
    decision = decide(state)
    ms = statistics.median(timed_ms(lambda: decide(state)) for _ in range(RUNS))
    return Row(
        policy=policy,
        state=name,
        started=len(decision.start),
        released=len(decision.release),
        ms=round(ms, 1),
        ratio=round(ms / BUDGET_MS, 2),
        mib=round(peak_mib(state), 1),
    )


def whole(policy: str) -> Iterator[WholeRow]:
    for name, state in states(VARIANTS[policy], REQUESTS):
        if name in BUDGET_STATES:
            runs = [asyncio.run(go_through(state)) for _ in range(RUNS)]
            snapshot, decided, applied = (
                round(statistics.median(times), 1) for times in zip(*runs, strict=True)
            )
            ms = statistics.median(sum(times) for times in runs)
            yield WholeRow(
                policy=policy,
                state=name,
                snapshot_ms=snapshot,
                decide_ms=decided,
                apply_ms=applied,
                ms=round(ms, 1),
                ratio=round(ms / BUDGET_MS, 2),
            )


async def go_through(state: PoolState) -> tuple[float, float, float]:
    """Milliseconds for snapshot, decision and apply. It is not the pool's first look: what it keeps, it has."""
    pool = pool_in(state)
    pool.snapshot()
    gc.collect()
    times = [time.process_time()]
    seen = pool.snapshot()
    times.append(time.process_time())
    decision = decide(seen)
    times.append(time.process_time())
    await pool.apply(seen, decision)
    times.append(time.process_time())
    snapshot, decided, applied = ((b - a) * 1e3 for a, b in pairwise(times))
    return snapshot, decided, applied


def grow(policy: str) -> Iterator[Growth]:
    found: dict[str, dict[int, float]] = {name: {} for name in BUDGET_STATES}
    for count in GROWTH:
        for name, state in states(VARIANTS[policy], count):
            if name in BUDGET_STATES:
                runs = 1 if count > REQUESTS else RUNS
                ms = statistics.median(timed_ms(partial(decide, state)) for _ in range(runs))
                found[name][count] = round(ms, 1)
    for name, ms_of in found.items():
        last, before = GROWTH[-1], GROWTH[-2]
        exponent = math.log(ms_of[last] / ms_of[before]) / math.log(last / before)
        yield Growth(policy=policy, state=name, ms=ms_of, exponent=round(exponent, 2))


def live(policy: str) -> DayRow:
    day = Day(VARIANTS[policy], REQUESTS)
    times: list[float] = []
    used: list[float] = []
    started = released = 0
    for _ in range(TICKS):
        gc.collect()
        start = time.process_time()
        decision = decide(day.state)
        gc.collect(0)
        times.append((time.process_time() - start) * 1e3)
        started += len(decision.start)
        released += len(decision.release)
        day.advance(decision)
        used.append(used_part(day.state))
    mean = statistics.mean(times)
    return DayRow(
        policy=policy,
        started=started,
        released=released,
        used_percent=round(100 * statistics.mean(used), 1),
        mean_ms=round(mean, 1),
        worst_ms=round(max(times), 1),
        ratio=round(mean / BUDGET_MS, 2),
    )


def print_rows(policies: list[str]) -> list[Row]:
    print(f"{'policy':<19}{'state':<18}{'start':>7}{'release':>9}{'ms':>9}{'ratio':>7}{'MiB':>7}")
    rows: list[Row] = []
    for policy in policies:
        for name, state in states(VARIANTS[policy], REQUESTS):
            r = measure(policy, name, state)
            rows.append(r)
            print(
                f"{r.policy:<19}{r.state:<18}{r.started:>7}{r.released:>9}{r.ms:>9.1f}"
                f"{r.ratio:>7.2f}{r.mib:>7.1f}",
                flush=True,
            )
    return rows


def print_whole(policies: list[str]) -> list[WholeRow]:
    heads = f"{'snapshot':>10}{'decide':>9}{'apply':>9}{'ms':>9}{'ratio':>7}"
    print(f"\n{'with snapshot, apply':<22}{'state':<10}{heads}   budget {BUDGET_MS:g} ms")
    rows: list[WholeRow] = []
    for policy in policies:
        for w in whole(policy):
            rows.append(w)
            print(
                f"{w.policy:<22}{w.state:<10}{w.snapshot_ms:>10.1f}{w.decide_ms:>9.1f}"
                f"{w.apply_ms:>9.1f}{w.ms:>9.1f}{w.ratio:>7.2f}",
                flush=True,
            )
    return rows


def print_growth(policies: list[str]) -> list[Growth]:
    heads = "".join(f"{f'{count:,}':>10}" for count in GROWTH)
    print(f"\n{'ms by requests':<19}{'state':<10}{heads}{'exponent':>10}")
    rows: list[Growth] = []
    for policy in policies:
        for g in grow(policy):
            rows.append(g)
            times = "".join(f"{g.ms[count]:>10.1f}" for count in GROWTH)
            print(f"{g.policy:<19}{g.state:<10}{times}{g.exponent:>10.2f}", flush=True)
    return rows


def print_days(policies: list[str]) -> list[DayRow]:
    heads = f"{'start':>8}{'release':>9}{'used':>8}{'mean ms':>9}{'worst':>8}{'ratio':>7}"
    print(f"\n{f'a day, {TICKS} ticks':<19}{heads}")
    rows: list[DayRow] = []
    for policy in policies:
        d = live(policy)
        rows.append(d)
        print(
            f"{d.policy:<19}{d.started:>8}{d.released:>9}{d.used_percent:>7.1f}%"
            f"{d.mean_ms:>9.1f}{d.worst_ms:>8.1f}{d.ratio:>7.2f}",
            flush=True,
        )
    return rows


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--policy",
        choices=list(VARIANTS),
        nargs="+",
        default=sized(list(VARIANTS), list(VARIANTS)[:1]),
    )
    options = parser.parse_args()
    tune_interpreter()  # as in the master's process
    there = [policy for policy in options.policy if VARIANTS[policy].type in POLICIES]
    if options.json:
        answer = {
            "states": [
                asdict(measure(policy, name, state))
                for policy in there
                for name, state in states(VARIANTS[policy], REQUESTS)
            ],
            "whole": [asdict(row) for policy in there for row in whole(policy)],
            "growth": [asdict(row) for policy in there for row in grow(policy)],
            "day": [asdict(live(policy)) for policy in there],
        }
        print(json.dumps(answer))
        return 0
    for policy in options.policy:
        if policy not in there:
            print(f"{policy}: not available, left out")
    print_rows(there)
    rows = print_whole(there)
    print_growth(there)
    print_days(there)
    return exit_code(all(row.ratio <= slower() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
