"""The machines of a cluster on AWS, by its tag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.aws_plan import CLUSTER_TAG, machine_tag
from windlass.deploy.cloud.aws_session import AwsSession, code_of

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
            "tag:Name": [master_name(self._cluster_id)],
        }
        states = [state for state in ALIVE if state != "shutting-down"]
        with self._aws.doing("list masters"):
            return [address_of(each) for each in instances(self._ec2, wanted, states)]

    def listed(self) -> list[str]:
        key, value = machine_tag(self._cluster_id)
        with self._aws.doing("list the machines of pools"):
            return [each["InstanceId"] for each in instances(self._ec2, {f"tag:{key}": [value]})]

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


def instances(
    ec2: Any, wanted: Mapping[str, Sequence[str]], states: Sequence[str] = ALIVE
) -> Iterator[Any]:
    """As EC2 describes them. `wanted`: names and values of filters."""
    filters = {**wanted, "instance-state-name": states}
    asked = [{"Name": name, "Values": list(values)} for name, values in filters.items()]
    for page in ec2.get_paginator("describe_instances").paginate(Filters=asked):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def master_name(cluster_id: str) -> str:
    return f"det-{cluster_id}-master"


def address_of(instance: Any) -> str:
    return str(instance.get("PublicIpAddress") or instance.get("PrivateIpAddress") or "")
