"""Agents of the release before and of one to come talk to this master; those too far away are told so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from agent_bootstrap.agent.connection.websocket import connect
from agent_bootstrap.agent.daemon import AgentDaemon
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.protocol import PROTOCOL_VERSION
from tests.fakes.agents_world import TOKEN
from tests.fakes.api_world import api_world
from tests.integration.security.agent_sockets import Served, served
from tests.integration.upgrade.golden import GOLDEN

FRAMES = (GOLDEN / "0.1.0" / "agent.jsonl").read_text().splitlines()
NEEDED_BY_0_1 = {"container_id", "allocation_id", "task_id", "task_type", "entrypoint"} | {
    "environment",
    "files",
    "binds",
    "work_dir",
    "rank",
    "slot_ids",
}
"""What an agent of 0.1.0 reads of a task."""
OWN = "c" * 43


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[Served]:
    async with api_world(tmp_path) as world, served(world) as master:
        await world.login("admin")
        yield master


async def until(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of that type."""
    async with asyncio.timeout(30):
        while True:
            message: dict[str, Any] = json.loads(await socket.recv())
            if message["type"] == kind:
                return message


def hello(**changes: Any) -> str:
    return json.dumps(json.loads(FRAMES[0]) | changes)


async def test_an_agent_of_0_1_0_runs_a_task(master: Served) -> None:
    world = master.world
    hello_, heartbeat, running, log, ended = FRAMES
    socket = await master.dial(token=TOKEN)
    await socket.send(hello_)
    welcome = await until(socket, "welcome")
    assert {"epoch", "master_id", "cluster_id"} <= welcome.keys()
    await socket.send(heartbeat)
    experiment = await world.create()
    spec = (await until(socket, "start_container"))["spec"]
    assert spec.keys() >= NEEDED_BY_0_1
    ids = {"CONTAINER": "container_id", "ALLOCATION": "allocation_id", "TASK": "task_id"}
    for frame, answer in ((running, ""), (log, "log_ack"), (ended, "forget_container")):
        for word, key in ids.items():
            frame = frame.replace(f'"{word}"', json.dumps(spec[key]))
        await socket.send(frame)
        if answer:
            await until(socket, answer)
    (agent,) = (await world.ok("GET", "/api/v1/agents"))["agents"]
    assert (agent["id"], agent["version"], agent["isolation"]) == ("old", "0.1.0", "unknown")
    logs = await world.lines(f"/api/v1/trials/{world.trial_id(experiment)}/logs")
    assert any("hello of 0.1.0" in line["message"] for line in logs)
    await socket.close()


async def test_an_agent_of_a_later_minor_version_is_taken_with_all_it_says(master: Served) -> None:
    socket = await master.dial(token=TOKEN, credential=OWN)
    slot = {"id": 0, "kind": "cpu", "brand": "x", "uuid": "", "memory": 1, "links": [1, 2]}
    later = hello(version="0.9.7", slots=[slot], isolation="enclaves", engines={"x": ["y"]})
    await socket.send(later)
    await until(socket, "welcome")
    await socket.send(
        '{"type": "heartbeat", "disk_free_bytes": 1, "temperatures": {"gpu0": 61.5}, "notes": []}'
    )
    (agent,) = (await master.world.ok("GET", "/api/v1/agents"))["agents"]
    assert (agent["version"], agent["isolation"]) == ("0.9.7", "unknown")
    await socket.close()


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (hello(protocol=PROTOCOL_VERSION - 1), "update Windlass on the agent"),
        (hello(protocol=PROTOCOL_VERSION + 1, version="9.0.0"), "(9.0.0) speaks protocol 2"),
        (hello(protocol=PROTOCOL_VERSION + 1, slots={"a": "b"}), "update Windlass on the master"),
    ],
    ids=["older", "newer", "newer and not understood"],
)
async def test_an_agent_too_far_away_is_told_and_listed(
    master: Served, frame: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    socket = await master.dial(token=TOKEN, credential=OWN)
    await socket.send(frame)
    refused = await until(socket, "refused")
    assert said in refused["reason"]
    assert not refused["retry"]
    assert said in caplog.text
    listed = await master.world.ok("GET", "/api/v1/windlass/refused-agents")
    assert [said in agent["reason"] for agent in listed["refused"]] == [True]
    await socket.close()


@contextmanager
def speaking(protocol: int, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Our own agent, as a release with that protocol would be."""
    from agent_bootstrap.agent import machine

    real = machine.AgentMachine.hello

    def other(self: machine.AgentMachine, *about: Any) -> Any:
        return real(self, *about).model_copy(update={"protocol": protocol})

    with patch.context() as patched:
        patched.setattr(machine.AgentMachine, "hello", other)
        yield


async def test_the_agents_own_log_says_why_it_ends(
    master: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "master_url": master.url,
        "agent_id": "ahead",
        "join_token": TOKEN,
        "artificial_slots": 1,
        "isolation": "directory",
        "work_dir": str(tmp_path / "work"),
    }
    options = parse_options(settings)

    async def dial(credential: str) -> Any:
        return await connect(options, credential)

    with speaking(PROTOCOL_VERSION + 1, monkeypatch):
        end = await AgentDaemon(options, connect=dial).run()
    assert end.code == 1
    assert "refused by the master: the agent" in end.reason
    assert "update Windlass on the master" in end.reason


async def test_a_stranger_is_told_why_it_is_not_let_in(
    master: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = parse_options({"master_url": master.url, "agent_id": "x", "join_token": "wrong"})
    end = await AgentDaemon(
        options.model_copy(update={"work_dir": tmp_path / "w", "artificial_slots": 1}),
        connect=lambda credential: connect(options, credential),
    ).run()
    assert (
        "its join token is not valid for that pool, and its credential is of no agent" in end.reason
    )
    (listed,) = (await master.world.ok("GET", "/api/v1/windlass/refused-agents"))["refused"]
    assert "the join token is not valid for pool 'default'" in listed["reason"]
    assert end.code == 1
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_frames_of_0_1_0_are_as_they_were() -> None:
    kinds = [json.loads(frame)["type"] for frame in FRAMES]
    assert kinds == ["hello", "heartbeat", "container_report", "log_batch", "container_report"]
    assert "isolation" not in json.loads(FRAMES[0])
