"""Ports of containers with a network of their own: what other tasks and other programs use there does not matter."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.container_options import ContainerOptions, ProxyPort
from agent_bootstrap.protocol import ContainerSpec
from tests.podman import IMAGE, Podman
from tests.real_cluster import free_port, listening

NODE = NodeFacts(master_url="http://master:8080", agent_id="a", cluster_id="c", master_id="m")
SERVE = """
import os, socket, sys
served = socket.create_server((os.environ["WINDLASS_LISTEN_ADDRESS"], int(sys.argv[1])))
while True:
    taken, _ = served.accept()
    taken.sendall(os.environ["DET_CONTAINER_ID"].encode())
    taken.close()
"""
LIMIT_S = 90


def opened(podman: Podman, work_dir: Path) -> Runtime:
    options = {
        "master_url": "http://127.0.0.1:1",
        "work_dir": str(work_dir),
        "agent_id": "ports",
        "container_socket": str(podman.socket),
    }
    return open_runtime("podman", RuntimeSetup(options=parse_options(options)))


async def answer(address: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(address, port)
    said = (await reader.read()).decode()
    writer.close()
    return said


async def until_answered(runtime: Runtime, place: ContainerDir, port: int) -> str:
    while True:
        try:
            if said := await answer("127.0.0.1", await runtime.node_port(place, port)):
                return said
        except ConnectionError:
            await asyncio.sleep(0.1)


async def test_two_containers_serve_one_port_that_the_machine_uses_too(
    podman: Podman, tmp_path: Path
) -> None:
    """Both are reached from this machine, by an agent that is started anew too, and from nowhere else."""
    port = free_port()
    runtime, places = opened(podman, tmp_path), []
    taken = await asyncio.start_server(lambda *_: None, "0.0.0.0", port)  # noqa: S104
    async with taken, asyncio.timeout(LIMIT_S):
        for name in ("c1", "c2"):
            place = ContainerDir(tmp_path / name)
            record = ContainerRecord(container_id=name, allocation_id=name, task_id="t", boot_id="")
            place.create(record)
            options = ContainerOptions(image=IMAGE, network="bridge", ports=(ProxyPort(port=port),))
            spec = ContainerSpec(
                container_id=name,
                allocation_id=name,
                task_id="t",
                task_type="COMMAND",
                entrypoint=("python3", "-c", SERVE, str(port)),
                environment={},
                options=options,
            )
            assert await runtime.start(place, spec, NODE), place.output.read_text()
            places.append(place)
        try:
            for place in places:
                assert await until_answered(runtime, place, port) == place.path.name
            assert port not in {await runtime.node_port(place, port) for place in places}
            again = opened(podman, tmp_path)
            node_port = await again.node_port(places[1], port)
            assert await answer("127.0.0.1", node_port) == "c2"
            assert listening(node_port) == {"127.0.0.1"}
        finally:
            for place in places:
                runtime.kill(place)
                await runtime.wait(place)
                await runtime.gc(place)
