"""How much sooner many agents are installed over SSH at once than one after the other.

    python benchmarks/bench_agent_install.py [--machines 10] [--pause 3]

Real sshds on this machine, a real master, `windlass agent join` for real. Environments are not made for real: each
takes `--pause` seconds in their place, without this machine's processors, as it does on machines of their own.
Goal: all at once at least 3 times as fast as one after the other.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.real_cluster import WINDLASS, RealCluster
from tests.sshd import Sshd, make_key

GOAL = 3.0


def install(cluster: RealCluster, folder: Path, machines: list[Sshd], parallel: int) -> float:
    (folder / "hosts").write_text(
        "".join(f"{m.spec} agent_id=p{parallel}-{n}\n" for n, m in enumerate(machines))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=10)
    parser.add_argument("--pause", type=float, default=3.0)
    given = parser.parse_args()
    seconds: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name, RealCluster(Path(name) / "c", {}) as cluster:
        folder = Path(name)
        key = make_key(folder / "key")
        for parallel in (1, given.machines):
            machines = [Sshd(folder / f"{parallel}-{n}", key) for n in range(given.machines)]
            (folder / "known_hosts").write_text("".join(m.known_host for m in machines))
            try:
                for machine in machines:
                    machine.stub_python(pip=f"sleep {given.pause:g}")
                    machine.start()
                seconds[parallel] = install(cluster, folder, machines, parallel)
            finally:
                for machine in machines:
                    machine.end()
    one, many = seconds[1], seconds[given.machines]
    print(f"{given.machines} machines, each {given.pause:g} s of installing")
    print(f"  one after the other  {one:6.1f} s  {given.machines / one:5.2f} machines/s")
    print(f"  all at once          {many:6.1f} s  {given.machines / many:5.2f} machines/s")
    print(f"  ratio {one / many:.1f}, goal {GOAL:.0f}: {'met' if one / many >= GOAL else 'MISSED'}")
    return 0 if one / many >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
