"""How much sooner many agents are installed over SSH at once than one after the other; whether 50 keep the pace of 10.

    python -m benchmarks.bench_agent_install [--machines 10] [--pause 3] [--many 50] [--long 10]

Real sshds on this machine, a real master. Environments are not made for real: each takes `--pause` (`--long`) seconds
in their place, without this machine's processors, as it does on machines of their own.

First the gain: one after the other and all at once, with `windlass agent join` for real. Then the pace: 10 and `--many`
machines, all at once, with a shell script in the place of `join`, for which the processors of this one machine would be
what is measured. So the pace is that of the installing side and of as many sshds as it talks to.

Goals: all at once at least 3 times as fast as one after the other; the many in at most 1.5 times the time of the 10.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.arguments import arguments, exit_code, sized
from tests.real_cluster import WINDLASS, RealCluster
from tests.sshd import Sshd, make_key

GOAL = 3.0
PACE_GOAL = 1.5
FEW = sized(10, 1)
STAND_IN = """\
#!/bin/sh
read -r token
echo '{"agent_id": "x", "pool": "default", "slots": 1}'
"""


def install(cluster: RealCluster, folder: Path, machines: list[Sshd], parallel: int) -> float:
    (folder / "hosts").write_text(
        "".join(f"{m.spec} agent_id={folder.name}-{n}\n" for n, m in enumerate(machines))
    )
    environ = os.environ | cluster.login_as("admin") | {"HOME": str(folder)}
    began = time.monotonic()
    subprocess.run(
        [
            *(WINDLASS, "-m", cluster.url, "agent", "install", "--user", "--no-service"),
            *("--hosts-file", str(folder / "hosts"), "--identity", str(folder / "key")),
            *("--known-hosts", str(folder / "known_hosts"), "--parallel", str(parallel)),
        ],
        check=True,
        capture_output=True,
        env=environ,
    )
    return time.monotonic() - began


def measured(cluster: RealCluster, folder: Path, count: int, parallel: int, **python: Any) -> float:
    """Of `count` new machines."""
    folder.mkdir()
    key = make_key(folder / "key")
    machines = [Sshd(folder / str(n), key) for n in range(count)]
    (folder / "known_hosts").write_text("".join(m.known_host for m in machines))
    try:
        for machine in machines:
            machine.stub_python(**python)
            machine.start()
        return install(cluster, folder, machines, parallel)
    finally:
        for machine in machines:
            machine.end()


def verdict(value: float, goal: float, *, at_most: bool = False) -> str:
    met = value <= goal if at_most else value >= goal
    return f"ratio {value:.1f}, goal {goal:g}: {'met' if met else 'MISSED'}"


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--machines", type=int, default=sized(10, 1))
    parser.add_argument("--pause", type=float, default=sized(3.0, 0.0))
    parser.add_argument("--many", type=int, default=sized(50, 2))
    parser.add_argument("--long", type=float, default=sized(10.0, 0.0))
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, RealCluster(Path(name) / "c", {}) as cluster:
        folder, count = Path(name), given.machines
        stub = folder / "join"
        stub.write_text(STAND_IN)
        stub.chmod(0o755)
        pip, long = f"sleep {given.pause:g}", f"sleep {given.long:g}"
        one = measured(cluster, folder / "one", count, 1, pip=pip)
        all_ = measured(cluster, folder / "all", count, count, pip=pip)
        few = measured(cluster, folder / "few", FEW, FEW, pip=long, windlass=str(stub))
        many = measured(
            cluster, folder / "many", given.many, given.many, pip=long, windlass=str(stub)
        )
    print(f"{os.cpu_count()} processors, load {load:.1f} at the start")
    print(f"{count} machines, each {given.pause:g} s of installing, joining for real")
    print(f"  one after the other  {one:6.1f} s  {count / one:5.2f} machines/s")
    print(f"  all at once          {all_:6.1f} s  {count / all_:5.2f} machines/s")
    print(f"  {verdict(one / all_, GOAL)}")
    print(f"each {given.long:g} s of installing, a script instead of joining, all at once")
    for machines, took in ((FEW, few), (given.many, many)):
        print(f"  {machines:3} machines         {took:6.1f} s  {machines / took:5.2f} machines/s")
    print(f"  {verdict(many / few, PACE_GOAL, at_most=True)}")
    return exit_code(one / all_ >= GOAL and many / few <= PACE_GOAL)


if __name__ == "__main__":
    sys.exit(main())
