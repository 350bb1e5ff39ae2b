"""Prices of the vendors themselves, asked now and then: what cannot be asked keeps what is known, and says why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from master.prices.live import LivePrices
from provisioner.money.fresh_prices import FreshPrice, KnowsPrices
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError

log = structlog.get_logger(__name__)

AGAIN_AFTER = timedelta(hours=1)
"""One that could not be asked."""
DEADLINE_S = 300.0
REFUSED = (
    "prices cannot be refreshed: those that are known stay; allow it, or set prices.refresh: 0"
)
NOT_BELIEVED = (
    "a vendor's price is not believed: what is known stays; if it is right, import a newer price book or write it into "
    "prices.overrides"
)


@dataclass(frozen=True, slots=True)
class _Asked:
    at: datetime
    steady_s: float
    """The same by the steady clock: the wall clock may be set."""
    error: str = ""


class PriceRefresh:
    def __init__(self, prices: LivePrices, every: timedelta, clock: Clock) -> None:
        """`every`: zero asks nobody."""
        self._prices = prices
        self._every = every
        self._clock = clock
        self._asked: dict[str, _Asked] = {}

    async def refresh(self) -> None:
        """Ask those that are due."""
        if not self._every:
            return
        for source in self._prices.sources:
            last = self._asked.get(source.name)
            pause = self._every if last is None or not last.error else AGAIN_AFTER
            due_s = min(pause, self._every).total_seconds()
            if last is None or self._clock.monotonic() - last.steady_s >= due_s:
                await self._ask(source, last)

    async def _ask(self, source: KnowsPrices, last: _Asked | None) -> None:
        now, steady_s, error = self._clock.now(), self._clock.monotonic(), ""
        try:
            async with asyncio.timeout(DEADLINE_S):
                found = await source.list_prices(now.date())
            doubts = {price.key: doubt for price in found if (doubt := self._doubt(price))}
            believed = [price for price in found if price.key not in doubts]
            if believed:
                await asyncio.to_thread(self._prices.keep, believed)
                self._prices.use(believed)
            log.info("prices refreshed", provider=source.name, prices=len(believed))
            error = "; ".join(
                doubt for key, doubt in doubts.items() if not self._prices.book.is_set(*key)
            )
            if error:
                self._note(source, last, error, NOT_BELIEVED)
        except Exception as failure:  # noqa: BLE001 - an answer of another shape is one vendor's trouble
            expected = isinstance(failure, (WindlassError, OSError, ValueError))
            error = " ".join((str(failure) if expected else repr(failure)).split()) or "no answer"
            self._note(source, last, error, REFUSED)
        self._asked[source.name] = _Asked(now, steady_s, error)
        self._prices.troubles = self._troubles()

    def _doubt(self, price: FreshPrice) -> str:
        return self._prices.book.doubt(
            price.cloud, price.region, price.name, price.market, price.usd_per_hour
        )

    def _note(self, source: KnowsPrices, last: _Asked | None, error: str, what: str) -> None:
        """Once, until it is another."""
        if last is None or last.error != error:
            log.warning(what, provider=source.name, why=error)

    def _troubles(self) -> Mapping[str, str]:
        return {
            name: f"prices of {name} could not be refreshed since {asked.at:%Y-%m-%d %H:%M} UTC: {asked.error}"
            for name, asked in self._asked.items()
            if asked.error
        }
