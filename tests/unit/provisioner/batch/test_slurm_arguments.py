"""sbatch's command line: ours, and what users add to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.batch.base import JobSpec
from provisioner.batch.slurm.arguments import problems, sbatch_line, wanted_walltime_s

JOB = JobSpec(
    name="wl-0123456789ab-1",
    queue="gpu",
    nodes=2,
    gpus_per_node=4,
    directory=Path("/shared/job"),
    script="#!/bin/sh\n",
)


def test_what_a_job_is_made_of() -> None:
    job = replace(
        JOB,
        gpu_type="a100",
        cpus_per_node=8,
        memory_mib_per_node=4000,
        walltime_s=5400.5,
        avoid=("n3",),
        project="team",
        nice=8,
    )
    assert sbatch_line(job) == [
        "sbatch",
        "--parsable",
        "--no-requeue",
        "--open-mode=append",
        "--job-name=wl-0123456789ab-1",
        "--chdir=/shared/job",
        "--output=/shared/job/batch.log",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--partition=gpu",
        "--gres=gpu:a100:4",
        "--cpus-per-task=8",
        "--mem=4000M",
        "--time=1:30:01",
        "--exclude=n3",
        "--wckey=team",
        "--nice=8",
    ]


def test_other_resources_and_nodes_to_avoid_join_ours() -> None:
    """sbatch would let the last --gres and --exclude win."""
    job = replace(
        JOB, avoid=("n3",), arguments=("--gres=nvme:1", "-x n4", "-A  research", "--time 60")
    )
    line = sbatch_line(job)
    assert "--gres=gpu:4,nvme:1" in line
    assert "--exclude=n3,n4" in line
    assert line[-2:] == ["-Aresearch", "--time=60"]


def test_no_gpus_are_asked_for_where_none_are_wanted() -> None:
    assert not [word for word in sbatch_line(replace(JOB, gpus_per_node=0)) if "gres" in word]


@pytest.mark.parametrize(
    "argument",
    [
        "--nodes=2",
        "--nodes 2",
        "-N2",
        "-N 2",
        "-HN2",
        "--gres=gpu:2",
        "--gres gpu:tesla:2",
        "--gres=nvme:1,gpu:1",
        "--gpus=2",
        "-G2",
        "--part=gpu",
        "-p gpu",
        "--requeue",
        "--no-requeue",
        "--no-req",
        "--array=1-3",
        "--wrap=true",
        "--output=x",
        "-o x",
        "--test-only",
        "--uid=0",
        "--export-file=/var/lib/windlass/key",
        "--export-f /var/lib/windlass/key",
        "--bbf=/var/lib/windlass/key",
        "-V",
    ],
)
def test_what_contradicts_us_is_refused(argument: str) -> None:
    [problem] = problems([argument])
    assert f'"{argument}"' in problem
    assert "is not configurable" in problem


@pytest.mark.parametrize(
    "argument",
    ["--time=24 hours", "--time=24h", "-t 1:2:3:4", "--time", "--time=", "--time-min=soon"],
)
def test_what_is_no_time_limit_is_refused(argument: str) -> None:
    [problem] = problems([argument])
    assert f'"{argument}" is no time limit of Slurm: write minutes, as --time' in problem


@pytest.mark.parametrize(
    "limit", ["0", "90", "90:30", "24:00:00", "2-0", "2-12:30", "2-00:00:00", "UNLIMITED", "-1"]
)
def test_time_limits_that_sbatch_takes_are_taken(limit: str) -> None:
    assert problems([f"--time={limit}"]) == []


@pytest.mark.parametrize("argument", ["", "-", "--", "script.sh", "a --time=3", "-t\0"])
def test_what_is_no_option_is_refused(argument: str) -> None:
    """A bare word would be taken for the script."""
    [problem] = problems([argument])
    assert "is no option of sbatch" in problem


@pytest.mark.parametrize(
    "argument",
    [
        "--time=60",
        "-t60",
        "--account=research",
        "-A research",
        "--qos=high",
        "--constraint=ib&a100",
        "-C ib",
        "--exclusive",
        "--mem=0",
        "--nodelist=n1",
        "--gres=nvme:1",
        "--nice=10",
        "--reservation=class",
        "-H",
        "--mail-user=o@example.org",
        "--export=ALL,DEBUG=1",
        "--bb=capacity=1G",
    ],
)
def test_the_rest_is_taken(argument: str) -> None:
    assert problems([argument]) == []


def test_words_stay_whole() -> None:
    """Nothing of an argument becomes another one."""
    line = sbatch_line(replace(JOB, arguments=("--comment=a b --nodes=9", "-A x -N9")))
    assert line[-2:] == ["--comment=a b --nodes=9", "-Ax -N9"]


def test_the_last_time_counts() -> None:
    assert wanted_walltime_s(["--time=60", "-t 2:00"]) == 120
    assert wanted_walltime_s(["--account=x"]) is None


def test_an_array_starts_each_of_its_jobs_in_a_directory_of_its_own() -> None:
    line = sbatch_line(replace(JOB, tasks=20))
    assert "--array=0-19" in line
    assert f"--chdir={JOB.directory.parent}" in line
    assert f"--output={JOB.directory}.%a/batch.log" in line
    assert not any(word.startswith("--array") for word in sbatch_line(JOB))
