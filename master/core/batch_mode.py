"""`mode: auto` of a batch system: whether a request becomes a job of its own, or runs on a pilot. Pure.

| a request that | becomes |
| --- | --- |
| does not fit on one node of a pilot | a job of its own, whose nodes come and go together |
| is known to run longer than a pilot lasts | a job of its own |
| is known to run up to `SHORT_S` | work of a pilot: it would wait in the queue of the site for longer than it runs |
| waits beside more than `FEW` of its kind | work of a pilot |
| else | a job of its own |
"""

from __future__ import annotations

from enum import StrEnum

SHORT_S = 600.0
FEW = 4


class BatchMode(StrEnum):
    DISPATCH = "dispatch"
    PILOT = "pilot"


def choose(
    *, fits_one_node: bool, run_time_s: float | None, alike: int, lasts_s: float
) -> tuple[BatchMode, str]:
    """With the reason. `alike`: how many others of its kind wait; `lasts_s`: how long a pilot is of use."""
    if not fits_one_node:
        return BatchMode.DISPATCH, "it needs more than one node"
    if run_time_s is not None and run_time_s > lasts_s:
        return BatchMode.DISPATCH, f"it runs longer than a pilot ({_minutes(run_time_s)})"
    if run_time_s is not None and run_time_s <= SHORT_S:
        return BatchMode.PILOT, f"its kind runs {_minutes(run_time_s)}"
    if alike > FEW:
        return BatchMode.PILOT, f"{alike} others of its kind wait"
    return BatchMode.DISPATCH, "few of its kind wait"


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"
