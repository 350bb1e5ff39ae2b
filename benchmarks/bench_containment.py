"""What containment costs the start of a task: from the call of the runtime until the task's first process runs.

Budget: 50 ms over a task that nothing contains, which is the peer. On a busy machine compare the ratios.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.protocol import ContainerSpec
from benchmarks.arguments import arguments, sized
from windlass.base.errors import InvalidConfig

BUDGET_S = 0.05
WAYS = ("directory", "bubblewrap", "namespace")
NODE = NodeFacts(master_url="http://127.0.0.1:1", agent_id="a", cluster_id="c", master_id="m")


def runtime_of(way: str, work_dir: Path) -> Runtime | None:
    """None where this machine has no such way."""
    options = {"master_url": NODE.master_url, "isolation": way, "work_dir": str(work_dir)}
    try:
        return open_runtime("process", RuntimeSetup(options=parse_options(options)))
    except InvalidConfig:
        return None


async def start_once(runtime: Runtime, work_dir: Path, name: str) -> float:
    """Seconds."""
    spec = ContainerSpec(
        container_id=name,
        allocation_id=name,
        task_id=name,
        task_type="COMMAND",
        entrypoint=("true",),
        environment={},
    )
    place = ContainerDir(work_dir / name)
    place.create(ContainerRecord.of(spec))
    begin = time.perf_counter()
    assert await runtime.start(place, spec, NODE)
    took = time.perf_counter() - begin
    assert (await runtime.wait(place)).exit_code == 0
    return took


async def measure(runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as name:
        runtimes = {way: runtime_of(way, Path(name)) for way in WAYS}
        taken: dict[str, list[float]] = {way: [] for way, found in runtimes.items() if found}
        for number in range(runs):  # in turns, so that a busy moment meets all
            for way in taken:
                runtime = runtimes[way]
                assert runtime is not None
                taken[way].append(await start_once(runtime, Path(name), f"{way}-{number}"))
    medians = {way: statistics.median(seconds) for way, seconds in taken.items()}
    plain = medians["directory"]
    result = {f"{way}_s": seconds for way, seconds in medians.items()}
    for way in medians.keys() - {"directory"}:
        result[f"{way}_over_s"] = medians[way] - plain
        result[f"{way}_ratio"] = medians[way] / plain
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=sized(30, 1))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = asyncio.run(measure(given.runs))
    if given.json:
        print(json.dumps(result))
        return
    print(f"start of a task that nothing contains: {result['directory_s'] * 1000:.0f} ms")
    for way in WAYS[1:]:
        if f"{way}_s" in result:
            over, ratio = result[f"{way}_over_s"], result[f"{way}_ratio"]
            verdict = "within" if over <= BUDGET_S else "OVER"
            print(
                f"{way}: {over * 1000:+.0f} ms, x{ratio:.2f} ({verdict} {BUDGET_S * 1000:.0f} ms)"
            )
        else:
            print(f"{way}: not on this machine")


if __name__ == "__main__":
    main()
