"""What a cloud says on the machine itself of its end: spot interruptions and planned maintenance.

EC2 is asked every few seconds, as AWS recommends; a spot machine goes two minutes after it is told. Compute Engine
answers when something has changed; a spot machine goes 30 seconds later.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.agent.metadata.services import Ec2Service, GceService

log = logging.getLogger(__name__)

EVERY_S = 5.0
GCE_WAIT_S = 60
PAUSE_S = 1.0
"""After a wait in which nothing changed. What changes meanwhile answers the next one at once."""
PREEMPTION_S = 30.0
GCE_MAINTENANCE_S = 60.0
GCE_GPU_MAINTENANCE_S = 3600.0
"""Machines with GPUs are told an hour before."""
_MAINTENANCE_TIME = "%d %b %Y %H:%M:%S GMT"

Leave = Callable[[datetime, str], Awaitable[None]]
"""This machine goes then, for that reason. May be told the same again."""


class CloudNotice(NamedTuple):
    at: datetime
    reason: str


async def watch(cloud: Cloud, url: str, leave: Leave, *, has_gpus: bool) -> None:
    """Until cancelled. A service that does not answer is asked again."""
    if cloud is Cloud.AWS:
        await _watch_ec2(Ec2Service(url), leave, _Silence(url))
        return
    service, silence = GceService(url), _Silence(url)
    async with asyncio.TaskGroup() as both:
        both.create_task(_follow(service, "instance/preempted", silence, _preempted, leave))
        maintenance = _maintenance_of(has_gpus=has_gpus)
        both.create_task(
            _follow(service, "instance/maintenance-event", silence, maintenance, leave)
        )


async def ec2_notices(service: Ec2Service) -> list[CloudNotice]:
    """What EC2 says now. Raises OSError."""
    interruption = await service.get("spot/instance-action")
    maintenance = await service.get("events/maintenance/scheduled")
    return [*_interruption(interruption or ""), *_ec2_maintenance(maintenance or "")]


class _Silence:
    """A service that does not answer is complained about once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._since_last = False

    def is_over(self) -> None:
        self._since_last = False

    def because(self, error: OSError) -> None:
        if not self._since_last:
            log.warning("the metadata service %s does not answer: %s", self._url, error)
        self._since_last = True


async def _watch_ec2(service: Ec2Service, leave: Leave, silence: _Silence) -> None:
    while True:
        try:
            found = await ec2_notices(service)
            silence.is_over()
        except OSError as error:
            found = []
            silence.because(error)
        for notice in found:
            await leave(notice.at, notice.reason)
        await asyncio.sleep(EVERY_S)


async def _follow(
    service: GceService,
    path: str,
    silence: _Silence,
    notice_of: Callable[[str, datetime], CloudNotice | None],
    leave: Leave,
) -> None:
    etag = ""
    while True:
        try:
            value = await service.value(path, unlike=etag, wait_s=GCE_WAIT_S)
            silence.is_over()
        except OSError as error:
            silence.because(error)
            value = None
        pause_s = EVERY_S  # without an etag there is nothing to wait with
        if value is not None and value.etag:
            pause_s = PAUSE_S if value.etag == etag else 0
        if value is not None and (not etag or value.etag != etag):
            notice = notice_of(value.text.strip(), datetime.now(UTC))
            if notice is not None:
                await leave(notice.at, notice.reason)
        etag = "" if value is None else value.etag
        await asyncio.sleep(pause_s)


def _preempted(text: str, now: datetime) -> CloudNotice | None:
    if text.upper() != "TRUE":
        return None
    return CloudNotice(
        now + timedelta(seconds=PREEMPTION_S), "spot interruption: preempted by Google"
    )


def _maintenance_of(*, has_gpus: bool) -> Callable[[str, datetime], CloudNotice | None]:
    seconds = GCE_GPU_MAINTENANCE_S if has_gpus else GCE_MAINTENANCE_S

    def notice(text: str, now: datetime) -> CloudNotice | None:
        """Machines of ours are never moved: they end."""
        if text in ("", "NONE"):
            return None
        return CloudNotice(now + timedelta(seconds=seconds), f"maintenance by Google: {text}")

    return notice


def _interruption(text: str) -> Iterator[CloudNotice]:
    with suppress(ValueError, KeyError, TypeError):
        said = json.loads(text)
        at = datetime.fromisoformat(said["time"])
        yield CloudNotice(at=at.astimezone(UTC), reason=f"spot interruption: {said['action']}")


def _ec2_maintenance(text: str) -> Iterator[CloudNotice]:
    """Reboots, too: the work of a machine ends with its boot."""
    with suppress(ValueError, TypeError):
        for event in json.loads(text):
            with suppress(ValueError, KeyError, TypeError):
                if event["State"] != "active":
                    continue
                at = datetime.strptime(event["NotBefore"], _MAINTENANCE_TIME).replace(tzinfo=UTC)
                yield CloudNotice(at=at, reason=f"maintenance by AWS: {event['Code']}")
