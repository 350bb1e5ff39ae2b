"""The published harness on two nodes of a real Slurm: each run of a trial is a job of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MODELS, config_of
from runs import LAUNCHER, ON_TWO_NODES, begun, completed, final_metrics, run

from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm, require_slurm, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def slurm(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require_slurm()
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    with running_slurm(folder) as site:
        yield site


@pytest.fixture(scope="module")
def dispatch(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A slot is a CPU, one on each node: work of two slots is a gang on two nodes."""
    provider = {"type": "slurm", "partition": "gpu", "slot_type": "cpu"}
    config = {"resource_pools": [{"pool_name": "default", "provider": provider}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        with RealCluster(tmp_path_factory.mktemp("frameworks"), config) as cluster:
            yield cluster


def all_jobs(slurm: Slurm) -> set[str]:
    """Those that are over among them."""
    return set(slurm.run("squeue", "-h", "-t", "all", "-o", "%j").split())


def test_ranks_in_one_job_train_one_model(dispatch: RealCluster, torch_python: Path) -> None:
    config = config_of(torch_python, f"{LAUNCHER} python3 train.py", **ON_TWO_NODES)
    (trial,) = dispatch.trials(run(dispatch, config, "ddp"))
    log = dispatch.logs_of(trial["id"])
    assert "rank 0 of 2, node 0" in log
    assert "rank 1 of 2, node 1" in log


def test_a_job_that_loses_a_node_is_followed_by_one_that_ends_the_same(
    dispatch: RealCluster, slurm: Slurm, torch_python: Path
) -> None:
    """In the middle of an epoch: both jobs together end with the metrics of a long one."""
    config = config_of(torch_python, "model:DigitsTrial", **ON_TWO_NODES)
    long = final_metrics(dispatch, run(dispatch, config, "digits"))
    eventually("its job is over", lambda: not slurm.jobs())
    before = all_jobs(slurm)
    experiment = dispatch.submit(config, MODELS / "digits")
    begun(dispatch, experiment)
    slurm.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    eventually("the job is over", lambda: not slurm.jobs("RUNNING"))
    slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME", check=False)
    trial = completed(dispatch, experiment)
    assert trial["restarts"] == 0
    assert len(all_jobs(slurm) - before) == 2
    assert final_metrics(dispatch, experiment) == pytest.approx(long)
    eventually("all jobs are over", lambda: not slurm.jobs())
