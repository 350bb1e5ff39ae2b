"""What every batch system does, over every way to it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    EndCause,
    JobPhase,
    JobRefused,
    NoAnswer,
    task_id,
    task_name,
)
from provisioner.batch.script import job_script
from tests.contract.batch.sites import BatchSite, is_over, until
from tests.real_cluster import eventually


def require_known(site: BatchSite) -> None:
    if not site.closed:
        pytest.skip("what a live site has is not known")


def test_a_job_from_its_submission_to_its_end(site: BatchSite, tmp_path: Path) -> None:
    """It is found by its name, on all of its nodes; what it exits with stays as it was."""

    async def main() -> None:
        system = site.make()
        body = f"{site.everywhere.format('echo node $NODE')}; exit 130"
        spec = site.job(tmp_path, "wl-test-life", body, nodes=2)
        id_ = await system.submit(spec)
        ended = await until(system, spec.name, is_over)
        assert ended is not None
        assert (ended.job_id, len(ended.nodes)) == (id_, 2)
        told = await system.look_up(id_)
        assert told is not None
        assert (told.cause, told.exit_code) == (EndCause.FAILED, 130)
        assert told.ends_at is not None
        lines = sorted((tmp_path / "batch.log").read_text().splitlines())
        assert lines == ["node 0", "node 1"]

    asyncio.run(main())


@pytest.mark.slow
def test_what_waits_says_why_and_can_be_cancelled(site: BatchSite, tmp_path: Path) -> None:
    require_known(site)

    async def main() -> None:
        system = site.make()
        whole = {"nodes": 2, "gpus_per_node": site.gpus, "cpus_per_node": 8}
        first = site.job(tmp_path, "wl-test-first", "sleep 600", **whole)
        second = site.job(tmp_path, "wl-test-second", "sleep 600", **whole)
        ids = [await system.submit(first), await system.submit(second)]
        runs = await until(
            system, first.name, lambda j: j is not None and j.phase is JobPhase.RUNNING
        )
        assert runs is not None
        assert runs.starts_at is not None
        assert runs.ends_at == runs.starts_at + 600
        waits = await until(
            system,
            second.name,
            lambda j: j is not None and j.kind is ReasonKind.NO_CAPACITY,
        )
        assert waits is not None
        assert waits.phase is JobPhase.QUEUED
        assert waits.reason
        assert waits.words
        assert {j.name for j in await system.named_like("wl-test-")} >= {first.name, second.name}
        assert not await system.named_like("wl-other-")
        listed = {one.job_id: one for one in await system.in_queue(site.queue)}
        assert [listed[id_].waits for id_ in ids] == [False, True]
        assert listed[ids[0]].name == first.name
        assert listed[ids[0]].user
        assert listed[ids[0]].submitted is not None
        assert not await system.in_queue("short")
        await system.cancel([*ids, "999999"])
        for name in (first.name, second.name):
            gone = await until(system, name, is_over)
            assert gone is not None
            assert gone.cause is EndCause.CANCELLED
        await system.cancel(ids)

    asyncio.run(main())


def test_jobs_of_an_array_wait_run_and_end_each_by_itself(site: BatchSite, tmp_path: Path) -> None:
    async def main() -> None:
        system = site.make()
        await system.site()
        if system.most_tasks < 2:
            pytest.skip("it takes no arrays")
        array = tmp_path / "wl-test-array"
        names = [task_name(array.name, number) for number in range(4)]
        for name in names:
            (tmp_path / name).mkdir()
        body = f'cd {array}."$SLURM_ARRAY_TASK_ID"; while [ ! -e go ]; do sleep 0.1; done; exit 9'
        whole = {"gpus_per_node": site.gpus, "cpus_per_node": 8, "tasks": 4}
        id_ = await system.submit(site.job(array, array.name, body, **whole))
        ids = [task_id(id_, number) for number in range(4)]
        for name in names[:2]:
            await until(system, name, lambda j: j is not None and j.phase is JobPhase.RUNNING)
        waits = await until(
            system, names[2], lambda j: j is not None and j.kind is ReasonKind.NO_CAPACITY
        )
        assert waits is not None
        assert waits.phase is JobPhase.QUEUED
        found = {one.name: one.job_id for one in await site.make().named_like("wl-test-array")}
        assert found == dict(zip(names, ids, strict=True))
        assert set(await system.poll([names[0], names[3]])) == {names[0], names[3]}

        await system.cancel([ids[2], ids[0], task_id(id_, 77)])
        gone = await until(system, names[0], is_over)
        assert gone is not None
        assert gone.cause is EndCause.CANCELLED
        await until(system, names[2], lambda job: job is None or is_over(job))
        last = await system.look_up(ids[2])
        assert last is None or last.cause is EndCause.CANCELLED

        await until(system, names[3], lambda j: j is not None and j.phase is JobPhase.RUNNING)
        assert (await system.poll(names))[names[1]].phase is JobPhase.RUNNING
        (tmp_path / names[3] / "go").touch()
        await until(system, names[3], is_over)
        told = await system.look_up(ids[3])
        assert told is not None
        assert (told.name, told.job_id) == (names[3], ids[3])
        assert (told.cause, told.exit_code) == (EndCause.FAILED, 9)
        assert all(
            (tmp_path / name / "batch.log").exists() for name in (names[0], names[1], names[3])
        )
        assert (await system.poll(names))[names[1]].phase is JobPhase.RUNNING
        await system.cancel([ids[1]])

    asyncio.run(main())


def test_a_client_that_knows_nothing_finds_jobs_by_their_names(
    site: BatchSite, tmp_path: Path
) -> None:
    """After a crash, and after a submission without an answer: also those that are over."""

    async def main() -> None:
        spec = site.job(tmp_path, "wl-test-again", "true")
        id_ = await site.make().submit(spec)
        ended = await until(site.make(), spec.name, is_over)
        assert ended is not None
        assert (ended.job_id, ended.cause) == (id_, EndCause.OK)

    asyncio.run(main())


@pytest.mark.slow
def test_each_of_several_jobs_is_told_in_one_look_and_by_itself(
    site: BatchSite, tmp_path: Path
) -> None:
    """Some releases leave out what they know: nothing that is there may look as if it were gone."""

    async def main() -> None:
        system = site.make()
        names = [f"wl-test-several-{number}" for number in range(3)]
        bodies = ("true", "sleep 600", "sleep 600")
        ids = [
            await system.submit(site.job(tmp_path / name, name, body))
            for name, body in zip(names, bodies, strict=True)
        ]
        await until(system, names[0], is_over)
        for _ in range(2):  # by name, then by id
            found = await system.poll(names)
            assert {name: job.job_id for name, job in found.items()} == dict(
                zip(names, ids, strict=True)
            )
            assert [is_over(found[name]) for name in names] == [True, False, False]
        for name, id_ in zip(names[1:], ids[1:], strict=True):
            told = await site.make().look_up(id_)
            assert told is not None
            assert (told.name, told.job_id) == (name, id_)
            assert told.phase in (JobPhase.QUEUED, JobPhase.STARTING, JobPhase.RUNNING)
        await system.cancel(ids)

    asyncio.run(main())


def test_queues_of_the_site(site: BatchSite) -> None:
    require_known(site)
    told = asyncio.run(site.make().site())
    queue = told.queues[site.queue]
    assert (queue.is_default, queue.is_open, queue.nodes) == (True, True, 2)
    assert (queue.gpus_per_node, queue.idle_nodes) == (site.gpus, 2)
    assert told.queues["short"].max_walltime_s in (120, 300)
    assert not told.queues[site.closed].is_open
    assert told.version


@pytest.mark.slow
def test_nodes_with_jobs_are_not_idle(site: BatchSite, tmp_path: Path) -> None:
    require_known(site)

    async def main() -> None:
        system = site.make()
        spec = site.job(tmp_path, "wl-test-busy", "sleep 600")
        id_ = await system.submit(spec)
        await until(system, spec.name, lambda j: j is not None and j.phase is JobPhase.RUNNING)
        assert (await system.site()).queues[site.queue].idle_nodes == 1
        await system.cancel([id_])

    asyncio.run(main())


def test_a_refusal_names_the_way_out(site: BatchSite, tmp_path: Path) -> None:
    with pytest.raises(JobRefused, match=site.knows_no_queue) as refused:
        asyncio.run(site.make().submit(site.job(tmp_path, "wl-test-no", "true", queue="nowhere")))
    assert refused.value.kind is ReasonKind.NO_SUCH_AGENT
    assert not refused.value.passing


@pytest.mark.slow
def test_a_job_whose_directory_its_node_does_not_see_fails(site: BatchSite, tmp_path: Path) -> None:
    """It has no place for its log. PBS and Slurm 22.05 do not start it; 25.11 does, and our script ends it."""

    async def main() -> None:
        system = site.make()
        spec = site.job(tmp_path, "wl-test-nolog", "true")
        missing = tmp_path / "missing"
        script = job_script(missing, sys.executable, nodes=1)
        id_ = await system.submit(replace(spec, directory=missing, script=script))
        await until(system, spec.name, is_over)
        told = await system.look_up(id_)
        assert told is not None
        assert told.cause in (EndCause.LAUNCH_FAILED, EndCause.FAILED)

    asyncio.run(main())


def test_a_job_that_nobody_knows_is_left_out(site: BatchSite) -> None:
    system = site.make()
    assert asyncio.run(system.poll(["wl-test-never"])) == {}
    assert asyncio.run(system.look_up("999999")) is None


@pytest.mark.slow
def test_a_signal_reaches_the_script(site: BatchSite, tmp_path: Path) -> None:
    async def main() -> None:
        system = site.make()
        body = "trap 'exit 7' USR1; touch ready; while :; do sleep 0.1; done"
        spec = site.job(tmp_path, "wl-test-signal", f"cd {tmp_path}; {body}")
        id_ = await system.submit(spec)
        await asyncio.to_thread(eventually, "it is ready", (tmp_path / "ready").exists)
        await system.signal(id_, "USR1")
        await until(system, spec.name, is_over)
        told = await system.look_up(id_)
        assert told is not None
        assert (told.cause, told.exit_code) == (EndCause.FAILED, 7)
        await system.signal(id_, "USR1")

    asyncio.run(main())


@pytest.mark.slow
def test_a_time_limit_ends_a_job(site: BatchSite, tmp_path: Path) -> None:
    if site.shortest_walltime_s is None:
        pytest.skip("Slurm looks at time limits every half minute: tests/integration/slurm")

    async def main() -> None:
        system = site.make()
        spec = site.job(tmp_path, "wl-test-time", "sleep 600", walltime_s=site.shortest_walltime_s)
        await system.submit(spec)
        ended = await until(system, spec.name, is_over)
        assert ended is not None
        assert ended.cause is EndCause.TIMEOUT

    asyncio.run(main())


def test_nothing_of_the_masters_environment_reaches_a_job(
    site: BatchSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What submits passes on what it sees, and obeys variables of its own."""

    async def main() -> None:
        for name in ("DB_PASSWORD", "SBATCH_PARTITION", "PBS_DEFAULT"):
            monkeypatch.setenv(name, "secret")
        system = site.make()
        spec = site.job(tmp_path, "wl-test-env", "env", queue="")
        await system.submit(spec)
        await until(system, spec.name, is_over)

    asyncio.run(main())
    said = (tmp_path / "batch.log").read_text()
    assert "_JOBID=" in said or "_JOB_ID=" in said
    assert "secret" not in said


@pytest.mark.slow
def test_a_site_that_is_down_says_nothing(site: BatchSite, tmp_path: Path) -> None:
    """Neither that a job ended, nor that a submission failed. Commands of Slurm wait some seconds each."""
    require_known(site)
    system = site.make()
    id_ = asyncio.run(system.submit(site.job(tmp_path, "wl-test-down", "sleep 600")))
    with site.down():
        with pytest.raises(NoAnswer):
            asyncio.run(system.poll(["wl-test-down"]))
        with pytest.raises(NoAnswer):
            asyncio.run(system.submit(site.job(tmp_path, "wl-test-lost", "true")))
        with pytest.raises(NoAnswer):
            asyncio.run(system.look_up(id_))
    assert asyncio.run(system.poll(["wl-test-down"]))["wl-test-down"].job_id == id_
