"""What a machine hears of its own end, by HTTP from a metadata service: of EC2, and of Compute Engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from agent_bootstrap.agent.metadata import watch as metadata_watch
from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.agent.metadata.services import Ec2Service
from agent_bootstrap.agent.metadata.watch import ec2_notices, watch
from tests.fakes.ec2_metadata import Ec2Metadata, ec2_metadata
from tests.fakes.gce.metadata import GceMetadata, gce_metadata

ID = "i-0123"
Heard = asyncio.Queue[tuple[datetime, str]]


@pytest.fixture
def service() -> Iterator[Ec2Metadata]:
    with ec2_metadata() as one:
        yield one


async def said(service: Ec2Metadata) -> list[metadata_watch.CloudNotice]:
    return await ec2_notices(Ec2Service(service.url(ID)))


async def test_nothing_is_said_of_a_machine_that_stays(service: Ec2Metadata) -> None:
    assert await said(service) == []


async def test_a_spot_interruption_says_when(service: Ec2Metadata) -> None:
    service.interrupt(ID, 120)
    (notice,) = await said(service)
    left = notice.at - datetime.now(UTC)
    assert timedelta(seconds=100) < left <= timedelta(seconds=120)
    assert notice.reason == "spot interruption: terminate"


async def test_planned_maintenance_counts_while_it_is_planned(service: Ec2Metadata) -> None:
    planned = {"NotBefore": "21 Jan 2030 09:00:43 GMT", "Code": "instance-retirement"}
    service.answers[ID, "events/maintenance/scheduled"] = json.dumps(
        [{**planned, "State": "completed"}, {**planned, "State": "active"}]
    )
    (notice,) = await said(service)
    assert notice.at == datetime(2030, 1, 21, 9, 0, 43, tzinfo=UTC)
    assert notice.reason == "maintenance by AWS: instance-retirement"


@pytest.mark.parametrize("text", ["", "soon", "[]", '{"action": "stop"}', '{"time": 3}'])
async def test_what_nobody_understands_is_no_notice(service: Ec2Metadata, text: str) -> None:
    service.answers[ID, "spot/instance-action"] = text
    service.answers[ID, "events/maintenance/scheduled"] = text
    assert await said(service) == []


async def test_a_session_that_has_ended_is_renewed(service: Ec2Metadata) -> None:
    metadata = Ec2Service(service.url(ID))
    assert await ec2_notices(metadata) == []
    service.tokens.append("another")
    service.interrupt(ID, 120)
    assert len(await ec2_notices(metadata)) == 1


async def test_the_agent_is_told_also_after_a_time_without_answers(
    service: Ec2Metadata, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata_watch, "EVERY_S", 0.01)
    told: asyncio.Queue[str] = asyncio.Queue()

    async def leave(at: datetime, reason: str) -> None:
        told.put_nowait(reason)

    service.is_down = True
    watching = asyncio.create_task(watch(Cloud.AWS, service.url(ID), leave, has_gpus=False))
    async with asyncio.timeout(30):
        while "does not answer" not in caplog.text:  # noqa: ASYNC110 - a log cannot be awaited
            await asyncio.sleep(0.01)
        service.interrupt(ID, 120)
        service.is_down = False
        assert await told.get() == "spot interruption: terminate"
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert caplog.text.count("does not answer") == 1


NAME = "gpu-1"


@pytest.fixture
def gce() -> Iterator[GceMetadata]:
    with gce_metadata() as one:
        yield one


@asynccontextmanager
async def watching_gce(url: str, *, has_gpus: bool = False) -> AsyncIterator[Heard]:
    told: Heard = asyncio.Queue()

    async def leave(at: datetime, reason: str) -> None:
        told.put_nowait((at, reason))

    task = asyncio.create_task(watch(Cloud.GCP, url, leave, has_gpus=has_gpus))
    try:
        async with asyncio.timeout(30):
            yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def waits(gce: GceMetadata) -> None:
    """Until both values are waited for."""
    while gce.waiting < 2:  # noqa: ASYNC110 - another thread counts them
        await asyncio.sleep(0.01)


async def test_a_preempted_machine_of_google_has_30_seconds(gce: GceMetadata) -> None:
    async with watching_gce(gce.url(NAME)) as told:
        await waits(gce)
        assert told.empty()
        gce.preempt(NAME)
        at, reason = await told.get()
    left = at - datetime.now(UTC)
    assert timedelta(seconds=15) < left <= timedelta(seconds=30)
    assert reason == "spot interruption: preempted by Google"
    assert gce.polls[NAME, "instance/preempted"] <= 3, "it waits, and does not ask again and again"


@pytest.mark.parametrize(("has_gpus", "least_s", "most_s"), [(False, 30, 60), (True, 3500, 3600)])
async def test_maintenance_of_google_ends_a_machine(
    gce: GceMetadata, has_gpus: bool, least_s: float, most_s: float
) -> None:
    async with watching_gce(gce.url(NAME), has_gpus=has_gpus) as told:
        await waits(gce)
        gce.set(NAME, "instance/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
        at, reason = await told.get()
    assert timedelta(seconds=least_s) < at - datetime.now(UTC) <= timedelta(seconds=most_s)
    assert reason == "maintenance by Google: TERMINATE_ON_HOST_MAINTENANCE"


async def test_a_preemption_from_before_the_agent_is_heard(gce: GceMetadata) -> None:
    gce.preempt(NAME)
    async with watching_gce(gce.url(NAME)) as told:
        assert (await told.get())[1] == "spot interruption: preempted by Google"


async def test_google_is_asked_again_after_a_time_without_answers(
    gce: GceMetadata, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata_watch, "EVERY_S", 0.01)
    gce.is_down = True
    async with watching_gce(gce.url(NAME)) as told:
        while "does not answer" not in caplog.text:  # noqa: ASYNC110 - a log cannot be awaited
            await asyncio.sleep(0.01)
        gce.preempt(NAME)
        gce.is_down = False
        assert (await told.get())[1] == "spot interruption: preempted by Google"
