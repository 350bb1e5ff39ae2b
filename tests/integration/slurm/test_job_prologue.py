"""Shell of the site before our agents, in real jobs of Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.image_tools import ImageTools, image_tools
from tests.gated_trial import MODEL, all_logs, gated_trial
from tests.integration.slurm.test_dispatch import why_it_waits
from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> ImageTools:
    """In nobody's PATH: only the prologue knows them."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("tools")
        return image_tools(folder, patch)


@pytest.fixture(scope="module")
def cluster(
    site: Slurm, tools: ImageTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("prologue")
    (folder / "gates").mkdir()
    loads = ["export SITE_SET=by-the-site", f"PATH={tools.folder}:$PATH"]
    provider = {"type": "slurm", "partition": "gpu", "job_prologue": loads}
    images = {"container_runtime": "apptainer", "image_root": str(tools.folder / "rootfs")}
    broken = {**provider, "job_prologue": ["echo no such module: apptainer >&2", "exit 3"]}
    settings = {
        "resource_pools": [
            {"pool_name": "loads", "provider": provider},
            {"pool_name": "images", "provider": {**provider, **images}},
            {"pool_name": "broken", "provider": broken},
        ],
        "allowed_host_paths": [str(folder / "gates")],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
        with RealCluster(folder / "cluster", settings) as running:
            yield running


@pytest.mark.parametrize("slots", [1, 4])
def test_what_it_sets_reaches_the_task(
    cluster: RealCluster, tools: ImageTools, slurm: Slurm, slots: int
) -> None:
    """On one node and on two."""
    trial = gated_trial(
        cluster.folder.parent / "gates",
        slots=slots,
        pool="loads",
        entrypoint="sh -c 'echo SITE_SET is $SITE_SET, PATH is $PATH'",
        environment={"environment_variables": ["SITE_SET"]},
    )
    experiment = cluster.submit(trial, MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", all_logs(cluster, experiment)
    says = "SITE_SET is by-the-site, PATH is "
    nodes = -(-slots // 2)
    eventually("all say so", lambda: all_logs(cluster, experiment).count(says) == nodes)
    assert f"{tools.folder}:" in all_logs(cluster, experiment)


def test_a_runtime_that_it_loads_is_found(
    cluster: RealCluster, tools: ImageTools, slurm: Slurm
) -> None:
    trial = gated_trial(
        cluster.folder.parent / "gates",
        slots=1,
        pool="images",
        entrypoint="true",
        environment={"image": "net"},
    )
    experiment = cluster.submit(trial, MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", all_logs(cluster, experiment)
    assert ["apptainer", "--version"] in tools.calls
    assert [call for call in tools.calls if call[:2] == ["apptainer", "exec"]]


def test_one_that_fails_is_why_the_task_waits(cluster: RealCluster, slurm: Slurm) -> None:
    experiment = cluster.submit(
        gated_trial(cluster.folder.parent / "gates", slots=4, pool="broken"), MODEL
    )
    why = "job_prologue ended with exit code 3: no such module: apptainer"
    eventually("it says why", lambda: why in why_it_waits(cluster, experiment))
    assert "failed with exit code" in why_it_waits(cluster, experiment)
    with cluster.session() as session:
        session.login("admin", cluster.password)
        session.post(f"/api/v1/experiments/{experiment}/kill")
    cluster.wait(experiment)
