"""From `submit` to the user's first line, on an idle local agent with the process runtime.

Budget: under one second over what the bare interpreter needs for the same line. The peer is that interpreter.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import slower
from tests.real_cluster import RealCluster

BUDGET_S = 1.0
LINE = "import time, pathlib; pathlib.Path({path!r}).write_text(repr(time.time()))"


def submit_once(cluster: RealCluster, folder: Path, number: int) -> float:
    """Seconds from the call to the first line of the user's program."""
    model, stamp = folder / "model", folder / "shared" / f"first-line-{number}"
    model.mkdir(exist_ok=True)
    stamp.parent.mkdir(exist_ok=True)
    stamp.parent.chmod(0o777)  # the task is another user
    (model / "train.py").write_text(LINE.format(path=f"/shared/{stamp.name}"))
    config = {
        "name": "first line",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "single", "metric": "none"},
        "bind_mounts": [{"host_path": str(stamp.parent), "container_path": "/shared"}],
    }
    start = time.time()
    experiment = cluster.submit(config, model)
    cluster.wait(experiment)
    return float(stamp.read_text()) - start


def bare_once(folder: Path) -> float:
    """The same line by the same interpreter, without anything around it."""
    stamp = folder / "bare"
    start = time.time()
    subprocess.run([sys.executable, "-c", LINE.format(path=str(stamp))], check=True)
    return float(stamp.read_text()) - start


def measure(runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as name:
        folder = Path(name)
        config = {"resource_pools": [{"pool_name": "default"}], "log": {"level": "warn"}}
        with RealCluster(folder / "cluster", config) as cluster:
            cluster.start_agent("node", slots=1)
            submitted = [submit_once(cluster, folder, i) for i in range(runs)]
        bare = statistics.median(bare_once(folder) for _ in range(runs))
    over = statistics.median(submitted) - bare
    return {
        "bare_s": bare,
        "submit_s": statistics.median(submitted),
        "worst_s": max(submitted),
        "over_s": over,
        "share_of_budget": over / BUDGET_S,
    }


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--runs", type=int, default=sized(7, 1))
    options = parser.parse_args()
    found = measure(options.runs)
    if options.json:
        print(json.dumps(found))
        return 0
    print("submit -> first line of the user's program, idle agent, process runtime")
    print(f"  bare interpreter   {found['bare_s'] * 1000:7.0f} ms")
    print(
        f"  submitted          {found['submit_s'] * 1000:7.0f} ms (worst {found['worst_s'] * 1000:.0f})"
    )
    print(
        f"  over the bare one  {found['over_s'] * 1000:7.0f} ms = "
        f"{found['share_of_budget']:.2f} of the budget of {BUDGET_S:g} s"
    )
    return exit_code(found["share_of_budget"] <= slower())


if __name__ == "__main__":
    sys.exit(main())
