"""Sections of type aws by the account and region that they buy from: each is one provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from master.config import ResolvedPool
from master.wiring.cloud_sections import places_of, unknown_place
from provisioner.providers.aws.account import AwsAccount
from provisioner.sections.aws import AwsMachines, AwsSection

REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def accounts_of(
    pools: Sequence[ResolvedPool], default: Callable[[], str] | None = None
) -> Mapping[AwsAccount, Sequence[AwsMachines]]:
    """Raises InvalidConfig where sections contradict each other.

    `default`: the region of sections that give none; None: `default_region`.
    """

    def placed(section: AwsSection) -> tuple[AwsAccount, AwsSection]:
        account = AwsAccount(
            name="",
            region=section.region or (default or default_region)(),
            role=section.assume_role,
            external_id=section.external_id,
        )
        return account, section

    found = places_of(pools, AwsSection, placed, shared=("name", "interruption_queue"))
    return {
        replace(account, queue_url=max(x.section.interruption_queue for x in machines)): machines
        for account, machines in found.items()
    }


def region_of_environment() -> str:
    return next((os.environ[name] for name in REGION_VARIABLES if os.environ.get(name)), "")


def default_region() -> str:
    from provisioner.providers.aws.client import own_region

    found = region_of_environment() or own_region()
    if not found:
        ways = f"give region, or set {REGION_VARIABLES[0]}"
        raise unknown_place("aws", "region", "EC2", ways)
    return found
