"""Experiments and allocations on a real store, above a resource manager that does only what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.machine import AllocationState
from master.allocations.policy import ClusterPolicy
from master.checkpoints.workers import Deleter
from master.core.expconf import ClusterDefaults
from master.core.reasons import Reason
from master.experiments.lifecycle.state import TrialState
from master.experiments.live import LiveExperiment
from master.experiments.submission.creation import NewExperiment
from master.store import tables
from master.store.blobs import BlobStore
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.wiring.control_plane import Parts, build
from rm_backends.base import (
    Abilities,
    AllocationHint,
    AllocationRequest,
    AlreadyGranted,
    Container,
    ContainerExit,
    ContainerPhase,
    Granted,
    JobOrder,
    LaunchSpec,
    ResourceChanged,
    RestoreRecord,
    Withdrawn,
)
from tests.fakes.actors import ADMIN
from tests.fakes.inline_deleter import InlineDeleter
from windlass.base.clock import Clock, ManualClock
from windlass.base.errors import BatchSystemError, StoreUnavailable, Unfulfillable, Unsatisfiable
from windlass.base.ids import Ids

OWNER = 1
POOLS = ("default", "other")


class StoppableStore(Store):
    """A store that can refuse, and that can stop the world directly after a commit."""

    def arrange(self) -> None:
        self.full = False
        self.commits = 0
        self.stop_after: int | None = None
        self.stopped = asyncio.Event()
        self.go_on = asyncio.Event()

    @classmethod
    async def open(cls, url: str, *, clock: Clock, inline: bool = False) -> StoppableStore:
        store = await super().open(url, clock=clock, inline=inline)
        assert isinstance(store, StoppableStore)
        store.arrange()
        return store

    async def commit(self, unit: UnitOfWork) -> None:
        if self.full:
            raise StoreUnavailable("database or disk is full")
        await super().commit(unit)
        self.commits += 1
        if self.commits == self.stop_after:
            self.stopped.set()
            await self.go_on.wait()


@dataclass(slots=True)
class ScriptedManager:
    """Implements `rm_backends.base.ResourceManager`; remembers what it was asked."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    specs: dict[str, LaunchSpec] = field(default_factory=dict)
    records: Sequence[RestoreRecord] = ()
    orders: list[JobOrder] = field(default_factory=list)
    notes: list[AllocationHint] = field(default_factory=list)
    requests: dict[str, AllocationRequest] = field(default_factory=dict)
    too_small: dict[str, str] = field(default_factory=dict)
    """Pool -> why nothing could ever run there."""
    too_large: set[str] = field(default_factory=set)
    """Pools whose agents are all too small for work that must run on one."""
    able: Abilities | None = None
    deaf: bool = False
    """Changed orders and notes cannot be told."""
    kills_may_go: asyncio.Event = field(default_factory=asyncio.Event)
    granted: set[str] = field(default_factory=set)
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.kills_may_go.set()

    def take(self) -> list[tuple[str, str]]:
        """What was asked since the last look."""
        calls, self.calls = self.calls, []
        return calls

    def _note(self, call: str, allocation_id: str) -> None:
        self.calls.append((call, allocation_id))
        self._asked.set()

    async def until(self, call: str) -> None:
        """Returns when `call` was made since the last look. Raises TimeoutError if it never is."""
        async with asyncio.timeout(10):
            while call not in {name for name, _ in self.calls}:
                self._asked.clear()
                await self._asked.wait()

    def pools(self) -> Sequence[str]:
        return POOLS

    def check(self, request: AllocationRequest) -> Sequence[str]:
        if why := self.too_small.get(request.pool):
            raise Unsatisfiable(why)
        if request.pool in self.too_large:
            raise Unfulfillable(f"request unfulfillable: {request.slots} slots")
        return ()

    def abilities(self, pool: str) -> Abilities | None:
        return self.able

    async def request(self, request: AllocationRequest) -> None:
        self.requests[request.allocation_id] = request
        self._note("request", request.allocation_id)

    async def withdraw(self, allocation_id: str) -> Withdrawn | AlreadyGranted:
        self._note("withdraw", allocation_id)
        if allocation_id in self.granted:
            return AlreadyGranted(allocation_id=allocation_id)
        return Withdrawn(allocation_id=allocation_id)

    async def start(self, allocation_id: str, spec: LaunchSpec) -> None:
        self._note("start", allocation_id)
        self.specs[allocation_id] = spec

    async def release(self, allocation_id: str, reason: str, deadline: datetime | None) -> None:
        self._note("release", allocation_id)

    async def kill(self, allocation_id: str) -> None:
        self._note("kill", allocation_id)
        await self.kills_may_go.wait()

    def hint(self, note: AllocationHint) -> None:
        self._hear()
        self.notes.append(note)

    async def expected_start(self, allocation_id: str) -> datetime | None:
        return None

    def _hear(self) -> None:
        if self.deaf:
            raise BatchSystemError("not now")

    async def update_job(self, order: JobOrder) -> None:
        self._hear()
        self.orders.append(order)

    async def restore(self, records: Sequence[RestoreRecord]) -> None:
        self.records = records

    def explain(self, allocation_id: str) -> Reason | None:
        return None

    async def run(self) -> None:
        await asyncio.Event().wait()


class SilentLog:
    def say(self, task_id: str, allocation_id: str, text: str, *, level: str = "INFO") -> None:
        pass

    async def delete(self, task_ids: Sequence[str], /) -> int:
        return 0


class ScriptedCluster:
    """One life of a master. `crash` ends it as kill -9 does; the next one opens the same folder."""

    def __init__(
        self,
        store: StoppableStore,
        folder: Path,
        clock: ManualClock,
        *,
        launch_error: bool = True,
        cluster_tasks: ClusterTasks | None = None,
        deleter: Deleter | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.rm = ScriptedManager()
        storage = {"type": "shared_fs", "host_path": str(folder)}
        self.plane = build(
            Parts(
                store=store,
                blobs=BlobStore(folder / "blobs", inline=True),
                clock=clock,
                ids=Ids.seeded(1),
                secret=b"secret",
                policy=ClusterPolicy(
                    defaults={pool: ClusterDefaults(checkpoint_storage=storage) for pool in POOLS},
                    launch_error=launch_error,
                ),
                task_log=SilentLog(),
                logs=SilentLog(),
                cluster_id="cluster",
                storage=storage,
                deleter=deleter or InlineDeleter(),
                cluster_tasks=cluster_tasks or ClusterTasks(),
            )
        )
        self.mint = self.plane.mint
        self.allocations = self.plane.allocations
        self.allocations.connect(self.rm)
        self.experiments = self.plane.experiments
        self.commands = self.plane.tasks
        self.generic = self.plane.generic
        self.reports = self.plane.reports
        self.tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls,
        folder: Path,
        clock: ManualClock,
        *,
        url: str | None = None,
        launch_error: bool = True,
        cluster_tasks: ClusterTasks | None = None,
        deleter: Deleter | None = None,
    ) -> ScriptedCluster:
        """As `master.app` starts: lease, restore, tell the resource manager, resume. No `url`: SQLite, inline."""
        store = await StoppableStore.open(
            url or f"sqlite:///{folder}/windlass.db", clock=clock, inline=url is None
        )
        epoch = await store.take_lease("test")
        cluster = cls(
            store,
            folder,
            clock,
            launch_error=launch_error,
            cluster_tasks=cluster_tasks,
            deleter=deleter,
        )
        cluster.tasks = [
            asyncio.create_task(store.run()),
            asyncio.create_task(cluster.allocations.run()),
        ]
        if epoch == 1:
            await cluster._first_rows()
        await cluster.rm.restore(await cluster.plane.restore())
        await cluster.plane.resume()
        store.commits = 0
        return cluster

    async def _first_rows(self) -> None:
        uow = UnitOfWork()
        now = self.clock.now()
        uow.insert(
            tables.User,
            {"id": OWNER, "username": "admin", "created_at": now, "modified_at": now},
        )
        owner = {"user_id": OWNER, "immutable": True, "archived": False, "name": "all"}
        uow.insert(tables.Workspace, {"id": 1, **owner})
        uow.insert(
            tables.Project, {"id": 1, "workspace_id": 1, "description": "", "key": "ALL", **owner}
        )
        await self.store.commit(uow)

    async def crash(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.store.close()

    async def cut_after(self, commit: int, work: Coroutine[Any, Any, object]) -> None:
        """Do `work` until its commit number `commit` is durable, and nothing after that."""
        self.store.commits, self.store.stop_after = 0, commit
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self.store.stopped.wait())
        done, _ = await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        assert stopped in done, "it was over before that commit"
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    # --- what tests look at ----------------------------------------------------------------------------------------

    async def create(self, config: str) -> LiveExperiment:
        new = NewExperiment(config=config)
        created = await self.experiments.create(new, by=ADMIN)
        live = self.experiments.live(created.experiment_id)
        assert live is not None
        return live

    @property
    def only(self) -> LiveExperiment:
        (live,) = self.experiments.all_live()
        return live

    @property
    def trial(self) -> TrialState:
        (trial,) = self.only.state.trials.values()
        return trial

    @property
    def run(self) -> AllocationState:
        assert self.trial.allocation is not None
        return self.trial.allocation

    # --- what agents and tasks do ----------------------------------------------------------------------------------

    async def grant(
        self,
        agents: int = 1,
        *,
        of: AllocationState | None = None,
        pool: str | None = None,
        why: str = "",
    ) -> None:
        """`of`: the only trial's run, if not said. `pool`: where it fell back to."""
        run = of or self.run
        self.rm.granted.add(run.id)
        containers = tuple(
            Container(container_id=f"{run.id}-c{n}", agent_id=f"a{n}", rank=n, slot_ids=(0,))
            for n in range(agents)
        )
        await self.allocations.handle(
            Granted(allocation_id=run.id, containers=containers, pool=pool, why=why)
        )

    async def report(
        self,
        phase: ContainerPhase,
        exit_: ContainerExit | None = None,
        *,
        rank: int = 0,
        of: AllocationState | None = None,
    ) -> None:
        run = of or self.run
        await self.allocations.handle(
            ResourceChanged(
                allocation_id=run.id, container_id=f"{run.id}-c{rank}", phase=phase, exit=exit_
            )
        )

    async def exit(
        self, code: int = 0, *, rank: int = 0, of: AllocationState | None = None
    ) -> None:
        exit_ = ContainerExit(exit_code=code)
        await self.report(ContainerPhase.TERMINATED, exit_, rank=rank, of=of)
