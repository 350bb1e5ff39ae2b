"""`windlass master check --cloud`: whether the providers of master.yaml could deliver what pools may buy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from master.aws_pools import accounts_of, options_of
from master.config import MasterConfig
from provisioner.price_book import open_book
from provisioner.providers.aws.check import CloudFinding, Wanted, check
from windlass.base.clock import Clock


async def cloud_findings(
    config: MasterConfig, data_dir: Path, clock: Clock
) -> Sequence[CloudFinding]:
    """Nothing is made. Raises InvalidConfig where sections contradict each other."""
    prices = open_book(data_dir, config.prices.rules())
    found: list[CloudFinding] = []
    for account, bought in accounts_of([p for p in config.pools() if p.is_elastic]).items():
        wanted = [
            Wanted(options=options_of(pool, section), max_instances=pool.max_instances)
            for pool, section in bought
        ]
        found += await check(account, wanted, prices, clock.now())
    return found
