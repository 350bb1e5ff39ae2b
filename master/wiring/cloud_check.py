"""`windlass master check --cloud`: whether the providers of master.yaml could deliver what pools may buy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from master.config import MasterConfig
from master.wiring import aws as aws_pools
from master.wiring import gcp as gcp_pools
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
    for account, bought in aws_pools.accounts_of(elastic).items():
        aws = [
            aws_check.Wanted(
                options=aws_pools.options_of(pool, section), max_instances=pool.max_instances
            )
            for pool, section in bought
        ]
        found += await aws_check.check(account, aws, prices, clock.now())
    for site, sections in gcp_pools.sites_of(elastic).items():
        gcp = [
            gcp_check.Wanted(
                options=gcp_pools.options_of(pool, section), max_instances=pool.max_instances
            )
            for pool, section in sections
        ]
        found += await gcp_check.check(site, gcp, prices)
    return found
