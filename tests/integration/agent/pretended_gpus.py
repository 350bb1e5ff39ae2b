"""Runs tasks beside each other on a machine that pretends to have eight GPUs, and prints what each sees.

usage: python -P pretended_gpus.py ISOLATION WORK_DIR    (as root: makes device nodes, in a mount namespace of its own)
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
from pathlib import Path

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.gpus.nvidia import nvidia_gpus
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.protocol import ContainerSpec
from agent_bootstrap.supervisor.kernel import CLONE_NEWNS, MS_BIND, MS_REC, MS_SLAVE, mount, unshare
from tests.fakes.fake_nvml import MIG_MINORS, eight_gpus

REAL = ("null", "zero", "full", "random", "urandom", "tty")
SHARED = ("nvidiactl", "nvidia-uvm")
NULL = os.makedev(1, 3)
TASKS = ((), (0, 1), (2,), (1072,))
LOOK = """
import json, os
def nodes(folder):
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [n for n in names if n.startswith("nvidia") and not os.path.isdir(folder + "/" + n)]
for name in nodes("/dev"):
    os.write(os.open("/dev/" + name, os.O_RDWR), b"x")
print("SAID", json.dumps({
    "nodes": nodes("/dev"), "caps": nodes("/dev/nvidia-caps"),
    "cuda": os.environ["CUDA_VISIBLE_DEVICES"],
}))
"""


def pretend(minors: list[int]) -> None:
    """A /dev of this process and its children, with nodes like those of the driver; all of them are /dev/null."""
    unshare(CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_SLAVE)
    dev = Path(tempfile.mkdtemp(prefix="wl-dev-"))
    mount("tmpfs", str(dev), "tmpfs", 0, "mode=755")
    names = [*SHARED, *(f"nvidia{n}" for n in minors)]
    caps = [f"nvidia-caps/nvidia-cap{n}" for n in (1, 2, 30, 31, 66, 67)]
    (dev / "nvidia-caps").mkdir()
    for name in (*names, *caps):
        os.mknod(dev / name, stat.S_IFCHR, NULL)
        (dev / name).chmod(0o666)
    for name in REAL:
        (dev / name).touch()
        mount(f"/dev/{name}", str(dev / name), None, MS_BIND)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
        mount(f"/dev/{name}", str(dev / name), None, MS_BIND | MS_REC)
    mount(str(dev), "/dev", None, MS_BIND | MS_REC)


async def seen(
    runtime: Runtime, node: NodeFacts, place: ContainerDir, slots: tuple[int, ...]
) -> object:
    spec = ContainerSpec(
        container_id=place.path.name,
        allocation_id="a",
        task_id="t",
        task_type="COMMAND",
        slot_ids=slots,
        entrypoint=("{python}", "-c", LOOK),
        environment={},
    )
    place.create(ContainerRecord.of(spec))
    await runtime.start(place, spec, node)
    verdict = await runtime.wait(place)
    text = place.output.read_text()
    if verdict.exit_code != 0:
        raise SystemExit(f"{verdict}\n{text}")
    return json.loads(text.partition("SAID ")[2])


async def main(isolation: str, work_dir: Path) -> None:
    minors = work_dir / "mig-minors"
    minors.write_text(MIG_MINORS)
    nvml = eight_gpus()
    pretend([gpu.minor for gpu in nvml.gpus])
    gpus = nvidia_gpus(nvml, minors).gpus
    node = NodeFacts(master_url="http://m", agent_id="a", cluster_id="c", master_id="m", gpus=gpus)
    settings = {"master_host": "m", "isolation": isolation, "work_dir": str(work_dir)}
    runtime = open_runtime("process", RuntimeSetup(options=parse_options(settings)))
    places = [ContainerDir(work_dir / f"task-{n}") for n in range(len(TASKS))]
    print(
        json.dumps(
            await asyncio.gather(
                *(
                    seen(runtime, node, place, slots)
                    for place, slots in zip(places, TASKS, strict=True)
                )
            )
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
