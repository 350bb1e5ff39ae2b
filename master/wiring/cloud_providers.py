"""Where the machines of elastic pools come from: the providers of all types, each with a name of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from master.config import ResolvedPool
from master.wiring.aws import AwsProviders
from master.wiring.batch.pilots import PilotProviders
from master.wiring.cloud_boot import CloudBoot
from master.wiring.elastic import EmbeddedProviders, ProviderFactory
from master.wiring.gcp import GcpProviders
from provisioner.providers.base import Provider
from windlass.base.errors import InvalidConfig


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
