"""The machines of a cluster on AWS, and the clusters of a region, by their tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.aws.plan import CLUSTER_TAG, machine_tag
from windlass.deploy.cloud.aws.session import AwsSession, code_of
from windlass.deploy.cloud.listing import Tagged

ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")
_AT_ONCE = 100


class AwsMachines:
    def __init__(self, cluster_id: str, *, region: str, profile: str = "") -> None:
        self._cluster_id = cluster_id
        self._aws = AwsSession(region=region, profile=profile)
        self._ec2 = self._aws.client("ec2")

    def masters(self) -> list[str]:
        wanted = {
            f"tag:{CLUSTER_TAG}": [self._cluster_id],
            "tag:Name": [_master_name(self._cluster_id)],
        }
        states = [state for state in ALIVE if state != "shutting-down"]
        with self._aws.doing("list masters"):
            return [_address_of(each) for each in _instances(self._ec2, wanted, states)]

    def listed(self) -> list[str]:
        key, value = machine_tag(self._cluster_id)
        with self._aws.doing("list the machines of pools"):
            return [each["InstanceId"] for each in _instances(self._ec2, {f"tag:{key}": [value]})]

    def end(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _AT_ONCE):
            batch = list(ids[start : start + _AT_ONCE])
            try:
                self._end(batch)
            except ProviderError:
                # All or nothing: one that is protected or gone must not keep the others.
                self._end_one_by_one(batch)

    def _end(self, ids: Sequence[str]) -> None:
        with self._aws.doing(f"end {', '.join(ids)}"):
            try:
                self._ec2.terminate_instances(InstanceIds=list(ids))
            except self._aws.refused as error:
                if len(ids) > 1 or code_of(error) != "InvalidInstanceID.NotFound":
                    raise

    def _end_one_by_one(self, ids: Sequence[str]) -> None:
        failures = []
        for id_ in ids:
            try:
                self._end([id_])
            except ProviderError as error:
                failures.append(error)
        if failures:
            raise failures[0]


def aws_tagged(*, region: str, profile: str = "") -> list[Tagged]:
    """Raises ProviderError. Of a cluster without machines there may be a bucket or a database."""
    aws = AwsSession(region=region, profile=profile)
    with aws.doing(f"list clusters in {region}"):
        found = {name: Tagged(cluster_id=name, region=region) for name in _names(aws)}
        for instance in _instances(aws.client("ec2"), {"tag-key": [CLUSTER_TAG]}):
            tags = _tags(instance)
            name = tags[CLUSTER_TAG]
            one = found.get(name, Tagged(cluster_id=name, region=region))
            key, value = machine_tag(name)
            if tags.get(key) == value:
                one = replace(one, machines=one.machines + 1)
            elif tags.get("Name") == _master_name(name):
                one = replace(one, master=_address_of(instance))
            found[name] = one
    return list(found.values())


def _instances(
    ec2: Any, wanted: Mapping[str, Sequence[str]], states: Sequence[str] = ALIVE
) -> Iterator[Any]:
    """As EC2 describes them. `wanted`: names and values of filters."""
    filters = {**wanted, "instance-state-name": states}
    asked = [{"Name": name, "Values": list(values)} for name, values in filters.items()]
    for page in ec2.get_paginator("describe_instances").paginate(Filters=asked):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def _master_name(cluster_id: str) -> str:
    return f"det-{cluster_id}-master"


def _address_of(instance: Any) -> str:
    return str(instance.get("PublicIpAddress") or instance.get("PrivateIpAddress") or "")


def _names(aws: AwsSession) -> Iterator[str]:
    pages = aws.client("resourcegroupstaggingapi").get_paginator("get_resources")
    for page in pages.paginate(TagFilters=[{"Key": CLUSTER_TAG}]):
        for one in page["ResourceTagMappingList"]:
            yield from (tag["Value"] for tag in one["Tags"] if tag["Key"] == CLUSTER_TAG)


def _tags(instance: Any) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
