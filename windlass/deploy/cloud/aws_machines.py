"""The machines of a cluster on AWS, by its tag."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.aws_plan import machine_tag
from windlass.deploy.cloud.aws_session import AwsSession, code_of

ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")
_AT_ONCE = 100


class AwsMachines:
    def __init__(self, cluster_id: str, *, region: str, profile: str = "") -> None:
        self._key, self._value = machine_tag(cluster_id)
        self._aws = AwsSession(region=region, profile=profile)
        self._ec2 = self._aws.client("ec2")

    def listed(self) -> list[str]:
        wanted = [
            {"Name": f"tag:{self._key}", "Values": [self._value]},
            {"Name": "instance-state-name", "Values": list(ALIVE)},
        ]
        with self._aws.doing("list the machines of pools"):
            pages = self._ec2.get_paginator("describe_instances").paginate(Filters=wanted)
            return [
                instance["InstanceId"]
                for page in pages
                for reservation in page["Reservations"]
                for instance in reservation["Instances"]
            ]

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
