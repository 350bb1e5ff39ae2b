"""What tasks are told of the batch job that they run in."""

from __future__ import annotations

import pytest

from agent_bootstrap.agent.batch.node import inherited, job_variables, proxies_of, site_node

SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_NODEID": "1",
    "SLURMD_NODENAME": "n2",
    "SLURM_JWT": "secret",
    "HOME": "/home/me",
}


def test_tasks_see_the_job_without_its_secrets() -> None:
    assert job_variables(SLURM) == {
        "SLURM_JOB_ID": "7",
        "SLURM_NODEID": "1",
        "SLURMD_NODENAME": "n2",
    }
    pbs = {"PBS_JOBID": "8.hpc", "PBS_JOBCOOKIE": "secret", "PBS_QUEUE": "gpu", "NCPUS": "4"}
    assert job_variables(pbs) == {"PBS_JOBID": "8.hpc", "PBS_QUEUE": "gpu"}


def test_outside_of_jobs_there_is_none() -> None:
    assert job_variables({"SLURM_CONF": "/etc/slurm.conf"}) == {}
    assert site_node({"SLURM_CONF": "/etc/slurm.conf"}) == ""


def test_a_node_is_called_as_its_site_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert site_node(SLURM) == "n2"
    monkeypatch.setattr("socket.gethostname", lambda: "pn1.cluster.example")
    assert site_node({"PBS_JOBID": "8.hpc"}) == "pn1"


def test_a_variable_without_a_value_is_that_of_the_job() -> None:
    given = {"SCRATCH": "", "EMPTY": "", "SET": "mine", "DET_SECRET": "", "SLURM_JWT": ""}
    job = {
        "SCRATCH": "/scratch/7",
        "SET": "others",
        "DET_SECRET": "x",
        "MORE": "y",
        "SLURM_JWT": "z",
    }
    assert inherited(given, job) == {"SCRATCH": "/scratch/7"}


def test_proxies_of_a_node_are_given_in_both_cases_and_do_not_hide_the_master() -> None:
    text = (
        'PATH=/bin\nexport http_proxy="http://proxy:3128"\nHTTPS_PROXY=http://proxy:3128 # site\n'
        "no_proxy=.cluster\nhttp_proxy_broken='\nftp_proxy='\n"
    )
    near = ".cluster,localhost,127.0.0.1,login1"
    assert proxies_of(text, "login1") == {
        "http_proxy": "http://proxy:3128",
        "HTTP_PROXY": "http://proxy:3128",
        "https_proxy": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": near,
        "NO_PROXY": near,
    }
    assert proxies_of("PATH=/bin\n", "login1") == {}
