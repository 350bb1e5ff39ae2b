"""Which way the agent takes to its master, what it says of the others, and the port that its tasks use."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_bootstrap.agent.connection.master_transports import (
    MasterTransports,
    through_gate,
    transports_of,
)
from agent_bootstrap.agent.options import AgentOptions, parse_options
from agent_bootstrap.channels.gate import Gate, owner_of
from agent_bootstrap.channels.streams import Stream, connected
from agent_bootstrap.protocol import AgentChannel, ChannelClosed
from tests.fakes.memory_channel import memory_channel
from tests.fakes.transports_world import Port
from windlass.base.errors import InvalidConfig, PermissionDenied


class FakeWay:
    def __init__(self, name: str, port: Port) -> None:
        self.name = name
        self.why = ""
        self.opened = 0
        self._port = port

    async def open(self) -> Stream:
        if self.why:
            raise ConnectionError(self.why)
        self.opened += 1
        return await connected("127.0.0.1", self._port.port)

    async def close(self) -> None:
        self.why = "closed"


class World:
    """An agent with three transports, and a master that answers as `says` tells it."""

    def __init__(self, options: AgentOptions, port: Port) -> None:
        self.options = options
        self.transports = {name: FakeWay(name, port) for name in ("direct", "relay", "ssh")}
        self.says: Exception | None = None
        self.direct_fails = ""
        self.dialled: list[str] = []
        self.agent = self.again()

    def again(self) -> MasterTransports:
        return MasterTransports(self.options, self.transports, dial=self._dial)

    async def _dial(self, options: AgentOptions, credential: str) -> AgentChannel:
        self.dialled.append(options.url)
        if self.says is not None:
            raise self.says
        if options.url == self.options.url and self.transports["direct"].why:
            raise ChannelClosed(self.transports["direct"].why)
        return memory_channel()[0]


def made(tmp_path: Path, **settings: object) -> AgentOptions:
    base = {"master_url": "https://login:8443", "agent_id": "a", "work_dir": str(tmp_path)}
    return parse_options(base | settings)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    port = Port()
    await port.open()
    yield port
    await port.close()


@pytest.fixture
async def world(tmp_path: Path, port: Port) -> AsyncIterator[World]:
    world = World(made(tmp_path), port)
    yield world
    await world.agent.close()


async def echoed(at: int) -> bytes:
    stream = await connected("127.0.0.1", at)
    await stream.write(b"hello")
    try:
        return await stream.read()
    finally:
        stream.close()


def gate_port(world: World) -> int:
    return int((world.options.work_dir / "gate-port").read_text())


async def test_the_network_is_used_where_it_leads_there(world: World) -> None:
    await world.agent.connect("c")
    assert world.agent.reached() is world.options
    assert world.agent.notes() == ()
    assert not (world.options.work_dir / "gate-port").exists()


async def test_the_next_way_is_taken_and_operators_learn_why(world: World) -> None:
    world.transports["direct"].why = "no answer"
    world.transports["relay"].why = "none runs on the login node"
    await world.agent.connect("c")
    assert world.agent.notes() == (
        "reaches the master by ssh (direct: no answer; relay: none runs on the login node)",
    )
    here = world.agent.reached()
    assert here.container_url == here.url == f"https://127.0.0.1:{gate_port(world)}"
    assert here.security.tls.master_cert_name == "login"
    assert await echoed(gate_port(world)) == b"hello"


async def test_no_way_says_why_of_each(world: World) -> None:
    for way in world.transports.values():
        way.why = f"not by {way.name}\x1b"
    with pytest.raises(ChannelClosed) as failed:
        await world.agent.connect("c")
    assert str(failed.value) == (
        "direct: not by direct\\x1b; relay: not by relay\\x1b; ssh: not by ssh\\x1b"
    )


async def test_the_way_that_was_good_is_tried_first(world: World) -> None:
    world.transports["direct"].why = "no answer"
    await world.agent.connect("c")
    world.transports["direct"].why = ""
    del world.dialled[:]
    await world.agent.connect("c")
    assert [url.rpartition(":")[0] for url in world.dialled] == ["https://127.0.0.1"]
    world.transports["relay"].why = "ended"
    await world.agent.connect("c")
    assert world.agent.reached() is world.options


async def test_tasks_keep_their_port_when_the_way_changes_and_when_the_agent_does(
    world: World,
) -> None:
    world.transports["direct"].why = "no answer"
    await world.agent.connect("c")
    at = gate_port(world)
    world.transports["direct"].why, world.transports["relay"].why = "", "ended"
    await world.agent.connect("c")
    assert world.agent.reached() is world.options
    assert await echoed(at) == b"hello"
    await world.agent.close()
    for way in world.transports.values():
        way.why = ""
    world.agent = world.again()
    await world.agent.connect("c")
    assert await echoed(at) == b"hello"


async def test_a_master_that_refuses_us_is_not_asked_by_another_way(world: World) -> None:
    world.says = PermissionDenied("no")
    with pytest.raises(PermissionDenied):
        await world.agent.connect("c")
    assert len(world.dialled) == 1


async def test_a_certificate_that_is_not_the_masters_is_a_reason(world: World) -> None:
    world.transports["direct"].why = "no answer"
    world.says = ChannelClosed("cannot reach it: the certificate is not the expected one")
    with pytest.raises(ChannelClosed, match="relay: cannot reach it: the certificate"):
        await world.agent.connect("c")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"master_url": "http://login:8080", "channels": "direct,ssh"},
            "ssh needs a master with TLS",
        ),
        ({"channels": "direct,relay"}, "relay is for agents of batch jobs"),
        ({"channels": "smoke"}, "channels"),
        ({"channels": []}, "channels"),
        ({"ssh_login": "-oProxyCommand=x"}, "ssh_login"),
    ],
)
def test_ways_that_cannot_be(tmp_path: Path, settings: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        made(tmp_path, **settings)
    assert problem in "; ".join(refused.value.problems)


def test_ways_are_made_in_their_order(tmp_path: Path) -> None:
    options = made(tmp_path, channels="ssh,direct,relay,direct", job_folder="/jobs/wl-1/nodes/0")
    assert list(transports_of(options, {})) == ["ssh", "direct", "relay"]


async def test_ssh_goes_where_the_job_was_submitted(tmp_path: Path) -> None:
    way = transports_of(made(tmp_path, channels="ssh"), {})["ssh"]
    with pytest.raises(OSError, match="no login node is known: set ssh_login"):
        await way.open()
    assert (
        vars(transports_of(made(tmp_path, channels="ssh"), {"PBS_O_HOST": "l1"})["ssh"])["_login"]
        == "l1"
    )


def test_proxies_of_tasks_are_not_asked_for_the_gate(tmp_path: Path) -> None:
    options = through_gate(made(tmp_path, https_proxy="http://p:3128", no_proxy="lab"), 4711)
    assert options.proxies["NO_PROXY"] == "lab,127.0.0.1"
    assert "NO_PROXY" not in through_gate(made(tmp_path), 4711).proxies


async def test_other_users_of_the_machine_are_not_let_in(
    tmp_path: Path, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(lambda: connected("127.0.0.1", port.port), tmp_path)
    await gate.open()
    assert await echoed(gate.port) == b"hello"
    other = os.geteuid() + 1
    monkeypatch.setattr("agent_bootstrap.channels.gate.os.geteuid", lambda: other)
    with pytest.raises((OSError, AssertionError)):
        assert await echoed(gate.port)
    monkeypatch.undo()
    await gate.close()


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")]
)
async def test_the_user_of_a_connection_is_found(family: int, host: str) -> None:
    """Java and others connect to 127.0.0.1 by a socket of both families."""
    with socket.socket() as server, socket.socket(family) as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect((host, server.getsockname()[1]))
        taken, peer = server.accept()
        with taken:
            assert owner_of(peer, taken.getsockname()) == os.geteuid()
        assert owner_of(("127.0.0.1", 1), server.getsockname()) is None


async def test_a_gate_that_leads_nowhere_ends_connections(tmp_path: Path) -> None:
    async def nowhere() -> Stream:
        raise ConnectionError("no way")

    gate = Gate(nowhere, tmp_path)
    await gate.open()
    with pytest.raises((OSError, AssertionError)):
        assert await echoed(gate.port)
    await gate.close()


async def test_a_gate_that_closes_ends_what_runs_through_it(tmp_path: Path, port: Port) -> None:
    gate = Gate(lambda: connected("127.0.0.1", port.port), tmp_path)
    stream = await connected("127.0.0.1", await gate.open())
    await stream.write(b"hello")
    assert await stream.read() == b"hello"
    await gate.close()
    async with asyncio.timeout(60):
        assert await stream.read() == b""
    stream.close()
