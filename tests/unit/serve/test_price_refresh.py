"""Asking vendors for prices: what they say is used and kept; what cannot be asked keeps what is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from master.prices.live import LivePrices
from master.prices.refresh import AGAIN_AFTER, PriceRefresh
from provisioner.money.fresh_prices import FILE_NAME, FreshPrice
from provisioner.money.price_book import PriceOverride
from provisioner.types import Market
from windlass.base.clock import ManualClock
from windlass.base.errors import ProviderError

DAY = timedelta(days=1)


class Vendor:
    """A source of prices."""

    def __init__(self, name: str = "aws-us-east-1", usd: float = 2.0) -> None:
        self.name = name
        self.usd = usd
        self.error: Exception | None = None
        self.calls = 0

    async def list_prices(self, today: date) -> Sequence[FreshPrice]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return [
            FreshPrice(
                cloud="aws",
                region="us-east-1",
                name="g5.xlarge",
                market=Market.ON_DEMAND,
                usd_per_hour=self.usd,
                as_of=today,
                source="AWS price list",
            )
        ]


def price(prices: LivePrices) -> tuple[float, str]:
    found = prices.book.price("aws", "us-east-1", "g5.xlarge")
    return found.usd_per_hour, found.source


def made(folder: Path, *vendors: Vendor) -> tuple[LivePrices, ManualClock]:
    prices = LivePrices(folder)
    prices.sources += vendors
    return prices, ManualClock()


async def test_prices_are_used_told_and_outlive_a_restart(tmp_path: Path) -> None:
    vendor = Vendor()
    prices, clock = made(tmp_path, vendor)
    told: list[float] = []
    prices.changed.append(lambda: told.append(price(prices)[0]))
    refresh = PriceRefresh(prices, DAY, clock)
    await refresh.refresh()
    await refresh.refresh()
    assert vendor.calls == 1, "once a day"
    assert price(prices) == (2.0, "AWS price list")
    assert told == [2.0]
    assert price(LivePrices(tmp_path)) == (2.0, "AWS price list")
    vendor.usd = 3.0
    clock.advance(DAY.total_seconds())
    await refresh.refresh()
    assert told == [2.0, 3.0]


@pytest.mark.parametrize("hours", [-50, 50])
async def test_a_clock_that_was_set_changes_nothing(tmp_path: Path, hours: int) -> None:
    vendor = Vendor()
    prices, clock = made(tmp_path, vendor)
    refresh = PriceRefresh(prices, DAY, clock)
    await refresh.refresh()
    clock.jump(hours * 3600)
    await refresh.refresh()
    assert vendor.calls == 1
    clock.advance(DAY.total_seconds())
    await refresh.refresh()
    assert vendor.calls == 2


async def test_a_vendor_that_refuses_changes_nothing_and_is_said_once(tmp_path: Path) -> None:
    vendor, other = Vendor(), Vendor("gcp-acme", 5.0)
    prices, clock = made(tmp_path, vendor)
    refresh = PriceRefresh(prices, DAY, clock)
    await refresh.refresh()
    prices.sources.append(other)
    vendor.error = ProviderError("not authorized to perform: pricing:GetProducts")
    with capture_logs() as logs:
        for _ in range(30):
            clock.advance(AGAIN_AFTER.total_seconds())
            await refresh.refresh()
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert len(warnings) == 1
    assert warnings[0]["why"] == "not authorized to perform: pricing:GetProducts"
    assert "prices.refresh: 0" in warnings[0]["event"], "the way out"
    assert vendor.calls > 2, "it is asked again"
    assert other.calls == 2, "and does not hinder others"
    (trouble,) = prices.troubles.values()
    assert "prices of aws-us-east-1 could not be refreshed" in trouble
    assert "pricing:GetProducts" in trouble
    vendor.error = None
    clock.advance(AGAIN_AFTER.total_seconds())
    await refresh.refresh()
    assert not prices.troubles


async def test_an_answer_of_another_shape_keeps_nobody_else_from_being_asked(
    tmp_path: Path,
) -> None:
    odd, good = Vendor("odd"), Vendor(usd=4.0)
    odd.error = KeyError("unitPrice")
    prices, clock = made(tmp_path, odd, good)
    refresh = PriceRefresh(prices, DAY, clock)
    await refresh.refresh()
    await refresh.refresh()
    assert (odd.calls, good.calls) == (1, 1)
    assert price(prices)[0] == 4.0
    assert "KeyError('unitPrice')" in prices.troubles["odd"]


async def test_a_price_that_cannot_be_keeps_what_is_known_and_is_said_once(tmp_path: Path) -> None:
    vendor = Vendor()
    prices, clock = made(tmp_path, vendor)
    refresh = PriceRefresh(prices, DAY, clock)
    await refresh.refresh()
    vendor.usd = 2000.0
    with capture_logs() as logs:
        for _ in range(30):
            clock.advance(AGAIN_AFTER.total_seconds())
            await refresh.refresh()
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert "prices.overrides" in warning["event"], "the way out"
    assert "2000 USD per hour for g5.xlarge in us-east-1 is not believed" in warning["why"]
    assert "has 1.006" in warning["why"]
    assert price(prices) == (2.0, "AWS price list")
    assert price(LivePrices(tmp_path)) == (2.0, "AWS price list")
    (trouble,) = prices.troubles.values()
    assert "is not believed" in trouble


async def test_a_price_that_is_overridden_is_no_trouble_and_is_not_kept_either(
    tmp_path: Path,
) -> None:
    """Its vendor is asked once a day, as others are; without the override the list counts again."""
    vendor = Vendor(usd=2000.0)
    override = PriceOverride(cloud="aws", instance_type="g5.xlarge", usd_per_hour=1.5)
    prices, clock = LivePrices(tmp_path, [override]), ManualClock()
    prices.sources.append(vendor)
    refresh = PriceRefresh(prices, DAY, clock)
    with capture_logs() as logs:
        await refresh.refresh()
        clock.advance(AGAIN_AFTER.total_seconds())
        await refresh.refresh()
    assert vendor.calls == 1
    assert not prices.troubles
    assert not [entry for entry in logs if entry["log_level"] == "warning"]
    assert price(prices)[0] == 1.5
    assert price(LivePrices(tmp_path))[0] == 1.006


async def test_a_discount_leaves_a_price_that_cannot_be_in_doubt(tmp_path: Path) -> None:
    vendor = Vendor(usd=2000.0)
    prices, clock = LivePrices(tmp_path, [PriceOverride(cloud="aws", discount=0.2)]), ManualClock()
    prices.sources.append(vendor)
    await PriceRefresh(prices, DAY, clock).refresh()
    assert "is not believed" in prices.troubles[vendor.name]


async def test_nobody_is_asked_where_that_is_off(tmp_path: Path) -> None:
    vendor = Vendor()
    prices, clock = made(tmp_path, vendor)
    await PriceRefresh(prices, timedelta(0), clock).refresh()
    assert not vendor.calls


async def test_a_vendor_that_lists_nothing_leaves_what_is_known(tmp_path: Path) -> None:
    class Silent(Vendor):
        async def list_prices(self, today: date) -> Sequence[FreshPrice]:
            return []

    prices, clock = made(tmp_path, Vendor(), Silent("another"))
    await PriceRefresh(prices, DAY, clock).refresh()
    assert price(prices)[0] == 2.0


def test_a_damaged_file_costs_only_what_can_be_asked_again(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"format": 1, "prices": [{"usd_per_hour": 0}]}')
    with capture_logs() as logs:
        prices = LivePrices(tmp_path)
    assert price(prices)[1] == "price book"
    assert any("malformed" in str(entry.get("why")) for entry in logs)
