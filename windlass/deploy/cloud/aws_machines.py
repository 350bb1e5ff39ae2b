"""The machines of a cluster on AWS, by its tag. Needs boto3, of the extra `aws`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.aws_plan import machine_tag
from windlass.deploy.cloud.machines import missing

_ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")
_AT_ONCE = 100


class AwsMachines:
    def __init__(self, cluster_id: str, *, region: str, profile: str = "") -> None:
        try:
            import boto3
            from botocore import exceptions
        except ImportError:
            raise missing("aws") from None
        self._key, self._value = machine_tag(cluster_id)
        self._errors: tuple[type[Exception], ...] = (
            exceptions.BotoCoreError,
            exceptions.ClientError,
        )
        try:
            session = boto3.Session(profile_name=profile or None, region_name=region)
            self._ec2: Any = session.client("ec2")
        except self._errors as error:
            raise _failure("look for machines", error) from None

    def listed(self) -> list[str]:
        wanted = [
            {"Name": f"tag:{self._key}", "Values": [self._value]},
            {"Name": "instance-state-name", "Values": list(_ALIVE)},
        ]
        try:
            pages = self._ec2.get_paginator("describe_instances").paginate(Filters=wanted)
            return [
                instance["InstanceId"]
                for page in pages
                for reservation in page["Reservations"]
                for instance in reservation["Instances"]
            ]
        except self._errors as error:
            raise _failure("list the machines of pools", error) from None

    def end(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _AT_ONCE):
            batch = list(ids[start : start + _AT_ONCE])
            try:
                self._ec2.terminate_instances(InstanceIds=batch)
            except self._errors:
                # All or nothing: one that is protected or gone must not keep the others.
                self._end_one_by_one(batch)

    def _end_one_by_one(self, ids: Sequence[str]) -> None:
        failures = []
        for id_ in ids:
            try:
                self._ec2.terminate_instances(InstanceIds=[id_])
            except self._errors as error:
                if "InvalidInstanceID.NotFound" not in str(error):
                    failures.append(_failure(f"end {id_}", error))
        if failures:
            raise failures[0]


def _failure(doing: str, error: Exception) -> ProviderError:
    return ProviderError(f"Cannot {doing}: {' '.join(str(error).split())}")
