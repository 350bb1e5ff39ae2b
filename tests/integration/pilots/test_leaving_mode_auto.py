"""A pool of mode auto on a real Slurm whose mode is changed while trials run on both of its sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gated_trial import MODEL, gated_trial
from tests.pilot_sites import PilotSite, running_site
from tests.real_cluster import RealCluster, eventually

pytestmark = pytest.mark.slow
TRIALS = 7
"""The first five become jobs, the others share a pilot."""


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilotSite]:
    with running_site("slurm", tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
def cluster(site: PilotSite, tmp_path: Path) -> Iterator[RealCluster]:
    settings = {"resource_pools": [pool(site, "auto")], "allowed_host_paths": [str(tmp_path)]}
    with RealCluster(tmp_path / "c", settings) as running:
        yield running
        eventually("no job is left", lambda: not site.jobs())


def pool(site: PilotSite, mode: str) -> dict[str, Any]:
    provider = {**site.provider, "mode": mode, "slot_type": "cpu", "slots_per_node": 2}
    if mode == "auto":
        provider["walltimes"] = ["1h"]
    return {"pool_name": "gpu", "max_idle_agent_period": "3s", "provider": provider}


def pools(cluster: RealCluster) -> set[str]:
    listed = cluster.get("/api/v1/resource-pools")["resourcePools"]
    return {one["name"] for one in listed}


def restart(cluster: RealCluster, section: dict[str, Any]) -> None:
    cluster.kill_master()
    config = yaml.safe_load(cluster.config_file.read_text())
    config["resource_pools"] = [section]
    if section["provider"]["mode"] != "auto":
        for key in ("max_idle_agent_period", "max_instances"):
            section.pop(key, None)
    cluster.config_file.write_text(yaml.safe_dump(config))
    cluster.start_master()


def test_what_runs_on_pilots_ends_there(
    cluster: RealCluster, site: PilotSite, tmp_path: Path
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    search = {
        "name": "random",
        "metric": "loss",
        "max_trials": TRIALS,
        "max_concurrent_trials": TRIALS,
    }
    experiment = cluster.submit(gated_trial(gates, slots=1, pool="gpu", searcher=search), MODEL)

    def logs() -> list[str]:
        return [cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment)]

    eventually("all run", lambda: sum("run 1, from" in log for log in logs()) == TRIALS)
    running = sorted(site.jobs())
    assert [name for name in running if name.startswith("wp-")]
    restart(cluster, pool(site, "dispatch"))
    eventually("all agents are back", lambda: len(cluster.agents()) == len(running))
    assert pools(cluster) == {"gpu", "gpu-pilots"}
    refused = gated_trial(gates, slots=1, pool="gpu-pilots")
    with pytest.raises(
        Exception, match='there is no pool "gpu-pilots" for workspace 1; use one of gpu'
    ):
        cluster.submit(refused, MODEL)

    assert sorted(site.jobs()) == running
    (gates / "open").touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert all("run 2" not in log and log.count("rank 0 of 1") == 1 for log in logs())
    eventually("its pilots are over", lambda: not site.jobs())
    eventually("their machines are gone", lambda: not cluster.instances())
    restart(cluster, pool(site, "dispatch"))
    assert pools(cluster) == {"gpu"}
