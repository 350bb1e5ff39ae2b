"""Pools of batch systems as the published client sees them."""

from __future__ import annotations

import pytest

from master.api.resource_pools.wire import resource_pool
from master.core.scheduler.types import SchedulerSettings
from rm_backends.views import PoolView


@pytest.mark.parametrize(("kind", "word"), [("slurm", "SLURM"), ("pbs", "PBS")])
def test_who_schedules_is_named(kind: str, word: str) -> None:
    """Though its requests wait in our queue, too, until they are submitted."""
    view = PoolView(
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
    pool = resource_pool(view, None, (), cluster_name="c", default_compute=False, default_aux=False)
    assert pool["schedulerType"] == f"SCHEDULER_TYPE_{word}"
    assert pool["schedulerFittingPolicy"] == f"FITTING_POLICY_{word}"
