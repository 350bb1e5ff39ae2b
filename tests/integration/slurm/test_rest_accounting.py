"""Accounting by the REST of slurmdbd, `/slurmdb/v0.0.N`: how jobs ended that their controller has forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from provisioner.batch.base import EndCause, JobReport, JobSpec
from provisioner.batch.commands import LocalCommands
from provisioner.batch.slurm.rest.client import RestClient
from provisioner.batch.slurm.rest.system import RestSystem
from provisioner.batch.slurm.rest.transports import rest_system
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.sections.slurm_api import SlurmApiSection
from tests.real_cluster import eventually
from tests.slurm import Slurm, require_slurm, running_slurm
from tests.slurm_accounting import ACCOUNT
from tests.slurmrestd import Slurmrestd, require_slurmrestd, running_slurmrestd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FORGETS = "MinJobAge=2\n"
ENDS = {
    "wl-good": ("exit 0", EndCause.OK, 0),
    "wl-bad": ("exit 3", EndCause.FAILED, None),
    "wl-signalled": ("kill -9 $$", EndCause.FAILED, 137),
    "wl-cancelled": ("sleep 600", EndCause.CANCELLED, 0),
    "wl-waits": ("exit 0", EndCause.CANCELLED, 0),
}
"""Script, and what is remembered of it."""


@pytest.fixture(scope="module")
def rest() -> Iterator[Slurmrestd]:
    require_slurm(accounting=True)
    require_slurmrestd()
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with (
            running_slurm(folder, jwt=True, accounting=True, more=FORGETS) as slurm,
            running_slurmrestd(slurm) as rest,
        ):
            yield rest


@pytest.fixture
def system(rest: Slurmrestd, tmp_path: Path) -> RestSystem:
    token = rest.token_file(tmp_path / "token")
    api = SlurmApiSection(url=rest.url, user=getuser(), token_file=str(token))
    return rest_system(api, LocalCommands(environ=rest.slurm.environment))


@pytest.fixture(scope="module")
def forgotten(rest: Slurmrestd) -> dict[str, str]:
    """Name -> id of jobs that only accounting remembers."""
    slurm = rest.slurm
    commands = SlurmSystem(LocalCommands(environ=slurm.environment))
    folder = slurm.folder / "jobs"
    folder.mkdir()

    async def submit() -> dict[str, str]:
        jobs = {}
        for name, (body, _, _) in ENDS.items():
            spec = JobSpec(
                name=name,
                queue="closed" if name == "wl-waits" else "gpu",
                nodes=1,
                gpus_per_node=0,
                directory=folder,
                script=f"#!/bin/sh\n{body}\n",
                arguments=(f"--account={ACCOUNT}",),
            )
            jobs[name] = await commands.submit(spec)
        return jobs

    found = asyncio.run(submit())
    eventually("one is to be cancelled", lambda: "wl-cancelled" in slurm.jobs("RUNNING"))
    asyncio.run(commands.cancel([found["wl-cancelled"], found["wl-waits"]]))
    eventually("they are over", lambda: not slurm.jobs())
    for id_ in found.values():
        eventually(f"{id_} is forgotten", lambda one=id_: is_forgotten(slurm, one), patience_s=150)
    return found


def is_forgotten(slurm: Slurm, job_id: str) -> bool:
    return not slurm.run("scontrol", "show", "job", job_id, check=False)


@pytest.mark.parametrize("name", ENDS)
def test_how_a_forgotten_job_ended_is_told_as_sacct_tells_it(
    rest: Slurmrestd, system: RestSystem, forgotten: dict[str, str], name: str
) -> None:
    """But for bad exit codes, which 22.05 keeps to itself here, and sacct folds to seven bits."""
    told = asyncio.run(system.look_up(forgotten[name]))
    assert told is not None
    _, cause, code = ENDS[name]
    assert (told.cause, told.account, told.name) == (cause, ACCOUNT, name)
    assert told.exit_code == code
    of_commands = SlurmSystem(LocalCommands(environ=rest.slurm.environment))
    by_sacct = asyncio.run(of_commands.look_up(forgotten[name]))
    assert by_sacct is not None
    assert what_is_known(told) == what_is_known(by_sacct)
    assert asyncio.run(system.poll([name])) == {}


def what_is_known(job: JobReport) -> tuple[object, ...]:
    return job.job_id, job.cause, job.nodes, job.account, job.starts_at, job.ends_at


def test_a_job_that_nobody_remembers_is_no_end(system: RestSystem) -> None:
    assert asyncio.run(system.look_up("999999")) is None


def test_while_slurmdbd_is_away_the_controller_alone_tells(
    rest: Slurmrestd, system: RestSystem, forgotten: dict[str, str]
) -> None:
    """Jobs are submitted, seen and cancelled as ever: what holds up accounting holds up nothing else."""
    slurm, name = rest.slurm, "wl-meanwhile"
    slurm.stop_accounting()
    try:
        assert asyncio.run(system.look_up(forgotten["wl-bad"])) is None
        spec = JobSpec(
            name=name,
            queue="gpu",
            nodes=1,
            gpus_per_node=0,
            directory=slurm.folder / "jobs",
            script="#!/bin/sh\nsleep 600\n",
            arguments=(f"--account={ACCOUNT}",),
        )
        id_ = asyncio.run(system.submit(spec))
        eventually("it runs", lambda: name in slurm.jobs("RUNNING"))
        assert asyncio.run(system.poll([name]))[name].job_id == id_
        asyncio.run(system.cancel([id_]))
        eventually("it is over", lambda: not slurm.jobs())
    finally:
        slurm.start_accounting()
    told = eventually("it is told again", lambda: asyncio.run(system.look_up(forgotten["wl-bad"])))
    assert told.cause is EndCause.FAILED
    told = eventually("and what was cancelled", lambda: asyncio.run(system.look_up(id_)))
    assert told.cause is EndCause.CANCELLED


def test_that_accounting_is_served_is_seen(rest: Slurmrestd, system: RestSystem) -> None:
    client: RestClient = system._client
    assert asyncio.run(client.served()).accounting
