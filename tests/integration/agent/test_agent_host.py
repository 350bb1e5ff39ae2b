"""The host process of an embedded instance, with a real agent process and a real WebSocket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from agent_processes import command_lines, eventually, gone, of_container
from agent_scripted_master import ScriptedMaster, spec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from agent_bootstrap.agent.connection.websocket import connect
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.protocol import FROM_AGENT, Channel, ChannelClosed, ContainerState, JoinRefused
from windlass.base.errors import PermissionDenied
from windlass.base.processes import marked_processes, start_time

TOKEN = "join-token-of-the-test"


@asynccontextmanager
async def served(master: ScriptedMaster) -> AsyncIterator[str]:
    """The scripted master behind a WebSocket; its URL."""

    def check(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return connection.respond(401, "wrong join token")
        assert request.path == "/agents?pool=default&agent_id=i-1"
        return None

    async def handle(connection: ServerConnection) -> None:
        channel = await master.connect()

        async def pump() -> None:
            while True:
                await connection.send((await channel.receive()).model_dump_json())

        pumping = asyncio.create_task(pump())
        try:
            async for frame in connection:
                await channel.send(FROM_AGENT.validate_json(frame))
        except (ConnectionClosed, ChannelClosed):
            pass
        finally:
            await channel.close()
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)

    server: Server
    async with serve(handle, "127.0.0.1", 0, process_request=check) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def host(directory: Path, url: str, cid: str) -> AsyncIterator[asyncio.subprocess.Process]:
    agent = {
        "master_url": url,
        "agent_id": "i-1",
        "resource_pool": "default",
        "join_token": TOKEN,
        "work_dir": str(directory / "work"),
        "artificial_slots": 2,
        "instance_id": cid,
    }
    told = {"instance_id": cid, "boot_s": 0.05, "agent": agent}
    directory.mkdir(mode=0o700)  # noqa: ASYNC240
    (directory / "host.json").write_text(json.dumps(told))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "agent_bootstrap.host", "--dir", str(directory)),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def agent_pids(instance: str) -> list[int]:
    marked = marked_processes("WINDLASS_INSTANCE_ID", instance)
    return [pid for pid in marked if b"agent_bootstrap.agent\0" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def isolation() -> str:
    """The agent process finds its own."""
    return "auto"


async def test_the_host_keeps_its_agent_alive_and_the_task_does_not_notice(
    master: ScriptedMaster, tmp_path: Path, cid: str
) -> None:
    async with served(master) as url, host(tmp_path / "i", url, cid) as process:
        await master.start(spec(cid, "sh", "-c", "echo up; sleep 300"))
        await master.until_line(cid, "up")
        state = json.loads((tmp_path / "i" / "host.state").read_text())
        assert (state["pid"], state["start_time"]) == (process.pid, start_time(process.pid))
        assert TOKEN not in command_lines()
        assert TOKEN not in (tmp_path / "i" / "agent.log").read_text()
        (agent,) = agent_pids(cid)
        task = of_container(cid)
        master.reports.clear()
        os.kill(agent, signal.SIGKILL)
        await master.until_state(cid, ContainerState.RUNNING)
        assert agent_pids(cid) != [agent]
        assert of_container(cid) == task
        process.terminate()
        assert await process.wait() == 0
        assert marked_processes("WINDLASS_INSTANCE_ID", cid) == []
        assert of_container(cid) == []


async def test_a_killed_host_takes_everything_with_it(
    master: ScriptedMaster, tmp_path: Path, cid: str
) -> None:
    async with served(master) as url, host(tmp_path / "i", url, cid) as process:
        await master.start(spec(cid, "sh", "-c", "setsid sleep 300 & echo up; wait"))
        await master.until_line(cid, "up")
        below = marked_processes("WINDLASS_INSTANCE_ID", cid)
        assert len(below) >= 5
        process.kill()
        await process.wait()
        await gone(*below)
        await eventually(lambda: of_container(cid) == [])


async def test_a_host_can_be_stopped_while_it_boots(tmp_path: Path, cid: str) -> None:
    async with host(tmp_path / "i", "http://127.0.0.1:9", cid) as process:
        told = json.loads((tmp_path / "i" / "host.json").read_text())
        (tmp_path / "i" / "host.json").write_text(json.dumps(told | {"boot_s": 1000}))
        await eventually((tmp_path / "i" / "join-token").exists)
        assert (tmp_path / "i" / "join-token").stat().st_mode & 0o777 == 0o600
        process.terminate()
        assert await process.wait() == 0


async def test_an_agent_that_is_refused_says_so_once(
    master: ScriptedMaster, tmp_path: Path
) -> None:
    master.answer_hello = lambda _: JoinRefused(reason="two slots have the same number")
    config = tmp_path / "agent.yaml"
    config.touch(mode=0o600)
    async with served(master) as url:
        settings = {"master_url": url, "agent_id": "i-1", "artificial_slots": 1}
        config.write_text(
            json.dumps(settings | {"join_token": TOKEN, "work_dir": str(tmp_path / "work")})
        )
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "agent_bootstrap.agent", "--config-file", str(config)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await agent.communicate()
    assert agent.returncode == 1
    assert said.decode().count("two slots have the same number") == 1


async def test_a_wrong_join_token_is_told_from_an_absent_master(master: ScriptedMaster) -> None:
    async with served(master) as url:
        base = {"master_url": url, "agent_id": "i-1"}
        with pytest.raises(PermissionDenied, match="check the join token"):
            await connect(parse_options(base | {"join_token": "wrong"}), "c")
        channel: Channel = await connect(parse_options(base | {"join_token": TOKEN}), "c")
        await channel.close()
        with pytest.raises(ChannelClosed):
            await channel.receive()
    with pytest.raises(ChannelClosed, match="cannot reach"):
        await connect(parse_options(base | {"join_token": TOKEN}), "c")
