"""qsub's command line: ours, and what users add to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.batch.base import JobSpec
from provisioner.batch.pbs.arguments import (
    problems,
    qsub_line,
    wanted_walltime_s,
    without_effect,
)

JOB = JobSpec(
    name="wl-0123456789ab-1",
    queue="workq",
    nodes=2,
    gpus_per_node=4,
    directory=Path("/shared/job"),
    script="#!/bin/sh\n",
)


@pytest.mark.parametrize(
    ("argument", "dropped"),
    [
        ("-l select=2:ncpus=8:gpu_type=a100", "2, ncpus=8 have"),
        ("-l select=1:gpu_type=a100+1:ncpus=2", "+1:ncpus=2 has"),
        ("-l select=mem=4gb:ngpus=2", "ngpus=2 has"),
        ("-l place=pack:excl", "pack has"),
    ],
)
def test_what_is_not_taken_of_chunks_and_places_is_told(argument: str, dropped: str) -> None:
    (line,) = without_effect([argument])
    assert line.startswith(f'"{argument}": {dropped} no effect: resources.slots_per_trial')


def test_what_is_taken_is_no_trouble() -> None:
    taken = ["-l select=1:gpu_type=a100:mem=4gb", "-l place=scatter:excl:group=rack", "-A me", "?"]
    assert list(without_effect(taken)) == []


def test_what_a_job_is_made_of() -> None:
    job = replace(JOB, cpus_per_node=8, memory_mib_per_node=4000, walltime_s=5400.5, project="team")
    assert " ".join(qsub_line(job)) == (
        "qsub -N wl-0123456789ab-1 -r n -k oed -j oe -o /shared/job/batch.log -W umask=077"
        " -l select=2:ncpus=8:mpiprocs=1:ngpus=4:mem=4000mb -l place=scatter -l walltime=01:30:01"
        " -q workq -P team -- /bin/sh /shared/job/batch.sh"
    )


def test_no_gpus_are_asked_for_where_none_are_wanted() -> None:
    assert "select=2:ncpus=1:mpiprocs=1" in qsub_line(replace(JOB, gpus_per_node=0))


def test_what_users_select_joins_ours() -> None:
    """Count and arrangement of chunks, CPUs and GPUs are ours."""
    arguments = (
        "-l select=9:ncpus=1:ngpus=1:gpu_type=a100:mem=4gb+1:ncpus=2",
        "-l place=pack:exclhost,walltime=2:00:00",
        "-A acct",
        "-W group_list=users",
        "-P proj",
    )
    line = qsub_line(replace(JOB, arguments=arguments, project="ours"))
    assert "select=2:ncpus=1:mpiprocs=1:ngpus=4:gpu_type=a100:mem=4gb" in line
    assert "place=scatter:exclhost" in line
    assert "walltime=2:00:00" in line
    assert "umask=077,group_list=users" in line
    assert line[line.index("-A") + 1] == "acct"
    assert line.count("-P") == 1
    assert line[line.index("-P") + 1] == "proj"


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("-q gpu", "-q"),
        ("-qgpu", "-q"),
        ("-N x", "-N"),
        ("-o /tmp/x", "-o"),
        ("-e /tmp/x", "-e"),
        ("-j oe", "-j"),
        ("-k n", "-k"),
        ("-r y", "-r"),
        ("-J 1-9", "-J"),
        ("-I", "-I"),
        ("-V", "-V"),
        ("-v A=1", "-v"),
        ("-z", "-z"),
        ("-h", "-h"),
        ("-u bob", "-u"),
        ("-W block=true", "-W block"),
        ("-W depend=afterok:1,umask=022", "-W umask"),
        ("-W UMASK=022", "-W umask"),
        ("-W Job_Name=mine", "-W job_name"),
        ("-W Variable_List='A=1'", "-W variable_list"),
        ("-W Keep_Files=n", "-W keep_files"),
        ("-W stagein=key@login1:/var/lib/windlass/key", "-W stagein"),
        ("-W Stageout=mine@login1:/home/windlass/.ssh/authorized_keys", "-W stageout"),
        ("-W sandbox=PRIVATE,x='", "-W sandbox"),
        ('-W x=a"b,umask=022,y=c"', "-W umask"),
        ("-l nodes=2:ppn=4", "-l nodes"),
        ("-l NGPUS=2", "-l ngpus"),
        ('-l mem="1gb,ngpus=4', "-l ngpus"),
        ("-l walltime=1:00:00,ngpus=2", "-l ngpus"),
    ],
)
def test_what_contradicts_ours_is_refused(argument: str, named: str) -> None:
    (problem,) = problems([argument])
    assert f"PBS option {named} is not configurable: " in problem


@pytest.mark.parametrize("given", ["24 hours", "24h", "1-00:00:00", "1:2:3:4", ""])
def test_what_is_no_walltime_is_refused(given: str) -> None:
    (problem,) = problems([f"-l mem=1gb,walltime={given}"])
    assert f'walltime={given}" is no walltime of PBS: ' in problem
    assert "-l walltime=24:00:00" in problem


@pytest.mark.parametrize("given", ["3600", "24:00:00", "10:00", "1:00:00.5", '"1:00:00"'])
def test_walltimes_that_qsub_takes_are_taken(given: str) -> None:
    assert problems([f"-l walltime={given}"]) == []


@pytest.mark.parametrize("argument", ["gpu", "--version", "--", "-", "-A", "-l", "-p 1\n2", ""])
def test_what_is_no_option_is_refused(argument: str) -> None:
    (problem,) = problems([argument])
    assert "is no option of qsub" in problem


@pytest.mark.parametrize(
    "argument",
    [
        "-A acct",
        "-P proj",
        "-p 100",
        "-l walltime=1:00:00",
        "-W depend=afterok:5",
        "-m abe",
        "-M a@b",
    ],
)
def test_what_is_given_to_qsub(argument: str) -> None:
    assert problems([argument]) == []


def test_chunks_of_users_do_not_set_ours_in_other_letters() -> None:
    line = qsub_line(replace(JOB, arguments=("-l SELECT=1:NGPUS=8:Mem=4gb",)))
    assert "select=2:ncpus=1:mpiprocs=1:ngpus=4:mem=4gb" in line
    assert not [word for word in line if "=8" in word]


def test_a_quote_that_is_not_closed_reaches_qsub_which_refuses_it() -> None:
    assert "mem='1gb" in qsub_line(replace(JOB, arguments=("-l mem='1gb",)))


def test_the_walltime_that_arguments_ask_for() -> None:
    assert wanted_walltime_s(["-l Walltime=60"]) == 60
    assert wanted_walltime_s(["-A x"]) is None
    assert wanted_walltime_s(["-l walltime=1:00:00", "-lmem=1gb,walltime=30:00"]) == 1800


def test_what_is_less_important_has_a_lower_priority() -> None:
    """What a user says of that counts."""
    line = qsub_line(replace(JOB, nice=8))
    assert line[line.index("-p") + 1] == "-8"
    assert "-p" not in qsub_line(JOB)
    line = qsub_line(replace(JOB, nice=8, arguments=("-p 100",)))
    assert [line[at + 1] for at, word in enumerate(line) if word == "-p"] == ["100"]
