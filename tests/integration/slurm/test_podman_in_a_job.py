"""Trials in containers of Podman, inside jobs of a real Slurm, as an ordinary user without a service of Podman."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.real_cluster import WINDLASS, RealCluster, eventually
from tests.slurm import Slurm, require_slurm, running_slurm

MODEL = Path(__file__).parent / "podman_model"
LONG = "t/as-long-as-those-of-jobs-often-are"
"""Its $TMPDIR: with it a run root has more characters than Podman takes."""
LINKS = ("bin", "lib", "lib64", "sbin")


def a_user() -> str:
    """Who has users of his own to give, which rootless Podman needs. Skips where nobody has."""
    try:
        lines = Path("/etc/subuid").read_text().splitlines()
    except OSError:
        lines = []
    known = {entry.pw_name for entry in pwd.getpwall()}
    names = [name for line in lines if (name := line.partition(":")[0]) in known]
    me = pwd.getpwuid(os.geteuid()).pw_name
    mine = names if me == "root" else [name for name in names if name == me]
    if not mine:
        pytest.skip("nobody here has subordinate ids (as root: usermod --add-subuids)")
    return mine[0]


@dataclass(frozen=True)
class Place:
    slurm: Slurm
    cluster: RealCluster
    folder: Path
    user: str

    def submit_agent(self) -> str:
        """A job of the user's own with an agent in it; its id, once the agent has joined."""
        script = self.folder / "agent.sh"
        agent = f"exec {WINDLASS} agent run --master {self.cluster.url} --pool own"
        agent += f" --join-token-file {self.folder}/token --config-file {self.folder}/agent.yaml"
        agent += f" --work-dir {self.folder}/w/$SLURM_JOB_ID --artificial-slots 1"
        script.write_text(
            f"#!/bin/sh\nexport HOME={self.folder}/home TMPDIR={self.folder}/{LONG}\n{agent}\n"
        )
        words = ("-p", "gpu", "-N1", "--gres=gpu:1", f"--output={self.folder}/w/job.log")
        job = self.slurm.run("sbatch", "--parsable", *words, str(script)).strip()
        eventually("it has joined", lambda: f"slurm-{job}-0" in self.cluster.agents())
        return job

    def trial(self, pool: str = "own") -> int:
        gates = self.folder / "gates"
        shutil.rmtree(gates, ignore_errors=True)
        gates.mkdir()
        gates.chmod(0o777)
        return self.cluster.submit(
            {
                "name": "in podman",
                "entrypoint": "sh where.sh",
                "environment": {"image": "net"},
                "bind_mounts": [
                    {"host_path": "/usr", "container_path": "/usr", "read_only": True},
                    {"host_path": str(gates), "container_path": "/gates"},
                ],
                "checkpoint_storage": {"type": "shared_fs", "host_path": f"{self.folder}/k"},
                "searcher": {"name": "single", "metric": "loss", "max_length": 1},
                "resources": {"slots_per_trial": 1, "resource_pool": pool},
                "max_restarts": 0,
            },
            MODEL,
        )

    def until_it_runs(self, experiment: int) -> None:
        began = self.folder / "gates/began"
        eventually(
            "it runs",
            lambda: began.exists() or self.cluster.experiment(experiment)["state"] == "STATE_ERROR",
        )
        assert began.exists(), self.log(experiment)

    def log(self, experiment: int) -> str:
        return "".join(self.cluster.logs_of(one["id"]) for one in self.cluster.trials(experiment))

    def processes(self) -> list[psutil.Process]:
        """Of the user: of Podman, and in its containers."""
        found = []
        for process in psutil.process_iter(["username", "name", "cmdline"]):
            words = process.info["cmdline"] or []
            mine = process.info["username"] == self.user
            ours = process.info["name"] == "catatonit" or any(
                str(self.folder) in word or "where.sh" in word or word.endswith("podman")
                for word in words
            )
            if mine and (ours and process.info["name"] not in ("slurmd", "slurmctld", "munged")):
                found.append(process)
        return found


def new_place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with an image, a home and a $TMPDIR of the user beside it. Skips where Podman cannot run."""
    require_slurm()
    for program in ("podman", "newuidmap", "runc"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"not installed: {program} (as root: make .make/packages)")
    user = a_user()
    owner = pwd.getpwnam(user)
    folder = tmp_path_factory.mktemp("p")
    for each in (folder, *folder.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o711)
    image = folder / "images/net"
    for each in ("dev", "etc", "opt", "proc", "run", "sys", "tmp", "usr", "gates"):
        (image / each).mkdir(parents=True)
    for link in LINKS:
        (image / link).symlink_to(f"usr/{link}")
    (image / "name").write_text("the image\n")
    (folder / "home/.config/containers").mkdir(parents=True)
    (folder / "home/.config/containers/containers.conf").write_text('[engine]\nruntime = "runc"\n')
    (folder / LONG).mkdir(parents=True)
    (folder / "w").mkdir()
    (folder / "k").mkdir()
    for each in ("home", "images", "k", "t", "w"):
        for path in (folder / each, *(folder / each).rglob("*")):
            os.lchown(path, owner.pw_uid, owner.pw_gid)
    return folder, user


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, user = new_place(tmp_path_factory)
    owner = pwd.getpwnam(user)
    (folder / "agent.yaml").write_text(
        f"container_runtime: podman\nimage_root: {folder}/images\ncontainer_socket: {folder}/none\n"
    )
    allowed = [str(folder), "/usr"]
    settings = {"resource_pools": [{"pool_name": "own"}], "allowed_host_paths": allowed}
    with (
        running_slurm(folder / "s", nodes=1, gpus=1, user=user) as slurm,
        RealCluster(folder / "c", settings) as cluster,
    ):
        words = ("master", "pool-token", "own", "-c", str(cluster.config_file))
        token = subprocess.run(
            [WINDLASS, *words, "--data-dir", str(cluster.data_dir)], check=True, capture_output=True
        )
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_bytes(token.stdout)
        os.chown(folder / "token", owner.pw_uid, owner.pw_gid)
        yield Place(slurm, cluster, folder, user)


def eventually_gone(place: Place, before: Collection[int], *, but_pause: bool = False) -> None:
    """`before`: processes of others; `but_pause`: Podman's idle one may stay till the next task."""
    pauses = (["catatonit", "-P"], ["podman"]) if but_pause else ()

    def left() -> list[psutil.Process]:
        found = [one for one in place.processes() if one.pid not in before]
        return [one for one in found if one.info["cmdline"] not in ([], *pauses)]

    eventually("its processes are gone", lambda: not left())


@pytest.mark.slow
def test_a_trial_runs_in_a_container_and_leaves_nothing(place: Place) -> None:
    before = {process.pid for process in place.processes()}
    job = place.submit_agent()
    experiment = place.trial()
    place.until_it_runs(experiment)
    (place.folder / "gates/open").touch()
    ended: dict[str, Any] = place.cluster.wait(experiment)
    log = place.log(experiment)
    assert ended["state"] == "STATE_ERROR"
    uid = pwd.getpwnam(place.user).pw_uid
    assert f"in the image as {uid}, job {job} on n1" in log
    assert "image_entry.sh" in log or "image_init.py" in log
    assert "resources failed with non-zero exit code: 3" in log
    place.slurm.run("scancel", "--batch", "--signal=TERM", job)
    eventually("the job is over", lambda: not place.slurm.jobs())
    eventually_gone(place, before)


@pytest.mark.slow
def test_what_is_cancelled_leaves_no_process(place: Place) -> None:
    """Containers of Podman outlive who started them: ours do not."""
    before = {process.pid for process in place.processes()}
    job = place.submit_agent()
    experiment = place.trial()
    place.until_it_runs(experiment)
    assert place.processes()
    place.slurm.run("scancel", job)
    eventually("the job is over", lambda: not place.slurm.jobs())
    eventually_gone(place, before, but_pause=True)
    place.cluster.client.session.post(f"/api/v1/experiments/{experiment}/kill", {})
