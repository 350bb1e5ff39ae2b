"""What a trial's containers are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock

CONFIG = """
entrypoint: python3 train.py
searcher: {{name: single, metric: loss}}
checkpoint_storage: {storage}
bind_mounts:
  - {{host_path: /nfs/team, container_path: /mnt/team}}
"""


@pytest.mark.parametrize(
    ("storage", "binds"),
    [
        ("{type: shared_fs, host_path: /ckpt}", [("/ckpt", "/determined_shared_fs")]),
        ("{type: directory, container_path: /ckpt}", [("/ckpt", "/ckpt")]),
        ("{type: directory, container_path: /mnt/teams}", [("/mnt/teams", "/mnt/teams")]),
        ("{type: directory, container_path: /mnt/team}", []),
        ("{type: directory, container_path: /mnt/team/ckpt}", []),
    ],
)
async def test_a_directory_that_the_tasks_own_mounts_supply_need_not_be_on_the_machine(
    tmp_path: Path, clock: ManualClock, storage: str, binds: list[tuple[str, str]]
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        await cluster.create(CONFIG.format(storage=storage))
        await cluster.grant()
        given = cluster.rm.specs[cluster.run.id].binds
        expected = [*binds, ("/nfs/team", "/mnt/team")]
        assert [(bind.source, bind.target) for bind in given] == expected
    finally:
        await cluster.crash()
