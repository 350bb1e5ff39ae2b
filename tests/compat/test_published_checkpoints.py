"""The published client's verbs about checkpoints, and the files that they are about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_published_client import COMPAT, CONFIG, MODEL, PUBLISHED_PYTHON, det

from tests.published import published
from tests.real_cluster import RealCluster, eventually
from windlass.base.errors import NotFound

SDK = Path(__file__).with_name("published_sdk.py")
pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("checkpoints")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=2, options=PUBLISHED_PYTHON)
        yield cluster


def trained(cluster: RealCluster, **config: Any) -> tuple[int, str]:
    """An experiment that has completed, and its checkpoint."""
    experiment = cluster.submit({**yaml.safe_load(CONFIG), **config}, MODEL)
    ended = cluster.wait(experiment)
    assert ended["state"] == "STATE_COMPLETED", ended
    return experiment, str(cluster.client.checkpoints(experiment)[0]["uuid"])


def await_state(cluster: RealCluster, uuid: str, state: str) -> None:
    eventually(
        f"checkpoint {uuid} is {state}",
        lambda: cluster.client.checkpoint(uuid)["state"] == f"STATE_{state}",
    )


def await_gone(cluster: RealCluster, experiment: int) -> None:
    def look() -> bool:
        try:
            shown = cluster.experiment(experiment)
        except NotFound:
            return True
        assert shown["state"] == "STATE_DELETING", shown
        return False

    eventually(f"experiment {experiment} is deleted", look)


def test_from_download_to_deletion(cluster: RealCluster, tmp_path: Path) -> None:
    experiment, uuid = trained(cluster)
    files = cluster.data_dir / "checkpoints" / uuid
    for mode in ("master", "direct", "auto"):
        det(cluster, "checkpoint", "download", uuid, "--mode", mode, "-o", str(tmp_path / mode))
        copied = {p.name: p.read_bytes() for p in (tmp_path / mode).iterdir()}
        assert copied == {p.name: p.read_bytes() for p in files.iterdir()}, mode
        assert json.loads(copied["state.json"]) == {"done": 12}
    det(cluster, "checkpoint", "rm", uuid, "--glob", "state.json", "--yes")
    await_state(cluster, uuid, "PARTIALLY_DELETED")
    assert [p.name for p in files.iterdir()] == ["metadata.json"]
    policy = ["--save-experiment-best", "0", "--save-trial-best", "0", "--save-trial-latest", "0"]
    det(cluster, "experiment", "set", "gc-policy", str(experiment), *policy, "--yes")
    await_state(cluster, uuid, "DELETED")
    assert not files.exists()
    assert list(cluster.client.checkpoint(uuid)["resources"]) == ["metadata.json"], "its last ones"
    assert "DELETED" in det(cluster, "experiment", "list-checkpoints", str(experiment))
    trial = cluster.trials(experiment)[0]
    det(cluster, "experiment", "delete", str(experiment), "--yes")
    await_gone(cluster, experiment)
    assert cluster.client.experiments(archived=None) == []
    with pytest.raises(NotFound):
        list(cluster.client.logs(trial["id"]))
    assert not list(
        (cluster.data_dir / "checkpoints").glob(f"*/tensorboard/experiment/{experiment}")
    )


def test_storage_of_a_users_own(cluster: RealCluster, tmp_path: Path) -> None:
    """Only an agent goes there, as the owner: the master neither deletes nor reads what users name."""
    own = cluster.folder / "own"
    own.mkdir()
    own.chmod(0o1777)
    storage = {"type": "shared_fs", "host_path": str(own), "storage_path": "below"}
    experiment, uuid = trained(cluster, checkpoint_storage=storage)
    assert (own / "below" / uuid / "state.json").exists()
    (own / "below" / "stranger").mkdir()
    det(cluster, "checkpoint", "delete", uuid, "--yes")
    await_state(cluster, uuid, "DELETED")
    assert {p.name for p in (own / "below").iterdir()} >= {"stranger"}
    assert not (own / "below" / uuid).exists()
    det(cluster, "experiment", "delete", str(experiment), "--yes")
    await_gone(cluster, experiment)


def test_every_method_of_the_sdk(cluster: RealCluster, tmp_path: Path) -> None:
    """Of experiments, trials, checkpoints and metrics; models are another test's."""
    words = (cluster.url, json.dumps(yaml.safe_load(CONFIG)), str(MODEL), str(tmp_path))
    process = published(cluster, *words, user="determined", script=SDK)
    said, _ = process.communicate(timeout=150)
    assert process.returncode == 0, said
    left_out = json.loads(said.splitlines()[-1])
    assert [name for name in left_out if "model" not in name and "oauth" not in name] == []
