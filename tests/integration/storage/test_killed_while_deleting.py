"""kill -9 of the master in the middle of a deletion of checkpoints: the next one ends it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.real_cluster import RealCluster, eventually
from tests.stores import read_rows

COUNT = 80
PROGRAM = f"""
from windlass import core
with core.init() as context:
    for step in range({COUNT}):
        with context.checkpoint.store_path({{"steps_completed": step}}) as (path, uuid):
            (path / "state").write_text("1")
    context.train.report_validation_metrics(1, {{"loss": 1.0}})
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_all_that_was_to_go_goes_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "storage"
    folder.mkdir()
    folder.chmod(0o777)
    storage = {"type": "shared_fs", "host_path": str(folder), "save_trial_latest": COUNT}
    config = {"resource_pools": [{"pool_name": "default"}], "checkpoint_storage": storage}
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(PROGRAM)
    with RealCluster(tmp_path / "cluster", config) as cluster:
        cluster.start_agent("node", slots=1)
        experiment = cluster.submit(
            {
                "name": "many checkpoints",
                "entrypoint": "python3 train.py",
                "searcher": {"name": "single", "metric": "loss"},
                "max_restarts": 0,
            },
            model,
        )
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", cluster.logs_of(1)
        database = cluster.data_dir / "windlass.db"

        def left() -> bool:
            return bool(read_rows(database, "checkpoint_gc", "task_id"))

        eventually("the end of the experiment is collected", lambda: not left())
        (folder / "stranger").mkdir()
        (folder / "stranger" / "state").write_text("not ours")
        uuids = sorted(c["uuid"] for c in cluster.client.checkpoints(experiment))
        assert len(uuids) == COUNT
        kept, doomed = uuids[:3], uuids[3:]
        (told,) = cluster.client.delete_checkpoints(doomed)
        first = eventually(
            "the first is gone", lambda: next((u for u in doomed if not (folder / u).exists()), "")
        )
        cluster.kill_master()
        assert first in doomed
        assert left(), "it was over before the master was killed"
        cluster.start_master()
        eventually("the rest is deleted", lambda: not left())
        stored = {path.parent.name for path in folder.glob("*/state")}
        assert stored == {*kept, "stranger"}
        states = {c["uuid"]: c["state"] for c in cluster.client.checkpoints(experiment)}
        assert {u for u, state in states.items() if state == "STATE_COMPLETED"} == set(kept)
        assert {u for u, state in states.items() if state == "STATE_DELETED"} == set(doomed)
        (task,) = (t for t in read_rows(database, "task", "id") if t["id"] == told)
        assert task["ended_at"] is not None
        said = "".join(str(e["message"]) for e in cluster.client.task_logs(told, follow=True))
        assert f" checkpoints of experiment {experiment}: as asked" in said
        assert re.search(r"Deleted (\d+) of \1\b", said), said
