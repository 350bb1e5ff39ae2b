"""An agent that a user started inside a job of their own."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_bootstrap.agent.batch.own_job import (
    KILL_WAIT,
    OwnJob,
    end_of,
    follow_end,
    last_moment,
    named_after,
    own_job,
)
from agent_bootstrap.agent.options import AgentOptions
from tests.fakes.virtual_time import run

END = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def options(**given: object) -> AgentOptions:
    return AgentOptions.model_validate({"master_url": "http://m", **given})


@pytest.mark.parametrize(
    ("environ", "given", "job"),
    [
        ({}, {}, None),
        ({"SLURM_JOB_ID": "12", "SLURM_NODEID": "3"}, {}, OwnJob("12", "3")),
        ({"SLURM_JOB_ID": "12"}, {}, OwnJob("12", "0")),
        ({"SLURM_JOB_ID": "12;rm"}, {}, None),
        ({"PBS_JOBID": "12.pbssrv", "PBS_NODENUM": "1"}, {}, OwnJob("12.pbssrv", "1", "pbs")),
        ({"PBS_JOBID": "12;rm"}, {}, None),
        ({"PBS_JOBID": "12.pbssrv"}, {"instance_id": "wl-1-0", "agent_id": "wl-1-0"}, None),
        ({"SLURM_JOB_ID": "12"}, {"instance_id": "wl-1-0", "agent_id": "wl-1-0"}, None),
    ],
)
def test_a_job_is_recognised_unless_the_master_submitted_it(
    environ: dict[str, str], given: dict[str, str], job: OwnJob | None
) -> None:
    assert own_job(options(**given), environ) == job


def test_it_is_called_after_the_job_unless_somebody_named_it(tmp_path: Path) -> None:
    job = OwnJob("12", "3")
    named = named_after(job, options())
    assert named.agent_id == "slurm-12-3"
    assert named.work_dir == options().work_dir / "slurm-12-3"
    assert named_after(OwnJob("12.pbssrv", "0", "pbs"), options()).agent_id == "pbs-12-0"
    assert named_after(OwnJob("12[3].pbssrv", "0", "pbs"), options()).agent_id == "pbs-12-3-0"
    kept = named_after(job, options(agent_id="mine", work_dir=tmp_path))
    assert (kept.agent_id, kept.work_dir) == ("mine", tmp_path)


@pytest.mark.parametrize(
    ("script", "start_end", "end"),
    [
        (f"echo {int(END.timestamp())}", "1", END),
        ("exit 1", str(int(END.timestamp())), END),
        ("echo N/A", "", None),
        (None, str(int(END.timestamp())), END),
    ],
)
def test_its_end_is_what_the_scheduler_says_now(
    tmp_path: Path, script: str | None, start_end: str, end: datetime | None
) -> None:
    """Without an answer, what the job was told at its start."""
    if script is not None:
        squeue = tmp_path / "squeue"
        squeue.write_text(f'#!/bin/sh\n[ "$*" = "-h -j 12 -o %e" ] || exit 2\n{script}\n')
        squeue.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.defpath}", "SLURM_JOB_END_TIME": start_end}
    assert asyncio.run(end_of(OwnJob("12", "0"), environ)) == end


TRANSCRIPT = Path(__file__).parents[2] / "transcripts/pbs/multichunk.json"
PBS_JSON = next(
    step["stdout"]
    for step in json.loads(TRANSCRIPT.read_text())["steps"]
    if step["command"] == "qstat -f -F json 67.pbssrv"
)
PBS_END = datetime(2026, 11, 20, 22, 16, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        (PBS_JSON, PBS_END),
        (PBS_JSON.replace('"', "", 1), PBS_END),
        (
            "    resources_used.walltime = 00:00:09\n    Resource_List.walltime = 01:00:00\n"
            "    stime = Mon Nov  2 23:30:00 2026\n",
            datetime(2026, 11, 3, 0, 30, tzinfo=UTC),
        ),
        ("    Resource_List.walltime = 01:00:00\n", None),
        ("    stime = Xyz Nov 99 23:30:00 2026\n    Resource_List.walltime = 01:00:00\n", None),
        ("", None),
    ],
)
def test_the_end_of_a_job_of_pbs(tmp_path: Path, said: str, end: datetime | None) -> None:
    """Its start and its limit, also from JSON that is broken."""
    (tmp_path / "said").write_text(said)
    qstat = tmp_path / "qstat"
    qstat.write_text(
        f'#!/bin/sh\n[ "$TZ $*" = "UTC -f -F json 12.pbssrv" ] || exit 2\ncat {tmp_path}/said\n'
    )
    qstat.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.defpath}"}
    assert asyncio.run(end_of(OwnJob("12.pbssrv", "0", "pbs"), environ)) == end


def test_an_end_that_moves_nearer_is_told_and_one_that_moves_away_is_not() -> None:
    ends = iter([END, END + timedelta(hours=1), None, END - timedelta(hours=1)])
    told: list[datetime] = []

    async def look() -> datetime | None:
        try:
            return next(ends)
        except StopIteration:
            raise asyncio.CancelledError from None

    async def leave(at: datetime, _: str) -> None:
        told.append(at)

    async def main() -> None:
        following = asyncio.create_task(follow_end(look, leave, END))
        await asyncio.gather(following, return_exceptions=True)

    run(main(), limit_s=3600)
    assert told == [END - timedelta(hours=1)]


def test_work_may_take_until_the_end_of_the_job_or_what_slurm_leaves_it() -> None:
    before = END - timedelta(minutes=2)
    slurm, pbs = OwnJob("12", "0"), OwnJob("12.pbssrv", "0", "pbs")
    wait = KILL_WAIT["slurm"]
    assert last_moment(slurm, END, before) == END
    assert last_moment(slurm, END, END + timedelta(seconds=5)) == END + timedelta(seconds=5) + wait
    assert last_moment(slurm, None, before) == before + wait
    assert last_moment(pbs, None, before) == before + KILL_WAIT["pbs"]
