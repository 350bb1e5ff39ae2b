"""The least that a master may do on AWS, from the calls that its provider declares. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.base.formats.json_types import JsonObject
from windlass.base.permissions import Permission, Reach

_TAGGING_CALLS = ("RunInstances", "CreatePlacementGroup", "CreateImage")


def aws_policy(
    permissions: Iterable[Permission], *, cluster_id: str, region: str, tag: tuple[str, str]
) -> JsonObject:
    """An IAM policy document. `tag`: what every machine of the cluster carries."""
    permissions = tuple(permissions)
    rules = _rules(permissions, cluster_id, region, tag)
    groups: dict[Reach, list[str]] = {}
    for each in permissions:
        groups.setdefault(each.reach, []).append(each.action)
    statements = [
        {"Sid": sid or _sid(reach), "Effect": "Allow", "Action": sorted(actions), **rule}
        for reach, actions in groups.items()
        for sid, rule in rules[reach].items()
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def _rules(
    permissions: Iterable[Permission], cluster_id: str, region: str, tag: tuple[str, str]
) -> dict[Reach, dict[str, JsonObject]]:
    """On what, and on which condition; by the name of the statement, empty: that of the reach."""
    partition = "aws-us-gov" if region.startswith("us-gov-") else "aws"
    ec2, iam = f"arn:{partition}:ec2:{region}:*", f"arn:{partition}:iam::*"
    machines = f"{ec2}:instance/*"
    images = [f"{ec2}:{kind}/*" for kind in ("image", "snapshot")]
    spot_role = f"{iam}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
    keys = f"arn:{partition}:kms:{region}:*:key/*"
    in_region = _equal("aws:RequestedRegion", region)
    carries, will_carry = (
        _equal(f"aws:{of}Tag/{tag[0]}", tag[1]) for of in ("Resource", "Request")
    )
    by_ec2 = _equal("kms:ViaService", f"ec2.{region}.amazonaws.com")
    for_aws = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    return {
        Reach.ALL: {"": _on("*", in_region)},
        Reach.EVERYWHERE: {"": {"Resource": "*"}},
        # What a launch uses (image, subnet, group, ...) is not the cluster's; the machine has to be.
        Reach.LAUNCH: {
            "LaunchOwnMachines": _on(machines, will_carry),
            "": {"NotResource": machines, "Condition": in_region},
        },
        Reach.TAG_AT_LAUNCH: {
            "": _on(f"{ec2}:*/*", _equal("ec2:CreateAction", _makers(permissions)))
        },
        Reach.OWN_MACHINES: {"": _on(machines, carries)},
        Reach.MAKE_IMAGE: {
            "ImagesOfOwnMachines": _on(machines, carries),
            "": _on(images, will_carry),
        },
        Reach.OWN_IMAGES: {"": _on(images, carries)},
        Reach.AGENT_ROLE: {
            "": _on(
                f"{iam}:role/det-{cluster_id}-agent",
                _equal("iam:PassedToService", "ec2.amazonaws.com"),
            )
        },
        Reach.SPOT_ROLE: {"": _on(spot_role, _equal("iam:AWSServiceName", "spot.amazonaws.com"))},
        Reach.VOLUME_KEYS: {"": _on(keys, by_ec2)},
        Reach.VOLUME_GRANTS: {"": _on(keys, {**by_ec2, **for_aws})},
    }


def _equal(key: str, value: str | list[str]) -> JsonObject:
    return {"StringEquals": {key: value}}


def _on(resource: str | list[str], condition: JsonObject) -> JsonObject:
    return {"Resource": resource, "Condition": condition}


def _makers(permissions: Iterable[Permission]) -> list[str]:
    """The calls that make what can be tagged."""
    allowed = {each.action for each in permissions}
    return [each for each in _TAGGING_CALLS if f"ec2:{each}" in allowed]


def _sid(reach: Reach) -> str:
    return "".join(word.capitalize() for word in reach.value.split("_"))
