"""What AWS is asked before a cluster is made: key pair, quotas, zones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from windlass.deploy.cloud.aws_options import AwsOptions
from windlass.deploy.cloud.aws_session import AwsSession, code_of
from windlass.deploy.cloud.aws_zones import zone_problems, zones_of
from windlass.deploy.cloud.preflight import Need, Purchase, purchases, short_of
from windlass.deploy.cloud.server_tables import loaded

QuotaOf = Callable[[str, bool], tuple[str, str]]


def aws_problems(options: AwsOptions) -> list[str]:
    """Each with its way out. Raises ProviderError where AWS cannot be asked."""
    aws = AwsSession(region=options.region, profile=options.profile)
    return [
        *_key_pair(aws, options),
        *_quotas(aws, options, loaded("quotas", "aws")),
        *zone_problems(options, zones_of(aws, options)),
    ]


def _key_pair(aws: AwsSession, options: AwsOptions) -> Iterator[str]:
    if not options.keypair:
        return
    with aws.doing(f"look for key pair {options.keypair}"):
        try:
            aws.client("ec2").describe_key_pairs(KeyNames=[options.keypair])
        except aws.refused as error:
            if code_of(error) != "InvalidKeyPair.NotFound":
                raise
            yield (
                f"--keypair: {options.region} has no {options.keypair}: aws ec2 create-key-pair --key-name "
                f"{options.keypair}, or name another one"
            )


def _quotas(aws: AwsSession, options: AwsOptions, quota_of: QuotaOf) -> Iterator[str]:
    compute = Purchase(
        "compute-pool",
        options.compute_agent_instance_type,
        options.max_dynamic_agents,
        spot=options.spot,
    )
    wanted = purchases(options, compute)
    with aws.doing("ask for quotas"):
        cpus = _cpus(aws.client("ec2"), {each.machine_type for each in wanted})
        unknown = sorted({each.machine_type for each in wanted} - set(cpus))
        for name in unknown:
            yield f"{options.region} has no instance type {name}: choose another type or region"
        quotas = {each: quota_of(each.machine_type, each.spot) for each in wanted}
        needs = [
            Need(
                quotas[each][0],
                each.text,
                each.count * cpus[each.machine_type],
            )
            for each in wanted
            if each.machine_type in cpus
        ]
        names = dict(quotas.values())
        found = {code: _value(aws, code) for code in names}
        allowed = {code: value for code, value in found.items() if value is not None}
    for code, why in short_of(needs, allowed).items():
        yield (
            f"the quota of {names[code]} in {options.region} is {why}: ask for more at "
            f"https://{options.region}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{code}, "
            "or lower --max-dynamic-agents"
        )


def _cpus(ec2: Any, names: set[str]) -> dict[str, int]:
    """Those that the region has."""
    wanted = [{"Name": "instance-type", "Values": sorted(names)}]
    pages = ec2.get_paginator("describe_instance_types").paginate(Filters=wanted)
    return {
        found["InstanceType"]: int(found["VCpuInfo"]["DefaultVCpus"])
        for page in pages
        for found in page["InstanceTypes"]
    }


def _value(aws: AwsSession, code: str) -> float | None:
    """None: the region has no such quota."""
    quotas = aws.client("service-quotas")
    try:
        return float(quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
    except aws.refused as error:
        if code_of(error) == "NoSuchResourceException":
            return None
        raise
