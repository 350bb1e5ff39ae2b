"""Batch systems to hold to the contract: each with what is told apart between sites."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from getpass import getuser
from pathlib import Path
from typing import Any

from provisioner.batch.base import SCRIPT_NAME, BatchSystem, JobReport, JobSpec
from provisioner.batch.commands import Commands, LocalCommands
from provisioner.batch.pbs.system import PbsSystem
from provisioner.batch.shared_site import SharedSite
from provisioner.batch.slurm.rest.transports import rest_system
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.sections.slurm_api import SlurmApiSection
from tests.pbs import Pbs, live_queue
from tests.slurm import Slurm
from tests.slurmrestd import Slurmrestd, inetd_program
from windlass.base.clock import SystemClock

PATIENCE_S = 60


@dataclass(frozen=True, kw_only=True)
class BatchSite:
    make: Callable[[], BatchSystem]
    """A client of it that knows nothing yet."""
    queue: str
    gpus: int
    """Of each of its two nodes."""
    closed: str
    """A queue that starts nothing. Empty: of a live site no more is known."""
    everywhere: str
    """Shell: runs what follows on each node of a job, with the node's number in $NODE."""
    down: Callable[[], AbstractContextManager[None]]
    knows_no_queue: str
    """The way out that it names."""
    shortest_walltime_s: float | None = None
    """None: the site looks at times too seldom."""

    def job(self, folder: Path, name: str, body: str, **settings: Any) -> JobSpec:
        folder.mkdir(exist_ok=True)
        script = f"#!/bin/sh\n{body}\n"
        (folder / SCRIPT_NAME).write_text(script)
        spec = JobSpec(
            name=name,
            queue=self.queue,
            nodes=1,
            gpus_per_node=min(1, self.gpus),
            walltime_s=600,
            directory=folder,
            script=script,
        )
        return replace(spec, **settings)


async def until(
    system: BatchSystem, name: str, look: Callable[[JobReport | None], bool]
) -> JobReport | None:
    """A batch system can only be asked, not awaited."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if look(found := (await system.poll([name])).get(name)):
                return found
            await asyncio.sleep(0.1)


def is_over(job: JobReport | None) -> bool:
    return job is not None and job.cause is not None


def slurm_site(slurm: Slurm, commands: Callable[[], Commands] | None = None) -> BatchSite:
    """`commands`: another way to it than this machine's own."""
    return _slurm_site(
        slurm,
        lambda: SlurmSystem(
            LocalCommands(environ=slurm.environment) if commands is None else commands()
        ),
    )


def shared(site: BatchSite) -> BatchSite:
    """Asked as a part of a master asks it, beside another part."""
    parts = SharedSite(site.make(), ("wl-test-", "wp-test-"), SystemClock())
    return replace(site, make=parts.part)


def rest_site(
    rest: Slurmrestd, way: str, folder: Path, commands: Callable[[], Commands] | None = None
) -> BatchSite:
    """`way`: http and unix with tokens, inetd without. `commands`: as of `slurm_site`."""
    local = LocalCommands(environ=rest.slurm.environment)
    urls = {"http": rest.url, "unix": f"unix:{rest.socket}"}
    api = SlurmApiSection(
        url=urls.get(way) or f"inetd:{inetd_program(rest.slurm)}",
        user="" if way == "inetd" else getuser(),
        token_file=None if way == "inetd" else str(rest.token_file(folder / "token")),
    )
    return _slurm_site(
        rest.slurm, lambda: rest_system(api, local if commands is None else commands())
    )


def _slurm_site(slurm: Slurm, make: Callable[[], BatchSystem]) -> BatchSite:
    @contextmanager
    def down() -> Iterator[None]:
        slurm.stop_controller()
        try:
            yield
        finally:
            slurm.start_controller()

    return BatchSite(
        make=make,
        queue="gpu",
        gpus=2,
        closed="closed",
        everywhere="srun /bin/sh -c 'NODE=$SLURM_NODEID; {}'",
        down=down,
        knows_no_queue="sinfo",
    )


ON_PBS = (
    "for host in $(cat $PBS_NODEFILE); do pbs_tmrsh $host /bin/sh -c 'NODE=$PBS_NODENUM; {}'; done"
)


def pbs_site(pbs: Pbs, commands: Callable[[], Commands] | None = None) -> BatchSite:
    @contextmanager
    def down() -> Iterator[None]:
        pbs.down(True)
        try:
            yield
        finally:
            pbs.down(False)

    return BatchSite(
        make=lambda: PbsSystem(LocalCommands(path=pbs.path) if commands is None else commands()),
        queue="workq",
        gpus=4,
        closed="bigq",
        everywhere=ON_PBS,
        down=down,
        knows_no_queue="qstat -Q",
        shortest_walltime_s=1,
    )


def live_pbs_site() -> BatchSite:
    """Tests need a shared `--basetemp` there, and a user who is not root."""
    return BatchSite(
        make=lambda: PbsSystem(LocalCommands()),
        queue=live_queue() or "",
        gpus=0,
        closed="",
        everywhere=f"PATH=$PATH:/opt/pbs/bin; {ON_PBS}",
        down=nullcontext,
        knows_no_queue="qstat -Q",
        shortest_walltime_s=1,
    )
