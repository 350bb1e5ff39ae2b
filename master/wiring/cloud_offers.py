"""What pools could buy of clouds that nobody asks: as their sections, the price book and its catalogue say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

from master.config import ResolvedPool
from master.wiring import aws as aws_pools
from master.wiring import gcp as gcp_pools
from provisioner.money.price_book import PriceBook
from provisioner.providers.aws import offers as aws
from provisioner.providers.gcp import offers as gcp
from provisioner.types import Offer


def expected_offers(
    pools: Sequence[ResolvedPool], prices: PriceBook
) -> Iterator[tuple[str, Sequence[Offer]]]:
    """By pool. A section without a region gets that of the environment, else the price book's own.

    Raises InvalidConfig as the clouds' providers do.
    """
    region = partial(_aws_region, prices)
    for account, bought in aws_pools.accounts_of(pools, default=region).items():
        for pool, section in bought:
            options = aws_pools.options_of(pool, section)
            yield pool.name, aws.expected_offers(account, options, prices)
    zone = partial(_gcp_zone, prices)
    for site, sold in gcp_pools.sites_of(pools, default=zone).items():
        for pool, each in sold:
            machines = gcp_pools.options_of(pool, each, default=zone)
            yield pool.name, gcp.expected_offers(site, machines, prices)


def _aws_region(prices: PriceBook) -> str:
    return aws_pools.region_of_environment() or prices.reference_region(aws.CLOUD)


def _gcp_zone(prices: PriceBook) -> str:
    return os.environ.get(gcp_pools.ZONE_VARIABLE) or f"{prices.reference_region(gcp.CLOUD)}-a"
