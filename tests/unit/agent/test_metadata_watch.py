"""What a machine of EC2 hears of its own end, by HTTP from a metadata service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agent_bootstrap.agent import metadata_watch
from agent_bootstrap.agent.metadata_watch import Metadata, notices, watch
from tests.fakes.ec2_metadata import Ec2Metadata, ec2_metadata

ID = "i-0123"


@pytest.fixture
def service() -> Iterator[Ec2Metadata]:
    with ec2_metadata() as one:
        yield one


def said(service: Ec2Metadata) -> list[metadata_watch.Notice]:
    return list(notices(Metadata(service.url(ID))))


def test_nothing_is_said_of_a_machine_that_stays(service: Ec2Metadata) -> None:
    assert said(service) == []


def test_a_spot_interruption_says_when(service: Ec2Metadata) -> None:
    service.interrupt(ID, 120)
    (notice,) = said(service)
    left = notice.at - datetime.now(UTC)
    assert timedelta(seconds=100) < left <= timedelta(seconds=120)
    assert notice.reason == "spot interruption: terminate"


def test_planned_maintenance_counts_while_it_is_planned(service: Ec2Metadata) -> None:
    planned = {"NotBefore": "21 Jan 2030 09:00:43 GMT", "Code": "instance-retirement"}
    service.answers[ID, "events/maintenance/scheduled"] = json.dumps(
        [{**planned, "State": "completed"}, {**planned, "State": "active"}]
    )
    (notice,) = said(service)
    assert notice.at == datetime(2030, 1, 21, 9, 0, 43, tzinfo=UTC)
    assert notice.reason == "maintenance by AWS: instance-retirement"


@pytest.mark.parametrize("text", ["", "soon", "[]", '{"action": "stop"}', '{"time": 3}'])
def test_what_nobody_understands_is_no_notice(service: Ec2Metadata, text: str) -> None:
    service.answers[ID, "spot/instance-action"] = text
    service.answers[ID, "events/maintenance/scheduled"] = text
    assert said(service) == []


def test_a_session_that_has_ended_is_renewed(service: Ec2Metadata) -> None:
    metadata = Metadata(service.url(ID))
    assert list(notices(metadata)) == []
    service.tokens.append("another")
    service.interrupt(ID, 120)
    assert len(list(notices(metadata))) == 1


async def test_the_agent_is_told_also_after_a_time_without_answers(
    service: Ec2Metadata, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata_watch, "EVERY_S", 0.01)
    told: asyncio.Queue[str] = asyncio.Queue()

    async def leave(at: datetime, reason: str) -> None:
        told.put_nowait(reason)

    service.is_down = True
    watching = asyncio.create_task(watch(service.url(ID), leave))
    async with asyncio.timeout(30):
        while "does not answer" not in caplog.text:  # noqa: ASYNC110 - a log cannot be awaited
            await asyncio.sleep(0.01)
        service.interrupt(ID, 120)
        service.is_down = False
        assert await told.get() == "spot interruption: terminate"
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert caplog.text.count("does not answer") == 1
