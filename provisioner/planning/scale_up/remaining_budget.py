"""What is left of a budget within one plan. Pure.

Before a launch its price for as long as it will probably live is committed; what machines that exist were committed
for and have not lived yet is counted, too. So a month whose work ends when it was expected to stays within its budget.
Nothing is launched above one; what runs is kept, or asked to leave in time, as set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor, inf

from master.core.reasons import Reason, ReasonKind
from provisioner.money.budgets import Budget
from provisioner.money.months import month_end
from provisioner.money.prices import SECONDS_PER_HOUR
from provisioner.types import Offer

EXPECTED_RUN_S = 3600.0
"""How long a machine probably works if nobody knows better."""
NOTICE_S = 600.0
"""How long before the money is spent running work is asked to leave, where `when_spent` says so."""
ROUNDING_USD = 1e-9


@dataclass(frozen=True, slots=True)
class MachineCommitment:
    """A machine that exists or was asked for, as budgets see it."""

    usd_per_hour: float
    age_s: float
    expected_s: float
    """How long it was expected to live when it was launched."""
    tail_s: float = 0.0
    """How much longer it lives at least: it is ended only after it was idle for a while."""

    def committed_usd(self, left_of_month_s: float) -> float:
        rest = min(max(self.tail_s, self.expected_s - self.age_s), left_of_month_s)
        return self.usd_per_hour * max(0.0, rest) / SECONDS_PER_HOUR


def expected_life_s(offer: Offer, idle_s: float) -> float:
    """From the launch of a machine until it is ended: it boots, works, and is kept for a while."""
    end = inf if offer.lifetime_s is None else offer.boot_s + offer.lifetime_s
    return min(end, offer.boot_s + EXPECTED_RUN_S + idle_s)


class RemainingBudget:
    """What is left of one budget within one plan."""

    def __init__(
        self,
        whose: str,
        budget: Budget,
        *,
        spent_usd: float,
        running: Iterable[MachineCommitment],
        now: float,
    ) -> None:
        self.whose = whose
        """`pool gpu`, `the cluster`"""
        self.budget = budget
        machines = list(running)
        self._now = now
        self._month_left_s = month_end(now) - now
        self.usd_per_hour = sum(machine.usd_per_hour for machine in machines)
        self.spent_usd = spent_usd
        self.committed_usd = sum(x.committed_usd(self._month_left_s) for x in machines)

    def affordable(self, usd_per_hour: float, expected_s: float) -> float:
        """How many more such machines the budget allows; infinite for no limit."""
        if usd_per_hour <= 0:
            return inf
        most = inf
        if self.budget.usd_per_hour is not None:
            most = (self.budget.usd_per_hour - self.usd_per_hour + ROUNDING_USD) / usd_per_hour
        if self.budget.usd_per_month is not None:
            left = self.budget.usd_per_month - self.spent_usd - self.committed_usd
            if self.spent_usd >= self.budget.usd_per_month:
                return 0
            most = min(most, (left + ROUNDING_USD) / self._usd(usd_per_hour, expected_s))
        return most if most == inf else max(0, floor(most))

    def bought(self, usd_per_hour: float, expected_s: float, machines: int = 1) -> None:
        """Fewer than 0: given back."""
        self.usd_per_hour += usd_per_hour * machines
        self.committed_usd += self._usd(usd_per_hour, expected_s) * machines

    def is_spent(self) -> bool:
        """Nothing is left of the month, or will be when work that is asked to leave now has left."""
        limit = self.budget.usd_per_month
        soon = self.usd_per_hour * NOTICE_S / SECONDS_PER_HOUR
        return limit is not None and self.spent_usd + soon >= limit

    def reason(self, usd_per_hour: float, expected_s: float) -> Reason:
        """Why machines at that price are not launched, in numbers, and when that ends."""
        hour, month = self.budget.usd_per_hour, self.budget.usd_per_month
        if hour is not None and self.usd_per_hour + usd_per_hour > hour + ROUNDING_USD:
            text = f"over budget: {self.whose} may cost {hour:.2f} USD per hour"
            if usd_per_hour > hour:
                return Reason(
                    kind=ReasonKind.OVER_BUDGET, text=f"{text}, this needs {usd_per_hour:.2f}"
                )
            text += f", {self.usd_per_hour:.2f} are in use and this needs {usd_per_hour:.2f}"
            return Reason(kind=ReasonKind.OVER_BUDGET, text=f"{text}; waiting until machines end")
        ends = month_end(self._now)
        at = datetime.fromtimestamp(ends, UTC)
        committed = f", {self.committed_usd:.2f} committed" if self.committed_usd >= 0.005 else ""
        return Reason(
            kind=ReasonKind.OVER_BUDGET,
            text=f"over budget: {self.whose} may cost {month or 0.0:.2f} USD per month, {self.spent_usd:.2f} are "
            f"spent{committed} and this needs {self._usd(usd_per_hour, expected_s):.2f}; "
            f"the next month begins on {at.day} {at:%B}, 00:00 UTC",
            retry_at=ends,
        )

    def _usd(self, usd_per_hour: float, expected_s: float) -> float:
        return usd_per_hour * min(expected_s, self._month_left_s) / SECONDS_PER_HOUR
