"""A master that is a batch job: how its legs are submitted, what is refused, and that its end ends all of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hpc_world import HOME, QUEUES, facts

from master.hpc import as_job, up
from master.hpc.as_job import MasterJobSpec, end_all, legs, new_leg, read_leg, submit, write_leg
from master.hpc.place import MasterFolder, MasterRecord
from master.hpc.plan import SitePlan, plan_of
from master.hpc.site.gather import GivenPlaces
from master.hpc.up import UpOptions
from provisioner.batch.pbs.arguments import qsub_line
from provisioner.batch.slurm.arguments import sbatch_line
from provisioner.batch.slurm.system import SlurmSystem
from tests.fakes.slurm_commands import FakeSlurm
from windlass.base.errors import Conflict, InvalidArgument

LEG = MasterJobSpec(
    name="wm-1", system="slurm", queue="gpu", walltime_s=3600, account="team", python="/py"
)
PLACE = MasterFolder(Path("/home/me/windlass"))


def planned(**changes: object) -> SitePlan:
    return plan_of(facts(**changes), uid=1000)


def test_a_leg_of_slurm_waits_for_the_one_before_and_for_its_node() -> None:
    line = sbatch_line(LEG.job(PLACE, 2, after="41", node="n1"))
    assert {"--job-name=wm-1-2", "--dependency=afterany:41", "--nodelist=n1"} <= set(line)
    assert {"--account=team", "--partition=gpu", "--nodes=1"} <= set(line)
    assert not any(word.startswith("--gres") for word in line)
    first = sbatch_line(LEG.job(PLACE, 1))
    assert not any(word.startswith(("--dependency", "--nodelist")) for word in first)


def test_a_leg_of_pbs_waits_for_the_one_before_and_for_its_node() -> None:
    leg = LEG.model_copy(update={"system": "pbs"})
    line = " ".join(qsub_line(leg.job(PLACE, 2, after="41.server", node="n1")))
    assert "-W umask=077,depend=afterany:41.server" in line
    assert ":host=n1" in line
    assert "-A team" in line


def test_a_leg_runs_where_no_gpu_is_for_as_long_as_the_queue_gives() -> None:
    leg = new_leg(planned(), queue="", walltime_s=None)
    assert (leg.queue, leg.walltime_s) == ("cpu", as_job.USUAL_WALLTIME_S)
    short = new_leg(planned(), queue="short", walltime_s=None)
    assert short.walltime_s == QUEUES["short"].max_walltime_s


def test_what_cannot_be_a_leg_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidArgument, match="--queue nosuch: give one of cpu, gpu, short"):
        new_leg(planned(), queue="nosuch", walltime_s=None)
    with pytest.raises(InvalidArgument, match="--walltime: 2h is more than short gives \\(1h\\)"):
        new_leg(planned(), queue="short", walltime_s=7200)
    without = replace(HOME, file_system="lustre", has_locks=False)
    with pytest.raises(InvalidArgument, match="has no file locks, which the database"):
        new_leg(planned(shared=(without,)), queue="", walltime_s=None)


def test_legs_are_remembered(tmp_path: Path) -> None:
    place = MasterFolder(tmp_path)
    with pytest.raises(Conflict, match="up --as-job"):
        read_leg(place)
    write_leg(place, LEG)
    assert read_leg(place) == LEG


def test_a_damaged_leg_is_written_anew_and_its_jobs_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their name is in the record of the master, too: no second master starts beside them."""
    place = MasterFolder(tmp_path)
    slurm = FakeSlurm(holds_back=True)
    monkeypatch.setattr(as_job, "batch_system", lambda *_: SlurmSystem(slurm))
    asyncio.run(submit(place, LEG, 1))
    place.note(
        MasterRecord(host="", folder=tmp_path, url="", cluster_id="", system="slurm", job=LEG.name)
    )
    (tmp_path / "master-job" / "leg.json").write_text("{")
    plan = planned(address="127.0.0.1", shared=(replace(HOME, path=str(tmp_path)),))
    wishes = UpOptions(where=GivenPlaces(), as_job=True)
    (said,) = up._as_job(facts(), plan, wishes, print)
    assert "is a batch job already" in said
    assert read_leg(place).name == LEG.name
    assert len(slurm.jobs) == 1


async def test_the_end_ends_also_a_leg_that_was_submitted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = MasterFolder(tmp_path)
    submitted: list[str] = []

    class Resubmitting(FakeSlurm):
        async def run(self, words: list[str], **settings: object) -> object:  # type: ignore[override]
            if words[0] == "scancel" and not submitted:
                submitted.append("once")
                await submit(place, LEG, 3)
            return await super().run(words, **settings)  # type: ignore[arg-type]

    slurm = Resubmitting(holds_back=True)
    monkeypatch.setattr(as_job, "LOOK_S", 0.0)
    monkeypatch.setattr(as_job, "batch_system", lambda *_: SlurmSystem(slurm))
    await submit(place, LEG, 1)
    await submit(place, LEG, 2, after="1")
    assert [job.name for job in await legs(LEG)] == ["wm-1-1", "wm-1-2"]
    assert len(await end_all(LEG)) == 3
    assert await legs(LEG) == []
