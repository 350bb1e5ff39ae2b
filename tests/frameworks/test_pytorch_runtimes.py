"""PyTorch where tasks run in containers, by Apptainer's stand-in and in our own namespaces: a pool for each.

Images have the Python of this machine; PyTorch and the published package are mounted. Without namespaces the published
package runs nowhere: it reads /run/determined.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import LOAD_ALL, MODELS, config_of
from runs import (
    ON_TWO_NODES,
    begun,
    completed,
    final_metrics,
    kill_a_rank,
    preempted,
    run,
)

from tests.fakes.image_tools import image_tools
from tests.jails import works_or_skip
from tests.podman import IMAGE, PYTHON, Podman
from tests.real_cluster import RealCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PACKAGES = "/mnt/packages"
CONTAINERS, APPTAINER, NAMESPACE = "containers", "apptainer", "namespace"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    pools = [{"pool_name": name} for name in (CONTAINERS, APPTAINER, NAMESPACE)]
    with RealCluster(tmp_path_factory.mktemp("runtimes"), {"resource_pools": pools}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def packages(torch_python: Path) -> Path:
    """The folder with PyTorch, for a Python of the same version."""
    ask = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('purelib'))"
    told = [
        subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout
        for python in (torch_python, PYTHON)
    ]
    theirs, ours = (words.split()[:2] for words in told)
    if theirs != ours:
        pytest.skip(f"{PYTHON} is {'.'.join(ours)}, and PyTorch is there for {'.'.join(theirs)}")
    return Path(told[0].split()[2])


@pytest.fixture(scope="module")
def in_image(packages: Path) -> Callable[..., dict[str, Any]]:
    def config(image: str, pool: str, **changes: Any) -> dict[str, Any]:
        resources = {"resource_pool": pool, **changes.pop("resources", {})}
        variables = [f"PYTHONPATH={PACKAGES}", "OMP_NUM_THREADS=1", LOAD_ALL]
        mount = {"host_path": str(packages), "container_path": PACKAGES, "read_only": True}
        return {
            **config_of(PYTHON, "model:DigitsTrial", **changes),
            "resources": resources,
            "bind_mounts": [mount],
            "environment": {"image": image, "environment_variables": variables},
        }

    return config


@pytest.fixture(scope="module")
def containers(cluster: RealCluster, podman: Podman) -> str:
    """An agent with a slot, another with a slot: what is reached on one machine's own network."""
    options = {"container_runtime": "podman", "container_socket": str(podman.socket)}
    for node in ("node-a", "node-b"):
        cluster.start_agent(node, pool=CONTAINERS, slots=1, options=options)
    return IMAGE


@pytest.fixture(scope="module")
def unpacked(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image for Apptainer, and an agent whose Apptainer is the stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        tools = image_tools(tmp_path_factory.mktemp("programs") / "bin", patch)
        options = {"container_runtime": "apptainer"}
        cluster.start_agent("images", pool=APPTAINER, slots=1, options=options)
        yield str(tools.rootfs())


def as_process(python: Path) -> dict[str, Any]:
    resources = {"resource_pool": NAMESPACE}
    return config_of(python, "model:DigitsTrial", resources=resources)


@pytest.fixture(scope="module")
def quiet(
    cluster: RealCluster, torch_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The final metrics on one slot, whatever it runs in."""
    works_or_skip("namespace", tmp_path_factory.mktemp("probe"))
    options = {"container_runtime": "process", "isolation": "namespace"}
    cluster.start_agent("processes", pool=NAMESPACE, slots=1, options=options)
    return final_metrics(cluster, run(cluster, as_process(torch_python), "digits"))


def test_preempted_in_a_container_it_ends_as_a_quiet_run(
    cluster: RealCluster,
    in_image: Callable[..., dict[str, Any]],
    quiet: dict[str, Any],
    containers: str,
) -> None:
    config = in_image(containers, CONTAINERS)
    assert preempted(cluster, config, "digits") == pytest.approx(quiet)


def test_a_gang_of_containers_ends_as_a_quiet_run_though_a_rank_was_killed(
    cluster: RealCluster,
    in_image: Callable[..., dict[str, Any]],
    quiet: dict[str, Any],
    containers: str,
) -> None:
    """Two ranks with half of each batch learn what one learns from all of it."""
    config = in_image(containers, CONTAINERS, **ON_TWO_NODES, max_restarts=2)
    experiment = cluster.submit(config, MODELS / "digits")
    begun(cluster, experiment)
    kill_a_rank(cluster)
    trial = completed(cluster, experiment)
    assert trial["restarts"] == 1
    assert final_metrics(cluster, experiment) == pytest.approx(quiet, rel=1e-4)


def test_preempted_by_apptainer_it_ends_as_a_quiet_run(
    cluster: RealCluster,
    in_image: Callable[..., dict[str, Any]],
    quiet: dict[str, Any],
    unpacked: str,
) -> None:
    config = in_image(unpacked, APPTAINER)
    assert preempted(cluster, config, "digits") == pytest.approx(quiet)


def test_preempted_in_namespaces_it_ends_as_a_quiet_run(
    cluster: RealCluster, torch_python: Path, quiet: dict[str, Any]
) -> None:
    assert preempted(cluster, as_process(torch_python), "digits") == pytest.approx(quiet)
