"""Traces of jobs through the simulator: ours beside other ways to buy machines, and beside the bounds.

Boots take 180 s, capacity is unlimited, prices grow with the slots: the case in which every buyer with several sizes is
close to the least cost, so small differences are real ones. Then one zone beside three that are out of stock by turns,
and how long a trace takes on the types of AWS in two zones.

    python -m benchmarks.bench_simulate [--traces philly_103959 ...] [--largest]
"""

from __future__ import annotations

import asyncio
import logging
import random
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from master.core.fall_back import FallBackRule
from master.core.scheduler.types import SchedulerSettings
from provisioner.money.expected_cost import NETWORK_GBPS_PER_SLOT
from provisioner.money.price_book import BUNDLED, PriceBook, read_table
from provisioner.planning.scale_down.disruption import Disruption
from provisioner.planning.scale_down.stopped_agents import StoppedAgents
from provisioner.simulator.baselines import LeastWaste, SumOfSlots
from provisioner.simulator.machines import Outage, Supply
from provisioner.simulator.replay import (
    ClusterPlan,
    MakeBuyer,
    PoolPlan,
    play,
    provisioner_of,
)
from provisioner.simulator.report import Summary, summary
from provisioner.simulator.trace import TraceJob, read_trace
from provisioner.types import Offer, OfferKey, PoolSettings

TRACES = Path(__file__).resolve().parent.parent / "tests" / "traces"
BOOT_S = 180.0
BUDGET_S, BUDGET_MB = 60.0, 500.0
"""For the largest trace, 5,755 jobs in 99 days, whatever the types are: CPU time on a machine as fast as the
calibration says."""
AWS_TYPES = (
    *("g4dn.xlarge", "g4dn.12xlarge", "g5.xlarge", "g5.12xlarge", "g5.48xlarge"),
    *("g6.xlarge", "g6.12xlarge", "g6.48xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge"),
)
AWS_REGION, AWS_ZONES = "us-east-1", ("us-east-1a", "us-east-1b")
AWS_JOBS = sized(720, 10)
"""Without `--largest`."""
SIZES = (1, 2, 4, 8)
ZONE_JOBS = sized(300, 10)
PACKING = Disruption(packing=True)
REPLACEMENT = Disruption(packing=True, replacement=True)
FALL_BACK_AFTER_S = (0.0, 300.0, 1800.0)
STOPPED = StoppedAgents(
    max=64, expected_gap=timedelta(seconds=3600.0), max_age=timedelta(seconds=86_400.0)
)
DISK_USD = 0.011
"""Of a disk of 100 GB, as an hour of a slot costs 1."""
UP_S, DOWN_S = 3 * 3600.0, 111 * 60.0
"""Mean times that a zone has capacity and has none; the latter as measured for spot machines."""


def an_offer(slots: int, zone: str = "a") -> Offer:
    key = OfferKey(provider="gpu", zone=zone, instance_type=f"gpu-{slots}")
    return Offer(
        key=key,
        slots=slots,
        usd_per_hour=float(slots),
        boot_s=BOOT_S,
        can_stop=True,
        disk_usd_per_hour=DISK_USD,
    )


def aws_offers() -> list[Offer]:
    """As the bundled price book has them."""
    book = PriceBook(table=read_table(BUNDLED))
    offers = []
    for name in AWS_TYPES:
        known = book.machine("aws", name)
        assert known is not None
        for zone in AWS_ZONES:
            key = OfferKey(provider="aws", region=AWS_REGION, zone=zone, instance_type=name)
            offers.append(
                Offer(
                    key=key,
                    slots=known.gpus,
                    usd_per_hour=known.usd_per_hour[AWS_REGION],
                    boot_s=BOOT_S,
                    gpu_model=known.gpu_model,
                    network_gbps=known.network_gbps,
                )
            )
    return offers


def a_plan(
    offers: Sequence[Offer], idle_s: float, supply: Supply | None = None, **more: Any
) -> ClusterPlan:
    settings = PoolSettings(pool="gpu", max_instances=100_000, max_idle_s=idle_s, **more)
    pool = PoolPlan(settings=settings, scheduler=SchedulerSettings(), offers=offers)
    return ClusterPlan(pools=[pool], default_pool="gpu", supply=supply or Supply(stock={}))


def run(plan: ClusterPlan, jobs: Sequence[TraceJob], buyer: MakeBuyer) -> tuple[Summary, float]:
    start = time.process_time()
    told = summary(asyncio.run(play(plan, jobs, buyer=buyer)))
    return told, time.process_time() - start


def print_row(name: str, told: Summary, seconds: float) -> None:
    waits = told.waits
    print(
        f"  {name:<28} {told.usd_over_least:>6.3f} {waits.mean_s / BOOT_S:>7.2f} {waits.p95_s / BOOT_S:>7.2f} "
        f"{told.boot_usd / told.usd:>6.1%} {told.idle_usd / told.usd:>6.1%} {told.unused_usd / told.usd:>6.1%} "
        f"{told.machines:>8,} {seconds:>7.1f}"
    )


def compare(name: str) -> None:
    jobs = read_trace(TRACES / f"{name}.csv").jobs[: sized(None, 5)]
    every = [an_offer(slots) for slots in SIZES]
    print(
        f"{name}: {len(jobs):,} jobs, cost over the least possible, waits over a boot ({BOOT_S:.0f} s)"
    )
    print(
        f"  {'':<28} {'cost':>6} {'mean':>7} {'p95':>7} {'boot':>6} {'idle':>6} {'free':>6} machines   CPU s"
    )
    cases: list[tuple[str, ClusterPlan, MakeBuyer]] = [
        ("one type, sum of slots", a_plan([an_offer(8)], 1200.0), SumOfSlots),
        ("least waste", a_plan(every, 600.0), LeastWaste),
        ("ours, idle 20 min", a_plan(every, 1200.0), provisioner_of),
        ("ours, idle 5 min (default)", a_plan(every, 300.0), provisioner_of),
        ("ours, idle one boot", a_plan(every, BOOT_S), provisioner_of),
        ("ours, packing", a_plan(every, 300.0, disruption=PACKING), provisioner_of),
        ("ours, replacement", a_plan(every, 300.0, disruption=REPLACEMENT), provisioner_of),
        ("ours, stopped", a_plan(every, 300.0, stopped=STOPPED), provisioner_of),
        ("ours, one boot, stopped", a_plan(every, BOOT_S, stopped=STOPPED), provisioner_of),
        ("ours, idle auto", a_plan(every, 1800.0, idle_auto=True), provisioner_of),
    ]
    for label, plan, buyer in cases:
        told, seconds = run(plan, jobs, buyer)
        print_row(label, told, seconds)


def zones() -> None:
    """A day of outages, drawn by seed: how long jobs wait with one zone, and with three."""
    rng = random.Random(7)
    jobs = [
        TraceJob(job_id=str(n), arrival_s=900.0 * n, slots=rng.choice(SIZES), duration_s=3600.0)
        for n in range(ZONE_JOBS)
    ]
    outages = [outage for zone in "abc" for outage in drawn_outages(zone, ZONE_JOBS * 900.0, rng)]
    print(
        "zones that are out of stock by turns (up 3 h, down 111 min on average), mean wait over a boot:"
    )
    waited = {}
    for names in ("a", "abc"):
        offers = [an_offer(slots, zone) for slots in SIZES for zone in names]
        told, seconds = run(
            a_plan(offers, 300.0, Supply(stock={}, outages=outages)), jobs, provisioner_of
        )
        waited[names] = told.waits.mean_s
        print(
            f"  {len(names)} zone(s): mean {told.waits.mean_s / BOOT_S:.2f}, p95 {told.waits.p95_s / BOOT_S:.2f}, "
            f"{told.refused_launches / len(jobs):.2f} refused launches a job ({seconds:.1f} s)"
        )
    print(f"  one zone waits {waited['a'] / waited['abc']:.1f} times as long as three")
    for after_s in FALL_BACK_AFTER_S:
        supply = Supply(stock={}, outages=outages)
        told, seconds = run(falling_back("abc", after_s, supply), jobs, provisioner_of)
        print(
            f"  a pool a zone, falling back after {after_s:4.0f} s: mean {told.waits.mean_s / BOOT_S:.2f}, "
            f"p95 {told.waits.p95_s / BOOT_S:.2f}, {told.fell_back / len(jobs):.0%} elsewhere ({seconds:.1f} s)"
        )
    print()


def falling_back(zones: str, after_s: float, supply: Supply) -> ClusterPlan:
    """A pool for each zone; all work asks in the first, which falls back to the others."""
    plans = []
    for zone in zones:
        (pool,) = a_plan([an_offer(slots, zone) for slots in SIZES], 300.0).pools
        others = tuple(zones[1:]) if zone == zones[0] else ()
        settings = replace(pool.settings, pool=zone)
        rule = FallBackRule(pools=others, after_s=after_s)
        plans.append(replace(pool, settings=settings, falls_back=rule))
    return ClusterPlan(pools=plans, default_pool=zones[0], supply=supply)


def drawn_outages(zone: str, until_s: float, rng: random.Random) -> list[Outage]:
    outages = []
    at = rng.expovariate(1 / UP_S)
    while at < until_s:
        end = at + rng.expovariate(1 / DOWN_S)
        outages.append(Outage(from_s=at, until_s=end, zone=zone))
        at = end + rng.expovariate(1 / UP_S)
    return outages


def largest(*, whole: bool) -> None:
    """`whole`: all of its jobs; else a share of them that says nothing about the budget."""
    jobs = read_trace(TRACES / "philly_ee9e8c.csv").jobs
    jobs = jobs if whole else jobs[:AWS_JOBS]
    slower = loop_s() / REFERENCE_S
    gpu = [an_offer(slots) for slots in SIZES]
    on_aws = a_plan(aws_offers(), 300.0, network_gbps_per_slot=NETWORK_GBPS_PER_SLOT)
    for name, plan in (("4 sizes", a_plan(gpu, 300.0)), ("AWS, 11 types x 2 zones", on_aws)):
        told, seconds = run(plan, jobs, provisioner_of)
        print_row(name, told, seconds)
        print(
            f"    {told.jobs:,} jobs in {seconds / slower:.1f} s of CPU, normalised "
            f"(budget: {BUDGET_S:.0f} s for 5,755 jobs)"
        )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak memory {memory:.0f} MB (budget: {BUDGET_MB:.0f} MB)\n")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--traces", nargs="*", default=["philly_103959", "philly_2869ce"])
    parser.add_argument("--largest", action="store_true", help="also the trace of 5,755 jobs")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print_calibration()
    for name in options.traces:
        compare(name)
    zones()
    largest(whole=options.largest)


if __name__ == "__main__":
    main()
