"""`windlass master check --cloud`: whether the providers of master.yaml could deliver what pools may buy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from master.config import MasterConfig
from master.wiring.aws import accounts_of
from master.wiring.gcp import sites_of
from provisioner.money.price_book import open_book
from provisioner.providers.aws import check as aws_check
from provisioner.providers.findings import CloudFinding
from provisioner.providers.gcp import check as gcp_check
from windlass.base.clock import Clock


async def cloud_findings(
    config: MasterConfig, data_dir: Path, clock: Clock
) -> Sequence[CloudFinding]:
    """Nothing is made. Raises InvalidConfig where sections contradict each other."""
    prices = open_book(data_dir, config.prices.rules())
    found: list[CloudFinding] = []
    elastic = [pool for pool in config.pools() if pool.is_elastic]
    for account, aws in accounts_of(elastic).items():
        found += await aws_check.check(account, aws, prices, clock.now())
    for site, gcp in sites_of(elastic).items():
        found += await gcp_check.check(site, gcp, prices)
    return found
