"""Trials as batch jobs, on a real Slurm: from the request to the end of the job, with nothing left behind."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.gated_trial import MODEL, all_logs, gated_trial
from tests.real_cluster import WINDLASS, RealCluster, eventually
from tests.shells import ClusterShell, FilesInAShell, assert_told_its_end
from tests.slurm import Slurm

SITE = {"type": "slurm", "partition": "gpu"}
POOLS = [
    {"pool_name": "batch", "provider": SITE},
    {
        "pool_name": "overflowing",
        "provider": SITE,
        "fall_back_to": ["local"],
        "fall_back_after": "1s",
    },
    {"pool_name": "minutes", "provider": {**SITE, "walltime": "1m"}},
    {"pool_name": "scavenger", "provider": {**SITE, "partition": "scavenger"}},
    {"pool_name": "impatient", "provider": SITE, "agent_reconnect_wait": "1s"},
    {"pool_name": "own"},
    {"pool_name": "local", "provider": {"type": "embedded", "slots_per_instance": 2}},
]


class Gates:
    """Files that trials wait for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def open(self) -> None:
        (self.folder / "open").touch()


def config(gates: Gates, **settings: Any) -> dict[str, Any]:
    return gated_trial(gates.folder, **settings)


@pytest.fixture(scope="module")
def shared(site: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """One master for all tests of this file."""
    folder = tmp_path_factory.mktemp("dispatch")
    settings = {"resource_pools": POOLS, "allowed_host_paths": [str(folder / "cluster")]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
        with RealCluster(folder / "cluster", settings) as running:
            yield running


@pytest.fixture
def cluster(shared: RealCluster, slurm: Slurm) -> Iterator[RealCluster]:
    """With nothing left of other tests, and nothing left by this one: no job, agent, directory or process."""
    yield shared
    shared.recover()
    eventually("its jobs are over", lambda: not slurm.jobs())
    eventually("its agents are forgotten", lambda: not jobs_agents(shared))
    eventually("its directories are gone", lambda: not list(shared.data_dir.glob("jobs/wl-*")))
    eventually("its processes are gone", lambda: not jobs_processes(shared))


def jobs_agents(cluster: RealCluster) -> list[str]:
    return [name for name in cluster.agents() if name.startswith("wl-")]


def jobs_processes(cluster: RealCluster, word: str = "") -> list[psutil.Process]:
    return cluster.processes(cluster.data_dir / "jobs", word=word)


@pytest.fixture
def gates(shared: RealCluster, request: pytest.FixtureRequest) -> Gates:
    return Gates(shared.folder / f"gates-of-{request.node.name[-40:]}")


def test_a_gang_on_two_nodes_from_request_to_end(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    gates.open()
    experiment = cluster.submit(config(gates), MODEL)
    ended = cluster.wait(experiment)
    (trial,) = cluster.trials(experiment)
    log = cluster.logs_of(trial["id"])
    assert ended["state"] == "STATE_COMPLETED", log
    assert "rank 0 of 2: gpus 0,1" in log
    assert "rank 1 of 2: gpus 0,1" in log
    (job,) = batch_jobs(cluster, experiment)
    assert (job["queue"], job["nodes"], job["gpus"]) == ("gpu", ["n1", "n2"], 4)
    eventually("its end is known", lambda: batch_jobs(cluster, experiment)[0]["endTime"])
    assert batch_jobs(cluster, experiment)[0]["gpuHours"] > 0
    assert f"INFO: Slurm job {job['id']} in partition gpu was submitted" in log
    assert f"INFO: Slurm job {job['id']} in partition gpu has n1, n2" in log


def why_it_waits(cluster: RealCluster, experiment: int) -> str:
    """As `det job explain` shows it."""
    job = cluster.experiment(experiment)["jobId"]
    explained = cluster.get(f"/api/v1/windlass/jobs/{job}/explain")
    return json.dumps(explained)


def test_a_full_partition_is_a_reason_and_a_cause_to_fall_back(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """What waits shows the site's reason; in a pool with `fall_back_to` it runs elsewhere, and its job is cancelled."""
    gates.open()
    blocker = slurm.run(
        *("sbatch", "--parsable", "-N2", "--gres=gpu:2", "--output=/dev/null", "--wrap=sleep 600")
    ).strip()
    eventually("the site is full", lambda: slurm.jobs("RUNNING"))
    waits = cluster.submit(config(gates), MODEL)
    moves = cluster.submit(
        config(gates, resources={"slots_per_trial": 2, "resource_pool": "overflowing"}), MODEL
    )
    ended = cluster.wait(moves)
    assert ended["state"] == "STATE_COMPLETED"
    eventually("the site's reason shows", lambda: "is pending: " in why_it_waits(cluster, waits))
    assert [name for name in slurm.jobs("PENDING") if name.startswith("wl-")]
    eventually(
        "its log says it", lambda: "in partition gpu is pending: " in all_logs(cluster, waits)
    )
    slurm.run("scancel", blocker)
    assert cluster.wait(waits)["state"] == "STATE_COMPLETED"


def test_scancel_by_somebody_else_ends_the_trial(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """It is not submitted again, whatever restarts it has left."""
    experiment = cluster.submit(config(gates, max_restarts=5), MODEL)
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, experiment))
    (name,) = slurm.jobs("RUNNING")
    (job,) = batch_jobs(cluster, experiment)
    scratch = scratch_of(processes_of_job(job["id"]))
    assert len(scratch) == 2, "each node has one"
    slurm.run("scancel", "--name", name)
    ended = cluster.wait(experiment)
    eventually("no process of it is left", lambda: not processes_of_job(job["id"]))
    assert not [folder for folder in scratch if folder.exists()]
    assert ended["state"] == "STATE_ERROR"
    assert "was cancelled at the site" in all_logs(cluster, experiment)
    assert slurm.jobs("PENDING", "RUNNING", "COMPLETING") in ([], [name])


@pytest.mark.slow
def test_a_master_that_is_killed_finds_its_jobs_again(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """One that runs and one that pends; nothing is submitted twice."""
    runs = cluster.submit(config(gates), MODEL)
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, runs))
    pends = cluster.submit(config(gates), MODEL)
    eventually("the other pends", lambda: slurm.jobs("PENDING"))
    before = sorted(slurm.jobs())
    cluster.kill_master()
    cluster.start_master()
    eventually("its agents are back", lambda: len(jobs_agents(cluster)) == 2)
    assert sorted(slurm.jobs()) == before
    gates.open()
    for experiment in (runs, pends):
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
        assert "run 1, from" in all_logs(cluster, experiment)
    done = slurm.run("squeue", "-h", "-t", "all", "-o", "%j").split()
    assert sorted(name for name in done if name in before) == before


@pytest.mark.slow
@pytest.mark.parametrize(("code", "state"), [(0, "STATE_COMPLETED"), (3, "STATE_ERROR")])
def test_what_ended_while_the_master_was_away_is_told_from_its_directory(
    cluster: RealCluster, slurm: Slurm, gates: Gates, code: int, state: str
) -> None:
    """The job is over, too: the task is not run again, and its last words are in its log."""
    entrypoint = f"sh plain.sh {code}"
    experiment = cluster.submit(config(gates, entrypoint=entrypoint), MODEL)
    eventually("it runs", lambda: all_logs(cluster, experiment).count("it waits") == 2)
    (name,) = slurm.jobs("RUNNING")
    cluster.kill_master()
    gates.open()
    containers = cluster.data_dir / "jobs" / name / "nodes"
    eventually(
        "its ends are written down",
        lambda: len(list(containers.glob("*/agent/containers/*/verdict.json"))) == 2,
    )
    # Its agents hear of nobody, and end: here at once, not after ten minutes.
    cluster.end_hosts(containers)
    eventually("its job is over", lambda: not slurm.jobs())
    cluster.start_master()
    assert cluster.wait(experiment)["state"] == state
    log = all_logs(cluster, experiment)
    assert log.count("it waits") == 2
    assert log.count("its last word") == 2


def test_a_node_that_goes_down_is_a_loss_and_a_new_job(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    experiment = cluster.submit(config(gates), MODEL)
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, experiment))
    slurm.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    eventually("the loss is told", lambda: "failed" in all_logs(cluster, experiment))
    slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME", check=False)
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"


@pytest.mark.slow
def test_a_node_that_a_log_policy_excludes_is_excluded_at_the_site(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """The first run says what a broken GPU says; the next one is in a job that must not use that node."""
    gates.open()
    broken = '[ "$DET_TRIAL_RUN_ID" != 1 ] || { echo "NVRM: Xid 79"; exit 1; }'
    settings = {
        "entrypoint": ["sh", "-c", f"{broken}; exec python3 train.py"],
        "resources": {"slots_per_trial": 2, "resource_pool": "batch"},
        "log_policies": [{"pattern": "Xid [0-9]+", "action": "exclude_node"}],
        "max_restarts": 1,
    }
    experiment = cluster.submit(config(gates, **settings), MODEL)
    ended, log = cluster.wait(experiment), all_logs(cluster, experiment)
    assert ended["state"] == "STATE_COMPLETED", log
    assert "matched regex Xid [0-9]+) therefore will not schedule on" in log
    first, second = sorted(batch_jobs(cluster, experiment), key=lambda one: int(one["id"]))
    excluded = slurm.run("squeue", "-h", "-t", "all", "-j", second["id"], "-o", "%x")
    assert excluded.split() == first["nodes"]
    assert set(first["nodes"]).isdisjoint(second["nodes"])


@pytest.mark.slow
def test_a_controller_that_is_away_stops_no_trial(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """The trial works and ends meanwhile; its job is seen to be over when the controller is back."""
    experiment = cluster.submit(config(gates), MODEL)
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, experiment))
    slurm.stop_controller()
    try:
        waits = cluster.submit(config(gates), MODEL)
        eventually(
            "it is said that the site does not answer",
            lambda: "does not answer" in why_it_waits(cluster, waits),
        )
        gates.open()
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    finally:
        slurm.start_controller()
    assert cluster.wait(waits, patience_s=110)["state"] == "STATE_COMPLETED"


@pytest.mark.slow
def test_a_search_of_short_trials(cluster: RealCluster, gates: Gates) -> None:
    gates.open()
    search = {
        "name": "adaptive_asha",
        "metric": "loss",
        "max_trials": 8,
        "max_time": 4,
        "time_metric": "legs",
        "mode": "aggressive",
    }
    resources = {"slots_per_trial": 1, "resource_pool": "batch"}
    experiment = cluster.submit(config(gates, searcher=search, resources=resources), MODEL)
    assert cluster.wait(experiment, patience_s=110)["state"] == "STATE_COMPLETED"
    assert len(cluster.trials(experiment)) == 8


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_training_goes_on_in_another_job_when_the_time_is_over(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """A minute each: it makes a checkpoint in time, and ends with the metrics of one long run. A shell just ends."""
    settings = {
        "resources": {"slots_per_trial": 2, "resource_pool": "minutes"},
        "preemption_timeout": 45,
        "hyperparameters": {"gate": "/gates/open", "steps": 40},
    }
    shell = ClusterShell(
        cluster,
        *("--config", "resources.resource_pool=minutes", "--volume", f"{gates.folder}:/gates"),
    )
    experiment = cluster.submit(config(gates, **settings), MODEL)
    files = FilesInAShell(shell, gates.folder, "/gates")
    assert_told_its_end(shell)
    eventually(
        "it runs in a second job", lambda: "run 2, from step 39" in all_logs(cluster, experiment)
    )
    gates.open()
    ended = cluster.wait(experiment)
    assert ended["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0
    metrics = trial["latestValidation"]["metrics"]["avgMetrics"]
    assert metrics["loss"] == round(1 / 40, 6)
    assert re.search("job .* reached its time limit", shell.wait())
    assert "reached its time limit" in shell.log()
    files.assert_what_is_left()


@pytest.mark.slow
def test_an_agent_in_a_users_own_job_joins_and_knows_its_end(
    cluster: RealCluster, slurm: Slurm
) -> None:
    cluster.start_agent("own-agent", pool="own", via=("srun", "-n1", "-pgpu", "--time=5"))
    eventually("it has joined", lambda: "own-agent" in cluster.agents())
    assert "ends at" in json.dumps(cluster.get("/api/v1/agents/own-agent"))
    slurm.run("scancel", "--me")


@pytest.mark.slow
def test_sigterm_in_a_users_own_job_means_a_checkpoint_now(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """As of `#SBATCH --signal=B:TERM@120`: nothing is lost, and the job ends by itself."""
    token = cluster.folder / "own.token"
    if not token.exists():
        words = ("master", "pool-token", "own", "-c", str(cluster.config_file))
        said = subprocess.run(
            [WINDLASS, *words, "--data-dir", str(cluster.data_dir)], check=True, capture_output=True
        )
        token.touch(mode=0o600)
        token.write_bytes(said.stdout)

    def submit() -> str:
        agent = f"exec {WINDLASS} agent run --master {cluster.url} --pool own --slot-type cuda"
        agent += f" --join-token-file {token} --work-dir {cluster.folder / 'of-jobs'}/$SLURM_JOB_ID"
        script = cluster.folder / "own.sh"
        script.write_text(f"#!/bin/sh\n{agent}\n")
        words = ("-p", "gpu", "-N1", "--gres=gpu:1", "--time=90", f"--output={script}.log")
        return slurm.run("sbatch", "--parsable", *words, str(script)).strip()

    def state(job: str) -> str:
        return slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    settings = {
        "resources": {"slots_per_trial": 1, "resource_pool": "own"},
        "hyperparameters": {"gate": "/gates/open", "steps": 40},
    }
    first = submit()
    eventually("it has joined", lambda: f"slurm-{first}-0" in cluster.agents())
    experiment = cluster.submit(config(gates, **settings), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    slurm.run("scancel", "--batch", "--signal=TERM", first)
    eventually("the job ends by itself", lambda: state(first) == "COMPLETED")
    gates.open()
    second = submit()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", all_logs(cluster, experiment)
    assert "run 2, from step " in all_logs(cluster, experiment)
    assert "run 2, from step 0" not in all_logs(cluster, experiment)
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0
    slurm.run("scancel", "--batch", "--signal=TERM", second)
    eventually("the job ends by itself", lambda: state(second) == "COMPLETED")


@pytest.mark.slow
def test_a_job_that_its_site_preempts_makes_a_checkpoint_and_goes_on_in_another(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """Within the grace time of the partition: no loss, and no restart."""
    settings = {
        "resources": {"slots_per_trial": 2, "resource_pool": "scavenger"},
        "hyperparameters": {"gate": "/gates/open", "steps": 40},
    }
    experiment = cluster.submit(config(gates, **settings), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    slurm.run(
        *("sbatch", "--parsable", "-p", "urgent", "-N2", "--gres=gpu:2", "--output=/dev/null"),
        "--wrap=sleep 1",
    )
    eventually("it goes on", lambda: "run 2, from step" in all_logs(cluster, experiment))
    assert "run 2, from step 0" not in all_logs(cluster, experiment)
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0


@pytest.mark.slow
def test_a_suspended_job_goes_on_where_it_was(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    """Its agents are silent for longer than others may be, and are not lost."""
    resources = {"slots_per_trial": 2, "resource_pool": "impatient"}
    experiment = cluster.submit(config(gates, resources=resources), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    (job,) = batch_jobs(cluster, experiment)
    slurm.run("scontrol", "suspend", job["id"])
    (agent,) = jobs_agents(cluster)
    eventually("it is seen", lambda: batch_jobs(cluster, experiment)[0]["state"] == "SUSPENDED")
    for process in jobs_processes(
        cluster
    ):  # slurmd of a test stops steps, and not what they started
        process.suspend()
    eventually(
        "its agent is away",
        lambda: (
            not cluster.get(f"/api/v1/agents/{agent}")["agent"]["enabled"]
            or cluster.get(f"/api/v1/agents/{agent}")["agent"]["draining"]
        ),
    )
    for process in jobs_processes(cluster):
        process.resume()
    slurm.run("scontrol", "resume", job["id"])
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert "run 2, from" not in all_logs(cluster, experiment)
    assert len(batch_jobs(cluster, experiment)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["agent", "host", "script"])
def test_what_runs_a_job_is_killed(
    cluster: RealCluster, slurm: Slurm, gates: Gates, what: str
) -> None:
    """The trial goes on, in this job or in another, beside one that pends and one that is over.

    Nothing is submitted twice, and nothing is left.
    """
    done = cluster.submit(config(gates, entrypoint="true"), MODEL)
    assert cluster.wait(done)["state"] == "STATE_COMPLETED"
    experiment = cluster.submit(config(gates), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    pends = cluster.submit(config(gates), MODEL)
    eventually("the other pends", lambda: slurm.jobs("PENDING"))
    (job,) = batch_jobs(cluster, experiment)
    if what == "script":  # which has become srun
        victim = next(one for one in psutil.process_iter() if is_srun_of(one, job["id"]))
    else:
        victim = jobs_processes(cluster, f"agent_bootstrap.{what}")[0]
    victim.kill()
    victim.wait(10)
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert cluster.wait(pends)["state"] == "STATE_COMPLETED"
    jobs = batch_jobs(cluster, experiment)
    assert len(jobs) == len({one["id"] for one in jobs}) <= 2
    for untouched in (done, pends):
        assert len(batch_jobs(cluster, untouched)) == 1


def is_srun_of(process: psutil.Process, job_id: str) -> bool:
    try:
        return process.name() == "srun" and process.environ().get("SLURM_JOB_ID") == job_id
    except psutil.Error:
        return False


def processes_of_job(job_id: str) -> list[dict[str, str]]:
    """The environments of all that run, whatever they do: they inherit the number of their job."""
    found = map(_environment, psutil.process_iter())
    return [one for one in found if one.get("SLURM_JOB_ID") == job_id]


def scratch_of(processes: list[dict[str, str]]) -> list[Path]:
    """The folders of their tasks on the disks of nodes, which tests have in common."""
    tasks = {one["DET_CONTAINER_ID"] for one in processes if "DET_CONTAINER_ID" in one}
    folders = (Path(tempfile.gettempdir()) / f"windlass-{task}" for task in tasks)
    return [folder for folder in folders if folder.exists()]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def batch_jobs(cluster: RealCluster, experiment: int) -> list[dict[str, Any]]:
    """As `det task batch-jobs` shows them."""
    (trial,) = cluster.trials(experiment)
    found: list[dict[str, Any]] = cluster.get(f"/api/v1/tasks/{trial['taskId']}")["task"][
        "batchJobs"
    ]
    return found
