"""What a node of a batch system says of itself to an agent in a job, and what of that its tasks are told. Pure."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping
from contextlib import suppress

from agent_bootstrap.agent.gpus.selection import batch_job

JOB_PREFIXES = ("SLURM_", "SLURMD_", "PBS_")
SECRETS = ("SLURM_JWT", "PBS_JOBCOOKIE", "PBS_AUTH")
"""Whoever has these acts as the user of the job."""
_NEVER = ("DET_", "WINDLASS_", *SECRETS)
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")
_NEAR = "localhost,127.0.0.1"


def site_node(environ: Mapping[str, str]) -> str:
    """What the site calls this node; empty outside of jobs. Slurm's name may be another than the host's."""
    if batch_job(environ) is None:
        return ""
    return environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def job_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What tasks see of the job that they run in."""
    if batch_job(environ) is None:
        return {}
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(JOB_PREFIXES) and not name.startswith(SECRETS)
    }


def inherited(given: Mapping[str, str], job: Mapping[str, str]) -> dict[str, str]:
    """`given`: the variables of a task. Those without a value have the one of the `job`, if that has one."""
    empty = (name for name, value in given.items() if not value and not name.startswith(_NEVER))
    return {name: job[name] for name in empty if name in job}


def proxies_of(environment: str, master_host: str) -> dict[str, str]:
    """Of a node's /etc/environment, in both cases. The master is not behind them."""
    found: dict[str, str] = {}
    for line in environment.splitlines():
        name, is_one, value = line.strip().removeprefix("export ").partition("=")
        if is_one and name.strip().lower() in _PROXIES:
            with suppress(ValueError):
                found[name.strip().lower()] = "".join(shlex.split(value, comments=True))
    if not found:
        return {}
    near = (found.get("no_proxy", ""), _NEAR, master_host)
    found["no_proxy"] = ",".join(filter(None, near))
    return found | {name.upper(): value for name, value in found.items()}
