"""Bad input and bad sites: one clear sentence with the value and the way out, at submission where it can be known.

What keeps a login node away is in tests/integration/login_node, what stands against a site in tests/unit/hpc.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.protocol import Hello
from master.core.reasons import ReasonKind
from provisioner.batch.base import Queue, SiteFacts
from provisioner.batch.dialects import DIALECTS
from provisioner.batch.script import job_script
from provisioner.batch.slurm.states import refusal_of
from rm_backends.agents.connections.joining import Proof, join_refusal
from rm_backends.base import BatchOptions, JobOptions
from rm_backends.batch.leases import way_out_of
from rm_backends.batch.shapes import shape_of
from rm_backends.ports import JoinGrant, JoinKind
from tests.fakes.agents_world import allocation
from tests.fakes.batch_world import slurm_pool
from windlass.base.errors import Unsatisfiable

QUEUE = Queue(
    name="gpu",
    nodes=2,
    gpus_per_node=4,
    gpu_types=frozenset({"a100"}),
    cpus_per_node=16,
    max_walltime_s=7200,
)
SITE = SiteFacts(version="0", queues={"gpu": QUEUE}, accounts={"physics": frozenset({"normal"})})


def submitted(slots: int = 4, **asked: Any) -> str:
    """Why it is refused."""
    options = slurm_pool("p", partition="gpu")
    request = replace(allocation(1, slots=slots), batch=BatchOptions(slurm=JobOptions(**asked)))
    try:
        shape = shape_of(request, options, QUEUE)
    except Unsatisfiable as error:
        return error.message
    return "; ".join(DIALECTS["slurm"].account_problems(shape.arguments, SITE))


def joined(name: str, *, uses: dict[str, str] | None = None) -> str:
    """Why an agent of that name is refused, which shows the token of job wl-1."""
    grant = JoinGrant(pool="p", kind=JoinKind.JOB, id="wl-1", names=frozenset({"wl-1-0"}), agents=1)
    hello = Hello(
        agent_id=name, instance_id=name, boot_id="b", pool="p", version="0", slots=(), hostname="n"
    )
    proof = Proof(grant=grant, credential_hash="mine")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return join_refusal(hello, proof, None, uses=uses or {}, launched=True, now=now) or ""


def sbatch(text: str) -> str:
    refused = refusal_of(f"sbatch: error: Batch job submission failed: {text}\n")
    assert refused.kind in (ReasonKind.NO_SUCH_AGENT, ReasonKind.QUOTA)
    return refused.message


def unwritable(number: int) -> str:
    return way_out_of(OSError(number, "no", "/shared/jobs"), "")


@pytest.mark.parametrize(
    ("refused", "value", "way_out"),
    [
        (lambda: sbatch("Invalid partition name specified"), "Invalid partition", "sinfo -s lists"),
        (
            lambda: submitted(arguments=("--account=chemistry",)),
            '"chemistry" is no account that this user may name',
            "physics",
        ),
        (
            lambda: submitted(arguments=("--qos=urgent",)),
            '"urgent" is no QOS that this user may name',
            "normal",
        ),
        (
            lambda: sbatch("Invalid account or account/partition combination specified"),
            "Invalid account",
            "--account",
        ),
        (lambda: sbatch("Invalid qos specification"), "Invalid qos", "--qos"),
        (lambda: submitted(gpu_type="h100"), 'has no "h100"', "its types are a100"),
        (lambda: submitted(12), "Requested 12 slots; the maximum of partition gpu", "is 8"),
        (lambda: submitted(6), "Requested 6 slots", "request 4 or 8, or set slurm.slots_per_node"),
        (
            lambda: submitted(8, slots_per_node=8),
            "Requested 8 slots on each node; nodes of partition gpu of pool 'p' have 4 GPUs",
            "request fewer, or set slurm.slots_per_node",
        ),
        (
            lambda: submitted(arguments=("--time=3:00:00",)),
            "Requested 3h; partition gpu of pool 'p' gives a job 2h at most",
            "give a shorter --time",
        ),
        (
            lambda: submitted(arguments=("--time=24 hours",)),
            '"--time=24 hours" is no time limit of Slurm',
            "--time=24:00:00",
        ),
        (
            lambda: submitted(arguments=("--partition=debug",)),
            '"--partition=debug": slurm option --partition is not configurable',
            "resources.resource_pool",
        ),
        (lambda: submitted(arguments=("--array=1-9",)), "--array is not configurable", "remove it"),
        (
            lambda: submitted(arguments=("sleep 1",)),
            '"sleep 1" is no option of sbatch',
            "--time=60",
        ),
        (lambda: unwritable(errno.EDQUOT), "free some space", "quota"),
        (lambda: unwritable(errno.ENOSPC), "free some space", "quota"),
        (lambda: unwritable(errno.ENOENT), "job_storage_root", "may write"),
        (
            lambda: joined("wl-1-0", uses={"wl-1-0": "another's"}),
            "the join token was spent by agent 'wl-1-0' already",
            "windlass master join-token create p",
        ),
        (
            lambda: joined("wl-2-0"),
            "the join token is not for agent 'wl-2-0': it is of job wl-1 alone",
            "windlass master join-token create p",
        ),
    ],
)
def test_one_sentence_with_the_value_and_the_way_out(
    refused: Callable[[], str], value: str, way_out: str
) -> None:
    said = refused()
    assert value in said
    assert way_out in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("exit 1", "is no Python 3.11 or newer: set `python` of the provider"),
        (None, "is no Python 3.11 or newer: set `python` of the provider"),
    ],
)
def test_a_node_with_an_old_python_or_none(tmp_path: Path, python: str | None, words: str) -> None:
    """The last line of its log is what the reason of its request shows."""
    (tmp_path / "batch.sh").touch()
    program = tmp_path / "python"
    if python is not None:
        program.write_text(f"#!/bin/sh\necho 'Unknown option: -I' >&2\n{python}\n")
        program.chmod(0o755)
    said = run(job_script(tmp_path, str(program), nodes=1))
    assert words in said.splitlines()[-1]


def test_a_node_that_does_not_see_the_folder_of_the_job(tmp_path: Path) -> None:
    said = run(job_script(tmp_path / "away", "python3", nodes=1))
    assert said.splitlines()[-1] == f"this node does not see {tmp_path}/away"


def run(script: str) -> str:
    """A job of Slurm on one node: what it says."""
    done = subprocess.run(
        ["sh"],
        input=script,
        env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1", "SLURM_NODEID": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    return done.stderr
