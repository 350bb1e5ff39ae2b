"""For what the site takes no more jobs now: its limits on how many may be submitted."""

from __future__ import annotations

from dataclasses import dataclass, field

from provisioner.batch.job_files import JobShape
from rm_backends.batch import leases as life
from rm_backends.batch.leases import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """The site has refused a job because there are so many."""

    until: float
    """When it is asked again, in seconds since the epoch."""
    message: str
    tries: int


@dataclass(slots=True)
class FullLimits:
    """Times are seconds since the epoch."""

    _known: dict[life.Limited, Full] = field(default_factory=dict)

    def of(self, pool: str, shape: JobShape) -> Full | None:
        return self._known.get(life.limited(pool, shape))

    def holds(self, pool: str, shape: JobShape, now: float) -> bool:
        """It would be refused, too."""
        full = self.of(pool, shape)
        return full is not None and full.until > now

    def keeps_here(self, lease: Lease, now: float) -> bool:
        """Nothing of it is at the site, and nothing is to be submitted now."""
        return lease.waits_here and self.holds(lease.pool, lease.shape, now)

    def note(self, lease: Lease, message: str, now: float) -> None:
        """One job like it is tried again after a while."""
        old = self.of(lease.pool, lease.shape)
        tries = 0 if old is None else old.tries + 1
        recent = {k: one for k, one in self._known.items() if one.until + life.LAST_RETRY_S > now}
        full = Full(until=now + life.pause_s(tries), message=message, tries=tries)
        self._known = {**recent, life.limited(lease.pool, lease.shape): full}

    def forget(self, lease: Lease) -> None:
        """The site took one like it."""
        self._known.pop(life.limited(lease.pool, lease.shape), None)
