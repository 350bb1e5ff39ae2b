"""Where the machines of elastic pools come from: the providers of all types, each with a name of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from master.config import ResolvedPool
from master.wiring import aws as aws_pools
from master.wiring import gcp as gcp_pools
from master.wiring.aws import AwsProviders
from master.wiring.batch.pilots import PilotProviders
from master.wiring.cloud_boot import CloudBoot
from master.wiring.elastic import EmbeddedProviders, ProviderFactory
from master.wiring.gcp import GcpProviders
from provisioner.money.price_book import PriceBook
from provisioner.providers.aws import offers as aws
from provisioner.providers.base import Provider
from provisioner.providers.gcp import offers as gcp
from provisioner.types import Offer
from windlass.base.errors import InvalidConfig


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


def all_providers(
    embedded: EmbeddedProviders, boot: CloudBoot, pilots: PilotProviders
) -> ProviderFactory:
    """Raises InvalidConfig where providers of two types have one name: their machines could not be told apart."""
    clock, prices = embedded.clock, embedded.prices
    return named_apart(
        {
            "embedded": embedded,
            "aws": AwsProviders(boot=boot, clock=clock, prices=prices),
            "gcp": GcpProviders(boot=boot, clock=clock, prices=prices),
            "slurm or pbs": pilots,
        }
    )


def named_apart(makers: Mapping[str, ProviderFactory]) -> ProviderFactory:
    """By the type of their sections."""

    def make(pools: Sequence[ResolvedPool], cluster_id: str) -> Sequence[Provider]:
        types: dict[str, str] = {}
        problems: list[str] = []
        made: list[Provider] = []
        for type_, maker in makers.items():
            for provider in maker(pools, cluster_id):
                other = types.setdefault(provider.name, type_)
                if other != type_:
                    problems.append(
                        f"resource_pools: {provider.name} is the name of a provider of type {other} and of one of "
                        f"type {type_}: give one of them another name"
                    )
                made.append(provider)
        if problems:
            raise InvalidConfig(problems, what="master configuration")
        return made

    return make
