"""What is written for a job: its script, and what its agents are told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from provisioner.batch.base import EndCause
from provisioner.batch.job_files import JobFiles, JobShape, OwnRecord
from tests.real_cluster import eventually

SHAPE = JobShape(queue="gpu", nodes=1, slots_per_node=2, gpus_per_node=2)


@dataclass(frozen=True)
class Job:
    shape: JobShape
    tag: str = "wl-1"
    job_name: str = "wl-1"
    pool: str = "p"
    agents: tuple[str, ...] = ("wl-1-0",)


def test_gpus_that_the_site_does_not_know_are_not_asked_for(tmp_path: Path) -> None:
    """Its agent takes the first ones of its node."""
    files = JobFiles(root=tmp_path, python="python3", agent={})
    spec = files.write(Job(replace(SHAPE, asks_for_gpus=False)), "t")
    told = json.loads((spec.directory / "nodes/0/host.json").read_text())["agent"]
    assert (spec.gpus_per_node, told["slot_type"], told["visible_gpus"]) == (0, "cuda", "0,1")
    spec = files.write(Job(SHAPE), "t")
    told = json.loads((spec.directory / "nodes/0/host.json").read_text())["agent"]
    assert spec.gpus_per_node == 2
    assert "visible_gpus" not in told


def test_what_an_operator_says_of_gpus_counts(tmp_path: Path) -> None:
    files = JobFiles(root=tmp_path, python="python3", agent={"visible_gpus": "all"})
    spec = files.write(Job(replace(SHAPE, asks_for_gpus=False)), "t")
    told = json.loads((spec.directory / "nodes/0/host.json").read_text())["agent"]
    assert told["visible_gpus"] == "all"


@pytest.mark.parametrize("before", ["", "/site/lib"])
def test_folders_of_the_site_come_first_in_jobs(tmp_path: Path, before: str) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\n[ "$1" = -ISc ] || echo "$PATH $LD_LIBRARY_PATH"\n')
    python.chmod(0o755)
    files = JobFiles(
        root=tmp_path / "jobs", python=str(python), agent={}, path="/a b:/c", libraries="/l"
    )
    script = files.write(Job(SHAPE), "t").script
    environment = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1", "LD_LIBRARY_PATH": before}
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    libraries = "/l:/site/lib" if before else "/l"
    assert done.stdout == f"/a b:/c:/usr/bin:/bin {libraries}\n"


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (
            '{"event": "no connection to the master: direct: No route to host", "level": "warning"}',
            "node 0: no connection to the master: direct: No route to host",
        ),
        ('{"event": "agent n1: 2 slots", "level": "info"}', ""),
        (
            "ModuleNotFoundError: No module named 'pydantic'",
            "node 0: ModuleNotFoundError: No module named 'pydantic'",
        ),
        ("[1, 2]", "node 0: [1, 2]"),
        ("", ""),
    ],
)
def test_what_keeps_agents_from_their_master_is_read_from_their_logs(
    tmp_path: Path, last: str, words: str
) -> None:
    files, job = JobFiles(root=tmp_path, python="python3", agent={}), Job(SHAPE)
    files.write(job, "t")
    assert files.agents_say(job) == ""
    log = tmp_path / "wl-1/nodes/0/agent.log"
    log.write_text(f'{{"event": "begins", "level": "warning"}}\n{last}\n' if last else "")
    assert files.agents_say(job) == words


def test_logs_of_jobs_lead_to_no_other_file_and_hold_nobody_up(tmp_path: Path) -> None:
    """Tasks may write there, and the master shows their last lines."""
    files, job = JobFiles(root=tmp_path / "jobs", python="python3", agent={}), Job(SHAPE)
    folder = files.write(job, "t").directory
    (tmp_path / "master.key").write_text("secret\n")
    (folder / "batch.log").symlink_to(tmp_path / "master.key")
    os.mkfifo(folder / "nodes/0/agent.log")
    assert files.said(job) == ""


def test_logs_of_jobs_say_nothing_to_a_terminal(tmp_path: Path) -> None:
    files, job = JobFiles(root=tmp_path, python="python3", agent={}), Job(SHAPE)
    (files.write(job, "t").directory / "batch.log").write_text("\x1b]0;owned\x07\n")
    assert "\x1b" not in files.said(job)


def on_pbs(folder: Path, host: str) -> tuple[subprocess.Popen[bytes], JobFiles]:
    """The script of a job of one node, in a session of its own. `host`: shell, in place of our agent."""
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\n[ "$1" = -ISc ] && exit 0\n{host}\n')
    python.chmod(0o755)
    (folder / "nodes").write_text("pn1\n")
    files = JobFiles(root=folder / "jobs", python=str(python), agent={})
    spec = files.write(Job(SHAPE), "t")
    environment = {"PATH": "/usr/bin:/bin", "PBS_NODEFILE": str(folder / "nodes")}
    script = spec.directory / "batch.sh"
    job = subprocess.Popen(["/bin/sh", script], env=environment, start_new_session=True)
    return job, files


def test_a_job_of_pbs_notes_when_it_was_told_to_end(tmp_path: Path) -> None:
    """A site that keeps no history says nothing of that later."""
    ready = tmp_path / "ready"
    job, files = on_pbs(tmp_path, f"mkfifo {ready}; echo > {ready}; exec sleep 600")
    eventually("its host runs", ready.exists)
    ready.read_bytes()
    assert files.own_record(Job(SHAPE)) == OwnRecord(begun=False)
    before = int(time.time())
    os.killpg(job.pid, signal.SIGTERM)
    assert job.wait(30) == 1
    record = files.own_record(Job(SHAPE))
    assert record.told_to_end_at is not None
    assert before <= record.told_to_end_at <= time.time()


def test_a_job_of_pbs_whose_node_failed_was_not_told_to_end(tmp_path: Path) -> None:
    job, files = on_pbs(tmp_path, "exit 3")
    assert job.wait(30) == 1
    assert files.own_record(Job(SHAPE)).told_to_end_at is None


def test_what_a_job_noted_counts_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    files, job = JobFiles(root=tmp_path, python="python3", agent={}), Job(SHAPE)
    assert files.own_record(job).begun, "its directory is not seen"
    folder = files.write(job, "t").directory
    assert not files.own_record(job).begun
    (folder / "batch.log").touch()
    assert files.own_record(job) == OwnRecord(begun=True)
    (folder / "told-to-end").write_text("no time\n")
    assert files.own_record(job).told_to_end_at is None
    (folder / "told-to-end").write_text("1795800000\n")
    assert files.own_record(job).told_to_end_at == 1795800000


@pytest.mark.parametrize("made", [False, True], ids=["missing", "empty"])
def test_a_job_whose_node_does_not_see_its_directory_fails_and_says_what_to_do(
    tmp_path: Path, made: bool
) -> None:
    """Newer releases of Slurm start it without a place for its log, or with one that they make on that node."""
    files, job = JobFiles(root=tmp_path / "jobs", python="python3", agent={}), Job(SHAPE)
    spec = files.write(job, "t")
    seen_by_node = spec.script.replace(str(tmp_path / "jobs"), str(tmp_path / "node"))
    if made:
        (tmp_path / "node" / "wl-1").mkdir(parents=True)
    done = subprocess.run(
        ["/bin/sh", "-c", seen_by_node],
        env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "this node does not see" in done.stderr) == (1, True)
    assert "it left no log in its directory" in files.why_it_ended(job, EndCause.FAILED)
    assert files.why_it_ended(job, EndCause.OK) == ""
    (spec.directory / "batch.log").touch()
    assert files.why_it_ended(job, EndCause.FAILED) == ""


def begun(folder: Path, *prologue: str) -> tuple[subprocess.CompletedProcess[str], JobFiles]:
    """A job of one node, whose host says what it sees."""
    python = folder / "python3"
    python.write_text('#!/bin/sh\n[ "$1" = -ISc ] || echo "host: $SITE $PATH $*"\n')
    python.chmod(0o755)
    files = JobFiles(root=folder / "jobs", python=str(python), agent={}, prologue=prologue)
    spec = files.write(Job(SHAPE), "t")
    with (spec.directory / "batch.log").open("w") as log:
        done = subprocess.run(
            ["/bin/sh", "-c", spec.script],
            env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1"},
            stdout=log,
            stderr=log,
            text=True,
            check=False,
        )
    return done, files


def test_what_a_prologue_of_jobs_sets_is_seen_by_the_host(tmp_path: Path) -> None:
    """Also by the lines after it; a name that the shell expands is that of the node."""
    done, files = begun(tmp_path, "echo loading", "export SITE='a b'", 'PATH="/opt/tool/bin:$PATH"')
    assert done.returncode == 0
    first, second = files.log_tail(Job(SHAPE))
    assert first == "loading"
    node = tmp_path / "jobs/wl-1/nodes/0"
    assert (
        second == f"host: a b /opt/tool/bin:/usr/bin:/bin -P -m agent_bootstrap.host --dir {node}"
    )


@pytest.mark.parametrize(
    ("lines", "code", "last"),
    [
        (("echo one", "echo no such module >&2; false", "echo never"), 1, "no such module"),
        (("exit 7",), 7, ""),
        (("no-such-command",), 127, "command not found"),
        (("( exit 3 )",), 3, ""),
    ],
)
def test_a_prologue_of_jobs_that_fails_is_why_the_job_does(
    tmp_path: Path, lines: tuple[str, ...], code: int, last: str
) -> None:
    done, files = begun(tmp_path, *lines)
    assert done.returncode == code
    said = files.last_words(Job(SHAPE))
    assert f"job_prologue ended with exit code {code}" in said
    assert said.endswith(last)
    assert "host:" not in (tmp_path / "jobs/wl-1/batch.log").read_text()


def test_a_prologue_of_jobs_may_use_any_descriptor(tmp_path: Path) -> None:
    """The job ended well then, without an agent and without a word."""
    done, files = begun(tmp_path, "exec 3>/dev/null 4>&3", "exec 3>&- 4>&-")
    assert done.returncode == 0
    assert files.last_words(Job(SHAPE)).startswith("host: ")


def test_why_a_prologue_failed_counts_more_than_what_srun_says_after_it(tmp_path: Path) -> None:
    _, files = begun(tmp_path, "exit 7")
    with (tmp_path / "jobs/wl-1/batch.log").open("a") as log:
        log.write("srun: error: n1: task 0: Exited with exit code 7\n")
    assert "job_prologue ended with exit code 7" in files.last_words(Job(SHAPE))
