"""Slurm by its commands, against a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from master.core.reasons import ReasonKind
from provisioner.providers.batch.base import (
    EndCause,
    JobPhase,
    JobRefused,
    JobReport,
    JobSpec,
    NoAnswer,
)
from provisioner.providers.batch.commands import LocalCommands
from provisioner.providers.batch.slurm.system import SlurmSystem
from tests.slurm import Slurm


def job(folder: Path, name: str, body: str, **settings: object) -> JobSpec:
    folder.mkdir(exist_ok=True)
    spec = JobSpec(
        name=name,
        queue="gpu",
        nodes=1,
        gpus_per_node=1,
        walltime_s=600,
        directory=folder,
        script=f"#!/bin/sh\n{body}\n",
    )
    return replace(spec, **settings)  # type: ignore[arg-type]


async def until(
    system: SlurmSystem, name: str, look: Callable[[JobReport | None], bool]
) -> JobReport | None:
    """Slurm can only be asked, not awaited."""
    async with asyncio.timeout(60):
        while True:
            if look(found := (await system.poll([name])).get(name)):
                return found
            await asyncio.sleep(0.1)


def test_a_job_from_its_submission_to_its_end(slurm: Slurm, tmp_path: Path) -> None:
    """It is found by its name; what it exits with stays as it was."""

    async def main() -> None:
        system = SlurmSystem(LocalCommands(environ=slurm.environment))
        spec = job(
            tmp_path,
            "wl-test-life",
            "srun sh -c 'echo \"$SLURM_NODEID $CUDA_VISIBLE_DEVICES\"'; exit 130",
            nodes=2,
            gpus_per_node=2,
        )
        id_ = await system.submit(spec)
        ended = await until(system, spec.name, lambda j: j is not None and j.cause is not None)
        assert ended is not None
        assert (ended.job_id, ended.nodes) == (id_, ("n1", "n2"))
        told = await system.ended(id_)
        assert told is not None
        assert (told.cause, told.exit_code) == (EndCause.FAILED, 130)
        lines = sorted((tmp_path / "batch.log").read_text().splitlines())
        assert lines == ["0 0,1", "1 0,1"]

    asyncio.run(main())


def test_what_waits_says_why_and_can_be_cancelled(slurm: Slurm, tmp_path: Path) -> None:
    async def main() -> None:
        system = SlurmSystem(LocalCommands(environ=slurm.environment))
        whole = {"nodes": 2, "gpus_per_node": 2}
        first = job(tmp_path, "wl-test-first", "sleep 600", **whole)
        second = job(tmp_path, "wl-test-second", "sleep 600", **whole)
        ids = [await system.submit(first), await system.submit(second)]
        await until(system, first.name, lambda j: j is not None and j.phase is JobPhase.RUNNING)
        waits = await until(
            system, second.name, lambda j: j is not None and j.reason in ("Resources", "Priority")
        )
        assert waits is not None
        assert (waits.phase, waits.kind) == (JobPhase.QUEUED, ReasonKind.NO_CAPACITY)
        assert waits.words
        assert {j.name for j in await system.named_like("wl-test-")} >= {first.name, second.name}
        await system.cancel([*ids, "999999"])
        gone = await until(system, first.name, lambda j: j is not None and j.cause is not None)
        assert gone is not None
        assert gone.cause is EndCause.CANCELLED

    asyncio.run(main())


def test_partitions_of_the_site(slurm: Slurm) -> None:
    site = asyncio.run(SlurmSystem(LocalCommands(environ=slurm.environment)).site())
    gpu = site.queues["gpu"]
    assert (gpu.is_default, gpu.nodes, gpu.gpus_per_node, gpu.idle_nodes) == (True, 2, 2, 2)
    assert site.queues["short"].max_walltime_s == 120
    assert not site.queues["closed"].is_open
    assert site.version


def test_refusals_name_the_way_out(slurm: Slurm, tmp_path: Path) -> None:
    system = SlurmSystem(LocalCommands(environ=slurm.environment))
    with pytest.raises(JobRefused, match="sinfo") as refused:
        asyncio.run(system.submit(job(tmp_path, "wl-test-no", "true", queue="nowhere")))
    assert refused.value.kind is ReasonKind.NO_SUCH_AGENT
    with pytest.raises(JobRefused, match="Requested node configuration is not available"):
        asyncio.run(system.submit(job(tmp_path, "wl-test-no", "true", gpus_per_node=9)))


def test_a_job_without_a_place_for_its_log_never_ran(slurm: Slurm, tmp_path: Path) -> None:
    async def main() -> None:
        system = SlurmSystem(LocalCommands(environ=slurm.environment))
        spec = job(tmp_path, "wl-test-nolog", "true")
        missing = replace(spec, directory=tmp_path / "missing")
        id_ = await system.submit(missing)
        await until(system, spec.name, lambda j: j is not None and j.cause is not None)
        told = await system.ended(id_)
        assert told is not None
        assert told.cause is EndCause.LAUNCH_FAILED

    asyncio.run(main())


def test_a_job_that_nobody_knows_is_left_out(slurm: Slurm) -> None:
    system = SlurmSystem(LocalCommands(environ=slurm.environment))
    assert asyncio.run(system.poll(["wl-test-never"])) == {}
    assert asyncio.run(system.ended("999999")) is None


def test_nothing_of_the_masters_environment_reaches_a_job(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sbatch passes on what it sees, and obeys variables of its own."""

    async def main() -> None:
        environ = {**slurm.environment, "DB_PASSWORD": "secret", "SBATCH_PARTITION": "nowhere"}
        system = SlurmSystem(LocalCommands(environ=environ))
        spec = job(tmp_path, "wl-test-env", "env", queue="")
        await system.submit(spec)
        await until(system, spec.name, lambda j: j is not None and j.cause is not None)

    asyncio.run(main())
    said = (tmp_path / "batch.log").read_text()
    assert "SLURM_JOB_ID=" in said
    assert "secret" not in said


@pytest.mark.slow
def test_a_controller_that_is_down_says_nothing(slurm: Slurm, tmp_path: Path) -> None:
    """Neither that a job ended, nor that a submission failed. Its commands wait some seconds each."""
    system = SlurmSystem(LocalCommands(environ=slurm.environment))
    id_ = asyncio.run(system.submit(job(tmp_path, "wl-test-down", "sleep 600")))
    slurm.stop_controller()
    try:
        with pytest.raises(NoAnswer):
            asyncio.run(system.poll(["wl-test-down"]))
        with pytest.raises(NoAnswer):
            asyncio.run(system.submit(job(tmp_path, "wl-test-lost", "true")))
        with pytest.raises(NoAnswer):
            asyncio.run(system.ended(id_))
    finally:
        slurm.start_controller()
    assert asyncio.run(system.poll(["wl-test-down"]))["wl-test-down"].job_id == id_


def test_without_its_commands_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioner.providers.batch.commands.PLACES", "")
    system = SlurmSystem(LocalCommands(environ={"PATH": str(tmp_path)}))
    with pytest.raises(NoAnswer, match="squeue cannot be run"):
        asyncio.run(system.poll(["x"]))
