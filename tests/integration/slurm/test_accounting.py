"""A Slurm with slurmdbd: preemption by QoS, limits of QoS and accounts, and what accounting remembers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gated_trial import MODEL, all_logs
from tests.integration.slurm.test_dispatch import (
    Gates,
    batch_jobs,
    config,
    jobs_agents,
    why_it_waits,
)
from tests.real_cluster import WINDLASS, RealCluster, eventually
from tests.slurm import Slurm, require_slurm, running_slurm
from windlass.base.errors import WindlassError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PREEMPTION = "PreemptType=preempt/qos\nPreemptMode=REQUEUE\nMinJobAge=2\n"
ACCOUNTING = """
add account limited
add account strangers
add account short_lived
add qos scavenger
add qos scavenger_cancel
add qos urgent
add qos one_runs
add qos two_wait
add qos one_gpu
add qos minutes
modify qos scavenger set GraceTime=60 PreemptMode=requeue
modify qos scavenger_cancel set GraceTime=60 PreemptMode=cancel
modify qos urgent set Preempt=scavenger,scavenger_cancel
modify qos one_runs set MaxJobsPerUser=1
modify qos two_wait set MaxSubmitJobsPerUser=2
modify qos one_gpu set GrpTRES=gres/gpu=1
modify qos minutes set MaxWall=5
add user {user} account=limited
add user {user} account=short_lived
modify user {user} set qos=normal,scavenger,scavenger_cancel,urgent,one_runs,two_wait,one_gpu,minutes
modify user {user} where account=limited set MaxJobs=1
"""
QOS = ("scavenger", "scavenger_cancel", "one_runs", "two_wait", "one_gpu", "minutes")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require_slurm(accounting=True)
    folder = tmp_path_factory.mktemp("dbd")
    folder.chmod(0o755)
    with running_slurm(folder, accounting=True, more=PREEMPTION) as slurm:
        for line in ACCOUNTING.format(user=slurm.owner).strip().splitlines():
            slurm.run("sacctmgr", "-i", "-Q", *line.split())
        yield slurm


@pytest.fixture(scope="module")
def shared(site: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("accounted")
    provider = {"type": "slurm", "partition": "gpu", "account": "research"}
    pools = [
        {"pool_name": "batch", "provider": provider},
        {"pool_name": "limited", "provider": {**provider, "account": "limited"}},
        {"pool_name": "short_lived", "provider": {**provider, "account": "short_lived"}},
        *({"pool_name": name, "provider": {**provider, "qos": name}} for name in QOS),
        {
            "pool_name": "minutes_first",
            "fall_back_to": ["batch"],
            "fall_back_after": "10h",
            "provider": {**provider, "qos": "minutes"},
        },
    ]
    settings = {"resource_pools": pools, "allowed_host_paths": [str(folder / "cluster")]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
        with RealCluster(folder / "cluster", settings) as running:
            yield running


@pytest.fixture
def cluster(shared: RealCluster, slurm: Slurm) -> Iterator[RealCluster]:
    yield shared
    shared.recover()
    eventually("its jobs are over", lambda: not slurm.jobs())
    eventually("its agents are forgotten", lambda: not jobs_agents(shared))


@pytest.fixture
def gates(shared: RealCluster, request: pytest.FixtureRequest) -> Gates:
    return Gates(shared.folder / f"gates-of-{request.node.name[-40:]}")


def in_pool(gates: Gates, pool: str, **settings: Any) -> dict[str, Any]:
    resources = {"slots_per_trial": 1, "resource_pool": pool}
    return config(gates, resources=resources, **settings)


def remembered(slurm: Slurm, job_id: str, *fields: str) -> list[str]:
    """All runs of a job, as accounting tells of them."""
    words = ("-n", "-P", "-X", "--duplicates", "-j", job_id, "-o", ",".join(fields))
    return slurm.run("sacct", *words).split()


@pytest.mark.parametrize("pool", ["scavenger", "scavenger_cancel"])
def test_a_job_preempted_by_qos_makes_a_checkpoint_and_goes_on_in_another(
    cluster: RealCluster, slurm: Slurm, gates: Gates, pool: str
) -> None:
    """Within the grace time; the site's own requeue is never used."""
    hyperparameters = {"gate": "/gates/open", "steps": 40}
    experiment = cluster.submit(in_pool(gates, pool, hyperparameters=hyperparameters), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    words = ("-q", "urgent", "-N2", "--gres=gpu:2", "--output=/dev/null", "--wrap=sleep 1")
    slurm.run("sbatch", "--parsable", *words)
    eventually("it goes on", lambda: "run 2, from step" in all_logs(cluster, experiment))
    assert "run 2, from step 0" not in all_logs(cluster, experiment)
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0
    metrics = trial["latestValidation"]["metrics"]["avgMetrics"]
    assert metrics["loss"] == round(1 / 40, 6), "those of one long run"
    first, second = batch_jobs(cluster, experiment)
    assert first["id"] != second["id"]
    eventually("accounting has it", lambda: remembered(slurm, first["id"], "End") != ["Unknown"])
    assert len(remembered(slurm, first["id"], "State")) == 1, "it was requeued"


def test_a_job_that_an_administrator_requeues_is_replaced(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """Slurm would run it again, under its old number: it is cancelled, and another one goes on."""
    experiment = cluster.submit(in_pool(gates, "batch", max_restarts=0), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    (first,) = batch_jobs(cluster, experiment)
    slurm.run("scontrol", "update", f"JobId={first['id']}", "Requeue=1")
    slurm.run("scontrol", "requeue", first["id"])
    eventually("there is another", lambda: len(batch_jobs(cluster, experiment)) == 2)
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert "put back into the queue by the site" in all_logs(cluster, experiment)
    second = batch_jobs(cluster, experiment)[-1]
    assert second["id"] != first["id"]


def test_accounts_and_qos_that_the_user_may_not_name_are_refused(
    cluster: RealCluster, gates: Gates
) -> None:
    for argument, said in (
        ("--account=nobody", '"nobody" is no account that this user may name: limited, research'),
        ("--account=strangers", '"strangers" is no account'),
        ("--qos=no_such", '"no_such" is no QOS of account research that this user may name'),
    ):
        wrong = in_pool(gates, "batch", slurm={"sbatch_args": [argument]})
        with pytest.raises(WindlassError, match=said):
            cluster.submit(wrong, MODEL)


@pytest.mark.parametrize(
    ("pool", "reason", "words"),
    [
        (
            "one_runs",
            "QOSMaxJobsPerUserLimit",
            "the QOS has reached its limit of running jobs per user",
        ),
        ("one_gpu", "QOSGrpGRES", "the QOS has reached its limit of GPUs"),
        ("limited", "AssocMaxJobsLimit", "the account has reached its limit of running jobs"),
        ("two_wait", "QOSMaxSubmitJobPerUserLimit", "the site takes no more jobs of pool"),
    ],
)
def test_what_is_over_a_limit_waits_with_that_reason(
    cluster: RealCluster, slurm: Slurm, gates: Gates, pool: str, reason: str, words: str
) -> None:
    more = 3 if pool == "two_wait" else 2
    experiments = [cluster.submit(in_pool(gates, pool), MODEL) for _ in range(more)]

    def told() -> bool:
        explained = "".join(why_it_waits(cluster, one) for one in experiments)
        return reason in explained and words in explained

    try:
        eventually("the reason is told", told)
    finally:
        gates.open()
    for experiment in experiments:
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", all_logs(cluster, experiment)


def test_an_account_that_is_taken_away_fails_what_names_it(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """Not at once, and not after other tries: none of its restarts is used."""
    slurm.run(
        *("sacctmgr", "-i", "-Q", "delete", "user", f"name={slurm.owner}", "account=short_lived")
    )
    experiment = cluster.submit(in_pool(gates, "short_lived", max_restarts=5), MODEL)
    eventually("it says why", lambda: "Invalid account" in why_it_waits(cluster, experiment))
    assert cluster.wait(experiment)["state"] == "STATE_ERROR"
    why = "Slurm refuses its job: Batch job submission failed: Invalid account or account/partition"
    assert f"was terminated: allocation failed: {why}" in all_logs(cluster, experiment)
    assert "give one of yours with --account" in all_logs(cluster, experiment)
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0
    assert [job["id"] for job in batch_jobs(cluster, experiment)] == [""], "of no job at the site"


def test_a_job_of_more_time_than_its_qos_ever_gives_is_not_waited_for(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """Slurm takes it, and would keep it for ever. Where its pool falls back it runs elsewhere, long before its time."""
    gates.open()
    fails = cluster.submit(in_pool(gates, "minutes", max_restarts=5), MODEL)
    runs = cluster.submit(in_pool(gates, "minutes_first"), MODEL)
    reason = "QOSMaxWallDurationPerJobLimit (it asks for more time than the QOS gives to one job)"
    eventually("it says why", lambda: reason in why_it_waits(cluster, fails))
    assert cluster.wait(fails)["state"] == "STATE_ERROR"
    assert f"{reason}: it will never start like this: give a shorter --time" in all_logs(
        cluster, fails
    )
    (trial,) = cluster.trials(fails)
    assert trial["restarts"] == 0
    assert cluster.wait(runs)["state"] == "STATE_COMPLETED"
    assert "in resource pool batch, not in minutes_first" in all_logs(cluster, runs)
    eventually("no job of it is left", lambda: not slurm.jobs())


def test_what_a_job_used_is_known_also_when_only_accounting_remembers_it(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """It ended, and the controller forgot it, while the master was away."""
    experiment = cluster.submit(in_pool(gates, "batch", entrypoint="sh plain.sh 0"), MODEL)
    eventually("it runs", lambda: "it waits" in all_logs(cluster, experiment))
    (name,) = slurm.jobs("RUNNING")
    (job,) = batch_jobs(cluster, experiment)
    cluster.kill_master()
    gates.open()
    containers = cluster.data_dir / "jobs" / name / "nodes"
    eventually(
        "its end is written down",
        lambda: list(containers.glob("*/agent/containers/*/verdict.json")),
    )
    cluster.end_hosts(containers)  # its agent hears of nobody, and ends: here at once
    eventually("its job is over", lambda: not slurm.jobs())
    eventually(
        "the controller forgot it",
        lambda: not slurm.run("scontrol", "show", "job", job["id"], check=False),
        patience_s=150,
    )
    cluster.start_master()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    eventually("its end is known", lambda: batch_jobs(cluster, experiment)[0]["endTime"])
    (job,) = batch_jobs(cluster, experiment)
    assert (job["account"], len(job["nodes"]), job["gpus"]) == ("research", 1, 1)
    (elapsed,) = remembered(slurm, job["id"], "ElapsedRaw")
    assert job["gpuHours"] == pytest.approx(int(elapsed) / 3600, abs=2 / 3600)


def test_the_doctor_tells_limits_of_accounts_and_qos(slurm: Slurm, tmp_path: Path) -> None:
    done = subprocess.run(
        [WINDLASS, "hpc", "check", "--json", "--account", "limited"],
        env={**os.environ, **slurm.environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    checks = json.loads(done.stdout)
    (limits,) = [check["found"] for check in checks if check["name"] == "limits"]
    assert "account limited: 1 running jobs" in limits
    assert "QOS one_runs: 1 running jobs of a user" in limits
    assert "QOS two_wait: 2 jobs of a user that wait or run" in limits
    assert "QOS one_gpu: gres/gpu=1 for all of its jobs" in limits


def test_while_slurmdbd_is_away_nothing_counts_as_gone(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    experiment = cluster.submit(in_pool(gates, "batch"), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    slurm.stop_accounting()
    try:
        cluster.kill_master()
        cluster.start_master()
        eventually("its agent is back", lambda: jobs_agents(cluster))
        second = cluster.submit(in_pool(gates, "batch"), MODEL)
        eventually("another one works", lambda: "run 1, from" in all_logs(cluster, second))
        gates.open()
        for one in (experiment, second):
            assert cluster.wait(one)["state"] == "STATE_COMPLETED"
            assert len(batch_jobs(cluster, one)) == 1
    finally:
        slurm.start_accounting()
