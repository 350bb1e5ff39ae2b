"""Batch jobs that many trials share, on a real Slurm and on a PBS that replays what was recorded of a real one: what is
submitted, found again, left in time, told afterwards, and ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.pilot_sites import PilotSite, running_site
from tests.real_cluster import RealCluster, eventually
from tests.shells import ClusterShell, FilesInAShell, assert_told_its_end

pytestmark = pytest.mark.slow

MODEL = Path(__file__).parents[1] / "slurm" / "model"


@pytest.fixture(scope="module", params=["slurm", "pbs"])
def shared_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PilotSite]:
    with running_site(str(request.param), tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="module")
def shared(
    shared_site: PilotSite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """One master for all tests of a site."""
    folder = tmp_path_factory.mktemp("pilots")
    pool = {
        "pool_name": "pilots",
        "max_instances": 2,
        "max_idle_agent_period": "3s",
        "provider": {**shared_site.provider, "mode": "pilot", "walltimes": ["1h"]},
    }
    settings = {"resource_pools": [pool], "allowed_host_paths": [str(folder / "cluster")]}
    with RealCluster(folder / "cluster", settings) as running:
        yield running


@pytest.fixture
def site(shared_site: PilotSite) -> Iterator[PilotSite]:
    yield shared_site
    shared_site.settle()


@pytest.fixture
def cluster(shared: RealCluster, site: PilotSite) -> Iterator[RealCluster]:
    """Idle pilots end by themselves: no job, agent or process is left by a test."""
    yield shared
    shared.recover()
    eventually("its pilots are over", lambda: not site.jobs())
    eventually("its agents are forgotten", lambda: not shared.agents())
    eventually("its processes are gone", lambda: not processes(shared))


@pytest.fixture
def gate(shared: RealCluster, request: pytest.FixtureRequest) -> Path:
    """A file that trials wait for."""
    folder = shared.folder / f"gate-{len(list(shared.folder.glob('gate-*')))}"
    folder.mkdir()
    return folder / "open"


@pytest.fixture
def before(site: PilotSite) -> frozenset[str]:
    return frozenset(site.all_jobs())


def processes(cluster: RealCluster, word: str = "") -> list[psutil.Process]:
    """On the nodes, with this word in their command line."""
    return cluster.processes(cluster.data_dir / "jobs", word=word)


def config(gate: Path, slots: int, **settings: Any) -> dict[str, Any]:
    return {
        "name": "on pilots",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": [{"host_path": str(gate.parent), "container_path": "/gates"}],
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": slots, "resource_pool": "pilots"},
        "max_restarts": 0,
        **settings,
    }


def all_logs(cluster: RealCluster, experiment: int) -> str:
    return "".join(cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment))


def started(cluster: RealCluster, experiment: int) -> None:
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, experiment))


def test_twelve_short_trials_share_two_pilots(
    cluster: RealCluster, site: PilotSite, gate: Path, before: frozenset[str]
) -> None:
    gate.touch()
    search = {"name": "random", "metric": "loss", "max_trials": 12, "max_concurrent_trials": 12}
    experiment = cluster.submit(config(gate, 1, searcher=search), MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert len(cluster.trials(experiment)) == 12
    mine = set(site.all_jobs()) - before
    assert len(mine) == 2
    assert all(name.startswith("wp-") for name in mine)


def test_a_gang_is_one_job_of_two_nodes(
    cluster: RealCluster, site: PilotSite, gate: Path, before: frozenset[str]
) -> None:
    gate.touch()
    experiment = cluster.submit(config(gate, 4), MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    log = all_logs(cluster, experiment)
    assert "rank 0 of 2" in log
    assert "rank 1 of 2" in log
    assert log.count("gpus 0,1") == (2 if site.name == "slurm" else 0)
    assert len(set(site.all_jobs()) - before) == 1


def test_a_master_that_is_killed_finds_its_pilots_again(
    cluster: RealCluster, site: PilotSite, gate: Path, before: frozenset[str]
) -> None:
    """One that works, and one that queues behind another user's job."""
    blocker = site.occupy_a_node()
    runs = cluster.submit(config(gate, 2), MODEL)
    started(cluster, runs)
    waits = cluster.submit(config(gate, 2), MODEL)
    eventually("another pilot queues", lambda: site.jobs("waiting"))
    mine = sorted(name for name in set(site.jobs()) - before if name.startswith("wp-"))
    cluster.kill_master()
    cluster.start_master()
    eventually("its agent is back", lambda: len(cluster.agents()) == 1)
    site.cancel(blocker)
    started(cluster, waits)
    assert sorted(set(site.jobs()) - before) == mine
    gate.touch()
    for experiment in (runs, waits):
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
        assert "run 2" not in all_logs(cluster, experiment)


def test_a_pilot_that_somebody_cancels_is_a_loss_and_another_comes(
    cluster: RealCluster, site: PilotSite, gate: Path
) -> None:
    experiment = cluster.submit(config(gate, 2), MODEL)
    started(cluster, experiment)
    site.cancel(site.id_of(site.jobs("running")[0]))
    eventually("it runs again", lambda: all_logs(cluster, experiment).count("rank 0 of 1") == 2)
    assert "was cancelled at the site" in all_logs(cluster, experiment)
    gate.touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"


@pytest.mark.parametrize(("code", "state"), [(0, "STATE_COMPLETED"), (3, "STATE_ERROR")])
def test_what_ended_on_a_pilot_while_the_master_was_away_is_told_from_its_directory(
    cluster: RealCluster, site: PilotSite, gate: Path, code: int, state: str
) -> None:
    """The pilot is over, too: the task is not run again, and its last words are in its log."""
    experiment = cluster.submit(config(gate, 4, entrypoint=f"sh plain.sh {code}"), MODEL)
    eventually("it runs", lambda: all_logs(cluster, experiment).count("it waits") == 2)
    (name,) = site.jobs("running")
    cluster.kill_master()
    gate.touch()
    nodes = cluster.data_dir / "jobs" / name / "nodes"
    eventually(
        "its ends are written down",
        lambda: len(list(nodes.glob("*/agent/containers/*/verdict.json"))) == 2,
    )
    # Its agents hear of nobody, and end: here at once, not after ten minutes.
    cluster.end_hosts(nodes)
    eventually("its job is over", lambda: not site.jobs())
    cluster.start_master()
    assert cluster.wait(experiment)["state"] == state, all_logs(cluster, experiment)
    log = all_logs(cluster, experiment)
    assert log.count("it waits") == 2
    assert log.count("its last word") == 2


@pytest.mark.parametrize(
    ("what", "again"),
    [
        pytest.param("agent_bootstrap.agent", False, id="agent"),
        pytest.param("agent_bootstrap.host", True, id="host"),
    ],
)
def test_what_is_killed_on_a_node_loses_no_work_and_leaves_nothing(
    cluster: RealCluster,
    site: PilotSite,
    gate: Path,
    before: frozenset[str],
    what: str,
    again: bool,
) -> None:
    """Another agent takes the task over; without its host the job is over, and the task runs again on another."""
    experiment = cluster.submit(config(gate, 2), MODEL)
    started(cluster, experiment)
    (process,) = processes(cluster, what)
    process.kill()
    if again:
        eventually("it runs again", lambda: all_logs(cluster, experiment).count("rank 0 of 1") == 2)
    else:
        eventually(
            "another agent is there",
            lambda: [p for p in processes(cluster, what) if p != process],
        )
    gate.touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert all_logs(cluster, experiment).count("rank 0 of 1") == 1 + again
    assert len(set(site.all_jobs()) - before) == 1 + again


def test_a_shell_takes_free_slots_of_a_pilot_which_stays_when_it_is_killed(
    cluster: RealCluster, site: PilotSite, gate: Path, before: frozenset[str]
) -> None:
    """A trial keeps the pilot from being idle."""
    experiment = cluster.submit(config(gate, 1), MODEL)
    started(cluster, experiment)
    (pilot,) = set(site.all_jobs()) - before
    shell = ClusterShell(cluster, "--config", "resources.resource_pool=pilots")
    said = shell.open("bash -l -c 'echo it is $DET_TASK_ID'")
    assert said.decode() == f"it is {shell.id}\n"
    assert shell.agents() == cluster.agents() == [f"{pilot}-0"]
    shell.kill()
    assert site.jobs("running") == [pilot]
    gate.touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert all_logs(cluster, experiment).count("rank 0 of 1") == 1
    assert set(site.all_jobs()) - before == {pilot}


def test_work_leaves_before_the_time_of_its_pilot_is_over(
    cluster: RealCluster, site: PilotSite, gate: Path
) -> None:
    """It makes a checkpoint and goes on in the next pilot, which was submitted meanwhile."""
    settings = {"hyperparameters": {"gate": "/gates/open", "steps": 40}, "preemption_timeout": 60}
    experiment = cluster.submit(config(gate, 2, **settings), MODEL)
    started(cluster, experiment)
    (first,) = site.jobs("running")
    eventually(
        "it has worked", lambda: cluster.trials(experiment)[0]["totalBatchesProcessed"] == 39
    )
    record = cluster.data_dir / "pilots" / f"{first}.json"
    eventually("its end was seen", lambda: json.loads(record.read_bytes())["ends_at"] is not None)
    site.shorten(first)
    eventually("it goes on", lambda: "run 2, from step 39" in all_logs(cluster, experiment))
    assert "ends job" in all_logs(cluster, experiment)
    assert [name for name in site.jobs("running") if name != first]
    gate.touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0


@pytest.mark.timeout(300)
def test_a_shell_ends_with_the_time_of_its_pilot(
    cluster: RealCluster, site: PilotSite, gate: Path
) -> None:
    """Its user is told when that is, and how it ended. It is not started again."""
    if site.name == "pbs":
        pytest.skip("it lasts for a minute, and is the same as on Slurm")
    options = ("resources.resource_pool=pilots", "--volume", f"{gate.parent}:/gates")
    shell = ClusterShell(cluster, "--config", *options)
    files = FilesInAShell(shell, gate.parent, "/gates")
    assert_told_its_end(shell)
    (pilot,) = site.jobs("running")
    site.shorten(pilot, minutes=1)
    assert re.search("job .* reached its time limit", shell.wait())
    assert "reached its time limit" in shell.log()
    files.assert_what_is_left()


def test_the_next_pilot_does_not_use_a_node_that_an_operator_disabled(
    cluster: RealCluster, site: PilotSite, gate: Path, before: frozenset[str]
) -> None:
    """The pilot that was there is over by then. The last of these tests: that node is avoided for an hour."""
    if site.name == "pbs":
        pytest.skip("all hosts of the stand-in are this machine, and have its name")
    experiment = cluster.submit(config(gate, 2), MODEL)
    started(cluster, experiment)
    (bad,) = cluster.agents()
    first = bad.rpartition("-")[0]
    with closing(cluster.session()) as operator:
        operator.login("admin", cluster.password)
        operator.post(f"/api/v1/agents/{bad}/disable", body={"drain": True})
    record = cluster.data_dir / "pilots" / f"{first}.json"
    eventually("that is written down", lambda: json.loads(record.read_bytes())["disabled"])
    gate.touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    eventually("its pilot is over", lambda: not site.jobs())

    again = cluster.submit(config(gate, 2), MODEL)
    assert cluster.wait(again)["state"] == "STATE_COMPLETED"
    (second,) = set(site.all_jobs()) - before - {first}
    assert site.excluded_by(second) == json.loads(record.read_bytes())["disabled"]
