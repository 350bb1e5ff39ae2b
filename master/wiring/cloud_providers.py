"""Where the machines of elastic pools come from: the providers of all types, each with a name of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agent_bootstrap.agent.metadata.kinds import Cloud
from master.config import ResolvedPool
from master.prices.live import LivePrices
from master.wiring.aws import accounts_of, region_of_environment
from master.wiring.batch.pilots import PilotProviders
from master.wiring.cloud_boot import CloudBoot
from master.wiring.elastic import EmbeddedProviders, ProviderFactory
from master.wiring.gcp import ZONE_VARIABLE, sites_of
from provisioner.money.price_book import PriceBook
from provisioner.providers.aws import offers as of_aws
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.base import Provider
from provisioner.providers.gcp import offers as of_gcp
from provisioner.providers.gcp.provider import GcpProvider
from provisioner.types import Offer
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig


def expected_offers(
    pools: Sequence[ResolvedPool], prices: PriceBook
) -> Iterator[tuple[str, Sequence[Offer]]]:
    """By pool. A section without a region gets that of the environment, else the price book's own.

    Raises InvalidConfig as the clouds' providers do.
    """
    for account, aws in accounts_of(pools, default=partial(_aws_region, prices)).items():
        for machines in aws:
            yield machines.pool, of_aws.expected_offers(account, machines, prices)
    for site, gcp in sites_of(pools, default=partial(_gcp_zone, prices)).items():
        for each in gcp:
            yield each.pool, of_gcp.expected_offers(site, each, prices)


def _aws_region(prices: PriceBook) -> str:
    return region_of_environment() or prices.reference_region(of_aws.CLOUD)


def _gcp_zone(prices: PriceBook) -> str:
    return os.environ.get(ZONE_VARIABLE) or f"{prices.reference_region(of_gcp.CLOUD)}-a"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudProviders:
    """Each method is a `ProviderFactory`, and raises InvalidConfig with every problem.

    Nothing is asked of a cloud yet, but the region or zone if nobody says it.
    """

    boot: CloudBoot
    clock: Clock
    prices: LivePrices

    def aws(self, pools: Sequence[ResolvedPool], cluster_id: str) -> Sequence[Provider]:
        made = tuple(
            AwsProvider(
                account=account,
                pools=self.boot.told(machines),
                cluster_id=cluster_id,
                clock=self.clock,
                prices=self.prices.book,
                user_data=partial(self.boot.user_data, Cloud.AWS),
            )
            for account, machines in accounts_of(pools).items()
        )
        self.prices.serve(made)
        return made

    def gcp(self, pools: Sequence[ResolvedPool], cluster_id: str) -> Sequence[Provider]:
        made = tuple(
            GcpProvider(
                site=site,
                pools=self.boot.told(machines),
                cluster_id=cluster_id,
                clock=self.clock,
                prices=self.prices.book,
                user_data=partial(self.boot.user_data, Cloud.GCP),
            )
            for site, machines in sites_of(pools).items()
        )
        self.prices.serve(made)
        return made


def all_providers(
    embedded: EmbeddedProviders, boot: CloudBoot, pilots: PilotProviders
) -> ProviderFactory:
    """Raises InvalidConfig where providers of two types have one name: their machines could not be told apart."""
    clouds = CloudProviders(boot=boot, clock=embedded.clock, prices=embedded.prices)
    return named_apart(
        {
            "embedded": embedded,
            "aws": clouds.aws,
            "gcp": clouds.gcp,
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
