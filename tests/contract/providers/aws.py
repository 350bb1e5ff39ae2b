"""EC2 in the contract suite: the real boto3 against moto behind our faults."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.money.price_book import open_book
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.notices import INTERRUPTION
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.base import LimitedCall
from provisioner.sections.aws import AwsMachines
from provisioner.types import Market, Offer
from tests.contract.providers.base import LIST_EVERY_S, LIST_GRACE_S, POOL, ProviderCase
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, Ec2Server, ec2_server
from tests.fakes.fleet_world import CLUSTER
from tests.fakes.pool_machines import aws_machines
from windlass.base.clock import SystemClock

OPTIONS = replace(
    aws_machines(
        POOL,
        may_stop=True,
        instance_type="g4dn.xlarge",
        instance_slots=2,
        markets=["on_demand", "spot"],
        zones=["us-east-1a"],
        image_id=UBUNTU_GPU,
        usd_per_hour=3.0,
    ),
    boot={"master_url": "http://127.0.0.1:1"},
)
ACTIONS = {
    LimitedCall.LAUNCH: "RunInstances",
    LimitedCall.LIST: "DescribeInstances",
    LimitedCall.TERMINATE: "TerminateInstances",
}
SAID: Mapping[BlockKind, tuple[str, int, str]] = {
    BlockKind.CAPACITY: (
        "InsufficientInstanceCapacity",
        500,
        "We currently do not have sufficient g4dn.xlarge capacity in the Availability Zone you requested (us-east-1a).",
    ),
    BlockKind.UNSUPPORTED: (
        "Unsupported",
        400,
        "Your requested instance type (g4dn.xlarge) is not supported in your requested Availability Zone (us-east-1a).",
    ),
    BlockKind.RESERVATION: (
        "ReservationCapacityExceeded",
        400,
        "The requested Capacity Reservation does not have sufficient available capacity.",
    ),
    BlockKind.QUOTA: (
        "VcpuLimitExceeded",
        400,
        "You have requested more vCPU capacity than your current vCPU limit of 8 allows for the instance bucket "
        "that the specified instance type belongs to.",
    ),
    BlockKind.NETWORK: (
        "InsufficientFreeAddressesInSubnet",
        400,
        "The specified subnet does not have enough free addresses to satisfy the request.",
    ),
    BlockKind.PLACEMENT: (
        "InsufficientInstanceCapacity",
        500,
        "You have reached the limit of instances in this spread placement group.",
    ),
    BlockKind.THROTTLED: ("RequestLimitExceeded", 503, "Request limit exceeded."),
    BlockKind.CONFIG: (
        "UnauthorizedOperation",
        403,
        "You are not authorized to perform this operation. Encoded authorization failure message: abcDEF123_-x",
    ),
    BlockKind.AUTH: ("AuthFailure", 403, "AWS was not able to validate the provided credentials"),
    BlockKind.TRANSIENT: ("InternalError", 500, "An internal error has occurred"),
    BlockKind.UNKNOWN: ("SomethingNew", 400, "Nobody has seen this before"),
}


class AwsCase(ProviderCase):
    provider: AwsProvider
    quota = ("on-demand G and VT instances, in vCPUs (L-DB2E81BA)", 8.0)

    def __init__(self, server: Ec2Server, queue_url: str) -> None:
        self.server = server
        self.queue_url = queue_url
        self.options = OPTIONS
        self.provider = self.make()

    def make(
        self, options: AwsMachines | None = None, *, role: str = "", queue: bool = True
    ) -> AwsProvider:
        provider = AwsProvider(
            account=AwsAccount(
                name="aws",
                region=REGION,
                endpoint_url=self.server.url,
                queue_url=self.queue_url if queue else "",
                role=role,
            ),
            pools=[options or self.options],
            cluster_id=CLUSTER,
            clock=SystemClock(),
            prices=open_book(None),
            user_data=lambda intent: f"#!/bin/sh\n# join-me {intent.request['boot']}\n",
        )
        provider.list_every_s, provider.list_grace_s = LIST_EVERY_S, LIST_GRACE_S
        return provider

    async def restart(self) -> None:
        await self.provider.close()
        self.provider = self.make()
        await self.provider.open()

    def reconfigure(self) -> None:
        self.options = replace(
            OPTIONS.but(root_volume_size=300), boot={"master_url": "http://127.0.0.1:2"}
        )
        self.provider._pools = (self.options,)

    def kill(self, instance_id: str) -> None:
        self.server.client().terminate_instances(InstanceIds=[instance_id])

    def mend(self) -> None:
        self.server.mend()

    def refuse(self, offer: Offer, kind: BlockKind) -> None:
        code, status, message = SAID[kind]
        self.server.rule(
            "RunInstances",
            match=match(offer),
            code=code,
            status=status,
            message=message,
            times=-1,
        )

    def stock(self, offer: Offer, machines: int) -> None:
        self.server.rule("RunInstances", match=match(offer), stock=machines)

    def lose_replies(self, times: int) -> None:
        self.server.rule("RunInstances", lost="reply", times=times)

    def drop_requests(self, times: int) -> None:
        self.server.rule("RunInstances", lost="request", times=times)

    def throttle(self, api: LimitedCall, times: int) -> None:
        code, status, message = SAID[BlockKind.THROTTLED]
        self.server.rule(ACTIONS[api], code=code, status=status, message=message, times=times)

    def fail_lists(self) -> None:
        self.server.rule("DescribeInstances", code="InternalError", status=500, times=-1)

    def hide_young(self, seconds: float) -> None:
        self.server.hide_young(seconds)

    def fail_terminates(self, times: int) -> None:
        self.server.rule("TerminateInstances", code="InternalError", status=500, times=times)

    def hang(self, api: LimitedCall) -> None:
        self.server.rule(ACTIONS[api], hang=True, times=-1)

    def no_starts(self, offer: Offer) -> None:
        code, status, message = SAID[BlockKind.CAPACITY]
        self.server.rule("StartInstances", code=code, status=status, message=message, times=-1)

    def write_console(self, instance_id: str, text: str) -> None:
        self.server.console(instance_id, text)

    def take_back(self, instance_id: str, seconds: float) -> None:
        """EC2 says two minutes; what comes earlier or later than that is not for it to say."""
        if seconds < 0:
            self.kill(instance_id)
            return
        body = json.dumps(interruption(instance_id))
        self.server.client("sqs").send_message(QueueUrl=self.queue_url, MessageBody=body)


def match(offer: Offer) -> dict[str, str]:
    """The calls that launch it."""
    return {
        "InstanceType": offer.key.instance_type.replace(".", r"\."),
        "Placement.AvailabilityZone": offer.key.zone,
        "InstanceMarketOptions.MarketType": "spot" if offer.key.market is Market.SPOT else "",
    }


def interruption(instance_id: str) -> dict[str, Any]:
    """As EventBridge writes it."""
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": INTERRUPTION,
        "source": "aws.ec2",
        "account": "123456789012",
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:ec2:{REGION}a:instance/{instance_id}"],
        "detail": {"instance-id": instance_id, "instance-action": "terminate"},
    }


@asynccontextmanager
async def aws(tmp_path: Path) -> AsyncIterator[AwsCase]:
    server = ec2_server()
    server.reset()
    queue = server.client("sqs").create_queue(QueueName=f"notices-{uuid.uuid4().hex}")["QueueUrl"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEYS["aws_access_key_id"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["aws_secret_access_key"])
        case = AwsCase(server, queue)
        await case.provider.open()
        try:
            yield case
        finally:
            case.mend()
            await case.provider.close()
