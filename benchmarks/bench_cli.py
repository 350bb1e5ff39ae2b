"""What commands that only look cost of CPU: programs of their own, as a shell starts them.

    python -m benchmarks.bench_cli [--rounds 15]

User and system time of `det experiment list` against a scripted master on this machine, and of `det --help`. Goals
(medians): 0.3 s and 0.2 s.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.arguments import arguments, exit_code, sized

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit" / "client")]

GOALS = {("experiment", "list"): 0.3, ("--help",): 0.2}


def cpu_s(words: tuple[str, ...]) -> float:
    before = os.times()
    subprocess.run(
        [str(Path(sys.executable).with_name("det")), *words], check=True, stdout=subprocess.DEVNULL
    )
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=sized(15, 1))
    rounds = parser.parse_args().rounds
    missed = False
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        from client_scripted_master import ScriptedMaster  # pyright: ignore[reportMissingImports]

        from tests.fakes.client_cli import with_an_experiment

        master = with_an_experiment(ScriptedMaster())
        os.environ["DET_MASTER"] = master.url
        for words, goal in GOALS.items():
            took = [cpu_s(words) for _ in range(rounds)]
            median = statistics.median(took)
            missed |= median > goal
            print(f"det {' '.join(words):16} {median:.3f} s (least {min(took):.3f}), goal {goal} s")
        master.close()
    return exit_code(not missed)


if __name__ == "__main__":
    sys.exit(main())
