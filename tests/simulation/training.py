"""A simulated training program: what the harness does, call by call, with a metric that is a function of its arguments.

It keeps trying while the master is away, repeats calls whose answer was lost, and shows its allocation's token with
each call, as over HTTP. What it reports depends on hyperparameters and epoch alone, so that a search can be compared
with a quiet one.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from agent_bootstrap.protocol import ContainerSpec
from master.api.services import Services
from master.core.searcher.types import ExitReason
from master.experiments.reports.metrics import TRAINING, VALIDATION, PostedMetrics
from master.experiments.reports.service import CheckpointReport
from tests.simulation.process import Handler, Unreachable
from windlass.base.clock import Clock
from windlass.base.errors import (
    InvalidArgument,
    NotFound,
    PermissionDenied,
    StoreUnavailable,
    Unauthenticated,
)

T = TypeVar("T")

METRIC = "loss"
TIME_METRIC = "epochs"
CHECKPOINT_EVERY = 3
POLL_S = 60.0
INVALID_BELOW = 0.08
"""Learning rates below this are refused by the program: the searcher must replace them."""
REFUSED = (Unauthenticated, PermissionDenied, NotFound, InvalidArgument)
"""Answers after which a harness gives up."""


def loss(learning_rate: float, epoch: int) -> float:
    """Falls with the epochs; the best learning rate is 0.4."""
    return round((learning_rate - 0.4) ** 2 + 1.0 / (1.0 + epoch), 9)


def epoch_s(learning_rate: float) -> float:
    return 2.0 + 4.0 * learning_rate


@dataclass(slots=True)
class Gang:
    """What the containers of one allocation have between themselves, as over a network of their own."""

    chief_is_done: asyncio.Event = field(default_factory=asyncio.Event)


class Cluster(Protocol):
    """What programs need of the world."""

    @property
    def clock(self) -> Clock: ...

    storage: dict[str, int]
    """The shared file system: checkpoint -> epoch."""
    gangs: dict[str, Gang]

    async def request(self, handler: Handler[T]) -> T:
        """One call of the API. Raises Unreachable."""
        ...

    def note(self, what: str) -> None: ...

    def accepted(self, trial_id: int, run_id: int) -> None:
        """Called inside the master, when it has carried out a call of this run."""
        ...


class Training:
    """One container of one run of one trial."""

    def __init__(self, world: Cluster, spec: ContainerSpec) -> None:
        environment = spec.environment
        self._world = world
        self._spec = spec
        self._token = environment["DET_SESSION_TOKEN"]
        self._trial_id = int(environment["DET_TRIAL_ID"])
        self._run_id = int(environment["DET_TRIAL_RUN_ID"])
        self._learning_rate = float(json.loads(environment["DET_HPARAMS"])["learning_rate"])
        self._epochs = int(json.loads(environment["DET_HPARAMS"])["epochs"])
        self._latest = environment.get("DET_LATEST_CHECKPOINT")
        self._preempted = asyncio.Event()
        self._random = random.Random(f"{spec.allocation_id}/{spec.rank}")

    async def run(self) -> int:
        """The exit code."""
        watcher = asyncio.create_task(self._watch())
        try:
            return await self._train()
        except REFUSED as error:
            self._world.note(f"{self._spec.allocation_id} was refused: {type(error).__name__}")
            return 1
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _train(self) -> int:
        spec, world = self._spec, self._world
        await self._ask(lambda s: s.allocations.rendezvous(spec.allocation_id, spec.container_id))
        gang = world.gangs.setdefault(spec.allocation_id, Gang())
        if spec.rank > 0:
            await gang.chief_is_done.wait()
            return 0
        code = await self._chief()
        gang.chief_is_done.set()
        return code

    async def _chief(self) -> int:
        if self._learning_rate < INVALID_BELOW:
            await self._ask(lambda s: s.reports.early_exit(self._trial_id, ExitReason.INVALID_HP))
            return 0
        first = self._world.storage[self._latest] if self._latest else 0
        for epoch in range(first + 1, self._epochs + 1):
            await asyncio.sleep(epoch_s(self._learning_rate))
            await self._report(TRAINING, epoch)
            await self._report(VALIDATION, epoch)
            await self._progress(epoch / self._epochs)
            leaving = self._preempted.is_set()
            if leaving or epoch % CHECKPOINT_EVERY == 0 or epoch == self._epochs:
                await self._checkpoint(epoch)
            if leaving:
                await self._ask(
                    lambda s: s.allocations.acknowledge_preemption(self._spec.allocation_id)
                )
                return 0
        return 0

    async def _report(self, group: str, epoch: int) -> None:
        value = loss(self._learning_rate, epoch)
        report = PostedMetrics(
            trial_id=self._trial_id,
            run_id=self._run_id,
            group=group,
            steps=epoch,
            avg={METRIC: value, TIME_METRIC: epoch},
            at=self._world.clock.now(),
        )
        await self._ask(lambda s: s.reports.metrics(report))

    async def _progress(self, fraction: float) -> None:
        await self._ask(lambda s: s.reports.progress(self._trial_id, fraction))

    async def _checkpoint(self, epoch: int) -> None:
        name = f"{self._spec.allocation_id}/{epoch}"
        uuid_ = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        self._world.storage[uuid_] = epoch
        report = CheckpointReport(
            uuid=uuid_,
            task_id=self._spec.task_id,
            allocation_id=self._spec.allocation_id,
            resources={"state.json": 17},
            metadata={"steps_completed": epoch},
            at=self._world.clock.now(),
        )
        await self._ask(lambda s: s.reports.checkpoint(report))

    async def _watch(self) -> None:
        """Long polls until the task should leave, or until its token is worth nothing any more."""
        allocation_id = self._spec.allocation_id
        try:
            while not self._preempted.is_set():
                if await self._ask(
                    lambda s: s.allocations.preemption_signal(allocation_id, POLL_S)
                ):
                    self._preempted.set()
        except REFUSED:
            return

    async def _ask(self, call: Callable[[Services], Awaitable[T]]) -> T:
        """Repeated until there is an answer. Raises what the master answers for good."""

        async def authorised(services: Services) -> T:
            principal = services.auth.identify(self._token)
            assert principal.allocation_id == self._spec.allocation_id
            answer = await call(services)
            self._world.accepted(self._trial_id, self._run_id)
            return answer

        pause = 0.5
        while True:
            await asyncio.sleep(self._random.uniform(0.001, 0.02))
            try:
                answer = await self._world.request(authorised)
                await asyncio.sleep(self._random.uniform(0.001, 0.02))
                return answer
            except (Unreachable, StoreUnavailable):
                await asyncio.sleep(pause)
                pause = min(2 * pause, 8.0)
