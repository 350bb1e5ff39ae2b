"""The least that a master may do in its cloud, from the calls that the provider declares. Pure, but for `declared`."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.base.json_types import JsonObject
from windlass.base.permissions import Permission, Reach
from windlass.deploy.cloud.server_tables import loaded

ALWAYS = ("bake", "price_refresh", "spot", "stopped_agents", "volume_keys")
"""What no key of a section asks for (stopping is less than ending), and clusters that are deployed may do."""
_TAGGING_CALLS = ("RunInstances", "CreatePlacementGroup", "CreateImage")


def declared(cloud: str) -> tuple[Permission, ...]:
    permissions: tuple[Permission, ...] = loaded("permissions", cloud)
    return permissions


def needed(permissions: Iterable[Permission], features: Iterable[str] = ()) -> list[Permission]:
    wanted = {"", *features}
    return [each for each in permissions if each.feature in wanted]


def aws_policy(
    permissions: Iterable[Permission], *, cluster_id: str, region: str, tag: tuple[str, str]
) -> JsonObject:
    """An IAM policy document. `tag`: what every machine of the cluster carries."""
    permissions = tuple(permissions)
    partition = "aws-us-gov" if region.startswith("us-gov-") else "aws"
    key, value = tag
    groups: dict[Reach, list[str]] = {}
    for each in permissions:
        groups.setdefault(each.reach, []).append(each.action)
    machines = f"arn:{partition}:ec2:{region}:*:instance/*"
    images = [f"arn:{partition}:ec2:{region}:*:{kind}/*" for kind in ("image", "snapshot")]
    in_region = {"StringEquals": {"aws:RequestedRegion": region}}
    statements: list[JsonObject] = []
    for reach, actions in groups.items():
        statement: JsonObject = {
            "Sid": _sid(reach),
            "Effect": "Allow",
            "Action": sorted(actions),
            "Resource": "*",
        }
        match reach:
            case Reach.ALL:
                statement["Condition"] = in_region
            case Reach.EVERYWHERE:
                pass
            case Reach.LAUNCH:
                # What a launch uses (image, subnet, group, ...) is not the cluster's; the machine has to be.
                del statement["Resource"]
                statement["NotResource"] = machines
                statement["Condition"] = in_region
                statements.append(
                    {
                        "Sid": "LaunchOwnMachines",
                        "Effect": "Allow",
                        "Action": sorted(actions),
                        "Resource": machines,
                        "Condition": {"StringEquals": {f"aws:RequestTag/{key}": value}},
                    }
                )
            case Reach.TAG_AT_LAUNCH:
                statement["Resource"] = f"arn:{partition}:ec2:{region}:*:*/*"
                statement["Condition"] = {
                    "StringEquals": {"ec2:CreateAction": _makers(permissions)}
                }
            case Reach.OWN_MACHINES:
                statement["Resource"] = machines
                statement["Condition"] = {"StringEquals": {f"aws:ResourceTag/{key}": value}}
            case Reach.MAKE_IMAGE:
                statement["Resource"] = images
                statement["Condition"] = {"StringEquals": {f"aws:RequestTag/{key}": value}}
                statements.append(
                    {
                        "Sid": "ImagesOfOwnMachines",
                        "Effect": "Allow",
                        "Action": sorted(actions),
                        "Resource": machines,
                        "Condition": {"StringEquals": {f"aws:ResourceTag/{key}": value}},
                    }
                )
            case Reach.OWN_IMAGES:
                statement["Resource"] = images
                statement["Condition"] = {"StringEquals": {f"aws:ResourceTag/{key}": value}}
            case Reach.AGENT_ROLE:
                statement["Resource"] = f"arn:{partition}:iam::*:role/det-{cluster_id}-agent"
                statement["Condition"] = {
                    "StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}
                }
            case Reach.SPOT_ROLE:
                statement["Resource"] = (
                    f"arn:{partition}:iam::*:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
                )
                statement["Condition"] = {
                    "StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}
                }
            case Reach.VOLUME_KEYS | Reach.VOLUME_GRANTS:
                statement["Resource"] = f"arn:{partition}:kms:{region}:*:key/*"
                statement["Condition"] = {
                    "StringEquals": {"kms:ViaService": f"ec2.{region}.amazonaws.com"}
                }
                if reach is Reach.VOLUME_GRANTS:
                    statement["Condition"]["Bool"] = {"kms:GrantIsForAWSResource": "true"}
        statements.append(statement)
    return {"Version": "2012-10-17", "Statement": statements}


def _makers(permissions: Iterable[Permission]) -> list[str]:
    """The calls that make what can be tagged."""
    allowed = {each.action for each in permissions}
    return [each for each in _TAGGING_CALLS if f"ec2:{each}" in allowed]


def gcp_role(permissions: Iterable[Permission], *, cluster_id: str) -> JsonObject:
    """A custom role, as `gcloud iam roles create --file` takes it; `actAs` is granted on the agents' account only."""
    return {
        "title": f"Windlass master {cluster_id}",
        "description": "What the master needs to launch, list and end machines",
        "stage": "GA",
        "includedPermissions": sorted(
            each.action for each in permissions if each.reach is not Reach.AGENT_ROLE
        ),
    }


def _sid(reach: Reach) -> str:
    return "".join(word.capitalize() for word in reach.value.split("_"))
