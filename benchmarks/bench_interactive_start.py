"""Until a shell and a notebook are ready: from the call, beside sshd and JupyterLab that are started bare.

    python -m benchmarks.bench_interactive_start [--runs 5]

Budgets: 2 s over bare sshd for a shell, 3 s over bare `jupyter lab` for a notebook, on an idle agent with the process
runtime. They take turns, so that a busy moment meets both. Needs sshd, and JupyterLab in `.jupyter` (`make test-slow`
makes it); what is missing is not measured.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from tests.jails import open_way_to
from tests.real_cluster import RealCluster, eventually, free_port
from tests.sshd import SSHD

ROOT = Path(__file__).resolve().parents[1]
JUPYTER = ROOT / ".jupyter"
SHELL_BUDGET_S, NOTEBOOK_BUDGET_S = 2.0, 3.0


def until_said(command: Sequence[str], ready: str, environment: Mapping[str, str]) -> float:
    """Seconds until the program says that it is ready."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as program:
        assert program.stderr is not None
        try:
            said = ""
            for line in program.stderr:
                said += line
                if re.search(ready, line):
                    return time.perf_counter() - begun
            raise AssertionError(f"it ended:\n{said[-2000:]}")
        finally:
            program.kill()


def bare_sshd(folder: Path) -> float:
    assert SSHD is not None
    key = folder / "host_key"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nHostKey {key}\nPidFile {folder}/sshd.pid\nUsePAM no\n"
    )
    command = [SSHD, "-D", "-e", "-f", str(folder / "sshd_config"), "-p", str(free_port())]
    return until_said(command, "Server listening on", {})


def bare_jupyter(folder: Path) -> float:
    options = ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={free_port()}", "--no-browser"]
    command = [str(JUPYTER / "bin/python"), "-m", "jupyterlab", *options, "--allow-root"]
    return until_said(command, "Jupyter Server .* is running", {"HOME": str(folder)})


def until_ready(cluster: RealCluster, kind: str, config: Mapping[str, Any]) -> float:
    """Seconds from the call until the task is ready, as its users see it."""
    session = cluster.client.session
    begun = time.perf_counter()
    made = session.post(f"/api/v1/{kind}s", {"config": {"resources": {"slots": 0}, **config}})
    task_id = str(made[kind]["id"])

    def is_ready() -> bool:
        task = session.get(f"/api/v1/tasks/{task_id}")["task"]
        assert task["endTime"] is None, f"the {kind} ended"
        return bool(task["allocations"] and task["allocations"][0]["isReady"])

    eventually(f"the {kind} is ready", is_ready)
    took = time.perf_counter() - begun
    session.post(f"/api/v1/{kind}s/{task_id}/kill", {})
    eventually(
        f"the {kind} has ended", lambda: session.get(f"/api/v1/tasks/{task_id}")["task"]["endTime"]
    )
    return took


def print_in_turns(
    name: str, runs: int, budget_s: float, bare: Callable[[], float], ours: Callable[[], float]
) -> None:
    pairs = [(bare(), ours()) for _ in range(runs)]
    alone, tasks = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{name:9s} ready after {tasks:.2f} s, bare {alone:.2f} s ({tasks / alone:.1f} times): "
        f"{tasks - alone:.2f} s over, {(tasks - alone) / budget_s:.2f} of the budget of {budget_s:.0f} s"
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=sized(5, 1))
    runs = parser.parse_args().runs
    print_calibration()
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    has_jupyter = (JUPYTER / "bin/jupyter-lab").exists()
    config = {
        "resource_pools": [{"pool_name": "default", "require_isolation": False}],
        "allowed_host_paths": [str(JUPYTER)],
        "log": {"level": "warn"},
    }
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as name:
        folder = Path(name)
        with RealCluster(folder / "cluster", config) as cluster:
            cluster.start_agent("node", slots=1)
            if SSHD is None:
                print("shell     not measured: sshd is not installed")
            else:
                print_in_turns(
                    *("shell", runs, SHELL_BUDGET_S, partial(bare_sshd, folder)),
                    partial(until_ready, cluster, "shell", {}),
                )
            if not has_jupyter:
                print("notebook  not measured: there is no JupyterLab in .jupyter")
                return
            open_way_to(JUPYTER / "bin")
            python = {"environment": {"python": str(JUPYTER)}}
            print_in_turns(
                *("notebook", runs, NOTEBOOK_BUDGET_S, partial(bare_jupyter, folder)),
                partial(until_ready, cluster, "notebook", python),
            )


if __name__ == "__main__":
    main()
