"""What is asked before a cluster is made: of our tables its types of machines, of AWS key pair, quotas and zones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

from windlass.base.errors import InvalidConfig, NotFound
from windlass.base.instance_types import why_unusable
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.session import AwsSession, code_of
from windlass.deploy.cloud.aws.zones import zone_problems, zones_of
from windlass.deploy.cloud.preflight import MachinesAtOnce, QuotaNeed, purchases, short_of
from windlass.deploy.cloud.tables import loaded

QuotaOf = Callable[[str, bool], tuple[str, str]]


def checked_types(options: AwsOptions) -> AwsOptions:
    """Raises InvalidConfig. Not asked where the master's own packages are not installed."""
    try:
        known = frozenset(loaded("machine_types", "aws")("aws"))
    except ImportError:
        return options
    if problems := list(_unknown(options, known)):
        raise InvalidConfig(problems, what="options of det deploy aws up")
    return options


def with_mount_name(options: AwsOptions) -> AwsOptions:
    """Asks AWS where an existing FSx is named and its mount name is not."""
    if not options.fsx_id or options.fsx_mount_name:
        return options
    name = _mount_name(options.fsx_id, region=options.region, profile=options.profile)
    return options.model_copy(update={"fsx_mount_name": name})


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
    compute = MachinesAtOnce(
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
            QuotaNeed(
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


def _unknown(options: AwsOptions, known: frozenset[str]) -> Iterator[str]:
    aux, compute = options.aux_agent_instance_type, options.compute_agent_instance_type
    says_slots = options.compute_agent_slots is not None
    if why := why_unusable(aux, says_slots=False):
        yield f"--aux-agent-instance-type: {why}"
    elif aux not in known:
        yield f"--aux-agent-instance-type: the master does not know {aux}{_near(aux, known)}"
    if why := why_unusable(compute, says_slots=says_slots):
        yield f"--compute-agent-instance-type: {why}"
    elif compute not in known and not says_slots:
        yield (
            f"--compute-agent-instance-type: the master does not know {compute}{_near(compute, known)}; if AWS has it, "
            "give its GPUs with --compute-agent-slots"
        )


def _near(name: str, known: frozenset[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f": did you mean {near[0]}?" if near else ": choose another type"


def _mount_name(id_: str, *, region: str, profile: str) -> str:
    aws = AwsSession(region=region, profile=profile)
    with aws.doing(f"find the mount name of {id_} (--fsx-mount-name says it)"):
        try:
            reply = aws.client("fsx").describe_file_systems(FileSystemIds=[id_])
        except aws.refused as error:
            if code_of(error) != "FileSystemNotFound":
                raise
            raise NotFound("FSx for Lustre", id_, f" in {region}: correct --fsx-id") from None
    for found in reply["FileSystems"]:
        if "LustreConfiguration" in found:
            return str(found["LustreConfiguration"]["MountName"])
    raise NotFound("FSx for Lustre", id_, f" in {region}: correct --fsx-id")
