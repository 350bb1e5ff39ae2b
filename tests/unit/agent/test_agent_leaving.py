"""An agent whose machine goes: it says so at once, and again on every later connection."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_bootstrap.agent.daemon import Agent
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.memory_channel import channel_pair
from agent_bootstrap.protocol import Channel, Heartbeat, Hello, Leaving, Message, Welcome

GOES = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_it_says_so_at_once_and_on_the_next_connection(tmp_path: Path) -> None:
    masters: asyncio.Queue[Channel] = asyncio.Queue()

    async def dial(credential: str) -> Channel:
        ours, theirs = channel_pair()
        masters.put_nowait(ours)
        return theirs

    agent = Agent(
        parse_options(
            {
                "master_url": "http://127.0.0.1:8080",
                "agent_id": "a",
                "artificial_slots": 1,
                "isolation": "directory",
                "work_dir": str(tmp_path / "work"),
            }
        ),
        connect=dial,
    )
    running = asyncio.create_task(agent.run())
    try:
        master = await masters.get()
        hello = await master.receive()
        assert isinstance(hello, Hello)
        assert hello.leaving is None
        await master.send(Welcome(epoch=1, master_id="m", cluster_id="c"))
        await agent._link.connected()
        await agent.leave(GOES, "spot notice")
        await agent.leave(GOES + timedelta(hours=1), "too late to matter")
        assert await _next_but_heartbeats(master) == Leaving(at=GOES, reason="spot notice")
        await master.close()
        hello = await (await masters.get()).receive()
        assert isinstance(hello, Hello)
        assert hello.leaving == Leaving(at=GOES, reason="spot notice")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _next_but_heartbeats(channel: Channel) -> Message:
    while isinstance(message := await channel.receive(), Heartbeat):
        pass
    return message
