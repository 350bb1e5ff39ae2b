"""What AWS is asked of zones before a cluster is made: whether those that are used sell what is wanted there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.session import AwsSession

_OF_MASTER = "--master-instance-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Zones:
    """Of one region, for one cluster."""

    network: frozenset[str]
    """With a subnet that the cluster has or will have."""
    subnets: Mapping[str, str] = field(default_factory=dict)
    """Of `--agent-subnet-id`, those that the region has -> zone."""
    disk: str = ""
    """Of the master's data; empty: none is there yet."""
    sold: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Instance type -> zones. Missing: the region does not have it."""


def zone_problems(options: AwsOptions, zones: Zones) -> Iterator[str]:
    """Each with its way out. Pure."""
    master = options.master_instance_type
    sold = zones.sold.get(master, frozenset())
    if sold and zones.disk and zones.disk not in sold:
        yield (
            f"{_OF_MASTER}: the master's disk is in {zones.disk}, which has no {master} ({_sellers(sold)} it): "
            "choose another type"
        )
    elif sold and not zones.disk and not sold & zones.network:
        yield f"{_OF_MASTER}: {_none_has(zones.network, master)}: choose another type"
    for subnet in options.agent_subnet_id:
        if subnet not in zones.subnets:
            yield f"--agent-subnet-id: there is no {subnet} in {options.region}: correct it, or leave it out"
    of_agents = frozenset(zones.subnets.values()) or zones.network
    for what, name in (
        ("--aux-agent-instance-type", options.aux_agent_instance_type),
        ("--compute-agent-instance-type", options.compute_agent_instance_type),
    ):
        sold = zones.sold.get(name, frozenset())
        if sold and not sold & of_agents:
            more = " or add a subnet" if options.agent_subnet_id else ""
            yield f"{what}: {_none_has(of_agents, name)}; {_sellers(sold)} it: choose another type{more}"


def zones_of(aws: AwsSession, options: AwsOptions) -> Zones:
    """Raises ProviderError."""
    with aws.doing("ask for zones"):
        ec2 = aws.client("ec2")
        own = options.deployment_type in ("secure", "efs", "fsx")
        return Zones(
            network=_all_zones(ec2) if own else _default_zones(ec2),
            subnets=_subnets(ec2, options.agent_subnet_id),
            disk=_disk(ec2, f"det-{options.cluster_id}-data"),
            sold=_sold(
                ec2,
                {
                    options.master_instance_type,
                    options.aux_agent_instance_type,
                    options.compute_agent_instance_type,
                },
            ),
        )


def _all_zones(ec2: Any) -> frozenset[str]:
    wanted = [{"Name": "opt-in-status", "Values": ["opt-in-not-required"]}]
    found = ec2.describe_availability_zones(Filters=wanted)["AvailabilityZones"]
    return frozenset(zone["ZoneName"] for zone in found if zone["State"] == "available")


def _default_zones(ec2: Any) -> frozenset[str]:
    wanted = [{"Name": "default-for-az", "Values": ["true"]}]
    found = _all(ec2, "describe_subnets", "Subnets", Filters=wanted)
    return frozenset(subnet["AvailabilityZone"] for subnet in found)


def _subnets(ec2: Any, ids: Collection[str]) -> dict[str, str]:
    if not ids:
        return {}
    wanted = [{"Name": "subnet-id", "Values": sorted(ids)}]
    found = _all(ec2, "describe_subnets", "Subnets", Filters=wanted)
    return {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in found}


def _disk(ec2: Any, name: str) -> str:
    wanted = [{"Name": "tag:Name", "Values": [name]}]
    found = list(_all(ec2, "describe_volumes", "Volumes", Filters=wanted))
    return str(found[0]["AvailabilityZone"]) if len(found) == 1 else ""


def _sold(ec2: Any, names: Collection[str]) -> dict[str, frozenset[str]]:
    wanted = [{"Name": "instance-type", "Values": sorted(names)}]
    found: dict[str, frozenset[str]] = {}
    for each in _all(
        ec2,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=wanted,
    ):
        name = each["InstanceType"]
        found[name] = found.get(name, frozenset()) | {each["Location"]}
    return found


def _all(ec2: Any, operation: str, key: str, **given: Any) -> Iterator[Any]:
    for page in ec2.get_paginator(operation).paginate(**given):
        yield from page[key]


def _none_has(zones: Collection[str], name: str) -> str:
    return f"of {_listed(zones) or 'no zone at all'} none has {name}"


def _sellers(zones: Collection[str]) -> str:
    return f"{_listed(zones)} {'has' if len(zones) == 1 else 'have'}"


def _listed(zones: Collection[str]) -> str:
    return ", ".join(sorted(zones))
