"""`windlass hpc` as an ordinary user of a real Slurm: from `up` to `down`, with nothing left."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.interactive import JUPYTER, needs_jupyter
from tests.jails import open_way_to
from tests.notebook_pages import OF_JUPYTERLAB, page_at
from tests.real_cluster import WINDLASS, eventually
from tests.slurm import Slurm, require_slurm, running_slurm
from windlass.sdk.certificates import CertificateStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
MODEL = Path(__file__).parent / "model"
ORDINARY = "daemon"
"""Who the researcher is where tests run as root. Not nobody, whom systemd calls locked where shadow is not readable."""
LIMIT_S = 110


@dataclass
class Researcher:
    """Somebody with a home and a PATH, and nothing else."""

    home: Path
    slurm: Slurm
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir()
        user = pwd.getpwnam(self.slurm.user) if self.slurm.user else pwd.getpwuid(os.geteuid())
        self.uid = user.pw_uid
        shutil.chown(self.home, self.uid)
        open_way_to(self.home)
        self.environment = {
            "HOME": str(self.home),
            "USER": user.pw_name,
            "LANG": "C.UTF-8",
            "XDG_DATA_HOME": str(self.home / "data"),
            **self.slurm.environment,
        }

    def run(self, *words: str, code: int = 0, **environment: str) -> str:
        """`windlass ...`: what it said."""
        done = subprocess.run(
            [*self.slurm.become, WINDLASS, *words],
            env={**self.environment, **environment},
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def processes(self) -> list[psutil.Process]:
        mark = str(self.home)
        found = []
        for process in psutil.process_iter():
            try:
                if any(mark in word for word in process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def end(self) -> None:
        for process in self.processes():
            process.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Of an ordinary user, jobs and all."""
    require_slurm()
    folder = open_way_to(tmp_path_factory.mktemp("slurm-of-a-user") / "site")
    folder.mkdir()
    with running_slurm(folder, user="" if os.geteuid() else ORDINARY) as slurm:
        yield slurm


@pytest.fixture
def researcher(slurm: Slurm, tmp_path: Path) -> Iterator[Researcher]:
    user = Researcher(tmp_path / "home", slurm)
    yield user
    user.end()


def test_from_up_to_down_without_root(researcher: Researcher, slurm: Slurm) -> None:
    assert "partition gpu" in researcher.run("hpc", "check")
    said = researcher.run("hpc", "up")
    place = researcher.home / "windlass"
    password = next(line for line in said.splitlines() if line.startswith("First password"))
    assert "ssh -N -L " in said
    url = json.loads((place / "master.json").read_text())["url"]
    assert url.startswith("https://")
    for path in (place, place / "master.yaml", place / "master.json", place / "jobs"):
        assert path.stat().st_mode & 0o077 == 0, path
        assert path.stat().st_uid == researcher.uid
    again = researcher.run("hpc", "up")
    assert "already runs" in again
    assert password not in again

    config = researcher.home / "config.yaml"
    config.write_text(
        "name: first\nentrypoint: python3 train.py\nhyperparameters: {gate: /run}\n"
        "searcher: {name: single, metric: loss, max_length: 1}\nresources: {slots_per_trial: 2}\n"
    )
    master: dict[str, Any] = {"DET_MASTER": url}
    created = researcher.run(
        "experiment", "create", str(config), str(MODEL), "--follow-first-trial", **master
    )
    assert "rank 0 of 1: gpus 0,1" in created, created
    told = json.loads(researcher.run("hpc", "status", "--json"))
    assert told["isUp"]
    open_a_shell(researcher, master)
    eventually("its jobs are over", lambda: not slurm.jobs())
    eventually("and forgotten", lambda: not list((place / "jobs").glob("wl-*")))
    researcher.run("hpc", "down")
    eventually("its processes are gone", lambda: not researcher.processes())
    assert not list((place / "jobs").glob("wl-*"))
    assert not json.loads(researcher.run("hpc", "status", "--json", code=1))["isUp"]


def open_a_shell(researcher: Researcher, master: Mapping[str, Any]) -> None:
    """By the master alone; it is told when its job ends, and what is kept."""
    words = "bash -l -c 'id -un; echo job $SLURM_JOB_ID'"
    said = researcher.run("shell", "start", "--", words, **master)
    assert re.search(rf"^{researcher.environment['USER']}\s+job \d", said, re.MULTILINE), said
    shell, told = told_end_of_the_task(researcher, master)
    greeted = researcher.run("shell", "open", shell, "--", "-tt", "bash -l -c true", **master)
    assert told in greeted, "who logs in at a terminal"
    researcher.run("shell", "kill", shell, **master)


def told_end_of_the_task(researcher: Researcher, master: Mapping[str, Any]) -> tuple[str, str]:
    """Of the only one: its id, and what its users are told of its end."""
    (listed,) = json.loads(researcher.run("task", "list", "--json", **master))
    assert listed["endsAt"], "the limit of the partition, or of the job"
    end = f"{listed['endsAt']:.16}".replace("T", " ")
    told = f"This task ends at {end} UTC, with the time of its node. Then only what lies in mounted"
    task = str(listed["taskId"])
    eventually("its log says it", lambda: told in researcher.run("task", "logs", task, **master))
    return task, told


@needs_jupyter
def test_a_notebook_is_reached_by_its_url_alone(researcher: Researcher, slurm: Slurm) -> None:
    master: dict[str, Any] = {"DET_MASTER": up(researcher)}
    python = f"environment.python={JUPYTER}"
    said = researcher.run("notebook", "start", "--no-browser", "--config", python, **master)
    url = re.search(r"^https://\S+$", said, re.MULTILINE)
    assert url is not None, said
    trusted = CertificateStore(researcher.home / ".config/determined/certs.json")
    certificate = trusted.get(master["DET_MASTER"])
    page = page_at(url[0], certificate)
    assert OF_JUPYTERLAB in page
    notebook, told = told_end_of_the_task(researcher, master)
    shown = re.search(r'"treePath": "/?([^"]*)"', page)
    assert shown is not None
    welcome = page_at(url[0].replace("?", f"api/contents/{shown[1]}?"), certificate)
    assert told in welcome, "JupyterLab shows it first"
    assert f"/proxy/{notebook}/" in url[0]
    researcher.run("notebook", "kill", notebook, **master)
    eventually("its job is gone", lambda: not slurm.jobs())
    researcher.run("hpc", "down")
    eventually("its processes are gone", lambda: not researcher.processes())


def test_jobs_outlive_their_master_unless_they_are_cancelled(
    researcher: Researcher, slurm: Slurm
) -> None:
    url = up(researcher)
    model = researcher.home / "model"
    shutil.copytree(MODEL, model)
    config = researcher.home / "config.yaml"
    config.write_text(
        "name: waits\nentrypoint: python3 train.py\nhyperparameters: {gate: /nowhere}\n"
        "searcher: {name: single, metric: loss, max_length: 1}\nresources: {slots_per_trial: 1}\n"
    )
    researcher.run("experiment", "create", str(config), str(model), DET_MASTER=url)
    assert researcher.run("job", "explain", "1", DET_MASTER=url)
    eventually("its job runs", lambda: slurm.jobs("RUNNING"))
    jobs = slurm.jobs()
    assert "1 batch job of it" in researcher.run("hpc", "down")
    assert slurm.jobs("RUNNING") == jobs
    assert up(researcher) == url
    (shown,) = json.loads(researcher.run("hpc", "status", "--json"))["jobs"]
    assert [shown["name"]] == jobs
    assert "Cancelled: " in researcher.run("hpc", "down", "--cancel")
    assert not slurm.jobs()
    eventually("its processes are gone", lambda: not researcher.processes())


def up(researcher: Researcher) -> str:
    """The URL of the master."""
    researcher.run("hpc", "up")
    return str(json.loads((researcher.home / "windlass" / "master.json").read_text())["url"])


def test_a_master_that_is_a_job_comes_back_in_the_next_one(
    researcher: Researcher, slurm: Slurm
) -> None:
    said = researcher.run("hpc", "up", "--as-job", "--walltime", "1h")
    assert "The master is up at https://" in said
    assert "First password" in said
    record = researcher.home / "windlass" / "master.json"
    before = json.loads(record.read_text())
    first = f"{before['job']}-1"
    assert slurm.jobs("RUNNING") == [first]

    def follows() -> bool:
        return slurm.jobs("PENDING") == [f"{before['job']}-2"]

    eventually("the next leg waits", follows)
    slurm.run("scancel", "--me", f"--name={first}")
    eventually("the next leg runs", lambda: slurm.jobs("RUNNING") == [f"{before['job']}-2"])
    log = researcher.home / "windlass" / "master-job" / "batch.log"
    eventually("the master is back", lambda: log.read_text().count("the master is up at") == 2)
    after = json.loads(record.read_text())
    assert (after["url"], after["cluster_id"]) == (before["url"], before["cluster_id"])
    told = json.loads(researcher.run("hpc", "status", "--json"))
    assert told["isUp"]
    legs = researcher.run("hpc", "status")
    assert re.search(r"It is batch job \d+ \(RUNNING\)", legs), legs
    assert "is a batch job already" in researcher.run("hpc", "up", "--as-job")
    assert "add --as-job" in researcher.run("hpc", "up", code=1)
    researcher.run("hpc", "down")
    assert "hpc up --as-job" in researcher.run("hpc", "status", code=1)
    assert not slurm.jobs()
    eventually("its processes are gone", lambda: not researcher.processes())


def test_a_probe_says_what_the_nodes_of_each_partition_have(
    researcher: Researcher, slurm: Slurm
) -> None:
    checks = json.loads(researcher.run("hpc", "check", "--probe", "--json"))
    found = {check["name"]: check for check in checks}
    assert all(check["status"] != "failed" for check in checks), checks
    for partition in ("gpu", "short", "scavenger", "urgent"):
        assert found[f"{partition}: GPUs"]["found"].startswith("1 of 1")
        way = found[f"{partition}: way to the master"]["found"]
        assert way.startswith("by direct, relay, srun, files (not ssh: "), way
        assert found[f"{partition}: scratch"]["status"] == "ok"
    assert "closed: it is closed by the site" in found["other partitions"]["found"]
    eventually("its jobs are over", lambda: not slurm.jobs())
    assert not list(researcher.home.glob("windlass/probe-*"))
    eventually("its processes are gone", lambda: not researcher.processes())
