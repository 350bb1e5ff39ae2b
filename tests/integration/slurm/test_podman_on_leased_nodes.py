"""Trials in containers of Podman on leased nodes, rootless: the master and its jobs are of one ordinary user."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

import pytest

from tests.integration.slurm.test_podman_in_a_job import Place, eventually_gone, new_place
from tests.real_cluster import RealCluster, eventually
from tests.slurm import running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, user = new_place(tmp_path_factory)
    home, scratch = folder / "home", folder / "t"
    provider = {
        "type": "slurm",
        "partition": "gpu",
        "slot_type": "cpu",  # Podman would look for the GPUs, which are pretended
        "container_runtime": "podman",
        "image_root": str(folder / "images"),
        "job_storage_root": str(folder / "jobs"),
        "job_prologue": [f"export HOME={home} TMPDIR={scratch}", "PATH=$PATH:/usr/sbin"],
    }
    settings = {
        "resource_pools": [{"pool_name": "leased", "provider": provider}],
        "allowed_host_paths": [str(folder), "/usr"],
    }
    cluster = RealCluster(folder / "c", settings)
    for each in (cluster.data_dir, folder / "jobs"):
        each.mkdir(mode=0o700)
    owner = pwd.getpwnam(user)
    for each in (cluster.data_dir, folder / "jobs", *(folder / "t").rglob("*")):
        os.chown(each, owner.pw_uid, owner.pw_gid)
    with running_slurm(folder / "s", nodes=1, gpus=1, user=user) as slurm:
        cluster.master_via = (*slurm.become, f"SLURM_CONF={slurm.environment['SLURM_CONF']}")
        with cluster:
            yield Place(slurm, cluster, folder, user)


def test_a_trial_on_leased_nodes_runs_in_a_container_and_leaves_nothing(place: Place) -> None:
    before = {process.pid for process in place.processes()}
    experiment = place.trial("leased")
    place.until_it_runs(experiment)
    (place.folder / "gates/open").touch()
    assert place.cluster.wait(experiment)["state"] == "STATE_ERROR"
    uid = pwd.getpwnam(place.user).pw_uid
    eventually(
        "its output is there",
        lambda: f"in the image as {uid}, job 1 on n1" in place.log(experiment),
    )
    log = place.log(experiment)
    assert "resources failed with non-zero exit code: 3" in log
    eventually("the job is over", lambda: not place.slurm.jobs())
    eventually_gone(place, before)


def test_scancel_of_a_leased_job_leaves_no_process(place: Place) -> None:
    before = {process.pid for process in place.processes()}
    experiment = place.trial("leased")
    place.until_it_runs(experiment)
    (name,) = place.slurm.jobs("RUNNING")
    place.slurm.run("scancel", f"--name={name}")
    assert place.cluster.wait(experiment)["state"] == "STATE_ERROR"
    eventually("the job is over", lambda: not place.slurm.jobs())
    eventually_gone(place, before)
