"""How fast each provider may be called: a token bucket, and a pause when it says that it is called too often.

Per provider and API, so that a throttled list delays no launch. Throttling is no fault of an offer and blocks none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.capacity.refusals import BACKOFFS, BlockKind
from provisioner.providers.base import LimitedCall, Rate
from windlass.base.clock import Clock


@dataclass(slots=True)
class _Lane:
    tokens: float
    at: float
    pause_s: float = 0.0
    paused_until: float = 0.0


class Pacing:
    """Of one provider. Times are monotonic."""

    def __init__(self, rates: Mapping[LimitedCall, Rate], clock: Clock) -> None:
        self._rates = rates
        self._clock = clock
        self._lanes: dict[LimitedCall, _Lane] = {}

    def take(self, api: LimitedCall) -> bool:
        """Whether a call may be made now; if so, it is counted."""
        lane, rate, now = self._lane(api), self._rates.get(api), self._clock.monotonic()
        if now < lane.paused_until:
            return False
        if rate is None:
            return True
        lane.tokens = min(rate.burst, lane.tokens + (now - lane.at) * rate.per_s)
        lane.at = now
        if lane.tokens < 1.0:
            return False
        lane.tokens -= 1.0
        return True

    def throttled(self, api: LimitedCall, retry_after_s: float | None = None) -> None:
        """The provider said: too many calls."""
        lane, now = self._lane(api), self._clock.monotonic()
        if now >= lane.paused_until:
            lane.pause_s = BACKOFFS[BlockKind.THROTTLED].after(lane.pause_s)
        lane.paused_until = now + max(lane.pause_s, retry_after_s or 0.0)

    def answered(self, api: LimitedCall) -> None:
        """A call got through."""
        self._lane(api).pause_s = 0.0

    def _lane(self, api: LimitedCall) -> _Lane:
        lane = self._lanes.get(api)
        if lane is None:
            rate = self._rates.get(api)
            burst = 0.0 if rate is None else rate.burst
            lane = self._lanes[api] = _Lane(tokens=burst, at=self._clock.monotonic())
        return lane
