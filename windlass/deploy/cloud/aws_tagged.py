"""The clusters of one region of AWS, by the tag that everything of them carries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from windlass.deploy.cloud.aws_machines import address_of, instances, master_name
from windlass.deploy.cloud.aws_plan import CLUSTER_TAG, machine_tag
from windlass.deploy.cloud.aws_session import AwsSession
from windlass.deploy.cloud.listing import Tagged


def aws_tagged(*, region: str, profile: str = "") -> list[Tagged]:
    """Raises ProviderError. Of a cluster without machines there may be a bucket or a database."""
    aws = AwsSession(region=region, profile=profile)
    with aws.doing(f"list clusters in {region}"):
        found = {name: Tagged(cluster_id=name, region=region) for name in _names(aws)}
        for instance in instances(aws.client("ec2"), {"tag-key": [CLUSTER_TAG]}):
            tags = _tags(instance)
            name = tags[CLUSTER_TAG]
            one = found.get(name, Tagged(cluster_id=name, region=region))
            key, value = machine_tag(name)
            if tags.get(key) == value:
                one = replace(one, machines=one.machines + 1)
            elif tags.get("Name") == master_name(name):
                one = replace(one, master=address_of(instance))
            found[name] = one
    return list(found.values())


def _names(aws: AwsSession) -> Iterator[str]:
    pages = aws.client("resourcegroupstaggingapi").get_paginator("get_resources")
    for page in pages.paginate(TagFilters=[{"Key": CLUSTER_TAG}]):
        for one in page["ResourceTagMappingList"]:
            yield from (tag["Value"] for tag in one["Tags"] if tag["Key"] == CLUSTER_TAG)


def _tags(instance: Any) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
