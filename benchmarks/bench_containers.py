"""What a container task costs over a bare `podman run` of the same image: from the call until it has ended.

Budget: 1 s over `podman run`, which is the peer. On a busy machine compare the ratios. Needs root, podman and runc.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import ContainerSpec
from benchmarks.arguments import arguments, sized
from tests.podman import IMAGE, Podman, running_podman

BUDGET_S = 1.0
NODE = NodeFacts(master_url="http://127.0.0.1:1", agent_id="a", cluster_id="c", master_id="m")


async def run_task(runtime: Runtime, work_dir: Path, name: str) -> float:
    """Seconds."""
    spec = ContainerSpec(
        container_id=name,
        allocation_id=name,
        task_id=name,
        task_type="COMMAND",
        entrypoint=("true",),
        environment={},
        options=ContainerOptions(image=IMAGE),
    )
    place = ContainerDir(work_dir / name)
    place.create(ContainerRecord.of(spec))
    begin = time.perf_counter()
    await runtime.start(place, spec, NODE)
    assert (await runtime.wait(place)).exit_code == 0
    took = time.perf_counter() - begin
    await runtime.gc(place)
    return took


def run_bare(podman: Podman) -> float:
    begin = time.perf_counter()
    podman.run("run", "--network", "host", IMAGE, "true")
    return time.perf_counter() - begin


async def measure(podman: Podman, runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as name:
        options = {
            "master_url": NODE.master_url,
            "container_socket": str(podman.socket),
            "work_dir": name,
        }
        runtime = open_runtime("podman", RuntimeSetup(options=parse_options(options)))
        await run_task(runtime, Path(name), "first")  # looks into the image, once
        bare, tasks = [], []
        for number in range(runs):  # in turns, so that a busy moment meets both
            bare.append(await asyncio.to_thread(run_bare, podman))
            tasks.append(await run_task(runtime, Path(name), f"task-{number}"))
    peer, ours = statistics.median(bare), statistics.median(tasks)
    return {"podman_run_s": peer, "task_s": ours, "over_s": ours - peer, "ratio": ours / peer}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=sized(10, 1))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        with running_podman(Path(tempfile.mkdtemp(prefix="wlpod-"))) as podman:
            result = asyncio.run(measure(podman, given.runs))
    except pytest.skip.Exception as reason:
        print(reason)
        return
    if given.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:14s} {value:.3f}")
    print(f"budget: {BUDGET_S:.0f} s over: {'kept' if result['over_s'] <= BUDGET_S else 'missed'}")


if __name__ == "__main__":
    main()
