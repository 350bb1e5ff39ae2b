"""What the pages for Prometheus say, as families of samples. Pure: made of one picture of the cluster.

Labels are pools, states, markets and kinds, which are few whatever the cluster does. Names of single things are only in
the published families, for those that live now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from master.core.reasons import ReasonKind
from provisioner.fleet.counters import BOUNDS_S, Durations, FleetCounters
from provisioner.types import CostView, InstanceView
from rm_backends.views import AgentView, PoolView


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentLabels:
    id: int
    job_id: str
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One moment of the cluster."""

    pools: Sequence[PoolView] = ()
    agents: Sequence[AgentView] = ()
    waiting: Mapping[tuple[str, ReasonKind], int] = field(default_factory=dict)
    """Pool, why -> requests."""
    experiments: Sequence[ExperimentLabels] = ()
    instances: Sequence[InstanceView] = ()
    cost: CostView | None = None
    counters: FleetCounters | None = None


_NOT_THERE = frozenset({"asking", "accepted", "cancelling"})
"""States of machines that do not exist yet, and cost nothing."""


def page(families: Iterable[Metric]) -> bytes:
    """In the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Given(list(families)))
    return generate_latest(registry)


class _Given(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def published(picture: Picture) -> Iterator[Metric]:
    """Which container belongs to which allocation, task, job and experiment: each sample is 1."""
    pairs = {
        (container, allocation)
        for agent in picture.agents
        for container, allocation in agent.containers.items()
    }
    yield _ones("det_container_id_allocation_id", ("container_id", "allocation_id"), pairs)
    tasks = {(id_, id_.rpartition(".")[0], "") for _, id_ in pairs}
    labels = ("allocation_id", "task_id", "task_actor")
    yield _ones("det_allocation_id_task_id_task_actor", labels, tasks)
    gpus = {
        (slot.uuid, slot.container_id)
        for agent in picture.agents
        for slot in agent.slots
        if slot.uuid and slot.container_id is not None
    }
    yield _ones("det_gpu_uuid_container_id", ("gpu_uuid", "container_id"), gpus)
    jobs = {(each.job_id, str(each.id)) for each in picture.experiments}
    yield _ones("det_job_id_experiment_id", ("job_id", "experiment_id"), jobs)
    marks = {(str(each.id), label) for each in picture.experiments for label in each.labels}
    yield _ones("det_experiment_id_label", ("experiment_id", "label"), marks)


def own(picture: Picture) -> Iterator[Metric]:
    """Machines, money, slots and queues."""
    yield from _pools(picture)
    yield from _fleet(picture)
    if picture.counters is not None:
        yield from _done(picture.counters)


def _pools(picture: Picture) -> Iterator[Metric]:
    slots = GaugeMetricFamily("windlass_slots", "Slots in service", labels=("pool", "state"))
    agents = GaugeMetricFamily("windlass_agents", "Agents that are connected", labels=("pool",))
    running = GaugeMetricFamily(
        "windlass_running_requests", "Requests that hold slots", labels=("pool",)
    )
    for pool in picture.pools:
        slots.add_metric((pool.name, "used"), pool.slots_used)
        slots.add_metric((pool.name, "free"), max(0, pool.slots - pool.slots_used))
        agents.add_metric((pool.name,), pool.agents)
        running.add_metric((pool.name,), pool.running)
    waiting = GaugeMetricFamily(
        "windlass_waiting_requests", "Requests that wait, by why", labels=("pool", "reason")
    )
    for (name, why), count in sorted(picture.waiting.items()):
        waiting.add_metric((name, why.value), count)
    yield from (slots, agents, running, waiting)


def _fleet(picture: Picture) -> Iterator[Metric]:
    machines = GaugeMetricFamily(
        "windlass_instances", "Machines of elastic pools", labels=("pool", "state", "market")
    )
    counts = Counter((x.pool, x.state, x.offer.market.value) for x in picture.instances)
    for key, count in sorted(counts.items()):
        machines.add_metric(key, count)
    rates = GaugeMetricFamily(
        "windlass_usd_per_hour", "What machines cost per hour now", labels=("pool",)
    )
    usd: dict[str, float] = {}
    for each in picture.instances:
        if each.state not in _NOT_THERE:
            usd[each.pool] = usd.get(each.pool, 0.0) + each.usd_per_hour
    for name, rate in sorted(usd.items()):
        rates.add_metric((name,), rate)
    yield from (machines, rates)
    if picture.cost is not None:
        spent = CounterMetricFamily("windlass_usd", "What all machines have cost")
        spent.add_metric((), picture.cost.spent_usd)
        yield spent


def _done(counters: FleetCounters) -> Iterator[Metric]:
    launched = CounterMetricFamily(
        "windlass_launched_instances", "Machines launched", labels=("pool", "market")
    )
    for (name, market), count in sorted(counters.machines.items()):
        launched.add_metric((name, market.value), count)
    refused = CounterMetricFamily(
        "windlass_launch_refusals", "Launches that were refused, by why", labels=("kind",)
    )
    for kind, count in sorted(counters.refusals.items()):
        refused.add_metric((kind,), count)
    yield from (launched, refused)
    yield _histogram("windlass_plan_seconds", "How long planning took", counters.plans)
    yield _histogram(
        "windlass_pass_seconds", "How long a pass over the fleet took", counters.passes
    )


def _histogram(name: str, text: str, durations: Durations) -> Metric:
    bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
    buckets = list(zip(bounds, map(float, accumulate(durations.counts)), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=durations.sum_s)


def _ones(name: str, labels: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Metric:
    family = GaugeMetricFamily(name, "Which belong together", labels=labels)
    for row in sorted(rows):
        family.add_metric(row, 1.0)
    return family
