"""Pools of batch systems as the published client sees them."""

from __future__ import annotations

import pytest

from master.api.resource_pools.replies import ResourcePool
from master.api.resource_pools.wire import resource_pool
from master.config import ResolvedPool
from master.core.scheduler.types import SchedulerSettings
from provisioner.sections.batch import BatchSection, PbsSection, SlurmSection
from rm_backends.views import PoolView
from tests.fakes.pools import resolved_pool


def view_of(kind: str) -> PoolView:
    return PoolView(
        name="batch",
        description="",
        type=kind,
        dynamic=True,
        agents=0,
        slots=0,
        slots_used=0,
        aux_running=0,
        aux_capacity=0,
        waiting=0,
        running=0,
        settings=SchedulerSettings(),
    )


def shown(pool: ResolvedPool) -> ResourcePool:
    view = view_of(pool.kind)
    return resource_pool(view, pool, (), cluster_name="c", default_compute=False, default_aux=False)


@pytest.mark.parametrize(
    ("section", "word"),
    [(SlurmSection(type="slurm"), "SLURM"), (PbsSection(type="pbs"), "PBS")],
)
def test_who_schedules_is_named(section: BatchSection, word: str) -> None:
    """Though its requests wait in our queue, too, until they are submitted."""
    pool = shown(resolved_pool("batch", section))
    assert pool["schedulerType"] == f"SCHEDULER_TYPE_{word}"
    assert pool["schedulerFittingPolicy"] == f"FITTING_POLICY_{word}"


def test_pilots_are_machines_on_which_we_schedule() -> None:
    pilots = SlurmSection(type="slurm", mode="pilot")
    pool = shown(resolved_pool("search", pilots))
    assert pool["schedulerType"] == "SCHEDULER_TYPE_FAIR_SHARE"
    assert pool["schedulerFittingPolicy"] == "FITTING_POLICY_BEST"
