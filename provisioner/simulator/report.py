"""What a simulation says: money and waiting, each beside a bound that no configuration can be better than."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil

from provisioner.money.prices import usd_for, usd_per_slot_hour
from provisioner.planning.gang_classes import nodes_needed
from provisioner.simulator.replay import ClusterPlan, Played, PoolPlan, fits_agents
from provisioner.simulator.trace import TraceJob
from provisioner.types import Offer

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Seconds from a job's arrival, or from its interruption, until it runs; in all of a job's waits."""

    mean_s: float = 0.0
    p50_s: float = 0.0
    p95_s: float = 0.0
    p99_s: float = 0.0
    longest_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One simulation in figures. Hours are of machines, weighted by nothing; money is USD."""

    jobs: int
    refused_jobs: int
    """They fit no instance type of their pool, or not within max_instances."""
    usd: float
    least_usd: float
    """What the work alone costs on the cheapest machines that hold it, filled without a gap: no policy is cheaper."""
    least_machines: Mapping[int, str]
    """Slots of a job -> the machines that this assumes. The network between several of them is not counted."""
    busy_usd: float
    boot_usd: float
    """From a launch to the first agent."""
    idle_usd: float
    """Machines without any work."""
    stopped_usd: float
    """Disks of stopped machines."""
    unused_usd: float
    """Free slots of machines that have work."""
    redone_usd: float
    """Of the busy money: work done again after a machine was lost, and restarts."""
    waits: Waits
    boot_wait_s: float
    """What the mean wait is at least, without machines that are kept idle: a job waits for a boot if more slots are
    then in use than ever before."""
    machines: int
    most_machines: int
    busy_hours: float
    idle_hours: float
    boot_hours: float
    fell_back: int
    """Jobs that ran in a pool that their own falls back to."""
    interruptions: int
    starts: int
    """Of stopped machines."""
    refused_launches: int
    makespan_s: float
    """From the first arrival to the end of the last job."""

    @property
    def usd_over_least(self) -> float:
        return self.usd / self.least_usd if self.least_usd else 0.0

    @property
    def wait_over_boot(self) -> float:
        return self.waits.mean_s / self.boot_wait_s if self.boot_wait_s else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            **asdict(self),
            "usd_over_least": self.usd_over_least,
            "wait_over_boot": self.wait_over_boot,
        }


def summary(played: Played) -> Summary:
    machines = played.machines
    end = played.ended_s
    usd = boot = idle = disks = 0.0
    boot_s = idle_s = busy_s = 0.0
    runs: list[tuple[float, float]] = []
    for machine in machines:
        rate, ended = machine.offer.usd_per_hour, machine.ended_s or end
        ran = machine.runs(ended)
        ran_s, boots_s = sum(until - since for since, until in ran), machine.boots_s(ended)
        runs += ran
        usd += usd_for(rate, ran_s)
        boot += usd_for(rate, boots_s)
        idle += usd_for(rate, ran_s - boots_s - machine.busy_s)
        disks += usd_for(machine.offer.disk_usd_per_hour, ended - machine.created_s - ran_s)
        boot_s += boots_s
        busy_s += machine.busy_s
        idle_s += ran_s - boots_s - machine.busy_s
    usd += disks
    busy = sum(job.usd for job in played.jobs)
    first = min((job.job.arrival_s for job in played.jobs), default=0.0)
    last = max((job.ended_s or 0.0 for job in played.jobs), default=0.0)
    return Summary(
        jobs=len(played.jobs),
        refused_jobs=len(played.refused),
        usd=usd,
        least_usd=least_usd(
            played.plan, [job.job for job in played.jobs], meanwhile_s=max(0.0, last - first)
        ),
        least_machines=least_machines(played.plan, [job.job for job in played.jobs]),
        busy_usd=busy,
        boot_usd=boot,
        idle_usd=idle,
        stopped_usd=disks,
        unused_usd=max(0.0, usd - disks - boot - idle - busy),
        redone_usd=sum(job.lost_usd for job in played.jobs),
        waits=_waits([job.waited_s for job in played.jobs]),
        boot_wait_s=least_wait_s(played.plan, [job.job for job in played.jobs]),
        machines=len(machines),
        most_machines=_most(runs),
        busy_hours=busy_s / HOUR_S,
        idle_hours=idle_s / HOUR_S,
        boot_hours=boot_s / HOUR_S,
        fell_back=sum(job.away_runs > 0 for job in played.jobs),
        interruptions=sum(machine.interrupted for machine in machines),
        starts=played.starts,
        refused_launches=played.refused_calls,
        makespan_s=max(0.0, last - first),
    )


Shape = tuple[str, int, bool]
"""Of a job: its pool, its slots, and whether they must be on one agent."""


def least_usd(plan: ClusterPlan, jobs: Sequence[TraceJob], *, meanwhile_s: float = 0.0) -> float:
    """Each job's slots for its time, at the least price per slot of an offer that can hold it, of any pool it may
    run in; without the dearest of what agents that are always there can do in `meanwhile_s`.
    """
    pools = {pool.settings.pool: pool for pool in plan.pools}
    slot_seconds: dict[Shape, float] = {}
    for job in jobs:
        shape = (job.pool or plan.default_pool, job.slots, job.single_agent)
        slot_seconds[shape] = slot_seconds.get(shape, 0.0) + job.slots * job.duration_s
    prices = {shape: _least_price(pools, shape) for shape in slot_seconds}
    free = meanwhile_s * sum(sum(pool.agents) for pool in plan.pools)
    total = 0.0
    for shape in sorted(slot_seconds, key=lambda each: prices[each], reverse=True):
        paid = slot_seconds[shape]
        if any(fits_agents(pool, *shape[1:]) for pool in _may_run_in(pools, shape)):
            taken = min(free, paid)
            free, paid = free - taken, paid - taken
        if paid:
            total += usd_for(prices[shape], paid)
    return total


def _least_price(pools: Mapping[str, PoolPlan], shape: Shape) -> float:
    """Of one slot for an hour, in USD. What only agents that are always there can hold costs nothing."""
    offer = _least_offer(pools, shape)
    return 0.0 if offer is None else usd_per_slot_hour(offer)


def _least_offer(pools: Mapping[str, PoolPlan], shape: Shape) -> Offer | None:
    _, slots, single_agent = shape
    able = [
        offer
        for pool in _may_run_in(pools, shape)
        for offer in pool.offers
        if offer.slots and nodes_needed(slots, single_agent, offer.slots)
    ]
    return min(able, key=usd_per_slot_hour, default=None)


def least_machines(plan: ClusterPlan, jobs: Sequence[TraceJob]) -> Mapping[int, str]:
    """What `least_usd` assumes that jobs of each number of slots run on."""
    pools = {pool.settings.pool: pool for pool in plan.pools}
    shapes = sorted({(job.pool or plan.default_pool, job.slots, job.single_agent) for job in jobs})
    found: dict[int, str] = {}
    for shape in shapes:
        offer, (_, slots, single_agent) = _least_offer(pools, shape), shape
        if offer is None or slots in found:
            continue
        name = offer.key.instance_type or f"{offer.slots} slots"
        machines = nodes_needed(slots, single_agent, offer.slots) or 1
        part = f"{slots} of {offer.slots} slots of {name}"
        found[slots] = part if slots < offer.slots else f"{machines} x {name}"
    return dict(sorted(found.items()))


def _may_run_in(pools: Mapping[str, PoolPlan], shape: Shape) -> Sequence[PoolPlan]:
    return [pools[name] for name in (shape[0], *pools[shape[0]].falls_back.pools)]


def least_wait_s(plan: ClusterPlan, jobs: Sequence[TraceJob]) -> float:
    """The mean wait of a cluster that buys when work comes. A job with which more slots are wanted at once than ever
    before waits for the shortest boot, and so do jobs that come within that boot. Only the first is counted.

    What fits beside the agents that are always there waits for none."""
    boot_s = min((offer.boot_s for pool in plan.pools for offer in pool.offers), default=0.0)
    changes = sorted(
        [(job.arrival_s, 1, job.slots) for job in jobs]
        + [(job.arrival_s + job.duration_s, 0, -job.slots) for job in jobs]
    )
    wanted = records = 0
    height = sum(sum(pool.agents) for pool in plan.pools)
    for _, arrives, slots in changes:
        wanted += slots
        if arrives and wanted > height:
            height = wanted
            records += 1
    return boot_s * records / len(jobs) if jobs else 0.0


def _waits(seconds: Sequence[float]) -> Waits:
    if not seconds:
        return Waits()
    ordered = sorted(seconds)

    def share(part: float) -> float:
        return ordered[max(0, ceil(part * len(ordered)) - 1)]

    return Waits(
        mean_s=sum(ordered) / len(ordered),
        p50_s=share(0.5),
        p95_s=share(0.95),
        p99_s=share(0.99),
        longest_s=ordered[-1],
    )


def _most(lives: Sequence[tuple[float, float]]) -> int:
    """How many overlap at the most."""
    changes = sorted([(end, -1) for _, end in lives] + [(begin, 1) for begin, _ in lives])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


JOB_COLUMNS = (
    "job_id", "pool", "ran_in", "user", "slots", "arrival_s", "first_start_s", "ended_s", "waited_s", "runs",
    "redone_s", "usd",
)  # fmt: skip
MACHINE_COLUMNS = (
    "id", "pool", "instance_type", "zone", "market", "slots", "created_s", "ready_s", "ended_s", "busy_s", "usd",
    "interrupted",
)  # fmt: skip
TIMELINE_COLUMNS = (
    "at_s", "waiting_slots", "busy_slots", "up_slots", "booting", "usd_per_hour",
)  # fmt: skip


def tables(played: Played) -> Mapping[str, tuple[Sequence[str], list[list[object]]]]:
    """File name -> columns and rows: every job, every machine, and the cluster over time."""
    jobs: list[list[object]] = [
        [
            job.job.job_id, job.pool, job.ran_in, job.job.user, job.job.slots, job.job.arrival_s, job.first_start_s,
            job.ended_s, job.waited_s, job.runs, job.redone_s, round(job.usd, 6),
        ]
        for job in played.jobs
    ]  # fmt: skip
    machines: list[list[object]] = []
    for machine in played.machines:
        key, offer = machine.offer.key, machine.offer
        ended = played.ended_s if machine.ended_s is None else machine.ended_s
        usd = round(usd_for(offer.usd_per_hour, ended - machine.created_s), 6)
        machines.append([
            machine.id, machine.intent.pool, key.instance_type, key.zone, key.market.value, offer.slots,
            machine.created_s, machine.ready_s, machine.ended_s, machine.busy_s, usd, int(machine.interrupted),
        ])  # fmt: skip
    samples: list[list[object]] = [
        [getattr(sample, column) for column in TIMELINE_COLUMNS] for sample in played.samples
    ]
    return {
        "jobs.csv": (JOB_COLUMNS, jobs),
        "machines.csv": (MACHINE_COLUMNS, machines),
        "timeline.csv": (TIMELINE_COLUMNS, samples),
    }
