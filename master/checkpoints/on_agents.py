"""Deleting files that the master cannot or may not reach: a task without slots, as the owner, beside the files.

What such a task is to do is only in memory: after a restart of the master its row of `tables.CheckpointGc` starts a
new one, and what the old one deleted is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import structlog
from sqlalchemy import select

from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.machine import AllocationState
from master.allocations.mounts import storage_mount
from master.allocations.policy import ClusterPolicy
from master.allocations.service import AllocationService
from master.allocations.task_environment import RUN_DIR
from master.allocations.task_messages import TaskLogWriter
from master.checkpoints.planning import Deletion
from master.core.actor import Actor
from master.core.expconf import ExperimentConfig
from master.core.expconf.interactive import complete_task
from master.core.jobs import JobType
from master.experiments.lifecycle.garbage import EVERYTHING
from master.roots.live_roots import LiveRoots
from master.store import tables
from master.store.store import Store
from master.tasks import machine
from master.tasks.kinds import KINDS
from master.tasks.launch_specs import LaunchSpecs
from master.tasks.live import LiveParts, LiveTask
from master.tasks.machine import SUCCESS
from master.tasks.restoring import rebuild_tasks
from master.tasks.state import TaskState
from rm_backends.base import BindMount, LaunchSpec, RestoreRecord, TaskFile
from windlass.base.clock import Clock
from windlass.base.errors import NotFound
from windlass.base.formats.json_types import JsonObject
from windlass.base.ids import Ids
from windlass.storage.worker import Order

log = structlog.get_logger(__name__)

_GC = JobType.CHECKPOINT_GC
_PROGRAM = ("{python}", "-P", "-m", "windlass.core._collect")
_ORDER_FILE = f"{RUN_DIR}/checkpoint_gc.json"
_ORDER_VARIABLE = "WINDLASS_ORDER_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What one task is to do."""

    order: Order
    storage: BindMount | None
    """None: it is no directory of the node, or lies in one of the experiment's own mounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _GcSpecs(LaunchSpecs):
    errands: dict[str, Errand] = field(default_factory=dict)

    def spec(
        self, state: TaskState, owner_name: str, allocation: AllocationState, token: str
    ) -> LaunchSpec:
        """Raises KeyError for one whose errand was forgotten: it is ended anyway."""
        spec = LaunchSpecs.spec(self, state, owner_name, allocation, token)
        errand = self.errands[state.id]
        content = errand.order.model_dump_json().encode()
        return replace(
            spec,
            entrypoint=_PROGRAM,
            environment={
                **spec.environment,
                "DET_EXPERIMENT_ID": str(state.experiment_id),
                _ORDER_VARIABLE: _ORDER_FILE,
            },
            files=(*spec.files, TaskFile(path=_ORDER_FILE, content=content, mode=0o600)),
            binds=(*((errand.storage,) if errand.storage else ()), *spec.binds),
        )


class _Experiment(NamedTuple):
    config: JsonObject
    pool: str
    owner_id: int
    owner_name: str
    workspace_id: int


class OnAgents:
    """A task of kind CHECKPOINT_GC for each deletion, and the wait for its end."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        allocations: AllocationService,
        policy: ClusterPolicy,
        cluster: ClusterTasks,
        task_log: TaskLogWriter,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._policy = policy
        self._cluster = cluster
        self._specs = _GcSpecs(cluster=cluster)
        self._parts = LiveParts(
            store=store, clock=clock, allocations=allocations, specs=self._specs, task_log=task_log
        )
        self.roots: LiveRoots[LiveTask] = LiveRoots(allocations=allocations, clock=clock)

    async def restore(self) -> list[RestoreRecord]:
        """What the resource managers must know of tasks that a master before has started."""
        return self.roots.restore(await rebuild_tasks(self._parts, [_GC]))

    async def resume(self) -> None:
        """Nobody waits for those any more."""
        for root in self.roots:
            await root.apply(partial(machine.kill, reason="the master was restarted"))

    def collects(self, task_id: str | None, uuids: Collection[str]) -> bool:
        """Whether a task is there to delete files of these checkpoints: then it says what is left of them."""
        errand = self._specs.errands.get(task_id or "")
        return errand is not None and set(uuids) <= set(errand.order.folders)

    async def delete(
        self, experiment_id: int, deletion: Deletion, *, say: Callable[[str], None]
    ) -> list[str]:
        """Start a task for it and wait for its end; what could not be deleted, a line each.

        It may wait long for an agent: no machine is launched for it. `say` gets a line about the task, for the log.
        """
        found = await self._experiment(experiment_id)
        problems: list[str] = []
        for folders, globs in (
            (deletion.checkpoints, deletion.globs),
            (deletion.tensorboard, EVERYTHING),
        ):
            if folders:
                order = Order(
                    do="delete",
                    storage=self._cluster.storage_secrets.resolved(deletion.storage),
                    folders=folders,
                    globs=globs,
                )
                state = self._state(experiment_id, found)
                say(
                    f"The files are not the master's to reach: task {state.id} deletes them on an agent of "
                    f"resource pool {state.pool}, as soon as one is there"
                )
                problems += await self._run(state, found, order, deletion)
        return problems

    async def _run(
        self, state: TaskState, found: _Experiment, order: Order, deletion: Deletion
    ) -> list[str]:
        where = ExperimentConfig.from_json(
            {**found.config, "checkpoint_storage": dict(deletion.storage)}
        )
        self._specs.errands[state.id] = Errand(order=order, storage=storage_mount(where))
        live = LiveTask(self._parts, state, found.owner_name)
        by = Actor(user_id=found.owner_id, name=found.owner_name)
        try:
            await live.create(machine.launch, lambda: self.roots.register(live), by=by)
            log.info(
                "checkpoint collection launched", task=state.id, experiment=state.experiment_id
            )
            ended = await live.wait_until(lambda state: state.is_over)
        finally:
            self._specs.errands.pop(state.id, None)
        if ended.exit_status == SUCCESS:
            return []
        return [f"{ended.exit_status} (see `det task logs {state.id}`)"]

    def _state(self, experiment_id: int, found: _Experiment) -> TaskState:
        pool = self._policy.pool_of(found.pool, aux=True, what="experiment configuration")
        raw = {
            "description": f"Checkpoint collection (experiment {experiment_id})",
            "environment": found.config.get("environment") or {},
            "bind_mounts": found.config.get("bind_mounts") or [],
            "resources": {"slots": 0, "resource_pool": pool},
        }
        return TaskState(
            type=_GC,
            id=f"{experiment_id}.{self._ids.uuid()}",
            job_id=self._ids.uuid(),
            owner_id=found.owner_id,
            workspace_id=found.workspace_id,
            config=complete_task(KINDS[_GC].model, raw, defaults=self._policy.defaults[pool]),
            pool=pool,
            created_at=self._clock.now(),
        )

    async def _experiment(self, experiment_id: int) -> _Experiment:
        experiment, user, project = tables.Experiment, tables.User, tables.Project
        found = await self._store.read_one(
            select(
                experiment.config,
                experiment.resource_pool,
                experiment.owner_id,
                user.username,
                project.workspace_id,
            )
            .join(user, user.id == experiment.owner_id)
            .join(project, project.id == experiment.project_id)
            .where(experiment.id == experiment_id),
            _Experiment,
        )
        if found is None:
            raise NotFound("experiment", experiment_id)
        return found
