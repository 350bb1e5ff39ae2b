"""Slows down guessing: after a few wrong passwords for a user from an address, each further one costs time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from windlass.base.clock import Clock
from windlass.base.errors import PermissionDenied

FREE_FAILURES = 5
"""People mistype."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
FORGET_S = 600.0
MAX_KEYS = 10_000
"""The oldest are forgotten: memory has a limit, whoever asks."""

Key = tuple[str, str]
"""Username and address."""


class LoginThrottled(PermissionDenied):
    """Too many wrong passwords; `retry_after_s` says how long to wait."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            f"too many failed logins for this user: try again in {max(1, round(retry_after_s))} s"
        )
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Record:
    failures: int = 0
    last: float = 0.0


class LoginThrottle:
    """In memory only: a restart forgives."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: OrderedDict[Key, _Record] = OrderedDict()

    def begin(self, key: Key) -> None:
        """Before a password is checked: raises LoginThrottled, else counts the try as failed until `succeeded`.

        Counting first keeps parallel tries from all getting in before the first has failed.
        """
        now = self._clock.monotonic()
        record = self._records.get(key)
        if record is None or now - record.last > FORGET_S:
            record = self._records[key] = _Record()
        left = record.last + _wait_s(record.failures) - now
        if left > 0:
            raise LoginThrottled(left)
        record.failures += 1
        record.last = now
        self._records.move_to_end(key)
        while len(self._records) > MAX_KEYS:
            self._records.popitem(last=False)

    def succeeded(self, key: Key) -> None:
        self._records.pop(key, None)


def _wait_s(failures: int) -> float:
    over = failures - FREE_FAILURES
    return 0.0 if over < 0 else min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(over, 16))
