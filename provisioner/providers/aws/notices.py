"""What EC2 announces of machines by an SQS queue: spot interruptions.

The rules of EventBridge that fill the queue are in docs/aws.md. A queue that cannot be read hinders nothing else: each
machine's agent watches its own notices, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from provisioner.providers.aws.client import AwsClient, AwsError
from windlass.base.errors import ProviderError

log = logging.getLogger(__name__)

SPOT_NOTICE_S = 120.0
MAX_MESSAGES = 10
MAX_BATCHES = 10
"""So many a list reads: what is left waits for the next."""
INTERRUPTION = "EC2 Spot Instance Interruption Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNotice:
    instance_id: str
    leaves_at: float
    why: str


def notice_of(body: str) -> InstanceNotice | None:
    """None: an event of another kind, or none at all."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        event = json.loads(body)
        sent_at = datetime.fromisoformat(event["time"]).timestamp()
        instance_id = str(event["detail"]["instance-id"])
        if event["detail-type"] == INTERRUPTION:
            return InstanceNotice(
                instance_id=instance_id, leaves_at=sent_at + SPOT_NOTICE_S, why="spot interruption"
            )
    return None


class Notices:
    """Those of one queue. What was read is deleted from it by the next reading, when it has been acted upon."""

    def __init__(self, client: AwsClient, queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url
        self._known: dict[str, InstanceNotice] = {}
        self._read: list[str] = []

    async def read(self) -> Mapping[str, InstanceNotice]:
        """By instance."""
        if self._queue_url:
            try:
                await self._delete()
                await self._receive()
            except (AwsError, ProviderError, OSError) as error:
                log.warning("queue %s cannot be read: %s", self._queue_url, error)
        return self._known

    def forget_others(self, instances: Collection[str]) -> None:
        """Machines that are gone leave no more."""
        self._known = {id_: x for id_, x in self._known.items() if id_ in instances}

    async def _delete(self) -> None:
        while self._read:
            entries = [
                {"Id": str(number), "ReceiptHandle": handle}
                for number, handle in enumerate(self._read[:MAX_MESSAGES])
            ]
            await self._client.call(
                "sqs", "delete_message_batch", QueueUrl=self._queue_url, Entries=entries
            )
            del self._read[:MAX_MESSAGES]

    async def _receive(self) -> None:
        for _ in range(MAX_BATCHES):
            reply = await self._client.call(
                "sqs",
                "receive_message",
                QueueUrl=self._queue_url,
                MaxNumberOfMessages=MAX_MESSAGES,
                WaitTimeSeconds=0,
            )
            messages = reply.get("Messages", ())
            for message in messages:
                self._read.append(message["ReceiptHandle"])
                notice = notice_of(message["Body"])
                if notice is not None:
                    self._known[notice.instance_id] = notice
            if len(messages) < MAX_MESSAGES:
                return
