"""An adaptive search of 30 short trials on a real Slurm: each trial a job of its own, and all of them on pilots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pilot_sites import PilotSite, running_site
from tests.real_cluster import RealCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MODEL = Path(__file__).parents[1] / "slurm" / "model"
TRIALS = 30
PATIENCE_S = 540
"""A trial takes about a second of CPU, a job two more; other work on this machine takes its share."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilotSite]:
    with running_site("slurm", tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="module")
def cluster(site: PilotSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Slots are CPUs here: half of the trials can run at once."""
    folder = tmp_path_factory.mktemp("searches") / "cluster"
    slots: dict[str, Any] = {**site.provider, "slot_type": "cpu"}
    pilot = {**slots, "mode": "pilot", "slots_per_node": 8, "walltimes": ["1h"]}
    pools = [
        {"pool_name": "dispatch", "provider": {**slots, "mode": "dispatch", "slots_per_node": 1}},
        {
            "pool_name": "pilot",
            "provider": pilot,
            "max_instances": 2,
            "max_idle_agent_period": "3s",
        },
        {
            "pool_name": "auto",
            "provider": {**pilot, "mode": "auto"},
            "max_instances": 2,
            "max_idle_agent_period": "3s",
        },
    ]
    settings = {"resource_pools": pools, "allowed_host_paths": [str(folder)]}
    with RealCluster(folder, settings) as running:
        yield running
        eventually("no job is left", lambda: not site.jobs())
        eventually("no agent is left", lambda: not running.agents())


def search_config(cluster: RealCluster, pool: str, trials: int) -> dict[str, Any]:
    gate = cluster.folder / pool
    gate.mkdir()
    (gate / "open").touch()
    return {
        "name": f"{trials} trials by {pool}",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open", "steps": 1},
        "bind_mounts": [{"host_path": str(gate), "container_path": "/gates"}],
        "searcher": {
            "name": "adaptive_asha",
            "metric": "loss",
            "max_trials": trials,
            "max_time": 4,
            "time_metric": "legs",
            "mode": "aggressive",
        },
        "resources": {"slots_per_trial": 1, "resource_pool": pool},
        "max_restarts": 0,
    }


@pytest.mark.parametrize(("mode", "prefix"), [("dispatch", "wl-"), ("pilot", "wp-")])
def test_thirty_short_trials(cluster: RealCluster, site: PilotSite, mode: str, prefix: str) -> None:
    before = frozenset(site.all_jobs())
    experiment = cluster.submit(search_config(cluster, mode, TRIALS), MODEL)
    assert cluster.wait(experiment, patience_s=PATIENCE_S)["state"] == "STATE_COMPLETED"
    trials = cluster.trials(experiment)
    assert len(trials) == TRIALS
    assert {trial["state"] for trial in trials} == {"STATE_COMPLETED"}
    mine = set(site.all_jobs()) - before
    assert all(name.startswith(prefix) for name in mine)
    assert len(mine) >= TRIALS if mode == "dispatch" else len(mine) <= 4


def test_a_pool_of_mode_auto_gives_the_first_trials_jobs_and_the_others_pilots(
    cluster: RealCluster, site: PilotSite
) -> None:
    before = frozenset(site.all_jobs())
    experiment = cluster.submit(search_config(cluster, "auto", 12), MODEL)
    assert cluster.wait(experiment, patience_s=PATIENCE_S)["state"] == "STATE_COMPLETED"
    trials = cluster.trials(experiment)
    assert len(trials) == 12
    mine = set(site.all_jobs()) - before
    alone = [name for name in mine if name.startswith("wl-")]
    pilots = [name for name in mine if name.startswith("wp-")]
    assert 0 < len(alone) < 12
    assert 0 < len(pilots) <= 2
    logs = [cluster.logs_of(trial["id"]) for trial in trials]
    on_pilots = [log for log in logs if "in resource pool auto-pilots, not in auto: mode" in log]
    assert len(on_pilots) == 12 - len(alone)
