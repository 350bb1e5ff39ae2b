"""How much longer a machine takes from its user data to a joined agent than an agent that is started by hand.

    python -m benchmarks.bench_boot [--rounds 5]

A real master with TLS, and machines of the boot tests: folders with a systemd of their own, in which user data really
runs. Each round starts, against that same master, until its list of agents shows the agent:

    by hand   `windlass agent run` with a join token
    baked     user data on what a bake leaves: the software is there, and the master still serves the same wheels
    wheels    user data on a machine with nothing but Python: a virtual environment, and the master's wheels into it

The disk, the kernel and the boot of a real machine are in none of them. Making its wheels, which a master does once, is
measured apart. Goals: baked at most 3 times, wheels at most 25 times a start by hand (medians).
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.arguments import arguments, exit_code, sized
from tests.certificates import Authority
from tests.fakes.cloud_machine import CloudMachine, metadata_service
from tests.launch_user_data import user_data_of
from tests.real_cluster import RealCluster
from windlass.install.wheels import wheels_of_agents

BARE_SYSTEM = "/usr/bin:/bin"
GOALS = {"baked": 3.0, "wheels": 25.0}
LOOK_EVERY_S = 0.02
WITHIN_S = 120.0


class Bench:
    def __init__(self, folder: Path, cluster: RealCluster, authority: Authority) -> None:
        self.folder, self.cluster = folder, cluster
        self.user_data = user_data_of(cluster, authority)

    def by_hand(self, name: str) -> float:
        took = self._until_joined(name, lambda: self.cluster.start_agent(name))
        self.cluster.kill_agent(name)
        return took

    def booted(self, name: str, prefix: Path | None = None) -> tuple[float, Path]:
        """`prefix`: where the software is already."""
        with metadata_service(name) as metadata:
            machine = CloudMachine(self.folder / name, metadata)
            machine.prefix = prefix or machine.prefix
            script = self.user_data(name)
            try:
                took = self._until_joined(name, lambda: machine.boot(script, path=BARE_SYSTEM))
            finally:
                machine.stop()
        return took, machine.prefix

    def _until_joined(self, name: str, start: Callable[[], object]) -> float:
        began = time.monotonic()
        starting = threading.Thread(target=start)
        starting.start()
        while name not in self.cluster.agents():
            if time.monotonic() - began > WITHIN_S:
                raise SystemExit(f"{name} has not joined within {WITHIN_S:.0f} s")
            time.sleep(LOOK_EVERY_S)
        took = time.monotonic() - began
        starting.join()
        return took


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=sized(5, 1))
    given = parser.parse_args()
    if shutil.which("python3.11", path=BARE_SYSTEM) is None:
        print("skipped: the master's wheels need a Python 3.11 outside of the environment")
        return 0
    load, took = os.getloadavg()[0], {"by hand": [], "baked": [], "wheels": []}  # type: ignore[var-annotated]
    began = time.monotonic()
    wheels = sum(1 for _ in wheels_of_agents())
    making_s = time.monotonic() - began
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o711)
        authority = Authority(folder / "authority")
        issued = authority.issue()
        files = {"cert": str(issued.cert), "key": str(issued.key), "ca": str(authority.root)}
        cluster = RealCluster(folder / "c", {"security": {"tls": files}}, trust=authority.root)
        bench = Bench(folder, stack.enter_context(cluster), authority)
        bench.by_hand("a-first")  # which makes the token
        bench.booted("i-first")  # and the master its wheels
        for number in range(given.rounds):
            took["by hand"].append(bench.by_hand(f"a-{number}"))
            installing_s, prefix = bench.booted(f"i-wheels-{number}")
            took["wheels"].append(installing_s)
            took["baked"].append(bench.booted(f"i-baked-{number}", prefix)[0])
    print(f"{os.cpu_count()} processors, load {load:.1f} at the start, {given.rounds} rounds")
    print(f"the master's {wheels} wheels are made in {making_s:.1f} s, once")
    hand = took["by hand"]
    met = True
    for row, times in took.items():
        ratio = statistics.median(times) / statistics.median(hand)
        line = f"{row:8} min {min(times):6.2f} s  median {statistics.median(times):6.2f} s"
        if row in GOALS:
            met = met and ratio <= GOALS[row]
            line += f"  over by hand: min {min(times) / min(hand):5.1f}  median {ratio:5.1f}, "
            line += f"goal {GOALS[row]:g}: {'met' if ratio <= GOALS[row] else 'MISSED'}"
        print(line)
    return exit_code(met)


if __name__ == "__main__":
    sys.exit(main())
