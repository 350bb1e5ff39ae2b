"""A task that nobody comes back for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.isolation import Isolation
from agent_bootstrap.agent.runtimes.process import ProcessRuntime, ProcessSetup
from agent_bootstrap.agent.runtimes.task_tree import Ground
from agent_bootstrap.protocol import ContainerSpec

NODE = NodeFacts(master_url="http://127.0.0.1:1", agent_id="a", cluster_id="c", master_id="m")


async def test_its_supervisor_ends_it_and_says_why(tmp_path: Path) -> None:
    runtime = ProcessRuntime(
        ProcessSetup(Ground(isolation=Isolation())), orphan_ttl=timedelta(seconds=1)
    )
    place = ContainerDir(tmp_path / "containers" / "c-orphan")
    spec = ContainerSpec(
        container_id="c-orphan",
        allocation_id="a",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("sh", "-c", "sleep 600"),
        environment={},
    )
    place.path.parent.mkdir(parents=True)
    place.create(ContainerRecord.of(spec))
    assert await runtime.start(place, spec, NODE)
    verdict = await runtime.wait(place)
    assert (verdict.exit_code, verdict.failure) == (137, None)
    assert verdict.message.endswith("no contact to the master for 1 s (orphan_ttl)")
