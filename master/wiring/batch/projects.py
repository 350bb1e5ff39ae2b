"""What jobs of a batch system are booked on: wckeys of Slurm, projects of PBS (`job_project_source`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select

from master.config import ResolvedPool
from master.store import tables
from master.store.store import Store
from provisioner.batch.dialects import DIALECTS
from rm_backends.batch.leases import Lease

LABEL = "label"


class Names(NamedTuple):
    """Of the experiment of a job."""

    labels: Sequence[str]
    project: str
    workspace: str


class JobProjects:
    """Of the pools of one master."""

    def __init__(self, store: Store, pools: Sequence[ResolvedPool]) -> None:
        self._store = store
        self._sources: Mapping[str, str] = {
            pool.name: pool.batch.job_project_source for pool in pools if pool.batch is not None
        }

    async def of(self, lease: Lease) -> str:
        """Empty: nothing. Tasks that are of no experiment are booked on nothing."""
        source = self._sources.get(lease.pool, "")
        if not source:
            return ""
        allocation, task = tables.Allocation, tables.Task
        experiment, project, workspace = tables.Experiment, tables.Project, tables.Workspace
        found = await self._store.read(
            select(experiment.labels, project.name, workspace.name)
            .join(task, task.experiment_id == experiment.id)
            .join(allocation, allocation.task_id == task.id)
            .join(project, project.id == experiment.project_id)
            .join(workspace, workspace.id == project.workspace_id)
            .where(allocation.id == lease.allocation_id),
            Names,
        )
        return (
            project_of(found[0], source, DIALECTS[lease.shape.system].joins_labels) if found else ""
        )


def project_of(names: Names, source: str, joined: str) -> str:
    """Pure. Letters that one of the two systems would not take become `_`."""
    if source == "project":
        words = [names.project]
    elif source == "workspace":
        words = [names.workspace]
    else:
        prefix = source.removeprefix(LABEL).removeprefix(":")
        words = [one.removeprefix(prefix) for one in names.labels if one.startswith(prefix)]
    return joined.join(
        filter(None, (re.sub(r"[^\w.@=-]", "_", word).lstrip("-") for word in words))
    )
