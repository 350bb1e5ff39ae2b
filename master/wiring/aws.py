"""Sections of type aws as the provider of EC2 takes them: one provider for each account and region."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agent_bootstrap.scripts.user_data import Cloud
from master.config import ResolvedPool
from master.config.aws import AwsSection
from master.prices.live import LivePrices
from master.wiring.cloud_boot import CloudBoot
from master.wiring.cloud_sections import repeated, sections_of, unknown_place
from provisioner.providers.aws.options import Account, LaunchTemplate, PoolOptions
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.base import Provider
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig
from windlass.base.json_types import JsonMapping

REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsProviders:
    """A `ProviderFactory`."""

    boot: CloudBoot
    clock: Clock
    prices: LivePrices

    def __call__(self, pools: Sequence[ResolvedPool], cluster_id: str) -> Sequence[Provider]:
        """Raises InvalidConfig with every problem. Nothing is asked of AWS yet, but the region if nobody says it."""
        made = tuple(
            AwsProvider(
                account=account,
                pools=[
                    options_of(pool, section, self.boot.settings(section, pool.name))
                    for pool, section in bought
                ],
                cluster_id=cluster_id,
                clock=self.clock,
                prices=self.prices.book,
                user_data=partial(self.boot.user_data, Cloud.AWS),
            )
            for account, bought in accounts_of(pools).items()
        )
        self.prices.serve(made)
        return made


Bought = Sequence[tuple[ResolvedPool, AwsSection]]


def accounts_of(
    pools: Sequence[ResolvedPool], default: Callable[[], str] | None = None
) -> Mapping[Account, Bought]:
    """Which pools buy from which account and region. Raises InvalidConfig where sections contradict each other.

    `default`: the region of sections that give none; None: `default_region`.
    """
    bought: dict[tuple[str, str, str], list[tuple[ResolvedPool, AwsSection]]] = {}
    for pool, section in sections_of(pools, AwsSection):
        key = (
            section.region or (default or default_region)(),
            section.assume_role,
            section.external_id,
        )
        bought.setdefault(key, []).append((pool, section))
    accounts: dict[Account, Bought] = {}
    problems: list[str] = []
    for (region, role, external_id), sections in bought.items():
        names = {section.name for _, section in sections if section.name}
        queues = {s.interruption_queue for _, s in sections if s.interruption_queue}
        where = f"{region}{f' as {role}' if role else ''}"
        problems += [
            f"resource_pools: {what} of {where} differ ({', '.join(sorted(found))}): give one"
            for what, found in (("name", names), ("interruption_queue", queues))
            if len(found) > 1
        ]
        problems += repeated(sections, lambda section: (section.instance_type,))
        account = Account(
            name=min(names, default=_default_name(region, role)),
            region=region,
            role=role,
            external_id=external_id,
            queue_url=min(queues, default=""),
        )
        if any(other.name == account.name for other in accounts):
            problems.append(
                f"resource_pools: {account.name} names several accounts or regions: give each its own name"
            )
        accounts[account] = sections
    if problems:
        raise InvalidConfig(problems, what="master configuration")
    return accounts


def region_of_environment() -> str:
    return next((os.environ[name] for name in REGION_VARIABLES if os.environ.get(name)), "")


def default_region() -> str:
    from provisioner.providers.aws.client import own_region

    found = region_of_environment() or own_region()
    if not found:
        ways = f"give region, or set {REGION_VARIABLES[0]}"
        raise unknown_place("aws", "region", "EC2", ways)
    return found


def options_of(
    pool: ResolvedPool, section: AwsSection, boot: JsonMapping | None = None
) -> PoolOptions:
    """`boot`: what user data is made of."""
    network = section.network_interface
    template, _, version = section.launch_template.partition(":")
    return PoolOptions(
        pool=pool.name,
        instance_type=section.instance_type,
        slots=section.instance_slots,
        cpu_slot=section.cpu_slots_allowed,
        markets=section.bought_markets,
        spot_max_price=section.max_price,
        zones=section.zones,
        subnets=(network.subnet_id,) if network.subnet_id else section.subnets,
        security_group=network.security_group_id,
        public_address=network.public_ip,
        image=section.image_id,
        image_parameter=section.image_parameter,
        root_gib=section.root_volume_size,
        instance_profile=section.iam_instance_profile_arn,
        open_metadata=pool.task_metadata == "direct",
        ssh_key=section.ssh_key_name,
        machine_name=section.instance_name,
        tags=(
            (section.tag_key, section.tag_value),
            *((tag.key, tag.value) for tag in section.custom_tags),
        ),
        reservations=section.reservations,
        placement_group=section.placement_group,
        efa=section.efa,
        launch_template=LaunchTemplate(name=template, version=version or "$Default")
        if template
        else None,
        may_stop=pool.stopped.is_on,
        boot_s=section.boot_time.total_seconds(),
        usd_per_hour=section.usd_per_hour,
        boot=boot or {},
    )


def _default_name(region: str, role: str) -> str:
    """With a role, its account is part of the name."""
    account = role.split(":")[4] if role else ""
    return f"aws-{account}-{region}" if account else f"aws-{region}"
