"""A local cluster over what happens to it: killed processes, restarts, reboots, upgrades, and its end."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.integration.cli.shell import Shell
from tests.integration.upgrade.golden import CONFIG as GOLDEN_CONFIG
from tests.integration.upgrade.golden import RELEASES, data_folder
from tests.jails import open_way_to
from tests.real_cluster import Json, eventually, free_port
from windlass.base.processes import send, wait_gone
from windlass.deploy.local.cluster import LocalCluster
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.processes import supervisors_below
from windlass.deploy.local.records import ProcessRecord

TRAIN = """
import time
from pathlib import Path
from windlass import core
with core.init() as context:
    step = 0
    if context.info.latest_checkpoint:
        with context.checkpoint.restore_path(context.info.latest_checkpoint) as path:
            step = int((path / "step").read_text())
    print(f"starts at {step}", flush=True)
    while not Path("/gates/open").exists():
        step += 1
        context.train.report_training_metrics(step, {"x": step})
        if step % 5 == 0:
            with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                (path / "step").write_text(str(step))
        time.sleep(0.05)
    context.train.report_validation_metrics(step, {"loss": 1.0})
"""
PUBLISHED = Path(__file__).parents[3] / ".compat" / "bin" / "det"
PATIENCE_S = 60.0
PATIENT_POOL = {"pool_name": "default", "agent_reconnect_wait": "10m"}
# A start is ten Python processes, a test makes up to four, and the first test pays for its fixtures, too.
pytestmark = pytest.mark.timeout(300)


class Machine(Shell):
    """With one cluster, and an experiment that trains until the test lets it end."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, free_port())
        self.local = LocalCluster(ClusterFolder(self.data))
        self.gates = home / "gates"
        self.gates.mkdir()
        open_way_to(self.gates / "x")
        (self.home / "model" / "train.py").write_text(TRAIN)

    @property
    def environ(self) -> dict[str, str]:
        """With the URL of the last start, even of one that a test did not live to see."""
        url = self.local.remembered.url
        return super().environ | ({"DET_MASTER": url} if url else {})

    def deploy(self, verb: str, *words: str) -> str:
        return self.ok("deploy", "local", verb, *words, "--data-dir", str(self.data))

    def refused(self, verb: str, *words: str) -> str:
        said = self.wrong("deploy", "local", verb, *words, "--data-dir", str(self.data))
        assert said.splitlines()[-1].startswith("error: ")
        return said

    def up(self, *words: str) -> str:
        """As at the first time, or as `words` say."""
        first = ("--agents", "1", "--slots", "2", "--no-gpu", "--port", str(self.port))
        return self.deploy("cluster-up", *(words or first))

    def process_of(self, name: str) -> ProcessRecord:
        process = self.local.services.of(name).process
        assert process is not None
        return process

    def train(self) -> str:
        mount = [{"host_path": str(self.gates), "container_path": "/gates"}]
        config = self.config(name="trains", bind_mounts=mount, max_restarts=0)
        self.ok("experiment", "create", config, "model")
        experiment = str(self.json("experiment", "list")[-1]["id"])
        eventually("it trains", lambda: self.batches(experiment) > 5)
        return experiment

    def trial(self, experiment: str) -> Json:
        return dict(self.json("experiment", "list-trials", experiment)[0])

    def batches(self, experiment: str) -> int:
        done = self.look("experiment", "list-trials", experiment, "--json")
        trials = json.loads(done.stdout) if done.returncode == 0 else []
        return int(trials[0]["totalBatchesProcessed"]) if trials else 0

    def agents(self) -> list[str]:
        return [a["id"] for a in self.json("agent", "list") if a["connected"]]

    def goes_on(self, experiment: str) -> None:
        before = self.batches(experiment)
        eventually("it goes on", lambda: self.batches(experiment) > before + 5)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    first = ("--agents", "1", "--slots", "2", "--no-gpu", "--port", str(machine.port))
    config = machine.home / "master.yaml"
    # A busy machine needs its time to start an agent again; meanwhile no task is given up.
    config.write_text(yaml.safe_dump({"resource_pools": [PATIENT_POOL]}))
    machine.said = machine.up(*first, "--tls", "--master-config", str(config))
    yield machine
    machine.deploy("cluster-down")
    assert machine.processes() == []


@pytest.fixture(scope="module")
def experiment(machine: Machine) -> str:
    return machine.train()


def kill(*records: ProcessRecord | None) -> None:
    for record in records:
        if record is not None:
            send(record.process, 9)
            assert wait_gone(record.process, PATIENCE_S)


def starts(machine: Machine, experiment: str) -> int:
    done = machine.look("experiment", "logs", experiment)
    assert done.returncode == 0, done.stderr
    return done.stdout.count("starts at ")


@pytest.mark.parametrize("name", ["master", "agent-0"])
def test_what_is_killed_comes_back_and_work_goes_on(
    name: str, machine: Machine, experiment: str
) -> None:
    killed = machine.process_of(name)
    kill(killed)
    eventually("another", lambda: machine.local.services.of(name).process not in (None, killed))
    machine.goes_on(experiment)
    assert starts(machine, experiment) == 1
    (row,) = [p for p in machine.json(*status(machine))["processes"] if p["name"] == name]
    assert (row["restarts"], row["lastEnd"]) == (1, "killed by SIGKILL")


def status(machine: Machine) -> tuple[str, ...]:
    return ("deploy", "local", "status", "--data-dir", str(machine.data))


def test_a_running_cluster_is_started_again_only_if_asked_to(
    machine: Machine, experiment: str
) -> None:
    before = machine.process_of("master")
    said = machine.refused("cluster-up")
    assert "already running" in said
    assert "cluster-up --restart" in said
    assert machine.process_of("master") == before
    machine.up("--restart")
    assert machine.process_of("master") != before
    machine.goes_on(experiment)
    assert starts(machine, experiment) == 1, "its task went on meanwhile"


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published client is not installed")
def test_the_printed_line_makes_the_published_client_trust_it(machine: Machine) -> None:
    (line,) = [line for line in machine.said.splitlines() if line.startswith("Published client: ")]
    script = f"{line.partition(': ')[2]} && exec {PUBLISHED} user whoami"
    environment = {"HOME": str(machine.home / "published"), "PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"determined" in done.stdout


@pytest.mark.slow
def test_a_cluster_may_go_back_to_plain_http(machine: Machine) -> None:
    machine.deploy("agent-up", "--agent-name", "c")
    machine.up("--restart", "--no-tls")
    assert machine.agents() == ["agent-0", "c"]
    machine.up("--restart", "--tls")
    assert machine.agents() == ["agent-0", "c"]
    machine.deploy("agent-down", "--agent-name", "c")


def test_agents_come_and_go(machine: Machine) -> None:
    said = machine.deploy("agent-up", "localhost", "--port", str(machine.port), "--agent-name", "b")
    assert "b has joined" in said
    assert machine.agents() == ["agent-0", "b"]
    assert "already running" in machine.refused("agent-up", "--agent-name", "b")
    assert machine.deploy("agent-down", "--agent-name", "b") == "Stopped: b\n"
    assert "there are agent-0" in machine.refused("agent-down", "--agent-name", "b")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU here")
def test_an_agent_without_the_gpus_that_it_needs_is_ended_again(machine: Machine) -> None:
    assert "g found no GPU" in machine.refused("agent-up", "--agent-name", "g", "--gpu")
    eventually("its agent is gone", lambda: machine.agents() == ["agent-0"])


def test_its_logs_are_shown(machine: Machine) -> None:
    said = machine.deploy("logs", "master", "--no-follow")
    assert "agent connected: agent-0 of pool default" in said
    assert "{" not in said.partition("master is ready")[0]


def test_another_cluster_on_the_same_port_is_told_of_the_first(machine: Machine) -> None:
    other = ("deploy", "local", "cluster-up", "--cluster-name", "other", "--port")
    said = machine.wrong(*other, str(machine.port))
    assert f"Port {machine.port} is in use by another master" in said
    assert "choose another --port" in said


@pytest.mark.slow
def test_work_goes_on_after_a_reboot(machine: Machine, experiment: str) -> None:
    """Everything is gone at once, the tasks too."""
    services = machine.local.services.all()
    kill(*(service.keeper for service in services))
    kill(*(service.process for service in services))
    kill(*supervisors_below(machine.data))
    before = machine.run(*status(machine))
    assert before.returncode == 1
    assert before.stdout.count("gone") == 2
    machine.up("--restart")
    eventually("it starts again", lambda: starts(machine, experiment) == 2)
    machine.goes_on(experiment)
    log = machine.ok("experiment", "logs", experiment)
    resumed = [line.rpartition(" ")[2] for line in log.splitlines() if "starts at" in line]
    assert int(resumed[1]) >= 5, "from its checkpoint"
    (machine.gates / "open").touch()
    machine.ok("experiment", "wait", experiment)
    assert machine.trial(experiment)["restarts"] == 0


def test_an_upgrade_keeps_what_is_there(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.data.mkdir()
    data_folder(RELEASES[0], machine.data / "master")
    (tmp_path / "golden.yaml").write_text(yaml.safe_dump(GOLDEN_CONFIG))
    golden = ("--agents", "0", "--port", str(machine.port), "--master-config", "golden.yaml")
    try:
        machine.up(*golden)
        listed = machine.json("experiment", "list", "--all")
        assert {e["name"] for e in listed} >= {"asha", "single", "paused"}
        (backup,) = (machine.data / "backups").iterdir()
        assert (backup / "manifest.json").exists()
        machine.deploy("cluster-down")
        with closing(sqlite3.connect(machine.data / "master" / "windlass.db")) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
            database.commit()
        said = machine.refused("cluster-up", *golden)
        assert "was used by a newer Windlass" in said
        assert "start that release again" in said
        assert machine.processes() == []
    finally:
        machine.deploy("cluster-down")


@pytest.mark.slow
def test_a_deleted_database_is_kept_aside(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.up()
    try:
        machine.ok("experiment", "create", machine.config(entrypoint="true"), "model")
        said = machine.deploy("cluster-down", "--delete-db")
        (moved,) = (machine.data / "deleted").iterdir()
        assert f"rm -r {moved}" in said
        assert (moved / "master" / "windlass.db").exists()
        machine.up()
        assert machine.json("experiment", "list") == []
        assert [a["id"] for a in machine.json("agent", "list")] == ["agent-0"]
    finally:
        machine.deploy("cluster-down")
    assert machine.processes() == []
