"""Runs one task as an agent of this machine would, beside a neighbour; prints what it said.

usage: python -P jailed.py REQUEST (JSON: "isolation", "work_dir", "neighbour", "spec", both as ContainerSpec)
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.protocol import ContainerSpec

NODE = NodeFacts(master_url="http://127.0.0.1:1", agent_id="a", cluster_id="c", master_id="m")


async def main(request: dict[str, Any]) -> int:
    work_dir = Path(request["work_dir"])
    options = parse_options(
        {
            "master_url": "http://127.0.0.1:1",
            "isolation": request["isolation"],
            "work_dir": str(work_dir),
        }
    )
    runtime = open_runtime("process", RuntimeSetup(options=options))
    neighbour = await started(runtime, work_dir, request["neighbour"])
    try:
        place = await started(runtime, work_dir, request["spec"])
        verdict = await runtime.wait(place)
        print(verdict.model_dump_json())
        print(place.output.read_text(errors="replace"))
        return 0
    finally:
        runtime.kill(neighbour)
        await runtime.wait(neighbour)


async def started(runtime: Runtime, work_dir: Path, document: dict[str, Any]) -> ContainerDir:
    spec = ContainerSpec.model_validate(document)
    containers = work_dir / "containers"
    containers.mkdir(mode=0o700, exist_ok=True)
    place = ContainerDir(containers / spec.container_id)
    place.create(ContainerRecord.of(spec))
    await runtime.start(place, spec, NODE)
    return place


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(json.loads(sys.argv[1]))))
