"""Prices of a running master: a sound file is taken, a broken one changes nothing and is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from master.auth.join_tokens import JoinTokenSigner
from master.config import load
from master.prices.live import LivePrices
from master.wiring.elastic import EmbeddedProviders
from master.wiring.launch_tokens import LaunchTokens
from provisioner.money.price_book import FILE_NAME
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidConfig

POOLS = """
resource_pools:
  - pool_name: gpu
    provider: {type: embedded, name: site, instance_type: big, slots_per_instance: 8}
"""


def write(folder: Path, usd: float, as_of: str = "2026-11-01") -> None:
    """In one step, as an import does."""
    types = {"big": {"gpus": 8, "usd_per_hour": {"r1": usd}}}
    table = {
        "format": 1,
        "as_of": as_of,
        "source": "a test",
        "clouds": {"aws": {"reference_region": "r1", "types": types}},
    }
    replace(folder, json.dumps(table))


def replace(folder: Path, text: str) -> None:
    (folder / "new").write_text(text)
    (folder / "new").replace(folder / FILE_NAME)


def test_offers_follow_the_price_book(tmp_path: Path) -> None:
    write(tmp_path, 10.0)
    file = tmp_path / "master.yaml"
    file.write_text(POOLS)
    prices = LivePrices(tmp_path)
    make = EmbeddedProviders(
        data_dir=tmp_path,
        master_url="http://master",
        master_cert=None,
        tokens=LaunchTokens(JoinTokenSigner(b"secret" * 8)),
        clock=ManualClock(),
        prices=prices,
    )
    (provider,) = make([p for p in load(file).pools() if p.is_elastic], "cluster")

    def usd() -> float:
        (offer,) = provider.offers("gpu") or ()
        return offer.usd_per_hour

    assert usd() == 10.0
    prices.look()
    assert usd() == 10.0
    write(tmp_path, 7.5, "2026-11-02")
    prices.look()
    assert usd() == 7.5


def test_a_broken_file_keeps_the_old_prices_and_is_told_once(tmp_path: Path) -> None:
    write(tmp_path, 10.0)
    prices = LivePrices(tmp_path)
    told: list[float] = []
    prices.changed.append(lambda: told.append(prices.book.price("aws", "r1", "big").usd_per_hour))
    replace(tmp_path, '{"format": 1, "clouds": {')
    with capture_logs() as logs:
        prices.look()
        prices.look()
    (log,) = logs
    assert (log["log_level"], log["of"]) == ("error", "2026-11-01")
    assert "not JSON" in log["why"]
    assert prices.book.price("aws", "r1", "big").usd_per_hour == 10.0
    write(tmp_path, 12.0, "2026-11-03")
    prices.look()
    assert told == [12.0]


def test_a_file_that_is_gone_leaves_the_bundled_prices(tmp_path: Path) -> None:
    write(tmp_path, 10.0)
    prices = LivePrices(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    prices.look()
    assert prices.book.find("p4d.24xlarge") is not None


def test_a_file_that_is_broken_at_the_start_stops_it(tmp_path: Path) -> None:
    replace(tmp_path, "[]")
    with pytest.raises(InvalidConfig):
        LivePrices(tmp_path)


def test_an_old_book_warns_once_a_day_however_often_a_master_starts(tmp_path: Path) -> None:
    write(tmp_path, 10.0)
    clock = ManualClock(datetime(2027, 11, 1, 12, tzinfo=UTC))

    def warnings() -> list[str]:
        with capture_logs() as logs:
            prices = LivePrices(tmp_path)
            prices.warn_daily(clock, timedelta(days=180))
            prices.look()
            prices.look()
        return [log["event"] for log in logs if log["log_level"] == "warning"]

    (told,) = warnings()
    assert "the price book of 2026-11-01 is 365 days old" in told
    assert warnings() == []
    clock.advance(86_400.0)
    assert len(warnings()) == 1
    write(tmp_path, 10.0, "2027-11-02")
    clock.advance(86_400.0)
    assert warnings() == []


def test_a_master_that_runs_for_days_warns_on_each(tmp_path: Path) -> None:
    write(tmp_path, 10.0)
    clock = ManualClock(datetime(2027, 11, 1, 12, tzinfo=UTC))
    prices = LivePrices(tmp_path)
    with capture_logs() as logs:
        prices.warn_daily(clock, timedelta(days=180))
        for _ in range(3):
            clock.advance(86_400.0)
            prices.look()
            prices.look()
    assert len(logs) == 4
