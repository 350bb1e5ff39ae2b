"""How fast this machine is at the moment: one pure-Python loop whose time every report prints first.

Budgets are for a machine where the loop takes `REFERENCE_S`. On a slower one, compare ratios and exponents.
"""

from __future__ import annotations

import time

STEPS = 3_000_000
REFERENCE_S = 0.14


def loop_s() -> float:
    """Best of three runs, in CPU seconds."""
    return min(_once() for _ in range(3))


def slower() -> float:
    """By how much this machine is slower than the one that budgets are for."""
    return loop_s() / REFERENCE_S


def _once() -> float:
    start = time.process_time()
    s = 0
    for i in range(STEPS):
        s += i * i % 7
    return time.process_time() - start


def print_calibration() -> None:
    seconds = loop_s()
    print(
        f"calibration: {STEPS:,} steps of pure Python take {seconds:.2f} s of CPU; "
        f"budgets are for {REFERENCE_S:.2f} s (this machine is {seconds / REFERENCE_S:.1f} times slower)\n"
    )


if __name__ == "__main__":
    print_calibration()
