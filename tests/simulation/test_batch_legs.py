"""A trial in batch jobs that never saves a checkpoint: the number of jobs is bounded, and it fails with the reason."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_bootstrap.protocol import ContainerSpec
from master.app import MasterOptions
from master.wiring.batch.pools import SiteAccess
from provisioner.batch.disks import LocalDisk
from provisioner.batch.pipes import LocalPipes
from tests.fakes.batch_world import FakeBatch
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.virtual_time import run
from tests.simulation.process import MasterProcess, processes
from tests.simulation.training import METRIC, Training
from tests.simulation.world import CONFIG, World

POOL = "site"
MAX_RESTARTS, MAX_LOST_RUNS = 2, 1
DISPATCH: Mapping[str, Any] = {"type": "slurm", "partition": "gpu", "walltime": "3m"}
PILOTS: Mapping[str, Any] = {
    "type": "slurm",
    "mode": "pilot",
    "partition": "gpu",
    "walltimes": ["13m"],
}


class Forgetful(Training):
    """It leaves when it is asked to, and saves nothing."""

    async def _checkpoint(self, epoch: int) -> None:
        pass


class Deaf(Forgetful):
    """Nor does it leave."""

    async def _watch(self) -> None:
        pass


class SiteWorld(World):
    """The machines are nodes of a batch system."""

    def __init__(
        self,
        folder: Path,
        tasks: asyncio.TaskGroup,
        provider: Mapping[str, Any],
        training: type[Training],
    ) -> None:
        manager = {"default_compute_resource_pool": POOL, "default_aux_resource_pool": POOL}
        pools = [{"pool_name": POOL, "provider": provider}]
        config = {
            **CONFIG,
            "resource_manager": {**CONFIG["resource_manager"], **manager},
            "resource_pools": pools,
            "max_lost_runs": MAX_LOST_RUNS,
        }
        super().__init__(1, folder, tasks, config)
        self._training = training
        self.site = FakeBatch(self)
        self.site.keeps_walltimes = True

    def _options(self, process: MasterProcess) -> MasterOptions:
        return replace(super()._options(process), provider=None, provision_every_s=10.0)

    def new_agent(self, agent_id: str, *, token: str, credential: str, **options: Any) -> FakeAgent:
        return FakeAgent(
            agent_id=agent_id,
            dial=self._dialler(agent_id, options["pool"], token),
            clock=self.clock,
            address=f"host-{agent_id}",
            program=self._program,
            start_s=0.5,
            **options,
        )

    async def _program(self, spec: ContainerSpec) -> int:
        return await self._training(self, spec).run()


@dataclass(frozen=True, slots=True)
class End:
    state: str
    error: str
    restarts: int
    jobs: int
    jobs_left: int
    """That are not over."""


async def end_of(
    folder: Path,
    provider: Mapping[str, Any],
    training: type[Training],
    patch: pytest.MonkeyPatch,
) -> End:
    config = {
        "name": "forgetful",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"learning_rate": 3.0, "epochs": 100_000},
        "searcher": {"name": "single", "metric": METRIC},
        "max_restarts": MAX_RESTARTS,
        "resources": {"slots_per_trial": 1},
    }
    with processes():
        async with asyncio.TaskGroup() as tasks:
            world = SiteWorld(folder, tasks, provider, training)
            access = SiteAccess(world.site, LocalDisk(), LocalPipes())
            patch.setattr("master.wiring.batch.site.site_of", lambda _: access)
            try:
                world.start_master()
                await world.submit(yaml.safe_dump(config))
                query = partial(world.invariants.query, "SELECT state, error, restarts FROM trial")
                while query()[0][0] not in ("COMPLETED", "ERROR"):
                    world.invariants.check()
                    await asyncio.sleep(5.0)
                [(state, error, restarts)] = query()
                await asyncio.sleep(600)
                submitted = len(world.site.submissions)
                left = sum(job.cause is None for job in world.site.jobs.values())
                await world.end()
            finally:
                world.invariants.close()
    world.invariants.check()
    return End(str(state), str(error), int(restarts), submitted, left)


FAILS_BY_ITS_JOBS = (
    r"no new checkpoint within the time of its batch job \(.+\): "
    "give it more time, or save checkpoints more often"
)
FAILS_BY_PILOTS = (
    f"its allocations were lost or preempted {MAX_LOST_RUNS + 1} times without a new checkpoint: .+"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "restarts", "jobs", "error"),
    [
        pytest.param(
            *(DISPATCH, MAX_RESTARTS + 1, MAX_RESTARTS + 1, FAILS_BY_ITS_JOBS), id="dispatch"
        ),
        pytest.param(*(PILOTS, 0, MAX_LOST_RUNS + 1, FAILS_BY_PILOTS), id="pilots"),
    ],
)
@pytest.mark.parametrize("training", [Forgetful, Deaf])
def test_work_that_never_saves_a_checkpoint_ends_after_a_few_jobs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    training: type[Training],
    provider: Mapping[str, Any],
    restarts: int,
    jobs: int,
    error: str,
) -> None:
    """A pilot may be near its end when work comes to it: that is no restart."""
    folder = tmp_path / "cluster"
    folder.mkdir(mode=0o700)
    end = run(end_of(folder, provider, training, monkeypatch), limit_s=24 * 3600)
    assert end.state == "ERROR"
    assert re.fullmatch(error, end.error), end.error
    assert (end.restarts, end.jobs, end.jobs_left) == (restarts, jobs, 0)
