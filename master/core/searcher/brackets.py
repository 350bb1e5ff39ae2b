"""How adaptive ASHA divides its trials over brackets: which rungs, how many trials, how many at a time.

Steps are those of the system we succeed, with its floating-point divisions and truncations. The one exception is the
number of rungs: there it takes a quotient of logarithms, which is off by one at some exact powers and depends on the
mathematical library. We count whole powers exactly; the two differ at a few pairs, such as 1000 trials with divisor 10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from master.core.searcher.asha import power


class Mode(StrEnum):
    """How much a search bets on early results: fewer and taller brackets, or more and lower ones too."""

    AGGRESSIVE = "aggressive"
    STANDARD = "standard"
    CONSERVATIVE = "conservative"


@dataclass(frozen=True, slots=True)
class Bracket:
    rungs: int
    max_trials: int
    max_concurrent: int


def whole_powers(value: int, base: float, limit: int) -> int:
    """The largest k up to `limit` with `base ** k <= value`, exactly; `base` above 1, `value` and `limit` positive."""
    exact = Fraction(base)
    k = min(int(math.log(value) / math.log(base)) + 1, limit)
    while exact**k > value:
        k -= 1
    return k


def rung_count(max_rungs: int, max_time: int, max_trials: int, divisor: float) -> int:
    """As many rungs as the trials can fill and the training time can be divided into, up to `max_rungs`."""
    below = max_rungs - 1
    return 1 + min(
        below, whole_powers(max_time, divisor, below), whole_powers(max_trials, divisor, below)
    )


def bracket_rungs(mode: Mode, rungs: int) -> tuple[int, ...]:
    """Rungs of each bracket, most first."""
    lowest = {
        Mode.AGGRESSIVE: rungs,
        Mode.STANDARD: (rungs - 1) // 2 + 1,
        Mode.CONSERVATIVE: 1,
    }[mode]
    return tuple(range(rungs, lowest - 1, -1))


def bracket_trials(rungs: Sequence[int], divisor: float, max_trials: int) -> list[int]:
    """Trials of each bracket, at least one, so the sum can exceed `max_trials`; what is left goes to the first."""
    weights = [power(divisor, r - 1) / r for r in rungs]
    # Added one by one: `sum` compensates rounding from Python 3.12 on, and the truncation below would see it.
    total = 0.0
    for weight in weights:
        total += weight
    trials = [max(int(weight / total * max_trials), 1) for weight in weights]
    trials[0] += max(max_trials - sum(trials), 0)
    return trials


def bracket_concurrency(trials: Sequence[int], divisor: float, max_concurrent: int) -> list[int]:
    """Live trials of each bracket, at least one; `max_concurrent` 0 lets the size of the last bracket decide."""
    count = len(trials)
    if max_concurrent == 0:
        return [max(trials[-1], int(divisor))] * count
    share, more = divmod(max(max_concurrent, count), count)
    return [share + 1 if i < more else share for i in range(count)]


def plan_brackets(
    rungs: Sequence[int], *, divisor: float, max_trials: int, max_concurrent: int
) -> tuple[Bracket, ...]:
    """The brackets with these numbers of rungs, most rungs first."""
    descending = sorted(rungs, reverse=True)
    trials = bracket_trials(descending, divisor, max_trials)
    concurrency = bracket_concurrency(trials, divisor, max_concurrent)
    return tuple(map(Bracket, descending, trials, concurrency))
